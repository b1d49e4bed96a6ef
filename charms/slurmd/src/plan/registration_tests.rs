//! A registered node on its way to another description: with jobs, with administrators, with hooks that are killed.

use super::situations::ROUNDS;
use super::*;
use crate::observe::Occupancy;
use crate::options::Given;
use slurm_conf::Node;

fn steps(seen: &Observed) -> Vec<String> {
    plan(seen).steps.iter().map(ToString::to_string).collect()
}

/// Applies plans to the end and returns what was done.
#[track_caller]
fn done(seen: &mut Observed) -> Vec<String> {
    let mut done = Vec::new();
    for _ in 0..ROUNDS {
        let steps = plan(seen).steps;
        if steps.is_empty() {
            return done;
        }
        for step in &steps {
            done.push(step.to_string());
            seen.apply_in_memory(step);
        }
    }
    panic!("the plan does not converge: {done:?}");
}

fn conf(seen: &Observed) -> String {
    seen.machine.written.as_ref().unwrap().conf.render()
}

#[test]
fn an_empty_node_is_registered_anew_in_this_order() {
    let mut seen = Observed::joined().with_wish("RealMemory=900");
    let expected = [
        "note what the node has to get back",
        "drain the node for a new registration",
        "write /etc/default/slurmd",
        "delete the node's record",
        "restart slurmd",
        "give the node back what it had",
        "end the new registration",
        "remember what this machine has",
        "remember what the operator asked for",
        "look again soon",
    ];
    assert_eq!(done(&mut seen), expected);
    assert!(conf(&seen).contains("RealMemory=900"));
    assert!(!seen.record().is_closed());
    assert_eq!(seen.record().comment, "joined");
}

#[test]
fn nothing_but_the_weight_is_touched_while_jobs_run() {
    let mut seen = Observed::joined().with_wish("RealMemory=900 Weight=7").with_jobs(&[4]);
    assert_eq!(done(&mut seen), ["set the node's weight to 7", "look again soon"]);
    assert!(!seen.record().is_closed());
    assert!(!conf(&seen).contains("Weight"), "what is written is what the node is registered with");
    let mut seen = seen.in_the_next_hook();
    assert_eq!(done(&mut seen), [""; 0]);
    // The last job has ended.
    let mut seen = seen.in_the_next_hook().with_jobs(&[]);
    done(&mut seen);
    assert!(conf(&seen).contains("RealMemory=900 Weight=7"));
    let mut seen = seen.in_the_timers_call();
    done(&mut seen);
    assert!(!seen.waking);
}

#[test]
fn a_weight_that_is_taken_back_while_a_job_runs_goes_and_an_administrators_stays() {
    let busy = || Observed::joined().with_wish("RealMemory=900 Weight=7").with_jobs(&[4]);
    let mut seen = busy();
    done(&mut seen);
    assert_eq!((seen.record().weight, seen.machine.set_weight), (7, Some(7)));
    let mut seen = seen.in_the_timers_call().with_wish("");
    let expected = ["set the node's weight back to 1", "leave the node's weight as it is", "look again no more"];
    assert_eq!(done(&mut seen), expected);
    assert_eq!((seen.record().weight, seen.machine.set_weight), (1, None));
    // Only the memory is still wanted: the weight must not pass for an administrator's.
    let mut seen = busy();
    done(&mut seen);
    let mut seen = seen.in_the_next_hook().with_wish("RealMemory=900").with_jobs(&[]);
    done(&mut seen);
    let mut seen = seen.in_the_next_hook();
    done(&mut seen);
    assert_eq!((seen.record().weight, seen.machine.change.clone()), (1, None));
    assert!(conf(&seen).contains("RealMemory=900"));
    // Somebody else has set one meanwhile.
    let mut seen = busy();
    done(&mut seen);
    seen.record_mut().weight = 33;
    let mut seen = seen.in_the_next_hook();
    assert_eq!(done(&mut seen), [""; 0]);
    let mut seen = seen.in_the_next_hook().with_wish("");
    done(&mut seen);
    assert_eq!((seen.record().weight, seen.machine.set_weight), (33, None));
}

#[test]
fn could_not_ask_is_never_taken_for_empty() {
    for occupancy in [Some(Occupancy::Unknown), None, Some(Occupancy::Reserved(vec!["r1".to_owned()]))] {
        let mut seen = Observed::joined().with_wish("RealMemory=900");
        seen.machine.occupancy = occupancy;
        assert_eq!(done(&mut seen), ["look again soon"]);
    }
}

