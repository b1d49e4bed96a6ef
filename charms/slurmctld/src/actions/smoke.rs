//! A small job on every node that takes jobs.

use super::{ActionFailure, ActionResults, host_list, nodes};
use serde::Deserialize;
use serde_json::json;
use slurm_conf::{HostList, NodeName, PartitionName};
use slurm_ops::Machine;
use slurm_ops::scontrol::{self, NodeRecord, Smoke};
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
    machine: &Machine,
) -> Result<ActionResults, ActionFailure> {
    let wanted = host_list("nodes", &request.nodes)?;
    if !(1..=600).contains(&request.timeout) {
        let found = request.timeout;
        return Err(ActionFailure::refused(format!("parameter `timeout`: {found}: expected 1 to 600 seconds")));
    }
    daemon()?;
    let records = settled(machine, wanted.as_ref(), Duration::from_secs(request.timeout))?;
    let outcomes = outcomes(machine, &records, Duration::from_secs(request.timeout));
    let passed = outcomes.iter().filter(|(_, outcome)| outcome.starts_with("passed")).count();
    let failed: Vec<&str> =
        outcomes.iter().filter(|(_, outcome)| outcome.starts_with("failed")).map(|(name, _)| name.as_str()).collect();
    let table: Vec<String> = outcomes.iter().map(|(name, outcome)| format!("{name}: {outcome}")).collect();
    if !failed.is_empty() || outcomes.is_empty() {
        let what = if outcomes.is_empty() { "there is no node".to_owned() } else { table.join("\n") };
        return Err(ActionFailure::refused(format!("{} of {} passed\n{what}", passed, outcomes.len())));
    }
    let list: Vec<serde_json::Value> =
        outcomes.iter().map(|(name, outcome)| json!({"node": name, "result": outcome})).collect();
    Ok(ActionResults::default()
        .with("passed", passed.to_string())
        .with("skipped", (outcomes.len() - passed).to_string())
        .with("nodes", json!(list).to_string())
        .with("table", table.join("\n")))
}

/// Returns the nodes once none of them is on its way back: Slurm takes a moment after `resume` to hear from a node.
fn settled(machine: &Machine, wanted: Option<&HostList>, patience: Duration) -> Result<Vec<NodeRecord>, ActionFailure> {
    let end = Instant::now() + patience.min(RETURN);
    loop {
        let records = nodes::select(machine, wanted)?;
        let returning = |record: &NodeRecord| record.has("NOT_RESPONDING") && !record.has("DOWN");
        if Instant::now() >= end || !records.iter().any(returning) {
            return Ok(records);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Tries every node, several at a time, and returns what came of it in the order of the nodes.
fn outcomes(machine: &Machine, records: &[NodeRecord], patience: Duration) -> Vec<(String, String)> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(vec![String::new(); records.len()]);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME.min(records.len()) {
            scope.spawn(|| {
                while let Some((position, record)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| records.get(at).map(|one| (at, one)))
                {
                    let outcome = outcome(machine, record, patience);
                    found.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[position] = outcome;
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    records.iter().map(|record| record.name.clone()).zip(found).collect()
}

fn outcome(machine: &Machine, record: &NodeRecord, patience: Duration) -> String {
    if !record.is_usable() {
        return format!("skipped, it is {}", record.state_text());
    }
    let partition = record.partitions.iter().find_map(|name| name.parse::<PartitionName>().ok());
    let (Ok(node), Some(partition)) = (record.name.parse::<NodeName>(), partition) else {
        return "skipped, its name is not one of ours".to_owned();
    };
    match scontrol::smoke(machine, &node, &partition, patience) {
        Smoke::Passed { said } => format!("passed on {said}"),
        // Other jobs have the node; that says nothing about it.
        Smoke::Failed { why } if record.has("ALLOCATED") || why.contains("nodes are busy") => {
            format!("skipped, it is full ({why})")
        }
        Smoke::Failed { why } => format!("failed: {why}"),
    }
}
