//! Which hook comes next: each unit compares what it has been told with what is, in Juju's order, and runs one hook at
//! a time.
//!
//! A hook that fails, or is killed, is run again before anything else. Timers of the machines call when nothing is left
//! to be told.

mod agent;
mod removal;
mod waiting;

use super::{Dispatched, Impossible, Model};
use crate::hook::Hook;
use crate::machine::FakeMachine;
use crate::slurm::FakeSlurm;
pub(super) use agent::Agenda;
use agent::{Agent, Seen, Step, hook};
use charm::{Context, RelationId, Tools, UnitName};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::{Arc, MutexGuard, PoisonError};
pub(super) use waiting::Meanwhile;

/// A charm: what a unit runs.
type Charm = dyn Fn(&Hook, Context, Tools) -> ExitCode + Send + Sync;

/// A hook that was run.
#[derive(Debug)]
pub struct Ran {
    /// On which unit.
    pub unit: UnitName,
    /// Which.
    pub hook: Hook,
    /// What it did.
    pub done: Dispatched,
}

impl std::fmt::Display for Ran {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = match (self.done.succeeded, self.done.killed) {
            (true, _) => "",
            (false, true) => ", killed",
            (false, false) => ", failed",
        };
        write!(formatter, "{} {}{end}", self.unit, self.hook)
    }
}

/// How many hooks a model may run before it has to be at rest.
const BOUND: usize = 400;

