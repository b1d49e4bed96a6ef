//! Requests of the operator to a controller: who answers which, and what all of them have in common.

mod adopt;
mod config;
mod controllers;
mod explain;
mod lost_jobs;
mod nodes;
mod reboot;
mod rotate;
mod smoke;
mod token;

use crate::{Slurmctld, names};
use charm::runtime::Dispatch;
use charm::{ActionFailure, ActionName, ActionResults};
use serde_json::Value;
use slurm_interface::PeerUnit;
use slurm_ops::systemd;

/// One action under way.
type Act<'a> = Dispatch<'a, Slurmctld>;

/// Answers an action.
pub fn act(act: &Act<'_>, action: &ActionName) -> Result<ActionResults, ActionFailure> {
    match action.as_str() {
        names::ACTION_RESUME => nodes::resume(act),
        names::ACTION_DRAIN => nodes::drain(act),
        names::ACTION_SET_NODE_STATE => nodes::set_state(act),
        names::ACTION_SHOW_NODES => nodes::show(act),
        names::ACTION_SHOW_CONFIG => config::show(act),
        names::ACTION_SHOW_CONTROLLERS => controllers::show(act),
        names::ACTION_TAKEOVER => controllers::takeover(act),
        names::ACTION_ADOPT => adopt::adopt(act),
        names::ACTION_DESTROY_JOBS => nodes::destroy_jobs(act),
        names::ACTION_SMOKE_TEST => smoke::test(act),
        names::ACTION_REBOOT => reboot::reboot(act),
        names::ACTION_EXPLAIN => explain::explain(act),
        names::ACTION_TOKEN => token::token(act),
        names::ACTION_ROTATE_AUTH_KEY => rotate::auth_key(act),
        names::ACTION_ROTATE_JWT_KEY => rotate::jwt_key(act),
        other => Err(ActionFailure::refused(format!("this charm has no action {other}"))),
    }
}

/// Refuses on a unit whose slurmctld does not run, and names one that has it.
fn require_daemon(act: &Act<'_>) -> Result<(), ActionFailure> {
    let state = systemd::state(&act.view.host, names::SERVICE).map_err(ActionFailure::broken)?;
    if state.is_active() {
        return Ok(());
    }
    let others = other_controllers(act)?;
    let go = match others.as_slice() {
        [] => "see its status".to_owned(),
        others => format!("run this action on {}", others.join(" or ")),
    };
    Err(ActionFailure::refused(format!("slurmctld does not run on {}: {go}", act.view.ctx.unit)))
}

/// Returns the other units that have said where their slurmctld is; if none has, all others that are to stay.
///
/// Asked of the controller: the agent of a unit that has just come knows nobody yet.
fn other_controllers(act: &Act<'_>) -> Result<Vec<String>, ActionFailure> {
    let endpoint = names::ENDPOINT_PEER.parse().expect("invariant: our own endpoints have proper names");
    let others: Vec<_> =
        act.tools.goal_state()?.planned_units().into_iter().filter(|unit| *unit != act.view.ctx.unit).collect();
    let mut found = Vec::new();
    for relation in act.tools.relation_ids(&endpoint)? {
        for unit in &others {
            let bag = act.tools.relation_get_remote_unit(&relation, unit)?.unwrap_or_default();
            if PeerUnit::decode(&bag).is_ok_and(|bag| bag.is_some()) {
                found.push(unit.to_string());
            }
        }
    }
    Ok(if found.is_empty() { others.iter().map(ToString::to_string).collect() } else { found })
}

/// Somewhat below what Juju takes as one value of an answer: a longer one would be cut, and a cut list is no JSON.
const LONGEST_LIST: usize = 100 * 1024;

/// Adds nodes to an answer, as JSON and as the table of the first so many, as many as an answer can hold. If some are
/// left out the first and the last of these are named, so that the operator can ask for them.
fn with_nodes(results: ActionResults, nodes: &[Value], table: impl FnOnce(usize) -> String) -> ActionResults {
    let mut size = 2;
    let fits = |node: &&Value| {
        size += node.to_string().len() + 1;
        size <= LONGEST_LIST
    };
    let (shown, left_out) = nodes.split_at(nodes.iter().take_while(fits).count());
    let results = results.with("nodes", Value::from(shown).to_string()).with("table", table(shown.len()));
    let name = |node: &Value| node["node"].as_str().unwrap_or_default().to_owned();
    let (Some(first), Some(last)) = (left_out.first().map(name), left_out.last().map(name)) else { return results };
    let count = left_out.len();
    results.with("left-out", format!("{count} nodes, from {first} to {last}: name them in parameter `nodes`"))
}
