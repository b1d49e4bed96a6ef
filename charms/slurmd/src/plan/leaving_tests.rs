//! A node that leaves: in which order, what holds it, what takes it back, and what it must never do.

use crate::facts::{JobHere, Occupancy};
use crate::names;
use crate::node::lifecycle::Lifecycle;
use crate::world::{World, data, set_aside, unreachable};
use charm::tools::Config;
use slurm_ops::scontrol::NodeLookup;
use slurm_unit::Trigger;
use slurm_unit::service::Running;

const WHOLE_STORY: [&str; 7] = [
    "note that the node leaves",
    "drain the node, which leaves",
    "delete the node's record",
    "note that slurmd must not start any more",
    "stop slurmd",
    "remove the key and slurmd's options",
    "note that the node has left",
];

/// What follows where the unit stays. The port of a unit that goes is Juju's to close.
const CLOSED: [&str; 1] = ["close port 6818"];

/// The steps of a dispatch without its waits, of which there may be many.
fn deeds(steps: &[String]) -> Vec<&str> {
    steps.iter().map(String::as_str).filter(|step| !step.starts_with("wait for")).collect()
}

/// The operator's rule for nodes that leave.
fn rule(seconds: u64, policy: &str) -> Config {
    let options = [(names::OPTION_DRAIN_TIMEOUT, seconds.into()), (names::OPTION_DRAIN_POLICY, policy.into())];
    options.into_iter().map(|(option, value): (&str, serde_json::Value)| (option.to_owned(), value)).collect()
}

fn dispatched(world: &mut World) -> Vec<String> {
    world.dispatch().steps
}

#[track_caller]
fn assert_gone(world: &World) {
    assert_eq!(world.note().lifecycle, Lifecycle::Gone);
    assert_eq!((world.daemon.running, &world.start_file.options), (Running::Stopped, &None));
}

#[test]
fn an_empty_node_whose_unit_is_removed_is_gone_when_the_hook_ends() {
    let mut world = World::joined().departing();
    assert_eq!(dispatched(&mut world), WHOLE_STORY);
    assert_gone(&world);
    assert!(world.key.keys.is_none());
    assert_eq!(world.steps(), Vec::<String>::new());
    assert_eq!(world.shown(), "maintenance: leaving");
}

#[test]
fn a_job_is_waited_for_in_the_hook() {
    let mut world = World::joined().departing().with_job_of(20);
    let steps = dispatched(&mut world);
    assert!(steps.iter().filter(|step| step.starts_with("wait for")).count() >= 20, "{steps:?}");
    assert_eq!(deeds(&steps), WHOLE_STORY);
    assert_gone(&world);
}

#[test]
fn a_node_whose_relation_has_ended_waits_for_its_jobs_without_a_hook() {
    let mut world = World::joined().unrelated().with_job_of(4300);
    assert_eq!(dispatched(&mut world), WHOLE_STORY[..2]);
    assert!(world.timer);
    assert_eq!(world.shown(), "maintenance: draining: 1 job, ends in 1:12:00");
    assert!(world.is_up());
    world.occupancy = Occupancy::Empty;
    let mut world = world.called_by(Trigger::Retry);
    assert_eq!(dispatched(&mut world), [&WHOLE_STORY[2..], &CLOSED].concat());
    assert_gone(&world);
    assert!(!world.timer && !world.port_open);
    assert_eq!(world.shown(), "blocked: no controller: `juju integrate compute slurmctld`");
}

#[test]
fn a_port_that_was_not_closed_in_the_hook_that_ended_the_departure_is_closed_later() {
    let mut world = World::joined().unrelated();
    world.dispatch();
    // Juju drops what a hook wrote that was killed after the note.
    world.port_open = true;
    assert_eq!(dispatched(&mut world), CLOSED);
}

#[test]
fn the_relation_made_again_takes_the_departure_back() {
    let mut world = World::joined().unrelated().with_jobs(&[7]);
    let controller = World::joined().controller;
    world.dispatch();
    world.controller = controller;
    let expected = ["note that the node stays", "open the node again"];
    assert_eq!(dispatched(&mut world), expected);
    assert_eq!(world.note().lifecycle, Lifecycle::Member);
    assert!(!world.record_mut().has("DRAIN"));
}

