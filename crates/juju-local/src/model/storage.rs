//! Storage of type filesystem: a directory on the unit's machine, made before the charm is installed.

use serde::{Deserialize, Serialize};

use super::Model;
use crate::clock::Moment;
use crate::names::UnitName;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Storage {
    /// `<name>/<number>`; the numbers are the model's.
    pub id: String,
    pub unit: UnitName,
    pub location: String,
    pub read_only: bool,
    pub since: Moment,
}

impl Model {
    /// Gives a new unit the storage its charm asks for.
    pub fn attach_storage(&mut self, unit: &UnitName) {
        let wanted = self.charm_of(unit.application()).map(|charm| charm.metadata.storage.clone()).unwrap_or_default();
        for definition in wanted {
            for _ in 0..definition.count {
                let id = format!("{}/{}", definition.name, self.counters.storage);
                self.counters.storage += 1;
                let location = definition.location_of(&id);
                let (read_only, since) = (definition.read_only, Moment::now());
                self.storage
                    .insert(id.clone(), Storage { id: id.clone(), unit: unit.clone(), location, read_only, since });
                if let Some(unit) = self.units.get_mut(unit) {
                    unit.storage.insert(id);
                }
            }
        }
    }
}
