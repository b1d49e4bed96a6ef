//! What administrators set with `scontrol update` and slurmctld forgets when it reads its files again: weights of nodes and settings of
//! partitions. Read before, put back afterwards. States, reasons, comments and features it keeps by itself.

use super::{ScontrolError, change, nodes, refusal, scontrol, unreachable};
use crate::machine::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings of a partition that `scontrol update` takes in the words in which `scontrol show` gives them. `Default` is not among them: a
/// partition that becomes the default ends another one's being it. `State` is kept by Slurm (`KeepPartState`).
const KEYS: [&str; 24] = [
    "AllowAccounts",
    "AllowGroups",
    "AllowQos",
    "AllocNodes",
    "DefaultTime",
    "DenyAccounts",
    "DenyQos",
    "DisableRootJobs",
    "ExclusiveUser",
    "GraceTime",
    "Hidden",
    "LLN",
    "MaxCPUsPerNode",
    "MaxMemPerCPU",
    "MaxMemPerNode",
    "MaxNodes",
    "MaxTime",
    "MinNodes",
    "OverSubscribe",
    "OverTimeLimit",
    "PriorityJobFactor",
    "PriorityTier",
    "ReqResv",
    "RootOnly",
];

/// The weight of a node that says nothing about it.
const USUAL_WEIGHT: u64 = 1;

type Entries = BTreeMap<String, BTreeMap<String, String>>;

/// What slurmctld has in memory at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    weights: BTreeMap<String, u64>,
    partitions: Entries,
}

/// Reads what slurmctld has in memory.
pub fn settings(machine: &Machine) -> Result<Settings, ScontrolError> {
    Ok(Settings { weights: read_weights(machine)?, partitions: read_partitions(machine)? })
}

fn read_weights(machine: &Machine) -> Result<BTreeMap<String, u64>, ScontrolError> {
    Ok(nodes(machine)?.into_iter().map(|node| (node.name, node.weight)).collect())
}

fn read_partitions(machine: &Machine) -> Result<Entries, ScontrolError> {
    let command = scontrol(machine).args(["--oneliner", "show", "partition"]);
    let output = command.output().map_err(|error| unreachable(&error))?;
    if !output.success() {
        return Err(refusal(&command, &output));
    }
    Ok(partitions(&output.stdout))
}

/// Puts back what a reconfigure took away: what differs from `before` although nothing about it differs between the old slurm.conf and
/// the new one. What slurmctld does not take any more is left, and logged.
pub fn restore(machine: &Machine, before: &Settings, old: &str, new: &str) -> Result<(), ScontrolError> {
    // Where every node has the usual weight nobody has set one, and a look is saved.
    let usual = before.weights.values().all(|weight| *weight == USUAL_WEIGHT);
    let weights = if usual { before.weights.clone() } else { read_weights(machine)? };
    let after = Settings { weights, partitions: read_partitions(machine)? };
    for update in updates(before, &after, old, new) {
        match change(&scontrol(machine).arg("update").args(update)) {
            Err(ScontrolError::Refused { command, reason }) => tracing::warn!("not put back: {command}: {reason}"),
            other => other?,
        }
    }
    Ok(())
}

/// Returns the arguments of each `scontrol update` that is needed.
fn updates(before: &Settings, after: &Settings, old: &str, new: &str) -> Vec<Vec<String>> {
    let (old, new) = (partitions(old), partitions(new));
    let written = |entries: &Entries, name: &str, key: &str| -> Option<String> {
        entries.get(name).and_then(|options| options.get(&key.to_ascii_lowercase()).cloned())
    };
    let mut updates = Vec::new();
    for (name, weight) in &before.weights {
        if after.weights.get(name).is_some_and(|now| now != weight) {
            updates.push(vec![format!("nodename={name}"), format!("weight={weight}")]);
        }
    }
    for (name, then) in &before.partitions {
        let Some(now) = after.partitions.get(name) else { continue };
        let lost = KEYS.iter().filter_map(|key| {
            let (was, is) = (then.get(&key.to_ascii_lowercase())?, now.get(&key.to_ascii_lowercase())?);
            let chosen =
                [name.as_str(), "default"].iter().any(|line| written(&old, line, key) != written(&new, line, key));
            (was != is && !chosen).then(|| format!("{key}={was}"))
        });
        let lost: Vec<String> = lost.collect();
        if !lost.is_empty() {
            updates.push([vec![format!("partitionname={name}")], lost].concat());
        }
    }
    updates
}

/// Takes partitions out of slurm.conf or of what `scontrol show` prints: one line each, keys in lower case.
fn partitions(text: &str) -> Entries {
    let mut entries = Entries::new();
    for line in text.lines() {
        let mut words = line.split_whitespace().filter_map(|word| word.split_once('='));
        let Some((key, name)) = words.next() else { continue };
        if key.eq_ignore_ascii_case("PartitionName") {
            let name = if name.eq_ignore_ascii_case("default") { "default" } else { name };
            let options = words.map(|(key, value)| (key.to_ascii_lowercase(), value.to_owned()));
            entries.entry(name.to_owned()).or_default().extend(options);
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(weights: &[(&str, u64)], shown: &str) -> Settings {
        let weights = weights.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
        Settings { weights, partitions: partitions(shown) }
    }

    const CONF: &str =
        "ClusterName=lab\nPartitionName=compute Nodes=compute\nPartitionName=debug Nodes=debug MaxTime=15\n";

    #[test]
    fn a_forgotten_weight_is_put_back_and_a_new_node_is_none() {
        let before = memory(&[("compute-0", 17), ("compute-1", 1), ("gone-0", 5)], "");
        let after = memory(&[("compute-0", 1), ("compute-1", 1), ("compute-2", 9)], "");
        assert_eq!(updates(&before, &after, CONF, CONF), [["nodename=compute-0", "weight=17"]]);
    }

    #[test]
    fn what_the_operator_did_not_touch_is_put_back() {
        let shown = |limit: &str, tier: &str, state: &str| {
            format!("PartitionName=compute Default=NO MaxTime={limit} PriorityTier={tier} State={state} TotalNodes=2\n")
        };
        let before = memory(&[], &shown("00:45:00", "3", "DRAIN"));
        let after = memory(&[], &shown("UNLIMITED", "1", "UP"));
        let expected = [["partitionname=compute", "MaxTime=00:45:00", "PriorityTier=3"]];
        let new = CONF.replace("MaxTime=15", "MaxTime=30");
        assert_eq!(updates(&before, &after, CONF, &new), expected);
        // A choice of the operator's in slurm.conf is what counts, also if it is taken back.
        let new = CONF.replace("Nodes=compute", "Nodes=compute MaxTime=60");
        assert_eq!(updates(&before, &after, CONF, &new), [["partitionname=compute", "PriorityTier=3"]]);
        assert_eq!(updates(&before, &after, &new, CONF), [["partitionname=compute", "PriorityTier=3"]]);
        let new = format!("PartitionName=DEFAULT PriorityTier=2\n{CONF}");
        assert_eq!(updates(&before, &after, CONF, &new), [["partitionname=compute", "MaxTime=00:45:00"]]);
    }

    #[test]
    fn nothing_is_done_about_partitions_that_are_new_or_gone() {
        let one = memory(&[], "PartitionName=compute MaxTime=1\n");
        let other = memory(&[], "PartitionName=debug MaxTime=2\n");
        assert_eq!(updates(&one, &other, CONF, CONF), Vec::<Vec<String>>::new());
    }
}
