//! What clients ask for: each request is one function that changes or shows the model. Printing is the client's
//! business.

mod applications;
mod checksum;
mod config;
mod deploy;
mod machines;
mod refresh;
mod relate;
mod remove;
mod secrets;
mod show;
mod storage;
mod tasks;

pub(super) use tasks::expire as expire_tasks;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Shared, State};
use crate::clock::Moment;
use crate::hooks;
use crate::machine::Machine;
use crate::model::{Status, StatusInfo};
use crate::names::UnitName;
use crate::wire::{Failure, Request, Response};

pub(super) fn answer(shared: &Arc<Shared>, request: Request) -> Response {
    match request {
        Request::Ping => Ok(json!(shared.lock().model.uuid)),
        Request::Status => Ok(show::status(&shared.lock())),
        Request::Integrations => Ok(show::integrations(&shared.lock().model)),
        Request::Deploy(deploy) => shared.update(|state| deploy::deploy(state, deploy)),
        Request::AddUnit { application, count, to } => {
            shared.update(|state| deploy::add_units(state, &application, count, &to))
        }
        Request::Integrate { one, other } => shared.update(|state| relate::integrate(state, &one, &other)),
        Request::Config { application } => config::show(&shared.lock(), &application),
        Request::SetConfig { application, set, reset } => {
            shared.update(|state| config::set(state, &application, &set, &reset))
        }
        Request::ModelConfig => Ok(config::show_model(&shared.lock())),
        Request::SetModelConfig { set, reset } => shared.update(|state| config::set_model(state, &set, &reset)),
        Request::ShowUnit { unit } => show::unit(&shared.lock(), &unit),
        Request::ShowModel => Ok(show::model(&shared.lock())),
        Request::Actions { application, schema } => show::actions(&shared.lock(), &application, schema),
        Request::Enqueue { receivers, action, parameters } => {
            shared.update(|state| tasks::enqueue(state, &receivers, &action, &parameters))
        }
        Request::EnqueueExec { targets, script, timeout_millis } => {
            shared.update(|state| tasks::enqueue_exec(state, &targets, &script, timeout_millis))
        }
        Request::WaitTask { id, timeout_millis, log_seen } => tasks::wait(shared, id, timeout_millis, log_seen),
        Request::ShowTask { id } => tasks::show(&shared.lock(), id),
        Request::ShowOperation { id } => tasks::show_operation(&shared.lock(), id),
        Request::Operations => Ok(tasks::operations(&shared.lock())),
        Request::CancelTasks { ids } => shared.update(|state| Ok(tasks::cancel(state, &ids))),
        Request::ShowApplication { application } => applications::show(&shared.lock(), &application),
        Request::Expose { application, exposed } => {
            shared.update(|state| applications::expose(state, &application, exposed))
        }
        Request::Trust { application, trusted } => {
            shared.update(|state| applications::trust(state, &application, trusted))
        }
        Request::Constraints { application } => applications::constraints(&shared.lock(), application.as_deref()),
        Request::SetConstraints { application, constraints } => {
            shared.update(|state| applications::set_constraints(state, application.as_deref(), constraints))
        }
        Request::AddMachines { count, base } => shared.update(|state| machines::add(state, count, base.as_deref())),
        Request::Storage => {
            let state = shared.lock();
            Ok(storage::document(&state.model, &state.paths))
        }
        Request::Spaces => machines::spaces(&shared.lock()),
        Request::History { entity, kind } => machines::history(&shared.lock(), &entity, &kind),
        Request::Keys => Ok(machines::keys(&shared.lock())),
        Request::AddKeys { keys } => shared.update(|state| machines::add_keys(state, keys)),
        Request::RemoveKeys { ids } => shared.update(|state| machines::remove_keys(state, &ids)),
        Request::Secrets(request) => shared.update(|state| secrets::answer(state, request)),
        Request::Resolved { unit, retry } => shared.update(|state| resolved(state, &unit, retry)),
        Request::RemoveUnit { units, force, dry_run } => {
            shared.update(|state| remove::units(state, &units, force, dry_run))
        }
        Request::RemoveApplication { applications, force, dry_run } => {
            shared.update(|state| remove::applications(state, &applications, force, dry_run))
        }
        Request::RemoveRelation { words, force } => shared.update(|state| remove::relation(state, &words, force)),
        Request::RemoveMachine { machines, force, dry_run } => {
            shared.update(|state| remove::machines(state, &machines, force, dry_run))
        }
        Request::Refresh { application, path, config } => {
            shared.update(|state| refresh::refresh(state, &application, &path, &config))
        }
        Request::Lose { events } => shared.update(|state| lose(state, &events)),
        Request::Power { machine, on } => shared.update(|state| power(state, &machine, on)),
        Request::DestroyInOrder => shared.update(|state| {
            state.model.dying = true;
            state.model.remove_everything();
            Ok(Value::Null)
        }),
        Request::Locate { target } => locate(&shared.lock(), &target),
        Request::Destroy => destroy(shared),
    }
}

