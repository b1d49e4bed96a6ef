//! What a unit does next. A pure function of the model, in the order Juju's own resolver looks.

use super::teardown;
use crate::charm::Scope;
use crate::clock::Moment;
use crate::model::{
    Hook, Life, Model, Receiver, Relation, RelationHook, RelationKind, Release, Running, SecretHook, TaskState, Unit,
};
use crate::names::UnitName;

/// The next thing `unit` runs, if there is anything to do now. `commands`: whether somebody waits with `juju-exec`.
pub fn next(model: &Model, unit: &Unit, commands: bool, now: Moment) -> Option<Running> {
    let uniter = &unit.uniter;
    if uniter.running.is_some() || uniter.charm.is_none() {
        return None;
    }
    let alive = unit.life == Life::Alive;
    let undisturbed = uniter.installed && uniter.queued.is_none() && uniter.failure.is_none();
    if undisturbed && uniter.rebooted && uniter.started && !uniter.stopped {
        return Some(Running::Hook(Hook::Start));
    }
    if alive
        && undisturbed
        && let Some(hook) = created(model, unit).or_else(|| elected(model, unit)).or_else(|| secret(model, unit, now))
    {
        return Some(Running::Hook(hook));
    }
    if let Some(task) = task(model, unit) {
        return Some(Running::Task(task));
    }
    if commands {
        return Some(Running::Commands);
    }
    if let Some(failure) = &uniter.failure {
        let due = failure.retry_at.is_some_and(|at| at <= now);
        return due.then(|| Running::Hook(failure.hook.clone()));
    }
    if let Some(hook) = attached(unit).filter(|_| alive).or_else(|| uniter.queued.clone()) {
        return Some(Running::Hook(hook));
    }
    if !alive {
        return teardown::leaving(model, unit).map(Running::Hook);
    }
    let hook = (!uniter.installed).then_some(Hook::Install);
    hook.or_else(|| config(model, unit))
        .or_else(|| relation(model, unit))
        .or_else(|| update_status(unit, now))
        .map(Running::Hook)
}

/// Storage comes before everything else, also before `install`.
fn attached(unit: &Unit) -> Option<Hook> {
    unit.storage.iter().find(|id| !unit.uniter.storage_seen.contains(*id)).map(|id| Hook::StorageAttached(id.clone()))
}

fn created(model: &Model, unit: &Unit) -> Option<Hook> {
    let unknown = |relation: &&Relation| {
        let declared = relation.side_of(unit.name.application()).is_some_and(|side| !side.endpoint.implicit);
        declared && relation.life == Life::Alive && !unit.uniter.relations.contains_key(&relation.id)
    };
    let relation = model.relations_of(unit.name.application()).find(unknown)?;
    Some(relation_hook(relation, unit, RelationKind::Created, None))
}

pub(super) fn relation_hook(relation: &Relation, unit: &Unit, kind: RelationKind, remote: Option<&UnitName>) -> Hook {
    let application = unit.name.application();
    let endpoint = relation.side_of(application).map(|side| side.endpoint.name.clone()).unwrap_or_default();
    let other = relation.other_side(application).map(|side| side.application.clone()).unwrap_or_default();
    let bag = match remote {
        Some(unit) => relation.unit_bags.get(unit),
        None => relation.application_bags.get(&other),
    };
    Hook::Relation(RelationHook {
        kind,
        version: bag.map_or(0, |bag| bag.version),
        relation: relation.id,
        endpoint,
        remote_application: other,
        remote_unit: remote.cloned(),
        departing: None,
    })
}

fn elected(model: &Model, unit: &Unit) -> Option<Hook> {
    let leads = model.is_leader(&unit.name);
    let settings =
        model.applications.get(unit.name.application()).map(|application| application.leader_settings_version);
    if model.release == Release::V3 && !leads && unit.uniter.leader_settings_version != settings {
        return Some(Hook::LeaderSettingsChanged);
    }
    (leads && !unit.uniter.leader_seen).then_some(Hook::LeaderElected)
}

