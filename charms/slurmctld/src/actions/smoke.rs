//! A small job on every node that takes jobs.

use super::{Act, ActionFailure, ActionResults, nodes, require_daemon, with_nodes};
use serde::Deserialize;
use serde_json::json;
use slurm_conf::{NodeName, PartitionName};
use slurm_ops::scontrol::{self, NodeLookup, NodeRecord, PartitionRecord, Smoke};
use slurm_unit::actions::{NodeChoice, refused};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long Slurm may take to hear from a node again.
const RETURN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);
/// How many nodes are tried at a time.
const AT_A_TIME: usize = 16;

#[derive(Debug, Deserialize)]
struct Test {
    #[serde(default)]
    nodes: String,
    #[serde(default = "half_a_minute")]
    timeout: u64,
}

fn half_a_minute() -> u64 {
    30
}

pub(super) fn test(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: Test = act.tools.action_get()?;
    let wanted = NodeChoice::read("nodes", &request.nodes)?;
    if !(1..=600).contains(&request.timeout) {
        let found = request.timeout;
        return Err(ActionFailure::refused(format!("parameter `timeout`: {found}: expected 1 to 600 seconds")));
    }
    require_daemon(act)?;
    let patience = Duration::from_secs(request.timeout);
    let records = settled(act, wanted.as_ref(), patience)?;
    if records.is_empty() {
        return Err(ActionFailure::refused("there is no node"));
    }
    let partitions =
        scontrol::partitions(&act.view.host).map_err(|error| refused("could not list the partitions", &error))?;
    answer(&outcomes(act, &records, &partitions, patience))
}

fn answer(outcomes: &[(String, String)]) -> Result<ActionResults, ActionFailure> {
    let of = |word: &str| outcomes.iter().filter(|(_, outcome)| outcome.starts_with(word)).collect::<Vec<_>>();
    let (passed, failed, skipped) = (of("passed").len(), of("failed"), of("skipped").len());
    let line = |(name, outcome): &(String, String)| format!("{name}: {outcome}");
    let entry = |(name, outcome): &(String, String)| json!({"node": name, "result": outcome});
    let table = |shown| outcomes[..shown].iter().map(line).collect::<Vec<_>>().join("\n");
    let results = ActionResults::default()
        .with("passed", passed.to_string())
        .with("failed", failed.len().to_string())
        .with("skipped", skipped.to_string());
    let results = with_nodes(results, &outcomes.iter().map(entry).collect::<Vec<_>>(), table);
    if failed.is_empty() {
        return Ok(results);
    }
    let told = failed.iter().take(TOLD).map(|failed| line(failed)).collect::<Vec<_>>().join("\n");
    let more = failed.len().checked_sub(TOLD).filter(|more| *more > 0);
    let more = more.map(|more| format!("\nand {more} more")).unwrap_or_default();
    Err(ActionFailure::failed(results, format!("{passed} of {} passed\n{told}{more}", outcomes.len())))
}

/// How many failures the message of the action names. All are in its results.
const TOLD: usize = 10;

/// Returns the nodes once none of them is on its way back: Slurm takes a moment after `resume` to hear from a node.
fn settled(act: &Act<'_>, wanted: Option<&NodeChoice>, patience: Duration) -> Result<Vec<NodeRecord>, ActionFailure> {
    let end = Instant::now() + patience.min(RETURN);
    loop {
        let records = nodes::select(act, wanted)?;
        let returning = |record: &NodeRecord| record.has("NOT_RESPONDING") && !record.has("DOWN");
        if Instant::now() >= end || !records.iter().any(returning) {
            return Ok(records);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Tries every node, several at a time, and returns what came of it in the order of the nodes.
fn outcomes(
    act: &Act<'_>,
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
                    let outcome = outcome(act, record, partitions, patience);
                    found.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[position] = outcome;
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    records.iter().map(|record| record.name.clone()).zip(found).collect()
}

fn outcome(act: &Act<'_>, record: &NodeRecord, partitions: &[PartitionRecord], patience: Duration) -> String {
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
    match scontrol::smoke(&act.hands.host, &node, &partition, patience) {
        Smoke::Passed { said } => format!("passed on {said}"),
        Smoke::Failed { why } => format!("failed: {why}"),
        Smoke::Busy { why } => match scontrol::node(&act.view.host, &node) {
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
