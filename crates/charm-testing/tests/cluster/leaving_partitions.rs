//! Relations and applications that are removed: their partition closes, is waited for, and goes.

use crate::departures::{REASON, both, busy};
use crate::world::{AUTH_SECRET, CONF, KEY_FILE, World};
use charm_testing::{FakeJob, Model};

const UP: &str = "active: primary - UP";
const UNRELATED: &str = "blocked: no controller: `juju integrate compute slurmctld`";

impl World {
    fn partition(&self, name: &str) -> Option<String> {
        self.slurm.partitions().get(name).cloned()
    }

    /// The partition that jobs get which name none.
    fn default(&self) -> Vec<String> {
        let conf = self.controller().read(CONF).unwrap();
        let lines = conf.lines().filter(|line| line.contains("Default=YES"));
        lines.filter_map(|line| line.strip_prefix("PartitionName=")?.split(' ').next().map(str::to_owned)).collect()
    }
}

#[test]
fn a_removed_relation_closes_the_partition_at_once_and_takes_it_out_in_time() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 2), ("gpu", 1)]);
        let (job, pending) = (world.job("compute-0"), world.slurm.submit(FakeJob::waiting("compute", "Resources")));
        let other = world.job("gpu-0");
        world.separate();
        // Jobs that name no partition are taken at once.
        assert_eq!(world.default(), ["gpu"]);
        assert_eq!(world.partition("compute").as_deref(), Some("INACTIVE"));
        assert!(world.slurm.sbatch(FakeJob::waiting("compute", "")).is_err());
        assert!(world.slurm.schedule().is_empty());
        assert_eq!(world.slurm.nodes()["compute-0"], "MIXED+DRAIN+DYNAMIC_NORM");
        assert_eq!(world.slurm.reason("compute-0"), REASON);
        world.ticks(3);
        assert_eq!(world.status("compute/0"), "maintenance: draining: 1 job, has no time limit");
        // The other one was empty.
        world.assert_left("compute/1");
        assert_eq!(world.status("compute/1"), UNRELATED);
        let leaves = |what: &str| format!("{UP}; compute leaves: {what}");
        let both = "pending job 2: cancel or move it; compute leaves: 1 job runs";
        assert_eq!(world.status("slurmctld/0"), leaves(both));
        world.slurm.end_job(job);
        world.ticks(3);
        world.assert_left("compute/0");
        assert_eq!(world.status("compute/0"), UNRELATED);
        assert_eq!(world.status("slurmctld/0"), leaves("pending job 2: cancel or move it"));
        world.slurm.end_job(pending);
        world.ticks(2);
        assert_eq!(world.status("slurmctld/0"), leaves("2 ended jobs age out (MinJobAge)"));
        assert_eq!(world.partition("compute").as_deref(), Some("INACTIVE"));
        world.slurm.age_out();
        world.model.settle();
        world.assert_gone("compute");
        assert!(world.has("compute/0") && world.has("compute/1"));
        assert_eq!(world.status("slurmctld/0"), UP);
        assert_eq!(world.granted(), [world.relation("gpu").unwrap().number()]);
        assert_eq!(world.slurm.jobs(), [other]);
        world.assert_well();
        // And it may come again.
        let (relation, _) = world.integrate_app("compute");
        world.model.settle();
        assert_eq!(world.slurm.nodes().len(), 3);
        assert_eq!(world.slurm.nodes()["compute-1"], "IDLE+DYNAMIC_NORM");
        assert!(world.granted().contains(&relation.number()));
        assert!(world.machine("compute/1").read(KEY_FILE).is_some());
        world.assert_well();
    }
}

#[test]
fn a_relation_made_again_in_the_middle_takes_everything_back() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 2)]);
        let (job, pending) = (world.job("compute-0"), world.slurm.submit(FakeJob::waiting("compute", "Resources")));
        world.part_for(2);
        assert_eq!(world.partition("compute").as_deref(), Some("UP"));
        assert_eq!(world.slurm.nodes()["compute-0"], "MIXED+DYNAMIC_NORM");
        assert_eq!(world.slurm.nodes()["compute-1"], "IDLE+DYNAMIC_NORM");
        assert_eq!(world.status("compute/0"), "active: mixed, partition compute");
        assert_eq!(world.status("slurmctld/0"), UP);
        assert_eq!(world.slurm.jobs(), [job, pending]);
        assert_eq!(world.slurm.schedule(), [pending]);
        world.assert_well();
    }
}

