//! Partitions in Slurm's eyes: look them up, open and close them, delete them, have them saved.

use super::{Refusal, ScontrolError, ask, change, scontrol};
use crate::machine::{Host, HostWriter};
use crate::store;
use serde::{Deserialize, Serialize};
use slurm_conf::PartitionName;
use slurm_conf::overrides::PartitionSettings;
use std::path::Path;
use std::time::{Duration, Instant};

/// What slurmctld knows about a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionRecord {
    /// Its name.
    pub name: String,
    /// `UP`, `DOWN`, `DRAIN` or `INACTIVE`.
    pub state: String,
    /// The nodes that are in it now, as a host list.
    pub nodes: String,
    /// The fewest nodes of a job; 0 and 1 mean the same.
    pub min_nodes: u64,
}

/// What a partition does with jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PartitionState {
    /// Takes and starts jobs.
    Up,
    /// Takes none; starts those that wait.
    Drain,
    /// Takes jobs and starts none.
    Down,
    /// Takes none and starts none.
    Inactive,
}

impl PartitionState {
    /// Reads the word that Slurm shows.
    pub fn from_shown(word: &str) -> Option<Self> {
        [Self::Up, Self::Drain, Self::Down, Self::Inactive]
            .into_iter()
            .find(|state| state.word().eq_ignore_ascii_case(word))
    }

    fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Drain => "drain",
            Self::Down => "down",
            Self::Inactive => "inactive",
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    partitions: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    nodes: Nodes,
    #[serde(default)]
    minimums: Minimums,
    partition: State,
}

#[derive(Deserialize)]
struct Nodes {
    configured: String,
}

#[derive(Default, Deserialize)]
struct Minimums {
    nodes: u64,
}

#[derive(Deserialize)]
struct State {
    state: Vec<String>,
}

impl From<Entry> for PartitionRecord {
    fn from(entry: Entry) -> Self {
        Self {
            name: entry.name,
            state: entry.partition.state.into_iter().next().unwrap_or_default(),
            nodes: entry.nodes.configured,
            min_nodes: entry.minimums.nodes,
        }
    }
}

/// Lists every partition.
pub fn partitions(host: &Host) -> Result<Vec<PartitionRecord>, ScontrolError> {
    let answer: Answer = ask(|json| scontrol(host).args(["show", "partition", json]))?;
    Ok(answer.partitions.into_iter().map(PartitionRecord::from).collect())
}

/// Opens or closes a partition. With `KeepPartState` in slurm.conf this is the only way.
pub fn set_partition_state(
    writer: &HostWriter,
    name: &PartitionName,
    state: PartitionState,
) -> Result<(), ScontrolError> {
    update(writer, name, &format!("state={}", state.word()))
}

/// Deletes a partition from the running slurmctld; its line in slurm.conf goes next. One that is not there counts as
/// deleted; one that jobs name is refused.
pub fn delete_partition(writer: &HostWriter, name: &PartitionName) -> Result<(), ScontrolError> {
    match change(&scontrol(writer.host()).arg("delete").arg(format!("partitionname={name}"))) {
        Err(error) if error.refusal() == Some(Refusal::NoSuchPartition) => Ok(()),
        other => other,
    }
}

/// How long slurmctld may take to write its partitions.
const SAVE_PATIENCE: Duration = Duration::from_secs(2);
const SAVE_PAUSE: Duration = Duration::from_millis(10);
/// The setting through which it is made to. Any will do; this one hardly anybody changes, so nobody does in the very
/// moment between the look and the update, which would take it back.
const SAVED_THROUGH: &str = "LLN";

/// Has slurmctld write all its partitions to disk now, by setting one of them to what it is, and tells whether that was
/// seen on `state_file`. After a reconfigure the file still has the partitions from before, and a takeover would
/// restore those.
pub fn save_partitions(
    writer: &HostWriter,
    name: &PartitionName,
    known: &PartitionSettings,
    state_file: impl AsRef<Path>,
) -> Result<bool, ScontrolError> {
    // A store that does not answer shows no save.
    let saved_at = || store::modified(writer.host(), &state_file).ok();
    let Some(value) = known.get(name, SAVED_THROUGH) else {
        let command = format!("scontrol show partition {name}");
        return Err(ScontrolError::Refused { command, reason: "Invalid partition name specified".to_owned() });
    };
    let before = saved_at();
    update(writer, name, &format!("{SAVED_THROUGH}={value}"))?;
    let end = Instant::now() + SAVE_PATIENCE;
    while !matches!((before, saved_at()), (Some(before), Some(now)) if now != before) {
        if Instant::now() >= end {
            return Ok(false);
        }
        std::thread::sleep(SAVE_PAUSE);
    }
    Ok(true)
}

fn update(writer: &HostWriter, name: &PartitionName, change_to: &str) -> Result<(), ScontrolError> {
    change(&scontrol(writer.host()).arg("update").arg(format!("partitionname={name}")).arg(change_to))
}