#[test]
fn a_job_that_slips_in_opens_the_node_again() {
    let mut seen = Observed::joined().with_wish("RealMemory=900");
    let before = seen.machine.written.clone();
    while !seen.record().is_closed() {
        let step = plan(&seen).steps.remove(0);
        seen.apply_in_memory(&step);
    }
    let mut seen = seen.with_jobs(&[9]);
    assert_eq!(done(&mut seen), ["open the node again", "end the new registration", "look again soon"]);
    assert!(!seen.record().is_closed());
    assert_eq!((seen.record().comment.as_str(), &seen.machine.written), ("joined", &before));
}

#[test]
fn features_are_changed_in_place_whoever_runs_there() {
    let mut seen = Observed::joined().with_wish("Feature=fast").with_jobs(&[4]);
    seen.record_mut().features.push("hot".to_owned());
    assert_eq!(done(&mut seen), ["set the node's features to fast,compute,hot", "write /etc/default/slurmd"]);
    let mut restarted = seen.clone();
    restarted.start();
    let remembered = "remember what the operator asked for".to_owned();
    assert!(done(&mut restarted).contains(&remembered), "it is proven by a start");
    let mut seen = seen.in_the_next_hook().with_wish("");
    assert_eq!(done(&mut seen), ["set the node's features to compute,hot", "write /etc/default/slurmd"]);
}

#[test]
fn what_an_administrator_set_is_there_afterwards() {
    for states in [&["DRAIN"][..], &["DOWN"], &["DOWN", "DRAIN"], &["FAIL"]] {
        let mut seen = Observed::joined();
        for state in states {
            seen.record_mut().set_aside(state, "disk #3");
        }
        seen.record_mut().weight = 5;
        seen.record_mut().comment = "rack 7".to_owned();
        seen.record_mut().notes.extra = "bought=2026".to_owned();
        seen.record_mut().features.push("hot".to_owned());
        let mut before = seen.record().clone();
        let mut seen = seen.with_wish("RealMemory=900");
        let done = done(&mut seen);
        assert!(!done.contains(&"drain the node for a new registration".to_owned()), "it is closed: {done:?}");
        assert!(done.contains(&"delete the node's record".to_owned()), "{done:?}");
        let mut after = seen.record().clone();
        // An administrator's failing node waits drained for a moment; Slurm takes no other state from a node.
        after.states.retain(|state| before.has(state));
        before.states.sort();
        after.states.sort();
        assert_eq!(after, before);
        assert!(!conf(&seen).contains("State="), "{}", conf(&seen));
    }
}

#[test]
fn a_drain_by_slurm_for_a_description_that_did_not_fit_is_not_given_back() {
    let mut seen = Observed::joined();
    seen.record_mut().set_aside("DRAIN", "Low RealMemory (reported:900 < 100.00% of configured:24103)");
    seen.record_mut().states.push("INVALID_REG".to_owned());
    seen.machine.detected = Some(Node::from_detected("NodeName=x CPUs=2 RealMemory=900").unwrap());
    done(&mut seen);
    assert!(!seen.record().is_closed());
}

#[test]
fn a_change_that_is_taken_back_leaves_nothing_behind() {
    for rounds in 1..=3 {
        let mut seen = Observed::joined().with_wish("RealMemory=900");
        let goal = (seen.machine.written.clone(), seen.record().clone());
        // Until, at most, the record is marked and the new description written.
        for _ in 0..rounds {
            plan(&seen).steps.iter().for_each(|step| seen.apply_in_memory(step));
        }
        let mut seen = seen.in_the_next_hook().with_wish("");
        done(&mut seen);
        let mut after = seen.record().clone();
        after.reason.clear();
        assert_eq!((seen.machine.written.clone(), after), goal, "after {rounds} rounds");
        assert_eq!(seen.machine.change, None);
    }
}

/// slurmd fails because of what the operator asked for last.
fn refuses(seen: &mut Observed) {
    seen.machine.daemon = Daemon::Failing { result: "exit-code".to_owned() };
    seen.machine.registration = Registration::Unreachable;
    seen.machine.complaint = Some("fatal: 99 is too many cores".to_owned());
}

