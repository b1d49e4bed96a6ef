//! What administrators set at runtime with `scontrol`, and what of it a reconfigure undoes.
//!
//! slurmctld forgets some of it when it reads its files again: settings of partitions, weights of nodes and which of
//! their features are active. States, reasons, comments and the rest of nodes it keeps by itself. So a caller looks
//! before and after, and sets again what [`updates`] says.
//!
//! All is read from the one-line form of `scontrol show`: of a thousand nodes that is a quarter of the JSON, and takes
//! a seventh of its time.

mod aspect;

use crate::effective::EffectiveConf;
use crate::hostlist::HostList;
use crate::name::PartitionName;
use aspect::ASPECTS;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The weight of a node that says nothing about it.
const USUAL_WEIGHT: u64 = 1;

/// Slurm keeps the state of a partition by itself (`KeepPartState`), and therefore takes it from slurm.conf only for a
/// new partition. A state that was chosen in slurm.conf is brought to it.
const STATE: &str = "State";
/// Of one partition at most.
const DEFAULT: &str = "Default";

/// What slurmctld has in memory at one moment. The JSON form is that of a note which a later call may have to read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeSettings {
    /// Of nodes.
    pub nodes: NodeSettings,
    /// Of partitions.
    pub partitions: PartitionSettings,
}

/// The settings of every partition, keys in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartitionSettings(BTreeMap<String, BTreeMap<String, String>>);

impl PartitionSettings {
    /// Reads what `scontrol --oneliner show partition` printed.
    pub fn from_shown(shown: &str) -> Self {
        let partition = |line: &str| {
            let mut words = line.split_whitespace().filter_map(|word| word.split_once('='));
            let (_, name) = words.next().filter(|(key, _)| *key == "PartitionName")?;
            Some((name.to_owned(), words.map(|(key, value)| (key.to_ascii_lowercase(), value.to_owned())).collect()))
        };
        Self(shown.lines().filter_map(partition).collect())
    }

    /// Returns one setting, in Slurm's words.
    pub fn get(&self, name: &PartitionName, key: &str) -> Option<&str> {
        self.value(name.as_str(), key)
    }

    /// Returns the names of the partitions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the nodes of a partition. None: there is no such partition, or the list cannot be read.
    pub fn nodes(&self, name: &PartitionName) -> Option<HostList> {
        self.0.get(name.as_str())?;
        match self.get(name, "Nodes").unwrap_or_default() {
            "(null)" => Some(HostList::default()),
            list => list.parse().ok(),
        }
    }

    /// Returns the partitions that a configuration does not have. With the next reconfigure they are gone, and with
    /// them their jobs.
    pub fn missing_in(&self, conf: &EffectiveConf) -> BTreeSet<String> {
        self.names().filter(|name| !conf.has_partition(name)).map(str::to_owned).collect()
    }

    fn value(&self, name: &str, key: &str) -> Option<&str> {
        self.0.get(name)?.get(&key.to_ascii_lowercase()).map(String::as_str)
    }

    /// Returns the partition of jobs that name none.
    fn default_partition(&self) -> Option<&str> {
        self.names().find(|name| self.value(name, DEFAULT) == Some("YES"))
    }
}

/// What may have been set about every node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeSettings(BTreeMap<String, NodeSetting>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NodeSetting {
    weight: u64,
    /// The features that are active, if not all are.
    active: Option<String>,
}

impl NodeSettings {
    /// Reads what `scontrol --oneliner show node` printed. Texts of nodes and administrators may be in it, with blanks
    /// and equals signs, so a weight counts only where Slurm itself puts it, and features come before any such text.
    pub fn from_shown(shown: &str) -> Self {
        let setting = |line: &str| -> Option<(String, NodeSetting)> {
            let words: Vec<&str> = line.split_whitespace().collect();
            let name = words.first()?.strip_prefix("NodeName=")?;
            let place =
                words.windows(2).find(|pair| pair[0].starts_with("TmpDisk=") && pair[1].starts_with("Weight="))?;
            let weight = place[1].strip_prefix("Weight=")?.parse().ok()?;
            let features = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
            let (available, active) = (features("AvailableFeatures="), features("ActiveFeatures="));
            let active = active.filter(|active| Some(*active) != available).map(str::to_owned);
            Some((name.to_owned(), NodeSetting { weight, active }))
        };
        Self(shown.lines().filter_map(setting).collect())
    }

