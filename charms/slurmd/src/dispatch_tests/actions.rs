//! Actions of a compute unit, from their parameters to their answer.

use super::Node;
use crate::names;
use crate::node::lifecycle::Lifecycle;
use charm_testing::{Dispatched, FakeJob, Hook};
use serde_json::json;
use slurm_unit::retry;

#[track_caller]
fn refused(done: &Dispatched, expected: &str) {
    assert!(done.succeeded, "a refusal is no failure of the charm: {done:#?}");
    let failure = done.failure.as_deref().unwrap_or_else(|| panic!("not refused: {done:#?}"));
    assert!(failure.contains(expected), "{failure}");
}

#[track_caller]
fn answered<'a>(done: &'a Dispatched, key: &str) -> &'a str {
    assert!(done.succeeded && done.failure.is_none(), "{done:#?}");
    done.results.get(key).unwrap_or_else(|| panic!("no {key}: {done:#?}"))
}

#[test]
fn node_config_without_anything_shows_what_is() {
    let (node, _) = Node::joined();
    let files = node.files();
    let done = node.act("node-config", json!({}));
    assert!(answered(&done, "node-parameters").contains("RealMemory=24103"), "{done:#?}");
    assert_eq!(answered(&done, "user-supplied-node-parameters"), "");
    assert_eq!(answered(&done, "pending"), "");
    assert_eq!(node.files(), files);
}

#[test]
fn an_empty_node_takes_its_new_description_at_once_and_keeps_it() {
    let (node, _) = Node::joined();
    let done = node.act("node-config", json!({"parameters": "realmemory=900 Weight=7"}));
    assert!(answered(&done, "node-parameters").contains("RealMemory=900"), "{done:#?}");
    let record = node.record();
    assert_eq!((record.real_memory, record.weight, record.state_text().as_str()), (900, 7, "IDLE+DYNAMIC_NORM"));
    assert_eq!(record.comment, "joined");
    // A second wish adds to the first.
    assert!(node.act("node-config", json!({"parameters": "CPUs=1"})).succeeded);
    assert_eq!((node.record().real_memory, node.record().cpus), (900, 1));
    assert!(node.act("node-config", json!({"reset": true})).succeeded);
    assert_eq!((node.record().real_memory, node.record().weight), (24103, 1));
    assert_eq!(node.shown(), "active: idle, partition compute");
}

#[test]
fn a_busy_node_is_not_touched_until_its_job_has_ended() {
    let (node, _) = Node::joined();
    let job = node.machine.submit(FakeJob::running("compute", "compute-0"));
    let options = node.machine.read(names::OPTIONS_FILE);
    let done = node.act("node-config", json!({"parameters": "RealMemory=900 Weight=7"}));
    assert_eq!(answered(&done, "pending"), format!("node-config waits for job {job}, `drain` helps"));
    let record = node.record();
    assert_eq!((record.real_memory, record.weight, record.state_text().as_str()), (24103, 7, "MIXED+DYNAMIC_NORM"));
    let expected = format!("active: mixed, partition compute; node-config waits for job {job}, `drain` helps");
    assert_eq!(node.shown(), expected);
    let calls = node.machine.take_calls();
    assert!(!calls.iter().any(|call| call.contains("state=drain") || call.contains("restart")), "{calls:#?}");
    for hook in ["update-status", "config-changed", retry::EVENT] {
        node.hook(&Hook::named(hook));
        assert_eq!(node.machine.read(names::OPTIONS_FILE), options);
    }
    assert!(node.act("node-config", json!({"reset": true})).succeeded);
    assert_eq!((node.record().weight, node.shown().as_str()), (1, "active: mixed, partition compute"));
    assert!(node.act("node-config", json!({"parameters": "RealMemory=900 Weight=7"})).succeeded);
    node.machine.end_job(job);
    node.hook(&Hook::named(retry::EVENT));
    assert_eq!((node.record().real_memory, node.record().weight), (900, 7));
    assert_eq!(node.shown(), "active: idle, partition compute");
    node.hook(&Hook::named(retry::EVENT));
    let note = node.note();
    assert_eq!((note.lifecycle, note.set_weight), (Lifecycle::Member, None));
}

#[test]
fn what_an_administrator_closed_stays_closed() {
    let (node, _) = Node::joined();
    assert_eq!(answered(&node.act("drain", json!({"reason": "disk #3 isn't \"well\""})), "status"), "draining");
    assert!(node.act("node-config", json!({"parameters": "RealMemory=900"})).succeeded);
    let record = node.record();
    assert_eq!((record.real_memory, record.reason.as_str()), (900, "disk #3 isn't \"well\""));
    assert!(record.has("DRAIN"));
    assert_eq!(answered(&node.act("resume", json!({})), "nodes"), "compute-0");
    assert!(!node.record().has("DRAIN"));
}