#[test]
fn a_description_that_slurmd_does_not_start_with_is_taken_back_for_the_last_one_that_worked() {
    for closed in [false, true] {
        let mut seen = Observed::joined().with_wish("Weight=3");
        done(&mut seen);
        let mut seen = seen.in_the_timers_call();
        if closed {
            seen.record_mut().set_aside("DRAIN", "disk");
        }
        done(&mut seen);
        let worked = conf(&seen);
        assert!(worked.contains("Weight=3"), "{worked}");
        let mut seen = seen.in_the_next_hook().with_wish("Weight=3 CoreSpecCount=99");
        while seen.machine.registration != Registration::Absent {
            plan(&seen).steps.iter().for_each(|step| seen.apply_in_memory(step));
        }
        refuses(&mut seen);
        // Whoever called: the alarm may start slurmd, because it will not fail again for this.
        seen.alarmed = true;
        let mut taken = Vec::new();
        for _ in 0..ROUNDS {
            let steps = plan(&seen).steps;
            taken.extend(steps.iter().map(ToString::to_string));
            for step in &steps {
                if *step == Step::StartDaemon {
                    seen.machine.complaint = None;
                    seen.machine.registration = Registration::Absent;
                }
                seen.apply_in_memory(step);
            }
        }
        assert_eq!(taken[0], "take back `Weight=3 CoreSpecCount=99`, which slurmd refuses");
        assert_eq!(taken[1..3], ["write /etc/default/slurmd", "start slurmd"]);
        assert_eq!((conf(&seen), seen.machine.change.clone()), (worked, None), "{taken:#?}");
        assert_eq!(seen.record().is_closed(), closed);
        let refused = seen.machine.refused.as_ref().unwrap();
        assert_eq!(refused.wish.render(), "Weight=3 CoreSpecCount=99");
        assert!(
            crate::status::status(&seen)
                .message()
                .contains("slurmd does not start with CoreSpecCount=99: fatal: 99 is too")
        );
    }
}

#[test]
fn a_reset_is_taken_up_although_slurmd_fails_with_what_was_asked_for_before() {
    let mut seen = Observed::joined().with_wish("CoreSpecCount=99");
    while seen.machine.registration != Registration::Absent {
        plan(&seen).steps.iter().for_each(|step| seen.apply_in_memory(step));
    }
    refuses(&mut seen);
    let seen = seen.with_wish("");
    assert_eq!(steps(&seen), ["write /etc/default/slurmd"]);
    let seen = seen.settled();
    assert!(!conf(&seen).contains("CoreSpecCount"), "{}", conf(&seen));
}

#[test]
fn a_slurmd_that_fails_for_another_reason_keeps_its_description() {
    let mut seen = Observed::joined().with_wish("CoreSpecCount=1");
    while seen.machine.registration != Registration::Absent {
        plan(&seen).steps.iter().for_each(|step| seen.apply_in_memory(step));
    }
    refuses(&mut seen);
    seen.machine.complaint = Some("fatal: Unable to bind listen port (6818): Address already in use".to_owned());
    assert_eq!(steps(&seen), ["start slurmd"]);
    // One that waits for jobs has no part in a failure.
    let mut seen = Observed::joined().with_wish("CoreSpecCount=1").with_jobs(&[4]);
    done(&mut seen);
    refuses(&mut seen);
    assert_eq!(steps(&seen.in_the_next_hook()), ["start slurmd"]);
}

#[test]
fn a_little_more_memory_is_no_change_and_less_is() {
    let detected = |memory: u64| {
        let line = "NodeName=x CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1";
        Some(Node::from_detected(&format!("{line} RealMemory={memory}")).unwrap())
    };
    let mut seen = Observed::joined();
    seen.machine.detected = detected(24_200);
    assert_eq!(steps(&seen), [""; 0]);
    for memory in [24_000, 48_000] {
        // Another kernel, or another machine; a tenth less would be a loss.
        seen.machine.detected = detected(memory);
        assert_eq!(steps(&seen), ["note what the node has to get back"]);
    }
}

#[test]
fn a_card_whose_driver_came_later_is_registered() {
    let mut seen = Observed::joined();
    seen.machine.detected.as_mut().unwrap().set("Gres", "gpu:tesla_t4:2").unwrap();
    done(&mut seen);
    assert!(conf(&seen).contains("Gres=gpu:tesla_t4:2"));
}

#[test]
fn cards_and_memory_that_are_gone_are_missed_until_the_operator_accepts_it() {
    let mut seen = Observed::joined();
    seen.machine.detected.as_mut().unwrap().set("Gres", "gpu:tesla_t4:2").unwrap();
    done(&mut seen);
    let mut seen = seen.in_the_timers_call();
    seen.start();
    seen.machine.detected.as_mut().unwrap().set("Gres", "gpu:tesla_t4:1").unwrap();
    seen.machine.detected.as_mut().unwrap().set("RealMemory", "12000").unwrap();
    assert_eq!(lost(&seen).as_deref(), Some("RealMemory=12000 of 24103, Gres=gpu:tesla_t4:1 of gpu:tesla_t4:2"));
    assert_eq!(done(&mut seen), ["remember what this machine has", "look again no more"]);
    assert!(conf(&seen).contains("RealMemory=24103 Gres=gpu:tesla_t4:2"), "Slurm refuses the node, and says why");
    // `node-config reset=true` forgets what the machine had.
    seen.machine.remembered = None;
    done(&mut seen);
    assert!(conf(&seen).contains("RealMemory=12000 Gres=gpu:tesla_t4:1"), "{}", conf(&seen));
    assert_eq!(lost(&seen), None);
}

