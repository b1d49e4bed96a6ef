//! How units, applications and relations go, on Juju 4 and on Juju 3.6.
//!
//! Removal only begins here. Agents run the hooks of the end; who is gone, and who ever hears of it, is below.

use super::agent::{Agenda, Agent};
use super::{Impossible, Model};
use crate::model::state::State;
use charm::{AppName, RelationId, UnitName};

impl Agent {
    /// What it knew of its relations in memory only is forgotten.
    pub(super) fn restarts(&mut self) {
        self.relations.values_mut().for_each(|scope| scope.restarted = true);
    }

    /// Says whether it has entered a relation and not left it.
    pub(super) fn is_in(&self, number: u64) -> bool {
        self.relations.get(&number).is_some_and(|scope| !scope.left)
    }

    fn is_in_scope(&self) -> bool {
        self.relations.values().any(|scope| !scope.left)
    }
}

impl Model {
    /// Begins the removal of a unit: its agent runs the hooks of its end, and then it is gone. One whose `install` has
    /// not run goes without a hook, and on Juju 4 one that is in no relation.
    pub fn remove_unit(&self, unit: &UnitName) -> Result<(), Impossible> {
        self.begin_removal(unit)?;
        let subordinates = self.state().subordinates(unit);
        for subordinate in &subordinates {
            self.remove_unit(subordinate)?;
        }
        let (mut agenda, mut state) = (self.agenda(), self.state());
        let juju_3 = state.juju_3;
        let at_once = agenda.agents.get(unit).is_some_and(|agent| {
            let fresh = !agent.installed && agent.failed.is_none();
            (fresh || (!juju_3 && !agent.is_in_scope())) && state.subordinates(unit).is_empty()
        });
        if at_once {
            vanish(&mut agenda, &mut state, unit);
        }
        finish(&mut agenda, &mut state);
        Ok(())
    }

    /// Removes a unit with force: it is gone at once, without a hook, and so is its machine. A hook that pauses there
    /// goes on without Juju until it pauses again. On Juju 4 nobody hears of it: it stays in `relation-list` as a
    /// ghost. On Juju 3.6 the others hear.
    pub fn remove_unit_force(&self, unit: &UnitName) -> Result<(), Impossible> {
        let (mut agenda, mut state) = (self.agenda(), self.state());
        state.unit(unit)?;
        for subordinate in state.subordinates(unit) {
            vanish(&mut agenda, &mut state, &subordinate);
        }
        vanish(&mut agenda, &mut state, unit);
        finish(&mut agenda, &mut state);
        Ok(())
    }

    /// Begins the removal of an application with all its units and relations. The other side departs and breaks at
    /// once, whatever the units wait for.
    pub fn remove_application(&self, app: &AppName) -> Result<(), Impossible> {
        let units: Vec<UnitName> = {
            let (mut agenda, mut state) = (self.agenda(), self.state());
            let found = state.apps.get_mut(app).ok_or_else(|| Impossible::new(format!("no application {app}")))?;
            found.dying = true;
            let units = found.units.keys().cloned().collect();
            let own = state.relations.iter().filter(|(_, relation)| relation.has(app));
            agenda.ending.extend(own.map(|(number, _)| *number));
            units
        };
        for unit in &units {
            self.remove_unit(unit)?;
            // One that the test plays runs no hooks.
            if self.machine(unit).is_none() && self.state().unit(unit).is_ok() {
                self.remove_unit_force(unit)?;
            }
        }
        let (mut agenda, mut state) = (self.agenda(), self.state());
        finish(&mut agenda, &mut state);
        Ok(())
    }

    /// Begins the removal of everything.
    #[expect(clippy::missing_panics_doc, reason = "an application that is there can be removed")]
    pub fn destroy(&self) {
        let apps: Vec<AppName> = self.state().apps.keys().cloned().collect();
        // All of it is one change, so nobody goes before all others know that they will.
        let numbers: Vec<u64> = self.state().relations.keys().copied().collect();
        self.agenda().ending.extend(numbers);
        for app in apps {
            self.remove_application(&app).expect("invariant: it is there");
        }
    }

    /// Begins the removal of a relation. It is gone when the last unit has run its `relation-broken`.
    pub fn remove_relation(&self, relation: &RelationId) {
        let (mut agenda, mut state) = (self.agenda(), self.state());
        agenda.ending.insert(relation.number());
        finish(&mut agenda, &mut state);
    }

