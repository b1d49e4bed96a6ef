//! Removal: who becomes Dying when, and what the controller's removal jobs take away. Agents' hooks are decided in `hooks`;
//! here is what happens to the records, whether or not an agent is heard of.

use std::collections::BTreeSet;

use super::{Life, Model, Release, Status, StatusInfo};
use crate::charm::Scope;
use crate::clock::Moment;
use crate::names::UnitName;

/// What became of the records in one run of the jobs; the daemon tells agents and machines.
#[derive(Debug, PartialEq, Eq)]
pub enum Gone {
    Unit { name: UnitName, machine: String },
    Machine(String),
}

/// How long the controller waits before it looks at an unfinished removal again.
pub const JOB_PAUSE_MILLIS: u64 = 10_000;
/// A unit without any scope is taken away about a second after it was asked for.
const FIRST_JOB_MILLIS: u64 = 1_000;
const SHUTDOWN_MILLIS: u64 = 3_000;

impl Model {
    /// `juju remove-unit`: the unit is Dying, and in 4.x its machine too if nobody else is on it.
    pub fn remove_unit(&mut self, name: &UnitName, force: bool) {
        let now = Moment::now();
        if let Some(unit) = self.units.get_mut(name)
            && unit.life == Life::Alive
        {
            unit.life = Life::Dying;
            unit.removal_due = now.plus_millis(FIRST_JOB_MILLIS);
        }
        if let Some(unit) = self.units.get_mut(name)
            && force
        {
            unit.forced = true;
            let pause = if self.release == Release::V3 { 60_000 } else { 0 };
            unit.removal_due = now.plus_millis(pause);
        }
        if self.release == Release::V4
            && let Some(machine) = self.units.get(name).map(|unit| unit.machine.clone())
        {
            self.retire_machine(&machine);
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
    pub fn remove_relation(&mut self, id: u32, force: bool) {
        let Some(relation) = self.relations.get_mut(&id) else { return };
        let now = Moment::now();
        if relation.life == Life::Alive {
            relation.life = Life::Dying;
            relation.removal_due = now.plus_millis(JOB_PAUSE_MILLIS);
        }
        if force {
            relation.forced = true;
            relation.removal_due = now.plus_millis(if self.release == Release::V3 { 60_000 } else { 0 });
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
            orphans.iter().for_each(|orphan| self.remove_unit(orphan, false));
        }
    }

    /// `juju remove-application`: the application, its relations and units are Dying at once.
    pub fn remove_application(&mut self, name: &str, force: bool) {
        if let Some(application) = self.applications.get_mut(name) {
            application.life = Life::Dying;
        }
        let relations: Vec<u32> = self.relations_of(name).map(|relation| relation.id).collect();
        relations.into_iter().for_each(|id| self.remove_relation(id, force));
        let units: Vec<UnitName> = self.units_of(name).map(|unit| unit.name.clone()).collect();
        units.iter().for_each(|unit| self.remove_unit(unit, force));
    }

    /// `juju destroy-model`: everything at once.
    pub fn remove_everything(&mut self, force: bool) {
        let applications: Vec<String> = self.applications.keys().cloned().collect();
        applications.iter().for_each(|name| self.remove_application(name, force));
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
        subordinates.iter().for_each(|subordinate| self.remove_unit(subordinate, false));
    }

    /// One round of the removal jobs.
    pub fn run_removal_jobs(&mut self, now: Moment) -> Vec<Gone> {
        let mut gone = Vec::new();
        self.drop_blocked_scopes(now);
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

    fn removable_units(&self, now: Moment) -> Vec<UnitName> {
        let removable = |unit: &&super::Unit| {
            let in_scope = self.relations.values().any(|relation| relation.unit_bags.contains_key(&unit.name));
            let abandoned = match (unit.forced, self.release) {
                (true, _) => unit.removal_due <= now,
                // The controller does not wait for an agent whose unit has neither relation nor storage left.
                (false, Release::V4) => !in_scope && unit.storage.is_empty() && unit.removal_due <= now,
                (false, Release::V3) => false,
            };
            let has_subordinates = self.units.values().any(|other| other.principal.as_ref() == Some(&unit.name));
            match unit.life {
                Life::Alive => false,
                Life::Dying => abandoned && (!has_subordinates || unit.forced),
                Life::Dead => !has_subordinates || unit.forced,
            }
        };
        self.units.values().filter(removable).map(|unit| unit.name.clone()).collect()
    }

    fn delete_unit(&mut self, name: &UnitName) -> Option<Gone> {
        let unit = self.units.remove(name)?;
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
                // Nobody is told of a unit that is deleted while it is in scope: in 4.x that is every peer, and everybody
                // else when it was forced.
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
        if let Some(application) = self.applications.get_mut(name.application())
            && application.leader.as_ref() == Some(name)
        {
            application.leader = None;
        }
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