#[test]
fn a_drain_of_a_node_that_was_silent_meanwhile_is_taken_back_as_well() {
    let mut world = World::joined().unrelated().with_jobs(&[7]);
    world.dispatch();
    world.record_mut().reason += " : Not responding";
    world.controller = World::joined().controller;
    world.dispatch();
    assert!(!world.record_mut().has("DRAIN"));
}

#[test]
fn a_node_that_has_left_joins_again() {
    let mut world = World::joined().unrelated();
    let controller = World::joined().controller;
    world.dispatch();
    assert_gone(&world);
    world.controller = controller;
    world.dispatch();
    assert_eq!(world.note().lifecycle, Lifecycle::Member);
    assert!(world.is_up());
}

#[test]
fn a_node_leaves_its_cluster_before_it_joins_another_one() {
    let mut world = World::joined().unrelated().with_jobs(&[7]);
    let controller = World::joined().with_controllers(&["other"]).controller;
    world.dispatch();
    world.controller = controller;
    assert_eq!(world.steps(), Vec::<String>::new());
    assert!(world.shown().starts_with("maintenance: draining: 1 job"), "{}", world.shown());
    world.occupancy = Occupancy::Empty;
    world.dispatch();
    assert_eq!(world.note().lifecycle, Lifecycle::Member);
    let options = world.start_file.options.as_ref().unwrap();
    assert_eq!(options.controllers, data(&["other"]).controllers);
}

#[test]
fn a_drain_of_an_administrator_is_left_as_it_is() {
    let mut world = World::joined().unrelated().with_jobs(&[7]);
    set_aside(world.record_mut(), "DRAIN", "disk");
    assert_eq!(dispatched(&mut world), ["note that the node leaves"]);
    world.controller = World::joined().controller;
    assert_eq!(dispatched(&mut world), ["note that the node stays"]);
    assert_eq!(world.record_mut().reason, "disk");
}

#[test]
fn pending_jobs_and_reservations_hold_the_delete() {
    for (occupancy, words) in [
        (Occupancy::Awaited(vec!["17".to_owned()]), "leaving: pending job 17 asks for this node"),
        (Occupancy::Reserved(vec!["maint".to_owned()]), "leaving: reservation maint over this node"),
        (Occupancy::Unknown, "leaving: slurmctld does not answer"),
    ] {
        let mut world = World::joined().unrelated();
        world.occupancy = occupancy;
        assert_eq!(dispatched(&mut world), WHOLE_STORY[..2], "{words}");
        assert!(world.shown().starts_with(&format!("waiting: {words}")), "{}", world.shown());
        assert!(world.timer && world.is_up());
    }
}

#[test]
fn jobs_are_cancelled_only_after_the_time_that_the_operator_set() {
    let given = rule(60, "cancel");
    let mut world = World::joined().unrelated().with_jobs(&[7, 8]).with_options(&given);
    assert_eq!(dispatched(&mut world), WHOLE_STORY[..2]);
    world.now += 59;
    assert_eq!(world.steps(), Vec::<String>::new());
    world.now += 1;
    assert_eq!(world.first_step(), "cancel jobs 7 8, drain-timeout is over");
}

#[test]
fn with_the_policy_to_wait_nothing_is_cancelled_after_the_time() {
    let given = rule(60, "wait");
    let mut world = World::joined().unrelated().with_jobs(&[7]).with_options(&given);
    world.dispatch();
    world.now += 600;
    assert_eq!(world.steps(), Vec::<String>::new());
    assert_eq!(world.shown(), "maintenance: draining: 1 job, has no time limit; drain-timeout is over");
}

#[test]
fn a_rule_that_cannot_be_used_cancels_nothing() {
    let given = rule(1, "kill");
    let mut world = World::joined().unrelated().with_jobs(&[7]).with_options(&given);
    world.dispatch();
    world.now += 600;
    assert_eq!(world.steps(), Vec::<String>::new());
}

#[test]
fn pending_jobs_that_ask_for_the_node_are_cancelled_with_the_others() {
    let given = rule(1, "cancel");
    let mut world = World::joined().unrelated().with_options(&given);
    world.occupancy = Occupancy::Awaited(vec!["17".to_owned()]);
    world.dispatch();
    world.now += 2;
    assert_eq!(world.first_step(), "cancel jobs 17, drain-timeout is over");
}

