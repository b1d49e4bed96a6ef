//! The relation to the controllers: what is published there, what comes from there, and its end.

use super::Node;
use crate::names;
use charm::{Databag, Status};
use charm_testing::Hook;
use serde_json::json;
use slurm_conf::NodeName;
use slurm_ops::scontrol::{self, NodeLookup};
use slurm_unit::{retry, service};

#[test]
fn a_partition_that_slurm_refuses_is_named_on_the_unit_and_not_published() {
    let (node, relation) = Node::joined();
    node.machine.parser_refuses("maxtim");
    let before = node.model.app_bag(&relation, &node.app);
    node.set_option(names::OPTION_PARTITION_CONFIG, "MaxTim=60");
    let expected = "blocked: option partition-config `MaxTim=60`: unknown key `maxtim`, did you mean MaxTime?";
    assert_eq!(node.shown(), expected);
    assert_eq!(node.model.app_bag(&relation, &node.app), before);
    node.set_option(names::OPTION_PARTITION_CONFIG, "MaxTime=60");
    assert_eq!(node.shown(), "active: idle, partition compute");
    assert!(node.model.app_bag(&relation, &node.app)["partition"].contains("\"maxtime\""));
}

#[test]
fn a_partition_may_repeat_the_name_and_the_nodes_of_its_application() {
    let (node, relation) = Node::joined();
    node.set_option(names::OPTION_PARTITION_CONFIG, "PartitionName=compute Nodes=compute MaxTime=60");
    assert_eq!(node.shown(), "active: idle, partition compute");
    assert!(node.model.app_bag(&relation, &node.app)["partition"].contains("\"maxtime\""));
    node.set_option(names::OPTION_PARTITION_CONFIG, "PartitionName=other");
    assert!(node.shown().starts_with("blocked: option partition-config `PartitionName=other`"), "{}", node.shown());
}

#[test]
fn a_partition_with_a_key_that_only_slurm_knows_is_judged_once() {
    let (node, _) = Node::joined();
    node.set_option(names::OPTION_PARTITION_CONFIG, "NewKey=60");
    let judged = |calls: Vec<String>| calls.iter().filter(|call| *call == "scontrol version").count();
    assert_eq!(judged(node.machine.take_calls()), 1);
    let files = node.files();
    node.hook(&Hook::named("update-status"));
    assert_eq!((judged(node.machine.take_calls()), node.files()), (0, files));
}

#[test]
fn a_changed_key_is_loaded_at_once() {
    let (node, relation) = Node::joined();
    node.share_key(&relation, "B");
    node.hook(&Hook::app_changed(&relation, &node.controller));
    let reloads = |node: &Node| node.machine.take_calls().iter().filter(|call| call.contains(" reload -- ")).count();
    assert_eq!(reloads(&node), 1);
    for _ in 0..3 {
        node.hook(&Hook::named("update-status"));
    }
    assert_eq!(reloads(&node), 0, "once for each key");
}

#[test]
fn a_unit_added_to_a_cluster_waits_for_its_relation() {
    let node = Node::new();
    node.model.integrate((&node.app, "slurmctld"), (&node.controller, "slurmd")).unwrap();
    node.hook(&Hook::named("install"));
    assert_eq!(node.shown(), "waiting: for the relation with the controllers");
    // It may as well be one that has just ended, which Juju lists for some seconds.
    assert!(node.machine.read("/run/systemd/transient/compute-0-retry.timer").is_some());
}

#[test]
fn a_leaving_unit_starts_nothing_whoever_calls() {
    for event in [retry::EVENT, service::FAILURE_EVENT, "update-status"] {
        let (node, _) = Node::joined();
        node.model.begin_removal(&node.unit).unwrap();
        node.machine.crash(names::SERVICE);
        node.hook(&Hook::named(event));
        assert_eq!(node.shown(), "maintenance: leaving", "{event}");
        assert!(!node.machine.is_running(names::SERVICE), "{event}");
    }
}

