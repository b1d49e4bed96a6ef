//! Nodes in Slurm's eyes: look them up, drain them, open them, delete them.
//!
//! Slurm changes every member of a list that it can, and then fails if there was one that it could not.

use super::{MaybeNumber, Refusal, ScontrolError, change, one_line, scontrol};
use crate::machine::{Host, HostWriter};
use serde::{Deserialize, Serialize};
use slurm_conf::{HostList, NodeName};
use std::fmt;
use std::time::{Duration, Instant};

/// What slurmctld knows about a node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NodeRecord {
    /// Its name.
    pub name: String,
    /// The base state first (`IDLE`, `ALLOCATED`, `MIXED`, `DOWN` …), then flags (`DRAIN`, `DYNAMIC_NORM`,
    /// `INVALID_REG`, `NOT_RESPONDING` …).
    pub state: Vec<String>,
    /// Why an administrator or Slurm set it aside. Stays after the node has returned: never read it without the state.
    pub reason: String,
    /// Host name of its machine.
    pub hostname: String,
    /// The partitions that it is in.
    pub partitions: Vec<String>,
    /// Its features.
    pub features: Vec<String>,
    /// Memory that it registered with, in MiB.
    pub real_memory: u64,
    /// Processors that it registered with.
    pub cpus: u64,
    /// Free text; [`save_node`] leaves a mark there.
    #[serde(default)]
    pub comment: String,
    /// Where slurmctld looks for it: whence slurmd registered last.
    #[serde(default)]
    pub address: String,
    /// Who gave the reason. Slurm's own user: Slurm itself, or a `State=` that the node brought along.
    #[serde(rename = "reason_set_by_user", default)]
    pub reason_by: String,
    /// Nodes of less weight are taken first. One that is not told is 1.
    #[serde(default = "default_weight")]
    pub weight: u64,
    /// Generic resources, as in `gpu:tesla_t4:2(S:0)`; empty without any.
    #[serde(default)]
    pub gres: String,
    /// Version of its slurmd; empty before the first registration.
    #[serde(default)]
    pub version: String,
    /// When its machine has booted, in seconds since 1970, give or take one. `None`: it has not said since slurmctld
    /// was started. A container says when its host has.
    #[serde(rename = "boot_time", default, deserialize_with = "time")]
    pub booted: Option<u64>,
    /// When its slurmd was started, in seconds since 1970. `None`: it has not said since slurmctld was started.
    #[serde(rename = "slurmd_start_time", default, deserialize_with = "time")]
    pub started: Option<u64>,
    /// What an administrator noted there.
    #[serde(flatten)]
    pub notes: NodeNotes,
}

/// A time that Slurm does not know is 0.
fn time<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(MaybeNumber::deserialize(deserializer)?.finite().filter(|seconds| *seconds > 0))
}

/// What an administrator can set on a node that is neither its state nor part of how it describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeNotes {
    /// Any text.
    pub extra: String,
    /// The name of the machine in a cloud.
    pub instance_id: String,
    /// The kind of machine in a cloud.
    pub instance_type: String,
    /// How tasks are bound to processors unless they say otherwise: a number that stands for a word.
    pub cpu_binding: u64,
}

impl NodeNotes {
    /// Returns what is set, as `scontrol update` takes it.
    fn settings(&self) -> Vec<String> {
        let binding = match self.cpu_binding {
            2 => "thread",
            4 => "core",
            8 => "socket",
            16 => "ldom",
            32 => "none",
            _ => "",
        };
        let notes = [
            ("extra", self.extra.as_str()),
            ("instanceid", &self.instance_id),
            ("instancetype", &self.instance_type),
            ("cpubind", binding),
        ];
        let set = notes.into_iter().filter(|(_, value)| !value.is_empty());
        set.map(|(key, value)| format!("{key}={}", one_line(value))).collect()
    }

    /// Tells whether another node has all that is set here.
    pub fn are_in(&self, other: &Self) -> bool {
        self.settings().iter().all(|setting| other.settings().contains(setting))
    }
}

fn default_weight() -> u64 {
    1
}

impl NodeRecord {
    /// Tells whether the node is in a state or carries a flag.
    pub fn has(&self, state: &str) -> bool {
        self.state.iter().any(|own| own.eq_ignore_ascii_case(state))
    }

    /// Tells whether the node takes jobs: up, in a partition, and neither drained nor silent nor misconfigured.
    pub fn is_usable(&self) -> bool {
        let up = ["IDLE", "ALLOCATED", "MIXED"].iter().any(|state| self.has(state));
        let aside = ["DRAIN", "NOT_RESPONDING", "INVALID_REG", "FAIL", "MAINTENANCE", "POWERED_DOWN", "REBOOT_ISSUED"];
        up && !self.partitions.is_empty() && !aside.iter().any(|flag| self.has(flag))
    }

