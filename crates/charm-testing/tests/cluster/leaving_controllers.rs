//! Controllers that go before their nodes, or with them: nobody is drained for it, and no job is lost.

use crate::departures::{REASON, SLURMCTLD, SLURMD, both, busy};
use crate::world::World;
use charm_testing::Model;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn controllers_that_go_first_leave_nodes_that_wait_for_their_jobs() {
    for model in both() {
        let (world, job) = busy(model, 2, "compute-1");
        world.model.remove_application(&world.controllers).unwrap();
        world.ticks(3);
        assert!(!world.has("slurmctld/0"));
        world.slurm.pass(Duration::from_secs(30));
        world.ticks(3);
        assert_eq!(world.status("compute/1"), "maintenance: leaving: 1 job left on this machine");
        assert!(world.machine("compute/1").is_running(SLURMD));
        world.assert_bare("compute/0");
        world.slurm.end_job(job);
        world.model.settle();
        world.assert_bare("compute/1");
        let unrelated = "blocked: no controller: `juju integrate compute slurmctld`";
        assert_eq!((world.status("compute/0"), world.status("compute/1")), (unrelated.into(), unrelated.into()));
        world.assert_nothing_lost();
        world.assert_rest();
    }
}

#[test]
fn everything_goes_at_once_and_waits_for_the_jobs() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 2), ("gpu", 1)]);
        let jobs = [world.job("compute-1"), world.job("gpu-0")];
        let slurm = world.slurm.clone();
        let pauses = world.while_waiting(move |_, unit, count| {
            if count == 4 {
                slurm.end_job(if unit == "compute/1" { jobs[0] } else { jobs[1] });
            }
        });
        world.model.destroy();
        world.model.settle();
        assert!(world.units().is_empty(), "{:?}", world.units());
        for unit in ["compute/0", "compute/1", "gpu/0"] {
            world.assert_bare(unit);
            // Juju 4 drops a leaving unit that is blocked.
            let statuses = pauses.statuses(unit);
            assert!(!statuses.iter().any(|status| status.starts_with("blocked")), "{unit}: {statuses:?}");
        }
        assert!(!pauses.statuses("compute/1").is_empty() && !pauses.statuses("gpu/0").is_empty());
        world.assert_nothing_lost();
    }
}

#[test]
fn the_last_controller_unit_drains_nobody() {
    for model in both() {
        let (world, job) = busy(model, 2, "compute-1");
        let pauses = world.while_waiting(|_, _, _| {});
        world.remove("slurmctld/0");
        world.ticks(5);
        assert!(!world.has("slurmctld/0") && pauses.is_empty());
        for (unit, node) in [("compute/0", "IDLE+DYNAMIC_NORM"), ("compute/1", "MIXED+DYNAMIC_NORM")] {
            assert!(world.machine(unit).is_running(SLURMD), "{unit}");
            assert_eq!(world.slurm.nodes()[&unit.replace('/', "-")], node);
        }
        assert_eq!(world.slurm.jobs(), [job]);
        world.assert_nothing_lost();
    }
}

#[test]
fn a_unit_that_is_removed_after_the_last_controller_waits_for_its_processes() {
    for model in both() {
        let (world, job) = busy(model, 2, "compute-1");
        world.remove("slurmctld/0");
        world.ticks(3);
        let pauses = world.end_while_waiting(job, 30);
        world.remove("compute/1");
        world.ticks(3);
        let statuses = pauses.statuses("compute/1");
        assert_eq!(statuses.last().unwrap(), "maintenance: leaving: 1 job left on this machine");
        assert!(!world.has("compute/1"));
        world.assert_bare("compute/1");
        world.assert_nothing_lost();
        assert!(world.machine("compute/0").is_running(SLURMD));
    }
}

#[test]
fn controllers_that_go_while_a_unit_waits_are_not_waited_for() {
    for (down, model) in [false, true].into_iter().flat_map(|down| both().map(|model| (down, model))) {
        let world = World::of_apps(model, &[("compute", 2)]);
        let jobs = [world.job("compute-0"), world.job("compute-1")];
        if down {
            world.machine("slurmctld/0").crash(SLURMCTLD);
        }
        let (slurm, controllers) = (world.slurm.clone(), world.controllers.clone());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let statuses = seen.clone();
        world.model.while_waiting(move |model, unit, count| {
            statuses.lock().unwrap().push(model.status(unit).unwrap().message().to_owned());
            if count >= 3 {
                model.run_round();
                model.tick();
            }
            match count {
                3 => model.remove_application(&controllers).unwrap(),
                40 => slurm.end_job(jobs[1]),
                _ => {}
            }
        });
        world.remove("compute/1");
        world.ticks(3);
        let statuses = seen.lock().unwrap();
        let first = if down { "leaving: slurmctld does not answer" } else { "draining: 1 job, has no time limit" };
        assert_eq!(statuses[0], first);
        assert_eq!(statuses.last().unwrap(), "leaving: 1 job left on this machine");
        assert!(!world.has("compute/1") && !world.has("slurmctld/0"));
        world.assert_bare("compute/1");
        // The other one leaves as well, because its relation has ended, and waits.
        assert!(world.machine("compute/0").is_running(SLURMD));
        world.slurm.pass(Duration::from_secs(30));
        world.slurm.end_job(jobs[0]);
        world.model.settle();
        world.assert_bare("compute/0");
        world.assert_nothing_lost();
    }
}

#[test]
fn everything_goes_although_slurmctld_is_down() {
    for model in both() {
        let (world, job) = busy(model, 2, "compute-1");
        world.machine("slurmctld/0").crash(SLURMCTLD);
        world.end_while_waiting(job, 30);
        world.model.destroy();
        world.model.settle();
        assert!(world.units().is_empty(), "{:?}", world.units());
        world.assert_bare("compute/0");
        world.assert_bare("compute/1");
        world.assert_nothing_lost();
    }
}

#[test]
fn nodes_whose_controllers_go_are_drained_while_slurmctld_answers() {
    let world = World::of_apps(Model::new(), &[("compute", 1)]);
    world.job("compute-0");
    world.model.remove_application(&world.controllers).unwrap();
    // Departed, then broken, on the node; the controller is as far with its own.
    world.model.run_round();
    world.model.run_round();
    assert_eq!(world.slurm.reason("compute-0"), REASON);
}
