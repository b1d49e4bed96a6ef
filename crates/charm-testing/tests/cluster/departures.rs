//! What stories of leaving share: who waits, what it shows meanwhile, and what is left of whoever has gone.

use crate::world::{AUTH_SECRET, KEY_FILE, World};
use charm::{RelationId, UnitName};
use charm_testing::{Hook, Model};
use std::sync::{Arc, Mutex};

/// What the drain of a node says that leaves.
pub const REASON: &str = "juju: leaving the cluster";
pub const OPTIONS: &str = "/etc/default/slurmd";
pub const SLURMD: &str = "slurmd.service";
pub const SLURMCTLD: &str = "slurmctld.service";

/// A model of each release of Juju that differs.
pub fn both() -> [Model; 2] {
    [Model::new(), Model::new().of_juju_3()]
}

/// A cluster of so many nodes, and a job on one of them.
pub fn busy(model: Model, nodes: usize, node: &str) -> (World, u64) {
    let world = World::of_apps(model, &[("compute", nodes)]);
    let job = world.job(node);
    (world, job)
}

/// What was to be seen when a unit paused in a hook.
#[derive(Debug, Clone)]
pub struct Pause {
    pub unit: String,
    pub status: String,
    /// The state of its node, with the reason.
    pub node: String,
}

/// All pauses of a story, in order.
#[derive(Clone, Default)]
pub struct Pauses(Arc<Mutex<Vec<Pause>>>);

impl Pauses {
    /// The statuses that a unit showed, each once as long as it lasted.
    pub fn statuses(&self, unit: &str) -> Vec<String> {
        self.of(unit, |pause| pause.status.clone())
    }

    /// The states that its node had, each once as long as it lasted.
    pub fn nodes(&self, unit: &str) -> Vec<String> {
        self.of(unit, |pause| pause.node.clone())
    }

    fn of(&self, unit: &str, part: impl Fn(&Pause) -> String) -> Vec<String> {
        let pauses = self.0.lock().unwrap();
        let mut parts: Vec<String> = pauses.iter().filter(|pause| pause.unit == unit).map(part).collect();
        parts.dedup();
        parts
    }

    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }
}

impl World {
    /// Has everybody else go on while a unit waits in a hook, and then this happen. It is told which unit, and how
    /// often that hook has paused before.
    pub fn while_waiting(&self, act: impl Fn(&Model, &str, usize) + Send + Sync + 'static) -> Pauses {
        let (slurm, pauses) = (self.slurm.clone(), Pauses::default());
        let seen = pauses.clone();
        self.model.while_waiting(move |model, unit, count| {
            let status = model.status(unit).map(|status| format!("{}: {}", status.word(), status.message()));
            let name = unit.dashed();
            let state = slurm.nodes().get(&name).cloned().unwrap_or_default();
            let node = format!("{state} ({})", slurm.reason(&name));
            let pause = Pause { unit: unit.to_string(), status: status.unwrap_or_default(), node };
            seen.0.lock().unwrap().push(pause);
            model.run_round();
            model.tick();
            act(model, unit.as_str(), count);
        });
        pauses
    }

    /// The same, with a job that ends once some unit has paused so often.
    pub fn end_while_waiting(&self, job: u64, after: usize) -> Pauses {
        let slurm = self.slurm.clone();
        self.while_waiting(move |_, _, count| {
            if count == after {
                slurm.end_job(job);
            }
        })
    }

    pub fn remove(&self, unit: &str) {
        self.model.remove_unit(&unit.parse().unwrap()).unwrap();
    }

    /// Removes the relation of `compute` with the controllers, which everybody hears.
    pub fn separate(&self) {
        self.model.remove_relation(&self.relation("compute").unwrap());
        self.model.run_hooks();
    }

    /// Has a unit be removed, and go with everything.
    #[track_caller]
    pub fn see_off(&self, unit: &str) {
        self.remove(unit);
        self.model.settle();
        self.assert_removed(unit);
    }

    /// Removes the relation of `compute` with the controllers, and makes it again after so many calls of the timers.
    pub fn part_for(&self, ticks: usize) {
        self.separate();
        self.ticks(ticks);
        self.integrate();
        self.model.settle();
    }

    /// Slurm forgets jobs that have ended, and everybody comes to rest.
    pub fn fade(&self) {
        self.ticks(3);
        self.slurm.age_out();
        self.model.settle();
    }

    /// Lets every timer call so often, although what they wait for does not come.
    pub fn ticks(&self, count: usize) {
        self.model.run_hooks();
        for _ in 0..count {
            self.model.tick();
        }
    }

    /// Has Juju call a unit as it does every five minutes.
    pub fn update_status(&self, unit: &str) {
        let done = self.model.run(&unit.parse().unwrap(), &Hook::named("update-status")).unwrap();
        assert!(done.succeeded, "{done:#?}");
    }

    /// Whoever is left is whole and at rest. Statuses follow jobs when Juju calls next.
    #[track_caller]
    pub fn assert_well(&self) {
        self.assert_whole();
        self.model.settle();
        for unit in &self.units() {
            self.update_status(unit.as_str());
        }
        self.assert_rest();
    }

    /// The options of an application of nodes.
    pub fn set(&self, option: &str, value: serde_json::Value) {
        self.model.set_option(&self.computes, option, value).unwrap();
    }

    pub fn has(&self, unit: &str) -> bool {
        self.model.has_unit(&unit.parse::<UnitName>().unwrap())
    }

    /// Who may read the key of the cluster.
    pub fn granted(&self) -> Vec<u64> {
        self.model.grants(&self.controllers, AUTH_SECRET)
    }

    /// Nothing of Slurm is left of a unit: no slurmd, no key, no options, no node.
    #[track_caller]
    pub fn assert_left(&self, unit: &str) {
        self.assert_bare(unit);
        let node = unit.replace('/', "-");
        assert!(!self.slurm.nodes().contains_key(&node), "{node} is still there");
    }

    /// Nothing of Slurm is left on the machine of a unit, and no port of it is open.
    #[track_caller]
    pub fn assert_bare(&self, unit: &str) {
        let machine = self.machine(unit);
        assert_eq!(self.model.ports(&unit.parse().unwrap()), Vec::<String>::new(), "{unit}: ports");
        assert!(!machine.is_running(SLURMD), "{unit}: slurmd runs");
        // The package owns the file of options, which is empty as it was.
        for file in [KEY_FILE, OPTIONS, "/run/slurm/conf/slurm.conf"] {
            assert_eq!(machine.read(file).unwrap_or_default(), "", "{unit}: {file} is still there");
        }
    }

    /// A unit has gone, with everything.
    #[track_caller]
    pub fn assert_removed(&self, unit: &str) {
        assert!(!self.has(unit), "{unit} is still there: {}", self.status(unit));
        self.assert_left(unit);
    }

    /// The relation of an application with the controllers, as the controllers see it.
    pub fn relation(&self, app: &str) -> Option<RelationId> {
        (0..20)
            .map(|number| format!("slurmd:{number}").parse::<RelationId>().unwrap())
            .find(|id| self.model.has_relation(id) && !self.model.app_bag(id, &app.parse().unwrap()).is_empty())
    }
}
