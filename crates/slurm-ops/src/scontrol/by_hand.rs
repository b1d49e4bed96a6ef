//! What administrators set with `scontrol` and slurmctld forgets when it reads its files again: partitions that are in no file, settings of
//! partitions, weights of nodes and which of their features are active. Read before, put back afterwards. States, reasons, comments and the
//! rest of nodes it keeps by itself.
//!
//! All is read from the one-line form: of a thousand nodes that is a quarter of the JSON, and takes a seventh of its time.

mod lost;

use super::{Command, ScontrolError, change, refusal, scontrol, unreachable};
use crate::machine::{Host, HostWriter};
use serde::{Deserialize, Serialize};
use slurm_conf::PartitionName;
use std::collections::BTreeMap;

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

    /// Returns the partitions that a slurm.conf does not have. With the next reconfigure they are gone, and with them their jobs.
    pub fn missing_in(&self, conf: &str) -> Vec<String> {
        let written = read_conf(conf);
        self.0.keys().filter(|name| !written.contains_key(*name)).cloned().collect()
    }
}

/// What may have been set about every node that slurmctld has in memory at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeSettings(BTreeMap<String, NodeSetting>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NodeSetting {
    weight: u64,
    /// The features that are active, if not all are.
    active: Option<String>,
}

impl NodeSetting {
    /// Says whether nobody has set anything.
    fn is_usual(&self) -> bool {
        self.weight == USUAL_WEIGHT && self.active.is_none()
    }
}

/// What slurmctld has in memory at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Of nodes.
    pub nodes: NodeSettings,
    /// Of partitions.
    pub partitions: PartitionSettings,
}

/// Reads the settings of all partitions.
pub fn partition_settings(host: &Host) -> Result<PartitionSettings, ScontrolError> {
    let shown = show(&scontrol(host).args(["--oneliner", "show", "partition"]))?;
    Ok(PartitionSettings(partitions(&shown)))
}

/// Reads what may have been set about nodes.
pub fn node_settings(host: &Host) -> Result<NodeSettings, ScontrolError> {
    Ok(nodes(&show(&show_nodes(host))?))
}

/// The question for all nodes.
pub(super) fn show_nodes(host: &Host) -> Command {
    scontrol(host).args(["--oneliner", "show", "node"])
}

fn show(command: &Command) -> Result<String, ScontrolError> {
    let output = command.output().map_err(|error| unreachable(&error))?;
    if output.success() { Ok(output.stdout) } else { Err(refusal(command, &output)) }
}

/// Puts back what a reconfigure took away: what differs from `before` although nothing about it differs between the old slurm.conf and
/// the new one. What slurmctld does not take any more is left, and logged. Returns what it has in memory now, unless something was put back.
pub fn restore(
    writer: &HostWriter,
    before: &Settings,
    old: &str,
    new: &str,
) -> Result<Option<PartitionSettings>, ScontrolError> {
    // Where nobody has set anything a look is saved.
    let usual = before.nodes.0.values().all(NodeSetting::is_usual);
    let nodes = if usual { before.nodes.clone() } else { node_settings(writer.host())? };
    let after = Settings { nodes, partitions: partition_settings(writer.host())? };
    let updates = lost::updates(before, &after, old, new);
    for update in &updates {
        let Some((entity, settings)) = update.split_first() else { continue };
        match set(writer, entity, settings) {
            // One setting that is refused must not cost the others.
            Err(ScontrolError::Refused { .. }) => {
                for setting in settings {
                    match set(writer, entity, std::slice::from_ref(setting)) {
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

fn set(writer: &HostWriter, entity: &str, settings: &[String]) -> Result<(), ScontrolError> {
    change(&scontrol(writer.host()).args(["update", entity]).args(settings.iter().cloned()))
}

/// Takes partitions out of what `scontrol show` prints: one line each, keys in lower case.
fn partitions(shown: &str) -> Entries {
    let mut entries = read_conf(shown);
    entries.remove(lost::CLUSTER);
    entries
}

/// Takes partitions out of slurm.conf: one line each, keys in lower case; and, under a name that none has, the keys outside of any record.
fn read_conf(text: &str) -> Entries {
    let mut entries = Entries::new();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default()) {
        let mut words = line.split_whitespace().filter_map(|word| word.split_once('=')).peekable();
        let Some((first, name)) = words.peek().copied() else { continue };
        let record = |kind: &str| first.eq_ignore_ascii_case(kind);
        let name = match () {
            () if ["NodeName", "NodeSet", "DownNodes"].into_iter().any(record) => continue,
            () if !record("PartitionName") => lost::CLUSTER,
            () if name.eq_ignore_ascii_case(lost::ALL) => lost::ALL,
            () => name,
        };
        let options = words.map(|(key, value)| (key.to_ascii_lowercase(), value.to_owned()));
        entries.entry(name.to_owned()).or_default().extend(options);
    }
    entries
}

/// Takes nodes out of what `scontrol show` prints: one line each. Texts of nodes and administrators may be in it, with blanks and equals
/// signs, so a weight counts only where Slurm itself puts it, and features come before any such text.
pub(super) fn nodes(shown: &str) -> NodeSettings {
    let setting = |line: &str| -> Option<(String, NodeSetting)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.first()?.strip_prefix("NodeName=")?;
        let place = words.windows(2).find(|pair| pair[0].starts_with("TmpDisk=") && pair[1].starts_with("Weight="))?;
        let weight = place[1].strip_prefix("Weight=")?.parse().ok()?;
        let features = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
        let (available, active) = (features("AvailableFeatures="), features("ActiveFeatures="));
        let active = active.filter(|active| Some(*active) != available).map(str::to_owned);
        Some((name.to_owned(), NodeSetting { weight, active }))
    };
    NodeSettings(shown.lines().filter_map(setting).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_among_texts_of_others() {
        let shown = "NodeName=compute-0 Arch=x86_64 AvailableFeatures=compute,big ActiveFeatures=compute OS=Linux Weight=3 #1 \
                     State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=17 Owner=N/A Comment=TmpDisk=0 Weight=4 Reason=Weight=5\n\
                     NodeName=compute-1 AvailableFeatures=compute ActiveFeatures=compute State=IDLE TmpDisk=0 Weight=1 Owner=N/A\n\
                     No nodes in the system\n";
        let node = |weight, active: Option<&str>| NodeSetting { weight, active: active.map(str::to_owned) };
        let expected = [("compute-0".to_owned(), node(17, Some("compute"))), ("compute-1".to_owned(), node(1, None))];
        assert_eq!(nodes(shown), NodeSettings(expected.into()));
        assert_eq!(nodes("No nodes in the system\n"), NodeSettings::default());
    }

    #[test]
    fn partitions_that_are_in_no_file_are_found() {
        let shown = PartitionSettings(partitions("PartitionName=compute MaxTime=1\nPartitionName=byhand MaxTime=2\n"));
        let conf = "ClusterName=lab KillWait=3\nNodeSet=compute Feature=compute\npartitionname=compute Nodes=compute\n";
        assert_eq!(shown.missing_in(conf), ["byhand"]);
        assert_eq!(shown.missing_in(&format!("{conf}#PartitionName=byhand\n")), ["byhand"]);
        assert!(shown.missing_in(&format!("{conf}PartitionName=byhand Nodes=ALL\n")).is_empty());
        assert!(PartitionSettings::default().missing_in(conf).is_empty());
    }
}
