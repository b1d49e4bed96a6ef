//! What a compute unit does in each situation, and that it comes to an end.

use super::*;
use crate::node::lifecycle::Lifecycle;
use crate::options::given;
use crate::world::{World, detected, idle};
use slurm_conf::Node;
use slurm_ops::packages::Obstacle;
use slurm_ops::scontrol::NodeRecord;
use slurm_unit::Trigger;
use slurm_unit::follower::RemoteData;

pub(super) const NOTHING: [&str; 0] = [];

/// Checks the steps of one dispatch, and returns the world after it.
#[track_caller]
pub(super) fn check(mut world: World, expected: &[&str]) -> World {
    assert_eq!(world.dispatch().steps, expected);
    world
}

fn present(record: NodeRecord) -> NodeLookup {
    NodeLookup::Present(record)
}

#[test]
fn packages_come_first_and_need_no_controller() {
    let mut world = World::fresh();
    assert_eq!(world.dispatch().steps[0], "install slurmd");
    assert_eq!(world.installation.reported.as_deref(), Some("24.11.5"));
    assert_eq!(world.daemon.running, Running::Stopped);
    assert!(!world.timer);
}

#[test]
fn the_way_into_the_cluster_has_this_order() {
    let mut world = World::fresh();
    world.dispatch();
    let world = check(
        world.offered(),
        &[
            "publish partition to slurmctld:3",
            "write slurmd-charm-failed.service",
            "write the drop-in of slurmd.service",
            "write the authentication key",
            "write /etc/default/slurmd",
            "start slurmd",
            "note how the node is",
            "mark the node as joined",
            "open port 6818",
            "acknowledge the key to slurmctld:3",
        ],
    );
    assert!(world.timer, "until slurmctld has surely saved the node");
    assert_eq!(world.note().lifecycle, Lifecycle::Member);
}

#[test]
fn a_joined_node_does_nothing_and_sets_no_timer() {
    let world = check(World::joined(), &NOTHING);
    assert!(!world.timer);
}

#[test]
fn a_settled_dispatch_asks_nothing_that_costs_more_than_its_budget() {
    let done = World::joined().dispatch();
    let mut asked = done.asked;
    asked.sort();
    let expected = [
        Question::Glance,
        Question::Daemon,
        Question::Controller,
        Question::Identity,
        Question::Options,
        Question::Published,
        Question::KeySecret,
        Question::PortOpen,
        Question::RetryTimer,
        Question::Installation,
        Question::ServiceFiles,
        Question::StartFile,
        Question::KeyFile,
        Question::KeyWritten,
        Question::Note,
        Question::Boot,
        Question::MovedFrom,
    ];
    assert_eq!(asked, expected);
}

#[test]
fn the_leader_publishes_partition_and_node_set_before_it_knows_a_controller() {
    let mut world = World::fresh().related().with_partition_config("MaxTime=60 State=UP");
    world.dispatch();
    let data = ComputeData::decode(&world.published).unwrap().unwrap();
    assert_eq!(data.partition, world.options.partition.clone().unwrap());
    assert_eq!(data.nodeset, slurm_conf::NodeSet::new("compute", "compute").unwrap());
    assert!(world.timer);
}

#[test]
fn only_the_leader_publishes() {
    let mut world = World::fresh().offered().not_leading();
    world.dispatch();
    assert!(world.published.is_empty());
}

#[test]
fn a_partition_that_cannot_be_used_is_not_published_and_stops_nothing() {
    check(World::joined().with_partition_config("MaxTime=soon"), &NOTHING);
}

#[test]
fn a_partition_that_the_installed_slurm_refuses_is_not_published() {
    let mut world = World::joined().with_partition_config("MaxTim=60");
    world.verdict = Candidate::Refused { reason: "unrecognized key: MaxTim".to_owned() };
    let expected = "blocked: option partition-config `MaxTim=60`: unknown key `maxtim`, did you mean MaxTime?";
    assert_eq!(world.shown(), expected);
    check(world, &NOTHING);
}

#[test]
fn a_partition_that_is_published_is_not_judged_again() {
    let mut world = World::joined().with_partition_config("NewKey=60");
    assert!(world.dispatch().asked.contains(&Question::Verdict));
    assert!(!world.dispatch().asked.contains(&Question::Verdict));
}

#[test]
fn a_changed_partition_is_published_and_touches_no_daemon() {
    check(World::joined().with_partition_config("MaxTime=60"), &["publish partition to slurmctld:3"]);
}

#[test]
fn the_node_is_described_by_what_it_has_and_by_its_application() {
    let world = World::joined();
    let options = world.start_file.options.as_ref().unwrap();
    assert_eq!(options.name.as_str(), "compute-0");
    assert_eq!(
        world.conf(),
        "CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=24103 MemSpecLimit=1024 Feature=compute"
    );
    assert_eq!(options.controllers[0].to_string(), "c1:6817");
}

