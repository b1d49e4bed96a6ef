//! `juju run`, `juju exec`, and what is shown of their tasks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::clock::Moment;
use crate::daemon::{Purpose, Shared, State};
use crate::model::{Operation, Receiver, Running, Task, TaskState};
use crate::names::UnitName;
use crate::output::go_text;
use crate::wire::{Failure, Response, ToAgent};

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
    let parameters = &as_stored(&state.model.version, parameters);
    let summary = format!("action \"{action}\"");
    let receivers = units.into_iter().map(Receiver::Unit).collect();
    Ok(add_operation(state, receivers, action, parameters, summary))
}

/// 4.0 keeps objects and lists as the text Go prints of them, and finds them unfit for their schema afterwards.
fn as_stored(version: &str, parameters: &Value) -> Value {
    let Some(map) = parameters.as_object().filter(|_| version.starts_with("4.")) else { return parameters.clone() };
    let stored = map.iter().map(|(name, value)| {
        let plain = value.is_boolean() || value.is_number();
        (name.clone(), if plain { value.clone() } else { json!(go_text(value)) })
    });
    Value::Object(stored.collect())
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

/// What runs a task on a machine, if something does.
fn run_of(state: &State, id: u64) -> Option<u64> {
    state.active.iter().find_map(|(run, active)| {
        let found = match &active.what {
            Purpose::Machine { task } => *task == id,
            Purpose::Unit { unit, .. } => {
                state.model.units.get(unit).is_some_and(|unit| unit.uniter.running == Some(Running::Task(id)))
            }
        };
        found.then_some(*run)
    })
}

fn kill(state: &State, id: u64) {
    let Some(run) = run_of(state, id) else { return };
    let agent = state.active.get(&run).and_then(|active| state.agents.get(&active.machine));
    if let Some(agent) = agent {
        agent.sender.send(ToAgent::Kill { run }).ok();
    }
}

/// Ends tasks: one that waits never runs, one that runs is killed. Shows those, and names the others.
pub(super) fn cancel(state: &mut State, ids: &[String]) -> Value {
    let mut cancelled = Vec::new();
    let mut failed = Vec::new();
    for text in ids {
        let Some(task) = text.parse().ok().and_then(|id: u64| state.model.tasks.get_mut(&id)) else {
            failed.push(json!({"id": text, "error": ""}));
            continue;
        };
        match task.state {
            TaskState::Pending => {
                task.state = TaskState::Cancelled;
                task.completed = Some(Moment::now());
            }
            TaskState::Running => task.state = TaskState::Aborting,
            TaskState::Aborting => {}
            over => {
                failed.push(json!({"id": text, "error": format!("task is {}", over.name())}));
                continue;
            }
        }
        cancelled.push(json!({
            "action": task.action,
            "completed at": task.completed.map_or_else(|| "n/a".to_owned(), |time| time.goal().replace('Z', "")),
            "id": text,
            "status": task.state.name(),
            "unit": task.receiver.label(),
        }));
        if task.state == TaskState::Aborting {
            let id = task.id;
            kill(state, id);
        }
    }
    json!({"cancelled": cancelled, "failed": failed})
}

/// Whoever asked gives up first, also on a busy host: in milliseconds.
const EXEC_GRACE: f64 = 1000.0;

/// Kills commands that run longer than whoever asked for them waits.
pub(in crate::daemon) fn expire(state: &State) {
    let now = Moment::now();
    let late = |task: &&Task| {
        let allowed = task.parameters["timeout"].as_f64().unwrap_or(f64::MAX) / 1e6;
        #[expect(clippy::cast_precision_loss, reason = "a span of milliseconds is far from 2^53")]
        let spent = task.started.map_or(0, |started| now.0.saturating_sub(started.0)) as f64;
        task.is_exec() && task.state == TaskState::Running && spent > allowed + EXEC_GRACE
    };
    let late: Vec<u64> = state.model.tasks.values().filter(late).map(|task| task.id).collect();
    for id in late {
        kill(state, id);
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
    let worst = [
        TaskState::Error,
        TaskState::Aborting,
        TaskState::Running,
        TaskState::Pending,
        TaskState::Failed,
        TaskState::Aborted,
        TaskState::Cancelled,
    ];
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
