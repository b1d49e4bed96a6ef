//! What an operator reads in each situation.

use super::*;
use crate::options::given;
use crate::world::{World, idle, set_aside, unreachable};
use charm::runtime::Condition as _;
use charm::tools::Unreadable;
use slurm_ops::packages::Obstacle;
use slurm_unit::follower::{FollowerCondition, KeySecret, RemoteData};
use slurm_unit::service::Running;

fn record(states: &[&str], reason: &str) -> NodeRecord {
    let state = states.iter().map(|state| (*state).to_owned()).collect();
    NodeRecord { state, reason: reason.to_owned(), comment: "joined".to_owned(), ..idle() }
}

fn with_record(states: &[&str], reason: &str) -> World {
    World::joined().with_node(NodeLookup::Present(record(states, reason)))
}

#[test]
fn a_usable_node_says_its_state_and_partition() {
    assert_eq!(World::joined().shown(), "active: idle, partition compute");
    assert_eq!(with_record(&["MIXED", "DYNAMIC_NORM"], "").shown(), "active: mixed, partition compute");
    assert_eq!(with_record(&["ALLOCATED"], "old story").shown(), "active: allocated, partition compute");
}

#[test]
fn what_an_administrator_drained_is_active_and_says_why() {
    let shown = |states: &[&str]| with_record(states, "disk").shown();
    assert_eq!(shown(&["IDLE", "DRAIN"]), "active: drained, partition compute: disk");
    assert_eq!(shown(&["ALLOCATED", "DRAIN"]), "active: draining, partition compute: disk");
    assert_eq!(shown(&["IDLE", "FAIL"]), "active: fail, partition compute: disk");
    assert_eq!(shown(&["MIXED", "FAIL"]), "active: failing, partition compute: disk");
}

#[test]
fn a_node_whose_partition_starts_no_jobs_says_so() {
    let mut world = World::joined();
    for state in ["DOWN", "DRAIN", "INACTIVE"] {
        world.partition_state = Some(state.to_owned());
        let way_out = "scontrol update partitionname=compute state=up";
        assert_eq!(world.shown(), format!("active: idle, partition compute is {state}: {way_out}"));
    }
    let mut world = World::joined().with_partition_config("State=DOWN");
    world.partition_state = Some("DOWN".to_owned());
    assert_eq!(world.shown(), "active: idle, partition compute is DOWN: see option partition-config");
}

#[test]
fn the_reason_of_a_drained_node_is_told_in_a_closed_partition_too() {
    let mut world = with_record(&["IDLE", "DRAIN"], "disk");
    world.partition_state = Some("DOWN".to_owned());
    assert_eq!(world.shown(), "active: drained, partition compute is DOWN: disk");
}

#[test]
fn a_node_that_is_down_needs_the_operator() {
    let world = with_record(&["DOWN", "DYNAMIC_NORM"], "Node unexpectedly rebooted");
    let expected = "blocked: down, partition compute: Node unexpectedly rebooted: run action resume";
    assert_eq!(world.shown(), expected);
    let world = with_record(&["IDLE", "DRAIN", "INVALID_REG"], "Low RealMemory");
    assert_eq!(world.shown(), "blocked: slurmctld refuses this node: Low RealMemory");
}

#[test]
fn a_node_that_slurm_reboots_is_looked_at_until_it_is_back() {
    let mut world = with_record(&["DOWN", "DRAIN", "REBOOT_ISSUED"], "fan : reboot issued");
    assert_eq!(world.shown(), "waiting: for Slurm to reboot this machine");
    world.dispatch();
    assert!(world.timer);
    let mut world = with_record(&["DOWN", "DRAIN"], "fan : reboot issued : reboot timed out");
    assert!(world.shown().starts_with("blocked: "), "{}", world.shown());
    world.dispatch();
    assert!(world.timer);
    let mut world = with_record(&["DOWN"], "fan");
    world.dispatch();
    assert!(!world.timer);
}

#[test]
fn a_node_that_is_not_heard_is_awaited() {
    let mut world = with_record(&["DOWN", "NOT_RESPONDING"], "Not responding");
    assert_eq!(world.shown(), "waiting: for slurmctld to reach this node, down");
    world.cause = Some(Cause::Clocks);
    let expected = "waiting: for slurmctld to reach this node, down: its clock is behind this one";
    assert_eq!(world.shown(), expected);
}

#[test]
fn a_clock_that_differs_is_named_before_it_costs_a_job() {
    let mut world = World::joined();
    world.timer = true;
    world.skew = Some(600);
    let expected = "blocked: this clock is 600 s ahead of slurmctld's: jobs fail here until they agree";
    assert_eq!(world.shown(), expected);
    assert!(world.dispatch().conditions.iter().any(charm::runtime::Condition::needs_retry));
    world.skew = Some(-90);
    assert!(world.shown().contains("90 s behind slurmctld's"));
}

#[test]
fn registered_is_not_usable() {
    let record = NodeRecord { partitions: Vec::new(), ..idle() };
    let world = World::joined().with_node(NodeLookup::Present(record));
    assert_eq!(world.shown(), "waiting: for compute-0 to be in partition compute");
}

#[test]
fn running_is_not_registered() {
    let mut world = World::joined().with_node(NodeLookup::Absent);
    world.daemon.with.as_mut().unwrap().controllers.clear();
    world.vain = vec![crate::step::Step::ReloadDaemon];
    assert_eq!(world.shown(), "waiting: for compute-0 to register");
    let mut world = World::joined().with_node(unreachable());
    assert_eq!(world.shown(), "waiting: for c1:6817 to answer");
    world.daemon.running = Running::Starting;
    world.key_written = None;
    assert_eq!(world.shown(), "waiting: for c1:6817 to answer slurmd");
}

