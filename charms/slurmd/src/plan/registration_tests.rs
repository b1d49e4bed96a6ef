//! A registered node on its way to another description: with jobs, with administrators, with hooks that are killed.

use super::*;
use crate::facts::Occupancy;
use crate::node::lifecycle::Lifecycle;
use crate::node::state::is_closed;
use crate::options::given;
use crate::world::{World, detected, set_aside};
use slurm_conf::Node;
use slurm_unit::Trigger;

/// Runs a dispatch and returns what was done.
#[track_caller]
fn done(world: &mut World) -> Vec<String> {
    world.dispatch().steps
}

#[test]
fn an_empty_node_is_registered_anew_in_this_order() {
    let mut world = World::joined().with_request("RealMemory=900");
    let expected = [
        "note what the node has to get back",
        "drain the node for a new registration",
        "write /etc/default/slurmd",
        "delete the node's record",
        "restart slurmd",
        "give the node back what it had",
        "end the new registration",
        "note how the node is",
    ];
    assert_eq!(done(&mut world), expected);
    assert!(world.timer, "until slurmctld has surely saved the node");
    assert_eq!(world.note().last_working.render(), "RealMemory=900");
    assert!(world.conf().contains("RealMemory=900"));
    assert!(!is_closed(world.record()));
    assert_eq!(world.record().comment, "joined");
}

#[test]
fn a_record_is_not_deleted_while_slurmctld_is_about_to_ask_the_node_to_register() {
    let mut world = World::joined().with_request("RealMemory=900");
    let heard = world.record_mut().started.take();
    assert_eq!(done(&mut world).last().map(String::as_str), Some("write /etc/default/slurmd"));
    assert!(world.timer);
    world.record_mut().started = heard;
    let mut world = world.called_by(Trigger::Retry).later();
    assert_eq!(done(&mut world)[0], "delete the node's record");
    assert!(!is_closed(world.record()));
}

#[test]
fn nothing_but_the_weight_is_touched_while_jobs_run() {
    let mut world = World::joined().with_request("RealMemory=900 Weight=7").with_jobs(&[4]);
    assert_eq!(done(&mut world), ["note the weight to be set", "set the node's weight to 7"]);
    assert!(!is_closed(world.record()));
    assert!(!world.conf().contains("Weight"), "what is written is what the node is registered with");
    let mut world = world.called_by(Trigger::Juju).later();
    assert_eq!(done(&mut world), [""; 0]);
    // The last job has ended.
    let mut world = world.called_by(Trigger::Juju).later().with_jobs(&[]);
    done(&mut world);
    assert!(world.conf().contains("RealMemory=900 Weight=7"));
    let mut world = world.called_by(Trigger::Retry).later();
    done(&mut world);
    assert!(!world.timer);
}

#[test]
fn a_weight_that_is_taken_back_while_a_job_runs_goes_and_an_administrators_stays() {
    let busy = || World::joined().with_request("RealMemory=900 Weight=7").with_jobs(&[4]);
    let mut world = busy();
    done(&mut world);
    assert_eq!((world.record().weight, world.note().set_weight), (7, Some(7)));
    let mut world = world.called_by(Trigger::Retry).later().with_request("");
    let expected = ["set the node's weight to 1", "leave the node's weight as it is"];
    assert_eq!((done(&mut world).as_slice(), world.timer), (expected.map(str::to_owned).as_slice(), false));
    assert_eq!((world.record().weight, world.note().set_weight), (1, None));
    // Only the memory is still wanted: the weight must not pass for an administrator's.
    let mut world = busy();
    done(&mut world);
    let mut world = world.called_by(Trigger::Juju).later().with_request("RealMemory=900").with_jobs(&[]);
    done(&mut world);
    let mut world = world.called_by(Trigger::Juju).later();
    done(&mut world);
    assert_eq!((world.record().weight, world.note().reregistration().cloned()), (1, None));
    assert!(world.conf().contains("RealMemory=900"));
    // Somebody else has set one meanwhile.
    let mut world = busy();
    done(&mut world);
    world.record_mut().weight = 33;
    let mut world = world.called_by(Trigger::Juju).later();
    assert_eq!(done(&mut world), [""; 0]);
    let mut world = world.called_by(Trigger::Juju).later().with_request("");
    done(&mut world);
    assert_eq!((world.record().weight, world.note().set_weight), (33, None));
}

#[test]
fn could_not_ask_is_never_taken_for_empty() {
    let mut world = World::joined().with_request("RealMemory=900");
    world.occupancy = Occupancy::Unknown;
    assert_eq!(done(&mut world), [""; 0]);
    assert!(world.timer);
}