#[test]
fn a_secret_that_is_not_granted_yet_is_waited_for() {
    let node = Node::deployed();
    let relation = node.integrate();
    let bag = Databag::from([
        ("auth_secret_id".to_owned(), json!("secret:d3k2v5nmp25c762q9999").to_string()),
        ("controllers".to_owned(), json!(["juju-c9fc6f-1:6817"]).to_string()),
    ]);
    node.model.play(&node.controller, &relation, &bag).unwrap();
    node.hook(&Hook::app_changed(&relation, &node.controller));
    assert!(!node.machine.is_running(names::SERVICE));
    assert!(matches!(node.model.status(&node.unit), Some(Status::Waiting(_))));
    node.offer(&relation);
    node.hook(&Hook::named(retry::EVENT));
    assert!(node.machine.is_running(names::SERVICE));
}

#[test]
fn an_empty_node_has_left_when_the_hook_that_ends_its_relation_does() {
    let (node, relation) = Node::joined();
    node.hook(&Hook::broken(&relation, None));
    assert!(!node.machine.is_running(names::SERVICE));
    assert_eq!(node.machine.read("/etc/slurm/slurm.jwks"), None);
    assert_eq!(node.shown(), "blocked: no controller: `juju integrate compute slurmctld`");
    let name = NodeName::new("compute-0").unwrap();
    assert!(!matches!(scontrol::node(&node.machine.machine().host(), &name), NodeLookup::Present(_)));
}

#[test]
fn a_node_with_a_job_outlives_the_end_of_its_relation() {
    let (node, relation) = Node::joined();
    let job = node.machine.submit(charm_testing::FakeJob::running("compute", "compute-0"));
    node.hook(&Hook::broken(&relation, None));
    assert!(node.machine.is_running(names::SERVICE));
    assert!(node.shown().starts_with("maintenance: draining: 1 job"), "{}", node.shown());
    assert_eq!(node.record().reason, slurm_unit::LEAVING_REASON);
    node.model.end(&relation);
    node.machine.end_job(job);
    node.hook(&Hook::named(retry::EVENT));
    assert!(!node.machine.is_running(names::SERVICE));
}

#[test]
fn a_secret_that_is_gone_and_a_relation_made_again_leave_the_node_as_it_is() {
    let (node, relation) = Node::joined();
    let files = node.files();
    node.model.end(&relation);
    let (again, _) = node.model.integrate((&node.app, "slurmctld"), (&node.controller, "slurmd")).unwrap();
    // Made again it gives this one hook, and nothing more.
    node.hook(&Hook::created(&again, &node.controller));
    assert!(node.machine.is_running(names::SERVICE));
    assert!(node.model.app_bag(&again, &node.app).contains_key("partition"));
    let bag = Databag::from([
        ("auth_secret_id".to_owned(), json!("secret:d3k2v5nmp25c762q9999").to_string()),
        ("controllers".to_owned(), json!(["juju-c9fc6f-1:6817"]).to_string()),
    ]);
    node.model.play(&node.controller, &again, &bag).unwrap();
    node.hook(&Hook::named(retry::EVENT));
    assert_eq!(node.shown(), "active: idle, partition compute");
    let mut after = node.files();
    after.retain(|path, _| !path.starts_with("run/systemd/transient"));
    assert_eq!(after, files, "the key on the disk goes on serving");
}

#[test]
fn a_relation_of_which_no_hook_tells_is_looked_at_by_the_timer_until_hooks_come_again() {
    const TIMER: &str = "/run/systemd/transient/compute-0-retry.timer";
    let (node, relation) = Node::joined();
    node.model.deafen(&node.unit, &relation, true).unwrap();
    node.hook(&Hook::named("update-status"));
    for _ in 0..3 {
        node.hook(&Hook::named(retry::EVENT));
        assert!(node.machine.read(TIMER).is_some(), "{}", node.shown());
    }
    node.model.deafen(&node.unit, &relation, false).unwrap();
    node.hook(&Hook::named(retry::EVENT));
    assert_eq!((node.machine.read(TIMER), node.shown().as_str()), (None, "active: idle, partition compute"));
}
