//! Units that are removed: each drains its node, waits for its jobs, and goes with everything that it had.

use crate::departures::{REASON, both, busy};
use crate::world::World;
use charm_testing::{FakeJob, Model};

#[test]
fn a_unit_that_is_removed_drains_waits_for_its_job_and_leaves_nothing() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 3)]);
        let jobs = [world.job("compute-1"), world.job("compute-2")];
        let pauses = world.end_while_waiting(jobs[0], 3);
        world.see_off("compute/1");
        assert_eq!(pauses.nodes("compute/1"), [format!("MIXED+DRAIN+DYNAMIC_NORM ({REASON})")]);
        assert_eq!(pauses.statuses("compute/1"), ["maintenance: draining: 1 job, has no time limit"]);
        assert_eq!(world.slurm.jobs(), [jobs[1]]);
        let nodes = world.slurm.nodes();
        assert_eq!(nodes["compute-0"], "IDLE+DYNAMIC_NORM");
        assert_eq!(nodes["compute-2"], "MIXED+DYNAMIC_NORM");
        assert_eq!(world.status("compute/0"), "active: idle, partition compute");
        assert_eq!(world.status("slurmctld/0"), "active: primary - UP");
        world.assert_well();
    }
}

#[test]
fn the_status_says_how_long_the_longest_job_may_last() {
    let world = World::of_apps(Model::new(), &[("compute", 1)]);
    let limit = |minutes| FakeJob { limit: Some(minutes), ..FakeJob::running("compute", "compute-0") };
    let jobs = [world.slurm.submit(limit(60)), world.slurm.submit(limit(30))];
    let slurm = world.slurm.clone();
    let pauses = world.while_waiting(move |_, _, count| {
        if count < 2 {
            slurm.end_job(jobs[count]);
        }
    });
    world.see_off("compute/0");
    let leads = "; this is the leader, so options wait";
    let expected = [
        format!("maintenance: draining: 2 jobs, longest ends in 1:00:00{leads}"),
        format!("maintenance: draining: 1 job, ends in 0:30:00{leads}"),
    ];
    assert_eq!(pauses.statuses("compute/0"), expected);
    world.assert_well();
}

#[test]
fn ten_units_with_jobs_leave_at_once() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 11)]);
        let jobs: Vec<u64> = (0..11).map(|number| world.job(&format!("compute-{number}"))).collect();
        let slurm = world.slurm.clone();
        let own = jobs.clone();
        let pauses = world.while_waiting(move |_, unit, count| {
            let number: usize = unit.rsplit('/').next().unwrap().parse().unwrap();
            if count == 1 {
                slurm.end_job(own[number]);
            }
        });
        let leavers: Vec<String> = (1..11).map(|number| format!("compute/{number}")).collect();
        leavers.iter().for_each(|unit| world.remove(unit));
        world.model.settle();
        for unit in &leavers {
            assert!(pauses.nodes(unit)[0].starts_with("MIXED+DRAIN"), "{:?}", pauses.nodes(unit));
            world.assert_removed(unit);
        }
        assert_eq!(world.slurm.jobs(), [jobs[0]]);
        assert_eq!(world.slurm.nodes().len(), 1);
        world.assert_well();
    }
}

#[test]
fn after_the_drain_timeout_jobs_are_cancelled_if_the_policy_says_so() {
    let world = World::of_apps(Model::new(), &[("compute", 2)]);
    world.set("drain-timeout", 90.into());
    world.set("drain-policy", "cancel".into());
    world.model.settle();
    let (_, other) = (world.job("compute-1"), world.job("compute-0"));
    world.slurm.submit(FakeJob::insisting("compute", "compute-1"));
    let pauses = world.while_waiting(|_, _, _| {});
    world.see_off("compute/1");
    let waited = world.machine("compute/1").waited().as_secs();
    assert!((90..100).contains(&waited), "{waited} s");
    assert_eq!(pauses.statuses("compute/1")[0], "maintenance: draining: 1 job, has no time limit");
    assert_eq!(world.slurm.jobs(), [other]);
    world.assert_well();
}