impl Model {
    fn agenda(&self) -> MutexGuard<'_, Agenda> {
        self.agenda.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a unit on a machine, with the charm that it runs and the events that the charm's own timers send. From now
    /// on hooks come by themselves in [`settle`](Self::settle) and its kin.
    pub fn host(
        &self,
        unit: &UnitName,
        machine: &FakeMachine,
        timers: &'static [&'static str],
        charm: impl Fn(&Hook, Context, Tools) -> ExitCode + Send + Sync + 'static,
    ) -> Result<(), Impossible> {
        self.state().unit(unit)?;
        let agent = Agent {
            machine: machine.clone(),
            timers,
            charm: Arc::new(charm),
            installed: false,
            started: false,
            has_started: false,
            stopped: false,
            elected: false,
            options: None,
            secrets: BTreeMap::new(),
            obsolete: BTreeSet::new(),
            relations: BTreeMap::new(),
            failed: None,
            deaf_to: BTreeSet::new(),
            misses_departure: false,
            ghosts: BTreeSet::new(),
        };
        self.agenda().agents.insert(unit.clone(), agent);
        self.hear_pauses(unit, machine);
        Ok(())
    }

    /// Returns the machine of a unit.
    pub fn machine(&self, unit: &UnitName) -> Option<FakeMachine> {
        self.agenda().agents.get(unit).map(|agent| agent.machine.clone())
    }

    /// Runs a hook on a unit that has a machine, now: `update-status`, an action.
    pub fn run(&self, unit: &UnitName, hook: &Hook) -> Result<Dispatched, Impossible> {
        let found = self.agenda().agents.get(unit).map(|agent| (agent.timers, Arc::clone(&agent.charm)));
        let (timers, charm) = found.ok_or_else(|| Impossible::new(format!("{unit} is on no machine")))?;
        let _in_hook = self.enter(unit)?;
        self.dispatch(unit, timers, hook, |ctx, tools| charm(hook, ctx, tools))
    }

    /// Has the next unit that departs from a relation of this one do so without a word. It stays in `relation-list` as
    /// a ghost.
    pub fn lose_departed(&self, unit: &UnitName) {
        if let Some(agent) = self.agenda().agents.get_mut(unit) {
            agent.misses_departure = true;
        }
    }

    /// Has a unit hear nothing of a relation but its beginning, as Juju's agents do after a relation was made again: no
    /// joined, no changed, and the other application's bag stays what it was at first.
    pub fn lose_news(&self, unit: &UnitName, relation: &RelationId) -> Result<(), Impossible> {
        self.deafen(unit, relation, true)?;
        if let Some(agent) = self.agenda().agents.get_mut(unit) {
            agent.deaf_to.insert(relation.number());
        }
        Ok(())
    }

    /// Restarts the agent of a unit, which then hears what is overdue.
    pub fn restart_agent(&self, unit: &UnitName) -> Result<(), Impossible> {
        if let Some(agent) = self.agenda().agents.get_mut(unit) {
            agent.restarts();
            agent.deaf_to.clear();
            agent.ghosts.clear();
        }
        let mut state = self.state();
        let own = state.unit(unit)?;
        own.deaf_to.clear();
        own.ghosts.clear();
        Ok(())
    }

    /// Takes the power of a unit's machine away and gives it back. The agent runs `start` once more. A hook that pauses
    /// on the machine is killed.
    pub fn reboot(&self, unit: &UnitName) {
        let guests = self.state().subordinates(unit);
        let mut agenda = self.agenda();
        if let Some(agent) = agenda.agents.get(unit) {
            agent.machine.reboot();
        }
        for unit in guests.iter().chain([unit]) {
            if let Some(agent) = agenda.agents.get_mut(unit) {
                agent.started = false;
                agent.restarts();
            }
        }
    }

    /// Has the agent of a unit run nothing, as on a machine that is off, or go on.
    pub fn switch(&self, unit: &UnitName, on: bool) {
        let mut agenda = self.agenda();
        match on {
            true => agenda.off.remove(unit),
            false => agenda.off.insert(unit.clone()),
        };
    }

    /// Runs hooks until nobody has anything left to be told. Timers do not call.
    #[track_caller]
    pub fn run_hooks(&self) -> Vec<Ran> {
        let mut ran = Vec::new();
        self.run_hooks_after(&mut ran);
        ran
    }

    /// Lets every timer that is set call once, and runs the hooks that come of it.
    #[track_caller]
    pub fn tick(&self) -> Vec<Ran> {
        let mut ran = Vec::new();
        self.tick_after(&mut ran);
        ran
    }

    /// Runs hooks and lets timers call until nobody has anything left to be told and no timer is set.
    #[track_caller]
    pub fn settle(&self) -> Vec<Ran> {
        let mut ran = Vec::new();
        self.run_hooks_after(&mut ran);
        while !self.timers().is_empty() {
            self.tick_after(&mut ran);
        }
        ran
    }

    /// Returns the timers that are set: unit and event. One of a unit that is in a hook has to wait.
    pub fn timers(&self) -> Vec<(UnitName, String)> {
        let agenda = self.agenda();
        let of = |(unit, agent): (&UnitName, &Agent)| -> Vec<(UnitName, String)> {
            agent.machine.timers(unit).into_iter().map(|event| (unit.clone(), event)).collect()
        };
        let busy = |unit: &UnitName| agenda.in_hook.contains(unit) || agenda.off.contains(unit);
        agenda.agents.iter().filter(|(unit, _)| !busy(unit)).flat_map(of).collect()
    }

    /// Runs the next hook of every unit that has one, one after the other. None: nobody has anything left to be told.
    pub fn run_round(&self) -> Option<Vec<Ran>> {
        let units: Vec<UnitName> = self.agenda().agents.keys().cloned().collect();
        let ran: Vec<Vec<Ran>> = units.iter().filter_map(|unit| self.run_next(unit)).collect();
        (!ran.is_empty()).then(|| ran.into_iter().flatten().collect())
    }

    #[track_caller]
    fn run_hooks_after(&self, ran: &mut Vec<Ran>) {
        while let Some(round) = self.run_round() {
            ran.extend(round);
            assert!(ran.len() <= BOUND, "no rest after {BOUND} hooks:\n{}", listed(ran));
        }
    }

    #[track_caller]
    fn tick_after(&self, ran: &mut Vec<Ran>) {
        self.sweep();
        self.let_time_pass();
        for (unit, event) in self.timers() {
            // What came before may have taken it away.
            if !self.agenda().agents.contains_key(&unit) {
                continue;
            }
            let hook = Hook::named(&event);
            let done = self.run(&unit, &hook).unwrap_or_else(|error| panic!("{unit} {event}: {error}"));
            ran.push(Ran { unit, hook, done });
            assert!(ran.len() <= BOUND, "no rest after {BOUND} hooks:\n{}", listed(ran));
        }
        self.run_hooks_after(ran);
    }

    /// A timer calls some time later, in which several controllers do what they do.
    fn let_time_pass(&self) {
        let slurms: Vec<FakeSlurm> = self.agenda().agents.values().map(|agent| agent.machine.slurm()).collect();
        let mut passed: Vec<&FakeSlurm> = Vec::new();
        for slurm in &slurms {
            if !passed.iter().any(|other| other.is(slurm)) {
                slurm.wait_for_timer();
                passed.push(slurm);
            }
        }
    }

    /// Tells a unit the next thing. None: there is none. An empty list: it was lost.
    fn run_next(&self, unit: &UnitName) -> Option<Vec<Ran>> {
        let (step, hook, seen) = {
            let (mut agenda, mut state) = (self.agenda(), self.state());
            if agenda.in_hook.contains(unit) || agenda.off.contains(unit) {
                return None;
            }
            let step = agenda.due(&state, unit)?;
            let agent = agenda.agents.get_mut(unit)?;
            let dying = state.unit(unit).is_ok_and(|own| own.dying);
            if let Step::Departed(number, gone) = &step
                && agent.misses_departure
                && !dying
            {
                agent.misses_departure = false;
                agent.ghosts.insert((*number, gone.clone()));
                if let Ok(own) = state.unit(unit) {
                    own.ghosts.insert((*number, gone.clone()));
                }
                return Some(Vec::new());
            }
            if let Step::Created(number) = step {
                // It enters the scope before the hook has ended.
                agent.relations.entry(number).or_default();
            }
            let forgetful = step.relation().and_then(|number| agent.relations.get(&number));
            let forgetful = forgetful.is_some_and(|scope| scope.restarted);
            (step.clone(), hook(&state, unit, &step, forgetful), Seen::of(&state, unit, &step))
        };
        let done = self.run(unit, &hook).unwrap_or_else(|error| panic!("{unit} {hook}: {error}"));
        if done.succeeded {
            self.heard(unit, &step, seen);
        } else if let Some(agent) = self.agenda().agents.get_mut(unit) {
            agent.failed = Some(step);
        }
        Some(vec![Ran { unit: unit.clone(), hook, done }])
    }

    /// Notes that a unit has been told.
    fn heard(&self, unit: &UnitName, step: &Step, seen: Seen) {
        let (mut agenda, mut state) = (self.agenda(), self.state());
        let Some(agent) = agenda.agents.get_mut(unit) else { return };
        agent.failed = None;
        if step.relation().is_some_and(|number| !state.relations.contains_key(&number)) {
            // It went under the hook.
            return;
        }
        match step {
            Step::Install => agent.installed = true,
            Step::Created(number) => agent.relations.entry(*number).or_default().created = true,
            Step::Elected => agent.elected = true,
            Step::Secret(id) => drop(agent.secrets.insert(id.clone(), seen.revision)),
            Step::Obsolete(id, revision) => drop(agent.obsolete.insert((id.clone(), *revision))),
            Step::Config => agent.options = Some(seen.options),
            Step::Start => (agent.started, agent.has_started) = (true, true),
            Step::Departed(number, gone) => {
                agent.relations.entry(*number).or_default().members.remove(gone);
                if let Ok(own) = state.unit(unit) {
                    own.departed.insert((*number, gone.clone()));
                }
            }
            Step::Broken(number) => {
                agent.relations.entry(*number).or_default().left = true;
                if let Ok(own) = state.unit(unit) {
                    own.left.insert(*number);
                }
            }
            Step::AppChanged(number) => agent.relations.entry(*number).or_default().app = seen.bag,
            Step::Joined(number, other) => {
                agent.relations.entry(*number).or_default().members.insert(other.clone(), None);
            }
            Step::UnitChanged(number, other) => {
                agent.relations.entry(*number).or_default().members.insert(other.clone(), Some(seen.bag));
            }
            Step::Stop => agent.stopped = true,
            Step::Remove => removal::vanish(&mut agenda, &mut state, unit),
        }
        removal::finish(&mut agenda, &mut state);
    }
}

fn listed(ran: &[Ran]) -> String {
    ran.iter().map(|one| format!("  {one}\n")).collect()
}
