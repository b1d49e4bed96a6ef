//! `juju run`, `juju exec`, and what is shown of their tasks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::clock::Moment;
use crate::daemon::{Shared, State};
use crate::model::{Operation, Receiver, Task, TaskState};
use crate::names::UnitName;
use crate::wire::{Failure, Response};

/// `app/leader` or a unit's name; errors in Juju's words.
fn resolve_unit(state: &State, text: &str) -> Result<UnitName, Failure> {
    if let Some(application) = text.strip_suffix("/leader") {
        let leader = state.model.applications.get(application).and_then(|app| app.leader.clone());
        return leader.ok_or_else(|| {
            let why = format!("application \"{application}\" not found in leases (not found)");
            Failure::new(format!("getting leader unit for {application}: {why}"))
        });
    }
    UnitName::parse(text).ok_or_else(|| Failure { code: 2, ..Failure::new("no unit specified") })
}

pub(super) fn enqueue(state: &mut State, receivers: &[String], action: &str, parameters: &Value) -> Response {
    let mut units = Vec::new();
    for text in receivers {
        let unit = resolve_unit(state, text)?;
        let application = unit.application();
        let Some(charm) = state.model.charm_of(application) else {
            let why = format!(
                "getting charm UUID for application \"{application}\": application \"{application}\" not found"
            );
            return Err(Failure::new(format!("adding action operation: adding action operation: {why}")));
        };
        if charm.actions.is_empty() {
            return Err(Failure::new(format!("no actions defined for charm {}. (not found)", charm.metadata.name)));
        }
        if !charm.actions.contains_key(action) {
            return Err(Failure::new(format!("action \"{action}\" not defined for unit \"{unit}\". (not found)")));
        }
        if !units.contains(&unit) {
            units.push(unit);
        }
    }
    let summary = format!("action \"{action}\"");
    let receivers = units.into_iter().map(Receiver::Unit).collect();
    Ok(add_operation(state, receivers, action, parameters, summary))
}

pub(super) fn enqueue_exec(state: &mut State, targets: &[String], script: &str, timeout_millis: u64) -> Response {
    let mut receivers = Vec::new();
    for target in targets {
        if target == "--all" {
            receivers.extend(state.model.machines.keys().cloned().map(Receiver::Machine));
        } else if let Some(application) = target.strip_prefix("application ") {
            receivers.extend(state.model.units_of(application).map(|unit| Receiver::Unit(unit.name.clone())));
        } else if let Some(machine) = target.strip_prefix("machine ") {
            receivers.push(Receiver::Machine(machine.to_owned()));
        } else {
            receivers.push(Receiver::Unit(resolve_unit(state, target)?));
        }
    }
    receivers.dedup();
    // Whole nanoseconds, as a float: that is how action-get shows it.
    let parameters = json!({"command": script, "timeout": timeout_millis as f64 * 1e6});
    let summary = format!("exec \"{script}\"");
    Ok(add_operation(state, receivers, crate::model::EXEC, &parameters, summary))
}

fn add_operation(
    state: &mut State,
    receivers: Vec<Receiver>,
    action: &str,
    parameters: &Value,
    summary: String,
) -> Value {
    let id = state.model.next_task_number();
    let enqueued = Moment::now();
    let mut tasks = Vec::new();
    let mut failures = Vec::new();
    for receiver in receivers {
        let number = state.model.next_task_number();
        if let Some(why) = unknown(state, &receiver) {
            failures.push(why);
            continue;
        }
        let task = Task {
            id: number,
            receiver,
            action: action.to_owned(),
            parameters: parameters.clone(),
            state: TaskState::Pending,
            message: String::new(),
            log: Vec::new(),
            results: None,
            enqueued,
            started: None,
            completed: None,
        };
        tasks.push(number);
        state.model.tasks.insert(number, task);
    }
    let action = action.to_owned();
    let parameters = parameters.clone();
    let shown: Vec<Value> = tasks
        .iter()
        .filter_map(|number| state.model.tasks.get(number))
        .map(|task| json!({"id": task.id, "receiver": task.receiver.label(), "tag": task.receiver.tag()}))
        .collect();
    state.model.operations.insert(id, Operation { id, action, parameters, summary, enqueued, tasks });
    json!({"operation": id, "tasks": shown, "failures": failures})
}

