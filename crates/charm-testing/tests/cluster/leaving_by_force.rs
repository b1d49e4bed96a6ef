//! Units that are lost without a word: the controller deletes what is left of them, and nothing else.

use crate::departures::both;
use crate::world::World;
use charm_testing::{FakeJob, Hook, Model};

impl World {
    fn force(&self, unit: &str) {
        self.model.remove_unit_force(&unit.parse().unwrap()).unwrap();
        self.model.run_hooks();
    }

    /// Some minutes pass in which Juju and timers call the controller.
    fn minutes(&self) {
        for _ in 0..3 {
            self.update_status("slurmctld/0");
            self.model.tick();
        }
    }

    fn knows(&self, node: &str) -> bool {
        self.slurm.nodes().contains_key(node)
    }
}

#[test]
fn the_record_of_a_lost_unit_goes_when_slurmctld_has_given_the_node_up() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 2)]);
        let kept = world.job("compute-0");
        world.job("compute-1");
        world.force("compute/1");
        world.minutes();
        assert!(world.knows("compute-1"));
        let held = "active: primary - UP; node compute-1 has no unit: held by job 2";
        assert_eq!(world.status("slurmctld/0"), held);
        world.slurm.time_out();
        world.minutes();
        assert!(!world.knows("compute-1"));
        assert_eq!(world.status("slurmctld/0"), "active: primary - UP");
        // The operator took the machine away, and with it the job. Nothing else is lost.
        assert_eq!(world.slurm.losses(), ["job 2: machine of compute-1 was given back"]);
        assert_eq!(world.slurm.jobs(), [kept]);
        world.slurm.age_out();
        world.model.settle();
        assert!(world.knows("compute-0"));
    }
}

#[test]
fn a_lost_unit_without_jobs_leaves_nothing() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 2)]);
        world.force("compute/1");
        world.slurm.time_out();
        world.minutes();
        assert!(!world.knows("compute-1"));
        world.assert_well();
    }
}

#[test]
fn a_node_that_is_only_down_stays() {
    let world = World::of_apps(Model::new(), &[("compute", 2)]);
    world.machine("compute/1").crash("slurmd.service");
    world.slurm.time_out();
    world.minutes();
    assert_eq!(world.slurm.nodes()["compute-1"], "DOWN+DYNAMIC_NORM+NOT_RESPONDING");
    world.machine("slurmctld/0").set_by_hand(&["nodename=compute-0", "state=down", "reason=broken"]);
    world.minutes();
    assert!(world.knows("compute-0") && world.knows("compute-1"));
}

#[test]
fn nodes_of_others_stay() {
    let world = World::of_apps(Model::new(), &[("compute", 2), ("compute-gpu", 2)]);
    let controller = world.machine("slurmctld/0");
    // An administrator's own, called like nobody's unit, or without the feature.
    for (node, feature) in [("login-9", "compute"), ("compute-01", "compute"), ("compute-9", "other")] {
        controller.add_node(node, feature);
        controller.set_by_hand(&[&format!("nodename={node}"), "state=down", "reason=mine"]);
    }
    world.force("compute/1");
    world.slurm.time_out();
    world.minutes();
    let nodes: Vec<String> = world.slurm.nodes().into_keys().collect();
    let expected = ["compute-0", "compute-01", "compute-9", "compute-gpu-0", "compute-gpu-1", "login-9"];
    assert_eq!(nodes, expected);
    world.assert_nothing_lost();
}

#[test]
fn a_pending_job_and_a_reservation_hold_the_record_of_a_lost_unit() {
    let world = World::of_apps(Model::new(), &[("compute", 2)]);
    let job = world.slurm.submit(FakeJob::insisting("compute", "compute-1"));
    world.slurm.reserve("course", "compute-1");
    world.force("compute/1");
    world.slurm.time_out();
    world.minutes();
    let held = |by: &str| format!("active: primary - UP; node compute-1 has no unit: held by {by}");
    assert_eq!(world.status("slurmctld/0"), held("pending job 1"));
    world.slurm.end_job(job);
    world.minutes();
    assert_eq!(world.status("slurmctld/0"), held("reservation course"));
    world.machine("slurmctld/0").scontrol(&["delete", "reservationname=course"]);
    world.minutes();
    assert!(!world.knows("compute-1"));
    world.assert_well();
}

#[test]
fn a_question_that_fails_deletes_nothing() {
    let world = World::of_apps(Model::new(), &[("compute", 2)]);
    for at in 0.. {
        world.model.fail_after(at);
        let done = world.model.run(&"slurmctld/0".parse().unwrap(), &Hook::named("update-status")).unwrap();
        if world.model.spare() {
            assert!(at > 5, "only {at} tools: {:?}", done.calls);
            break;
        }
        assert!(world.knows("compute-0") && world.knows("compute-1"), "tool {at} of {:?}", done.calls);
        assert_eq!(world.slurm.partitions()["compute"], "UP", "tool {at} of {:?}", done.calls);
    }
    world.model.settle();
    world.assert_well();
}

#[test]
fn without_an_answer_about_who_exists_nothing_is_deleted() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 2)]);
        world.model.refuse_tool(Some("goal-state"));
        world.force("compute/1");
        world.slurm.time_out();
        for _ in 0..3 {
            world.model.run(&"slurmctld/0".parse().unwrap(), &Hook::named("update-status")).unwrap();
            world.model.tick();
        }
        assert!(world.knows("compute-1"));
        world.model.refuse_tool(None);
        world.minutes();
        assert!(!world.knows("compute-1"));
        world.assert_well();
    }
}

#[test]
fn a_silent_slurmctld_deletes_nothing_and_the_end_comes_when_it_answers() {
    let world = World::of_apps(Model::new(), &[("compute", 2)]);
    world.force("compute/1");
    world.slurm.time_out();
    world.machine("slurmctld/0").controllers_answer(false);
    world.ticks(3);
    assert!(world.knows("compute-1"));
    assert_eq!(world.slurm.partitions()["compute"], "UP");
    world.machine("slurmctld/0").controllers_answer(true);
    world.model.settle();
    world.minutes();
    assert!(!world.knows("compute-1"));
    world.assert_well();
}

#[test]
fn a_machine_that_is_lost_while_its_unit_waits_leaves_a_record_that_goes() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 2)]);
        world.job("compute-1");
        let slurm = world.slurm.clone();
        world.while_waiting(move |model, unit, count| {
            if count == 2 {
                model.remove_unit_force(&unit.parse().unwrap()).unwrap();
                slurm.time_out();
            }
        });
        world.remove("compute/1");
        world.model.run_hooks();
        world.minutes();
        assert!(!world.has("compute/1") && !world.knows("compute-1"));
        assert_eq!(world.slurm.losses(), ["job 1: machine of compute-1 was given back"]);
    }
}

#[test]
fn an_application_removed_by_force_leaves_nothing() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 2), ("gpu", 1)]);
        let other = world.job("gpu-0");
        for unit in ["compute/0", "compute/1"] {
            world.force(unit);
        }
        world.model.remove_application(&world.computes).unwrap();
        world.ticks(2);
        world.slurm.time_out();
        world.model.settle();
        world.minutes();
        world.assert_gone("compute");
        assert_eq!(world.slurm.jobs(), [other]);
        world.assert_well();
    }
}
