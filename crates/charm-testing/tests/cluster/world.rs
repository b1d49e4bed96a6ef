//! Both charms on one model and in one Slurm, each unit on a machine of its own.

use charm::runtime::Charm;
use charm::{AppName, Context, RelationId, Tools, UnitName};
use charm_testing::{FakeJob, FakeMachine, FakeSlurm, FakeStore, Hook, Model};
use sackd_charm::Sackd;
use slurm_unit::{Hands, View};
use slurmctld_charm::Slurmctld;
use slurmd_charm::Slurmd;
use slurmdbd_charm::Slurmdbd;
use slurmrestd_charm::Slurmrestd;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

pub const SLURMCTLD: &str = include_str!("../../../../charms/slurmctld/charmcraft.yaml");
pub const SLURMD: &str = include_str!("../../../../charms/slurmd/charmcraft.yaml");

pub const SACKD: &str = include_str!("../../../../charms/sackd/charmcraft.yaml");

pub const SLURMDBD: &str = include_str!("../../../../charms/slurmdbd/charmcraft.yaml");
const MYSQL: &str = "name: mysql\nprovides:\n  database:\n    interface: mysql_client\n";
pub const SLURMRESTD: &str = include_str!("../../../../charms/slurmrestd/charmcraft.yaml");

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
pub fn node(machine: FakeMachine) -> impl Fn(&Hook, Context, Tools) -> ExitCode + Send + Sync {
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
    /// What controllers have their state on, if that is not their own disk, and who mounts it.
    pub store: Option<(FakeStore, AppName)>,
}

impl World {
    /// One controller and one node, whose units have run no hook yet.
    pub fn new() -> Self {
        Self::on(Model::new())
    }

    /// The same on a model of some kind: `Model::new().of_juju_3()`.
    pub fn on(model: Model) -> Self {
        let mut world = Self::empty(model);
        world.add_unit(&world.controllers.clone());
        world.add_unit(&world.computes.clone());
        world
    }

    /// Both applications, without a unit.
    pub fn empty(model: Model) -> Self {
        let slurm = FakeSlurm::new();
        let controllers = model.deploy("slurmctld", SLURMCTLD).unwrap();
        let computes = model.deploy("compute", SLURMD).unwrap();
        // A name made up by chance would make every story another one.
        model.set_option(&controllers, "cluster-name", "lab".into()).unwrap();
        Self { model, slurm, machines: BTreeMap::new(), controllers, computes, store: None }
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
        if *app == self.controllers {
            self.add_client(&unit, &machine);
        }
        self.machines.insert(unit.clone(), machine);
        unit
    }

    /// A unit of login nodes, of an application that is not integrated.
    pub fn add_login(&mut self) -> UnitName {
        let app = "login".parse().unwrap();
        if self.model.status(&"login/0".parse().unwrap()).is_none() && self.logins().is_empty() {
            self.model.deploy("login", SACKD).unwrap();
        }
        let unit = self.model.add_unit(&app).unwrap();
        let machine = FakeMachine::of(&unit).in_cluster(&self.slurm).under(self.model.knife());
        self.model.host(&unit, &machine, Sackd::EVENTS, charm_of::<Sackd>(machine.clone())).unwrap();
        self.machines.insert(unit.clone(), machine);
        unit
    }

    /// A unit of slurmdbd with a database that the test plays, integrated with the controllers.
    pub fn add_accounting(&mut self) -> UnitName {
        let app = self.model.deploy("slurmdbd", SLURMDBD).unwrap();
        let mysql = self.model.deploy("mysql", MYSQL).unwrap();
        self.model.add_unit(&mysql).unwrap();
        let unit = self.model.add_unit(&app).unwrap();
        let machine = FakeMachine::of(&unit).in_cluster(&self.slurm).under(self.model.knife());
        self.model.host(&unit, &machine, Slurmdbd::EVENTS, charm_of::<Slurmdbd>(machine.clone())).unwrap();
        self.machines.insert(unit.clone(), machine);
        let (_, theirs) = self.model.integrate((&app, "database"), (&mysql, "database")).unwrap();
        let login = [("username", "relation-1"), ("password", "s3cret")];
        let login = login.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let uri = self.model.play_secret(&mysql, &BTreeMap::from(login), &theirs).unwrap();
        let bag = [("endpoints", "10.0.0.7:3306"), ("secret-user", uri.as_str()), ("database", "slurm_acct_db")];
        let bag = bag.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        self.model.play(&mysql, &theirs, &bag).unwrap();
        self.model.integrate((&self.controllers, "slurmdbd"), (&app, "slurmctld")).unwrap();
        unit
    }

