//! Nodes: put them aside, back into service, show them, and end their jobs.

use super::lost_jobs::LostJobs;
use super::{Act, ActionFailure, ActionResults, require_daemon, with_nodes};
use crate::reboots::Reboots;
use charm::text::shown;
use serde::Deserialize;
use serde_json::{Value, json};
use slurm_conf::HostList;
use slurm_ops::scontrol::{self, NodeRecord, NodeWord};
use slurm_unit::actions::{self, NodeChoice, needed_reason, reason, refused};
use slurm_unit::note::{self, Noted};

#[derive(Debug, Deserialize)]
struct Resume {
    nodename: String,
}

pub(super) fn resume(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: Resume = act.tools.action_get()?;
    let choice = NodeChoice::needed("nodename", &request.nodename)?;
    let nodes = chosen(act, &choice, &format!("Error resuming {choice}: "))?;
    actions::resume(&act.hands.host, &nodes)
}

#[derive(Debug, Deserialize)]
struct Drain {
    nodename: String,
    reason: String,
}

pub(super) fn drain(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: Drain = act.tools.action_get()?;
    let choice = NodeChoice::needed("nodename", &request.nodename)?;
    let reason = needed_reason(&request.reason)?;
    let nodes = chosen(act, &choice, &format!("Error draining {choice}: "))?;
    actions::drain(&act.hands.host, &nodes, reason)
}

#[derive(Debug, Deserialize)]
struct Destroy {
    nodes: String,
    #[serde(default, rename = "dry-run")]
    dry_run: bool,
}

pub(super) fn destroy_jobs(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: Destroy = act.tools.action_get()?;
    let nodes = chosen(act, &NodeChoice::needed("nodes", &request.nodes)?, "")?;
    let machine = (&act.view.host, &act.hands.host, &act.hands.juju);
    actions::destroy_jobs(machine, &nodes, None, request.dry_run)
}

#[derive(Debug, Deserialize)]
struct SetState {
    nodes: String,
    state: String,
    #[serde(default)]
    reason: String,
}

pub(super) fn set_state(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: SetState = act.tools.action_get()?;
    let choice = NodeChoice::needed("nodes", &request.nodes)?;
    let state: NodeWord = serde_json::from_value(json!(request.state.trim().to_ascii_lowercase())).map_err(|_| {
        let expected = "expected one of idle, resume, undrain, drain, down, fail, failing";
        ActionFailure::refused(format!("parameter `state`: `{}`: {expected}", shown(&request.state)))
    })?;
    let why = reason(&request.reason)?;
    let word = state.as_str();
    let attempt = format!("Failed to set state of node(s) {choice} to state '{word}'. reason:");
    let nodes = chosen(act, &choice, &format!("{attempt}\n"))?;
    if !state.wants_reason() && !why.is_empty() {
        act.hands.juju.action_log(&format!(
            "Warning: The '{word}' state does not require a reason to be set. Not updating to node(s) {nodes} 'reason' \
             field to '{why}'."
        ))?;
    }
    let why = state.wants_reason().then_some(if why.is_empty() { "n/a" } else { why });
    scontrol::set_nodes_state(&act.hands.host, &nodes, state, why).map_err(|error| refused(&attempt, &error))?;
    Ok(ActionResults::default().with("state", word).with("nodes", nodes.to_string()))
}

#[derive(Debug, Deserialize)]
struct Show {
    #[serde(default)]
    nodes: String,
}

pub(super) fn show(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: Show = act.tools.action_get()?;
    let wanted = NodeChoice::read("nodes", &request.nodes)?;
    require_daemon(act)?;
    let records = select(act, wanted.as_ref())?;
    let remarks = Remarks::look(act, &records)?;
    let rows: Vec<Row> = records.iter().map(|record| row(record, &remarks)).collect();
    let entry = |[name, state, partitions, unit, reason, remarks]: &Row| {
        let mut entry = json!({"node": name, "state": state, "partitions": partitions, "unit": unit, "reason": reason});
        if !remarks.is_empty() {
            entry["remarks"] = json!(remarks);
        }
        entry
    };
    let mut results = ActionResults::default().with("count", rows.len().to_string());
    if remarks.lost.not_asked > 0 {
        let count = remarks.lost.not_asked;
        results = results.with("not-asked", format!("the nodes of {count} jobs: name some in parameter `nodes`"));
    }
    Ok(with_nodes(results, &rows.iter().map(entry).collect::<Vec<Value>>(), |shown| table(&rows[..shown])))
}

/// What this charm knows about nodes that Slurm does not show.
struct Remarks {
    reboots: Noted<Reboots>,
    lost: LostJobs,
    now: u64,
}

impl Remarks {
    fn look(act: &Act<'_>, records: &[NodeRecord]) -> Result<Self, ActionFailure> {
        let reboots = note::read(&act.view.host).map_err(ActionFailure::broken)?;
        Ok(Self { reboots, lost: LostJobs::look(&act.view.host, records), now: act.view.host.now() })
    }

    fn of(&self, node: &str) -> String {
        let reboot = self.reboots.known().and_then(|reboots| reboots.remark(node, self.now));
        let lost = self.lost.on(node).map(|job| format!("job {} has no process here", job.handle()));
        reboot.into_iter().chain(lost).collect::<Vec<_>>().join("; ")
    }
}

/// Name, state, partitions, unit, reason, remarks.
type Row = [String; 6];

fn row(record: &NodeRecord, remarks: &Remarks) -> Row {
    [
        record.name.clone(),
        record.state_text(),
        record.partitions.join(","),
        unit_of(record).unwrap_or_default(),
        if is_aside(record) { record.reason.clone() } else { String::new() },
        remarks.of(&record.name),
    ]
}

/// Returns the records of nodes, all or the chosen ones. What names no node is refused.
pub(super) fn select(act: &Act<'_>, wanted: Option<&NodeChoice>) -> Result<Vec<NodeRecord>, ActionFailure> {
    let mut records = scontrol::nodes(&act.view.host).map_err(|error| refused("could not list the nodes", &error))?;
    records.sort_by(|one, other| one.name.cmp(&other.name));
    if let Some(wanted) = wanted {
        let chosen = wanted.of(&records).map_err(ActionFailure::refused)?;
        records.retain(|record| chosen.contains(&record.name));
    }
    Ok(records)
}

/// Returns the chosen nodes. A list that has a node which Slurm does not know is refused before anything is done: Slurm
/// would change the others and then fail. `attempt` begins the answer.
fn chosen(act: &Act<'_>, wanted: &NodeChoice, attempt: &str) -> Result<HostList, ActionFailure> {
    require_daemon(act)?;
    let records = scontrol::nodes(&act.view.host).map_err(|error| refused("could not list the nodes", &error))?;
    wanted.of(&records).map_err(|why| ActionFailure::Refused(format!("{attempt}{why}")))
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

/// The last column is there only if it says something.
fn table(rows: &[Row]) -> String {
    let remarks = if rows.iter().all(|row| row[5].is_empty()) { "" } else { "REMARKS" };
    charm::text::table(&["node", "state", "partitions", "unit", "reason", remarks], rows)
}
