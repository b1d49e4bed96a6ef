//! Reboots of nodes: whole dispatches, with a slurmctld that crashes, and a kill before every effect.

use super::crash::settle;
use super::world::{Cluster, only_looked};
use crate::names;
use charm_testing::{FakeJob, Hook};
use serde_json::{Value, json};
use std::time::Duration;

const NODES: [&str; 3] = ["compute-0", "compute-1", "compute-2"];
const DRAINED: &str = "IDLE+DRAIN+DYNAMIC_NORM";
const IDLE: &str = "IDLE+DYNAMIC_NORM";

/// A controller with three units and their nodes.
fn cluster() -> Cluster {
    let (cluster, _, compute) = Cluster::at_rest();
    for node in NODES {
        cluster.model.add_unit(&compute).unwrap();
        cluster.machine.add_node(node, "compute");
    }
    cluster.hook(&Hook::named("update-status"));
    cluster
}

/// Runs the action, again if it was killed, and returns its answer.
fn reboot(cluster: &Cluster, parameters: Value) -> Result<charm::Databag, String> {
    for _ in 0..3 {
        let done = cluster.dispatch(&Hook::action("reboot", parameters.clone()));
        if done.succeeded {
            return done.failure.map_or(Ok(done.results), Err);
        }
    }
    panic!("the action never succeeds");
}

/// A while later the timer calls.
fn timer(cluster: &Cluster) {
    cluster.machine.slurm().pass(Duration::from_secs(30));
    for _ in 0..3 {
        if cluster.dispatch(&Hook::named(slurm_unit::retry::EVENT)).succeeded {
            return;
        }
    }
    panic!("the timer never succeeds");
}

/// Slurm does what it is to, and every node that it told to is back. `visibly`: Slurm sees the boot.
fn boot(cluster: &Cluster, visibly: bool) {
    let slurm = cluster.machine.slurm();
    slurm.issue_reboots();
    slurm.pass(Duration::from_secs(30));
    let booting: Vec<String> =
        slurm.nodes().into_iter().filter(|(_, state)| state.contains("ISSUED")).map(|(name, _)| name).collect();
    for name in booting {
        slurm.come_back(&name, visibly);
    }
    if !visibly {
        slurm.give_up_reboots();
    }
}

fn away(cluster: &Cluster) -> usize {
    cluster.machine.slurm().nodes().values().filter(|state| state.contains("REBOOT") || state.contains("DOWN")).count()
}

/// Tells the story of three nodes, of which one is drained by its operator and one has a job.
fn story(cluster: &Cluster, visibly: bool, between: impl Fn(&Cluster)) {
    let slurm = cluster.machine.slurm();
    cluster.machine.scontrol(&["update", "nodename=compute-1", "state=drain", "reason=disk"]);
    let job = cluster.machine.submit(FakeJob::running("compute", "compute-0"));
    // An operator who is refused asks again.
    let wish = json!({"nodes": "compute-[0-2]", "reason": "new kernel"});
    assert!((0..3).any(|_| reboot(cluster, wish.clone()).is_ok()));
    for turn in 0..14 {
        timer(cluster);
        assert!(away(cluster) <= 1, "{:?}", slurm.nodes());
        between(cluster);
        if turn == 2 {
            assert_eq!(slurm.jobs(), [job], "the job is waited for");
            slurm.end_job(job);
        }
        boot(cluster, visibly);
    }
    settle(cluster);
    let nodes = slurm.nodes();
    assert_eq!(NODES.map(|node| nodes[node].as_str()), [IDLE, DRAINED, IDLE]);
    assert_eq!(slurm.reason("compute-1"), "disk");
    assert_eq!(cluster.machine.read(names::REBOOTS), None);
    assert_eq!((cluster.status(), slurm.losses()), ("active: primary - UP".to_owned(), Vec::new()));
}

fn boots(cluster: &Cluster) -> [usize; 3] {
    NODES.map(|node| cluster.machine.slurm().boots(node))
}

#[test]
fn nodes_are_rebooted_one_after_the_other_and_are_as_they_were() {
    for visibly in [true, false] {
        let cluster = cluster();
        story(&cluster, visibly, |_| {});
        assert_eq!(boots(&cluster), [1, 1, 1]);
        cluster.machine.take_calls();
        cluster.hook(&Hook::named("update-status"));
        only_looked(&cluster.machine.take_calls());
    }
}

#[test]
fn a_dispatch_killed_before_any_effect_reboots_each_node_once() {
    for at in 0.. {
        let cluster = cluster();
        cluster.model.knife().kill_before(at);
        story(&cluster, at % 2 == 0, |_| {});
        assert_eq!(boots(&cluster), [1, 1, 1], "{at}");
        if cluster.model.knife().spare() {
            assert!(at > 15, "only {at} effects");
            return;
        }
    }
}

#[test]
fn a_program_that_fails_anywhere_changes_nothing_about_the_end() {
    for at in (0..).step_by(2) {
        let cluster = cluster();
        cluster.machine.fail_after(at);
        story(&cluster, true, |_| {});
        assert_eq!(boots(&cluster), [1, 1, 1], "{at}");
        if cluster.machine.spare() {
            assert!(at > 20, "only {at} programs");
            return;
        }
    }
}

