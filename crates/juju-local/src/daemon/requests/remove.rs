//! `juju remove-unit`, `remove-application`, `remove-relation`, `remove-machine`. All of them return as soon as the
//! removal is on its way.

use serde_json::{Value, json};

use crate::daemon::State;
use crate::model::{Candidate, Force};
use crate::names::UnitName;
use crate::wire::{Failure, Response};

pub(super) fn units(state: &mut State, names: &[String], force: Force, dry_run: bool) -> Response {
    let mut lines = Vec::new();
    for text in names {
        let Some(name) = UnitName::parse(text) else {
            return Err(Failure { code: 2, ..Failure::new(format!("invalid unit name \"{text}\"")) });
        };
        if !state.model.applications.contains_key(name.application()) {
            let application = name.application();
            return Err(Failure::new(format!("removing unit {text} failed: application {application} not found")));
        }
        if !state.model.units.contains_key(&name) {
            return Err(Failure::new(format!("removing unit {text} failed: unit \"{text}\" not found")));
        }
        if state.model.units.get(&name).is_some_and(|unit| unit.principal.is_some()) {
            return Err(Failure::new(format!("removing unit {text} failed: unit \"{text}\" is a subordinate")));
        }
        lines.push(format!("will remove unit {name}"));
        if !dry_run {
            state.model.remove_unit(&name, force);
        }
    }
    Ok(json!({"lines": lines}))
}

pub(super) fn applications(state: &mut State, names: &[String], force: Force, dry_run: bool) -> Response {
    let mut lines = Vec::new();
    for name in names {
        if !state.model.applications.contains_key(name) {
            return Err(Failure::new(format!("removing application {name} failed: application \"{name}\" not found")));
        }
        lines.push(format!("will remove application {name}"));
        lines.extend(state.model.units_of(name).map(|unit| format!("- will remove unit {}", unit.name)));
        if !dry_run {
            state.model.remove_application(name, force);
        }
    }
    Ok(json!({"lines": lines}))
}

pub(super) fn relation(state: &mut State, words: &[String], force: Force) -> Response {
    let id = match words {
        [number] => {
            let Ok(id) = number.parse::<u32>() else {
                return Err(Failure { code: 2, ..Failure::new(format!("relation ID \"{number}\" not valid")) });
            };
            let known = state.model.relations.contains_key(&id);
            known
                .then_some(id)
                .ok_or_else(|| Failure::new(format!("finding relation uuid for id {id}: relation not found")))?
        }
        [one, other] => find(state, one, other)?,
        _ => return Err(Failure { code: 2, ..Failure::new("a relation must involve two applications") }),
    };
    state.model.remove_relation(id, force);
    Ok(Value::Null)
}

/// The one existing relation that the two names may stand for.
fn find(state: &State, one: &str, other: &str) -> Result<u32, Failure> {
    let candidates = state.model.candidates(one, other).map_err(|_| Failure::new("relation not found"))?;
    let existing: Vec<u32> = candidates
        .iter()
        .filter_map(|Candidate(left, right)| {
            let mut relations = state.model.relations.values();
            relations.find(|relation| relation.has_side(left) && relation.has_side(right)).map(|one| one.id)
        })
        .collect();
    match (existing.as_slice(), candidates.as_slice()) {
        ([id], _) => Ok(*id),
        ([], [Candidate(left, right)]) => Err(Failure::new(format!(
            "getting uuid for \"{}\", \"{}\": relation not found",
            left.label(),
            right.label()
        ))),
        _ => Err(Failure::new("relation not found")),
    }
}

pub(super) fn machines(state: &mut State, ids: &[String], force: Force, dry_run: bool) -> Response {
    let mut lines = Vec::new();
    for id in ids {
        let Some(machine) = state.model.machines.get(id) else {
            return Err(Failure::new(format!(
                "removing machine failed: getting machine UUID: getting UUID for machine \"{id}\": machine \"{id}\": \
                 machine not found"
            )));
        };
        let has_units = state.model.units.values().any(|unit| unit.machine == machine.id);
        if has_units && force == Force::No {
            let uuid = state.model.entity_uuid(&format!("machine-{id}"));
            return Err(Failure::new(format!(
                "removing machine failed: removing machine: machine \"{uuid}\": cannot set machine \"{uuid}\" to dying \
                 without force: machine has units"
            )));
        }
        lines.push(format!("will remove machine {id}"));
        if !dry_run {
            state.model.remove_machine(id, force);
        }
    }
    Ok(json!({"lines": lines}))
}
