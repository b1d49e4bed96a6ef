//! An application leaves, and a unit is lost: whole dispatches, with a slurmctld that is restarted and taken over, and
//! a kill before every effect.

use super::crash::settle;
use super::world::{Cluster, only_looked};
use crate::names;
use charm::{AppName, RelationId};
use charm_testing::{FakeJob, Hook};

const RETRY: &str = slurm_unit::retry::EVENT;

impl Cluster {
    fn timer(&self) {
        self.hook(&Hook::named(RETRY));
    }

    /// A controller with a compute application that has one unit and its node.
    fn with_node() -> (Self, RelationId, AppName) {
        let (cluster, relation, compute) = Self::at_rest();
        cluster.model.add_unit(&compute).unwrap();
        cluster.machine.add_node("compute-0", "compute");
        (cluster, relation, compute)
    }

    fn state(&self) -> Option<String> {
        self.machine.slurm().partitions().get("compute").cloned()
    }

    /// slurmctld is restarted, and then another one takes over. Neither costs anything.
    #[track_caller]
    fn survives(&self) {
        let slurm = self.machine.slurm();
        let jobs = slurm.job_records();
        self.machine.crash(names::SERVICE);
        self.machine.revive(names::SERVICE);
        assert!(self.machine.is_running(names::SERVICE), "does not start again: {}", self.conf());
        self.machine.crash(names::SERVICE);
        assert!(self.machine.take_over(), "a takeover fails: {}", self.conf());
        assert_eq!((slurm.job_records(), slurm.losses()), (jobs, Vec::new()));
    }
}

/// Runs a hook again if it failed, as Juju does. Before that `between` happens.
fn insist(cluster: &Cluster, between: &impl Fn(&Cluster), hook: &Hook) {
    for _ in 0..3 {
        if cluster.dispatch(hook).succeeded {
            return;
        }
        between(cluster);
    }
    panic!("{hook:?} never succeeds");
}

/// Tells the story of a removed relation. `between` happens at each of its turns.
fn leave(cluster: &Cluster, relation: &RelationId, compute: &AppName, between: impl Fn(&Cluster)) {
    let slurm = cluster.machine.slurm();
    let job = cluster.machine.submit(FakeJob::running("compute", "compute-0"));
    insist(cluster, &between, &Hook::broken(relation, Some(compute)));
    cluster.model.end(relation);
    between(cluster);
    insist(cluster, &between, &Hook::named(RETRY));
    assert_eq!(cluster.state().as_deref(), Some("INACTIVE"));
    assert_eq!(slurm.jobs(), [job]);
    assert!(slurm.sbatch(FakeJob::waiting("compute", "")).is_err());
    slurm.end_job(job);
    between(cluster);
    insist(cluster, &between, &Hook::named(RETRY));
    insist(cluster, &between, &Hook::named(RETRY));
    assert!(cluster.conf().contains("PartitionName=compute"));
    between(cluster);
    slurm.age_out();
    for _ in 0..3 {
        insist(cluster, &between, &Hook::named(RETRY));
        between(cluster);
    }
    settle(cluster);
    assert_eq!(slurm.losses(), Vec::<String>::new());
    assert!(slurm.nodes().is_empty());
    assert!(!cluster.conf().contains("compute\n") && !cluster.conf().contains("PartitionName=compute"));
    assert_eq!(cluster.state(), None);
    assert_eq!(cluster.machine.read(names::APPLICATIONS).is_some(), cluster.conf().contains("PartitionName="));
    assert_eq!(cluster.status(), "active: primary - UP");
}

