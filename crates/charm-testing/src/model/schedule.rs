//! Which hook comes next: each unit compares what it has been told with what is, in Juju's order, and runs one hook at
//! a time.
//!
//! A hook that fails, or is killed, is run again before anything else. Timers of the machines call when nothing is left
//! to be told.

use super::{Dispatched, Impossible, Model, state};
use crate::hook::Hook;
use crate::machine::FakeMachine;
use charm::{AppName, Context, Databag, RelationId, Tools, UnitName};
use serde_json::Value;
use state::{Relation, State};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::{Arc, MutexGuard, PoisonError};

/// A charm: what a unit runs.
type Charm = dyn Fn(&Hook, Context, Tools) -> ExitCode + Send + Sync;

/// What all agents of a model know.
#[derive(Default)]
pub(super) struct Agenda {
    agents: BTreeMap<UnitName, Agent>,
    /// Relations that are being removed.
    ending: BTreeSet<u64>,
}

/// The agent of a unit: what its charm has been told.
struct Agent {
    machine: FakeMachine,
    timers: &'static [&'static str],
    charm: Arc<Charm>,
    installed: bool,
    started: bool,
    stopped: bool,
    elected: bool,
    options: Option<BTreeMap<String, Value>>,
    secrets: BTreeMap<String, usize>,
    relations: BTreeMap<u64, Scope>,
    failed: Option<Step>,
    /// Relations about which nothing reaches it any more.
    deaf_to: BTreeSet<u64>,
    /// The next unit that departs will do so without a word.
    misses_departure: bool,
    /// Who has gone that way.
    ghosts: BTreeSet<(u64, UnitName)>,
}

/// What a unit knows about a relation that it has entered.
#[derive(Default)]
struct Scope {
    created: bool,
    left: bool,
    app: Databag,
    /// The bag of each unit as it was last told; none between joined and changed.
    members: BTreeMap<UnitName, Option<Databag>>,
}

