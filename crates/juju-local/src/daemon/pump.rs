//! Starts whatever may start: charms that are to be put into place, hooks, actions, commands. One at a time on a
//! machine.

use base64::Engine as _;

use super::{Active, Purpose, State};
use crate::clock::Moment;
use crate::hooks::{self, ContextRelation};
use crate::model::{Hook, Life, Model, Receiver, Running, Status, StatusInfo, TaskState};
use crate::names::UnitName;
use crate::tools;
use crate::wire::{Program, Run, ToAgent};

pub(super) fn pump(state: &mut State) {
    let machines: Vec<String> = state.agents.keys().cloned().collect();
    for machine in machines {
        deploy_charms(state, &machine);
        start_machine_tasks(state, &machine);
        start_next(state, &machine);
        rest(state, &machine);
    }
}

fn units_on(state: &State, machine: &str) -> Vec<UnitName> {
    state.model.units.values().filter(|unit| unit.machine == machine).map(|unit| unit.name.clone()).collect()
}

fn send(state: &State, machine: &str, message: ToAgent) {
    if let Some(agent) = state.agents.get(machine) {
        agent.sender.send(message).ok();
    }
}

/// Puts charms into place: the first one before anything runs, another one when the unit has nothing else to do.
fn deploy_charms(state: &mut State, machine: &str) {
    for name in units_on(state, machine) {
        let Some(unit) = state.model.units.get(&name) else { continue };
        let Some(url) = state.model.applications.get(name.application()).map(|app| app.charm.clone()) else { continue };
        let uniter = &unit.uniter;
        let quiet = uniter.running.is_none() && uniter.queued.is_none() && uniter.failure.is_none() && uniter.started;
        let due = uniter.charm.is_none() || (quiet && uniter.charm.as_ref() != Some(&url));
        if !due || unit.life != Life::Alive || state.deploying.contains(&name) {
            continue;
        }
        let bytes = match std::fs::read(state.paths.charm(&url)) {
            Ok(bytes) => bytes,
            Err(error) => {
                let message = format!("charm {url} cannot be read: {error}");
                state.log(&name.tag(), "ERROR", "juju.worker.uniter", &message);
                continue;
            }
        };
        if let Some(unit) = state.model.units.get_mut(&name)
            && unit.uniter.charm.is_none()
        {
            unit.workload = StatusInfo::new(Status::Waiting, "agent initialising");
        }
        state.deploying.insert(name.clone());
        let archive = base64::engine::general_purpose::STANDARD.encode(bytes);
        let tools = tools::names(state.model.release).map(str::to_owned).collect();
        send(state, machine, ToAgent::Deploy { unit: name, url, archive, tools });
    }
}

/// `juju exec --machine` waits for nobody.
fn start_machine_tasks(state: &mut State, machine: &str) {
    let receiver = Receiver::Machine(machine.to_owned());
    let due = |model: &Model| {
        let mut tasks = model.tasks.values();
        tasks.find(|task| task.state == TaskState::Pending && task.receiver == receiver).map(|task| task.id)
    };
    while let Some(id) = due(&state.model) {
        let Some(task) = state.model.tasks.get_mut(&id) else { return };
        task.state = TaskState::Running;
        task.started = Some(Moment::now());
        let script = script_of(&task.parameters);
        let number = state.number();
        let what = Purpose::Machine { task: id };
        state.active.insert(number, Active { machine: machine.to_owned(), what, module: None });
        let program = Program::Script(script);
        send(
            state,
            machine,
            ToAgent::Run(Run { id: number, unit: None, program, environment: Default::default(), module: None }),
        );
    }
}

fn script_of(parameters: &serde_json::Value) -> String {
    parameters.get("command").and_then(|command| command.as_str()).unwrap_or_default().to_owned()
}

/// Whether a unit on the machine runs something: hooks, actions and commands of all its units exclude each other.
fn is_locked(state: &State, machine: &str) -> bool {
    state.active.values().any(|active| active.machine == machine && matches!(active.what, Purpose::Unit { .. }))
}

fn start_next(state: &mut State, machine: &str) {
    while !is_locked(state, machine) {
        let now = Moment::now();
        let units = units_on(state, machine);
        let due = units.iter().find_map(|name| {
            let unit = state.model.units.get(name).filter(|_| !state.deploying.contains(name))?;
            let commands = state.commands.get(name).is_some_and(|queue| !queue.is_empty());
            hooks::next(&state.model, unit, commands, now).map(|running| (name.clone(), running))
        });
        let Some((name, running)) = due else { return };
        if !refused_parameters(state, &running) {
            start(state, machine, &name, &running);
        }
    }
}