#[test]
fn a_removed_relation_closes_the_partition_and_takes_it_away_when_nothing_names_it() {
    let (cluster, relation, compute) = Cluster::with_node();
    let slurm = cluster.machine.slurm();
    let job = cluster.machine.submit(FakeJob::running("compute", "compute-0"));
    cluster.hook(&Hook::broken(&relation, Some(&compute)));
    cluster.model.end(&relation);
    assert_eq!(cluster.state().as_deref(), Some("INACTIVE"));
    assert_eq!(slurm.nodes()["compute-0"], "MIXED+DRAIN+DYNAMIC_NORM");
    assert_eq!(cluster.status(), "active: primary - UP; compute leaves: 1 job runs");
    slurm.end_job(job);
    cluster.timer();
    assert!(slurm.nodes().is_empty());
    assert_eq!(cluster.status(), "active: primary - UP; compute leaves: 1 ended job ages out (MinJobAge)");
    cluster.machine.take_calls();
    slurm.age_out();
    cluster.timer();
    assert_eq!((cluster.state(), slurm.node_sets()), (None, Vec::new()));
    assert!(!cluster.conf().contains("PartitionName=") && !cluster.conf().contains("NodeSet="));
    let calls = cluster.machine.take_calls();
    assert_eq!(calls.iter().filter(|call| *call == "scontrol reconfigure").count(), 1, "{calls:#?}");
    assert_eq!(cluster.machine.read(names::APPLICATIONS), None);
    cluster.survives();
    cluster.timer();
    only_looked(&cluster.machine.take_calls());
    assert_eq!(cluster.status(), "active: primary - UP");
}

#[test]
fn a_restart_and_a_takeover_at_every_turn_lose_nothing() {
    for several in [false, true] {
        let (cluster, relation, compute) = Cluster::with_node();
        if several {
            cluster.integrate("gpu");
        }
        leave(&cluster, &relation, &compute, Cluster::survives);
    }
}

#[test]
fn a_dispatch_killed_before_any_effect_is_continued_and_slurmctld_survives_there() {
    for several in [false, true] {
        for at in 0.. {
            let (cluster, relation, compute) = Cluster::with_node();
            if several {
                cluster.integrate("gpu");
                settle(&cluster);
            }
            cluster.model.knife().kill_before(at);
            leave(&cluster, &relation, &compute, Cluster::survives);
            if cluster.model.knife().spare() {
                assert!(at > 15, "only {at} effects");
                break;
            }
            assert!(cluster.hook(&Hook::named("update-status")).writes().is_empty(), "{at}");
        }
    }
}

#[test]
fn a_program_or_a_tool_that_fails_anywhere_changes_nothing_about_the_end() {
    for at in 0.. {
        let (cluster, relation, compute) = Cluster::with_node();
        cluster.machine.fail_after(at);
        leave(&cluster, &relation, &compute, |_| {});
        if cluster.machine.spare() {
            assert!(at > 20, "only {at} programs");
            break;
        }
    }
    for at in (0..).step_by(3) {
        let (cluster, relation, compute) = Cluster::with_node();
        cluster.model.fail_after(at);
        leave(&cluster, &relation, &compute, |_| {});
        if cluster.model.spare() {
            assert!(at > 20, "only {at} tools");
            break;
        }
    }
}

#[test]
fn an_application_that_comes_again_is_served_again_at_every_turn() {
    for turn in 0..4 {
        let (cluster, relation, compute) = Cluster::with_node();
        let slurm = cluster.machine.slurm();
        let job = cluster.machine.submit(FakeJob::running("compute", "compute-0"));
        cluster.hook(&Hook::broken(&relation, Some(&compute)));
        cluster.model.end(&relation);
        if turn > 0 {
            slurm.end_job(job);
            cluster.timer();
        }
        if turn > 1 {
            slurm.age_out();
            // The removal has begun, and is killed after the partition was deleted at runtime.
            let until = if turn == 2 { "scontrol delete partitionname=compute" } else { "nothing" };
            for at in 0..40 {
                cluster.model.knife().kill_before(at);
                cluster.dispatch(&Hook::named(RETRY));
                if cluster.model.knife().effects().iter().any(|effect| effect.contains(until)) {
                    break;
                }
            }
            cluster.model.knife().spare();
        }
        let ends = ((&cluster.app, "slurmd"), (&compute, "slurmctld"));
        let (again, _) = cluster.model.integrate(ends.0, ends.1).unwrap();
        cluster.model.play(&compute, &again, &super::partition("compute")).unwrap();
        cluster.hook(&Hook::created(&again, &compute));
        cluster.hook(&Hook::app_changed(&again, &compute));
        settle(&cluster);
        assert_eq!(cluster.state().as_deref(), Some("UP"), "{turn}");
        assert!(cluster.conf().contains("PartitionName=compute"));
        assert_eq!(slurm.losses(), Vec::<String>::new());
        assert!(!cluster.model.app_bag(&again, &cluster.app).is_empty());
        assert_eq!(cluster.status(), "active: primary - UP");
        cluster.survives();
    }
}