    /// A unit of the REST API, integrated.
    pub fn add_rest(&mut self) -> UnitName {
        let app = self.model.deploy("rest", SLURMRESTD).unwrap();
        let unit = self.model.add_unit(&app).unwrap();
        let machine = FakeMachine::of(&unit).in_cluster(&self.slurm).under(self.model.knife());
        self.model.host(&unit, &machine, Slurmrestd::EVENTS, charm_of::<Slurmrestd>(machine.clone())).unwrap();
        self.machines.insert(unit.clone(), machine);
        self.model.integrate((&self.controllers, "slurmrestd"), (&app, "slurmctld")).unwrap();
        unit
    }

    fn logins(&self) -> Vec<UnitName> {
        self.units().into_iter().filter(|unit| unit.app().as_str() == "login").collect()
    }

    /// Integrates the login nodes, and returns the relation as the controller and as they see it.
    pub fn integrate_logins(&self) -> (RelationId, RelationId) {
        self.model.integrate((&self.controllers, "sackd"), (&"login".parse().unwrap(), "slurmctld")).unwrap()
    }

    /// Integrates both and returns the relation as the controller and as the nodes see it.
    pub fn integrate(&self) -> (RelationId, RelationId) {
        self.model.integrate((&self.controllers, "slurmd"), (&self.computes, "slurmctld")).unwrap()
    }

    /// A cluster at rest with several applications of nodes, each with so many units. `compute` is always there.
    pub fn of_apps(model: Model, apps: &[(&str, usize)]) -> Self {
        let mut world = Self::on(model);
        for (name, count) in apps {
            let (app, there) = match *name {
                "compute" => (world.computes.clone(), 1),
                name => (world.model.deploy(name, SLURMD).unwrap(), 0),
            };
            for _ in there..*count {
                world.add_unit(&app);
            }
        }
        world.model.settle();
        for (name, _) in apps {
            world.integrate_app(name);
            world.model.settle();
        }
        world
    }

    /// Integrates an application of nodes, and returns the relation as the controller and as the nodes see it.
    pub fn integrate_app(&self, app: &str) -> (RelationId, RelationId) {
        self.model.integrate((&self.controllers, "slurmd"), (&app.parse().unwrap(), "slurmctld")).unwrap()
    }

    /// A job that runs on a node, in the partition of the node's application.
    pub fn job(&self, node: &str) -> u64 {
        self.slurm.submit(FakeJob::running(partition_of(node), node))
    }

    /// The units that are there, being removed or not.
    pub fn units(&self) -> Vec<UnitName> {
        self.machines.keys().filter(|unit| self.model.has_unit(unit)).cloned().collect()
    }

    /// The machine of the first controller.
    pub fn controller(&self) -> &FakeMachine {
        let unit = self.units().into_iter().find(|unit| unit.app() == self.controllers);
        &self.machines[&unit.unwrap()]
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
        for unit in &self.units() {
            let done = self.model.run(unit, &Hook::named("update-status")).unwrap();
            assert!(done.succeeded && done.writes().is_empty(), "{unit}: {done:#?}");
        }
        assert_eq!(self.model.knife().effects(), Vec::<String>::new());
        assert!(self.model.settle().is_empty());
        self.model.knife().spare();
    }

    /// Nothing was lost: no job, no reservation.
    #[track_caller]
    pub fn assert_nothing_lost(&self) {
        assert_eq!(self.slurm.losses(), Vec::<String>::new());
    }

    /// Nothing of an application is left in Slurm: no node, no partition, no node set, no line in slurm.conf.
    #[track_caller]
    pub fn assert_gone(&self, app: &str) {
        let nodes: Vec<String> = self.slurm.nodes().into_keys().filter(|node| partition_of(node) == app).collect();
        assert!(nodes.is_empty(), "{nodes:?} are still there");
        let partitions = self.slurm.partitions();
        assert!(!partitions.contains_key(app), "partition {app} is still there: {partitions:?}");
        assert!(!self.slurm.node_sets().iter().any(|set| set == app), "node set {app} is still there");
        let conf = self.controller().read(CONF).unwrap();
        let named = [format!("PartitionName={app}"), format!("NodeSet={app}")];
        let is_its = |line: &&str| line.split(' ').next().is_some_and(|first| named.iter().any(|name| name == first));
        let lines: Vec<&str> = conf.lines().filter(is_its).collect();
        assert!(lines.is_empty(), "{lines:?} are still there");
    }