#[test]
fn a_record_that_others_name_is_not_deleted() {
    let named = [
        (Occupancy::Reserved(vec!["r1".to_owned()]), "node-config waits for reservation r1"),
        (Occupancy::Awaited(vec!["7".to_owned()]), "node-config waits for pending job 7"),
        (Occupancy::Awaited(vec!["7_1".to_owned(), "8".to_owned()]), "node-config waits for pending jobs 7_1,8"),
    ];
    for (occupancy, expected) in named {
        let mut world = World::joined().with_request("RealMemory=900");
        world.occupancy = occupancy.clone();
        assert_eq!(world.shown(), format!("active: idle, partition compute; {expected}"));
        assert_eq!(done(&mut world), [""; 0]);
        assert!(world.timer);
        // Also if it came up after the node was closed.
        let mut world = World::joined().with_request("RealMemory=900");
        world.dispatch_to("drain the node for a new registration");
        world.occupancy = occupancy;
        assert_eq!(done(&mut world), ["open the node again", "end the new registration"]);
    }
}

#[test]
fn a_job_that_slips_in_opens_the_node_again() {
    let mut world = World::joined().with_request("RealMemory=900");
    let before = world.start_file.clone();
    world.dispatch_to("drain the node for a new registration");
    let mut world = world.with_jobs(&[9]);
    assert_eq!(done(&mut world), ["open the node again", "end the new registration"]);
    assert!(world.timer);
    assert!(!is_closed(world.record()));
    assert_eq!((world.record().comment.as_str(), &world.start_file), ("joined", &before));
}

#[test]
fn features_are_changed_in_place_whoever_runs_there() {
    let mut world = World::joined().with_request("Feature=fast").with_jobs(&[4]);
    world.record_mut().features.push("hot".to_owned());
    assert_eq!(done(&mut world), ["set the node's features to fast,compute,hot", "write /etc/default/slurmd"]);
    let mut restarted = world.clone();
    restarted.start();
    assert_eq!(restarted.note().last_working.render(), "");
    done(&mut restarted);
    assert_eq!(restarted.note().last_working.render(), "Feature=fast", "a start shows that it works");
    let mut world = world.called_by(Trigger::Juju).later().with_request("");
    assert_eq!(done(&mut world), ["set the node's features to compute,hot", "write /etc/default/slurmd"]);
}

#[test]
fn what_an_administrator_set_is_there_afterwards() {
    for states in [&["DRAIN"][..], &["DOWN"], &["DOWN", "DRAIN"], &["FAIL"]] {
        let mut world = World::joined();
        for state in states {
            set_aside(world.record_mut(), state, "disk #3");
        }
        world.record_mut().weight = 5;
        world.record_mut().comment = "rack 7".to_owned();
        world.record_mut().notes.extra = "bought=2026".to_owned();
        world.record_mut().features.push("hot".to_owned());
        let mut before = world.record().clone();
        let mut world = world.with_request("RealMemory=900");
        let done = done(&mut world);
        assert!(!done.contains(&"drain the node for a new registration".to_owned()), "it is closed: {done:?}");
        assert!(done.contains(&"delete the node's record".to_owned()), "{done:?}");
        let mut after = world.record().clone();
        // An administrator's failing node waits drained for a moment; Slurm takes no other state from a node.
        after.state.retain(|state| before.has(state));
        before.state.sort();
        after.state.sort();
        assert_eq!(after, before);
        assert!(!world.conf().contains("State="), "{}", world.conf());
    }
}

#[test]
fn a_drain_by_slurm_for_a_description_that_did_not_fit_is_not_given_back() {
    let mut world = World::joined();
    set_aside(world.record_mut(), "DRAIN", "Low RealMemory (reported:900 < 100.00% of configured:24103)");
    world.record_mut().state.push("INVALID_REG".to_owned());
    world.note_mut().detection = None;
    let mut world = world.finds(Node::from_detected("NodeName=x CPUs=2 RealMemory=900").unwrap());
    done(&mut world);
    assert!(!is_closed(world.record()));
}

#[test]
fn a_change_that_is_taken_back_leaves_nothing_behind() {
    for steps in 1..=3 {
        let mut world = World::joined().with_request("RealMemory=900");
        let goal = (world.start_file.clone(), world.record().clone());
        // Until, at most, the record is marked and the new description written.
        world.dispatch_until(steps);
        let mut world = world.called_by(Trigger::Juju).later().with_request("");
        done(&mut world);
        let mut after = world.record().clone();
        after.reason.clear();
        assert_eq!((world.start_file.clone(), after), goal, "after {steps} steps");
        assert_eq!(world.note().lifecycle, Lifecycle::Member);
    }
}

