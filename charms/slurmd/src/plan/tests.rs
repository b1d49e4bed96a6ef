//! What a compute unit does in each situation, and that it comes to an end.

use super::situations::{ROUNDS, idle};
use super::*;
use crate::observe::Record;
use crate::options::Given;
use charm::tools::Unreadable;
use slurm_conf::Node;

fn steps(seen: &Observed) -> Vec<String> {
    plan(seen).steps.iter().map(ToString::to_string).collect()
}

/// Checks the first plan, and that what follows from it comes to an end.
#[track_caller]
fn check(seen: Observed, expected: &[&str]) {
    assert_eq!(steps(&seen), expected);
    seen.settled();
}

#[test]
fn packages_come_first_and_need_no_controller() {
    check(Observed::fresh(), &["install slurmd"]);
    let seen = Observed::fresh().settled();
    assert_eq!(seen.machine.reported_version.as_deref(), Some("24.11.5"));
    assert_eq!(seen.machine.daemon, Daemon::Stopped);
    assert!(!seen.waking);
}

#[test]
fn the_way_into_the_cluster_has_this_order() {
    let mut seen = Observed::fresh().settled().offered();
    let mut order = Vec::new();
    for _ in 0..ROUNDS {
        let plan = plan(&seen).steps;
        order.extend(plan.iter().map(ToString::to_string));
        plan.iter().for_each(|step| seen.apply_in_memory(step));
    }
    let expected = [
        "publish partition to slurmctld:3",
        "write slurmd-charm-failed.service",
        "write the drop-in of slurmd.service",
        "write the authentication key",
        "write /etc/default/slurmd",
        "start slurmd",
        "remember what this machine has",
        "mark the node as joined",
        "open port 6818",
        // Until slurmctld has surely saved the node.
        "look again soon",
    ];
    assert_eq!(order, expected);
}

#[test]
fn a_joined_node_does_nothing_and_sets_no_timer() {
    let seen = Observed::joined();
    assert!(!seen.waking);
    check(seen, &[]);
}

#[test]
fn the_leader_publishes_partition_and_node_set_before_it_knows_a_controller() {
    let seen = Observed::fresh().related().with_partition_config("MaxTime=60 State=UP").settled();
    let published = &seen.controller.as_ref().unwrap().published;
    let data = ComputeData::decode(published).unwrap().unwrap();
    assert_eq!(data.partition, seen.options.partition.clone().unwrap());
    assert_eq!(data.nodeset.feature().as_str(), "compute");
    assert!(seen.waking);
}

#[test]
fn only_the_leader_publishes() {
    let seen = Observed::fresh().offered().not_leading().settled();
    assert!(seen.controller.unwrap().published.is_empty());
}

#[test]
fn a_partition_that_cannot_be_used_is_not_published_and_stops_nothing() {
    let seen = Observed::joined().with_partition_config("MaxTime=soon");
    check(seen, &[]);
}

#[test]
fn a_changed_partition_is_published_and_touches_no_daemon() {
    check(Observed::joined().with_partition_config("MaxTime=60"), &["publish partition to slurmctld:3"]);
}

#[test]
fn the_node_is_described_by_what_it_has_and_by_its_application() {
    let seen = Observed::joined();
    let launch = seen.machine.written.unwrap();
    assert_eq!(launch.node_name.as_str(), "compute-0");
    assert_eq!(
        launch.conf.render(),
        "CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=24103 MemSpecLimit=1024 Feature=compute"
    );
    assert_eq!(launch.controllers[0].to_string(), "c1:6817");
}

#[test]
fn a_small_machine_keeps_an_eighth_for_itself() {
    let mut seen = Observed::fresh().offered();
    seen.machine.detected = Some(Node::from_detected("NodeName=x CPUs=1 RealMemory=900").unwrap());
    let seen = seen.settled();
    assert_eq!(seen.machine.written.unwrap().conf.get("MemSpecLimit"), Some("112"));
}

#[test]
fn without_a_key_nothing_is_started_and_the_unit_looks_again() {
    for why in [Unreadable::NotAllowed, Unreadable::NotFound, Unreadable::AgentGone] {
        let seen = Observed::fresh().offered().with_key(Key::Unreadable(why)).settled();
        assert_eq!(seen.machine.daemon, Daemon::Stopped);
        assert!(seen.waking);
    }
}

#[test]
fn a_key_on_the_disk_goes_on_serving_when_the_secret_is_gone() {
    check(Observed::joined().with_key(Key::Unreadable(Unreadable::NotAllowed)), &[]);
    let mut seen = Observed::joined().with_key(Key::Unreadable(Unreadable::NotFound));
    seen.machine.daemon = Daemon::Stopped;
    check(seen, &["start slurmd"]);
}