#[test]
fn a_job_that_is_ending_is_not_cancelled_again() {
    let given = rule(1, "cancel");
    let mut world = World::joined().unrelated().with_options(&given);
    let job = JobHere { id: 7, handle: Some("7".to_owned()), ends: None, ending: true };
    world.occupancy = Occupancy::Jobs(vec![job]);
    world.dispatch();
    world.now += 2;
    assert_eq!(world.steps(), Vec::<String>::new());
    assert_eq!(world.shown(), "maintenance: draining: 1 job cancelled, drain-timeout is over");
}

#[test]
fn a_controller_that_is_to_stay_is_waited_for() {
    let mut world = World::joined().unrelated();
    world.node = unreachable();
    world.local_jobs = Some(0);
    world.dispatch();
    world.now += 3600;
    assert_eq!(world.steps(), Vec::<String>::new());
    assert_eq!(world.shown(), "waiting: leaving: slurmctld does not answer");
    assert!(world.is_up() && world.timer);
}

#[test]
fn without_any_controller_only_the_processes_on_the_machine_count() {
    let mut world = World::joined().unrelated();
    world.node = unreachable();
    (world.controllers_stay, world.local_jobs) = (Some(false), Some(1));
    world.dispatch();
    world.now += 3600;
    assert_eq!(world.shown(), "maintenance: leaving: 1 job left on this machine");
    world.local_jobs = None;
    assert_eq!(world.shown(), "maintenance: leaving: the processes of jobs cannot be listed");
    world.local_jobs = Some(0);
    assert_eq!(dispatched(&mut world), [&WHOLE_STORY[3..], &CLOSED].concat());
    assert_gone(&world);
}

#[test]
fn a_controller_that_only_restarts_is_given_some_seconds() {
    let mut world = World::joined().unrelated();
    world.node = unreachable();
    world.controllers_stay = Some(false);
    world.dispatch();
    world.now += 5;
    assert_eq!(world.steps(), Vec::<String>::new());
}

#[test]
fn a_record_that_is_gone_already_is_no_obstacle() {
    let mut world = World::joined().departing();
    world.node = NodeLookup::Absent;
    assert_eq!(deeds(&dispatched(&mut world)), [&WHOLE_STORY[..1], &WHOLE_STORY[3..]].concat());
}

#[test]
fn a_process_of_a_job_holds_a_node_without_a_record() {
    let mut world = World::joined().unrelated();
    (world.node, world.local_jobs) = (NodeLookup::Absent, Some(1));
    assert_eq!(dispatched(&mut world), WHOLE_STORY[..1]);
    assert!(world.is_up());
}

#[test]
fn slurmd_is_started_to_say_goodbye() {
    let mut world = World::joined().departing();
    world.daemon.running = Running::Stopped;
    let steps = dispatched(&mut world);
    assert_eq!(deeds(&steps)[..3], [WHOLE_STORY[0], "start slurmd", WHOLE_STORY[1]]);
    assert_gone(&world);
}

#[test]
fn after_the_delete_slurmd_never_starts_again() {
    for last in &WHOLE_STORY[2..6] {
        let mut world = World::joined().departing();
        world.dispatch_to(last);
        if *last != WHOLE_STORY[2] {
            world.daemon.running = Running::Stopped;
        }
        let steps = world.steps();
        assert!(!steps.contains(&"start slurmd".to_owned()), "after `{last}`: {steps:?}");
    }
}

#[test]
fn a_departure_killed_after_any_step_ends_the_same() {
    for killed in 0..WHOLE_STORY.len() {
        let mut world = World::joined().departing();
        world.dispatch_until(killed);
        world.dispatch();
        assert_gone(&world);
        assert!(world.key.keys.is_none());
        assert!(!matches!(world.node, NodeLookup::Present(_)));
    }
}

#[test]
fn a_machine_that_boots_after_the_delete_deletes_its_new_record_as_well() {
    let mut world = World::joined().departing();
    world.dispatch_to("note that slurmd must not start any more");
    world.start();
    assert_eq!(dispatched(&mut world), [&WHOLE_STORY[1..3], &WHOLE_STORY[4..]].concat());
    assert_gone(&world);
}