    /// The cluster is whole: nothing was lost, every node has a unit, and slurmctld survives a restart, a crash and a
    /// takeover with all it knows.
    #[track_caller]
    pub fn assert_whole(&self) {
        const SLURMCTLD: &str = "slurmctld.service";
        self.assert_nothing_lost();
        let names: Vec<String> = self.units().iter().map(UnitName::dashed).collect();
        let ghosts: Vec<String> = self.slurm.nodes().into_keys().filter(|node| !names.contains(node)).collect();
        assert!(ghosts.is_empty(), "{ghosts:?} have no unit");
        let machine = self.controller();
        let known = || (self.slurm.nodes(), self.slurm.partitions(), self.slurm.node_sets(), self.slurm.job_records());
        let before = known();
        let shocks: [(&str, &dyn Fn()); 4] = [
            ("reconfigure", &|| drop(machine.ask_scontrol(&["reconfigure"]))),
            ("restart", &|| drop(machine.run("systemctl", &["restart", "--", SLURMCTLD]))),
            ("crash", &|| {
                machine.crash(SLURMCTLD);
                machine.revive(SLURMCTLD);
            }),
            ("takeover", &|| {
                machine.crash(SLURMCTLD);
                assert!(machine.take_over(), "slurmctld did not survive a takeover");
                assert_eq!(known(), before, "after a takeover");
                machine.crash(SLURMCTLD);
                machine.revive(SLURMCTLD);
            }),
        ];
        for (shock, shake) in shocks {
            shake();
            assert!(machine.is_running(SLURMCTLD), "slurmctld did not survive a {shock}");
            assert_eq!(known(), before, "after a {shock}");
            self.assert_nothing_lost();
        }
    }

    /// What there is in the end. Keys are random, so of them only that all of them agree.
    pub fn end(&self, relation: &RelationId) -> End {
        let mut files = BTreeMap::new();
        let mut keys = Vec::new();
        for unit in &self.units() {
            let machine = &self.machines[unit];
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
            if name.ends_with("/node.json") {
                let mut note: serde_json::Value = serde_json::from_str(text).unwrap();
                note["detection"]["invocation"].take();
                *text = note.to_string();
            }
        }
        let secret = self.model.secret(&self.controllers, AUTH_SECRET).unwrap_or_default();
        // Ids of keys are random as well.
        let id = secret.get("keyid").cloned().unwrap_or_default();
        files.values_mut().for_each(|text| *text = text.replace(&id, "<key>"));
        let masked = |mut bag: charm::Databag| {
            bag.values_mut().for_each(|text| *text = text.replace(&id, "<key>"));
            // When the copy was written is no part of the state either.
            bag.entry("unit_copy_time".to_owned()).and_modify(|time| "<time>".clone_into(time));
            bag
        };
        let holds = |key: &Option<String>| key.as_ref().is_some_and(|text| text.contains(&secret["key"]));
        End {
            keys_agree: keys.iter().all(holds),
            files,
            bags: [&self.controllers, &self.computes].map(|app| self.model.app_bag(relation, app)).into(),
            unit_bags: self.units().iter().map(|unit| masked(self.model.unit_bag(relation, unit))).collect(),
            grants: self.model.grants(&self.controllers, AUTH_SECRET),
            ports: self.units().iter().map(|unit| self.model.ports(unit)).collect(),
            statuses: self.units().iter().map(|unit| self.status(unit.as_str())).collect(),
            nodes: self.slurm.nodes(),
            partitions: self.controller().partitions(),
            losses: self.slurm.losses(),
        }
    }
}

/// Random keys, a draft that says nothing, when jobs began, and signs of life.
const VARIES: [&str; 6] =
    ["slurm.jwks", "jwt_hs256.key", ".cluster.draft", "slurmd-charm-marked", "/job_state", "/heartbeat"];

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

/// The application whose unit a node is, which is also its partition.
fn partition_of(node: &str) -> &str {
    node.rsplit_once('-').map_or(node, |(app, _)| app)
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