#[test]
fn a_changed_key_is_written_and_restarts_nothing() {
    let seen = Observed::joined().with_key(Key::Offered { same_as_on_disk: false });
    check(seen, &["write the authentication key"]);
}

#[test]
fn a_changed_list_of_controllers_is_written_for_the_next_start_only() {
    check(Observed::joined().with_controllers(&["c1", "c2"]), &["write /etc/default/slurmd"]);
    let seen = Observed::joined().with_controllers(&["c1", "c2"]).settled();
    let Daemon::Running { with: Some(with) } = seen.machine.daemon else { panic!() };
    assert_eq!(with.controllers.len(), 1);
}

#[test]
fn a_daemon_whose_controllers_are_all_gone_is_restarted_with_the_new_ones() {
    let seen = Observed::joined().with_controllers(&["c9"]).settled();
    assert!(
        matches!(&seen.machine.daemon, Daemon::Running { with: Some(with) } if with.controllers[0].host.as_str() == "c1")
    );
    check(seen.with_registration(Registration::Unreachable), &["restart slurmd"]);
}

#[test]
fn controllers_that_do_not_answer_are_no_reason_to_restart() {
    let seen = Observed::joined().with_registration(Registration::Unreachable);
    check(seen, &["look again soon"]);
}

#[test]
fn a_restart_lost_with_the_last_hook_is_made_up_for() {
    let mut seen = Observed::joined();
    seen.machine.daemon = Daemon::Running { with: None };
    check(seen, &["restart slurmd"]);
}

#[test]
fn a_node_that_the_controllers_forgot_registers_again() {
    check(Observed::joined().with_registration(Registration::Absent), &["reload slurmd"]);
}

#[test]
fn a_node_whose_address_changed_registers_again_once() {
    let mut seen = Observed::joined();
    seen.machine.moved_from = Some("192.0.2.7".to_owned());
    assert_eq!(plan(&seen).steps, [Step::NoteAddress("192.0.2.7".to_owned()), Step::ReloadDaemon]);
    seen.tried.reload = true;
    assert!(!plan(&seen).steps.contains(&Step::ReloadDaemon));
}

#[test]
fn a_slurmd_stuck_beside_its_successor_is_restarted_because_it_hears_no_reload() {
    let mut seen = Observed::joined().with_registration(Registration::Absent);
    seen.machine.stuck = true;
    assert_eq!(steps(&seen), ["restart slurmd"]);
    // Not at the price of jobs.
    seen.machine.kill_mode = "control-group".to_owned();
    assert_eq!(steps(&seen), ["reload slurmd"]);
}

#[test]
fn a_slurmd_stuck_in_a_reconfigure_is_restarted_and_one_whose_controller_is_away_is_not() {
    let mut seen = Observed::joined().with_registration(Registration::Unreachable);
    check(seen.clone(), &["look again soon"]);
    seen.machine.stuck = true;
    assert_eq!(steps(&seen), ["restart slurmd"]);
    seen.machine.kill_mode = "control-group".to_owned();
    assert_eq!(steps(&seen), ["look again soon"], "not at the price of jobs");
}

#[test]
fn a_node_that_a_crash_forgets_before_it_is_saved_is_back_with_the_next_look() {
    let seen = Observed::fresh().offered().settled();
    assert!(seen.waking, "the timer outlives the hook that joined");
    let seen = seen.in_the_next_hook().with_registration(Registration::Absent);
    assert_eq!(steps(&seen), ["reload slurmd"]);
    let seen = seen.settled();
    assert!(seen.waking, "it has been marked again, so it is looked at again");
    assert_eq!(steps(&seen.in_the_timers_call()), ["look again no more"]);
}

#[test]
fn only_the_timers_own_call_ends_the_timer() {
    let seen = Observed::fresh().offered().settled();
    assert!(seen.waking);
    // A hook that comes long after finds nothing to do, and still leaves the last look to the timer.
    let seen = seen.in_the_next_hook();
    check(seen.clone(), &[]);
    check(seen.in_the_timers_call(), &["look again no more"]);
}

#[test]
fn a_daemon_just_started_is_given_time_to_register() {
    let mut seen = Observed::joined().with_registration(Registration::Absent);
    seen.tried.start = true;
    check(seen, &["look again soon"]);
}

#[test]
fn a_daemon_that_does_not_come_up_is_started_once_per_dispatch() {
    let mut seen = Observed::joined();
    seen.machine.daemon = Daemon::Failing { result: "exit-code".to_owned() };
    assert_eq!(steps(&seen), ["start slurmd"]);
    seen.tried.start = true;
    check(seen.with_registration(Registration::Unreachable), &["look again soon"]);
}

