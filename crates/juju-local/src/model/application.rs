//! An application: its charm, its options, its leader.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Life, StatusInfo};
use crate::charm::Charm;
use crate::clock::Moment;
use crate::names::UnitName;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Application {
    pub name: String,
    /// `local:<charm>-<revision>`.
    pub charm: String,
    pub base: (String, String),
    pub life: Life,
    pub exposed: bool,
    pub trusted: bool,
    /// Options that were set, not defaults.
    pub config: BTreeMap<String, Value>,
    /// Counts the changes that units are told of by config-changed.
    pub config_version: u64,
    pub leader: Option<UnitName>,
    pub lease_until: Moment,
    /// Set by the leader; without it the units' worst status counts.
    pub status: Option<StatusInfo>,
    pub version: String,
    pub constraints: BTreeMap<String, String>,
    /// Storage of which every unit gets another number than the charm's own.
    #[serde(default)]
    pub storage: BTreeMap<String, u32>,
    /// What the leader shares with its fellows; only 3.6 has it.
    #[serde(default)]
    pub leader_settings: BTreeMap<String, String>,
    /// Counts the changes that the others are told of by leader-settings-changed.
    #[serde(default)]
    pub leader_settings_version: u64,
    pub created: Moment,
}

impl Application {
    #[cfg(test)]
    pub fn new(name: &str) -> Self {
        Application {
            name: name.to_owned(),
            charm: String::new(),
            base: ("ubuntu".to_owned(), "24.04".to_owned()),
            life: Life::Alive,
            exposed: false,
            trusted: false,
            config: BTreeMap::new(),
            config_version: 0,
            leader: None,
            lease_until: Moment(0),
            status: None,
            version: String::new(),
            constraints: BTreeMap::new(),
            storage: BTreeMap::new(),
            leader_settings: BTreeMap::new(),
            leader_settings_version: 0,
            created: Moment(0),
        }
    }

    /// Every option with its value: set, or default, or null.
    pub fn effective_config(&self, charm: &Charm) -> BTreeMap<String, Value> {
        charm
            .options
            .iter()
            .map(|(name, option)| {
                let value = self.config.get(name).cloned().or_else(|| option.default.clone());
                (name.clone(), value.unwrap_or(Value::Null))
            })
            .collect()
    }
}