#[test]
fn the_key_of_a_controller_on_the_same_machine_stays() {
    let mut world = World::joined().departing();
    world.key.shared = true;
    world.dispatch();
    assert_gone(&world);
    assert!(world.key.keys.is_some());
}

#[test]
fn a_controller_that_deletes_records_itself_is_left_to_it() {
    let mut world = World::joined().departing().with_job_of(5);
    world.controller_deletes = true;
    let steps = dispatched(&mut world);
    assert_eq!(deeds(&steps), [&WHOLE_STORY[..2], &WHOLE_STORY[3..]].concat());
    assert!(matches!(world.node, NodeLookup::Present(_)));
    assert_gone(&world);
}

#[test]
fn a_unit_that_never_joined_leaves_nothing() {
    let world = World::fresh().departing();
    assert_eq!((world.steps(), world.shown()), (vec![], "maintenance: leaving".to_owned()));
}

#[test]
fn a_job_holds_a_machine_whose_slurmd_has_lost_its_options() {
    let mut world = World::joined().unrelated();
    (world.daemon.running, world.daemon.with) = (Running::Stopped, None);
    (world.start_file.options, world.local_jobs) = (None, Some(1));
    assert_eq!(dispatched(&mut world), ["note that the node leaves"]);
    assert_eq!(world.shown(), "maintenance: leaving: 1 job left on this machine");
    world.local_jobs = Some(0);
    world.dispatch();
    assert_eq!(world.note().lifecycle, Lifecycle::Gone);
}

#[test]
fn the_slurmd_of_another_unit_is_not_touched() {
    let mut world = World::joined().departing();
    world.start_file.neighbour = Some("gpu-0".parse().unwrap());
    assert_eq!(world.steps(), Vec::<String>::new());
}

#[test]
fn a_relation_that_juju_only_fails_to_show_is_not_left() {
    let mut world = World::joined();
    (world.controller, world.relation_expected) = (None, true);
    assert_eq!(world.steps(), Vec::<String>::new());
    assert!(world.is_up());
}

#[test]
fn a_departure_goes_on_while_juju_still_names_the_relation() {
    let mut world = World::joined().unrelated().with_jobs(&[7]);
    world.dispatch();
    (world.relation_expected, world.occupancy) = (true, Occupancy::Empty);
    world.dispatch();
    assert_gone(&world);
}

#[test]
fn a_note_that_cannot_be_read_holds_a_unit_that_stays() {
    let mut world = World::joined().unrelated();
    world.note.node = Err(format!("{}: EOF", names::NODE_NOTE));
    assert_eq!(world.steps(), Vec::<String>::new());
    assert!(world.is_up());
}

#[test]
fn a_change_under_way_goes_on_when_the_relation_is_made_again() {
    let mut world = World::joined().with_request("RealMemory=900");
    world.dispatch_to("drain the node for a new registration");
    let (mut world, controller) = (world.clone().unrelated().with_jobs(&[7]), world.controller);
    assert_eq!(dispatched(&mut world), WHOLE_STORY[..2]);
    world.controller = controller;
    world.occupancy = Occupancy::Empty;
    world.dispatch();
    assert_eq!(world.note().lifecycle, Lifecycle::Member);
    let record = world.record_mut();
    assert!(!record.has("DRAIN"), "{record:?}");
}

#[test]
fn a_unit_that_leads_says_that_options_wait() {
    use crate::apply::announce;
    use crate::node::departure::Hold;
    use crate::step::Step;
    let hold = Hold::Jobs { count: 2, left: Some(4320), overdue: false };
    let wait = Step::Wait { hold, leader: true, pause: std::time::Duration::from_secs(1) };
    let expected = "draining: 2 jobs, longest ends in 1:12:00; this is the leader, so options wait";
    assert_eq!(announce(&wait).unwrap().message(), expected);
}

#[test]
fn a_call_of_a_failed_slurmd_does_not_start_it_on_its_way_out() {
    let mut world = World::joined().unrelated().with_jobs(&[7]);
    world.dispatch();
    world.daemon.running = Running::Failing;
    let mut world = world.called_by(Trigger::DaemonFailure);
    world.local_jobs = Some(1);
    assert_eq!(world.steps(), Vec::<String>::new());
}