#[test]
fn a_crash_of_slurmctld_at_every_turn_costs_no_reboot_and_no_state() {
    let cluster = cluster();
    story(&cluster, true, |cluster| {
        cluster.machine.crash(names::SERVICE);
        cluster.machine.revive(names::SERVICE);
        timer(cluster);
    });
    assert_eq!(boots(&cluster), [1, 1, 1]);
}

#[test]
fn the_answer_comes_at_once_and_a_second_call_adds_to_the_first() {
    let cluster = cluster();
    let done = reboot(&cluster, json!({"nodes": "compute-[0-1]"})).unwrap();
    assert_eq!((done["status"].as_str(), done["nodes"].as_str()), ("queued", "compute-0,compute-1"));
    assert_eq!(cluster.status(), "active: primary - UP; reboots: 1 of 2 away, 1 to go");
    let done = reboot(&cluster, json!({"nodes": "feature{compute}", "max-unavailable": 2})).unwrap();
    assert_eq!((done["nodes"].as_str(), done["queued-before"].as_str()), ("compute-2", "compute-0,compute-1"));
    assert_eq!(cluster.status(), "active: primary - UP; reboots: 2 of 3 away, 1 to go");
    let shown = cluster.hook(&Hook::action("show-nodes", json!({}))).results;
    let list: Vec<Value> = serde_json::from_str(&shown["nodes"]).unwrap();
    assert_eq!(list[2]["remarks"], "reboot queued");
    assert!(list[0]["remarks"].as_str().unwrap().starts_with("reboot requested 0:00:"), "{list:?}");
    assert!(shown["table"].lines().next().unwrap().ends_with("REASON  REMARKS"), "{}", shown["table"]);
    assert!(cluster.machine.read("/run/systemd/transient/slurmctld-0-retry.timer").is_some());
}

#[test]
fn reboots_are_cancelled_and_a_drain_of_the_operator_stays() {
    let cluster = cluster();
    let slurm = cluster.machine.slurm();
    cluster.machine.scontrol(&["update", "nodename=compute-0", "state=drain", "reason=disk"]);
    cluster.machine.submit(FakeJob::running("compute", "compute-[0-1]"));
    reboot(&cluster, json!({"nodes": "compute-[0-2]", "max-unavailable": 2})).unwrap();
    let done = reboot(&cluster, json!({"nodes": "compute-[0-2]", "cancel": true})).unwrap();
    assert_eq!((done["status"].as_str(), done["nodes"].as_str()), ("cancelled", "compute-0,compute-1,compute-2"));
    let nodes = slurm.nodes();
    assert_eq!((nodes["compute-0"].as_str(), slurm.reason("compute-0").as_str()), ("MIXED+DRAIN+DYNAMIC_NORM", "disk"));
    assert_eq!((nodes["compute-1"].as_str(), nodes["compute-2"].as_str()), ("MIXED+DYNAMIC_NORM", IDLE));
    assert_eq!((cluster.machine.read(names::REBOOTS), cluster.status()), (None, "active: primary - UP".to_owned()));
    let none = reboot(&cluster, json!({"nodes": "compute-0", "cancel": true})).unwrap();
    assert_eq!(none["status"], "none of these is queued");
}

#[test]
fn a_node_that_is_lost_on_the_way_is_given_up_by_the_operator_alone() {
    let cluster = cluster();
    let slurm = cluster.machine.slurm();
    reboot(&cluster, json!({"nodes": "compute-[0-1]"})).unwrap();
    slurm.issue_reboots();
    timer(&cluster);
    slurm.pass(Duration::from_secs(16 * 60));
    timer(&cluster);
    let late = "active: primary - UP; reboots: 1 of 2 away, 1 to go; not back from reboot: compute-0";
    assert_eq!(cluster.status(), late);
    // Slurm has long given up to wait.
    slurm.give_up_reboots();
    let done = reboot(&cluster, json!({"nodes": "compute-0", "cancel": true})).unwrap();
    assert_eq!(done["not-awaited"], "compute-0");
    assert!(slurm.nodes()["compute-1"].contains("REBOOT_REQUESTED"));
    assert_eq!(cluster.status(), "active: primary - UP; reboots: 1 of 1 away, 0 to go");
}

#[test]
fn what_cannot_be_rebooted_is_refused_in_words() {
    let cluster = cluster();
    let refused = |parameters: Value| reboot(&cluster, parameters).unwrap_err();
    assert_eq!(refused(json!({"nodes": "compute-9"})), "Slurm knows no node compute-9");
    assert!(refused(json!({"nodes": ""})).starts_with("parameter `nodes`"));
    assert!(refused(json!({"nodes": "compute-0", "reason": "a\nb"})).starts_with("parameter `reason`"));
    cluster.machine.write(names::SLURM_CONF, &cluster.conf().replace("RebootProgram=/usr/sbin/reboot\n", ""));
    cluster.hook(&Hook::named("update-status"));
    let expected = "slurm.conf names no RebootProgram: add the line `RebootProgram=/usr/sbin/reboot` to option \
        slurm-conf-parameters of slurmctld";
    assert_eq!(refused(json!({"nodes": "compute-0"})), expected);
    cluster.configure("slurm-conf-parameters", json!("RebootProgram=/usr/sbin/reboot"));
    reboot(&cluster, json!({"nodes": "compute-0"})).unwrap();
    cluster.machine.write(names::REBOOTS, "{}");
    assert!(refused(json!({"nodes": "compute-0"})).starts_with("repair or delete the note /etc/slurm/reboots.json"));
}
