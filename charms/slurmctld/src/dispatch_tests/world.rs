//! A controller on a made-up model and a made-up machine, and compute applications that the test plays.

use crate::Slurmctld;
use crate::names;
use charm::runtime::Charm;
use charm::{AppName, Databag, RelationId, UnitName};
use charm_testing::{Dispatched, FakeMachine, Hook, Model};
use serde_json::{Value, json};
use slurm_unit::View;
use std::collections::BTreeMap;

const SLURMCTLD: &str = include_str!("../../charmcraft.yaml");
const SLURMD: &str = include_str!("../../../slurmd/charmcraft.yaml");

pub(super) struct Cluster {
    pub(super) model: Model,
    pub(super) machine: FakeMachine,
    pub(super) app: AppName,
    pub(super) unit: UnitName,
}

impl Cluster {
    pub(super) fn new() -> Self {
        let model = Model::new();
        let app = model.deploy("slurmctld", SLURMCTLD).unwrap();
        let unit = model.add_unit(&app).unwrap();
        Self { machine: FakeMachine::of(&unit).under(model.knife()), model, app, unit }
    }

    /// A controller after the hooks of its start.
    pub(super) fn deployed() -> Self {
        let cluster = Self::new();
        cluster.hook(&Hook::named("install"));
        let peer = cluster.model.peer(&cluster.app).unwrap();
        cluster.hook(&Hook::created(&peer, &cluster.app));
        for name in ["leader-elected", "config-changed", "start"] {
            cluster.hook(&Hook::named(name));
        }
        cluster
    }

    /// A compute application, played by the test, that is related and has said nothing.
    pub(super) fn relate(&self, name: &str) -> (RelationId, AppName) {
        let compute = self.model.deploy(name, SLURMD).unwrap();
        let (relation, _) = self.model.integrate((&self.app, "slurmd"), (&compute, "slurmctld")).unwrap();
        (relation, compute)
    }

    /// One that has published its partition.
    pub(super) fn integrate(&self, name: &str) -> (RelationId, AppName) {
        self.integrate_with(name, &partition(name))
    }

    /// One that has published this.
    pub(super) fn integrate_with(&self, name: &str, bag: &Databag) -> (RelationId, AppName) {
        let (relation, compute) = self.relate(name);
        self.hook(&Hook::created(&relation, &compute));
        self.model.play(&compute, &relation, bag).unwrap();
        self.hook(&Hook::app_changed(&relation, &compute));
        (relation, compute)
    }

    pub(super) fn dispatch(&self, hook: &Hook) -> Dispatched {
        let run = |ctx, tools: charm::Tools| {
            let begin = |ctx, tools: &charm::Tools| View::split(ctx, tools, &self.machine.machine());
            charm::runtime::dispatch::<Slurmctld>(ctx, &tools, begin)
        };
        self.model.dispatch(&self.unit, Slurmctld::EVENTS, hook, run).unwrap()
    }

    #[track_caller]
    pub(super) fn hook(&self, hook: &Hook) -> Dispatched {
        let done = self.dispatch(hook);
        assert!(done.succeeded, "{hook:?}: {done:#?} {:#?}", self.machine.take_calls());
        done
    }

    pub(super) fn conf(&self) -> String {
        self.machine.read(names::SLURM_CONF).unwrap_or_default()
    }
}

pub(super) fn partition(name: &str) -> Databag {
    let partition = json!({"partitionname": name, "nodes": [name]}).to_string();
    let nodeset = json!({"nodeset": name, "feature": name}).to_string();
    Databag::from([("partition".to_owned(), partition), ("nodeset".to_owned(), nodeset)])
}

impl Cluster {
    /// A controller that has come to rest with one compute application, and nothing awaited.
    pub(super) fn at_rest() -> (Self, RelationId, AppName) {
        let cluster = Self::deployed();
        let (relation, compute) = cluster.integrate("compute");
        cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
        cluster.machine.take_calls();
        (cluster, relation, compute)
    }

    pub(super) fn option(&self, name: &str, value: Value) {
        self.model.set_option(&self.app, name, value).unwrap();
    }

    /// Sets an option and lets the charm see it.
    pub(super) fn configure(&self, name: &str, value: Value) -> Dispatched {
        self.option(name, value);
        self.hook(&Hook::named("config-changed"))
    }

    #[track_caller]
    pub(super) fn status(&self) -> String {
        let status = self.model.status(&self.unit).unwrap();
        format!("{}: {}", status.word(), status.message())
    }

    /// Everything under a directory of the machine: path and content.
    pub(super) fn files(&self, directory: &str) -> BTreeMap<String, String> {
        let root = self.machine.machine().path("/");
        let mut found = BTreeMap::new();
        let mut waiting = vec![self.machine.machine().path(directory)];
        while let Some(path) = waiting.pop() {
            match std::fs::read_dir(&path) {
                Ok(entries) => waiting.extend(entries.map(|entry| entry.unwrap().path())),
                Err(_) => {
                    if let Ok(content) = std::fs::read(&path) {
                        let name = path.strip_prefix(&root).unwrap().display().to_string();
                        found.insert(name, String::from_utf8_lossy(&content).into_owned());
                    }
                }
            }
        }
        found
    }
}

/// Fails if a program among these did more than look.
#[track_caller]
pub(super) fn only_looked(calls: &[String]) {
    for call in calls {
        let words: Vec<&str> = call.split(' ').collect();
        let looks = match words[0] {
            "systemctl" => words.contains(&"show"),
            "scontrol" => matches!(words[1], "ping" | "show" | "version" | "listjobs" | "--oneliner"),
            "cat" | "test" | "squeue" | "journalctl" => true,
            _ => false,
        };
        assert!(looks, "{call}");
    }
}