fn unknown(state: &State, receiver: &Receiver) -> Option<String> {
    match receiver {
        Receiver::Unit(unit) if !state.model.units.contains_key(unit) => {
            Some(format!("linking task to unit: getting unit UUID for \"{unit}\": unit \"{unit}\" not found"))
        }
        Receiver::Machine(machine) if !state.model.machines.contains_key(machine) => {
            Some(format!("getting machine UUID for \"{machine}\": machine \"{machine}\" not found"))
        }
        _ => None,
    }
}

/// Answers when the task is over, when it has something new in its log, or when the time has passed.
pub(super) fn wait(shared: &Arc<Shared>, id: u64, timeout_millis: u64, log_seen: usize) -> Response {
    let deadline = Instant::now() + Duration::from_millis(timeout_millis);
    let mut state = shared.lock();
    loop {
        let Some(task) = state.model.tasks.get(&id) else { return Err(Failure::new("id not found")) };
        let left = deadline.saturating_duration_since(Instant::now());
        if task.state.is_over() || task.log.len() > log_seen || left.is_zero() || state.destroyed {
            let log: Vec<Value> =
                task.log.iter().skip(log_seen).map(|(time, text)| json!([time.clock(), text])).collect();
            return Ok(json!({"over": task.state.is_over(), "log": log, "task": document(task)}));
        }
        state = shared.changed.wait_timeout(state, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
    }
}

/// A task as `juju run --format json` and `juju show-task` show it.
fn document(task: &Task) -> Value {
    let mut shown = Map::new();
    shown.insert("id".to_owned(), json!(task.id.to_string()));
    if !task.log.is_empty() {
        let log: Vec<String> = task.log.iter().map(|(time, text)| format!("{} {text}", time.task())).collect();
        shown.insert("log".to_owned(), json!(log));
    }
    if let Receiver::Machine(machine) = &task.receiver {
        shown.insert("machine".to_owned(), json!(machine));
    }
    if !task.message.is_empty() {
        shown.insert("message".to_owned(), json!(task.message));
    }
    if let Some(results) = &task.results {
        let mut results = results.clone();
        results.sort_keys();
        shown.insert("results".to_owned(), Value::Object(results));
    }
    shown.insert("status".to_owned(), json!(task.state.name()));
    let mut timing = Map::new();
    timing.insert("enqueued".to_owned(), json!(task.enqueued.task()));
    if let Some(started) = task.started {
        timing.insert("started".to_owned(), json!(started.task()));
    }
    shown.insert("timing".to_owned(), Value::Object(timing));
    if let Receiver::Unit(unit) = &task.receiver {
        shown.insert("unit".to_owned(), json!(unit));
    }
    Value::Object(shown)
}

pub(super) fn show(state: &State, id: u64) -> Response {
    match state.model.tasks.get(&id) {
        Some(task) => Ok(document(task)),
        None => Err(Failure::new("id not found")),
    }
}

pub(super) fn show_operation(state: &State, id: u64) -> Response {
    match state.model.operations.get(&id) {
        Some(operation) => Ok(operation_document(state, operation)),
        None => Err(Failure::new(format!("operation \"{id}\" not found"))),
    }
}

pub(super) fn operations(state: &State) -> Value {
    let shown = state
        .model
        .operations
        .values()
        .map(|operation| (operation.id.to_string(), operation_document(state, operation)));
    Value::Object(shown.collect())
}

fn operation_document(state: &State, operation: &Operation) -> Value {
    let tasks: Vec<&Task> = operation.tasks.iter().filter_map(|id| state.model.tasks.get(id)).collect();
    let mut timing = Map::new();
    if let Some(completed) = tasks.iter().map(|task| task.completed).max().flatten() {
        timing.insert("completed".to_owned(), json!(completed.task()));
    }
    timing.insert("enqueued".to_owned(), json!(operation.enqueued.task()));
    let worst = [TaskState::Error, TaskState::Running, TaskState::Pending, TaskState::Failed, TaskState::Cancelled];
    let status =
        worst.into_iter().find(|state| tasks.iter().any(|task| task.state == *state)).unwrap_or(TaskState::Completed);
    let shown: Map<String, Value> = tasks
        .iter()
        .map(|task| {
            let mut entry = document(task);
            if let Value::Object(map) = &mut entry {
                for key in ["id", "unit", "machine", "results"] {
                    map.shift_remove(key);
                }
                map.insert("host".to_owned(), json!(task.receiver.label()));
                map.sort_keys();
            }
            (task.id.to_string(), entry)
        })
        .collect();
    json!({
        "action": {"name": operation.action, "parameters": operation.parameters},
        "status": status.name(),
        "summary": operation.summary,
        "tasks": shown,
        "timing": timing,
    })
}
