//! Storage of type filesystem: a directory on the unit's machine, made before the hook that tells of it.

use serde::{Deserialize, Serialize};

use super::Model;
use crate::charm::StorageDefinition;
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
    /// Gives a new unit the storage its charm asks for, in the number that was asked for when the application was
    /// deployed.
    pub fn attach_storage(&mut self, unit: &UnitName) {
        let wanted = self.charm_of(unit.application()).map(|charm| charm.metadata.storage.clone()).unwrap_or_default();
        for definition in wanted {
            let application = self.applications.get(unit.application());
            let asked = application.and_then(|application| application.storage.get(&definition.name).copied());
            self.add_storage(unit, &definition, asked.unwrap_or(definition.least));
        }
    }

    /// Gives a unit more instances of a storage.
    pub fn add_storage(&mut self, unit: &UnitName, definition: &StorageDefinition, count: u32) {
        for _ in 0..count {
            let id = format!("{}/{}", definition.name, self.counters.storage);
            self.counters.storage += 1;
            let location = definition.location_of(&id);
            let (read_only, since) = (definition.read_only, Moment::now());
            self.storage.insert(id.clone(), Storage { id: id.clone(), unit: unit.clone(), location, read_only, since });
            if let Some(unit) = self.units.get_mut(unit) {
                unit.storage.insert(id);
            }
        }
    }

    /// Why a charm may not have so many more of a storage, or its definition.
    pub fn check_addition(&self, unit: &UnitName, name: &str, count: u32) -> Result<StorageDefinition, String> {
        let charm = self.charm_of(unit.application());
        let declared = charm.and_then(|charm| charm.metadata.storage.iter().find(|known| known.name == name));
        let Some(definition) = declared else {
            return Err(format!("adding storage \"{name}\": charm storage not found"));
        };
        let prefix = format!("{name}/");
        let held = self.storage.values().filter(|one| one.unit == *unit && one.id.starts_with(&prefix)).count();
        let total = u32::try_from(held).unwrap_or(u32::MAX).saturating_add(count);
        match definition.most {
            Some(most) if total > most => Err(format!(
                "adding storage \"{name}\": adding {count} brings the total to {total}, exceeding the maximum of {most}"
            )),
            _ => Ok(definition.clone()),
        }
    }
}