#[test]
fn each_missing_thing_has_its_own_words() {
    assert_eq!(World::fresh().shown(), "blocked: no controller: `juju integrate compute slurmctld`");
    let world = World::fresh().related();
    assert_eq!(world.shown(), "waiting: for slurmctld to publish its address");
    let secret = |why| World::fresh().offered().with_secret(KeySecret::Unreadable(why)).shown();
    assert_eq!(secret(Unreadable::NotAllowed), "waiting: for slurmctld to share its key");
    assert_eq!(secret(Unreadable::NotFound), "waiting: for slurmctld to renew its key secret");
}

#[test]
fn a_relation_that_juju_does_not_show_yet_is_awaited() {
    let mut world = World::fresh();
    world.relation_expected = true;
    assert_eq!(world.shown(), "waiting: for the relation with the controllers");
}

#[test]
fn a_bad_option_is_named_with_value_and_key_whatever_else_is() {
    let world = World::joined().with_partition_config("Hidden=2");
    let expected = "blocked: option partition-config `Hidden=2`: value `2` of Hidden: expected YES or NO";
    assert_eq!(world.shown(), expected);
    let world = World::joined().with_options(&given([("default-node-state", "up")]));
    assert_eq!(world.shown(), "blocked: option default-node-state `up`: expected `idle` or `down`");
}

#[test]
fn unusable_data_names_its_application() {
    let mut world = World::joined();
    world.controller.as_mut().unwrap().data = RemoteData::Unusable("key controllers: not a list".to_owned());
    assert_eq!(world.shown(), "blocked: slurmctld: key controllers: not a list");
}

#[test]
fn a_change_that_waits_says_for_what() {
    let world = World::joined().with_request("RealMemory=900").with_jobs(&[7]);
    assert_eq!(world.shown(), "active: idle, partition compute; node-config waits for job 7, `drain` helps");
    let mut world = world.with_jobs(&[7, 8, 9, 10]);
    set_aside(world.record_mut(), "DRAIN", "disk");
    assert_eq!(world.shown(), "active: drained, partition compute: disk; node-config waits for jobs 7,8,9,…");
}

#[test]
fn reasons_from_the_journal_are_named_in_our_words() {
    let silent = |why: &str| World::joined().with_node(NodeLookup::Unreachable { why: why.to_owned() });
    let mut world = silent("getaddrinfo() failed");
    assert_eq!(world.shown(), "waiting: for a name of c1:6817 to resolve on this machine");
    world = silent("Protocol authentication error");
    world.key_written = None;
    assert_eq!(world.shown(), "waiting: for c1:6817, which refuses this node: right key, so do clocks differ?");
    let world = world.with_secret(KeySecret::Unreadable(Unreadable::NotAllowed));
    assert_eq!(world.shown(), "waiting: for the key of c1:6817: the one on this machine is refused");
    let mut world = World::joined().failing(Some("fatal: failed to bind"));
    world.vain = vec![crate::step::Step::StartDaemon];
    assert_eq!(world.shown(), "blocked: slurmd fails (exit-code): fatal: failed to bind");
}

#[test]
fn what_the_operator_has_to_mend_is_said() {
    let mut world = World::joined();
    world.installation.version = Some("26.05.1".parse().unwrap());
    let expected = "blocked: slurmd 26.05.1 is newer than slurmctld 24.11.5: upgrade slurmctld first";
    assert_eq!(world.shown(), expected);
    let mut world = World::joined();
    world.daemon.kill_mode = "control-group".to_owned();
    assert!(world.shown().starts_with("blocked: KillMode=control-group of slurmd kills jobs"));
}

#[test]
fn what_keeps_slurm_from_being_installed_is_told_with_the_way_out() {
    let mut world = World::fresh().related();
    let way_out = "set option slurm-source, e.g. ppa:ubuntu-hpc/slurm-wlm-25.11";
    let old = Obstacle::TooOld { package: "slurmd".to_owned(), found: "23.11.4".to_owned() };
    world.apt = Some(old.clone());
    assert_eq!(world.shown(), format!("blocked: slurmd 23.11.4 is too old, 24.11 is needed: {way_out}"));
    world.apt = Some(Obstacle::Failed("no space left".to_owned()));
    assert_eq!(world.shown(), "blocked: installing slurmd failed: no space left");
    world = world.with_options(&given([("slurm-source", "ppa:a/b")]));
    assert_eq!(world.shown(), "blocked: option slurm-source: installing failed: no space left");
    world.apt = Some(Obstacle::Passing("Could not get lock".to_owned()));
    assert_eq!(world.shown(), "waiting: for apt: Could not get lock");
    world.installation.unfit = Some(old);
    world.daemon.running = Running::Up;
    let expected =
        "blocked: slurmd 23.11.4 is too old, 24.11 is needed, and it runs: stop slurmd, then set option slurm-source";
    assert_eq!(world.shown(), expected);
}

#[test]
fn an_application_whose_name_slurm_keeps_for_itself_is_told_so() {
    let mut world = World::fresh();
    world.identity.unit = "all/0".parse().unwrap();
    let expected = "blocked: Slurm reserves the name all, so no partition can have it: deploy under another";
    assert_eq!(world.shown(), expected);
}

#[test]
fn a_leaving_unit_is_never_blocked() {
    let mut world = World::fresh();
    world.identity.departs = true;
    assert_eq!(world.shown(), "maintenance: leaving");
}

#[test]
fn what_an_operator_has_to_do_is_not_waited_for_by_the_timer() {
    let retries = |condition: &Condition| condition.needs_retry();
    assert!(!retries(&Condition::Follower(FollowerCondition::NotRelated("compute".parse().unwrap()))));
    assert!(retries(&Condition::Follower(FollowerCondition::Stopped)));
}
