//! Removal: who becomes Dying when, and what the controller's removal jobs take away. Agents' hooks are decided in
//! `hooks`; here is what happens to the records, whether or not an agent is heard of.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Life, Model, Release, Status, StatusInfo, Unit};
use crate::charm::Scope;
use crate::clock::Moment;
use crate::names::UnitName;

/// What became of the records in one run of the jobs; the daemon tells agents and machines.
#[derive(Debug, PartialEq, Eq)]
pub enum Gone {
    Unit { name: UnitName, machine: String },
    Machine(String),
}

/// Whether a removal waits for those it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Force {
    No,
    /// `--force`: 3.6 gives them a minute, 4.x no time at all.
    Yes,
    /// `--force --no-wait`.
    AtOnce,
}

/// A unit that is taken away whatever its agent does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Forced {
    /// When it is Dead; once it is, when its record goes even if nobody on its machine can be asked.
    pub at: Moment,
    pub pause: u64,
}

/// How long 3.6 waits before it forces, and both lines before they force what is on a machine.
const FORCE_MILLIS: u64 = 60_000;
/// How long the controller waits before it looks at an unfinished removal again.
pub const JOB_PAUSE_MILLIS: u64 = 10_000;
/// A unit without any scope is taken away about a second after it was asked for.
const FIRST_JOB_MILLIS: u64 = 1_000;
const SHUTDOWN_MILLIS: u64 = 3_000;

impl Model {
    fn pause_of(&self, force: Force) -> Option<u64> {
        match (force, self.release) {
            (Force::No, _) => None,
            (Force::Yes, Release::V3) => Some(FORCE_MILLIS),
            (Force::Yes, Release::V4) | (Force::AtOnce, _) => Some(0),
        }
    }

    /// `juju remove-unit`: the unit is Dying, and in 4.x its machine too if nobody else is on it.
    pub fn remove_unit(&mut self, name: &UnitName, force: Force) {
        self.remove_unit_after(name, self.pause_of(force));
    }

    fn remove_unit_after(&mut self, name: &UnitName, pause: Option<u64>) {
        let now = Moment::now();
        let Some(unit) = self.units.get_mut(name) else { return };
        if unit.life == Life::Alive {
            unit.life = Life::Dying;
            unit.removal_due = now.plus_millis(FIRST_JOB_MILLIS);
        }
        // Asked again, whatever comes first counts.
        if let Some(pause) = pause
            && unit.forced.as_ref().is_none_or(|forced| now.plus_millis(pause) < forced.at)
        {
            unit.forced = Some(Forced { at: now.plus_millis(pause), pause });
        }
        let machine = unit.machine.clone();
        if self.release == Release::V4 {
            self.retire_machine(&machine);
        }
    }

    /// `juju remove-machine`: with force its units have a minute to leave, in both lines.
    pub fn remove_machine(&mut self, id: &str, force: Force) {
        let units: Vec<UnitName> =
            self.units.values().filter(|unit| unit.machine == id).map(|unit| unit.name.clone()).collect();
        let pause = match force {
            Force::No => None,
            Force::Yes => Some(FORCE_MILLIS),
            Force::AtOnce => Some(0),
        };
        units.iter().for_each(|unit| self.remove_unit_after(unit, pause));
        if let Some(machine) = self.machines.get_mut(id) {
            machine.keep = false;
            machine.life = Life::Dying;
        }
    }

    /// A machine without an alive unit is Dying. It lives on until the last record on it is gone.
    fn retire_machine(&mut self, id: &str) {
        let used = self.units.values().any(|unit| unit.machine == id && unit.life == Life::Alive);
        if let Some(machine) = self.machines.get_mut(id)
            && !used
            && machine.life == Life::Alive
            && !machine.keep
        {
            machine.life = Life::Dying;
            machine.agent = StatusInfo::new(Status::Stopped, "");
        }
    }

    /// `juju remove-relation`: no unit is Dying but the subordinates that lived by it.
    pub fn remove_relation(&mut self, id: u32, force: Force) {
        let pause = self.pause_of(force);
        let Some(relation) = self.relations.get_mut(&id) else { return };
        let now = Moment::now();
        if relation.life == Life::Alive {
            relation.life = Life::Dying;
            relation.removal_due = now.plus_millis(JOB_PAUSE_MILLIS);
        }
        if let Some(pause) = pause {
            relation.forced = true;
            relation.removal_due = now.plus_millis(pause);
        }
        // The implicit side runs no hooks that could leave.
        let silent: Vec<String> =
            relation.sides.iter().filter(|side| side.endpoint.implicit).map(|side| side.application.clone()).collect();
        let gone: Vec<UnitName> = relation
            .unit_bags
            .keys()
            .filter(|unit| silent.iter().any(|name| name == unit.application()))
            .cloned()
            .collect();
        gone.iter().for_each(|unit| relation.leave_scope(unit));
        if relation.scope() == Scope::Container {
            let applications: Vec<String> = relation.sides.iter().map(|side| side.application.clone()).collect();
            let orphans: Vec<UnitName> = self
                .units
                .values()
                .filter(|unit| {
                    unit.principal.is_some() && applications.iter().any(|name| name == unit.name.application())
                })
                .map(|unit| unit.name.clone())
                .collect();
            orphans.iter().for_each(|orphan| self.remove_unit(orphan, Force::No));
        }
    }