#[test]
fn scripts_of_the_python_charm_get_their_answers() {
    let (node, _) = Node::joined();
    let done = node.act("set-node-config", json!({"parameters": "Weight=7"}));
    assert_eq!(answered(&done, "accepted"), "True");
    node.machine.parser_refuses("bogus");
    let done = node.act("set-node-config", json!({"parameters": "Bogus=1"}));
    refused(&done, "Validation for node configuration parameters 'Bogus=1' failed. Reason:\n");
    assert_eq!(done.results["accepted"], "False");
    let done = node.act("set-node-config", json!({"parameters": "state=down"}));
    refused(&done, "Cannot apply node configuration parameters 'state=down'. Reason: Overrides charm-managed");
    assert_eq!(done.results["accepted"], "False");
}

#[test]
fn jobs_are_destroyed_only_if_it_is_meant() {
    let (node, _) = Node::joined();
    let here = node.machine.submit(FakeJob::running("compute", "compute-[0-1]"));
    let elsewhere = node.machine.submit(FakeJob::running("compute", "compute-1"));
    let waiting = node.machine.submit(FakeJob::waiting("compute", "Resources"));
    let done = node.act("destroy-jobs", json!({"dry-run": true}));
    assert_eq!((answered(&done, "jobs"), answered(&done, "dry-run")), (here.to_string().as_str(), "true"));
    assert_eq!(node.machine.jobs(), [here, elsewhere, waiting]);
    let done = node.act("destroy-jobs", json!({}));
    assert_eq!((answered(&done, "jobs"), answered(&done, "destroyed")), (here.to_string().as_str(), "1"));
    assert_eq!(node.machine.jobs(), [elsewhere, waiting]);
}

#[test]
fn a_node_that_slurm_does_not_know_is_refused_in_words() {
    let node = Node::deployed();
    for (action, parameters) in [
        ("resume", json!({})),
        ("drain", json!({"reason": "x"})),
        ("destroy-jobs", json!({})),
        ("show-node", json!({})),
    ] {
        refused(&node.act(action, parameters), "slurmctld does not answer");
    }
    let (node, _) = Node::joined();
    node.machine.controllers_answer(false);
    refused(&node.act("resume", json!({})), "slurmctld does not answer");
}

#[test]
fn show_node_tells_what_slurm_knows() {
    let (node, _) = Node::joined();
    let job = node.machine.submit(FakeJob::running("compute", "compute-0"));
    let done = node.act("show-node", json!({}));
    for (key, value) in
        [("node", "compute-0"), ("unit", "compute/0"), ("state", "MIXED+DYNAMIC_NORM"), ("memory", "24103")]
    {
        assert_eq!(answered(&done, key), value);
    }
    assert_eq!(answered(&done, "jobs"), job.to_string());
}

#[test]
fn a_record_that_a_pending_job_names_is_not_deleted() {
    let (node, _) = Node::joined();
    let job = node
        .machine
        .submit(FakeJob { required: "compute-[0-1]".to_owned(), ..FakeJob::waiting("compute", "ReqNodeNotAvail") });
    let done = node.act("node-config", json!({"parameters": "RealMemory=900"}));
    assert_eq!(answered(&done, "pending"), format!("node-config waits for pending job {job}"));
    let expected = format!("active: idle, partition compute; node-config waits for pending job {job}");
    assert_eq!((node.shown(), node.record().real_memory), (expected, 24103));
    node.machine.end_job(job);
    node.hook(&Hook::named(retry::EVENT));
    assert_eq!((node.shown().as_str(), node.record().real_memory), ("active: idle, partition compute", 900));
}

#[test]
fn a_job_that_waits_for_any_node_is_no_reason_to_wait() {
    let (node, _) = Node::joined();
    node.machine.submit(FakeJob::waiting("compute", "Resources"));
    assert!(node.act("node-config", json!({"parameters": "RealMemory=900"})).succeeded);
    assert_eq!(node.record().real_memory, 900);
}

#[test]
fn a_note_that_cannot_be_read_is_put_aside_only_by_a_reset() {
    let (node, _) = Node::joined();
    node.machine.write(names::NODE_NOTE, "{\"version\": 99}\n");
    node.hook(&Hook::named("update-status"));
    assert!(node.shown().starts_with("blocked: /var/lib/slurmd-charm/node.json: version 99"), "{}", node.shown());
    refused(&node.act("node-config", json!({"parameters": "Weight=7"})), "version 99 is unknown to this charm");
    assert_eq!(node.machine.read(names::NODE_NOTE).as_deref(), Some("{\"version\": 99}\n"));
    assert!(node.act("node-config", json!({"reset": true})).succeeded);
    assert_eq!(node.shown(), "active: idle, partition compute");
}

#[test]
fn an_action_that_breaks_says_why() {
    let (node, _) = Node::joined();
    // No file can be replaced in what is no directory.
    std::fs::remove_dir_all(node.machine.machine().path("/var/lib/slurmd-charm")).unwrap();
    node.machine.write("/var/lib/slurmd-charm", "");
    let done = node.act("node-config", json!({"parameters": "Weight=7"}));
    assert!(done.succeeded, "{done:#?}");
    assert!(done.failure.as_deref().is_some_and(|why| why.contains("/var/lib/slurmd-charm")), "{done:#?}");
}
