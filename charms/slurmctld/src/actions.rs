//! Requests of the operator to a controller: who answers which, and what all of them have in common.

mod config;
mod explain;
mod jobs;
mod nodes;
mod smoke;

use crate::{Slurmctld, names};
use charm::{ActionFailure, ActionName, ActionResults};
use slurm_conf::HostList;
use slurm_interface::PeerUnit;
use slurm_ops::scontrol::ScontrolError;
use slurm_ops::systemd;

/// The dispatch of an action.
type Dispatch<'a> = charm::runtime::Dispatch<'a, Slurmctld>;

/// Answers an action.
pub fn act(on: &Dispatch<'_>, action: &ActionName) -> Result<ActionResults, ActionFailure> {
    let (tools, daemon) = (on.tools, || require_daemon(on));
    match action.as_str() {
        names::ACTION_RESUME => nodes::resume(&tools.action_get()?, daemon, on),
        names::ACTION_DRAIN => nodes::drain(&tools.action_get()?, daemon, on),
        names::ACTION_SET_NODE_STATE => nodes::set_state(&tools.action_get()?, daemon, on),
        names::ACTION_SHOW_NODES => nodes::show(&tools.action_get()?, daemon, on),
        names::ACTION_SHOW_CONFIG => config::show(on),
        names::ACTION_DESTROY_JOBS => jobs::destroy(&tools.action_get()?, daemon, on),
        names::ACTION_SMOKE_TEST => smoke::test(&tools.action_get()?, daemon, on),
        names::ACTION_EXPLAIN => explain::explain(&tools.action_get()?, daemon, &on.view.ctx.unit.app(), on),
        other => Err(ActionFailure::refused(format!("this charm has no action {other}"))),
    }
}

/// Refuses on a unit whose slurmctld does not run, and names one that has it.
fn require_daemon(on: &Dispatch<'_>) -> Result<(), ActionFailure> {
    let state = systemd::state(&on.view.host, names::SERVICE).map_err(ActionFailure::broken)?;
    if state.is_active() {
        return Ok(());
    }
    let others = controllers(on)?;
    let go = match others.as_slice() {
        [] => "see its status".to_owned(),
        others => format!("run this action on {}", others.join(" or ")),
    };
    Err(ActionFailure::refused(format!("slurmctld does not run on {}: {go}", on.view.ctx.unit)))
}

/// Returns the other units that have said where their slurmctld is; if none has, all others that are to stay.
///
/// Asked of the controller: the agent of a unit that has just come knows nobody yet.
fn controllers(on: &Dispatch<'_>) -> Result<Vec<String>, ActionFailure> {
    let endpoint = names::ENDPOINT_PEER.parse().expect("invariant: our own endpoints have proper names");
    let others: Vec<_> =
        on.tools.goal_state()?.planned_units().into_iter().filter(|unit| *unit != on.view.ctx.unit).collect();
    let mut found = Vec::new();
    for relation in on.tools.relation_ids(&endpoint)? {
        for unit in &others {
            let bag = on.tools.relation_get_remote_unit(&relation, unit)?.unwrap_or_default();
            if PeerUnit::decode(&bag).is_ok_and(|bag| bag.is_some()) {
                found.push(unit.to_string());
            }
        }
    }
    Ok(if found.is_empty() { others.iter().map(ToString::to_string).collect() } else { found })
}

/// The most of a foreign text that an answer repeats.
const SHOWN: usize = 200;

fn shown(text: &str) -> String {
    text.chars().flat_map(char::escape_debug).take(SHOWN).collect()
}

/// Reads a list of nodes in Slurm's notation. An empty one is none.
fn host_list(parameter: &str, text: &str) -> Result<Option<HostList>, ActionFailure> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    // Longer than any name of a node: not even looked at.
    const LONGEST: usize = 16 * 1024;
    match Some(text).filter(|text| text.len() <= LONGEST).and_then(|text| HostList::of_nodes(text).ok()) {
        Some(nodes) => Ok(Some(nodes)),
        None => Err(ActionFailure::refused(format!(
            "parameter `{parameter}`: `{}`: expected names as in `compute-0` or `compute-[0-3],gpu-1`",
            shown(text)
        ))),
    }
}

fn needed_host_list(parameter: &str, text: &str) -> Result<HostList, ActionFailure> {
    let missing = || {
        ActionFailure::refused(format!("parameter `{parameter}`: expected names as in `compute-0` or `compute-[0-3]`"))
    };
    host_list(parameter, text)?.ok_or_else(missing)
}

/// Checks a text that goes into Slurm's tables: one printable line of a decent length.
fn reason(text: &str) -> Result<&str, ActionFailure> {
    const LONGEST: usize = 200;
    let text = text.trim();
    let refused = |what: &str| Err(ActionFailure::refused(format!("parameter `reason`: `{}`: {what}", shown(text))));
    if text.chars().any(char::is_control) {
        return refused("expected one line of printable text");
    }
    if text.chars().count() > LONGEST {
        return refused("expected at most 200 characters");
    }
    Ok(text)
}

/// What Slurm says no to is the operator's to hear; that nobody could be asked is a failure.
fn told(error: ScontrolError, said: impl FnOnce(&str) -> String) -> ActionFailure {
    match error {
        ScontrolError::Refused { reason, .. } => ActionFailure::refused(said(&reason)),
        error @ ScontrolError::Unreachable { .. } => ActionFailure::refused(error.to_string()),
    }
}
