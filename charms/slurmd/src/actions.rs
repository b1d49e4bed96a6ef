//! Requests of the operator to a compute unit. Which there are is here; what they do is in the files below.
//!
//! A request that cannot be met is refused in words, and nothing is done.

mod node;
mod node_config;

use crate::Slurmd;
use crate::facts::{Facts, neighbour, node_name};
use crate::names;
use crate::plan::Planning;
use charm::runtime::Dispatch;
use charm::{ActionFailure, ActionName, ActionResults};
use slurm_conf::HostList;
use slurm_ops::scontrol::{self, NodeLookup, NodeRecord};

/// One action under way.
type Act<'a> = Dispatch<'a, Slurmd>;

/// Answers an action.
pub fn act(act: &Act<'_>, action: &ActionName) -> Result<ActionResults, ActionFailure> {
    if let Some(other) = neighbour(&act.view).map_err(ActionFailure::broken)? {
        return Err(ActionFailure::refused(format!("this machine is node {other}: ask the unit that it belongs to")));
    }
    match action.as_str() {
        names::ACTION_NODE_CONFIG => node_config::node_config(act),
        names::ACTION_SET_NODE_CONFIG => node_config::set_node_config(act),
        names::ACTION_RESUME => node::resume(act),
        names::ACTION_DRAIN => node::drain(act),
        names::ACTION_SHOW_NODE => node::show(act),
        names::ACTION_DESTROY_JOBS => node::destroy_jobs(act),
        other => Err(ActionFailure::refused(format!("this charm has no action {other}"))),
    }
}

/// Does what a hook would do now: what was asked for may make something possible, and the status should tell what is.
fn settle(act: &Act<'_>) -> Result<Facts, ActionFailure> {
    act.settle().map(|settled| settled.facts).map_err(ActionFailure::broken)
}

/// Answers every question that `find` asks.
fn find_out<T>(act: &Act<'_>, facts: &mut Facts, find: impl Fn(&Facts) -> Planning<T>) -> Result<T, ActionFailure> {
    loop {
        match find(facts) {
            Ok(found) => return Ok(found),
            Err(ask) => {
                let questions: Vec<_> = ask.into_questions().into_iter().collect();
                act.know(facts, &questions).map_err(ActionFailure::broken)?;
            }
        }
    }
}

/// Returns this node as a list of one.
fn this_node(act: &Act<'_>) -> HostList {
    let name = node_name(&act.view.ctx.unit);
    name.as_str().parse().expect("invariant: a node's name is a list of one")
}

/// Returns what Slurm knows about this node. Without a record there is nothing to act on.
fn record(act: &Act<'_>) -> Result<NodeRecord, ActionFailure> {
    let name = node_name(&act.view.ctx.unit);
    match scontrol::node(&act.view.host, &name) {
        NodeLookup::Present(record) => Ok(record),
        NodeLookup::Absent => Err(ActionFailure::refused(format!("slurmctld does not know node {name} (yet)"))),
        NodeLookup::Unreachable { why } => Err(ActionFailure::refused(format!("slurmctld does not answer: {why}"))),
    }
}
