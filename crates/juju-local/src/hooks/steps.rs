//! The beginning and the end of what a unit runs: what the model records of each.

use std::collections::BTreeMap;

use super::context::Context;
use crate::charm;
use crate::clock::Moment;
use crate::model::{
    Bag, Failure, Hook, Life, Model, RelationKind, Release, Running, SecretHook, Status, StatusInfo, TaskState,
};
use crate::names::UnitName;
use serde_json::{Map, Value, json};

const INSTALLING: &str = "installing charm software";
const FIRST_RETRY: u64 = 5_000;
const LONGEST_RETRY: u64 = 300_000;
/// How long after its last relation-broken the removal job finds a leaving unit without scope.
const SCOPE_GRACE: u64 = 9_000;

/// How a charm's process ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Exit code, or the name of the signal as Go says it.
    pub end: Result<i32, String>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Records that `unit` starts `running` and gives the context its process sees.
pub fn begin(model: &mut Model, name: &UnitName, running: &Running, now: Moment) -> anyhow::Result<Context> {
    if let Running::Hook(hook) = running {
        prepare(model, name, hook);
    }
    let activity = match running {
        Running::Hook(Hook::UpdateStatus) | Running::Commands => None,
        Running::Hook(hook) => Some(hook.activity()),
        Running::Task(id) => model.tasks.get(id).map(|task| format!("running action {}", task.action)),
    };
    if let Running::Task(id) = running
        && let Some(task) = model.tasks.get_mut(id)
    {
        task.state = TaskState::Running;
        task.started = Some(now);
    }
    let context = Context::new(model, name, running)?;
    let Some(unit) = model.units.get_mut(name) else { anyhow::bail!("unit {name} not found") };
    unit.uniter.running = Some(running.clone());
    if let Some(activity) = activity {
        unit.agent = StatusInfo::new(Status::Executing, activity);
    }
    match running {
        Running::Hook(Hook::Install) if unit.workload.current == Status::Waiting => {
            unit.workload = StatusInfo::new(Status::Maintenance, INSTALLING);
        }
        Running::Hook(Hook::Stop) => unit.workload = StatusInfo::new(Status::Maintenance, "stopping charm software"),
        Running::Hook(Hook::Remove) => {
            unit.workload = StatusInfo::new(Status::Maintenance, "cleaning up prior to charm deletion");
        }
        _ => {}
    }
    Ok(context)
}

/// What a hook takes note of before it runs. Running it again does no harm.
fn prepare(model: &mut Model, name: &UnitName, hook: &Hook) {
    let address = model.address_of(name).unwrap_or_default();
    if model.units.get(name).is_some_and(|unit| unit.life != Life::Alive) {
        model.remove_subordinates_of(name);
    }
    let release = model.release;
    let application = model.applications.get(name.application());
    let version = application.map(|application| application.config_version);
    let settings = application.map(|application| application.leader_settings_version);
    let Some(unit) = model.units.get_mut(name) else { return };
    match hook {
        Hook::ConfigChanged => unit.uniter.config_seen = version,
        Hook::LeaderSettingsChanged => unit.uniter.leader_settings_version = settings,
        Hook::Relation(hook) => {
            let Some(relation) = model.relations.get_mut(&hook.relation) else { return };
            let member = unit.uniter.relations.entry(hook.relation).or_default();
            match (hook.kind, &hook.remote_unit) {
                // A unit is in scope, with its address, from the moment its relation-created begins.
                (RelationKind::Created, _) => {
                    let seed = Bag { values: seeded(release, &address), version: 1 };
                    relation.unit_bags.entry(name.clone()).or_insert(seed);
                }
                (RelationKind::Joined, Some(remote)) => {
                    member.units_seen.entry(remote.clone()).or_insert(0);
                }
                (RelationKind::Changed, Some(remote)) => {
                    member.units_seen.insert(remote.clone(), hook.version);
                }
                (RelationKind::Changed, None) => {
                    member.application_seen = hook.version;
                }
                (RelationKind::Departed, Some(remote)) => {
                    member.units_seen.remove(remote);
                    member.ghosts.remove(remote);
                }
                (RelationKind::Broken, _) => {
                    member.units_seen.clear();
                }
                (RelationKind::Joined | RelationKind::Departed, None) => {}
            }
        }
        Hook::Secret(SecretHook::Changed { id, .. }) => {
            if let Some(secret) = model.secrets.get_mut(id) {
                let latest = secret.latest;
                if let Some(consumer) = secret.consumers.get_mut(name) {
                    consumer.notified = latest;
                }
            }
        }
        Hook::Secret(SecretHook::Expired { id, .. }) => {
            if let Some(secret) = model.secrets.get_mut(id) {
                secret.expiry_said = Some(Moment::now());
            }
        }
        Hook::Secret(SecretHook::Rotate { id, .. }) => {
            // Said again after a while if no new revision was made.
            if let Some(secret) = model.secrets.get_mut(id) {
                secret.rotates = Some(Moment::now().plus_millis(LONGEST_RETRY));
            }
        }
        Hook::Secret(SecretHook::Remove { id, revision, .. }) => {
            if let Some(secret) = model.secrets.get_mut(id)
                && !secret.removal_announced.contains(revision)
            {
                secret.removal_announced.push(*revision);
            }
        }
        _ => {}
    }
}