    /// `juju remove-application`: the application, its relations and units are Dying at once.
    pub fn remove_application(&mut self, name: &str, force: Force) {
        if let Some(application) = self.applications.get_mut(name) {
            application.life = Life::Dying;
        }
        let relations: Vec<u32> = self.relations_of(name).map(|relation| relation.id).collect();
        relations.into_iter().for_each(|id| self.remove_relation(id, force));
        let units: Vec<UnitName> = self.units_of(name).map(|unit| unit.name.clone()).collect();
        units.iter().for_each(|unit| self.remove_unit(unit, force));
    }

    /// `juju destroy-model`: everything at once.
    pub fn remove_everything(&mut self) {
        let applications: Vec<String> = self.applications.keys().cloned().collect();
        applications.iter().for_each(|name| self.remove_application(name, Force::No));
        for machine in self.machines.values_mut() {
            machine.keep = false;
            machine.life = Life::Dying;
        }
    }

    /// Subordinates of a leaving unit leave too, from the moment its agent takes up the removal.
    pub fn remove_subordinates_of(&mut self, principal: &UnitName) {
        let subordinates: Vec<UnitName> = self
            .units
            .values()
            .filter(|unit| unit.principal.as_ref() == Some(principal) && unit.life == Life::Alive)
            .map(|unit| unit.name.clone())
            .collect();
        subordinates.iter().for_each(|subordinate| self.remove_unit(subordinate, Force::No));
    }

    /// One round of the removal jobs.
    pub fn run_removal_jobs(&mut self, now: Moment) -> Vec<Gone> {
        let mut gone = Vec::new();
        self.drop_blocked_scopes(now);
        if self.release == Release::V3 {
            self.end_forced_units(now);
        }
        for name in self.removable_units(now) {
            gone.extend(self.delete_unit(&name));
        }
        self.delete_relations(now);
        self.delete_applications();
        gone.extend(self.delete_machines(now));
        gone
    }

    /// In 4.x, a removed relation whose last unit is leaving and calls itself blocked is taken away under that unit.
    fn drop_blocked_scopes(&mut self, now: Moment) {
        for relation in self.relations.values_mut().filter(|relation| relation.life != Life::Alive) {
            if relation.removal_due > now {
                continue;
            }
            relation.removal_due = now.plus_millis(JOB_PAUSE_MILLIS);
            let in_scope: Vec<UnitName> = relation.unit_bags.keys().cloned().collect();
            let drops = match in_scope.as_slice() {
                _ if relation.forced => true,
                [only] if self.release == Release::V4 => {
                    let unit = self.units.get(only);
                    unit.is_some_and(|unit| unit.life != Life::Alive && unit.workload.current == Status::Blocked)
                }
                _ => false,
            };
            if drops {
                in_scope.iter().for_each(|unit| relation.leave_scope(unit));
            }
        }
    }

    /// 3.6 takes a forced unit out of everything when its time is over, and calls it Dead.
    fn end_forced_units(&mut self, now: Moment) {
        let due: Vec<UnitName> = self
            .units
            .values()
            .filter(|unit| unit.life == Life::Dying && unit.forced.as_ref().is_some_and(|forced| forced.at <= now))
            .map(|unit| unit.name.clone())
            .collect();
        for name in due {
            self.force_subordinates_of(&name);
            self.relations.values_mut().for_each(|relation| relation.leave_scope(&name));
            self.revoke_leadership(&name);
            self.storage.retain(|_, storage| storage.unit != name);
            if let Some(unit) = self.units.get_mut(&name) {
                unit.storage.clear();
                unit.life = Life::Dead;
                if let Some(forced) = &mut unit.forced {
                    forced.at = now.plus_millis(forced.pause);
                }
            }
        }
    }

    fn removable_units(&self, now: Moment) -> Vec<UnitName> {
        let removable = |unit: &&Unit| {
            let due = unit.forced.as_ref().map(|forced| forced.at <= now);
            let has_subordinates = self.units.values().any(|other| other.principal.as_ref() == Some(&unit.name));
            match unit.life {
                Life::Alive => false,
                Life::Dying => {
                    let in_scope = self.relations.values().any(|relation| relation.unit_bags.contains_key(&unit.name));
                    // The controller does not wait for an agent whose unit has neither relation nor storage left.
                    let idle = !in_scope && unit.storage.is_empty() && unit.removal_due <= now && !has_subordinates;
                    self.release == Release::V4 && (due == Some(true) || idle)
                }
                // The agent of its machine takes it away, unless it is lost or waits for a hook to end.
                Life::Dead => match due {
                    Some(false) => self.lost_since(&unit.machine).is_none() && unit.uniter.running.is_none(),
                    Some(true) => true,
                    None => !has_subordinates,
                },
            }
        };
        self.units.values().filter(removable).map(|unit| unit.name.clone()).collect()
    }