    /// Tells whether there is a unit of this name, being removed or not.
    pub fn has_unit(&self, unit: &UnitName) -> bool {
        self.state().unit(unit).is_ok()
    }

    /// Tells whether there is an application of this name, being removed or not.
    pub fn has_application(&self, app: &AppName) -> bool {
        self.state().apps.contains_key(app)
    }

    /// Tells whether a relation is there, being removed or not.
    pub fn has_relation(&self, relation: &RelationId) -> bool {
        self.state().relations.contains_key(&relation.number())
    }

    /// Some seconds pass, and Juju 4 drops who is being removed and has nothing that holds it.
    pub(super) fn sweep(&self) {
        let (mut agenda, mut state) = (self.agenda(), self.state());
        if state.juju_3 {
            return;
        }
        for number in agenda.ending.clone() {
            let inside = agenda.agents.iter_mut().filter(|(_, agent)| agent.is_in(number));
            let mut inside: Vec<(&UnitName, &mut Agent)> = inside.collect();
            // Nobody waits for the last one in a relation that ends if it is blocked.
            if let [(unit, agent)] = inside.as_mut_slice()
                && let Ok(own) = state.unit(unit)
                && own.dying
                && own.status.0 == "blocked"
            {
                agent.relations.entry(number).or_default().left = true;
                own.left.insert(number);
            }
        }
        let bare = |(unit, agent): &(&UnitName, &Agent)| {
            let dying = state.apps.get(&unit.app()).and_then(|app| app.units.get(*unit)).is_some_and(|own| own.dying);
            dying && !agent.is_in_scope() && state.subordinates(unit).is_empty()
        };
        let bare: Vec<UnitName> = agenda.agents.iter().filter(bare).map(|(unit, _)| unit.clone()).collect();
        for unit in bare {
            vanish(&mut agenda, &mut state, &unit);
        }
        finish(&mut agenda, &mut state);
    }
}

/// A unit is gone, and its machine with it unless it is another unit's. Juju 4 has no word for those in whose relations it still was.
pub(super) fn vanish(agenda: &mut Agenda, state: &mut State, unit: &UnitName) {
    let agent = agenda.agents.remove(unit);
    let guest = state.principal(unit).is_some();
    for (other, theirs) in agenda.agents.iter_mut().filter(|_| !state.juju_3) {
        let knows = theirs.relations.iter().filter(|(_, scope)| scope.members.contains_key(unit));
        let numbers: Vec<u64> = knows.map(|(number, _)| *number).collect();
        for number in numbers.into_iter().filter(|number| agent.as_ref().is_none_or(|agent| agent.is_in(*number))) {
            theirs.ghosts.insert((number, unit.clone()));
            if let Some(other) = state.apps.get_mut(&other.app()).and_then(|app| app.units.get_mut(other)) {
                other.ghosts.insert((number, unit.clone()));
            }
        }
    }
    if let Some(app) = state.apps.get_mut(&unit.app()) {
        app.units.remove(unit);
        if app.leader.as_ref() == Some(unit) {
            let next = app.units.iter().find(|(_, other)| !other.dying).or_else(|| app.units.iter().next());
            app.leader = next.map(|(name, _)| name.clone());
        }
    }
    if let Some(agent) = agent.filter(|_| !guest) {
        agent.machine.give_back();
    }
}

/// What ends and holds nobody any more is gone.
pub(super) fn finish(agenda: &mut Agenda, state: &mut State) {
    let over: Vec<u64> = agenda.ending.iter().copied().filter(|number| !agenda.is_entered(*number)).collect();
    for number in over {
        agenda.ending.remove(&number);
        // Nothing holds a subordinate without a relation to where it is.
        let local = state.relations.get(&number).filter(|relation| relation.local);
        for (app, _) in local.map(|relation| relation.ends.clone()).unwrap_or_default() {
            let units = state.apps.get_mut(&app).map(|app| app.units.values_mut());
            units.into_iter().flatten().for_each(|own| own.dying |= own.principal.is_some());
        }
        state.end(number);
        for agent in agenda.agents.values_mut() {
            if agent.failed.as_ref().is_some_and(|step| step.relation() == Some(number)) {
                agent.failed = None;
            }
        }
    }
    let relations = &state.relations;
    state.apps.retain(|name, app| {
        !app.dying || !app.units.is_empty() || relations.values().any(|relation| relation.has(name))
    });
}