/// What Juju itself writes into the bag of a unit that enters a relation.
pub fn seeded(release: Release, address: &str) -> BTreeMap<String, String> {
    let mut values = BTreeMap::from([("ingress-address".to_owned(), address.to_owned())]);
    if release == Release::V3 {
        values.insert("private-address".to_owned(), address.to_owned());
        values.insert("egress-subnets".to_owned(), format!("{address}/32"));
    }
    values
}

/// Records the end of a hook. `succeeded` counts the commit too.
pub fn finish(model: &mut Model, name: &UnitName, hook: &Hook, succeeded: bool, now: Moment) {
    let interval = model
        .setting("update-status-hook-interval")
        .and_then(|value| value.as_str().and_then(crate::settings::duration))
        .unwrap_or(LONGEST_RETRY);
    let retry = model.setting("automatically-retry-hooks") != Some(Value::Bool(false));
    let Some(unit) = model.units.get_mut(name) else { return };
    let uniter = &mut unit.uniter;
    uniter.running = None;
    if !succeeded {
        let attempts = uniter.failure.as_ref().map_or(0, |failure| failure.attempts);
        let pause = FIRST_RETRY.saturating_mul(1 << attempts.min(10)).min(LONGEST_RETRY);
        let retry_at = retry.then(|| now.plus_millis(pause));
        uniter.failure = Some(Failure { hook: hook.clone(), retry_at, attempts: attempts + 1 });
        return;
    }
    uniter.failure = None;
    if uniter.queued.as_ref() == Some(hook) {
        uniter.queued = None;
    }
    match hook {
        Hook::Install => uniter.installed = true,
        Hook::LeaderElected => uniter.leader_seen = true,
        Hook::ConfigChanged if !uniter.started => uniter.queued = Some(Hook::Start),
        Hook::Start => {
            uniter.rebooted = false;
            uniter.started = true;
            uniter.update_status_at = Some(next_update_status(name, interval, now));
            if unit.workload.message == INSTALLING && unit.workload.current == Status::Maintenance {
                unit.workload = StatusInfo::new(Status::Unknown, "");
            }
        }
        Hook::UpdateStatus => uniter.update_status_at = Some(next_update_status(name, interval, now)),
        Hook::UpgradeCharm => uniter.queued = Some(Hook::ConfigChanged),
        Hook::Stop => {
            uniter.stopped = true;
            uniter.queued = None;
        }
        Hook::Remove => {
            uniter.removed = true;
            unit.workload = StatusInfo::new(Status::Terminated, "");
        }
        Hook::StorageAttached(id) => {
            uniter.storage_seen.insert(id.clone());
        }
        Hook::StorageDetaching(id) => {
            uniter.storage_seen.remove(id);
            unit.storage.remove(id);
            model.storage.remove(id);
        }
        Hook::Relation(hook) if hook.kind == RelationKind::Broken => leave(model, name, hook.relation),
        Hook::Relation(hook) if hook.kind == RelationKind::Joined => {
            let mut changed = hook.clone();
            changed.kind = RelationKind::Changed;
            uniter.queued = Some(Hook::Relation(changed));
        }
        _ => {}
    }
}

/// The unit's part in a relation is over.
fn leave(model: &mut Model, name: &UnitName, id: u32) {
    let Some(relation) = model.relations.get_mut(&id) else { return };
    relation.leave_scope(name);
    let (removed, key) = (relation.life != Life::Alive, relation.key());
    if let Some(unit) = model.units.get_mut(name) {
        unit.uniter.relations.remove(&id);
        // Made again, such a relation brings 4.0 agents `created` and nothing more, until they start anew.
        if removed && model.release == Release::V4 {
            unit.uniter.deaf_to.insert(key);
        }
        unit.removal_due = Moment::now().plus_millis(SCOPE_GRACE);
    }
    if !removed && model.losses.contains("departed") {
        model.make_ghost(id, name);
    }
}