    /// Nobody is left that they could live with.
    fn force_subordinates_of(&mut self, principal: &UnitName) {
        let under = |unit: &&Unit| unit.principal.as_ref() == Some(principal);
        let subordinates: Vec<UnitName> = self.units.values().filter(under).map(|unit| unit.name.clone()).collect();
        subordinates.iter().for_each(|subordinate| self.remove_unit_after(subordinate, Some(0)));
    }

    fn revoke_leadership(&mut self, name: &UnitName) {
        if let Some(application) = self.applications.get_mut(name.application())
            && application.leader.as_ref() == Some(name)
        {
            application.leader = None;
        }
    }

    fn delete_unit(&mut self, name: &UnitName) -> Option<Gone> {
        let unit = self.units.remove(name)?;
        self.force_subordinates_of(name);
        let wiped = self.losses.contains("secret-content")
            && self.secrets.values().any(|secret| secret.owner == super::Owner::Unit(name.clone()));
        self.secrets.retain(|_, secret| secret.owner != super::Owner::Unit(name.clone()));
        if wiped {
            self.secrets
                .values_mut()
                .for_each(|secret| secret.revisions.values_mut().for_each(|one| one.content.clear()));
        }
        let mut deaf = Vec::new();
        for relation in self.relations.values_mut() {
            if relation.unit_bags.contains_key(name) {
                // Nobody is told of a unit that is deleted while it is in scope: in 4.x that is every peer, and
                // everybody else when it was forced.
                if self.release == Release::V4 {
                    deaf.push(relation.id);
                }
                relation.leave_scope(name);
            }
        }
        for id in deaf {
            self.make_ghost(id, name);
        }
        self.storage.retain(|_, storage| storage.unit != *name);
        self.revoke_leadership(name);
        if self.release == Release::V3 {
            self.retire_machine(&unit.machine);
        }
        Some(Gone::Unit { name: name.clone(), machine: unit.machine })
    }

    /// The others keep the unit in their lists until their agents start anew.
    pub fn make_ghost(&mut self, relation: u32, leaver: &UnitName) {
        for unit in self.units.values_mut() {
            if let Some(member) = unit.uniter.relations.get_mut(&relation)
                && member.units_seen.contains_key(leaver)
            {
                member.ghosts.insert(leaver.clone());
            }
        }
    }

    fn delete_relations(&mut self, now: Moment) {
        let done: BTreeSet<u32> = self
            .relations
            .values()
            .filter(|relation| relation.life != Life::Alive && relation.unit_bags.is_empty())
            .filter(|relation| relation.emptied.is_none_or(|since| since.plus_millis(FIRST_JOB_MILLIS) <= now))
            .map(|relation| relation.id)
            .collect();
        for id in &done {
            self.relations.remove(id);
            self.secrets.values_mut().for_each(|secret| secret.grants.retain(|_, relation| relation != id));
        }
        for unit in self.units.values_mut() {
            unit.uniter.relations.retain(|id, _| !done.contains(id));
        }
    }

    fn delete_applications(&mut self) {
        let done: Vec<String> = self
            .applications
            .values()
            .filter(|application| application.life != Life::Alive)
            .filter(|application| self.units_of(&application.name).next().is_none())
            .filter(|application| self.relations_of(&application.name).next().is_none())
            .map(|application| application.name.clone())
            .collect();
        for name in done {
            self.applications.remove(&name);
            self.secrets.retain(|_, secret| secret.owner != super::Owner::Application(name.clone()));
            let tag = format!("application-{name}");
            self.secrets.values_mut().for_each(|secret| {
                secret.grants.remove(&tag);
            });
        }
    }

    /// A machine outlives its last unit by some seconds, as an instance that is shut down does.
    fn delete_machines(&mut self, now: Moment) -> Vec<Gone> {
        let mut done = Vec::new();
        for machine in self.machines.values_mut().filter(|machine| machine.life != Life::Alive) {
            if self.units.values().any(|unit| unit.machine == machine.id) {
                continue;
            }
            let since = *machine.emptied.get_or_insert(now);
            if since.plus_millis(SHUTDOWN_MILLIS) <= now {
                done.push(machine.id.clone());
            }
        }
        done.iter().for_each(|id| {
            self.machines.remove(id);
        });
        done.into_iter().map(Gone::Machine).collect()
    }
}
