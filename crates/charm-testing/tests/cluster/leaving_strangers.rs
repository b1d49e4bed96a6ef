//! One side is a charm in Python, which the test plays: our node leaves its record to that controller, and our
//! controller takes away what that node leaves.

use crate::departures::{REASON, both};
use crate::world::{self, World};
use charm::runtime::Charm;
use charm::{Databag, RelationId};
use charm_testing::{FakeJob, FakeMachine, Model};
use serde_json::json;
use slurmd_charm::Slurmd;
use std::collections::BTreeMap;

impl World {
    /// One node of ours whose controller the test plays: a Python charm does not tell its version of Slurm.
    fn under_python(model: Model) -> (Self, RelationId) {
        let controllers = model.deploy("slurmctld", world::SLURMCTLD).unwrap();
        let computes = model.deploy("compute", world::SLURMD).unwrap();
        model.add_unit(&controllers).unwrap();
        let unit = model.add_unit(&computes).unwrap();
        let machine = FakeMachine::of(&unit).under(model.knife());
        model.host(&unit, &machine, Slurmd::EVENTS, world::node(machine.clone())).unwrap();
        let machines = BTreeMap::from([(unit, machine.clone())]);
        let world = Self { model, slurm: machine.slurm(), machines, controllers, computes, store: None };
        world.model.settle();
        let (theirs, _) = world.integrate();
        let content = BTreeMap::from([("key".to_owned(), "A".repeat(128)), ("keyid".to_owned(), "k1".to_owned())]);
        let uri = world.model.play_secret(&world.controllers, &content, &theirs).unwrap();
        let bag = Databag::from([
            ("controllers".to_owned(), json!(["juju-c9fc6f-1:6817"]).to_string()),
            ("auth_secret_id".to_owned(), json!(uri).to_string()),
        ]);
        world.model.play(&world.controllers, &theirs, &bag).unwrap();
        world.model.settle();
        assert_eq!(world.slurm.nodes()["compute-0"], "IDLE+DYNAMIC_NORM");
        (world, theirs)
    }

    #[track_caller]
    fn assert_record_untouched(&self) {
        assert_eq!(self.slurm.nodes()["compute-0"], "IDLE+DRAIN+DYNAMIC_NORM+NOT_RESPONDING");
        assert_eq!(self.slurm.reason("compute-0"), REASON);
        let calls = self.machine("compute/0").take_calls();
        assert!(!calls.iter().any(|call| call.starts_with("scontrol delete")), "{calls:#?}");
        self.assert_nothing_lost();
    }
}

#[test]
fn a_unit_under_a_python_controller_drains_waits_and_leaves_its_record() {
    for model in both() {
        let (world, _) = World::under_python(model);
        let job = world.slurm.submit(FakeJob::running("compute", "compute-0"));
        let pauses = world.end_while_waiting(job, 3);
        world.remove("compute/0");
        world.model.settle();
        assert_eq!(pauses.nodes("compute/0"), [format!("MIXED+DRAIN+DYNAMIC_NORM ({REASON})")]);
        assert!(!world.has("compute/0"));
        world.assert_bare("compute/0");
        world.assert_record_untouched();
    }
}

#[test]
fn a_relation_with_a_python_controller_ends_the_same() {
    for model in both() {
        let (world, relation) = World::under_python(model);
        let job = world.slurm.submit(FakeJob::running("compute", "compute-0"));
        world.model.remove_relation(&relation);
        world.ticks(3);
        assert_eq!(world.status("compute/0"), "maintenance: draining: 1 job, has no time limit");
        world.slurm.end_job(job);
        world.model.settle();
        world.assert_bare("compute/0");
        world.assert_record_untouched();
    }
}

#[test]
fn a_boot_in_the_middle_does_not_register_a_node_anew_that_a_python_controller_deletes() {
    for at in 0.. {
        let (world, relation) = World::under_python(Model::new());
        world.model.knife().kill_before(at);
        world.model.remove_relation(&relation);
        let mut rounds = 0;
        while let Some(ran) = world.model.run_round() {
            rounds += 1;
            assert!(rounds < 50);
            if ran.iter().any(|one| one.done.killed) {
                world.model.reboot(&"compute/0".parse().unwrap());
            }
        }
        world.model.settle();
        if world.model.knife().spare() {
            assert!(at > 4, "only {at} effects");
            break;
        }
        world.assert_bare("compute/0");
        world.assert_record_untouched();
    }
}

#[test]
fn the_record_of_a_python_unit_goes_after_the_unit() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 1)]);
        let old = world.model.deploy("old", world::SLURMD).unwrap();
        let unit = world.model.add_unit(&old).unwrap();
        let (theirs, _) = world.integrate_app("old");
        let known = world.model.app_bag(&world.relation("compute").unwrap(), &world.computes);
        let bag: Databag = known.into_iter().map(|(key, value)| (key, value.replace("compute", "old"))).collect();
        world.model.play(&old, &theirs, &bag).unwrap();
        world.model.settle();
        world.machine("slurmctld/0").add_node("old-0", "old");
        assert_eq!(world.slurm.partitions()["old"], "UP");
        let job = world.job("old-0");
        // As long as the unit is there, on its way out or not, its record is its own.
        world.model.remove_unit(&unit).unwrap();
        world.model.settle();
        world.update_status("slurmctld/0");
        assert_eq!(world.slurm.nodes()["old-0"], "MIXED+DYNAMIC_NORM");
        world.model.remove_unit_force(&unit).unwrap();
        world.update_status("slurmctld/0");
        assert_eq!(world.slurm.nodes()["old-0"], "MIXED+DRAIN+DYNAMIC_NORM");
        assert_eq!(world.slurm.jobs(), [job]);
        world.slurm.end_job(job);
        world.model.settle();
        assert!(!world.slurm.nodes().contains_key("old-0"));
        assert_eq!(world.status("slurmctld/0"), "active: primary - UP");
        world.assert_well();
    }
}