#[test]
fn a_new_node_may_come_up_down_and_stays_so_until_somebody_opens_it() {
    let down = Given { default_node_state: "down", default_node_reason: "look first", ..Given::default() };
    let mut seen = Observed::fresh().offered().with_options(&down);
    done(&mut seen);
    assert_eq!((seen.record().states[0].as_str(), seen.record().reason.as_str()), ("DOWN", "look first"));
    assert!(!conf(&seen).contains("State"), "only the first registration says so: {}", conf(&seen));
    let mut seen = seen.in_the_timers_call();
    seen.record_mut().states[0] = "IDLE".to_owned();
    // The controllers forget the node, and it registers again: a reload would bring the first state back.
    let mut forgotten = seen.clone().with_registration(Registration::Absent);
    assert_eq!(done(&mut forgotten)[0], "restart slurmd");
    assert!(!forgotten.record().is_closed());
    // An option that changes later is for new nodes only.
    let mut seen = seen.with_options(&Given { default_node_state: "down", ..Given::default() });
    assert_eq!(done(&mut seen), ["look again no more"]);
}

#[test]
fn a_new_node_waits_for_an_option_that_it_cannot_do_without() {
    let bad = Given { default_node_state: "donw", ..Given::default() };
    let mut seen = Observed::fresh().offered().with_options(&bad);
    done(&mut seen);
    assert_eq!(seen.machine.daemon, Daemon::Stopped);
    assert_eq!(steps(&Observed::joined().with_options(&bad)), [""; 0], "a known node does not need it");
}

#[test]
fn a_restart_that_would_cost_jobs_is_not_begun() {
    let mut seen = Observed::joined().with_wish("RealMemory=900");
    seen.machine.kill_mode = "control-group".to_owned();
    assert_eq!(done(&mut seen), ["look again soon"]);
}

/// Kills the hook after each step in turn, lets slurmd restart by itself or not, and runs the hook again.
#[test]
fn a_change_killed_anywhere_ends_the_same_and_keeps_what_the_administrator_had() {
    for closed in [None, Some("DRAIN"), Some("DOWN")] {
        let start = || {
            let mut seen = Observed::joined();
            if let Some(state) = closed {
                seen.record_mut().set_aside(state, "disk");
            }
            seen.with_wish("RealMemory=900")
        };
        let mut goal = start();
        let length = done(&mut goal).len();
        assert!(length > 6, "only {length} steps");
        for killed_after in 0..length {
            for slurmd_restarts in [false, true] {
                let mut seen = start();
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
                if slurmd_restarts {
                    seen.start();
                }
                // Two hooks: what one has tried in vain, the next tries again.
                let mut seen = seen.in_the_next_hook();
                done(&mut seen);
                let mut seen = seen.in_the_timers_call();
                done(&mut seen);
                let place = format!("{closed:?} killed after {killed_after}, restarted: {slurmd_restarts}");
                assert_eq!(seen.machine.written, goal.machine.written, "{place}");
                assert_eq!(seen.record().states, goal.record().states, "{place}");
                assert_eq!(seen.record().comment, goal.record().comment, "{place}");
                assert_eq!((&seen.machine.change, seen.waking), (&None, false), "{place}");
                if closed.is_some() {
                    assert_eq!(seen.record().reason, "disk", "{place}");
                }
            }
        }
    }
}

#[test]
fn a_boot_in_the_middle_brings_a_closed_node_back_closed() {
    let mut seen = Observed::joined();
    seen.record_mut().set_aside("DRAIN", "disk");
    let mut seen = seen.with_wish("RealMemory=900");
    while seen.machine.registration != Registration::Absent {
        plan(&seen).steps.iter().for_each(|step| seen.apply_in_memory(step));
    }
    assert!(conf(&seen).contains("State=DRAIN Reason=disk"), "{}", conf(&seen));
    let mut seen = seen.in_the_next_hook();
    seen.start();
    assert!(seen.record().is_closed());
    done(&mut seen);
    assert_eq!((seen.record().is_closed(), seen.record().reason.as_str()), (true, "disk"));
}
