//! Requests of the operator to a compute unit. Which there are is here; what they do is in the files below.
//!
//! A request that cannot be met is refused in words, and nothing is done.

mod jobs;
mod node;
mod node_config;

use crate::Slurmd;
use crate::names;
use crate::observe;
use charm::{ActionFailure, ActionName, ActionResults};
use slurm_conf::NodeName;
use slurm_ops::scontrol;
use slurm_ops::scontrol::{NodeLookup, NodeRecord, ScontrolError};

/// Answers an action.
pub fn act(charm: &mut Slurmd, action: &ActionName) -> Result<ActionResults, ActionFailure> {
    let other = observe::occupant(&charm.ctx, &charm.machine, &charm.node_name()).map_err(ActionFailure::broken)?;
    if let Some(other) = other {
        return Err(ActionFailure::refused(format!("this machine is node {other}: ask the unit that it belongs to")));
    }
    match action.as_str() {
        names::ACTION_NODE_CONFIG => node_config::node_config(charm),
        names::ACTION_SET_NODE_CONFIG => node_config::set_node_config(charm),
        names::ACTION_RESUME => node::resume(charm),
        names::ACTION_DRAIN => node::drain(charm),
        names::ACTION_SHOW_NODE => node::show(charm),
        names::ACTION_DESTROY_JOBS => jobs::destroy(charm),
        other => Err(ActionFailure::refused(format!("this charm has no action {other}"))),
    }
}

/// An action that wants to be told nothing.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Slurmd {
    fn node_name(&self) -> NodeName {
        NodeName::from_unit(self.ctx.unit.as_str()).expect("invariant: a unit's name makes a node's name")
    }

    /// Does what a hook would do now: what was asked for may make something possible, and the status should tell what is.
    fn look_again(&mut self) -> Result<(), ActionFailure> {
        let tools = self.tools.clone();
        let rounds = charm::reconcile::reconcile(self, &tools, &charm::log::Journal::default());
        rounds.map(drop).map_err(ActionFailure::broken)
    }

    /// Returns what Slurm knows about this node. Without a record there is nothing to act on.
    fn record(&self) -> Result<NodeRecord, ActionFailure> {
        let name = self.node_name();
        match scontrol::node(&self.machine.host(), &name) {
            NodeLookup::Present(record) => Ok(record),
            NodeLookup::Absent => Err(ActionFailure::refused(format!("slurmctld does not know node {name} (yet)"))),
            NodeLookup::Unreachable { why } => Err(ActionFailure::refused(format!("slurmctld does not answer: {why}"))),
        }
    }
}

/// What Slurm says no to is an answer; that it could not be asked is one as well, since the operator can look why.
fn refused(attempt: &str, error: &ScontrolError) -> ActionFailure {
    match error {
        ScontrolError::Refused { reason, .. } => ActionFailure::refused(format!("{attempt}: {reason}")),
        ScontrolError::Unreachable { why } => {
            ActionFailure::refused(format!("{attempt}: slurmctld does not answer: {why}"))
        }
    }
}

/// Checks a text that goes into Slurm's tables: on one line, not empty, of a length that fits.
fn one_line(parameter: &str, text: &str) -> Result<String, ActionFailure> {
    const LONGEST: usize = 256;
    let text = text.trim();
    let problem = if text.is_empty() {
        "expected a text"
    } else if text.chars().any(char::is_control) {
        "expected one line without control characters"
    } else if text.chars().count() > LONGEST {
        "expected at most 256 characters"
    } else {
        return Ok(text.to_owned());
    };
    let found: String = text.escape_debug().take(80).collect();
    Err(ActionFailure::refused(format!("{parameter} `{found}`: {problem}")))
}