fn secret(model: &Model, unit: &Unit, now: Moment) -> Option<Hook> {
    for secret in model.secrets.values() {
        if model.may_manage(&unit.name, secret) {
            let (id, label) = (secret.id.clone(), secret.label.clone());
            if secret.expiry_due(now) {
                return Some(Hook::Secret(SecretHook::Expired { id, label, revision: secret.latest }));
            }
            if secret.rotates.is_some_and(|at| at <= now) {
                return Some(Hook::Secret(SecretHook::Rotate { id, label }));
            }
        }
        if let Some(consumer) = secret.consumers.get(&unit.name)
            && consumer.tracked > 0
            && consumer.tracked < secret.latest
            && consumer.notified < secret.latest
        {
            let owner_label = model.secret_by_label(&unit.name, &secret.label).filter(|found| found.id == secret.id);
            let label = match owner_label {
                Some(_) if consumer.label.is_empty() => secret.label.clone(),
                _ => consumer.label.clone(),
            };
            return Some(Hook::Secret(SecretHook::Changed { id: secret.id.clone(), label }));
        }
        if model.may_manage(&unit.name, secret)
            && let Some(revision) = secret.obsolete().first()
        {
            let (id, label) = (secret.id.clone(), secret.label.clone());
            return Some(Hook::Secret(SecretHook::Remove { id, label, revision: *revision }));
        }
    }
    None
}

fn task(model: &Model, unit: &Unit) -> Option<u64> {
    let receiver = Receiver::Unit(unit.name.clone());
    model.tasks.values().find(|task| task.state == TaskState::Pending && task.receiver == receiver).map(|task| task.id)
}

fn config(model: &Model, unit: &Unit) -> Option<Hook> {
    let version = model.applications.get(unit.name.application())?.config_version;
    (unit.uniter.config_seen != Some(version)).then_some(Hook::ConfigChanged)
}

/// Relations with others come before peer relations.
fn relation(model: &Model, unit: &Unit) -> Option<Hook> {
    if !unit.uniter.started {
        return None;
    }
    let mut relations: Vec<&Relation> = model.relations_of(unit.name.application()).collect();
    relations.sort_by_key(|relation| (relation.is_peer(), relation.id));
    relations
        .into_iter()
        .find_map(|relation| teardown::left(model, relation, unit).or_else(|| change(model, relation, unit)))
}

fn change(model: &Model, relation: &Relation, unit: &Unit) -> Option<Hook> {
    let member = unit.uniter.relations.get(&relation.id)?;
    if relation.life != Life::Alive || unit.uniter.deaf_to.contains(&relation.key()) {
        return None;
    }
    let remote = &relation.other_side(unit.name.application())?.application;
    let bag = relation.application_bags.get(remote)?;
    if bag.version > member.application_seen {
        return Some(relation_hook(relation, unit, RelationKind::Changed, None));
    }
    let others = || relation.counterparts(&unit.name).filter(|(other, _)| is_visible(model, relation, unit, other));
    if let Some((other, _)) = others().find(|(other, _)| !member.units_seen.contains_key(*other)) {
        return Some(relation_hook(relation, unit, RelationKind::Joined, Some(other)));
    }
    let changed = others().find(|(other, bag)| member.units_seen.get(*other).is_some_and(|seen| *seen < bag.version));
    changed.map(|(other, _)| relation_hook(relation, unit, RelationKind::Changed, Some(other)))
}

/// 3.6 keeps a relation of container scope between a subordinate and its own principal; 4.0 does not.
fn is_visible(model: &Model, relation: &Relation, unit: &Unit, other: &UnitName) -> bool {
    let contained = model.release == Release::V3 && relation.scope() == Scope::Container;
    let principal_of = |name: &UnitName| model.units.get(name).and_then(|unit| unit.principal.clone());
    let together = principal_of(&unit.name).as_ref() == Some(other) || principal_of(other).as_ref() == Some(&unit.name);
    !teardown::is_gone(model, relation, other) && (!contained || together)
}

fn update_status(unit: &Unit, now: Moment) -> Option<Hook> {
    (unit.uniter.started && unit.uniter.update_status_at.is_some_and(|at| at <= now)).then_some(Hook::UpdateStatus)
}
