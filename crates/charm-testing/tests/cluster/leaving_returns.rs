//! Whoever comes again after it has left, or before: under the same name, or after a boot.

use crate::departures::{REASON, both, busy};
use crate::world::{SLURMD, World};
use charm_testing::{FakeJob, Model};

impl World {
    /// Deploys an application of nodes anew under the name of one that has gone, with one unit.
    fn redeploy(&mut self) {
        let app = self.model.deploy("compute", SLURMD).unwrap();
        self.add_unit(&app);
        self.model.run_hooks();
        self.integrate();
        self.model.settle();
    }
}

#[test]
fn a_node_that_has_left_stays_away_after_a_boot() {
    let world = World::of_apps(Model::new(), &[("compute", 1)]);
    world.separate();
    world.model.settle();
    world.assert_left("compute/0");
    world.model.reboot(&"compute/0".parse().unwrap());
    world.model.settle();
    world.assert_left("compute/0");
    world.assert_gone("compute");
    world.assert_well();
}

#[test]
fn a_node_that_drains_drains_on_after_a_boot() {
    for model in both() {
        let (world, job) = busy(model, 1, "compute-0");
        world.separate();
        world.model.reboot(&"compute/0".parse().unwrap());
        world.ticks(3);
        assert_eq!(world.slurm.nodes()["compute-0"], "MIXED+DRAIN+DYNAMIC_NORM");
        assert_eq!(world.slurm.reason("compute-0"), REASON);
        world.slurm.end_job(job);
        world.fade();
        world.assert_left("compute/0");
        world.assert_gone("compute");
        world.assert_well();
    }
}

#[test]
fn an_application_of_the_same_name_takes_the_partition_over_that_still_waits() {
    for model in both() {
        let mut world = World::of_apps(model, &[("compute", 1)]);
        let pending = world.slurm.submit(FakeJob::waiting("compute", "Resources"));
        world.model.remove_application(&world.computes).unwrap();
        world.ticks(3);
        assert_eq!(world.slurm.partitions()["compute"], "INACTIVE");
        world.redeploy();
        assert_eq!(world.slurm.partitions()["compute"], "UP");
        assert_eq!(world.slurm.nodes()["compute-0"], "IDLE+DYNAMIC_NORM");
        assert_eq!(world.slurm.schedule(), [pending]);
        world.assert_well();
    }
}

#[test]
fn an_application_of_the_same_name_gets_rid_of_the_records_of_the_lost_one() {
    for model in both() {
        let mut world = World::of_apps(model, &[("compute", 2)]);
        let pending = world.slurm.submit(FakeJob::waiting("compute", "Resources"));
        for unit in ["compute/0", "compute/1"] {
            world.model.remove_unit_force(&unit.parse().unwrap()).unwrap();
        }
        world.model.remove_application(&world.computes).unwrap();
        world.slurm.time_out();
        world.ticks(3);
        world.redeploy();
        world.update_status("slurmctld/0");
        world.model.settle();
        assert_eq!(world.slurm.nodes().into_keys().collect::<Vec<_>>(), ["compute-0"]);
        assert_eq!(world.slurm.nodes()["compute-0"], "IDLE+DYNAMIC_NORM");
        assert_eq!(world.slurm.schedule(), [pending]);
        world.assert_well();
    }
}

#[test]
fn a_unit_that_takes_over_the_record_of_a_lost_one_is_in_service() {
    for model in both() {
        let mut world = World::of_apps(model, &[("compute", 1)]);
        world.slurm.submit(FakeJob::insisting("compute", "compute-0"));
        world.model.remove_unit_force(&"compute/0".parse().unwrap()).unwrap();
        world.model.remove_application(&world.computes).unwrap();
        world.slurm.time_out();
        world.ticks(3);
        // A pending job held the record.
        assert_eq!(world.slurm.nodes()["compute-0"], "DOWN+DYNAMIC_NORM+NOT_RESPONDING");
        world.redeploy();
        assert_eq!(world.slurm.nodes()["compute-0"], "IDLE+DYNAMIC_NORM");
        assert_eq!(world.slurm.schedule(), [1]);
        world.assert_well();
    }
}

#[test]
fn a_unit_that_takes_over_a_record_which_was_draining_is_in_service() {
    for model in both() {
        let mut world = World::of_apps(model, &[("compute", 1)]);
        let pending = world.slurm.submit(FakeJob::insisting("compute", "compute-0"));
        let job = world.job("compute-0");
        world.separate();
        world.slurm.end_job(job);
        world.ticks(1);
        world.model.remove_unit_force(&"compute/0".parse().unwrap()).unwrap();
        world.model.remove_application(&world.computes).unwrap();
        world.slurm.time_out();
        world.ticks(2);
        assert_eq!(world.slurm.nodes()["compute-0"], "DOWN+DRAIN+DYNAMIC_NORM+NOT_RESPONDING");
        world.redeploy();
        assert_eq!(world.slurm.nodes()["compute-0"], "IDLE+DYNAMIC_NORM");
        assert_eq!(world.slurm.schedule(), [pending]);
        world.assert_well();
    }
}

#[test]
fn a_drain_that_an_administrator_made_meanwhile_stays() {
    let world = World::of_apps(Model::new(), &[("compute", 1)]);
    world.job("compute-0");
    world.separate();
    world.ticks(1);
    world.machine("slurmctld/0").set_by_hand(&["nodename=compute-0", "state=drain", "reason=bad fan"]);
    world.ticks(1);
    world.integrate();
    world.model.settle();
    assert_eq!(world.slurm.nodes()["compute-0"], "MIXED+DRAIN+DYNAMIC_NORM");
    assert_eq!(world.slurm.reason("compute-0"), "bad fan");
    world.assert_well();
}

#[test]
fn a_partition_that_an_administrator_had_closed_is_closed_again() {
    let world = World::of_apps(Model::new(), &[("compute", 1)]);
    world.job("compute-0");
    world.machine("slurmctld/0").set_by_hand(&["partitionname=compute", "state=INACTIVE"]);
    world.part_for(2);
    assert_eq!(world.slurm.partitions()["compute"], "INACTIVE");
    world.assert_well();
}

#[test]
fn a_relation_may_end_and_begin_many_times() {
    let (world, job) = busy(Model::new(), 2, "compute-0");
    for times in 0..4 {
        world.part_for(times);
        assert_eq!(world.slurm.nodes()["compute-0"], "MIXED+DYNAMIC_NORM");
        assert_eq!(world.slurm.nodes()["compute-1"], "IDLE+DYNAMIC_NORM");
    }
    assert_eq!(world.slurm.jobs(), [job]);
    world.assert_well();
}

#[test]
fn a_unit_removed_right_after_the_relation_came_back_leaves_as_always() {
    for model in both() {
        let (world, job) = busy(model, 2, "compute-1");
        world.separate();
        world.ticks(1);
        world.integrate();
        world.end_while_waiting(job, 3);
        world.see_off("compute/1");
        assert_eq!(world.slurm.nodes()["compute-0"], "IDLE+DYNAMIC_NORM");
        world.assert_well();
    }
}
