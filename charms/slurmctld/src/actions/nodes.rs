//! Nodes: put them aside, back into service, and show them.

use super::{ActionFailure, ActionResults, Dispatch, host_list, needed_host_list, reason, shown, told};
use serde::Deserialize;
use serde_json::json;
use slurm_conf::HostList;
use slurm_ops::scontrol::{self, NodeRecord, NodeWord};
use std::collections::BTreeSet;

#[derive(Debug, Deserialize)]
pub(super) struct Resume {
    nodename: String,
}

pub(super) fn resume(
    request: &Resume,
    daemon: impl FnOnce() -> Result<(), ActionFailure>,
    on: &Dispatch<'_>,
) -> Result<ActionResults, ActionFailure> {
    let nodes = needed_host_list("nodename", &request.nodename)?;
    let refused = |why: &str| format!("Error resuming {nodes}: {why}");
    daemon()?;
    all_known(on, &nodes, refused)?;
    // A node that is in service already is what was wanted.
    scontrol::resume_nodes(&on.hands.host, &nodes).map_err(|error| told(error, refused))?;
    Ok(ActionResults::default().with("status", "resuming").with("nodes", nodes.to_string()))
}

#[derive(Debug, Deserialize)]
pub(super) struct Drain {
    nodename: String,
    reason: String,
}

pub(super) fn drain(
    request: &Drain,
    daemon: impl FnOnce() -> Result<(), ActionFailure>,
    on: &Dispatch<'_>,
) -> Result<ActionResults, ActionFailure> {
    let nodes = needed_host_list("nodename", &request.nodename)?;
    let reason = reason(&request.reason)?;
    if reason.is_empty() {
        return Err(ActionFailure::refused("parameter `reason`: Slurm drains no node without one"));
    }
    let refused = |why: &str| format!("Error draining {nodes}: {why}");
    daemon()?;
    all_known(on, &nodes, refused)?;
    scontrol::drain_nodes(&on.hands.host, &nodes, reason).map_err(|error| told(error, refused))?;
    Ok(ActionResults::default().with("status", "draining").with("nodes", nodes.to_string()))
}

#[derive(Debug, Deserialize)]
pub(super) struct SetState {
    nodes: String,
    state: String,
    #[serde(default)]
    reason: String,
}

pub(super) fn set_state(
    request: &SetState,
    daemon: impl FnOnce() -> Result<(), ActionFailure>,
    on: &Dispatch<'_>,
) -> Result<ActionResults, ActionFailure> {
    let nodes = needed_host_list("nodes", &request.nodes)?;
    let state: NodeWord = serde_json::from_value(json!(request.state.trim().to_ascii_lowercase())).map_err(|_| {
        let expected = "expected one of idle, resume, undrain, drain, down, fail, failing";
        ActionFailure::refused(format!("parameter `state`: `{}`: {expected}", shown(&request.state)))
    })?;
    let why = reason(&request.reason)?;
    let refused =
        |why: &str| format!("Failed to set state of node(s) {nodes} to state '{}'. reason:\n{why}", state.as_str());
    daemon()?;
    all_known(on, &nodes, refused)?;
    if !state.wants_reason() && !why.is_empty() {
        let state = state.as_str();
        on.tools.writer().action_log(&format!(
            "Warning: The '{state}' state does not require a reason to be set. Not updating to node(s) {nodes} 'reason' field to '{why}'."
        ))?;
    }
    let why = state.wants_reason().then_some(if why.is_empty() { "n/a" } else { why });
    scontrol::set_nodes_state(&on.hands.host, &nodes, state, why).map_err(|error| told(error, refused))?;
    Ok(ActionResults::default().with("state", state.as_str()).with("nodes", nodes.to_string()))
}

#[derive(Debug, Deserialize)]
pub(super) struct Show {
    #[serde(default)]
    nodes: String,
}

pub(super) fn show(
    request: &Show,
    daemon: impl FnOnce() -> Result<(), ActionFailure>,
    on: &Dispatch<'_>,
) -> Result<ActionResults, ActionFailure> {
    let wanted = host_list("nodes", &request.nodes)?;
    daemon()?;
    let records = select(on, wanted.as_ref())?;
    let rows: Vec<[String; 5]> = records
        .iter()
        .map(|record| {
            [
                record.name.clone(),
                record.state_text(),
                record.partitions.join(","),
                unit_of(record).unwrap_or_default(),
                if is_aside(record) { record.reason.clone() } else { String::new() },
            ]
        })
        .collect();
    let list: Vec<serde_json::Value> = rows
        .iter()
        .map(|[name, state, partitions, unit, reason]| {
            json!({"node": name, "state": state, "partitions": partitions, "unit": unit, "reason": reason})
        })
        .collect();
    Ok(ActionResults::default()
        .with("count", rows.len().to_string())
        .with("nodes", json!(list).to_string())
        .with("table", table(&rows)))
}

/// Returns the records of nodes, all or those of a list. One that Slurm does not know is refused by name.
pub(super) fn select(on: &Dispatch<'_>, wanted: Option<&HostList>) -> Result<Vec<NodeRecord>, ActionFailure> {
    let mut records = scontrol::nodes(&on.view.host).map_err(|error| told(error, str::to_owned))?;
    records.sort_by(|one, other| one.name.cmp(&other.name));
    let Some(wanted) = wanted else { return Ok(records) };
    if let Some(stranger) = stranger(&records, wanted) {
        return Err(ActionFailure::refused(stranger));
    }
    records.retain(|record| wanted.contains(&record.name));
    Ok(records)
}

/// Refuses a list that has a node which Slurm does not know, before anything is done: Slurm would change the others and then fail.
fn all_known(on: &Dispatch<'_>, wanted: &HostList, said: impl Fn(&str) -> String + Copy) -> Result<(), ActionFailure> {
    let records = scontrol::nodes(&on.view.host).map_err(|error| told(error, said))?;
    stranger(&records, wanted).map_or(Ok(()), |stranger| Err(ActionFailure::refused(said(&stranger))))
}

/// Names those of a list that are not among the nodes.
fn stranger(records: &[NodeRecord], wanted: &HostList) -> Option<String> {
    const NAMED: usize = 10;
    let known: BTreeSet<&str> = records.iter().map(|record| record.name.as_str()).collect();
    let unknown: Vec<String> = wanted.expand().filter(|name| !known.contains(name.as_str())).take(NAMED).collect();
    (!unknown.is_empty()).then(|| format!("Slurm knows no node {}", unknown.join(", ")))
}

/// The reason stays in Slurm's records when a node has returned, so it is of interest only while the node is put aside.
pub(super) fn is_aside(record: &NodeRecord) -> bool {
    ["DOWN", "DRAIN", "FAIL", "INVALID_REG", "NOT_RESPONDING"].iter().any(|state| record.has(state))
}

/// Returns the unit that a node belongs to, `compute/0` of `compute-0`, if its features confirm it.
pub(super) fn unit_of(record: &NodeRecord) -> Option<String> {
    let (app, number) = record.name.rsplit_once('-')?;
    let numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (numbered && record.features.iter().any(|feature| feature == app)).then(|| format!("{app}/{number}"))
}

fn table(rows: &[[String; 5]]) -> String {
    let head = ["NODE", "STATE", "PARTITIONS", "UNIT", "REASON"].map(str::to_owned);
    let all: Vec<&[String; 5]> = std::iter::once(&head).chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..4).map(width).collect();
    let line = |row: &&[String; 5]| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        format!("{}  {}", cells.join("  "), row[4]).trim_end().to_owned()
    };
    all.iter().map(line).collect::<Vec<_>>().join("\n")
}
