//! A model in memory with agents that run every hook at once, for tests of what runs when. No machine, no process.

use std::collections::BTreeMap;

use super::{Context, begin, commit, finish, leaving, next};
use crate::charm::{Charm, Endpoint, Metadata, Role, Scope};
use crate::clock::Moment;
use crate::model::{Application, Gone, Hook, Life, Machine, Model, Release, Running, Side, Status, StatusInfo, Unit};
use crate::names::UnitName;

/// A time at which every job of a removal is due.
const MUCH_LATER: u64 = 3_600_000;

pub struct World {
    pub model: Model,
    /// `unit hook [details]`, in the order in which they ran.
    pub ran: Vec<String>,
    /// Units whose hooks are not run for the time being.
    held: Vec<UnitName>,
}

pub fn unit(text: &str) -> UnitName {
    UnitName::parse(text).unwrap()
}

pub fn endpoint(name: &str, role: Role) -> Endpoint {
    Endpoint {
        name: name.to_owned(),
        role,
        interface: name.to_owned(),
        scope: Scope::Global,
        limit: None,
        implicit: false,
    }
}

impl World {
    pub fn new(release: Release) -> Self {
        let mut model = Model::new("test", "00000000-0000-4000-8000-000000abcdef", "c", "24.11");
        model.release = release;
        World { model, ran: Vec::new(), held: Vec::new() }
    }

    /// `server` provides `link`; `client` requires it and has peers `mates`; each with some units, started and quiet.
    pub fn related(release: Release, clients: u32) -> Self {
        let mut world = World::new(release);
        world.deploy("server", &[endpoint("link", Role::Provider)], 1);
        world.deploy("client", &[endpoint("link", Role::Requirer), endpoint("mates", Role::Peer)], clients);
        world.run();
        world.integrate();
        world.run();
        world.ran.clear();
        world
    }

    pub fn deploy(&mut self, name: &str, endpoints: &[Endpoint], count: u32) {
        let url = format!("local:{name}-0");
        let metadata = Metadata { name: name.to_owned(), endpoints: endpoints.to_vec(), ..Metadata::default() };
        let charm = Charm {
            metadata,
            options: BTreeMap::new(),
            actions: BTreeMap::new(),
            bases: Vec::new(),
            assumes: Vec::new(),
            resources: Vec::new(),
        };
        self.model.charms.insert(url.clone(), charm);
        let application = Application {
            name: name.to_owned(),
            charm: url,
            leader: Some(UnitName::new(name, 0)),
            lease_until: Moment(u64::MAX),
            ..Application::new(name)
        };
        self.model.applications.insert(name.to_owned(), application);
        for peer in endpoints.iter().filter(|endpoint| endpoint.role == Role::Peer) {
            self.model.add_relation(vec![Side { application: name.to_owned(), endpoint: peer.clone() }]);
        }
        (0..count).for_each(|number| self.add_unit(name, number));
    }

    pub fn add_unit(&mut self, application: &str, number: u32) {
        let name = UnitName::new(application, number);
        let id = self.model.machines.len().to_string();
        let mut unit = Unit::new(name.clone(), &id);
        unit.uniter.charm = Some(format!("local:{application}-0"));
        self.model.machines.insert(id.clone(), Machine::new(&id));
        self.model.units.insert(name, unit);
    }

    pub fn integrate(&mut self) -> u32 {
        let mut found = self.model.candidates("server", "client").unwrap();
        let pair = found.remove(0);
        self.model.add_relation(vec![pair.0, pair.1])
    }

    pub fn hold(&mut self, name: &str) {
        self.held.push(unit(name));
    }

    pub fn release(&mut self) {
        self.held.clear();
    }

    /// Runs hooks until nobody has anything to do.
    pub fn run(&mut self) {
        for _ in 0..1000 {
            let due = self.model.units.values().filter(|unit| !self.held.contains(&unit.name)).find_map(|unit| {
                match next(&self.model, unit, false, Moment::now()) {
                    Some(Running::Hook(hook)) => Some((unit.name.clone(), hook)),
                    _ => None,
                }
            });
            match due {
                Some((name, hook)) => self.dispatch(&name, &hook, |_| {}),
                None => return,
            }
        }
        panic!("the hooks never end: {:?}", self.ran.iter().rev().take(10).collect::<Vec<_>>());
    }

    /// Runs one hook, with a charm that does `work`.
    pub fn dispatch(&mut self, name: &UnitName, hook: &Hook, work: impl FnOnce(&mut Context)) {
        let mut context = begin(&mut self.model, name, &Running::Hook(hook.clone()), Moment::now()).unwrap();
        self.ran.push(describe(name, hook));
        work(&mut context);
        let committed = commit(&mut self.model, &context);
        finish(&mut self.model, name, hook, committed.is_ok(), Moment::now());
    }

    /// The hook a unit runs next, run with a charm that does `work`.
    pub fn dispatch_next(&mut self, name: &str, work: impl FnOnce(&mut Context)) {
        let name = unit(name);
        let Some(Running::Hook(hook)) = next(&self.model, &self.model.units[&name], false, Moment::now()) else {
            panic!("{name} has nothing to do")
        };
        self.dispatch(&name, &hook, work);
    }

    /// Agents that are done say so, and the removal jobs run until nothing goes any more.
    pub fn remove_what_is_done(&mut self) -> Vec<Gone> {
        let mut gone = Vec::new();
        for round in 1..20 {
            self.run();
            let done: Vec<UnitName> = self
                .model
                .units
                .values()
                .filter(|unit| unit.life == Life::Dying && !self.held.contains(&unit.name))
                .filter(|unit| leaving(&self.model, unit).is_none())
                .map(|unit| unit.name.clone())
                .collect();
            for name in done {
                self.model.units.get_mut(&name).unwrap().life = Life::Dead;
            }
            let later = Moment::now().plus_millis(MUCH_LATER * round);
            gone.extend(self.model.run_removal_jobs(later));
        }
        gone
    }

    pub fn set_workload(&mut self, name: &str, status: Status) {
        self.model.units.get_mut(&unit(name)).unwrap().workload = StatusInfo::new(status, "");
    }

    /// The agent of a unit dies and comes back.
    pub fn restart_agent(&mut self, name: &str) {
        let unit = self.model.units.get_mut(&unit(name)).unwrap();
        unit.uniter.deaf_to.clear();
        for member in unit.uniter.relations.values_mut() {
            member.ghosts.clear();
            member.forgotten = true;
        }
    }

    /// What a unit ran, without its name.
    pub fn hooks_of(&self, name: &str) -> Vec<&str> {
        let prefix = format!("{name} ");
        self.ran.iter().filter_map(|line| line.strip_prefix(&prefix)).collect()
    }
}

fn describe(name: &UnitName, hook: &Hook) -> String {
    let mut line = format!("{name} {}", hook.name());
    if let Hook::Relation(hook) = hook {
        if let Some(remote) = &hook.remote_unit {
            line = format!("{line} {remote}");
        }
        if let Some(departing) = &hook.departing {
            line = format!("{line} departing={departing}");
        }
    }
    line
}