#[test]
fn a_small_machine_keeps_an_eighth_for_itself() {
    let mut world = World::fresh().offered();
    world.detected = Some(Node::from_detected("NodeName=x CPUs=1 RealMemory=900").unwrap());
    world.dispatch();
    assert!(world.conf().contains("MemSpecLimit=112"), "{}", world.conf());
}

#[test]
fn a_description_of_a_neighbour_that_has_gone_is_not_taken_over() {
    let mut world = World::fresh().offered();
    let mut left = World::joined().start_file.options.unwrap();
    left.name = "gpu-0".parse().unwrap();
    left.conf = Node::from_config("CPUs=1 Feature=gpu").unwrap();
    world.start_file.options = Some(left);
    world.dispatch();
    assert!(world.conf().contains("CPUs=2") && world.conf().ends_with("Feature=compute"), "{}", world.conf());
}

#[test]
fn a_node_that_a_crash_forgets_before_it_is_saved_is_back_with_the_next_look() {
    let mut world = World::fresh().offered();
    world.dispatch();
    assert!(world.timer, "the timer outlives the hook that joined");
    let mut world = world.later().called_by(Trigger::Retry).with_node(NodeLookup::Absent);
    assert_eq!(world.dispatch().steps[0], "reload slurmd");
    assert!(world.timer, "it has been marked again, so it is looked at again");
    let world = check(world.later(), &NOTHING);
    assert!(!world.timer);
}

#[test]
fn a_mark_that_did_not_take_is_looked_at_again() {
    let mut world = World::joined().with_node(present(idle()));
    world.vain = vec![Step::MarkJoined(world.boot.note.clone())];
    let world = check(world, &["mark the node as joined"]);
    assert!(world.timer);
}

#[test]
fn a_comment_of_the_administrator_stays() {
    let record = NodeRecord { comment: "rack 7".to_owned(), ..idle() };
    check(World::joined().with_node(present(record)), &NOTHING);
}

#[test]
fn a_node_outside_its_partition_is_looked_at_again() {
    let record = NodeRecord { partitions: Vec::new(), comment: "joined".to_owned(), ..idle() };
    let world = check(World::joined().with_node(present(record)), &NOTHING);
    assert!(world.timer);
}

#[test]
fn what_an_administrator_did_to_the_node_is_not_undone() {
    for states in [["IDLE", "DRAIN"], ["DOWN", "DYNAMIC_NORM"], ["ALLOCATED", "DRAIN"]] {
        let state = states.map(str::to_owned).to_vec();
        let record = NodeRecord { state, reason: "disk".to_owned(), comment: "joined".to_owned(), ..idle() };
        check(World::joined().with_node(present(record)), &NOTHING);
    }
}

#[test]
fn losing_the_data_stops_nothing() {
    let mut world = World::joined();
    world.controller.as_mut().unwrap().data = RemoteData::Nothing;
    let world = check(world, &NOTHING);
    assert!(world.timer);
}

#[test]
fn unusable_data_is_settled_until_it_changes() {
    let mut world = World::fresh().related();
    world.dispatch();
    assert!(world.timer);
    world.controller.as_mut().unwrap().data = RemoteData::Unusable("key controllers".to_owned());
    let world = check(world.called_by(Trigger::Retry), &NOTHING);
    assert!(!world.timer);
}

#[test]
fn a_relation_of_which_no_hook_tells_is_looked_at_again_by_the_timer() {
    let mut world = World::joined();
    world.controller.as_mut().unwrap().stale = true;
    assert_eq!(world.shown(), "active: idle, partition compute");
    let world = check(world, &NOTHING);
    assert!(world.timer);
}

#[test]
fn a_leaving_unit_changes_nothing() {
    for trigger in [Trigger::Juju, Trigger::Retry, Trigger::DaemonFailure] {
        let mut world = World::fresh().offered().called_by(trigger);
        world.leaving = true;
        world.timer = true;
        assert_eq!(world.shown(), "maintenance: leaving", "{trigger:?}");
        let world = check(world, &NOTHING);
        assert_eq!(world.timer, trigger != Trigger::Retry, "{trigger:?}");
    }
}

#[test]
fn a_leaving_unit_whose_slurmd_has_failed_does_not_start_it() {
    for trigger in [Trigger::Juju, Trigger::Retry, Trigger::DaemonFailure] {
        let mut world = World::joined().failing(None).called_by(trigger);
        world.leaving = true;
        assert_eq!(world.shown(), "maintenance: leaving", "{trigger:?}");
        check(world, &NOTHING);
    }
}

