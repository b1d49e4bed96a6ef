//! slurmd in each situation: started, restarted, reloaded, left alone.

use super::tests::{NOTHING, check};
use super::*;
use crate::node::lifecycle::BootNote;
use crate::world::{World, keys, unreachable};
use charm::tools::Unreadable;
use slurm_ops::keys::AuthKey;
use slurm_unit::Trigger;
use slurm_unit::follower::KeySecret;

use std::time::Duration;

const NOTE: &str = "note what is known until the next boot";

#[test]
fn without_a_key_nothing_is_started_and_the_unit_looks_again() {
    for why in [Unreadable::NotAllowed, Unreadable::NotFound, Unreadable::AgentGone] {
        let mut world = World::fresh().offered().with_secret(KeySecret::Unreadable(why));
        world.dispatch();
        assert_eq!(world.daemon.running, Running::Stopped);
        assert!(world.timer);
    }
}

#[test]
fn a_key_on_the_disk_goes_on_serving_when_the_secret_is_gone() {
    check(World::joined().with_secret(KeySecret::Unreadable(Unreadable::NotAllowed)), &NOTHING);
    let mut world = World::joined().with_secret(KeySecret::Unreadable(Unreadable::NotFound));
    world.daemon.running = Running::Stopped;
    assert_eq!(world.first_step(), "start slurmd");
}

#[test]
fn a_changed_key_is_written_and_loaded_at_once() {
    let expected = [NOTE, "write the authentication key", "reload slurmd", NOTE];
    let world = check(World::joined().with_secret(KeySecret::Offered(keys("B"))), &expected);
    check(world, &NOTHING);
}

#[test]
fn a_key_that_was_written_by_a_dispatch_that_died_is_loaded_once() {
    let mut world = World::joined().with_secret(KeySecret::Offered(keys("B")));
    world.dispatch_until(2);
    // In the very second in which slurmd was started.
    assert_eq!(world.key_written.unwrap().as_secs(), world.daemon.started.unwrap());
    let world = check(world, &["reload slurmd", NOTE]);
    check(world, &NOTHING);
}

#[test]
fn a_key_is_not_loaded_at_the_price_of_jobs() {
    let mut world = World::joined().with_secret(KeySecret::Offered(keys("B")));
    world.daemon.kill_mode = "control-group".to_owned();
    let world = check(world, &[NOTE, "write the authentication key"]);
    assert!(world.boot.note.key_is_due);
}

#[test]
fn a_slurmd_that_systemd_has_lost_sight_of_is_restarted_for_a_key() {
    let mut world = World::joined().with_secret(KeySecret::Offered(keys("B")));
    world.stale_processes = true;
    assert_eq!(world.dispatch().steps[..4], [NOTE, "write the authentication key", "restart slurmd", NOTE]);
    assert!(!world.boot.note.key_is_due);
}

#[test]
fn a_key_is_acknowledged_once_slurmd_has_loaded_it() {
    let set = keys("A").with(AuthKey::new("k2", &"B".repeat(128)).unwrap());
    let world = World::joined().with_secret(KeySecret::Offered(set));
    let told = |world: &World| world.own_bag["unit_auth_key_ids"].clone();
    assert_eq!(told(&world), "[\"k1\"]");
    let loaded = [NOTE, "write the authentication key", "reload slurmd", NOTE];
    let steps = [&loaded[..], &[NOTE, "acknowledge the key to slurmctld:3"]].concat();
    let world = check(world, &steps);
    assert_eq!(told(&world), "[\"k1\", \"k2\"]");
    assert!(world.timer, "a later dispatch looks whether Juju has it");
    check(world.called_by(Trigger::Retry), &[NOTE]);
}

#[test]
fn a_key_that_was_there_before_the_start_is_not_loaded_again() {
    let mut world = World::joined();
    world.start();
    check(world, &["note how the node is"]);
}

#[test]
fn a_changed_list_of_controllers_is_written_for_the_next_start_only() {
    let world = check(World::joined().with_controllers(&["c1", "c2"]), &["write /etc/default/slurmd"]);
    assert_eq!(world.daemon.with.unwrap().controllers.len(), 1);
}

#[test]
fn a_daemon_whose_controllers_are_all_gone_is_restarted_with_the_new_ones() {
    let mut world = World::joined().with_controllers(&["c9"]);
    world.dispatch();
    assert_eq!(world.daemon.with.as_ref().unwrap().controllers[0].host.as_str(), "c1");
    assert_eq!(world.with_node(unreachable()).first_step(), "restart slurmd");
}

#[test]
fn controllers_that_do_not_answer_are_no_reason_to_restart() {
    let world = check(World::joined().with_node(unreachable()), &NOTHING);
    assert!(world.timer);
}