/// What slurmd says about what the operator asked for last.
const COMPLAINT: Option<&str> = Some("fatal: 99 is too many cores");

#[test]
fn a_description_that_slurmd_does_not_start_with_is_taken_back_for_the_last_one_that_worked() {
    for closed in [false, true] {
        let mut world = World::joined().with_request("Weight=3");
        done(&mut world);
        let mut world = world.called_by(Trigger::Retry).later();
        if closed {
            set_aside(world.record_mut(), "DRAIN", "disk");
        }
        done(&mut world);
        let worked = world.conf();
        assert!(worked.contains("Weight=3"), "{worked}");
        let mut world = world.with_request("Weight=3 CoreSpecCount=99");
        world.dispatch_to("delete the node's record");
        // The call because of a failure may start slurmd, because it will not fail again for this.
        let mut world = world.failing(COMPLAINT).called_by(Trigger::DaemonFailure);
        let dispatch = world.dispatch();
        let taken = dispatch.steps;
        assert_eq!(taken[0], "take back `Weight=3 CoreSpecCount=99`, which slurmd refuses");
        assert_eq!(taken[1..3], ["write /etc/default/slurmd", "start slurmd"]);
        assert_eq!((world.conf(), world.note().reregistration().cloned()), (worked, None), "{taken:#?}");
        assert_eq!(is_closed(world.record()), closed);
        assert_eq!(world.note().rejected.as_ref().unwrap().requested.render(), "Weight=3 CoreSpecCount=99");
        let shown = dispatch.status.message().to_owned();
        assert!(shown.contains("slurmd does not start with CoreSpecCount=99: fatal: 99 is too"), "{shown}");
    }
}

#[test]
fn a_reset_is_taken_up_although_slurmd_fails_with_what_was_asked_for_before() {
    let mut world = World::joined().with_request("CoreSpecCount=99");
    world.dispatch_to("delete the node's record");
    let mut world = world.failing(COMPLAINT).with_request("");
    assert_eq!(done(&mut world)[0], "write /etc/default/slurmd");
    assert!(!world.conf().contains("CoreSpecCount"), "{}", world.conf());
}

#[test]
fn a_slurmd_that_fails_for_another_reason_keeps_its_description() {
    let mut world = World::joined().with_request("CoreSpecCount=1");
    world.dispatch_to("delete the node's record");
    let world = world.failing(Some("fatal: Unable to bind listen port (6818): Address already in use"));
    assert_eq!(world.first_step(), "start slurmd");
    // One that waits for jobs has no part in a failure.
    let mut world = World::joined().with_request("CoreSpecCount=1").with_jobs(&[4]);
    done(&mut world);
    assert_eq!(world.failing(COMPLAINT).first_step(), "start slurmd");
}

#[test]
fn a_drain_of_ours_without_a_note_is_taken_away() {
    let mut world = World::joined();
    set_aside(world.record_mut(), "DRAIN", names::CHANGE_REASON);
    world.record_mut().comment = names::CHANGE_COMMENT.to_owned();
    assert_eq!(done(&mut world), ["open the node again"]);
    assert_eq!((is_closed(world.record()), world.record().comment.as_str()), (false, "joined"));
}

#[test]
fn a_little_more_memory_is_no_change_and_less_is() {
    let mut world = World::joined().finds(detected(24_200));
    assert_eq!(done(&mut world), ["note how the node is"]);
    for memory in [24_000, 48_000] {
        // Another kernel, or another machine; a tenth less would be a loss.
        let world = World::joined().finds(detected(memory));
        assert_eq!(world.first_step(), "note what the node has to get back");
    }
}

/// What the machine has with these cards.
fn with_cards(memory: u64, cards: &str) -> Node {
    let mut node = detected(memory);
    node.set("Gres", cards).unwrap();
    node
}

#[test]
fn a_card_whose_driver_came_later_is_registered() {
    let mut world = World::joined().finds(with_cards(24_103, "gpu:tesla_t4:2"));
    done(&mut world);
    assert!(world.conf().contains("Gres=gpu:tesla_t4:2"));
}

