//! A cluster whose controllers share a store, which a file system client mounts for each of them: the stage, and what
//! has to hold at the end of a story.

use crate::world::World;
use charm::{Context, Tools, UnitName};
use charm_testing::{FakeMachine, FakeStore, Hook, Model};
use slurm_conf::ControllerAddress;
use std::collections::BTreeMap;
use std::process::ExitCode;

const CLIENT: &str = "subordinate: true\nrequires: {mount: {interface: mount_info, scope: container}}";
const SLURMCTLD: &str = "slurmctld.service";
const SHARED_CONF: &str = "etc-slurm/slurm.conf";

const CHECKPOINT: &str = "/var/lib/slurm/checkpoint/state";
const ASIDE: &str = "/var/lib/slurm/local/state";

/// Where a cluster that can move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// On the local disk, out of the way of a mount that did not come.
    Aside,
    Store,
    /// On the local disk again.
    Disk,
}

/// What Slurm knows: nodes, partitions, node sets, records of jobs.
type Known = (BTreeMap<String, String>, Vec<String>, Vec<String>, Vec<u64>);

impl World {
    /// A cluster that has come to rest, with so many controllers on a store and so many nodes.
    pub fn on_store(controllers: usize, nodes: usize) -> Self {
        Self::on_store_of(Model::new(), controllers, nodes)
    }

    /// The same on a model of some kind.
    pub fn on_store_of(model: Model, controllers: usize, nodes: usize) -> Self {
        let world = Self::to_be_on_store(model, controllers, nodes);
        world.model.settle();
        world.integrate();
        world.model.settle();
        world
    }

    /// The same, whose units have run no hook yet. Compute units are not integrated.
    pub fn to_be_on_store(model: Model, controllers: usize, nodes: usize) -> Self {
        Self::to_be_on(&FakeStore::new(), model, controllers, nodes)
    }

    /// The same on a store that others have used.
    pub fn to_be_on(store: &FakeStore, model: Model, controllers: usize, nodes: usize) -> Self {
        let mut world = Self::empty(model);
        let client = world.model.deploy("filesystem-client", CLIENT).unwrap();
        world.model.set_option(&world.controllers, "use-network-state", true.into()).unwrap();
        world.model.integrate((&world.controllers, "mount"), (&client, "mount")).unwrap();
        world.store = Some((store.clone(), client));
        for (app, count) in [(world.controllers.clone(), controllers), (world.computes.clone(), nodes)] {
            for _ in 0..count {
                world.add_unit(&app);
            }
        }
        world
    }

    /// A cluster at rest on the local disk of its controller, with so many nodes, beside a store that nobody wants yet.
    pub fn on_disk(model: Model, nodes: usize) -> Self {
        let mut world = Self::empty(model);
        let client = world.model.deploy("filesystem-client", CLIENT).unwrap();
        world.model.integrate((&world.controllers, "mount"), (&client, "mount")).unwrap();
        world.store = Some((FakeStore::new(), client));
        world.add_unit(&world.controllers.clone());
        for _ in 0..nodes {
            world.add_unit(&world.computes.clone());
        }
        world.model.settle();
        world.integrate();
        world.model.settle();
        world
    }

    /// The same on the store that it has moved to.
    pub fn moved(model: Model, nodes: usize) -> Self {
        let world = Self::on_disk(model, nodes);
        world.want_store(true);
        world.model.settle();
        world
    }

    /// The operator wants the cluster on the store, or on the local disk.
    pub fn want_store(&self, wanted: bool) {
        self.model.set_option(&self.controllers, "use-network-state", wanted.into()).unwrap();
    }

    /// The cluster of one controller is on one side, whole and at rest.
    #[track_caller]
    pub fn assert_on(&self, side: Side) {
        // A node says at its next hook that it has a job.
        for unit in self.units() {
            self.model.run(&unit, &Hook::named("update-status")).unwrap();
        }
        self.model.settle();
        let machine = self.controller();
        let (state, link) = match side {
            Side::Store => (CHECKPOINT, Some("/var/lib/slurm/checkpoint/etc-slurm")),
            Side::Disk => (ASIDE, Some("/var/lib/slurm/local/etc-slurm")),
            Side::Aside => (ASIDE, None),
        };
        assert_eq!(machine.link_target("/etc/slurm").as_deref(), link, "{}", self.status("slurmctld/0"));
        let conf = machine.read("/etc/slurm/slurm.conf").unwrap();
        assert_eq!(conf, machine.read("/etc/slurm/slurm.conf.accepted").unwrap());
        assert!(conf.contains(&format!("StateSaveLocation={state}\n")), "{conf}");
        for place in [CHECKPOINT, ASIDE] {
            let marked = machine.read(&format!("{place}/.cluster")).is_some();
            assert_eq!(marked, place == state, "{place}");
        }
        assert_eq!(self.status("slurmctld/0"), "active: primary - UP");
        self.assert_nothing_lost();
        self.assert_rest();
        assert_eq!(machine.is_running("slurmctld-fence.service"), side == Side::Store);
        self.assert_whole();
        self.model.reboot(&"slurmctld/0".parse().unwrap());
        self.model.settle();
        self.assert_whole();
    }

    /// Puts a file system client beside a controller on a store.
    pub fn add_client(&self, unit: &UnitName, machine: &FakeMachine) {
        let Some((store, app)) = &self.store else { return };
        let client = self.model.add_subordinate(app, unit).unwrap();
        self.model.host(&client, machine, &[], file_system_client(machine.clone(), store.clone())).unwrap();
    }

