//! What administrators set with `scontrol update` and slurmctld forgets when it reads its files again: weights of nodes and settings of
//! partitions. Read before, put back afterwards. States, reasons, comments and features it keeps by itself.
//!
//! Both are read from the one-line form: of a thousand nodes that is a quarter of the JSON, and takes a seventh of its time.

use super::{Command, ScontrolError, change, refusal, scontrol, unreachable};
use crate::machine::Machine;
use serde::{Deserialize, Serialize};
use slurm_conf::PartitionName;
use std::collections::BTreeMap;

/// Settings of a partition that `scontrol update` takes in the words in which `scontrol show` gives them. `Default` is not among them: a
/// partition that becomes the default ends another one's being it.
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

/// Kept by Slurm itself (`KeepPartState`), which therefore takes it from slurm.conf only for a new partition. A choice that was made there
/// is brought to it.
const STATE: &str = "State";

/// The weight of a node that says nothing about it.
const USUAL_WEIGHT: u64 = 1;

type Entries = BTreeMap<String, BTreeMap<String, String>>;

/// The settings of every partition that slurmctld has in memory at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartitionSettings(Entries);

impl PartitionSettings {
    /// Returns one setting, in Slurm's words.
    pub fn get(&self, name: &PartitionName, key: &str) -> Option<&str> {
        self.0.get(name.as_str())?.get(&key.to_ascii_lowercase()).map(String::as_str)
    }
}

/// The weights of every node that slurmctld has in memory at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeWeights(BTreeMap<String, u64>);

/// What slurmctld has in memory at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Of nodes.
    pub weights: NodeWeights,
    /// Of partitions.
    pub partitions: PartitionSettings,
}

/// Reads the settings of all partitions.
pub fn partition_settings(machine: &Machine) -> Result<PartitionSettings, ScontrolError> {
    let shown = show(&scontrol(machine).args(["--oneliner", "show", "partition"]))?;
    Ok(PartitionSettings(partitions(&shown)))
}

/// Reads the weights of all nodes.
pub fn node_weights(machine: &Machine) -> Result<NodeWeights, ScontrolError> {
    Ok(weights(&show(&weigh(machine))?))
}

/// The question for the weights of all nodes.
pub(super) fn weigh(machine: &Machine) -> Command {
    scontrol(machine).args(["--oneliner", "show", "node"])
}

fn show(command: &Command) -> Result<String, ScontrolError> {
    let output = command.output().map_err(|error| unreachable(&error))?;
    if output.success() { Ok(output.stdout) } else { Err(refusal(command, &output)) }
}

/// Puts back what a reconfigure took away: what differs from `before` although nothing about it differs between the old slurm.conf and
/// the new one. What slurmctld does not take any more is left, and logged. Returns what it has in memory now, unless something was put back.
pub fn restore(
    machine: &Machine,
    before: &Settings,
    old: &str,
    new: &str,
) -> Result<Option<PartitionSettings>, ScontrolError> {
    // Where every node has the usual weight nobody has set one, and a look is saved.
    let usual = before.weights.0.values().all(|weight| *weight == USUAL_WEIGHT);
    let weights = if usual { before.weights.clone() } else { node_weights(machine)? };
    let after = Settings { weights, partitions: partition_settings(machine)? };
    let updates = updates(before, &after, old, new);
    for update in &updates {
        let Some((entity, settings)) = update.split_first() else { continue };
        match set(machine, entity, settings) {
            // One setting that is refused must not cost the others.
            Err(ScontrolError::Refused { .. }) => {
                for setting in settings {
                    match set(machine, entity, std::slice::from_ref(setting)) {
                        Err(error @ ScontrolError::Refused { .. }) => tracing::warn!("not put back: {error}"),
                        other => other?,
                    }
                }
            }
            other => other?,
        }
    }
    Ok(updates.is_empty().then_some(after.partitions))
}

fn set(machine: &Machine, entity: &str, settings: &[String]) -> Result<(), ScontrolError> {
    change(&scontrol(machine).args(["update", entity]).args(settings.iter().cloned()))
}