#[test]
fn what_an_administrator_set_before_is_there_again_when_the_relation_is() {
    let world = World::of_apps(Model::new(), &[("compute", 2)]);
    world.job("compute-0");
    world.machine("slurmctld/0").set_by_hand(&["partitionname=compute", "state=DRAIN"]);
    world.machine("slurmctld/0").set_by_hand(&["nodename=compute-0", "state=drain", "reason=bad fan"]);
    world.separate();
    world.ticks(2);
    assert_eq!(world.partition("compute").as_deref(), Some("INACTIVE"));
    world.integrate();
    world.model.settle();
    assert_eq!(world.partition("compute").as_deref(), Some("DRAIN"));
    assert_eq!(world.slurm.nodes()["compute-0"], "MIXED+DRAIN+DYNAMIC_NORM");
    assert_eq!(world.slurm.reason("compute-0"), "bad fan");
    world.assert_well();
}

#[test]
fn a_relation_made_again_while_ended_jobs_age_out_joins_anew() {
    for model in both() {
        let (world, job) = busy(model, 1, "compute-0");
        world.separate();
        world.slurm.end_job(job);
        world.ticks(3);
        world.assert_left("compute/0");
        world.integrate();
        world.model.settle();
        assert_eq!(world.partition("compute").as_deref(), Some("UP"));
        assert_eq!(world.slurm.nodes()["compute-0"], "IDLE+DYNAMIC_NORM");
        assert_eq!(world.status("compute/0"), "active: idle, partition compute");
        world.assert_well();
    }
}

#[test]
fn without_a_word_about_the_new_relation_timers_take_everything_back() {
    let (world, job) = busy(Model::new(), 2, "compute-0");
    world.separate();
    world.ticks(1);
    let (theirs, ours) = world.integrate();
    for (unit, relation) in [("slurmctld/0", &theirs), ("compute/0", &ours), ("compute/1", &ours)] {
        world.model.lose_news(&unit.parse().unwrap(), relation).unwrap();
    }
    world.ticks(8);
    assert_eq!(world.partition("compute").as_deref(), Some("UP"));
    assert_eq!(world.slurm.nodes()["compute-0"], "MIXED+DYNAMIC_NORM");
    assert_eq!(world.slurm.nodes()["compute-1"], "IDLE+DYNAMIC_NORM");
    assert_eq!(world.status("slurmctld/0"), UP);
    assert_eq!(world.slurm.jobs(), [job]);
    for unit in ["slurmctld/0", "compute/0", "compute/1"] {
        world.model.restart_agent(&unit.parse().unwrap()).unwrap();
    }
    world.model.settle();
    world.assert_well();
}

#[test]
fn a_relation_removed_again_about_which_nobody_heard_ends_the_same() {
    let (world, job) = busy(Model::new(), 1, "compute-0");
    world.separate();
    let (theirs, ours) = world.integrate();
    world.model.lose_news(&"slurmctld/0".parse().unwrap(), &theirs).unwrap();
    world.model.lose_news(&"compute/0".parse().unwrap(), &ours).unwrap();
    world.ticks(4);
    world.model.remove_relation(&theirs);
    world.ticks(3);
    assert_eq!(world.partition("compute").as_deref(), Some("INACTIVE"));
    assert_eq!(world.slurm.reason("compute-0"), REASON);
    world.slurm.end_job(job);
    world.fade();
    world.assert_left("compute/0");
    world.assert_gone("compute");
    world.assert_well();
}

#[test]
fn an_application_goes_with_its_units_and_its_partition() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 2), ("gpu", 1)]);
        let jobs = [world.job("compute-0"), world.job("compute-1")];
        let (pending, other) = (world.slurm.submit(FakeJob::waiting("compute", "Resources")), world.job("gpu-0"));
        assert_eq!(world.default(), ["compute"]);
        let before = world.slurm.nodes()["gpu-0"].clone();
        let slurm = world.slurm.clone();
        let pauses = world.while_waiting(move |_, unit, count| {
            if count == 2 {
                assert_eq!(slurm.partitions()["compute"], "INACTIVE");
                slurm.end_job(if unit == "compute/0" { jobs[0] } else { jobs[1] });
            }
        });
        world.model.remove_application(&world.computes).unwrap();
        world.ticks(3);
        assert!(pauses.statuses("compute/1")[0].starts_with("maintenance: draining: 1 job"));
        world.assert_removed("compute/0");
        world.assert_removed("compute/1");
        assert!(!world.model.has_application(&world.computes));
        assert_eq!(world.status("slurmctld/0"), format!("{UP}; compute leaves: pending job 3: cancel or move it"));
        world.slurm.end_job(pending);
        world.ticks(1);
        world.slurm.age_out();
        world.model.settle();
        world.assert_gone("compute");
        assert_eq!(world.default(), ["gpu"]);
        assert_eq!(world.slurm.nodes()["gpu-0"], before);
        assert_eq!(world.slurm.jobs(), [other]);
        world.assert_well();
    }
}