fn resolved(state: &mut State, unit: &str, retry: bool) -> Response {
    let name = UnitName::parse(unit).filter(|name| state.model.units.contains_key(name));
    let Some(name) = name else { return Err(Failure::new(format!("unit \"{unit}\" not found"))) };
    match hooks::resolve(&mut state.model, &name, retry, Moment::now()) {
        true => Ok(Value::Null),
        false => {
            let uuid = state.model.entity_uuid(unit);
            Err(Failure::new(format!("resolving unit: checking unit \"{uuid}\" status: unit is not in error state")))
        }
    }
}

/// Events that can be lost on purpose, beyond those that the release always loses.
const LOSSES: &[&str] = &["departed", "grant", "secret-content"];

fn lose(state: &mut State, events: &[String]) -> Response {
    let unknown = events.iter().find(|event| !LOSSES.contains(&event.as_str()) && *event != "nothing");
    if let Some(event) = unknown {
        let known = LOSSES.join(", ");
        return Err(Failure { code: 2, ..Failure::new(format!("{event:?} cannot be lost: {known} or nothing can")) });
    }
    state.model.losses = events.iter().filter(|event| *event != "nothing").cloned().collect();
    Ok(json!(state.model.losses))
}

/// Shows in the status that a machine was switched on or off.
fn power(state: &mut State, machine: &str, on: bool) -> Response {
    let Some(record) = state.model.machines.get_mut(machine) else {
        return Err(Failure::new(format!("machine {machine} not found")));
    };
    record.instance = match on {
        true => StatusInfo::new(Status::Running, "Running"),
        false => StatusInfo::new(Status::Stopped, "Stopped"),
    };
    Ok(Value::Null)
}

/// Where a unit or machine lives on this host.
fn locate(state: &State, target: &str) -> Response {
    let machine = if target.contains('/') {
        let name = match target.split_once('/') {
            Some((application, "leader")) => {
                state.model.applications.get(application).and_then(|app| app.leader.clone())
            }
            _ => UnitName::parse(target),
        };
        let unit = name.and_then(|name| state.model.units.get(&name));
        unit.map(|unit| unit.machine.clone()).ok_or_else(|| Failure::new(format!("unit \"{target}\" not found")))?
    } else {
        let known = state.model.machines.contains_key(target);
        known.then(|| target.to_owned()).ok_or_else(|| {
            Failure::new(format!("getting UUID for machine \"{target}\": machine \"{target}\": machine not found"))
        })?
    };
    let directory = state.paths.machine(&machine);
    Ok(json!({"machine": machine, "directory": directory}))
}

/// Takes every machine away at once, whatever runs in it.
fn destroy(shared: &Arc<Shared>) -> Response {
    let paths = {
        let mut state = shared.lock();
        state.model.dying = true;
        state.model.machines.values_mut().for_each(|machine| machine.life = crate::model::Life::Dying);
        state.paths.clone()
    };
    // Machines that are just being made have to be there before they can go.
    let mut state = shared.lock();
    while !state.provisioning.is_empty() {
        state = shared.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
    }
    drop(state);
    // What is there, not what is recorded: a removal may have been cut short.
    for entry in std::fs::read_dir(paths.machines()).into_iter().flatten().flatten() {
        if let Err(error) = Machine::remove_at(&entry.path()) {
            return Err(Failure::new(format!("removing {}: {error:#}", entry.path().display())));
        }
    }
    shared.lock().destroyed = true;
    shared.changed.notify_all();
    Ok(json!(paths.root()))
}
