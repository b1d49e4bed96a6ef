//! One node in Slurm's eyes: look it up, drain it, open it, delete it.

use super::{DEADLINE, JSON, ScontrolError, change, refusal, scontrol, unreachable};
use crate::machine::Machine;
use serde::Deserialize;
use slurm_conf::NodeName;

/// What slurmctld knows about a node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NodeRecord {
    /// Its name.
    pub name: String,
    /// The base state first (`IDLE`, `ALLOCATED`, `MIXED`, `DOWN` …), then flags (`DRAIN`, `DYNAMIC_NORM`, `INVALID_REG`,
    /// `NOT_RESPONDING` …).
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
    /// Version of its slurmd; empty before the first registration.
    #[serde(default)]
    pub version: String,
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

    /// Returns the state as Slurm's tools write it, such as `IDLE+DRAIN`.
    pub fn state_text(&self) -> String {
        self.state.join("+")
    }
}

/// The answer to "is there such a node".
#[derive(Debug, Clone, PartialEq, Eq)]
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
pub fn node(machine: &Machine, name: &NodeName) -> NodeLookup {
    match show(machine, Some(name)) {
        Ok(nodes) => {
            nodes.into_iter().find(|node| node.name == name.as_str()).map_or(NodeLookup::Absent, NodeLookup::Present)
        }
        Err(ScontrolError::Unreachable { why }) => NodeLookup::Unreachable { why },
        // "Node x not found", which 24.11 says only without JSON, is an answer. Any other refusal is not one to this question.
        Err(ScontrolError::Refused { reason, .. }) if reason.ends_with("not found") => NodeLookup::Absent,
        Err(ScontrolError::Refused { reason, .. }) => NodeLookup::Unreachable { why: reason },
    }
}

/// Lists every node.
pub fn nodes(machine: &Machine) -> Result<Vec<NodeRecord>, ScontrolError> {
    show(machine, None)
}

fn show(machine: &Machine, name: Option<&NodeName>) -> Result<Vec<NodeRecord>, ScontrolError> {
    #[derive(Deserialize)]
    struct Nodes {
        nodes: Vec<NodeRecord>,
    }
    let command =
        scontrol(machine).args(["show", "node"]).args(name.map(NodeName::as_str)).arg(JSON).deadline(DEADLINE);
    let output = command.output().map_err(|error| unreachable(&error))?;
    if !output.success() {
        return Err(refusal(&command, &output));
    }
    match serde_json::from_str::<Nodes>(&output.stdout) {
        Ok(nodes) => Ok(nodes.nodes),
        Err(error) => Err(ScontrolError::Unreachable { why: command.unreadable(error).to_string() }),
    }
}

/// Keeps new jobs from a node; running ones go on. Slurm insists on a reason.
pub fn drain_node(machine: &Machine, name: &NodeName, reason: &str) -> Result<(), ScontrolError> {
    update(machine, name, &["state=drain", &format!("reason={}", one_line(reason))])
}

/// Takes a node down at once: its jobs are killed or queued again. Slurm insists on a reason.
pub fn down_node(machine: &Machine, name: &NodeName, reason: &str) -> Result<(), ScontrolError> {
    update(machine, name, &["state=down", &format!("reason={}", one_line(reason))])
}

/// Opens a node. One that is open already is left alone, and tells so with `false`.
pub fn resume_node(machine: &Machine, name: &NodeName) -> Result<bool, ScontrolError> {
    match update(machine, name, &["state=resume"]) {
        Ok(()) => Ok(true),
        Err(ScontrolError::Refused { reason, .. }) if reason.contains("Invalid node state specified") => Ok(false),
        Err(error) => Err(error),
    }
}

/// Has slurmctld write its nodes to disk now, by setting a comment on this one. A node that has just joined exists only in memory
/// for up to five minutes, and a takeover would not know it.
pub fn save_node(machine: &Machine, name: &NodeName) -> Result<(), ScontrolError> {
    update(machine, name, &["comment=joined"])
}

/// Deletes a node's record. One that is not there counts as deleted; one with jobs is refused.
pub fn delete_node(machine: &Machine, name: &NodeName) -> Result<(), ScontrolError> {
    match change(&scontrol(machine).arg("delete").arg(format!("nodename={name}"))) {
        Err(ScontrolError::Refused { reason, .. }) if reason.contains("Invalid node name specified") => Ok(()),
        other => other,
    }
}

fn update(machine: &Machine, name: &NodeName, changes: &[&str]) -> Result<(), ScontrolError> {
    change(&scontrol(machine).arg("update").arg(format!("nodename={name}")).args(changes.iter().copied()))
}

/// A reason is shown in tables and logs of Slurm, so it stays on its line.
fn one_line(reason: &str) -> String {
    let line: String = reason.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    let line = line.trim();
    if line.is_empty() { "unspecified".to_owned() } else { line.to_owned() }
}
