//! The agent of a unit: what its charm has been told, and what it has to be told next.

use super::Charm;
use crate::hook::Hook;
use crate::machine::FakeMachine;
use crate::model::state::{Relation, State};
use charm::{AppName, Databag, RelationId, UnitName};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What all agents of a model know.
#[derive(Default)]
pub(in crate::model) struct Agenda {
    pub(super) agents: BTreeMap<UnitName, Agent>,
    /// Relations that are being removed.
    pub(super) ending: BTreeSet<u64>,
    /// Units that are in a hook. What else they have to be told waits.
    pub(super) in_hook: BTreeSet<UnitName>,
    /// Units whose machine is off.
    pub(super) off: BTreeSet<UnitName>,
}

/// The agent of a unit: what its charm has been told.
pub(super) struct Agent {
    pub(super) machine: FakeMachine,
    pub(super) timers: &'static [&'static str],
    pub(super) charm: Arc<Charm>,
    pub(super) installed: bool,
    /// It has run `start` since the machine booted.
    pub(super) started: bool,
    /// It has run `start` at all.
    pub(super) has_started: bool,
    pub(super) stopped: bool,
    pub(super) elected: bool,
    pub(super) options: Option<BTreeMap<String, Value>>,
    pub(super) secrets: BTreeMap<String, usize>,
    /// Revisions that it has called obsolete.
    pub(super) obsolete: BTreeSet<(String, usize)>,
    pub(super) relations: BTreeMap<u64, Scope>,
    pub(super) failed: Option<Step>,
    /// Relations about which nothing reaches it any more.
    pub(super) deaf_to: BTreeSet<u64>,
    /// The next unit that departs will do so without a word.
    pub(super) misses_departure: bool,
    /// Who has gone that way.
    pub(super) ghosts: BTreeSet<(u64, UnitName)>,
}

/// What a unit knows about a relation that it has entered.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) created: bool,
    pub(super) left: bool,
    /// The agent has been restarted since it entered: it does not know any more with whom, nor that peers are peers.
    pub(super) restarted: bool,
    pub(super) app: Databag,
    /// The bag of each unit as it was last told; none between joined and changed.
    pub(super) members: BTreeMap<UnitName, Option<Databag>>,
}

/// One thing to tell a unit.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Install,
    Created(u64),
    Elected,
    Secret(String),
    Obsolete(String, usize),
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

/// What there was to be seen when a hook began.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) bag: Databag,
    pub(super) options: BTreeMap<String, Value>,
    pub(super) revision: usize,
}

impl Seen {
    pub(super) fn of(state: &State, unit: &UnitName, step: &Step) -> Self {
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

impl Step {
    /// The relation that it is about.
    pub(super) fn relation(&self) -> Option<u64> {
        match self {
            Self::Created(number)
            | Self::Departed(number, _)
            | Self::Broken(number)
            | Self::AppChanged(number)
            | Self::Joined(number, _)
            | Self::UnitChanged(number, _) => Some(*number),
            _ => None,
        }
    }
}

/// Makes the hook that tells a step. `forgetful`: the agent does not know any more with whom the relation is.
pub(super) fn hook(state: &State, unit: &UnitName, step: &Step, forgetful: bool) -> Hook {
    // Whoever is being removed, or whose application is, leaves: not the other one.
    let app = state.apps.get(&unit.app());
    let dying = app.is_some_and(|app| app.dying || app.units.get(unit).is_some_and(|own| own.dying));
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
        Step::Obsolete(id, revision) => {
            let label = state.secrets.get(id).map(|secret| secret.label.clone());
            Hook::secret_obsolete(id, &label.unwrap_or_default(), *revision)
        }
        Step::Created(number) => {
            let (id, remote) = ends(number);
            Hook::created(&id, &remote)
        }
        Step::Broken(number) => {
            let (id, remote) = ends(number);
            Hook::broken(&id, Some(&remote).filter(|_| !forgetful))
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
    pub(super) fn is_entered(&self, number: u64) -> bool {
        self.agents.values().any(|agent| agent.is_in(number))
    }

    /// Says whether a unit can be seen in a relation. One that the test plays is always there. Juju 3.6 shows nobody
    /// who is being removed.
    fn is_in(&self, state: &State, unit: &UnitName, number: u64) -> bool {
        let leaves = state.apps.get(&unit.app()).and_then(|app| app.units.get(unit)).is_some_and(|own| own.dying);
        if state.juju_3 && leaves {
            return false;
        }
        match self.agents.get(unit) {
            Some(agent) => agent.is_in(number),
            None => true,
        }
    }

    /// Returns what a unit has to be told next.
    pub(super) fn due(&mut self, state: &State, unit: &UnitName) -> Option<Step> {
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
            // Peers come last and are not broken, unless the agent has forgotten that they are peers.
            let mut scopes: Vec<(&u64, &Scope)> = agent.relations.iter().filter(|(_, scope)| !scope.left).collect();
            let known = |number: &u64, scope: &Scope| is_peer(number) && !scope.restarted;
            scopes.sort_by_key(|(number, scope)| (known(number, scope), !is_peer(number), **number));
            for (number, scope) in scopes {
                if let Some(member) = scope.members.keys().next() {
                    return Some(Step::Departed(*number, member.clone()));
                }
                if !known(number, scope) {
                    return Some(Step::Broken(*number));
                }
            }
            if agent.has_started && !agent.stopped {
                return Some(Step::Stop);
            }
            // It goes after its subordinates.
            return state.subordinates(unit).is_empty().then_some(Step::Remove);
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
        let owned = state.secrets.iter().filter(|(_, secret)| leads && secret.owner == unit.app());
        let mut obsolete = owned.flat_map(|(id, _)| state.obsolete(id).into_iter().map(move |own| (id.clone(), own)));
        if let Some((id, revision)) = obsolete.find(|one| !agent.obsolete.contains(one)) {
            return Some(Step::Obsolete(id, revision));
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
        let seen = |other: &UnitName| self.is_in(state, other, number) && state.shows(relation, unit, other);
        let there: BTreeSet<&UnitName> = units.filter(|other| *other != unit && seen(other)).collect();
        let missed = |member: &UnitName| agent.ghosts.contains(&(number, member.clone()));
        let gone = |member: &&UnitName| !missed(member) && (ending || !there.contains(*member));
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