    /// Tells whether it registered by itself, and is in no file.
    pub fn is_dynamic(&self) -> bool {
        self.state.iter().any(|flag| flag.to_ascii_uppercase().starts_with("DYNAMIC"))
    }

    /// Tells whether it takes no new jobs because somebody, or Slurm, has put it aside.
    pub fn is_set_aside(&self) -> bool {
        self.has("DRAIN") || self.has("DOWN")
    }

    /// Tells whether slurmctld is about to ask it to register: some seconds after its start it asks every node that it
    /// has loaded. A slurmd that is asked registers, also when its record was deleted meanwhile: the node comes back.
    pub fn is_to_register(&self) -> bool {
        self.started.is_none() && !self.has("NOT_RESPONDING") && !self.has("INVALID_REG")
    }

    /// Tells whether Slurm is to reboot it, or does.
    pub fn is_rebooting(&self) -> bool {
        self.has("REBOOT_REQUESTED") || self.has("REBOOT_ISSUED")
    }

    /// Returns the state as Slurm's tools write it, such as `IDLE+DRAIN`.
    pub fn state_text(&self) -> String {
        self.state.join("+")
    }
}

/// The answer to "is there such a node".
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one of these is made for each question, and none is kept")]
pub enum NodeLookup {
    /// slurmctld knows it.
    Present(NodeRecord),
    /// slurmctld answered, and does not know it.
    Absent,
    /// Nobody could be asked.
    Unreachable {
        /// The last thing that was said about it.
        why: String,
    },
}

/// Looks a node up.
pub fn node(host: &Host, name: &NodeName) -> NodeLookup {
    match show(host, Some(name)) {
        Ok(nodes) => {
            nodes.into_iter().find(|node| node.name == name.as_str()).map_or(NodeLookup::Absent, NodeLookup::Present)
        }
        Err(ScontrolError::Unreachable { why }) => NodeLookup::Unreachable { why },
        // "Node x not found", which 24.11 says only without JSON, is an answer. Any other refusal is not one to this
        // question.
        Err(ScontrolError::Refused { reason, .. }) if reason.ends_with("not found") => NodeLookup::Absent,
        Err(ScontrolError::Refused { reason, .. }) => NodeLookup::Unreachable { why: reason },
    }
}

/// Waits for as long as `patience` until slurmctld hears from a node, and then no longer. One that was put back into
/// service counts as silent until it has answered once.
pub fn await_contact(writer: &HostWriter, name: &NodeName, patience: Duration) {
    const PAUSE: Duration = Duration::from_millis(200);
    let end = Instant::now() + patience;
    let silent = |lookup: NodeLookup| matches!(lookup, NodeLookup::Present(record) if record.has("NOT_RESPONDING"));
    while silent(node(writer.host(), name)) && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
}

/// Lists every node.
pub fn nodes(host: &Host) -> Result<Vec<NodeRecord>, ScontrolError> {
    show(host, None)
}

fn show(host: &Host, name: Option<&NodeName>) -> Result<Vec<NodeRecord>, ScontrolError> {
    #[derive(Deserialize)]
    struct Nodes {
        nodes: Vec<NodeRecord>,
    }
    let name = name.map(NodeName::as_str);
    super::ask::<Nodes>(|json| scontrol(host).args(["show", "node"]).args(name).arg(json)).map(|answer| answer.nodes)
}

/// One node, or several: names that Slurm may be given as they are.
pub trait Nodes: fmt::Display {}

impl Nodes for NodeName {}
impl Nodes for HostList {}

/// Keeps new jobs from nodes; running ones go on. Slurm insists on a reason. Where one node is not there, the others
/// are drained all the same.
pub fn drain_nodes(writer: &HostWriter, nodes: &impl Nodes, reason: &str) -> Result<(), ScontrolError> {
    update(writer, nodes, &["state=drain", &reason_argument(reason)])
}

