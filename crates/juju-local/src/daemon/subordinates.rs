//! Subordinate units: one for each principal unit that is part of a relation of container scope, on its machine.

use super::State;
use crate::charm::Scope;
use crate::hooks::seeded;
use crate::model::{Bag, Life, Model, Status, StatusInfo, Unit};
use crate::names::UnitName;

/// Brings principals into the scope of implicit endpoints, and makes the subordinates that are missing.
pub(super) fn make_missing(state: &mut State) {
    let pairs: Vec<(u32, String, String, bool)> = state
        .model
        .relations
        .values()
        .filter(|relation| relation.life == Life::Alive && relation.scope() == Scope::Container)
        .filter_map(|relation| {
            let principal = relation.sides.iter().find(|side| !is_subordinate(&state.model, &side.application))?;
            let subordinate = relation.sides.iter().find(|side| is_subordinate(&state.model, &side.application))?;
            let names = (principal.application.clone(), subordinate.application.clone());
            Some((relation.id, names.0, names.1, principal.endpoint.implicit))
        })
        .collect();
    for (relation, principal, subordinate, implicit) in pairs {
        let ready: Vec<UnitName> = state
            .model
            .units_of(&principal)
            .filter(|unit| unit.life == Life::Alive && unit.uniter.installed)
            .map(|unit| unit.name.clone())
            .collect();
        for unit in ready {
            if implicit {
                enter_scope(&mut state.model, relation, &unit);
            }
            let in_scope =
                state.model.relations.get(&relation).is_some_and(|record| record.unit_bags.contains_key(&unit));
            if in_scope {
                make_one(state, &subordinate, &unit);
            }
        }
    }
}

fn is_subordinate(model: &Model, application: &str) -> bool {
    model.charm_of(application).is_some_and(|charm| charm.metadata.subordinate)
}

fn enter_scope(model: &mut Model, relation: u32, unit: &UnitName) {
    let values = seeded(model.release, &model.address_of(unit).unwrap_or_default());
    if let Some(record) = model.relations.get_mut(&relation) {
        record.unit_bags.entry(unit.clone()).or_insert(Bag { values, version: 1 });
    }
}

fn make_one(state: &mut State, application: &str, principal: &UnitName) {
    let alive = state.model.applications.get(application).is_some_and(|record| record.life == Life::Alive);
    let exists = state.model.units_of(application).any(|unit| unit.principal.as_ref() == Some(principal));
    let Some(machine) = state.model.units.get(principal).map(|unit| unit.machine.clone()).filter(|_| alive && !exists)
    else {
        return;
    };
    let counter = state.model.counters.unit.entry(application.to_owned()).or_insert(0);
    let name = UnitName::new(application, *counter);
    *counter += 1;
    let mut unit = Unit::new(name.clone(), &machine);
    unit.principal = Some(principal.clone());
    unit.workload = StatusInfo::new(Status::Waiting, "agent initialising");
    state.model.units.insert(name.clone(), unit);
    state.model.attach_storage(&name);
    state.dirty = true;
}
