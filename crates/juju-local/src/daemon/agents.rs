//! Connections from the agents in the machines: who they are, what they report, what their hook tools ask.

use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use base64::Engine as _;

use super::{Active, Agent, Purpose, QueuedCommands, Shared, State};
use crate::clock::Moment;
use crate::hooks::{self, Outcome, Reboot};
use crate::model::{Hook, Running, Status, StatusInfo, TaskState};
use crate::names::UnitName;
use crate::tools;
use crate::wire::{CommandsResult, FromAgent, ToAgent, receive, send};

pub(super) fn listen(shared: &Arc<Shared>, listener: &TcpListener) {
    for stream in listener.incoming().flatten() {
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            if let Err(error) = serve(&shared, stream) {
                eprintln!("agent: {error:#}");
            }
        });
    }
}

fn serve(shared: &Arc<Shared>, stream: TcpStream) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let Some(FromAgent::Hello { machine, password, boot }) = receive(&mut reader)? else { return Ok(()) };
    let known = shared.lock().model.machines.get(&machine).is_some_and(|record| record.password == password);
    if !known {
        anyhow::bail!("machine {machine} showed a wrong password");
    }
    // A machine that hangs must not hold up the daemon: each agent is written to by a thread of its own.
    let (sender, receiver) = channel::<ToAgent>();
    let mut writer = stream;
    thread::spawn(move || {
        for message in receiver {
            if send(&mut writer, &message).is_err() {
                return;
            }
        }
    });
    let generation = shared.update(|state| welcome(state, &machine, &boot, sender));
    while let Ok(Some(message)) = receive::<FromAgent>(&mut reader) {
        handle(shared, &machine, message);
    }
    shared.update(|state| farewell(state, &machine, generation));
    Ok(())
}

fn welcome(state: &mut State, machine: &str, boot: &str, sender: std::sync::mpsc::Sender<ToAgent>) -> u64 {
    // Whatever ran under an earlier agent of this machine ended with it, and whoever waited there for its turn.
    drop_active(state, machine);
    let here = |unit: &UnitName| state.model.units.get(unit).is_some_and(|unit| unit.machine == machine);
    state.commands.retain(|unit, _| !here(unit));
    let generation = state.number();
    state.agents.insert(machine.to_owned(), Agent { sender, generation });
    state.heard.insert(machine.to_owned(), Moment::now());
    restart_units(state, machine, boot);
    if let Some(record) = state.model.machines.get_mut(machine)
        && record.agent.current != Status::Started
    {
        record.agent = StatusInfo::new(Status::Started, "");
        record.instance = StatusInfo::new(Status::Running, "Running");
    }
    state.deploying.retain(|unit| state.model.units.get(unit).is_some_and(|unit| unit.machine != machine));
    super::leadership::renew(state);
    announce_hosts(state);
    generation
}

/// What agents keep only in memory is forgotten, and what they missed is due again. A reboot of the machine shows too.
fn restart_units(state: &mut State, machine: &str, boot: &str) {
    let Some(record) = state.model.machines.get_mut(machine) else { return };
    let rebooted = record.boot.as_ref().is_some_and(|before| before != boot);
    record.boot = Some(boot.to_owned());
    for unit in state.model.units.values_mut().filter(|unit| unit.machine == machine) {
        unit.uniter.rebooted |= rebooted && unit.uniter.started;
        unit.uniter.deaf_to.clear();
        for member in unit.uniter.relations.values_mut() {
            member.ghosts.clear();
            member.forgotten = true;
        }
        state.bags_read.remove(&unit.name);
    }
}

/// Tells every agent the names of all machines.
pub(super) fn announce_hosts(state: &State) {
    let hosts: Vec<(String, String)> =
        state.model.machines.values().map(|machine| (machine.hostname.clone(), machine.address.to_string())).collect();
    for agent in state.agents.values() {
        agent.sender.send(ToAgent::Hosts(hosts.clone())).ok();
    }
}

fn farewell(state: &mut State, machine: &str, generation: u64) {
    if state.agents.get(machine).is_some_and(|agent| agent.generation == generation) {
        state.agents.remove(machine);
        drop_active(state, machine);
    }
}