/// One thing to tell a unit.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Install,
    Created(u64),
    Elected,
    Secret(String),
    Config,
    Start,
    Departed(u64, UnitName),
    Broken(u64),
    AppChanged(u64),
    Joined(u64, UnitName),
    UnitChanged(u64, UnitName),
    Stop,
    Remove,
}

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
            stopped: false,
            elected: false,
            options: None,
            secrets: BTreeMap::new(),
            relations: BTreeMap::new(),
            failed: None,
            deaf_to: BTreeSet::new(),
            misses_departure: false,
            ghosts: BTreeSet::new(),
        };
        self.agenda().agents.insert(unit.clone(), agent);
        Ok(())
    }

    /// Runs a hook on a unit that has a machine, now: `update-status`, an action.
    pub fn run(&self, unit: &UnitName, hook: &Hook) -> Result<Dispatched, Impossible> {
        let found = self.agenda().agents.get(unit).map(|agent| (agent.timers, Arc::clone(&agent.charm)));
        let (timers, charm) = found.ok_or_else(|| Impossible::new(format!("{unit} is on no machine")))?;
        self.dispatch(unit, timers, hook, |ctx, tools| charm(hook, ctx, tools))
    }

    /// Begins the removal of a unit: its agent runs the hooks of its end, and then it is gone.
    pub fn remove_unit(&self, unit: &UnitName) -> Result<(), Impossible> {
        self.begin_removal(unit)
    }

    /// Begins the removal of a relation. It is gone when the last unit has run its `relation-broken`.
    pub fn remove_relation(&self, relation: &RelationId) {
        self.agenda().ending.insert(relation.number());
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
            agent.deaf_to.clear();
            agent.ghosts.clear();
        }
        let mut state = self.state();
        let own = state.unit(unit)?;
        own.deaf_to.clear();
        own.ghosts.clear();
        Ok(())
    }

    /// Takes the power of a unit's machine away and gives it back. The agent runs `start` once more.
    pub fn reboot(&self, unit: &UnitName) {
        if let Some(agent) = self.agenda().agents.get_mut(unit) {
            agent.machine.reboot();
            agent.started = false;
        }
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

    /// Returns the timers that are set: unit and event.
    pub fn timers(&self) -> Vec<(UnitName, String)> {
        let agenda = self.agenda();
        let of = |(unit, agent): (&UnitName, &Agent)| -> Vec<(UnitName, String)> {
            agent.machine.timers(unit).into_iter().map(|event| (unit.clone(), event)).collect()
        };
        agenda.agents.iter().flat_map(of).collect()
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
        for (unit, event) in self.timers() {
            let hook = Hook::named(&event);
            let done = self.run(&unit, &hook).unwrap_or_else(|error| panic!("{unit} {event}: {error}"));
            ran.push(Ran { unit, hook, done });
            assert!(ran.len() <= BOUND, "no rest after {BOUND} hooks:\n{}", listed(ran));
        }
        self.run_hooks_after(ran);
    }

    /// Tells a unit the next thing. None: there is none. An empty list: it was lost.
    fn run_next(&self, unit: &UnitName) -> Option<Vec<Ran>> {
        let (step, hook, seen) = {
            let (mut agenda, mut state) = (self.agenda(), self.state());
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
            (step.clone(), hook(&state, unit, &step, dying), Seen::of(&state, unit, &step))
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
        match step {
            Step::Install => agent.installed = true,
            Step::Created(number) => agent.relations.entry(*number).or_default().created = true,
            Step::Elected => agent.elected = true,
            Step::Secret(id) => drop(agent.secrets.insert(id.clone(), seen.revision)),
            Step::Config => agent.options = Some(seen.options),
            Step::Start => agent.started = true,
            Step::Departed(number, gone) => {
                agent.relations.entry(*number).or_default().members.remove(gone);
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
            Step::Remove => {
                agenda.agents.remove(unit);
                if let Some(app) = state.apps.get_mut(&unit.app()) {
                    app.units.remove(unit);
                    if app.leader.as_ref() == Some(unit) {
                        app.leader = app.units.keys().next().cloned();
                    }
                }
            }
        }
        let over: Vec<u64> = agenda.ending.iter().copied().filter(|number| !agenda.is_entered(*number)).collect();
        for number in over {
            agenda.ending.remove(&number);
            state.end(number);
        }
    }
}

fn listed(ran: &[Ran]) -> String {
    ran.iter().map(|one| format!("  {one}\n")).collect()
}

/// What there was to be seen when a hook began.
#[derive(Default)]
struct Seen {
    bag: Databag,
    options: BTreeMap<String, Value>,
    revision: usize,
}

impl Seen {
    fn of(state: &State, unit: &UnitName, step: &Step) -> Self {
        let bag = |number: &u64, owner: &str| bag(state, *number, owner);
        match step {
            Step::Config => Self { options: state.apps[&unit.app()].options.clone(), ..Self::default() },
            Step::AppChanged(number) => {
                let remote = state.relations.get(number).map(|relation| relation.remote(&unit.app()));
                Self { bag: remote.map(|app| bag(number, app.as_str())).unwrap_or_default(), ..Self::default() }
            }
            Step::UnitChanged(number, other) => Self { bag: bag(number, other.as_str()), ..Self::default() },
            Step::Secret(id) => {
                Self { revision: state.secrets.get(id).map_or(0, |secret| secret.revisions.len()), ..Self::default() }
            }
            _ => Self::default(),
        }
    }
}

fn bag(state: &State, number: u64, owner: &str) -> Databag {
    let relation = state.relations.get(&number);
    relation.and_then(|relation| relation.bags.get(owner)).cloned().unwrap_or_default()
}

/// Makes the hook that tells a step.
fn hook(state: &State, unit: &UnitName, step: &Step, dying: bool) -> Hook {
    let ends = |number: &u64| -> (RelationId, AppName) {
        let relation = state.relations.get(number).expect("invariant: a relation lives until its last hook");
        let own = relation.id_for(&unit.app(), *number).expect("invariant: units hear of their own relations only");
        (own, relation.remote(&unit.app()))
    };
    match step {
        Step::Install => Hook::named("install"),
        Step::Elected => Hook::named("leader-elected"),
        Step::Config => Hook::named("config-changed"),
        Step::Start => Hook::named("start"),
        Step::Stop => Hook::named("stop"),
        Step::Remove => Hook::named("remove"),
        Step::Secret(id) => {
            let read = state.apps.get(&unit.app()).and_then(|app| app.units.get(unit)?.read.get(id));
            Hook::secret_changed(id, read.map_or("", |(_, label)| label.as_str()))
        }
        Step::Created(number) => {
            let (id, remote) = ends(number);
            Hook::created(&id, &remote)
        }
        Step::Broken(number) => {
            let (id, remote) = ends(number);
            Hook::broken(&id, Some(&remote))
        }
        Step::AppChanged(number) => {
            let (id, remote) = ends(number);
            Hook::app_changed(&id, &remote)
        }
        Step::Joined(number, other) => Hook::joined(&ends(number).0, other),
        Step::UnitChanged(number, other) => Hook::unit_changed(&ends(number).0, other),
        Step::Departed(number, other) => Hook::departed(&ends(number).0, other, if dying { unit } else { other }),
    }
}

impl Agenda {
    fn is_entered(&self, number: u64) -> bool {
        self.agents.values().any(|agent| agent.relations.get(&number).is_some_and(|scope| !scope.left))
    }

    /// Says whether a unit can be seen in a relation. One that the test plays is always there.
    fn is_in(&self, unit: &UnitName, number: u64) -> bool {
        match self.agents.get(unit) {
            Some(agent) => agent.relations.get(&number).is_some_and(|scope| !scope.left),
            None => true,
        }
    }

    /// Returns what a unit has to be told next.
    fn due(&mut self, state: &State, unit: &UnitName) -> Option<Step> {
        let app = state.apps.get(&unit.app())?;
        let own = app.units.get(unit)?;
        let leads = app.leader.as_ref() == Some(unit);
        if let Some(agent) = self.agents.get_mut(unit)
            && !leads
        {
            agent.elected = false;
        }
        let agent = self.agents.get(unit)?;
        if let Some(failed) = &agent.failed {
            return Some(failed.clone());
        }
        let relations = || state.relations.iter().filter(|(_, relation)| relation.has(&unit.app()));
        let is_peer = |number: &u64| state.relations.get(number).is_some_and(Relation::is_peer);
        if own.dying {
            let scopes: Vec<(&u64, &Scope)> = agent.relations.iter().filter(|(_, scope)| !scope.left).collect();
            let (peers, others): (Vec<_>, Vec<_>) = scopes.into_iter().partition(|(number, _)| is_peer(number));
            for (number, scope) in others.iter().chain(&peers) {
                if let Some(member) = scope.members.keys().next() {
                    return Some(Step::Departed(**number, member.clone()));
                }
                if !is_peer(number) {
                    return Some(Step::Broken(**number));
                }
            }
            return Some(if agent.started && !agent.stopped { Step::Stop } else { Step::Remove });
        }
        if !agent.installed {
            return Some(Step::Install);
        }
        let new = relations().find(|(number, _)| {
            !agent.relations.get(number).is_some_and(|scope| scope.created) && !self.ending.contains(number)
        });
        if let Some((number, _)) = new {
            return Some(Step::Created(*number));
        }
        if leads && !agent.elected {
            return Some(Step::Elected);
        }
        let news = own.read.iter().find(|(id, (known, _))| {
            let latest = state.secrets.get(*id).map_or(0, |secret| secret.revisions.len());
            latest > *known && latest > agent.secrets.get(*id).copied().unwrap_or(0)
        });
        if let Some((id, _)) = news {
            return Some(Step::Secret(id.clone()));
        }
        if agent.options.as_ref() != Some(&app.options) {
            return Some(Step::Config);
        }
        if !agent.started {
            return Some(Step::Start);
        }
        let mut ordered: Vec<(&u64, &Relation)> = relations().collect();
        ordered.sort_by_key(|(number, relation)| (relation.is_peer(), **number));
        ordered.into_iter().find_map(|(number, relation)| self.due_in(state, agent, unit, *number, relation))
    }

    /// Departed, broken, the application's bag, joined, the units' bags: in this order.
    fn due_in(&self, state: &State, agent: &Agent, unit: &UnitName, number: u64, relation: &Relation) -> Option<Step> {
        let scope = agent.relations.get(&number).filter(|scope| !scope.left)?;
        let ending = self.ending.contains(&number);
        let remote = relation.remote(&unit.app());
        let units = state.apps.get(&remote).map(|app| &app.units).into_iter().flatten().map(|(name, _)| name);
        let there: BTreeSet<&UnitName> = units.filter(|other| *other != unit && self.is_in(other, number)).collect();
        // A peer that leaves does so without a word.
        let missed = |member: &UnitName| agent.ghosts.contains(&(number, member.clone()));
        let gone =
            |member: &&UnitName| !missed(member) && (ending || (!relation.is_peer() && !there.contains(*member)));
        if let Some(member) = scope.members.keys().find(gone) {
            return Some(Step::Departed(number, member.clone()));
        }
        if ending {
            return Some(Step::Broken(number));
        }
        if agent.deaf_to.contains(&number) {
            return None;
        }
        if bag(state, number, remote.as_str()) != scope.app {
            return Some(Step::AppChanged(number));
        }
        let fresh = scope.members.iter().find(|(_, told)| told.is_none());
        if let Some((member, _)) = fresh {
            return Some(Step::UnitChanged(number, member.clone()));
        }
        if let Some(other) = there.iter().find(|other| !scope.members.contains_key(**other)) {
            return Some(Step::Joined(number, (*other).clone()));
        }
        let changed = scope.members.iter().find(|(member, told)| {
            there.contains(member) && told.as_ref().is_some_and(|told| *told != bag(state, number, member.as_str()))
        });
        changed.map(|(member, _)| Step::UnitChanged(number, member.clone()))
    }
}
