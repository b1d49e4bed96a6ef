//! What a unit does next. A pure function of the model, in the order Juju's own resolver looks.

use crate::clock::Moment;
use crate::model::{Hook, Model, Receiver, Relation, RelationHook, RelationKind, Running, SecretHook, TaskState, Unit};

/// The next thing `unit` runs, if there is anything to do now.
pub fn next(model: &Model, unit: &Unit, now: Moment) -> Option<Running> {
    let uniter = &unit.uniter;
    if uniter.running.is_some() || uniter.charm.is_none() {
        return None;
    }
    let undisturbed = uniter.installed && uniter.queued.is_none() && uniter.failure.is_none();
    if undisturbed
        && let Some(hook) = created(model, unit).or_else(|| elected(model, unit)).or_else(|| secret(model, unit))
    {
        return Some(Running::Hook(hook));
    }
    if let Some(task) = task(model, unit) {
        return Some(Running::Task(task));
    }
    if let Some(failure) = &uniter.failure {
        let due = failure.retry_at.is_some_and(|at| at <= now);
        return due.then(|| Running::Hook(failure.hook.clone()));
    }
    let hook = uniter.queued.clone().or_else(|| (!uniter.installed).then_some(Hook::Install));
    hook.or_else(|| config(model, unit))
        .or_else(|| relation(model, unit))
        .or_else(|| update_status(unit, now))
        .map(Running::Hook)
}

fn created(model: &Model, unit: &Unit) -> Option<Hook> {
    let unknown = |relation: &&Relation| {
        let declared = relation.side_of(unit.name.application()).is_some_and(|side| !side.endpoint.implicit);
        declared && !unit.uniter.relations.contains_key(&relation.id)
    };
    let relation = model.relations_of(unit.name.application()).find(unknown)?;
    Some(relation_hook(relation, unit, RelationKind::Created, None))
}

fn relation_hook(
    relation: &Relation,
    unit: &Unit,
    kind: RelationKind,
    remote: Option<&crate::names::UnitName>,
) -> Hook {
    let application = unit.name.application();
    let endpoint = relation.side_of(application).map(|side| side.endpoint.name.clone()).unwrap_or_default();
    let other = relation.other_side(application).map(|side| side.application.clone()).unwrap_or_default();
    Hook::Relation(RelationHook {
        kind,
        relation: relation.id,
        endpoint,
        remote_application: other,
        remote_unit: remote.cloned(),
    })
}

fn elected(model: &Model, unit: &Unit) -> Option<Hook> {
    (model.is_leader(&unit.name) && !unit.uniter.leader_seen).then_some(Hook::LeaderElected)
}

fn secret(model: &Model, unit: &Unit) -> Option<Hook> {
    for secret in model.secrets.values() {
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
    relations.into_iter().find_map(|relation| change(relation, unit))
}

fn change(relation: &Relation, unit: &Unit) -> Option<Hook> {
    let member = unit.uniter.relations.get(&relation.id)?;
    let remote = &relation.other_side(unit.name.application())?.application;
    let bag = relation.application_bags.get(remote)?;
    if bag.version > member.application_seen {
        return Some(relation_hook(relation, unit, RelationKind::Changed, None));
    }
    let joined = relation.counterparts(&unit.name).find(|(other, _)| !member.units_seen.contains_key(*other));
    if let Some((other, _)) = joined {
        return Some(relation_hook(relation, unit, RelationKind::Joined, Some(other)));
    }
    let changed = relation
        .counterparts(&unit.name)
        .find(|(other, bag)| member.units_seen.get(*other).is_some_and(|seen| *seen < bag.version));
    changed.map(|(other, _)| relation_hook(relation, unit, RelationKind::Changed, Some(other)))
}

fn update_status(unit: &Unit, now: Moment) -> Option<Hook> {
    (unit.uniter.started && unit.uniter.update_status_at.is_some_and(|at| at <= now)).then_some(Hook::UpdateStatus)
}