#[test]
fn a_restart_lost_with_the_last_hook_is_made_up_for() {
    let mut world = World::joined();
    world.daemon.with = None;
    assert_eq!(world.first_step(), "restart slurmd");
}

#[test]
fn a_node_that_the_controllers_forgot_registers_again() {
    check(World::joined().with_node(NodeLookup::Absent), &["reload slurmd", "mark the node as joined"]);
}

#[test]
fn a_node_whose_address_changed_registers_again_once() {
    let mut world = World::joined();
    world.moved_from = Some("192.0.2.7".to_owned());
    let world = check(world, &["reload slurmd", NOTE]);
    assert_eq!(world.boot.note.address.as_deref(), Some("192.0.2.7"));
    check(world, &NOTHING);
}

#[test]
fn a_slurmd_stuck_beside_its_successor_is_restarted_because_it_hears_no_reload() {
    let mut world = World::joined().with_node(NodeLookup::Absent);
    world.stale_processes = true;
    assert_eq!(world.first_step(), "restart slurmd");
    // Not at the price of jobs.
    world.daemon.kill_mode = "control-group".to_owned();
    assert_eq!(world.first_step(), "reload slurmd");
}

#[test]
fn a_slurmd_stuck_in_a_reconfigure_is_restarted_and_one_whose_controller_is_away_is_not() {
    let mut world = World::joined().with_node(unreachable());
    check(world.clone(), &NOTHING);
    world.stale_processes = true;
    assert_eq!(world.first_step(), "restart slurmd");
    world.daemon.kill_mode = "control-group".to_owned();
    let world = check(world, &NOTHING);
    assert!(world.timer, "not at the price of jobs");
}

#[test]
fn a_daemon_just_started_is_given_time_to_register() {
    let mut world = World::joined();
    world.daemon.running = Running::Stopped;
    world.vain = vec![Step::MarkJoined(BootNote::default())];
    assert_eq!(world.first_step(), "start slurmd");
    let mut world = World::joined().with_node(NodeLookup::Absent);
    world.daemon.with = None;
    world.vain = vec![Step::RestartDaemon];
    let world = check(world, &["restart slurmd"]);
    assert!(world.timer);
}

#[test]
fn a_daemon_that_does_not_come_up_is_started_once_per_dispatch() {
    let mut world = World::joined().failing(None);
    world.vain = vec![Step::StartDaemon];
    let world = check(world, &["start slurmd"]);
    assert!(world.timer);
}

#[test]
fn a_daemon_that_waits_for_its_controller_is_left_alone() {
    let mut world = World::joined().with_node(unreachable());
    world.daemon.running = Running::Starting;
    world.key_written = Some(Duration::from_secs(1));
    let world = check(world, &NOTHING);
    assert!(world.timer);
}

#[test]
fn a_call_because_of_a_failure_starts_nothing_and_leaves_the_next_try_to_the_timer() {
    let world = check(World::joined().failing(None).called_by(Trigger::DaemonFailure), &NOTHING);
    assert!(world.timer);
}

/// A node whose key was replaced in the second in which slurmd was started, so that it counts as loaded.
fn refused() -> World {
    let why = "Protocol authentication error".to_owned();
    World::joined().with_node(NodeLookup::Unreachable { why })
}

#[test]
fn a_daemon_with_an_old_key_that_is_refused_is_restarted_and_nobody_else_is() {
    let mut world = refused();
    assert_eq!(world.first_step(), "restart slurmd");
    world.key_written = Some(Duration::from_secs(1));
    check(world.clone(), &NOTHING);
    let mut world = refused();
    world.daemon.kill_mode = "control-group".to_owned();
    check(world, &NOTHING);
}

#[test]
fn a_daemon_that_waits_with_an_old_key_is_started_with_the_new_one() {
    let mut world = World::joined().with_node(unreachable()).called_by(Trigger::DaemonFailure);
    world.daemon.running = Running::Starting;
    assert_eq!(world.first_step(), "restart slurmd");
    world.key_written = Some(Duration::from_secs(1));
    check(world, &NOTHING);
}

#[test]
fn a_daemon_that_looks_for_controllers_that_are_gone_is_started_anew() {
    let mut world = World::joined().with_controllers(&["c9"]).with_node(unreachable());
    world.daemon.running = Running::Starting;
    world.key_written = Some(Duration::from_secs(1));
    assert_eq!(world.dispatch().steps[..2], ["write /etc/default/slurmd", "restart slurmd"]);
    assert!(world.is_up());
}

#[test]
fn units_that_systemd_has_not_read_are_read() {
    let mut world = World::joined();
    world.daemon.needs_reload_of_units = true;
    check(world, &["have systemd read its unit files"]);
}
