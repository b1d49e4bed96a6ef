//! Hooks of leaving: of a unit that goes itself, and of one that is left by others or whose relation is removed.

use super::schedule::relation_hook;
use crate::model::{Hook, Life, Model, Relation, RelationHook, RelationKind, Release, Unit};
use crate::names::UnitName;

/// The next teardown hook of a unit that is Dying; none when its agent has nothing left to run.
pub fn leaving(model: &Model, unit: &Unit) -> Option<Hook> {
    let uniter = &unit.uniter;
    if !uniter.installed {
        return None;
    }
    if let Some(id) = unit.storage.iter().find(|id| uniter.storage_seen.contains(*id)) {
        return Some(Hook::StorageDetaching(id.clone()));
    }
    let mut relations: Vec<&Relation> = model.relations_of(unit.name.application()).collect();
    relations.sort_by_key(|relation| (relation.is_peer(), relation.id));
    let torn_down = relations.into_iter().find_map(|relation| tear_down(model, relation, unit));
    torn_down
        .or_else(|| (uniter.started && !uniter.stopped).then_some(Hook::Stop))
        .or_else(|| (!uniter.removed).then_some(Hook::Remove))
}

/// Departed for each member that is known, then broken; a peer relation is only departed from, unless the agent has
/// forgotten what it is.
fn tear_down(model: &Model, relation: &Relation, unit: &Unit) -> Option<Hook> {
    let member = unit.uniter.relations.get(&relation.id)?;
    if let Some(remote) = member.units_seen.keys().next() {
        return Some(departed(model, relation, unit, remote));
    }
    (!relation.is_peer() || member.forgotten).then(|| broken(relation, unit))
}

fn departed(model: &Model, relation: &Relation, unit: &Unit, remote: &UnitName) -> Hook {
    let application_leaves =
        model.applications.get(unit.name.application()).is_none_or(|application| application.life != Life::Alive);
    let departing = match unit.life != Life::Alive || application_leaves {
        true => &unit.name,
        false => remote,
    };
    with(relation_hook(relation, unit, RelationKind::Departed, Some(remote)), |hook| {
        hook.departing = Some(departing.clone())
    })
}

fn broken(relation: &Relation, unit: &Unit) -> Hook {
    let forgotten = unit.uniter.relations.get(&relation.id).is_some_and(|member| member.forgotten);
    with(relation_hook(relation, unit, RelationKind::Broken, None), |hook| {
        if forgotten {
            hook.remote_application.clear();
        }
    })
}

fn with(mut hook: Hook, change: impl FnOnce(&mut RelationHook)) -> Hook {
    if let Hook::Relation(relation) = &mut hook {
        change(relation);
    }
    hook
}

/// What a unit that stays runs because somebody left this relation, or because the relation itself goes.
pub fn left(model: &Model, relation: &Relation, unit: &Unit) -> Option<Hook> {
    let member = unit.uniter.relations.get(&relation.id)?;
    if relation.life != Life::Alive && !relation.is_peer() {
        return tear_down(model, relation, unit);
    }
    let gone =
        member.units_seen.keys().find(|other| !member.ghosts.contains(*other) && is_gone(model, relation, other));
    gone.map(|remote| departed(model, relation, unit, remote))
}

/// 3.6 tells the others as soon as a unit is Dying, 4.x only when it has left scope.
pub(super) fn is_gone(model: &Model, relation: &Relation, other: &UnitName) -> bool {
    let dying = model.units.get(other).is_none_or(|unit| unit.life != Life::Alive);
    !relation.unit_bags.contains_key(other) || (model.release == Release::V3 && dying)
}