/// Opens nodes, and tells with `false` that one of them at least was open already. Where one is not there, the others
/// are opened all the same.
pub fn resume_nodes(writer: &HostWriter, nodes: &impl Nodes) -> Result<bool, ScontrolError> {
    match update(writer, nodes, &["state=resume"]) {
        Ok(()) => Ok(true),
        Err(error) if error.refusal() == Some(Refusal::NodeState) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sets several nodes to a state by its word, for whoever passes an administrator's choice on. Words that put nodes
/// aside come with a reason. Where one node is not there, the others are changed all the same.
pub fn set_nodes_state(
    writer: &HostWriter,
    nodes: &HostList,
    state: NodeWord,
    reason: Option<&str>,
) -> Result<(), ScontrolError> {
    let state = format!("state={}", state.as_str());
    let reason = reason.map(reason_argument);
    let changes: Vec<&str> = [Some(state.as_str()), reason.as_deref()].into_iter().flatten().collect();
    update(writer, nodes, &changes)
}

/// A state that an administrator can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeWord {
    /// Up and without jobs.
    Idle,
    /// Back in service, whatever it was.
    Resume,
    /// No longer drained.
    Undrain,
    /// No new jobs.
    Drain,
    /// Out of service; its jobs end.
    Down,
    /// Not to be used any more once its jobs have ended.
    Fail,
    /// Expected to fail soon; no new jobs.
    Failing,
}

impl NodeWord {
    /// Returns Slurm's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Resume => "resume",
            Self::Undrain => "undrain",
            Self::Drain => "drain",
            Self::Down => "down",
            Self::Fail => "fail",
            Self::Failing => "failing",
        }
    }

    /// Tells whether Slurm wants to know why.
    pub fn wants_reason(self) -> bool {
        matches!(self, Self::Drain | Self::Down | Self::Fail | Self::Failing)
    }
}

/// Has slurmctld write its nodes to disk now, by setting a comment on this one. A node that has just joined exists
/// only in memory for up to five minutes, and a takeover would not know it.
pub fn save_node(writer: &HostWriter, name: &NodeName) -> Result<(), ScontrolError> {
    update(writer, name, &["comment=joined"])
}

/// Sets a node's weight. The next reconfigure of slurmctld brings back the one that the node registered with.
pub fn set_node_weight(writer: &HostWriter, name: &NodeName, weight: u64) -> Result<(), ScontrolError> {
    update(writer, name, &[&format!("weight={weight}")])
}

/// Sets a node's features, all of them active. They stay until the node is deleted.
pub fn set_node_features<S: AsRef<str>>(
    writer: &HostWriter,
    name: &NodeName,
    features: &[S],
) -> Result<(), ScontrolError> {
    let list = features.iter().map(|feature| one_line(feature.as_ref())).collect::<Vec<_>>().join(",");
    update(writer, name, &[&format!("availablefeatures={list}"), &format!("activefeatures={list}")])
}

/// Sets a node's comment.
pub fn set_node_comment(writer: &HostWriter, name: &NodeName, comment: &str) -> Result<(), ScontrolError> {
    update(writer, name, &[&format!("comment={}", one_line(comment))])
}

/// Notes on a node what was noted on another, or on its predecessor.
pub fn set_node_notes(writer: &HostWriter, name: &NodeName, notes: &NodeNotes) -> Result<(), ScontrolError> {
    let settings = notes.settings();
    if settings.is_empty() {
        return Ok(());
    }
    update(writer, name, &settings.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Sets the reason of a node that is set aside, and nothing else.
pub fn set_node_reason(writer: &HostWriter, name: &NodeName, reason: &str) -> Result<(), ScontrolError> {
    update(writer, name, &[&reason_argument(reason)])
}

/// Marks a node as about to fail: it takes no new jobs. Slurm insists on a reason.
pub fn fail_node(writer: &HostWriter, name: &NodeName, reason: &str) -> Result<(), ScontrolError> {
    update(writer, name, &["state=fail", &reason_argument(reason)])
}

/// Deletes a node's record. One that is not there counts as deleted; one with jobs is refused.
pub fn delete_node(writer: &HostWriter, name: &NodeName) -> Result<(), ScontrolError> {
    match change(&scontrol(writer.host()).arg("delete").arg(format!("nodename={name}"))) {
        Err(error) if error.refusal() == Some(Refusal::NoSuchNode) => Ok(()),
        other => other,
    }
}

/// Slurm takes one quote away at either end, also where only one is there.
pub(super) fn reason_argument(reason: &str) -> String {
    let reason = one_line(reason);
    match reason.starts_with('"') || reason.ends_with('"') {
        true => format!("reason=\"{reason}\""),
        false => format!("reason={reason}"),
    }
}

fn update(writer: &HostWriter, nodes: &impl Nodes, changes: &[&str]) -> Result<(), ScontrolError> {
    change(&scontrol(writer.host()).arg("update").arg(format!("nodename={nodes}")).args(changes.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_administrator_noted_can_be_noted_again() {
        let answer = r#"{"name": "n", "state": ["IDLE"], "reason": "", "hostname": "h", "partitions": [], "features": [],
            "real_memory": 1, "cpus": 1, "extra": "rack=7 row 2", "instance_id": "", "instance_type": "t3", "cpu_binding": 4}"#;
        let record: NodeRecord = serde_json::from_str(answer).unwrap();
        assert_eq!(record.notes.settings(), ["extra=rack=7 row 2", "instancetype=t3", "cpubind=core"]);
        assert!(record.notes.are_in(&record.notes) && NodeNotes::default().are_in(&record.notes));
        assert!(!record.notes.are_in(&NodeNotes { cpu_binding: 8, ..record.notes.clone() }));
    }
}
