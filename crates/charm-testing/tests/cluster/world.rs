//! Both charms on one model and in one Slurm, each unit on a machine of its own.

use charm::runtime::Charm;
use charm::{AppName, Context, RelationId, Tools, UnitName};
use charm_testing::{FakeMachine, FakeSlurm, Hook, Model};
use slurm_unit::{Hands, View};
use slurmctld_charm::Slurmctld;
use slurmd_charm::Slurmd;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

const SLURMCTLD: &str = include_str!("../../../../charms/slurmctld/charmcraft.yaml");
const SLURMD: &str = include_str!("../../../../charms/slurmd/charmcraft.yaml");

pub const KEY_FILE: &str = "/etc/slurm/slurm.jwks";
pub const CONF: &str = "/etc/slurm/slurm.conf";
pub const AUTH_SECRET: &str = "slurm-auth-key";

/// Runs a dispatch of a unit's charm.
fn charm_of<C: Charm<View = View, Hands = Hands>>(
    machine: FakeMachine,
) -> impl Fn(&Hook, Context, Tools) -> ExitCode + Send + Sync {
    move |_, ctx, tools| {
        charm::runtime::dispatch::<C>(ctx, &tools, |ctx, tools| View::split(ctx, tools, &machine.machine()))
    }
}

/// Runs a dispatch of a node's charm. Its timer calls seconds later, when Slurm has saved what it was told.
fn node(machine: FakeMachine) -> impl Fn(&Hook, Context, Tools) -> ExitCode + Send + Sync {
    const NOTE: &str = "/run/slurmd-charm/boot.json";
    let run = charm_of::<Slurmd>(machine.clone());
    move |hook, ctx, tools| {
        if hook.name() == Slurmd::RETRY
            && let Some(note) = machine.read(NOTE)
        {
            let mut note: serde_json::Value = serde_json::from_str(&note).unwrap();
            note["marked"] = 0.into();
            machine.write(NOTE, &note.to_string());
        }
        run(hook, ctx, tools)
    }
}

pub struct World {
    pub model: Model,
    pub slurm: FakeSlurm,
    pub machines: BTreeMap<UnitName, FakeMachine>,
    pub controllers: AppName,
    pub computes: AppName,
}

impl World {
    /// One controller and one node, whose units have run no hook yet.
    pub fn new() -> Self {
        let (model, slurm) = (Model::new(), FakeSlurm::new());
        let controllers = model.deploy("slurmctld", SLURMCTLD).unwrap();
        let computes = model.deploy("compute", SLURMD).unwrap();
        // A name made up by chance would make every story another one.
        model.set_option(&controllers, "cluster-name", "lab".into()).unwrap();
        let mut world = Self { model, slurm, machines: BTreeMap::new(), controllers, computes };
        world.add_unit(&world.controllers.clone());
        world.add_unit(&world.computes.clone());
        world
    }

    pub fn add_unit(&mut self, app: &AppName) -> UnitName {
        let unit = self.model.add_unit(app).unwrap();
        let machine = FakeMachine::of(&unit).in_cluster(&self.slurm).under(self.model.knife());
        let hosted = if *app == self.controllers {
            self.model.host(&unit, &machine, Slurmctld::EVENTS, charm_of::<Slurmctld>(machine.clone()))
        } else {
            self.model.host(&unit, &machine, Slurmd::EVENTS, node(machine.clone()))
        };
        hosted.unwrap();
        self.machines.insert(unit.clone(), machine);
        unit
    }

    /// Integrates both and returns the relation as the controller and as the nodes see it.
    pub fn integrate(&self) -> (RelationId, RelationId) {
        self.model.integrate((&self.controllers, "slurmd"), (&self.computes, "slurmctld")).unwrap()
    }

    /// A cluster that has come to rest with one node.
    pub fn at_rest() -> (Self, RelationId, RelationId) {
        let world = Self::new();
        world.model.settle();
        let (theirs, ours) = world.integrate();
        world.model.settle();
        (world, theirs, ours)
    }

    pub fn machine(&self, unit: &str) -> &FakeMachine {
        &self.machines[&unit.parse::<UnitName>().unwrap()]
    }

    pub fn status(&self, unit: &str) -> String {
        let status = self.model.status(&unit.parse().unwrap());
        status.map(|status| format!("{}: {}", status.word(), status.message())).unwrap_or_default()
    }

