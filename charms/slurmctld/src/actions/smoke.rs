//! A small job on every node that takes jobs.

use super::{ActionFailure, ActionResults, Dispatch, host_list, nodes, told};
use serde::Deserialize;
use serde_json::json;
use slurm_conf::{HostList, NodeName, PartitionName};
use slurm_ops::scontrol::{self, NodeLookup, NodeRecord, PartitionRecord, Smoke};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long Slurm may take to hear from a node again.
const RETURN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);
/// How many nodes are tried at a time.
const AT_A_TIME: usize = 16;

#[derive(Debug, Deserialize)]
pub(super) struct Test {
    #[serde(default)]
    nodes: String,
    #[serde(default = "half_a_minute")]
    timeout: u64,
}

fn half_a_minute() -> u64 {
    30
}

pub(super) fn test(
    request: &Test,
    daemon: impl FnOnce() -> Result<(), ActionFailure>,
    on: &Dispatch<'_>,
) -> Result<ActionResults, ActionFailure> {
    let wanted = host_list("nodes", &request.nodes)?;
    if !(1..=600).contains(&request.timeout) {
        let found = request.timeout;
        return Err(ActionFailure::refused(format!("parameter `timeout`: {found}: expected 1 to 600 seconds")));
    }
    daemon()?;
    let records = settled(on, wanted.as_ref(), Duration::from_secs(request.timeout))?;
    if records.is_empty() {
        return Err(ActionFailure::refused("there is no node"));
    }
    let partitions = scontrol::partitions(&on.view.host).map_err(|error| told(error, str::to_owned))?;
    let outcomes = outcomes(on, &records, &partitions, Duration::from_secs(request.timeout));
    let count = |word: &str| outcomes.iter().filter(|(_, outcome)| outcome.starts_with(word)).count();
    let (passed, failed, skipped) = (count("passed"), count("failed"), count("skipped"));
    let table = outcomes.iter().map(|(name, outcome)| format!("{name}: {outcome}")).collect::<Vec<_>>().join("\n");
    let list: Vec<serde_json::Value> =
        outcomes.iter().map(|(name, outcome)| json!({"node": name, "result": outcome})).collect();
    let results = ActionResults::default()
        .with("passed", passed.to_string())
        .with("failed", failed.to_string())
        .with("skipped", skipped.to_string())
        .with("nodes", json!(list).to_string())
        .with("table", table.as_str());
    match failed {
        0 => Ok(results),
        _ => Err(ActionFailure::failed(results, format!("{passed} of {} passed\n{table}", outcomes.len()))),
    }
}

/// Returns the nodes once none of them is on its way back: Slurm takes a moment after `resume` to hear from a node.
fn settled(on: &Dispatch<'_>, wanted: Option<&HostList>, patience: Duration) -> Result<Vec<NodeRecord>, ActionFailure> {
    let end = Instant::now() + patience.min(RETURN);
    loop {
        let records = nodes::select(on, wanted)?;
        let returning = |record: &NodeRecord| record.has("NOT_RESPONDING") && !record.has("DOWN");
        if Instant::now() >= end || !records.iter().any(returning) {
            return Ok(records);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Tries every node, several at a time, and returns what came of it in the order of the nodes.
fn outcomes(
    on: &Dispatch<'_>,
    records: &[NodeRecord],
    partitions: &[PartitionRecord],
    patience: Duration,
) -> Vec<(String, String)> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(vec![String::new(); records.len()]);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME.min(records.len()) {
            scope.spawn(|| {
                while let Some((position, record)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| records.get(at).map(|one| (at, one)))
                {
                    let outcome = outcome(on, record, partitions, patience);
                    found.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[position] = outcome;
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    records.iter().map(|record| record.name.clone()).zip(found).collect()
}

fn outcome(on: &Dispatch<'_>, record: &NodeRecord, partitions: &[PartitionRecord], patience: Duration) -> String {
    if !record.is_usable() || record.has("RESERVED") {
        return format!("skipped, it is {}", record.state_text());
    }
    let Ok(node) = record.name.parse::<NodeName>() else {
        return "skipped, its name is not one of ours".to_owned();
    };
    let partition = match open_partition(record, partitions) {
        Ok(partition) => partition,
        Err(closed) => return format!("skipped, {closed}"),
    };
    match scontrol::smoke(&on.hands.host, &node, &partition, patience) {
        Smoke::Passed { said } => format!("passed on {said}"),
        Smoke::Failed { why } => format!("failed: {why}"),
        Smoke::Busy { why } => match scontrol::node(&on.view.host, &node) {
            NodeLookup::Present(now) if !now.is_usable() => format!("skipped, it is {}", now.state_text()),
            // Other jobs have the node, or will have; that says nothing about it.
            NodeLookup::Present(now) if TAKEN.iter().any(|state| now.has(state)) => {
                format!("skipped, it is full: {} ({why})", now.state_text())
            }
            _ => format!("failed: it is free, and no job is started on it: {why}"),
        },
    }
}

/// States of a node on which there may be no place for another job.
const TAKEN: [&str; 5] = ["ALLOCATED", "MIXED", "COMPLETING", "PLANNED", "RESERVED"];

/// Returns a partition of the node that starts a job of one node. If there is none: why not, of the first.
fn open_partition(record: &NodeRecord, partitions: &[PartitionRecord]) -> Result<PartitionName, String> {
    let mut closed = None;
    for partition in partitions.iter().filter(|partition| record.partitions.contains(&partition.name)) {
        let name = &partition.name;
        let why = match (partition.state.as_str(), partition.min_nodes, name.parse()) {
            ("UP", 0 | 1, Ok(name)) => return Ok(name),
            ("UP", 0 | 1, Err(_)) => format!("the name of partition {name} is not one of ours"),
            ("UP", least, _) => format!("partition {name} takes no job of fewer than {least} nodes"),
            (state, ..) => format!("partition {name} is {state}"),
        };
        closed.get_or_insert(why);
    }
    Err(closed.unwrap_or_else(|| "it is in no partition".to_owned()))
}
