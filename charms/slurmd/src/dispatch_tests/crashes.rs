//! Dispatches that are killed before each of their effects in turn, and run again: all end the same.

use super::Node;
use crate::names;
use charm_testing::{FakeJob, Hook};
use serde_json::json;
use slurm_unit::retry;
use std::collections::BTreeMap;

/// What is there in the end.
#[derive(Debug, PartialEq)]
struct End {
    files: BTreeMap<String, String>,
    partition: BTreeMap<String, String>,
    ports: Vec<String>,
    status: String,
    record: String,
    running: bool,
}

/// Runs a hook or an action, and once more if it was killed.
#[track_caller]
fn persist(node: &Node, hook: &Hook) {
    let done = node.dispatch(hook);
    if done.killed {
        let again = node.dispatch(hook);
        assert!(again.succeeded && again.failure.is_none(), "{hook:?}: {again:#?}");
    } else {
        assert!(done.succeeded && done.failure.is_none(), "{hook:?}: {done:#?}");
    }
}

/// Tells a story that is killed before its effect number `at`. Returns its end, and whether it was killed.
fn tell(at: usize, options: &[(&str, &str)], story: impl Fn(&Node)) -> (End, bool) {
    let node = Node::new();
    for (option, value) in options {
        node.model.set_option(&node.app, option, (*value).into()).unwrap();
    }
    node.model.knife().kill_before(at);
    for name in ["install", "leader-elected", "config-changed", "start"] {
        persist(&node, &Hook::named(name));
    }
    let (relation, _) = node.model.integrate((&node.app, "slurmctld"), (&node.controller, "slurmd")).unwrap();
    persist(&node, &Hook::created(&relation, &node.controller));
    node.offer(&relation);
    persist(&node, &Hook::app_changed(&relation, &node.controller));
    story(&node);
    for _ in 0..3 {
        node.time_passes();
        persist(&node, &Hook::named(retry::EVENT));
    }
    // What was marked again by the last of them.
    node.time_passes();
    persist(&node, &Hook::named(retry::EVENT));
    let killed = !node.model.knife().spare();
    node.machine.take_calls();
    let rest = node.dispatch(&Hook::named("update-status"));
    assert!(rest.writes().is_empty(), "killed before {at}, and not at rest: {rest:#?}");
    let end = End {
        files: node.files(),
        partition: node.model.app_bag(&relation, &node.app).into_iter().collect(),
        ports: node.model.ports(&node.unit),
        status: node.shown(),
        record: format!("{:?}", node.record()),
        running: node.machine.is_running(names::SERVICE),
    };
    (end, killed)
}

/// Tells a story again and again, each time killed one effect later, until it comes to its end.
#[track_caller]
fn always_ends_the_same(least: usize, options: &[(&str, &str)], story: impl Fn(&Node)) -> End {
    let (calm, killed) = tell(usize::MAX, options, &story);
    assert!(!killed && calm.running);
    for at in 0.. {
        let (end, killed) = tell(at, options, &story);
        if !killed {
            assert!(at > least, "only {at} effects");
            return calm;
        }
        assert_eq!(end, calm, "killed before effect {at}");
    }
    unreachable!("a story has an end")
}

#[test]
fn deploy_integrate_and_change_the_partition() {
    let end = always_ends_the_same(15, &[], |node| {
        node.model.set_option(&node.app, names::OPTION_PARTITION_CONFIG, "MaxTime=60".into()).unwrap();
        persist(node, &Hook::named("config-changed"));
    });
    assert!(end.partition["partition"].contains("maxtime"));
    assert_eq!(end.status, "active: idle, partition compute");
}

#[test]
fn a_node_that_comes_up_down() {
    let down = [(names::OPTION_DEFAULT_NODE_STATE, "down"), (names::OPTION_DEFAULT_NODE_REASON, "look first")];
    let end = always_ends_the_same(15, &down, |_| {});
    assert_eq!(end.status, "blocked: down, partition compute: look first: run action resume");
    assert!(!end.files["etc/default/slurmd"].contains("State="));
}

#[test]
fn a_new_description_on_an_empty_node() {
    let end = always_ends_the_same(25, &[], |node| {
        persist(node, &Hook::action("node-config", json!({"parameters": "RealMemory=900 Weight=7 Feature=fast"})));
    });
    assert!(end.record.contains("real_memory: 900") && end.record.contains("weight: 7"), "{}", end.record);
    assert!(!end.record.contains("DRAIN"), "{}", end.record);
    assert_eq!(end.status, "active: idle, partition compute");
}

#[test]
fn a_new_description_on_a_node_that_an_administrator_closed() {
    let end = always_ends_the_same(25, &[], |node| {
        persist(node, &Hook::action("drain", json!({"reason": "disk #3"})));
        persist(node, &Hook::action("node-config", json!({"parameters": "RealMemory=900"})));
    });
    assert!(end.record.contains("real_memory: 900") && end.record.contains("DRAIN"), "{}", end.record);
    assert_eq!(end.status, "active: drained, partition compute: disk #3");
}

#[test]
fn a_new_description_that_waits_for_a_job() {
    let end = always_ends_the_same(25, &[], |node| {
        let job = node.machine.submit(FakeJob::running("compute", "compute-0"));
        persist(node, &Hook::action("node-config", json!({"parameters": "RealMemory=900 Weight=7"})));
        persist(node, &Hook::named(retry::EVENT));
        assert_eq!(node.record().real_memory, 24103, "not while the job runs");
        node.machine.end_job(job);
    });
    assert!(end.record.contains("real_memory: 900"), "{}", end.record);
}

/// Juju runs a hook that was killed once more, and an action never.
#[test]
fn an_action_that_was_killed_is_brought_to_its_end_by_the_timer() {
    for at in 0.. {
        let (node, _) = Node::joined();
        let before = format!("{:?}", node.record());
        node.model.knife().kill_before(at);
        let done = node.act("node-config", json!({"parameters": "RealMemory=900"}));
        node.model.knife().spare();
        if !done.killed {
            assert!(at > 10, "only {at} effects");
            break;
        }
        if node.machine.read("/run/systemd/transient/compute-0-retry.timer").is_none() {
            assert_eq!(format!("{:?}", node.record()), before, "killed before effect {at}, and nobody looks again");
            assert!(
                node.note().requested.options().next().is_none(),
                "killed before effect {at}, and nobody looks again"
            );
            continue;
        }
        for _ in 0..4 {
            node.time_passes();
            node.hook(&Hook::named(retry::EVENT));
        }
        let wanted = if node.note().requested.options().next().is_none() { 24103 } else { 900 };
        let record = node.record();
        let state = record.state_text();
        assert_eq!((record.real_memory, state.as_str()), (wanted, "IDLE+DYNAMIC_NORM"), "killed before effect {at}");
    }
}