/// An action with wrong parameters is over before it began.
fn refused_parameters(state: &mut State, running: &Running) -> bool {
    let Running::Task(id) = running else { return false };
    let Err(message) = hooks::action_parameters(&state.model, *id) else { return false };
    if let Some(task) = state.model.tasks.get_mut(id) {
        task.state = TaskState::Error;
        task.message = message;
        task.completed = Some(Moment::now());
    }
    true
}

fn start(state: &mut State, machine: &str, name: &UnitName, running: &Running) {
    let mut context = match hooks::begin(&mut state.model, name, running, Moment::now()) {
        Ok(context) => context,
        Err(error) => {
            state.log(&name.tag(), "ERROR", "juju.worker.uniter", &format!("{error:#}"));
            return;
        }
    };
    let mut call = None;
    let mut program = Program::Dispatch;
    match running {
        Running::Hook(_) => {}
        Running::Task(id) => {
            if let Some(task) = state.model.tasks.get(id).filter(|task| task.is_exec()) {
                program = Program::Script(script_of(&task.parameters));
            }
        }
        Running::Commands => {
            let Some(queued) = state.commands.get_mut(name).and_then(std::collections::VecDeque::pop_front) else {
                return;
            };
            call = Some(queued.call);
            program = Program::Script(queued.commands.script.clone());
            match relation_of_commands(state, name, &queued.commands) {
                Ok(relation) => context.relation = relation,
                Err(()) => {
                    if let Some(unit) = state.model.units.get_mut(name) {
                        unit.uniter.running = None;
                    }
                    abort_commands(state, machine, queued.call);
                    return;
                }
            }
        }
    }
    let module = match running {
        Running::Hook(hook) => Some(format!("unit.{name}.{}", hook.name())),
        Running::Task(id) => state.model.tasks.get(id).map(|task| format!("unit.{name}.{}", task.action)),
        Running::Commands => None,
    };
    context.recall(state.bags_read.remove(name).unwrap_or_default());
    let environment = hooks::environment(&state.model, &context, &state.api_address());
    if let Running::Hook(Hook::StorageAttached(id)) = running
        && let Some(storage) = state.model.storage.get(id)
    {
        send(state, machine, ToAgent::Storage { location: storage.location.clone() });
    }
    let number = state.number();
    let what = Purpose::Unit { unit: name.clone(), context: context.id.clone(), call };
    state.contexts.insert(context.id.clone(), context);
    state.active.insert(number, Active { machine: machine.to_owned(), what, module: module.clone() });
    send(state, machine, ToAgent::Run(Run { id: number, unit: Some(name.clone()), program, environment, module }));
}

/// The relation `juju-exec -r` names; an unknown one is what makes the real agent stumble.
fn relation_of_commands(
    state: &State,
    name: &UnitName,
    commands: &crate::wire::Commands,
) -> Result<Option<ContextRelation>, ()> {
    let Some(text) = commands.relation.as_ref().filter(|text| !text.is_empty()) else { return Ok(None) };
    let id: u32 = text.rsplit(':').next().unwrap_or(text).parse().map_err(|_| ())?;
    let known = state.model.units.get(name).is_some_and(|unit| unit.uniter.relations.contains_key(&id));
    let relation = state.model.relations.get(&id).filter(|_| known).ok_or(())?;
    let endpoint = relation.side_of(name.application()).map(|side| side.endpoint.name.clone()).unwrap_or_default();
    let remote_unit = commands.remote_unit.as_deref().and_then(UnitName::parse);
    Ok(Some(ContextRelation { id, endpoint, remote_application: String::new(), remote_unit }))
}

/// Tells `juju-exec` that its commands will not be run.
pub(super) fn abort_commands(state: &State, machine: &str, call: u64) {
    let result = crate::wire::CommandsResult { code: -1, stdout: String::new(), stderr: String::new() };
    send(state, machine, ToAgent::Commands { call, result });
}

/// Units with nothing to do say so.
fn rest(state: &mut State, machine: &str) {
    let now = Moment::now();
    for name in units_on(state, machine) {
        let Some(unit) = state.model.units.get(&name) else { continue };
        let busy = unit.uniter.running.is_some() || unit.uniter.charm.is_none();
        let due = hooks::next(&state.model, unit, false, now).is_some();
        if busy || due || unit.agent.current == Status::Idle {
            continue;
        }
        if let Some(unit) = state.model.units.get_mut(&name) {
            unit.agent = StatusInfo::new(Status::Idle, "");
            state.dirty = true;
        }
    }
}