    /// Every hook on every unit finds nothing to do: no write to Juju, no effect on a machine, no timer.
    #[track_caller]
    pub fn assert_rest(&self) {
        assert!(self.model.timers().is_empty(), "{:?}", self.model.timers());
        self.model.knife().kill_before(usize::MAX);
        for unit in self.machines.keys() {
            let done = self.model.run(unit, &Hook::named("update-status")).unwrap();
            assert!(done.succeeded && done.writes().is_empty(), "{unit}: {done:#?}");
        }
        assert_eq!(self.model.knife().effects(), Vec::<String>::new());
        assert!(self.model.settle().is_empty());
        self.model.knife().spare();
    }

    /// What there is in the end. Keys are random, so of them only that all of them agree.
    pub fn end(&self, relation: &RelationId) -> End {
        let mut files = BTreeMap::new();
        let mut keys = Vec::new();
        for (unit, machine) in &self.machines {
            let root = machine.machine().path("/");
            for top in ["etc", "run", "var"] {
                walk(&root, &root.join(top), &mut |path, text| {
                    files.insert(format!("{unit} {path}"), text);
                });
            }
            keys.push(machine.read(KEY_FILE));
        }
        files.retain(|name, _| !VARIES.iter().any(|end| name.ends_with(end)));
        for (name, text) in &mut files {
            // The number of starts is no part of the state.
            if name.ends_with("/detected") {
                *text = text.split_once('\n').map_or("", |(_, rest)| rest).to_owned();
            }
        }
        let secret = self.model.secret(&self.controllers, AUTH_SECRET).unwrap_or_default();
        let holds = |key: &Option<String>| key.as_ref().is_some_and(|text| text.contains(&secret["key"]));
        End {
            keys_agree: keys.iter().all(holds),
            files,
            bags: [&self.controllers, &self.computes].map(|app| self.model.app_bag(relation, app)).into(),
            unit_bags: self.machines.keys().map(|unit| self.model.unit_bag(relation, unit)).collect(),
            grants: self.model.grants(&self.controllers, AUTH_SECRET),
            ports: self.machines.keys().map(|unit| self.model.ports(unit)).collect(),
            statuses: self.machines.keys().map(|unit| self.status(unit.as_str())).collect(),
            nodes: self.slurm.nodes(),
            partitions: self.machine("slurmctld/0").partitions(),
            losses: self.slurm.losses(),
        }
    }
}

/// Random keys, and a draft that says nothing.
const VARIES: [&str; 4] = ["slurm.jwks", "jwt_hs256.key", ".cluster.draft", "slurmd-charm-marked"];

#[derive(Debug, PartialEq)]
pub struct End {
    pub files: BTreeMap<String, String>,
    pub keys_agree: bool,
    pub bags: Vec<charm::Databag>,
    pub unit_bags: Vec<charm::Databag>,
    pub grants: Vec<u64>,
    pub ports: Vec<Vec<String>>,
    pub statuses: Vec<String>,
    pub nodes: BTreeMap<String, String>,
    pub partitions: Vec<String>,
    pub losses: Vec<String>,
}

impl End {
    /// Returns what differs, and nothing else: a whole end is pages.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self == other {
            return None;
        }
        let names: std::collections::BTreeSet<&String> = self.files.keys().chain(other.files.keys()).collect();
        let differ = names.into_iter().filter(|name| self.files.get(*name) != other.files.get(*name));
        let files: String = differ
            .map(|name| format!("{name}\n  {:?}\n  {:?}\n", self.files.get(name), other.files.get(name)))
            .collect();
        let rest = |end: &Self| {
            let seen = (&end.keys_agree, &end.bags, &end.unit_bags, &end.grants, &end.ports);
            format!("{seen:?} {:?}", (&end.statuses, &end.nodes, &end.partitions, &end.losses))
        };
        let (ours, theirs) = (rest(self), rest(other));
        Some(if ours == theirs { files } else { format!("{files}{ours}\n{theirs}") })
    }
}

fn walk(root: &Path, directory: &Path, found: &mut impl FnMut(String, String)) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(root, &path, found);
        } else if let Ok(content) = fs::read(&path) {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            found(name, String::from_utf8_lossy(&content).into_owned());
        }
    }
}