    pub fn fake_store(&self) -> &FakeStore {
        &self.store.as_ref().unwrap().0
    }

    /// The units of controllers that are there, in their order.
    pub fn controller_units(&self) -> Vec<UnitName> {
        let mut units = self.units();
        units.retain(|unit| unit.app() == self.controllers);
        units.sort_by_key(UnitName::number);
        units
    }

    /// The hosts of slurm.conf, in their order.
    pub fn listed_hosts(&self) -> Vec<String> {
        let conf = self.fake_store().read(SHARED_CONF).unwrap_or_default();
        let lines = conf.lines().filter_map(|line| line.strip_prefix("SlurmctldHost="));
        lines.map(|line| line.split(['(', ' ']).next().unwrap_or_default().to_owned()).collect()
    }

    /// The machine that serves.
    pub fn serving(&self) -> &FakeMachine {
        let host = self.slurm.serving().expect("nobody serves");
        self.machine_called(&host)
    }

    pub fn machine_called(&self, host: &str) -> &FakeMachine {
        self.machines.values().find(|machine| machine.host_name() == host).unwrap()
    }

    fn known(&self) -> Known {
        let partitions = self.serving().partitions();
        (self.slurm.nodes(), partitions, self.slurm.node_sets(), self.slurm.job_records())
    }

    /// Everybody has the same controllers in the same order: slurm.conf, what compute applications are told, what each
    /// slurmctld goes by. Each of them is a unit's, each unit has one that runs, and one of them serves.
    #[track_caller]
    pub fn assert_controllers_agree(&self) {
        let listed = self.listed_hosts();
        let mut of_units: Vec<String> =
            self.controller_units().iter().map(|unit| self.machines[unit].host_name()).collect();
        of_units.sort();
        let mut sorted = listed.clone();
        sorted.sort();
        assert_eq!(sorted, of_units, "slurm.conf and the units");
        let running = self.slurm.controllers();
        assert_eq!(running.keys().cloned().collect::<Vec<_>>(), sorted, "slurm.conf and those that run: {running:?}");
        for host in &listed {
            assert_eq!(self.slurm.list_of(host).as_ref(), Some(&listed), "the list of {host}");
            assert!(self.machine_called(host).is_running(SLURMCTLD), "systemd of {host}");
        }
        assert!(self.slurm.serving().is_some(), "{running:?}");
        for relation in self.model.relations(&self.controllers, "slurmd") {
            let bag = self.model.app_bag(&relation, &self.controllers);
            let told: Vec<String> = serde_json::from_str(&bag["controllers"]).unwrap();
            let host = |address: &String| address.parse::<ControllerAddress>().unwrap().host.to_string();
            let told: Vec<String> = told.iter().map(host).collect();
            assert_eq!(told, listed, "the bag of {relation}");
        }
    }

    /// The cluster survives the loss of each controller that serves, one after the other, down to the last, and the
    /// return of all: nodes, partitions and jobs stay as they are, and nobody loses one.
    #[track_caller]
    pub fn assert_takeovers_work(&self) {
        self.assert_nothing_lost();
        let (before, hosts) = (self.known(), self.listed_hosts());
        let mut killed: Vec<String> = Vec::new();
        while killed.len() + 1 < hosts.len() {
            let host = self.slurm.serving().unwrap();
            self.machine_called(&host).crash(SLURMCTLD);
            killed.push(host.clone());
            let next = self.slurm.fail_over();
            assert!(next.as_ref().is_some_and(|next| *next != host), "nobody takes over from {host}: {next:?}");
            assert_eq!(self.known(), before, "after the takeover from {host}");
            self.assert_nothing_lost();
            let nodes = self.machines.iter().filter(|(unit, _)| unit.app() != self.controllers);
            for (unit, node) in nodes.filter(|(unit, _)| self.model.has_unit(unit)) {
                assert_eq!(node.ask_scontrol(&["show", "node"]).err(), None, "{unit} after the takeover from {host}");
            }
        }
        for host in killed.iter().rev() {
            self.machine_called(host).revive(SLURMCTLD);
            assert!(self.machine_called(host).is_running(SLURMCTLD), "{host} does not come back");
        }
        self.slurm.fail_over();
        assert_eq!(self.slurm.serving().as_ref(), hosts.first());
        assert_eq!(self.known(), before, "after all came back");
        self.assert_nothing_lost();
    }
}

/// Mounts where the application's bag asks for it, and unmounts at the end of the relation.
fn file_system_client(
    machine: FakeMachine,
    store: FakeStore,
) -> impl Fn(&Hook, Context, Tools) -> ExitCode + Send + Sync {
    move |hook, ctx, tools| {
        let relation = tools.relations(&ctx, "mount").unwrap().into_iter().next();
        let broken = hook.name() == "mount-relation-broken";
        let wanted = relation.as_ref().filter(|_| !broken).and_then(|relation| {
            let bag = tools.relation_get_app(relation, &"slurmctld".parse().unwrap()).unwrap();
            bag.get("mountpoint").cloned()
        });
        match wanted.as_deref() {
            Some("\"/var/lib/slurm/checkpoint\"") => {
                if !machine.has_mounted() {
                    machine.mount(&store);
                }
                let mounted = [("mounted".to_owned(), "true".to_owned())].into();
                tools.writer().relation_set_unit(&relation.unwrap(), &mounted);
            }
            Some("\"\"") => machine.unmount(),
            Some(other) => panic!("mounted at {other}?"),
            None if broken => machine.unmount(),
            None => {}
        }
        tools.writer().send().unwrap();
        ExitCode::SUCCESS
    }
}