#[test]
fn a_daemon_that_waits_for_its_controller_is_left_alone() {
    let mut seen = Observed::joined().with_registration(Registration::Unreachable);
    let with = seen.machine.written.clone();
    seen.machine.daemon = Daemon::Starting { with };
    check(seen, &["look again soon"]);
}

#[test]
fn a_mark_that_did_not_take_is_looked_at_again() {
    let mut seen = Observed::joined().with_registration(Registration::Present(idle()));
    assert_eq!(steps(&seen), ["mark the node as joined"]);
    seen.tried.mark = true;
    check(seen, &["look again soon"]);
}

#[test]
fn a_comment_of_the_administrator_stays() {
    let record = Record { comment: "rack 7".to_owned(), ..idle() };
    check(Observed::joined().with_registration(Registration::Present(record)), &[]);
}

#[test]
fn a_node_outside_its_partition_is_looked_at_again() {
    let record = Record { partitions: Vec::new(), comment: "joined".to_owned(), ..idle() };
    check(Observed::joined().with_registration(Registration::Present(record)), &["look again soon"]);
}

#[test]
fn what_an_administrator_did_to_the_node_is_not_undone() {
    for states in [["IDLE", "DRAIN"], ["DOWN", "DYNAMIC_NORM"], ["ALLOCATED", "DRAIN"]] {
        let states = states.map(str::to_owned).to_vec();
        let record = Record { states, reason: "disk".to_owned(), comment: "joined".to_owned(), ..idle() };
        check(Observed::joined().with_registration(Registration::Present(record)), &[]);
    }
}

#[test]
fn losing_the_relation_stops_nothing() {
    let mut seen = Observed::joined();
    seen.controller = None;
    seen.key = Key::NotOffered;
    check(seen, &[]);
}

#[test]
fn losing_the_data_stops_nothing() {
    let mut seen = Observed::joined();
    seen.controller.as_mut().unwrap().offer = Offer::Nothing;
    check(seen, &["look again soon"]);
}

#[test]
fn unusable_data_is_settled_until_it_changes() {
    let mut seen = Observed::fresh().related().settled();
    seen.controller.as_mut().unwrap().offer = Offer::Unusable("key controllers".to_owned());
    check(seen.in_the_timers_call(), &["look again no more"]);
}

#[test]
fn a_leaving_unit_changes_nothing_but_its_timer() {
    let mut seen = Observed::fresh().offered();
    seen.leaving = true;
    check(seen.clone(), &[]);
    seen.waking = true;
    check(seen, &["look again no more"]);
}

#[test]
fn a_slurmd_newer_than_its_controllers_is_not_started_and_one_that_runs_is_not_touched() {
    let mut seen = Observed::fresh().settled().offered();
    seen.machine.version = Some("26.05.1".parse().unwrap());
    let seen = seen.settled();
    assert_eq!(seen.machine.daemon, Daemon::Stopped);
    assert!(!seen.waking, "Juju tells when the controllers have been upgraded");
    let mut seen = Observed::joined();
    seen.machine.version = Some("26.05.1".parse().unwrap());
    seen.machine.reported_version = Some("26.05.1".to_owned());
    check(seen.with_wish("Weight=7"), &["look again soon"]);
}

#[test]
fn an_alarm_starts_nothing_and_leaves_the_next_try_to_the_timer() {
    let mut seen = Observed::joined().with_registration(Registration::Unreachable);
    seen.machine.daemon = Daemon::Failing { result: "exit-code".to_owned() };
    seen.alarmed = true;
    check(seen, &["look again soon"]);
}

#[test]
fn a_description_that_slurmd_cannot_read_is_put_right() {
    let mut seen = Observed::joined().with_registration(Registration::Unreachable);
    seen.machine.daemon = Daemon::Failing { result: "exit-code".to_owned() };
    seen.machine.written.as_mut().unwrap().conf.set("Bogus", "1").unwrap();
    assert_eq!(steps(&seen), ["start slurmd"], "it may fail for many reasons");
    seen.machine.complaint = Some("unrecognized key: Bogus / fatal: failed to create dynamic node 'x'".to_owned());
    assert_eq!(steps(&seen), ["write /etc/default/slurmd"]);
    assert!(!seen.settled().machine.written.unwrap().conf.render().contains("bogus"));
}