    /// Tells whether nobody has set anything, so that nothing can be lost.
    pub fn are_usual(&self) -> bool {
        self.0.values().all(|node| node.weight == USUAL_WEIGHT && node.active.is_none())
    }
}

/// What an update is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entity {
    /// A node, by name.
    Node(String),
    /// A partition, by name.
    Partition(String),
}

impl fmt::Display for Entity {
    /// Writes the entity as `scontrol update` wants it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(formatter, "nodename={name}"),
            Self::Partition(name) => write!(formatter, "partitionname={name}"),
        }
    }
}

/// One `scontrol update`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// What is updated.
    pub entity: Entity,
    /// Keys and values, one at least.
    pub settings: Vec<(&'static str, String)>,
}

/// Returns the updates that bring back what a reconfigure took away: what differs from `before` although nothing about
/// it differs between the old configuration and the new one. What was chosen in slurm.conf is left as it became.
pub fn updates(
    before: &RuntimeSettings,
    after: &RuntimeSettings,
    old: &EffectiveConf,
    new: &EffectiveConf,
) -> Vec<Update> {
    let mut updates = node_updates(&before.nodes, &after.nodes);
    for (name, was) in &before.partitions.0 {
        let Some(is) = after.partitions.0.get(name) else { continue };
        // A partition that says nothing has what slurm.conf says for the whole cluster.
        let chosen = |key: &str| old.partition(name, key) != new.partition(name, key) || old.get(key) != new.get(key);
        let lost = ASPECTS.iter().filter(|aspect| !aspect.keys().any(chosen)).filter_map(|aspect| aspect.undo(was, is));
        let mut settings: Vec<_> = lost.collect();
        settings.extend(chosen_state(name, &after.partitions, old, new).map(|state| (STATE, state)));
        if !settings.is_empty() {
            updates.push(Update { entity: Entity::Partition(name.clone()), settings });
        }
    }
    updates.extend(default_update(&before.partitions, &after.partitions, old, new));
    updates
}

fn node_updates(before: &NodeSettings, after: &NodeSettings) -> Vec<Update> {
    let lost = before.0.iter().filter_map(|(name, was)| {
        let is = after.0.get(name)?;
        let weight = (was.weight != is.weight).then(|| ("weight", was.weight.to_string()));
        let features = was.active.clone().filter(|active| is.active.as_ref() != Some(active));
        let features = features.map(|active| ("activefeatures", active));
        let settings: Vec<_> = weight.into_iter().chain(features).collect();
        (!settings.is_empty()).then(|| Update { entity: Entity::Node(name.clone()), settings })
    });
    lost.collect()
}

/// Returns the state that was chosen for a partition in slurm.conf and that the partition does not have yet.
fn chosen_state(name: &str, after: &PartitionSettings, old: &EffectiveConf, new: &EffectiveConf) -> Option<String> {
    let written = |conf: &EffectiveConf| conf.partition(name, STATE).map(str::to_ascii_uppercase);
    let (was, state) = (written(old), written(new));
    if was == state {
        return None;
    }
    let state = state.unwrap_or_else(|| "UP".to_owned());
    let is = after.value(name, STATE)?;
    (!is.eq_ignore_ascii_case(&state)).then_some(state)
}

/// A partition that becomes the default ends another one's being it.
fn default_update(
    before: &PartitionSettings,
    after: &PartitionSettings,
    old: &EffectiveConf,
    new: &EffectiveConf,
) -> Option<Update> {
    let chosen = |name: &str| old.partition(name, DEFAULT) != new.partition(name, DEFAULT);
    let (was, is) = (before.default_partition(), after.default_partition());
    if was == is || old.partitions().chain(new.partitions()).any(chosen) {
        return None;
    }
    let (name, value) = match (was, is) {
        (Some(was), _) => (after.0.contains_key(was).then_some(was)?, "YES"),
        (None, is) => (is?, "NO"),
    };
    Some(Update { entity: Entity::Partition(name.to_owned()), settings: vec![(DEFAULT, value.to_owned())] })
}

#[cfg(test)]
mod tests;
