//! The state of one model: what Juju's controller keeps in its database. Plain data with the rules that need nothing
//! but the data; it neither runs hooks nor touches a machine, and all of it is written to one file.

mod application;
mod history;
mod machine;
mod relation;
mod removal;
mod secret;
mod status;
mod storage;
mod task;
mod unit;

pub use application::Application;
pub use history::Past;
pub use machine::Machine;
pub use relation::{Bag, Candidate, Relation, Side, overlay};
pub use removal::{Force, Forced, Gone};
pub use secret::{Owner, Revision, Secret, UserSecret, new_secret_id, parse_secret_uri};
pub use status::{Status, StatusInfo};
pub use storage::Storage;
pub use task::{EXEC, Operation, Receiver, Task, TaskState};
pub use unit::{Failure, Hook, OpenPort, RelationHook, RelationKind, Running, SecretHook, Unit};

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::charm::Charm;
use crate::clock::Moment;
use crate::names::UnitName;

/// The release whose behaviour is shown. Everything that differs between releases asks the model, not this constant.
pub const VERSION: &str = "4.0.9";
pub const CONTROLLER: &str = "juju-local";
pub const CLOUD: &str = "localhost";
pub const USER: &str = "admin";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Life {
    Alive,
    Dying,
    Dead,
}

impl Life {
    pub fn name(self) -> &'static str {
        match self {
            Life::Alive => "alive",
            Life::Dying => "dying",
            Life::Dead => "dead",
        }
    }
}

/// Which line of Juju is imitated; it decides how things are removed, and some words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Release {
    V3,
    V4,
}

impl Release {
    /// The release that a version belongs to.
    pub fn of(version: &str) -> Release {
        if version.starts_with("3.") { Release::V3 } else { Release::V4 }
    }
}

/// Numbers that are never given out twice.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counters {
    pub machine: u32,
    pub relation: u32,
    /// Operations and tasks share one.
    pub task: u64,
    /// Application → next unit number; outlives the application.
    pub unit: BTreeMap<String, u32>,
    /// Charm name → next local revision.
    pub revision: BTreeMap<String, u32>,
    pub storage: u32,
    /// Last part of the next machine's address.
    pub address: u8,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Model {
    pub name: String,
    pub uuid: String,
    pub controller_uuid: String,
    pub version: String,
    pub release: Release,
    pub created: Moment,
    /// It is being destroyed, and takes nothing new.
    #[serde(default)]
    pub dying: bool,
    /// The boot of the host in which its machines were last seen.
    #[serde(default)]
    pub host_boot: String,
    /// Release of Slurm in the pool of its machines.
    pub slurm: String,
    /// Values that differ from the default.
    pub config: BTreeMap<String, Value>,
    pub counters: Counters,
    pub machines: BTreeMap<String, Machine>,
    pub charms: BTreeMap<String, Charm>,
    pub applications: BTreeMap<String, Application>,
    pub units: BTreeMap<UnitName, Unit>,
    pub relations: BTreeMap<u32, Relation>,
    pub secrets: BTreeMap<String, Secret>,
    pub storage: BTreeMap<String, Storage>,
    /// Events that this model loses, beyond those that its release always loses.
    pub losses: BTreeSet<String>,
    pub operations: BTreeMap<u64, Operation>,
    pub tasks: BTreeMap<u64, Task>,
    /// By id: what the user's own secrets have beside.
    #[serde(default)]
    pub user_secrets: BTreeMap<String, UserSecret>,
    /// Earlier statuses of units, applications and machines.
    #[serde(default)]
    pub history: BTreeMap<String, Vec<Past>>,
    #[serde(default)]
    pub constraints: BTreeMap<String, String>,
    /// Public keys for ssh, which nothing here asks for.
    #[serde(default)]
    pub ssh_keys: Vec<String>,
}

impl Model {
    pub fn new(name: &str, uuid: &str, controller_uuid: &str, slurm: &str) -> Self {
        Model {
            name: name.to_owned(),
            uuid: uuid.to_owned(),
            controller_uuid: controller_uuid.to_owned(),
            version: VERSION.to_owned(),
            release: Release::V4,
            created: Moment::now(),
            dying: false,
            host_boot: String::new(),
            slurm: slurm.to_owned(),
            config: BTreeMap::new(),
            counters: Counters { address: 10, ..Counters::default() },
            machines: BTreeMap::new(),
            charms: BTreeMap::new(),
            applications: BTreeMap::new(),
            units: BTreeMap::new(),
            relations: BTreeMap::new(),
            secrets: BTreeMap::new(),
            storage: BTreeMap::new(),
            losses: BTreeSet::new(),
            operations: BTreeMap::new(),
            tasks: BTreeMap::new(),
            user_secrets: BTreeMap::new(),
            history: BTreeMap::new(),
            constraints: BTreeMap::new(),
            ssh_keys: Vec::new(),
        }
    }

    /// The six digits that stand for the model in the names of its machines.
    pub fn short_id(&self) -> &str {
        &self.uuid[self.uuid.len() - 6..]
    }

    pub fn charm_of(&self, application: &str) -> Option<&Charm> {
        self.applications.get(application).and_then(|app| self.charms.get(&app.charm))
    }

    pub fn units_of<'a>(&'a self, application: &'a str) -> impl Iterator<Item = &'a Unit> {
        self.units.values().filter(move |unit| unit.name.application() == application)
    }

    pub fn is_leader(&self, unit: &UnitName) -> bool {
        self.applications.get(unit.application()).is_some_and(|app| app.leader.as_ref() == Some(unit))
    }

    /// The unique id that Juju's messages use for a unit or machine; the same as long as the model is.
    pub fn entity_uuid(&self, entity: &str) -> String {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, &self.uuid, entity).hash(&mut hasher);
            format!("{:016x}", hasher.finish())
        };
        let hex = format!("{}{}", half(1), half(2));
        format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
    }

    /// The address of the machine a unit is on.
    pub fn address_of(&self, unit: &UnitName) -> Option<String> {
        let machine = &self.units.get(unit)?.machine;
        self.machines.get(machine).map(|machine| machine.address.to_string())
    }

    /// Value of a boolean or text setting of the model, default included.
    pub fn setting(&self, key: &str) -> Option<Value> {
        self.config.get(key).cloned().or_else(|| crate::settings::default(key))
    }

    pub fn next_task_number(&mut self) -> u64 {
        let number = self.counters.task;
        self.counters.task += 1;
        number
    }
}