#[test]
fn cards_and_memory_that_are_gone_are_missed_until_the_operator_accepts_it() {
    let mut world = World::joined().finds(with_cards(24_103, "gpu:tesla_t4:2"));
    done(&mut world);
    let mut world = world.called_by(Trigger::Retry).later().finds(with_cards(12_000, "gpu:tesla_t4:1"));
    assert_eq!((done(&mut world), world.timer), (vec!["note how the node is".to_owned()], false));
    assert!(world.conf().contains("RealMemory=24103 Gres=gpu:tesla_t4:2"), "Slurm refuses the node, and says why");
    world.record_mut().state.push("INVALID_REG".to_owned());
    let expected = "blocked: memory missing: expected 24103, found 12000, \
                    GPU missing: expected gpu:tesla_t4:2, found gpu:tesla_t4:1: repair";
    assert!(world.shown().starts_with(expected), "{}", world.shown());
    // `node-config reset=true` forgets what the machine had.
    world.note_mut().detection = None;
    done(&mut world);
    assert!(world.conf().contains("RealMemory=12000 Gres=gpu:tesla_t4:1"), "{}", world.conf());
}

#[test]
fn a_new_node_may_come_up_down_and_stays_so_until_somebody_opens_it() {
    let down = given([("default-node-state", "down"), ("default-node-reason", "look first")]);
    let mut world = World::fresh().offered().with_options(&down);
    done(&mut world);
    assert_eq!((world.record().state[0].as_str(), world.record().reason.as_str()), ("DOWN", "look first"));
    assert!(!world.conf().contains("State"), "only the first registration says so: {}", world.conf());
    let mut world = world.called_by(Trigger::Retry).later();
    world.record_mut().state[0] = "IDLE".to_owned();
    // The controllers forget the node, and it registers again: a reload would bring the first state back.
    let mut forgotten = world.clone().with_node(NodeLookup::Absent);
    assert_eq!(done(&mut forgotten)[0], "restart slurmd");
    assert!(!is_closed(forgotten.record()));
    // An option that changes later is for new nodes only.
    let mut world = world.with_options(&given([("default-node-state", "down")]));
    assert_eq!((done(&mut world), world.timer), (vec!["note what is known until the next boot".to_owned()], false));
}

#[test]
fn a_new_node_waits_for_an_option_that_it_cannot_do_without() {
    let bad = given([("default-node-state", "donw")]);
    let mut world = World::fresh().offered().with_options(&bad);
    done(&mut world);
    assert_eq!(world.daemon.running, Running::Stopped);
    assert_eq!(World::joined().with_options(&bad).steps(), [""; 0], "a known node does not need it");
}

#[test]
fn a_restart_that_would_cost_jobs_is_not_begun() {
    let mut world = World::joined().with_request("RealMemory=900");
    world.daemon.kill_mode = "control-group".to_owned();
    assert_eq!(done(&mut world), [""; 0]);
    assert!(world.timer);
}

/// Kills the hook after each step in turn, lets slurmd restart by itself or not, and runs the hook again.
#[test]
fn a_change_killed_anywhere_ends_the_same_and_keeps_what_the_administrator_had() {
    for closed in [None, Some("DRAIN"), Some("DOWN")] {
        let start = || {
            let mut world = World::joined();
            if let Some(state) = closed {
                set_aside(world.record_mut(), state, "disk");
            }
            world.with_request("RealMemory=900")
        };
        let mut goal = start();
        let length = done(&mut goal).len();
        assert!(length > 6, "only {length} steps");
        for killed_after in 0..length {
            for slurmd_restarts in [false, true] {
                let mut world = start();
                world.dispatch_until(killed_after);
                if slurmd_restarts {
                    world.start();
                }
                // Two hooks: what one has tried in vain, the next tries again.
                let mut world = world.called_by(Trigger::Juju).later();
                done(&mut world);
                let mut world = world.called_by(Trigger::Retry).later();
                done(&mut world);
                let place = format!("{closed:?} killed after {killed_after}, restarted: {slurmd_restarts}");
                assert_eq!(world.start_file, goal.start_file, "{place}");
                assert_eq!(world.record().state, goal.record().state, "{place}");
                assert_eq!(world.record().comment, goal.record().comment, "{place}");
                assert_eq!((&world.note().lifecycle, world.timer), (&Lifecycle::Member, false), "{place}");
                if closed.is_some() {
                    assert_eq!(world.record().reason, "disk", "{place}");
                }
            }
        }
    }
}

#[test]
fn a_boot_in_the_middle_brings_a_closed_node_back_closed() {
    let mut world = World::joined();
    set_aside(world.record_mut(), "DRAIN", "disk");
    let mut world = world.with_request("RealMemory=900");
    world.dispatch_to("delete the node's record");
    assert!(world.conf().contains("State=DRAIN Reason=disk"), "{}", world.conf());
    let mut world = world.called_by(Trigger::Juju).later();
    world.start();
    assert!(is_closed(world.record()));
    done(&mut world);
    assert_eq!((is_closed(world.record()), world.record().reason.as_str()), (true, "disk"));
}
