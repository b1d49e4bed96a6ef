//! Carries out what the removal jobs of the model decide: agents are told, machines are taken away.

use std::sync::Arc;
use std::thread;

use super::{Purpose, Shared, State};
use crate::clock::Moment;
use crate::hooks;
use crate::machine::Machine;
use crate::model::{Gone, Life, Release};
use crate::names::UnitName;
use crate::wire::ToAgent;

pub(super) fn run_jobs(shared: &Arc<Shared>, state: &mut State) {
    finish_leavers(state);
    for gone in state.model.run_removal_jobs(Moment::now()) {
        state.dirty = true;
        match gone {
            Gone::Unit { name, machine } => forget_unit(state, &name, &machine),
            Gone::Machine(id) => remove_machine(shared, state, id),
        }
    }
}

/// A leaving unit whose agent has run everything is Dead, once its subordinates are gone.
fn finish_leavers(state: &mut State) {
    let done: Vec<UnitName> = state
        .model
        .units
        .values()
        .filter(|unit| unit.life == Life::Dying && unit.uniter.running.is_none() && unit.uniter.failure.is_none())
        .filter(|unit| unit.uniter.queued.is_none() && hooks::leaving(&state.model, unit).is_none())
        // An agent that never came up sets nothing Dead; 3.6 deletes its unit at once, 4.x leaves it to the job.
        .filter(|unit| unit.uniter.charm.is_some() || state.model.release == Release::V3)
        .filter(|unit| unit.uniter.charm.is_none() || state.agents.contains_key(&unit.machine))
        .filter(|unit| !state.model.units.values().any(|other| other.principal.as_ref() == Some(&unit.name)))
        .map(|unit| unit.name.clone())
        .collect();
    for name in done {
        if let Some(unit) = state.model.units.get_mut(&name) {
            unit.life = Life::Dead;
            state.dirty = true;
        }
    }
}

/// The unit is gone from the model. What its charm runs goes on, with nobody to talk to.
fn forget_unit(state: &mut State, name: &UnitName, machine: &str) {
    state.bags_read.remove(name);
    state.deploying.remove(name);
    for queued in state.commands.remove(name).into_iter().flatten() {
        super::pump::abort_commands(state, machine, queued.call);
    }
    let running = state.active.values().find_map(|active| match &active.what {
        Purpose::Unit { unit, context, .. } if unit == name => Some(context.clone()),
        _ => None,
    });
    match running.and_then(|context| state.contexts.get_mut(&context)) {
        Some(context) => context.orphaned = true,
        None => clear_unit(state, name, machine),
    }
}

/// Whether a model that is being destroyed in order has nothing left in it.
pub(super) fn is_over(state: &State) -> bool {
    let model = &state.model;
    model.dying && model.machines.is_empty() && model.applications.is_empty() && state.provisioning.is_empty()
}

/// Machines whose removal was cut short have no record any more, but are still there.
pub(super) fn remove_strays(shared: &Arc<Shared>, state: &mut State) {
    let entries = std::fs::read_dir(state.paths.machines()).into_iter().flatten().flatten();
    let found: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    for id in found.into_iter().filter(|id| !state.model.machines.contains_key(id)).collect::<Vec<_>>() {
        remove_machine(shared, state, id);
    }
}

/// Removes the unit's place on its machine.
pub(super) fn clear_unit(state: &State, name: &UnitName, machine: &str) {
    if let Some(agent) = state.agents.get(machine) {
        agent.sender.send(ToAgent::Remove { unit: name.clone() }).ok();
    }
}

fn remove_machine(shared: &Arc<Shared>, state: &mut State, id: String) {
    state.agents.remove(&id);
    state.active.retain(|_, active| active.machine != id);
    state.provisioning.insert(format!("removal of {id}"));
    let directory = state.paths.machine(&id);
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        // One that is still being made has to be there before it can go.
        let mut state = shared.lock();
        while state.provisioning.contains(&id) {
            state = shared.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        drop(state);
        let removed = Machine::remove_at(&directory);
        shared.update(|state| {
            state.provisioning.remove(&format!("removal of {id}"));
            if let Err(error) = removed {
                state.log(&format!("machine-{id}"), "ERROR", "juju.provisioner", &format!("removing it: {error:#}"));
            }
        });
    });
}
