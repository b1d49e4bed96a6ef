//! Machines that others have a hand in.

use super::Node;
use crate::names;
use charm_testing::{FakeJob, Hook};
use serde_json::json;
use slurm_unit::{retry, service};
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_key_that_others_can_read_is_theirs_no_longer_after_any_hook() {
    let (node, _) = Node::joined();
    let path = node.machine.machine().path("/etc/slurm/slurm.jwks");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    node.hook(&Hook::named("update-status"));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn controllers_that_do_not_answer_are_asked_once_in_a_hook() {
    let (node, _) = Node::joined();
    node.machine.controllers_answer(false);
    node.hook(&Hook::named("update-status"));
    let asked = |calls: Vec<String>| {
        calls.iter().filter(|call| call.starts_with("sinfo") || call.starts_with("scontrol")).count()
    };
    assert_eq!(asked(node.machine.take_calls()), 1);
    node.machine.controllers_answer(true);
    node.hook(&Hook::named(retry::EVENT));
    assert_eq!(node.shown(), "active: idle, partition compute");
}

#[test]
fn what_the_operator_asks_for_is_looked_at_often_at_first_whatever_else_was_awaited() {
    let (node, _) = Node::joined();
    let job = node.machine.submit(FakeJob::running("compute", "compute-0"));
    for (memory, begun) in [("900", "--on-active=5 "), ("800", "restart -- compute-0-retry.timer")] {
        node.act("node-config", json!({"parameters": format!("RealMemory={memory}")}));
        let calls = node.machine.take_calls();
        assert_eq!(calls.iter().filter(|call| call.contains(begun)).count(), 1, "{memory}: {calls:?}");
        assert!(node.machine.read("/run/systemd/transient/compute-0-retry.timer").is_some());
    }
    node.machine.end_job(job);
}

#[test]
fn a_slurmd_whose_program_is_gone_is_told_and_no_hook_fails() {
    let (node, _) = Node::joined();
    node.machine.crash(names::SERVICE);
    node.machine.lose_program("slurmd");
    node.hook(&Hook::named(service::FAILURE_EVENT));
    assert!(node.shown().starts_with("blocked: slurmd fails"), "{}", node.shown());
    let options = node.machine.read(names::OPTIONS_FILE).unwrap();
    assert!(options.contains("CPUs=2"), "{options}");
    node.hook(&Hook::named("update-status"));
}

/// Which files a hook reads more than once.
fn read_twice(node: &Node, hook: &Hook) -> Vec<String> {
    node.machine.take_reads();
    node.hook(hook);
    let mut reads = node.machine.take_reads();
    reads.sort();
    reads.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone()).collect()
}

#[test]
fn no_file_is_read_twice_in_a_settled_hook() {
    let (node, _) = Node::joined();
    assert_eq!(read_twice(&node, &Hook::named("update-status")), Vec::<String>::new());
}

#[test]
fn a_unit_that_joins_reads_no_file_twice() {
    let node = Node::deployed();
    let relation = node.integrate();
    node.offer(&relation);
    // The step that writes the options of slurmd edits a file in which others may have a say.
    assert_eq!(read_twice(&node, &Hook::app_changed(&relation, &node.controller)), [names::OPTIONS_FILE]);
    assert_eq!(node.shown(), "active: idle, partition compute");
}