#[test]
fn after_the_drain_timeout_a_unit_waits_on_and_says_so() {
    let world = World::of_apps(Model::new(), &[("compute", 2)]);
    world.set("drain-timeout", 30.into());
    world.model.settle();
    let job = world.job("compute-1");
    let pauses = world.end_while_waiting(job, 40);
    world.see_off("compute/1");
    let expected = [
        "maintenance: draining: 1 job, has no time limit",
        "maintenance: draining: 1 job, has no time limit; drain-timeout is over",
    ];
    assert_eq!(pauses.statuses("compute/1"), expected);
    world.assert_well();
}

#[test]
fn a_job_that_lingers_is_waited_for_and_does_not_look_cancelled_before_it_is() {
    let world = World::of_apps(Model::new(), &[("compute", 2)]);
    world.set("drain-timeout", 1.into());
    world.set("drain-policy", "cancel".into());
    world.model.settle();
    let job = world.job("compute-1");
    world.slurm.complete_slowly(job);
    let pauses = world.end_while_waiting(job, 5);
    world.see_off("compute/1");
    let statuses = pauses.statuses("compute/1");
    assert_eq!(statuses.last().unwrap(), "maintenance: draining: 1 job cancelled, drain-timeout is over");
    world.assert_well();
}

#[test]
fn pending_jobs_that_ask_for_the_node_hold_it_and_are_named() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 2)]);
        let task = |task| FakeJob { array: Some((7, task)), ..FakeJob::insisting("compute", "compute-1") };
        let jobs = [
            world.slurm.submit(FakeJob::insisting("compute", "compute-1")),
            world.slurm.submit(task(3)),
            world.slurm.submit(FakeJob::insisting("compute", "compute-[0-1]")),
        ];
        let free = world.slurm.submit(FakeJob::waiting("compute", "Resources"));
        let slurm = world.slurm.clone();
        let pauses = world.while_waiting(move |_, _, count| {
            if let Some(job) = jobs.get(count) {
                slurm.end_job(*job);
            }
        });
        world.see_off("compute/1");
        let asks = |jobs: &str| format!("waiting: leaving: pending {jobs} for this node: change or run destroy-jobs");
        let expected = [asks("jobs 1,7_3,3 ask"), asks("jobs 7_3,3 ask"), asks("job 3 asks")];
        assert_eq!(pauses.statuses("compute/1"), expected);
        assert_eq!(world.slurm.jobs(), [free]);
        assert_eq!(world.slurm.schedule(), [free]);
        world.assert_well();
    }
}

#[test]
fn a_reservation_holds_the_node_until_it_is_deleted() {
    let world = World::of_apps(Model::new(), &[("compute", 2)]);
    world.slurm.reserve("course", "compute-[0-1]");
    let controller = world.machine("slurmctld/0").clone();
    let pauses = world.while_waiting(move |_, _, count| {
        if count == 3 {
            controller.scontrol(&["delete", "reservationname=course"]);
        }
    });
    world.see_off("compute/1");
    let expected = ["waiting: leaving: reservation course over this node: change or delete it"];
    assert_eq!(pauses.statuses("compute/1"), expected);
    world.assert_well();
}

#[test]
fn an_administrator_s_drain_stays_until_the_end() {
    let (world, job) = busy(Model::new(), 2, "compute-1");
    world.machine("slurmctld/0").set_by_hand(&["nodename=compute-1", "state=drain", "reason=bad fan"]);
    let pauses = world.end_while_waiting(job, 2);
    world.see_off("compute/1");
    assert_eq!(pauses.nodes("compute/1"), ["MIXED+DRAIN+DYNAMIC_NORM (bad fan)"]);
    world.assert_well();
}

#[test]
fn the_unit_that_leads_goes_and_another_leads() {
    for model in both() {
        let (world, job) = busy(model, 2, "compute-0");
        let pauses = world.end_while_waiting(job, 2);
        world.see_off("compute/0");
        let expected = ["maintenance: draining: 1 job, has no time limit; this is the leader, so options wait"];
        assert_eq!(pauses.statuses("compute/0"), expected);
        world.set("partition-config", "MaxTime=60".into());
        world.model.settle();
        assert!(world.controller().partitions()[0].contains("maxtime=60"));
        world.assert_well();
    }
}