#[test]
fn a_slurmd_newer_than_its_controllers_is_not_started_and_one_that_runs_is_not_touched() {
    let mut world = World::fresh();
    world.dispatch();
    let mut world = world.offered();
    world.installation.version = Some("26.05.1".parse().unwrap());
    world.dispatch();
    assert_eq!(world.daemon.running, Running::Stopped);
    let mut world = world.later().called_by(Trigger::Retry);
    world.dispatch();
    assert!(!world.timer, "Juju tells when the controllers have been upgraded");
    let mut world = World::joined();
    world.installation.version = Some("26.05.1".parse().unwrap());
    world.installation.reported = Some("26.05.1".to_owned());
    let world = check(world.with_request("Weight=7"), &NOTHING);
    assert!(world.timer);
}

#[test]
fn a_description_that_slurmd_cannot_read_is_put_right() {
    let mut world = World::joined().failing(None);
    world.conf_mut().set("Bogus", "1").unwrap();
    assert_eq!(world.first_step(), "start slurmd", "it may fail for many reasons");
    world.complaint = Some("unrecognized key: Bogus / fatal: failed to create dynamic node 'x'".to_owned());
    assert_eq!(world.dispatch().steps[0], "write /etc/default/slurmd");
    assert!(!world.conf().contains("bogus"));
}

#[test]
fn packages_are_not_installed_from_a_source_that_cannot_be_used() {
    let bad = given([("slurm-source", "ppa:")]);
    check(World::fresh().with_options(&bad), &NOTHING);
    check(World::fresh().offered().not_leading().with_options(&bad), &NOTHING);
    check(World::joined().with_options(&bad), &NOTHING);
}

#[test]
fn a_source_that_does_not_answer_is_tried_again_later() {
    for obstacle in [Obstacle::Failed("no Release file".to_owned()), Obstacle::Passing("locked".to_owned())] {
        let mut world = World::fresh().with_options(&given([("slurm-source", "ppa:a/b")]));
        world.apt = Some(obstacle);
        for world in [world.clone(), world.related().not_leading()] {
            let world = check(world, &["install slurmd"]);
            assert!(world.timer);
        }
    }
}

#[test]
fn an_archive_without_a_usable_slurm_is_left_to_the_operator() {
    let mut world = World::fresh();
    world.apt = Some(Obstacle::Unknown { package: "slurmd".to_owned() });
    for world in [world.clone(), world.clone().related().not_leading(), world.offered().not_leading()] {
        let world = check(world, &["install slurmd"]);
        assert!(!world.timer);
    }
}

#[test]
fn a_slurm_that_is_too_old_is_replaced_unless_it_runs() {
    let mut world = World::fresh();
    world.installation.unfit = Some(Obstacle::TooOld { package: "slurmd".to_owned(), found: "23.11.4".to_owned() });
    assert_eq!(world.first_step(), "install slurmd");
    world.daemon.running = Running::Starting;
    assert_eq!(world.first_step(), "install slurmd");
    world.daemon.running = Running::Up;
    check(world.clone(), &NOTHING);
    check(world.offered().not_leading(), &NOTHING);
}

#[test]
fn packages_that_cannot_be_held_now_are_held_later() {
    let mut world = World::joined();
    world.installation.held = false;
    world.apt = Some(Obstacle::Passing("locked".to_owned()));
    let world = check(world, &["hold the packages of Slurm"]);
    assert!(world.timer);
}

#[test]
fn a_note_that_cannot_be_read_stops_work_on_the_description_and_nothing_else() {
    let mut world = World::joined().with_request("RealMemory=900");
    world.note.node = Err("/var/lib/slurmd-charm/node.json: EOF".to_owned());
    let conf = world.conf();
    let mut world = check(world, &NOTHING);
    assert!(world.shown().starts_with("blocked: /var/lib/slurmd-charm/node.json: EOF"), "{}", world.shown());
    // slurmd can be started all the same, with what it had.
    world.daemon.running = Running::Stopped;
    let world = check(world, &["start slurmd"]);
    assert_eq!((world.is_up(), world.conf()), (true, conf));
    assert!(world.note.node.is_err());
}

#[test]
fn notes_of_an_earlier_version_are_taken_over_first() {
    let mut world = World::joined();
    world.note.old = true;
    let expected = ["take over the notes of an earlier version", "remove the notes of an earlier version"];
    check(world, &expected);
}

#[test]
fn a_hook_killed_after_any_step_and_run_again_ends_in_the_same_state() {
    let mut goal = World::fresh().offered();
    let length = goal.dispatch().steps.len();
    for killed_after in 0..length {
        let mut world = World::fresh().offered();
        world.dispatch_until(killed_after);
        // What a dead hook told Juju is lost; what it did to the machine is not.
        world.port_open = false;
        world.published.clear();
        world.dispatch();
        assert_eq!(world.start_file, goal.start_file, "killed after {killed_after}");
        assert_eq!(world.node, goal.node, "killed after {killed_after}");
        assert_eq!(world.published, goal.published, "killed after {killed_after}");
        assert!(world.port_open);
    }
}

#[test]
fn a_little_more_memory_is_no_change() {
    let mut world = World::joined();
    world.note_mut().detection = None;
    world.detected = Some(detected(24_200));
    check(world, &["note how the node is"]);
}