/// The processes of a machine are gone with its agent.
fn drop_active(state: &mut State, machine: &str) {
    let now = Moment::now();
    let lost: Vec<u64> =
        state.active.iter().filter(|(_, active)| active.machine == machine).map(|(number, _)| *number).collect();
    for number in lost {
        let Some(active) = state.active.remove(&number) else { continue };
        match active.what {
            Purpose::Unit { unit, context, .. } => {
                state.contexts.remove(&context);
                hooks::lost(&mut state.model, &unit, now);
            }
            Purpose::Machine { task } => fail_task(state, task, "action terminated"),
        }
    }
}

fn fail_task(state: &mut State, id: u64, message: &str) {
    if let Some(task) = state.model.tasks.get_mut(&id) {
        task.state = TaskState::Failed;
        task.message = message.to_owned();
        task.completed = Some(Moment::now());
    }
}

fn handle(shared: &Arc<Shared>, machine: &str, message: FromAgent) {
    shared.lock().heard.insert(machine.to_owned(), Moment::now());
    match message {
        FromAgent::Hello { .. } | FromAgent::Alive => {}
        FromAgent::Deployed { unit, url, error } => shared.update(|state| deployed(state, &unit, &url, error)),
        FromAgent::Output { run, error_stream, line } => {
            let mut state = shared.lock();
            output(&mut state, run, error_stream, &line);
        }
        FromAgent::Ended { run, end, stdout, stderr } => {
            let decode = |text: String| base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
            let outcome = Outcome { end, stdout: decode(stdout), stderr: decode(stderr) };
            shared.update(|state| ended(state, run, &outcome));
        }
        FromAgent::Tool { call, body } => {
            let mut state = shared.lock();
            let reply = tool(&mut state, &body);
            if let Some(agent) = state.agents.get(machine) {
                agent.sender.send(ToAgent::Tool { call, reply }).ok();
            }
            state.dirty = true;
            shared.changed.notify_all();
        }
        FromAgent::Commands { call, unit, commands } => {
            shared.update(|state| match state.model.units.contains_key(&unit) {
                true => state.commands.entry(unit).or_default().push_back(QueuedCommands { call, commands }),
                false => super::pump::abort_commands(state, machine, call),
            })
        }
    }
}

fn deployed(state: &mut State, unit: &UnitName, url: &str, error: Option<String>) {
    state.deploying.remove(unit);
    match error {
        None => {
            if let Some(unit) = state.model.units.get_mut(unit) {
                unit.uniter.charm = Some(url.to_owned());
                if unit.uniter.installed {
                    unit.uniter.queued = Some(Hook::UpgradeCharm);
                }
            }
            super::leadership::renew(state);
        }
        Some(error) => {
            state.log(&unit.tag(), "ERROR", "juju.worker.uniter", &format!("deploying charm {url}: {error}"))
        }
    }
}

fn output(state: &mut State, run: u64, error_stream: bool, line: &str) {
    let Some(Active { what: Purpose::Unit { unit, .. }, module: Some(module), .. }) = state.active.get(&run) else {
        return;
    };
    let (tag, module) = (unit.tag(), module.clone());
    state.log(&tag, if error_stream { "WARNING" } else { "DEBUG" }, &module, line);
}

fn tool(state: &mut State, call: &tools::Call) -> tools::Reply {
    let Some(mut context) = state.contexts.remove(&call.context) else {
        return tools::Reply::error(1, &format!("bad request: wrong context ID; got \"{}\"", call.context));
    };
    let mut log = Vec::new();
    let mut scene = tools::Scene { model: &mut state.model, context: &mut context, files: &call.files, log: &mut log };
    let reply = tools::run(&mut scene, &call.tool, &call.arguments);
    let now = context.reboot == Some(Reboot::Now);
    let tag = context.unit.tag();
    state.contexts.insert(call.context.clone(), context);
    if now {
        reboot_now(state, &call.context);
    }
    for line in log {
        state.log(&tag, &line.level, &line.module, &line.message);
    }
    reply
}

/// The hook is killed with all it wrote, and runs again from the top when the machine is back.
fn reboot_now(state: &mut State, id: &str) {
    let of_context = |active: &Active| matches!(&active.what, Purpose::Unit { context, .. } if context == id);
    let Some(run) = state.active.iter().find(|(_, active)| of_context(active)).map(|(run, _)| *run) else { return };
    let (Some(active), Some(context)) = (state.active.remove(&run), state.contexts.remove(id)) else { return };
    if let Some(unit) = state.model.units.get_mut(&context.unit) {
        unit.uniter.running = None;
        if let Running::Hook(hook) = context.running {
            unit.uniter.queued = Some(hook);
        }
    }
    if let Some(agent) = state.agents.get(&active.machine) {
        agent.sender.send(ToAgent::Kill { run }).ok();
        agent.sender.send(ToAgent::Reboot).ok();
    }
    // Nothing more runs there until it is back.
    state.agents.remove(&active.machine);
}