/// Returns the arguments of each `scontrol update` that is needed.
fn updates(before: &Settings, after: &Settings, old: &str, new: &str) -> Vec<Vec<String>> {
    let (old, new) = (partitions(old), partitions(new));
    let written = |entries: &Entries, name: &str, key: &str| -> Option<String> {
        entries.get(name).and_then(|options| options.get(&key.to_ascii_lowercase()).cloned())
    };
    let mut updates = Vec::new();
    for (name, weight) in &before.weights.0 {
        if after.weights.0.get(name).is_some_and(|now| now != weight) {
            updates.push(vec![format!("nodename={name}"), format!("weight={weight}")]);
        }
    }
    for (name, then) in &before.partitions.0 {
        let Some(now) = after.partitions.0.get(name) else { continue };
        let lines = [name.as_str(), "default"];
        let chosen = |key: &str| lines.iter().any(|line| written(&old, line, key) != written(&new, line, key));
        let lost = KEYS.iter().filter_map(|key| {
            let (was, is) = (then.get(&key.to_ascii_lowercase())?, now.get(&key.to_ascii_lowercase())?);
            (was != is && !chosen(key)).then(|| format!("{key}={was}"))
        });
        let mut settings: Vec<String> = lost.collect();
        if chosen(STATE) {
            let state = lines.iter().find_map(|line| written(&new, line, STATE)).unwrap_or_else(|| "UP".to_owned());
            let is = now.get(&STATE.to_ascii_lowercase());
            settings.extend(is.filter(|is| !is.eq_ignore_ascii_case(&state)).map(|_| format!("{STATE}={state}")));
        }
        if !settings.is_empty() {
            updates.push([vec![format!("partitionname={name}")], settings].concat());
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

/// Takes weights out of what `scontrol show` prints: one line for each node. Texts of nodes and administrators may be in it, with blanks
/// and equals signs, so a weight counts only where Slurm itself puts it.
pub(super) fn weights(shown: &str) -> NodeWeights {
    let weight = |line: &str| -> Option<(String, u64)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.first()?.strip_prefix("NodeName=")?;
        let place = words.windows(2).find(|pair| pair[0].starts_with("TmpDisk=") && pair[1].starts_with("Weight="))?;
        Some((name.to_owned(), place[1].strip_prefix("Weight=")?.parse().ok()?))
    };
    NodeWeights(shown.lines().filter_map(weight).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(weights: &[(&str, u64)], shown: &str) -> Settings {
        let weights = weights.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
        Settings { weights: NodeWeights(weights), partitions: PartitionSettings(partitions(shown)) }
    }

    #[test]
    fn weights_are_found_among_texts_of_others() {
        let shown = "NodeName=compute-0 Arch=x86_64 OS=Linux Weight=3 #1 RealMemory=900 State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=17 \
                     Owner=N/A MCS_label=N/A Comment=TmpDisk=0 Weight=4 Reason=Weight=5\n\
                     NodeName=compute-1 State=IDLE TmpDisk=0 Weight=1 Owner=N/A\nNo nodes in the system\n";
        assert_eq!(weights(shown), memory(&[("compute-0", 17), ("compute-1", 1)], "").weights);
        assert_eq!(weights("No nodes in the system\n"), NodeWeights::default());
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
    fn a_state_that_the_operator_chose_takes_effect_and_no_other() {
        let shown = |state: &str| memory(&[], &format!("PartitionName=compute MaxTime=1 State={state}\n"));
        let with = |state: &str| CONF.replace("Nodes=compute", &format!("Nodes=compute State={state}"));
        let expected = |state: &str| vec![vec!["partitionname=compute".to_owned(), format!("State={state}")]];
        assert_eq!(updates(&shown("UP"), &shown("UP"), CONF, &with("DRAIN")), expected("DRAIN"));
        assert_eq!(updates(&shown("DRAIN"), &shown("DRAIN"), &with("DRAIN"), CONF), expected("UP"));
        assert!(updates(&shown("DOWN"), &shown("DOWN"), CONF, &with("down")).is_empty());
        // What an administrator set stays as long as the operator chooses nothing else.
        assert!(updates(&shown("DRAIN"), &shown("DRAIN"), CONF, CONF).is_empty());
        assert!(updates(&shown("UP"), &shown("UP"), &with("DRAIN"), &with("DRAIN")).is_empty());
    }

    #[test]
    fn nothing_is_done_about_partitions_that_are_new_or_gone() {
        let one = memory(&[], "PartitionName=compute MaxTime=1\n");
        let other = memory(&[], "PartitionName=debug MaxTime=2\n");
        assert_eq!(updates(&one, &other, CONF, CONF), Vec::<Vec<String>>::new());
    }
}