#[test]
fn packages_are_not_installed_from_a_source_that_cannot_be_used() {
    let bad = Given { slurm_source: "ppa:", ..Given::default() };
    check(Observed::fresh().with_options(&bad), &[]);
    check(Observed::fresh().offered().not_leading().with_options(&bad), &[]);
    check(Observed::joined().with_options(&bad), &[]);
}

#[test]
fn a_source_that_does_not_answer_is_tried_again_later() {
    let mut seen = Observed::fresh().with_options(&Given { slurm_source: "ppa:a/b", ..Given::default() });
    assert_eq!(steps(&seen), ["install slurmd"]);
    for obstacle in [Obstacle::Failed("no Release file".to_owned()), Obstacle::Passing("locked".to_owned())] {
        seen.tried.install = Some(obstacle);
        assert_eq!(steps(&seen), ["look again soon"]);
        assert_eq!(steps(&seen.clone().related().not_leading()), ["look again soon"]);
    }
}

#[test]
fn an_archive_without_a_usable_slurm_is_left_to_the_operator() {
    let mut seen = Observed::fresh();
    seen.tried.install = Some(Obstacle::Unknown { package: "slurmd".to_owned() });
    check(seen.clone(), &[]);
    check(seen.clone().related().not_leading(), &[]);
    check(seen.offered().not_leading(), &[]);
}

#[test]
fn a_slurm_that_is_too_old_is_replaced_unless_it_runs() {
    let mut seen = Observed::fresh();
    seen.machine.unfit = Some(Obstacle::TooOld { package: "slurmd".to_owned(), found: "23.11.4".to_owned() });
    check(seen.clone(), &["install slurmd"]);
    seen.machine.daemon = Daemon::Starting { with: None };
    check(seen.clone(), &["install slurmd"]);
    seen.machine.daemon = Daemon::Running { with: None };
    check(seen.clone(), &[]);
    check(seen.offered().not_leading(), &[]);
}

#[test]
fn packages_that_cannot_be_held_now_are_held_later() {
    let mut seen = Observed::joined();
    seen.machine.held = false;
    assert_eq!(steps(&seen), ["hold the packages of Slurm"]);
    seen.tried.hold = true;
    assert_eq!(steps(&seen), ["look again soon"]);
}

#[test]
fn a_daemon_with_an_old_key_that_is_refused_is_restarted_and_nobody_else_is() {
    let mut seen = Observed::joined().with_registration(Registration::Unreachable);
    seen.machine.cause = Some(Cause::Authentication);
    check(seen.clone(), &["look again soon"]);
    seen.machine.key_is_news = true;
    assert_eq!(steps(&seen), ["restart slurmd"]);
    seen.machine.kill_mode = "control-group".to_owned();
    assert_eq!(steps(&seen), ["look again soon"], "its jobs would die with it");
}

#[test]
fn a_daemon_that_waits_with_an_old_key_is_started_with_the_new_one() {
    let mut seen = Observed::joined().with_registration(Registration::Unreachable);
    seen.machine.daemon = Daemon::Starting { with: seen.machine.written.clone() };
    check(seen.clone(), &["look again soon"]);
    seen.machine.key_is_news = true;
    seen.alarmed = true;
    assert_eq!(steps(&seen), ["restart slurmd"]);
}

#[test]
fn a_daemon_that_looks_for_controllers_that_are_gone_is_started_anew() {
    let mut seen = Observed::joined().with_controllers(&["c9"]).with_registration(Registration::Unreachable);
    let with = seen.machine.written.clone();
    seen.machine.daemon = Daemon::Starting { with };
    assert_eq!(steps(&seen), ["write /etc/default/slurmd"]);
    let seen = seen.settled();
    assert!(matches!(seen.machine.daemon, Daemon::Running { .. }));
}

#[test]
fn a_hook_killed_after_any_step_and_run_again_ends_in_the_same_state() {
    let goal = Observed::fresh().offered().settled();
    for killed_after in 0..10 {
        let mut seen = Observed::fresh().offered();
        let mut taken = 0;
        'killed: for _ in 0..ROUNDS {
            for step in plan(&seen).steps {
                if taken == killed_after {
                    break 'killed;
                }
                seen.apply_in_memory(&step);
                taken += 1;
            }
        }
        // What a dead hook told Juju is lost; what it did to the machine is not.
        seen.port_open = false;
        seen.controller.as_mut().unwrap().published.clear();
        let seen = seen.in_the_next_hook().settled();
        assert_eq!(seen.machine.written, goal.machine.written, "killed after {killed_after}");
        assert_eq!(seen.machine.registration, goal.machine.registration, "killed after {killed_after}");
        assert_eq!(seen.controller.unwrap().published, goal.controller.clone().unwrap().published);
        assert!(seen.port_open);
    }
}