#[test]
fn the_last_partition_of_a_cluster_goes_and_another_may_come() {
    for model in both() {
        let (world, job) = busy(model, 1, "compute-0");
        world.end_while_waiting(job, 2);
        world.model.remove_application(&world.computes).unwrap();
        world.fade();
        world.assert_removed("compute/0");
        world.assert_gone("compute");
        assert!(world.slurm.partitions().is_empty() && world.slurm.node_sets().is_empty());
        assert_eq!(world.model.grants(&world.controllers, AUTH_SECRET), Vec::<u64>::new());
        world.assert_well();
    }
}

#[test]
fn a_pending_job_that_may_run_elsewhere_goes_there() {
    let world = World::of_apps(Model::new(), &[("compute", 1), ("gpu", 1)]);
    let job = world.slurm.submit(FakeJob::waiting("gpu,compute", "Resources"));
    world.separate();
    world.ticks(3);
    assert_eq!(world.partition("compute").as_deref(), Some("INACTIVE"));
    assert!(world.status("slurmctld/0").contains("compute leaves: pending job 1"), "{}", world.status("slurmctld/0"));
    assert_eq!(world.slurm.schedule(), [job]);
    world.model.settle();
    world.assert_gone("compute");
    assert_eq!(world.slurm.jobs(), [job]);
    world.assert_well();
}

#[test]
fn a_unit_whose_relation_has_ended_before_is_removed_and_its_job_is_waited_for() {
    for model in both() {
        let (world, job) = busy(model, 2, "compute-1");
        world.separate();
        world.ticks(2);
        let pauses = world.end_while_waiting(job, 3);
        world.remove("compute/1");
        world.ticks(3);
        assert_eq!(pauses.statuses("compute/1"), ["maintenance: draining: 1 job, has no time limit"]);
        world.assert_removed("compute/1");
        world.assert_nothing_lost();
        world.slurm.age_out();
        world.model.settle();
        world.assert_gone("compute");
        world.assert_well();
    }
}

#[test]
fn after_the_drain_timeout_jobs_of_a_removed_relation_are_cancelled_too() {
    let world = World::of_apps(Model::new(), &[("compute", 2)]);
    world.set("drain-timeout", 60.into());
    world.set("drain-policy", "cancel".into());
    world.model.settle();
    let job = world.job("compute-0");
    world.separate();
    world.ticks(2);
    assert_eq!(world.slurm.jobs(), [job]);
    world.slurm.pass(std::time::Duration::from_secs(61));
    world.ticks(3);
    assert!(world.slurm.jobs().is_empty());
    world.slurm.age_out();
    world.model.settle();
    world.assert_left("compute/0");
    world.assert_gone("compute");
    world.assert_well();
}

#[test]
fn an_application_without_units_and_another_one_leave_at_once() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 1), ("gpu", 1), ("big", 1)]);
        world.remove("gpu/0");
        world.model.settle();
        assert_eq!(world.slurm.partitions()["gpu"], "UP");
        let (job, other) = (world.job("compute-0"), world.job("big-0"));
        world.end_while_waiting(job, 2);
        world.model.remove_application(&"gpu".parse().unwrap()).unwrap();
        world.model.remove_application(&world.computes).unwrap();
        world.fade();
        world.assert_gone("compute");
        world.assert_gone("gpu");
        assert_eq!(world.default(), ["big"]);
        assert_eq!(world.slurm.jobs(), [other]);
        world.assert_well();
    }
}

#[test]
fn an_application_whose_relation_has_ended_before_goes_with_everything() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 2)]);
        let (job, pending) = (world.job("compute-0"), world.slurm.submit(FakeJob::waiting("compute", "Resources")));
        world.separate();
        world.ticks(2);
        world.end_while_waiting(job, 2);
        world.model.remove_application(&world.computes).unwrap();
        world.ticks(3);
        world.assert_removed("compute/0");
        world.assert_removed("compute/1");
        world.slurm.end_job(pending);
        world.slurm.age_out();
        world.model.settle();
        world.assert_gone("compute");
        world.assert_well();
    }
}

#[test]
fn a_unit_that_was_never_related_goes() {
    for model in both() {
        let world = World::on(model);
        world.model.settle();
        world.remove("compute/0");
        world.model.settle();
        assert!(!world.has("compute/0"));
        world.assert_whole();
    }
}