fn ended(state: &mut State, run: u64, outcome: &Outcome) {
    let Some(active) = state.active.remove(&run) else { return };
    match active.what {
        Purpose::Machine { task } => finish_machine_task(state, task, outcome),
        Purpose::Unit { unit, context, call } => {
            let Some(context) = state.contexts.remove(&context) else { return };
            if context.orphaned {
                super::removal::clear_unit(state, &unit, &active.machine);
                return;
            }
            finish_unit(state, &active.machine, &unit, &context, call, outcome);
            state.bags_read.insert(unit, context.remember());
        }
    }
}

fn finish_machine_task(state: &mut State, id: u64, outcome: &Outcome) {
    let Some(task) = state.model.tasks.get_mut(&id) else { return };
    let mut results = serde_json::Map::new();
    results.insert("return-code".to_owned(), serde_json::json!(outcome.end.clone().unwrap_or(0)));
    hooks::insert_output(&mut results, "stdout", &outcome.stdout);
    hooks::insert_output(&mut results, "stderr", &outcome.stderr);
    task.results = Some(results);
    task.state = task.state.ended(if outcome.end.is_ok() { TaskState::Completed } else { TaskState::Failed });
    task.message = outcome.end.as_ref().err().map(|signal| format!("signal: {signal}")).unwrap_or_default();
    task.completed = Some(Moment::now());
}

fn finish_unit(
    state: &mut State,
    machine: &str,
    unit: &UnitName,
    context: &hooks::Context,
    call: Option<u64>,
    outcome: &Outcome,
) {
    // A hook or action that fails takes back what it wrote; a script only if it was killed.
    let is_script = match &context.running {
        Running::Hook(_) => false,
        Running::Task(id) => state.model.tasks.get(id).is_some_and(crate::model::Task::is_exec),
        Running::Commands => true,
    };
    let commits = match &outcome.end {
        Ok(0) => true,
        Ok(_) => is_script,
        Err(_) => false,
    };
    let committed = if commits { hooks::commit(&mut state.model, context) } else { Ok(()) };
    match &context.running {
        Running::Hook(hook) => {
            let name = hook.name();
            if let Err(error) = &committed {
                state.log(
                    &unit.tag(),
                    "ERROR",
                    "juju.worker.uniter.operation",
                    &format!("hook \"{name}\" failed: {error}"),
                );
            } else if !commits {
                let how = match &outcome.end {
                    Ok(code) => format!("exit status {code}"),
                    Err(signal) => format!("signal: {signal}"),
                };
                state.log(
                    &unit.tag(),
                    "ERROR",
                    "juju.worker.uniter.operation",
                    &format!("hook \"{name}\" failed: {how}"),
                );
            } else {
                state.log(
                    &unit.tag(),
                    "INFO",
                    "juju.worker.uniter.operation",
                    &format!("ran \"{name}\" hook (via dispatch)"),
                );
            }
            let succeeded = commits && committed.is_ok();
            hooks::finish(&mut state.model, unit, hook, succeeded, Moment::now());
            if succeeded
                && context.reboot == Some(Reboot::Afterwards)
                && let Some(agent) = state.agents.remove(machine)
            {
                agent.sender.send(ToAgent::Reboot).ok();
            }
        }
        Running::Task(id) => {
            hooks::finish_task(&mut state.model, *id, context, outcome, committed);
            clear_running(state, unit);
        }
        Running::Commands => {
            clear_running(state, unit);
            if let (Some(call), Some(agent)) = (call, state.agents.get(machine)) {
                let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
                let (stdout, stderr) = (encode(&outcome.stdout), encode(&outcome.stderr));
                let code = outcome.end.clone().unwrap_or(-1);
                agent.sender.send(ToAgent::Commands { call, result: CommandsResult { code, stdout, stderr } }).ok();
            }
        }
    }
}

fn clear_running(state: &mut State, unit: &UnitName) {
    if let Some(unit) = state.model.units.get_mut(unit) {
        unit.uniter.running = None;
    }
}