#[test]
fn the_record_of_a_unit_that_was_removed_with_force_goes() {
    let (cluster, ..) = Cluster::with_node();
    let slurm = cluster.machine.slurm();
    cluster.machine.add_node("compute-1", "compute");
    slurm.reserve("maint", "compute-1");
    cluster.hook(&Hook::named("update-status"));
    let held = "active: primary - UP; node compute-1 has no unit: held by reservation maint";
    assert_eq!(cluster.status(), held);
    assert_eq!(slurm.nodes()["compute-1"], "IDLE+DRAIN+DYNAMIC_NORM");
    cluster.machine.scontrol(&["delete", "reservationname=maint"]);
    cluster.timer();
    assert_eq!(slurm.nodes().keys().collect::<Vec<_>>(), ["compute-0"]);
    assert_eq!(slurm.nodes()["compute-0"], "IDLE+DYNAMIC_NORM");
    assert_eq!((cluster.status(), slurm.losses()), ("active: primary - UP".to_owned(), Vec::new()));
    cluster.timer();
    assert!(cluster.machine.read("/run/systemd/transient/slurmctld-0-retry.timer").is_none());
}

#[test]
fn a_lost_node_costs_questions_and_a_settled_one_costs_none() {
    let (cluster, ..) = Cluster::with_node();
    cluster.hook(&Hook::named("update-status"));
    cluster.machine.take_calls();
    let done = cluster.hook(&Hook::named("update-status"));
    assert_eq!(done.calls.iter().filter(|call| call.starts_with("goal-state")).count(), 1);
    assert_eq!(cluster.machine.take_calls().len(), 3, "systemctl show, scontrol show partition and journalctl");
}

#[test]
fn a_look_that_fails_costs_no_node_and_no_partition() {
    let (cluster, ..) = Cluster::with_node();
    cluster.hook(&Hook::named("update-status"));
    for at in 0.. {
        cluster.model.fail_after(at);
        cluster.dispatch(&Hook::named("update-status"));
        let nodes: Vec<String> = cluster.machine.slurm().nodes().into_values().collect();
        assert_eq!((nodes, cluster.state().as_deref()), (vec!["IDLE+DYNAMIC_NORM".to_owned()], Some("UP")), "{at}");
        if cluster.model.spare() {
            assert!(at > 12, "only {at} tools");
            return;
        }
    }
}

#[test]
fn a_changed_partition_is_in_effect_before_anybody_asks_who_exists() {
    let (cluster, relation, compute) = Cluster::with_node();
    cluster.hook(&Hook::named("update-status"));
    let changed = serde_json::json!({"partitionname": "compute", "nodes": ["compute"], "maxtime": 60}).to_string();
    let changed = charm::Databag::from([("partition".to_owned(), changed)]);
    cluster.model.play(&compute, &relation, &changed).unwrap();
    let done = cluster.hook(&Hook::app_changed(&relation, &compute));
    assert!(cluster.conf().contains("MaxTime=60"));
    assert!(!done.calls.iter().any(|call| call.starts_with("goal-state")), "{:#?}", done.calls);
}