/// Spread by up to a fifth either way, so that units do not all wake at once.
fn next_update_status(name: &UnitName, interval: u64, now: Moment) -> Moment {
    let spread = interval / 5;
    let shift = if spread == 0 { 0 } else { (now.0 ^ u64::from(name.number()).wrapping_mul(7919)) % (2 * spread) };
    now.plus_millis(interval - spread + shift)
}

/// Records the end of an action or of `juju exec`.
pub fn finish_task(model: &mut Model, id: u64, context: &Context, outcome: &Outcome, commit: Result<(), String>) {
    let Some(task) = model.tasks.get_mut(&id) else { return };
    let mut results = context.action.results.clone();
    let exec = task.is_exec();
    let mut message = context.action.failure.clone().unwrap_or_default();
    let mut state = if context.action.failure.is_some() { TaskState::Failed } else { TaskState::Completed };
    let code = match &outcome.end {
        Ok(0) => 0,
        Ok(code) if exec => *code,
        Ok(code) => {
            state = TaskState::Failed;
            message = format!("exit status {code}");
            *code
        }
        Err(signal) => {
            state = TaskState::Failed;
            message = format!("signal: {signal}");
            0
        }
    };
    if exec {
        // juju exec has no use for action-fail.
        if outcome.end.is_ok() {
            state = TaskState::Completed;
            message.clear();
        }
        results = Map::new();
    }
    results.insert("return-code".to_owned(), json!(code));
    let mut stdout = outcome.stdout.clone();
    if let Err(refusal) = commit {
        if exec {
            stdout.extend_from_slice(refusal.as_bytes());
            stdout.push(b'\n');
        } else {
            state = TaskState::Failed;
            results.insert("return-code".to_owned(), json!(1));
            if message.is_empty() {
                message = "committing requested changes failed".to_owned();
            }
        }
    }
    insert_output(&mut results, "stdout", &stdout);
    insert_output(&mut results, "stderr", &outcome.stderr);
    task.results = Some(results);
    task.state = task.state.ended(state);
    task.message = message;
    task.completed = Some(Moment::now());
}

/// Text as it is, anything else in base64.
pub fn insert_output(results: &mut Map<String, Value>, key: &str, bytes: &[u8]) {
    use base64::Engine as _;
    if bytes.is_empty() {
        return;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            results.insert(key.to_owned(), json!(text));
        }
        Err(_) => {
            results.insert(key.to_owned(), json!(base64::engine::general_purpose::STANDARD.encode(bytes)));
            results.insert(format!("{key}-encoding"), json!("base64"));
        }
    }
}

/// The agent died while something ran: a hook counts as failed, an action is over for good.
pub fn lost(model: &mut Model, name: &UnitName, now: Moment) {
    let Some(running) = model.units.get(name).and_then(|unit| unit.uniter.running.clone()) else { return };
    match running {
        Running::Hook(hook) => finish(model, name, &hook, false, now),
        Running::Task(id) => {
            if let Some(task) = model.tasks.get_mut(&id) {
                task.state = TaskState::Failed;
                task.message = "action terminated".to_owned();
                task.completed = Some(now);
            }
        }
        Running::Commands => {}
    }
    if let Some(unit) = model.units.get_mut(name) {
        unit.uniter.running = None;
    }
}

/// `juju resolved`: the failed hook runs again now, or counts as done.
pub fn resolve(model: &mut Model, name: &UnitName, retry: bool, now: Moment) -> bool {
    let Some(failure) = model.units.get(name).and_then(|unit| unit.uniter.failure.clone()) else { return false };
    match retry {
        true => {
            if let Some(unit) = model.units.get_mut(name)
                && let Some(failure) = &mut unit.uniter.failure
            {
                failure.retry_at = Some(now);
            }
        }
        false => finish(model, name, &failure.hook, true, now),
    }
    true
}

/// Checks the parameters of an action and fills in defaults. An error ends the task before the charm is called.
pub fn action_parameters(model: &Model, id: u64) -> Result<Value, String> {
    let task = model.tasks.get(&id).ok_or("task not found")?;
    if task.is_exec() {
        return Ok(task.parameters.clone());
    }
    let crate::model::Receiver::Unit(unit) = &task.receiver else { return Ok(task.parameters.clone()) };
    let action = model.charm_of(unit.application()).and_then(|charm| charm.actions.get(&task.action));
    let Some(action) = action else { return Err(format!("action \"{}\" not defined", task.action)) };
    charm::validate(&action.schema, &task.parameters)
        .map_err(|error| format!("cannot run \"{}\" action: {error}", task.action))?;
    let mut parameters = task.parameters.as_object().cloned().unwrap_or_default();
    charm::insert_defaults(&action.schema, &mut parameters);
    parameters.sort_keys();
    Ok(Value::Object(parameters))
}
