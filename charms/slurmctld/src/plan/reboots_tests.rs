//! How nodes are rebooted, a few at a time, and how each comes to the state that it had.

use super::*;
use crate::plan::situations::World;
use crate::reboots::Wish;
use slurm_unit::note::Noted;

const BOOTED: u64 = 1_000;
const ISSUED_REASON: &str = " : reboot issued";

/// A controller with nodes of these states that are to be rebooted, so many at a time.
fn queued(at_once: usize, states: &[&[&str]]) -> World {
    let mut world = World::serving().with_compute("compute", "");
    let wish = Wish { asap: true, reason: String::new() };
    let mut reboots = Reboots { max_unavailable: at_once, ..Reboots::default() };
    for (number, state) in states.iter().enumerate() {
        let name = format!("compute-{number}");
        world = world.with_node(&name, "compute", state).with_unit(&format!("compute/{number}"));
        reboots.waiting.push((name.parse().unwrap(), wish.clone()));
        let record = world.node_record(&name);
        (record.booted, record.started) = (Some(BOOTED), Some(BOOTED));
        if record.is_set_aside() {
            record.reason = "disk".to_owned();
        }
    }
    let mut world = world.settled();
    world.reboots = Noted::Known(reboots);
    world
}

impl World {
    #[track_caller]
    fn after_a_minute(&mut self, expected: &[&str]) {
        self.now += 60;
        self.dispatch(&|_, _| None);
        assert_eq!(self.taken, expected, "{:?}", self.conditions);
    }

    fn stage_of(&self, node: &str) -> Option<Stage> {
        self.reboots.known()?.away.iter().find(|(name, _)| name.as_str() == node).map(|(_, away)| away.stage)
    }

    fn shown_node(&mut self, node: &str) -> (String, String) {
        let record = self.node_record(node);
        let state: Vec<&str> = record.state.iter().map(String::as_str).filter(|flag| *flag != "DYNAMIC_NORM").collect();
        (state.join("+"), record.reason.clone())
    }

    fn issue(&mut self, node: &str) {
        let record = self.node_record(node);
        record.state = ["DOWN", "DRAIN", "REBOOT_ISSUED", "DYNAMIC_NORM"].map(str::to_owned).into();
        record.reason += ISSUED_REASON;
    }

    /// The node registers in this state, after a boot that Slurm sees or one of a container.
    fn come_back(&mut self, node: &str, state: &[&str], visibly: bool) {
        let now = self.now;
        let record = self.node_record(node);
        record.state = state.iter().copied().chain(["DYNAMIC_NORM"]).map(str::to_owned).collect();
        record.started = Some(now);
        if visibly {
            record.booted = Some(now);
        }
    }
}

fn pair(state: &str, reason: &str) -> (String, String) {
    (state.to_owned(), reason.to_owned())
}

const ASK: [&str; 2] = ["note the reboots", "have compute-0 rebooted"];

#[test]
fn no_more_nodes_are_away_than_may_be() {
    let mut world = queued(2, &[&["IDLE"], &["IDLE"], &["IDLE"]]);
    world.after_a_minute(&["note the reboots", "have compute-0 rebooted", "have compute-1 rebooted"]);
    assert_eq!(world.reported(), "active: primary - UP; reboots: 2 of 3 away, 1 to go");
    assert!(world.retry_timer);
    world.after_a_minute(&["note the reboots"]);
    assert_eq!(world.stage_of("compute-0"), Some(Stage::Requested));
    world.after_a_minute(&[]);
    world.issue("compute-1");
    world.come_back("compute-1", &["IDLE"], true);
    world.after_a_minute(&["note the reboots", "note the reboots", "have compute-2 rebooted"]);
    assert_eq!(world.reported(), "active: primary - UP; reboots: 2 of 3 away, 0 to go");
}

#[test]
fn a_node_that_is_back_ends_the_queue_and_the_note() {
    let mut world = queued(1, &[&["IDLE"]]);
    world.after_a_minute(&ASK);
    assert_eq!(world.shown_node("compute-0"), pair("IDLE+DRAIN+REBOOT_REQUESTED", "reboot"));
    world.issue("compute-0");
    world.after_a_minute(&["note the reboots"]);
    assert_eq!(world.stage_of("compute-0"), Some(Stage::Issued));
    world.come_back("compute-0", &["IDLE"], true);
    world.after_a_minute(&["note the reboots", "note the reboots"]);
    assert_eq!(world.reboots, Noted::Absent);
    assert_eq!(world.reported(), "active: primary - UP");
    world.after_a_minute(&[]);
    assert!(!world.retry_timer);
}

#[test]
fn a_reboot_that_takes_longer_than_slurm_waits_ends_in_service_all_the_same() {
    for visibly in [true, false] {
        let mut world = queued(1, &[&["IDLE"]]);
        world.after_a_minute(&ASK);
        world.issue("compute-0");
        world.after_a_minute(&["note the reboots"]);
        // Slurm has given up, and the machine is not back.
        let record = world.node_record("compute-0");
        record.state = ["DOWN", "DRAIN", "DYNAMIC_NORM"].map(str::to_owned).into();
        record.reason += " : reboot timed out";
        world.after_a_minute(&[]);
        world.come_back("compute-0", &["DOWN", "DRAIN"], visibly);
        world.after_a_minute(&["note the reboots", "resume compute-0", "note the reboots"]);
        assert_eq!(world.shown_node("compute-0").0, "IDLE");
        assert_eq!(world.reboots, Noted::Absent);
    }
}

#[test]
fn a_container_that_is_back_is_not_touched_while_slurm_waits_for_it() {
    let mut world = queued(1, &[&["IDLE"]]);
    world.after_a_minute(&ASK);
    world.issue("compute-0");
    world.come_back("compute-0", &["DOWN", "DRAIN", "REBOOT_ISSUED"], false);
    world.after_a_minute(&["note the reboots"]);
    world.after_a_minute(&[]);
    assert_eq!(world.stage_of("compute-0"), Some(Stage::Issued));
}

#[test]
fn a_drain_of_the_operator_stays_with_its_reason() {
    let mut world = queued(1, &[&["IDLE", "DRAIN"]]);
    world.after_a_minute(&ASK);
    assert_eq!(world.shown_node("compute-0"), pair("IDLE+DRAIN+REBOOT_REQUESTED", "disk"));
    world.issue("compute-0");
    world.come_back("compute-0", &["IDLE", "DRAIN"], true);
    world.after_a_minute(&["note the reboots", "give compute-0 its reason back", "note the reboots"]);
    assert_eq!(world.shown_node("compute-0"), pair("IDLE+DRAIN", "disk"));
}

#[test]
fn a_drain_of_the_operator_stays_if_slurm_gave_the_node_up() {
    let given_up = || {
        let mut world = queued(1, &[&["IDLE", "DRAIN"]]);
        world.after_a_minute(&ASK);
        world.issue("compute-0");
        world.node_record("compute-0").reason += " : reboot timed out";
        world.come_back("compute-0", &["DOWN", "DRAIN"], true);
        world
    };
    let steps = ["note the reboots", "note the reboots", "resume compute-0", "drain compute-0 again"];
    let mut world = given_up();
    world.after_a_minute(&[&steps[..], &["note the reboots"]].concat());
    assert_eq!(world.shown_node("compute-0"), pair("IDLE+DRAIN", "disk"));
    // A kill between the two leaves it resumed.
    let mut world = given_up();
    assert!(world.dispatch_until(&|_, _| None, 3));
    assert_eq!(world.shown_node("compute-0").0, "IDLE");
    world.after_a_minute(&["drain compute-0 again", "note the reboots"]);
    assert_eq!(world.shown_node("compute-0"), pair("IDLE+DRAIN", "disk"));
}

#[test]
fn what_an_administrator_opened_meanwhile_stays_open() {
    let mut world = queued(1, &[&["IDLE", "DRAIN"]]);
    world.after_a_minute(&ASK);
    world.issue("compute-0");
    world.come_back("compute-0", &["IDLE"], true);
    world.after_a_minute(&["note the reboots", "note the reboots"]);
    assert_eq!(world.shown_node("compute-0").0, "IDLE");
}

#[test]
fn a_node_that_was_down_stays_down_with_its_reason() {
    let mut world = queued(1, &[&["DOWN"]]);
    world.after_a_minute(&ASK);
    world.issue("compute-0");
    world.node_record("compute-0").reason += " : reboot complete";
    world.come_back("compute-0", &["DOWN"], true);
    world.after_a_minute(&["note the reboots", "give compute-0 its reason back", "note the reboots"]);
    assert_eq!(world.shown_node("compute-0"), pair("DOWN", "disk"));
}

#[test]
fn a_drain_while_the_node_is_away_is_not_forgotten() {
    let mut world = queued(1, &[&["IDLE"]]);
    world.after_a_minute(&ASK);
    world.node_record("compute-0").reason = "fan".to_owned();
    world.after_a_minute(&["note the reboots"]);
    world.issue("compute-0");
    world.after_a_minute(&["note the reboots"]);
    // Slurm resumes it, as it was told to.
    world.come_back("compute-0", &["IDLE"], true);
    world.after_a_minute(&["note the reboots", "drain compute-0 again", "note the reboots"]);
    assert_eq!(world.shown_node("compute-0"), pair("IDLE+DRAIN", "fan"));
}

#[test]
fn what_somebody_does_with_a_node_that_is_back_stays() {
    let mut world = queued(1, &[&["IDLE"]]);
    world.after_a_minute(&ASK);
    world.issue("compute-0");
    world.come_back("compute-0", &["IDLE", "DRAIN"], true);
    world.node_record("compute-0").reason = "loud".to_owned();
    world.after_a_minute(&["note the reboots", "note the reboots"]);
    assert_eq!(world.shown_node("compute-0"), pair("IDLE+DRAIN", "loud"));
}

#[test]
fn a_request_that_a_crash_forgot_is_made_again() {
    let mut world = queued(1, &[&["IDLE"]]);
    world.after_a_minute(&ASK);
    let record = world.node_record("compute-0");
    (record.state, record.booted, record.started) = (vec!["IDLE".to_owned()], None, None);
    world.after_a_minute(&[]);
    let record = world.node_record("compute-0");
    (record.booted, record.started) = (Some(BOOTED - 1), Some(BOOTED));
    world.after_a_minute(&ASK);
    assert_eq!(world.stage_of("compute-0"), Some(Stage::Begun), "it may be forgotten again");
}

#[test]
fn a_reboot_that_an_administrator_took_back_is_not_asked_for_again() {
    for (before, reason) in [(&["IDLE"] as &[&str], ""), (&["IDLE", "DRAIN"], "disk")] {
        let mut world = queued(1, &[before]);
        world.after_a_minute(&ASK);
        world.after_a_minute(&["note the reboots"]);
        // Slurm takes the drain away with it, whosever it is.
        let record = world.node_record("compute-0");
        record.state = vec!["IDLE".to_owned()];
        record.reason.clear();
        world.now += 60;
        world.dispatch(&|_, _| None);
        assert_eq!(world.reboots, Noted::Absent);
        assert_eq!(world.shown_node("compute-0"), pair(&before.join("+"), reason));
    }
}

#[test]
fn a_node_that_does_not_come_back_keeps_its_place_and_is_named() {
    let mut world = queued(1, &[&["IDLE"], &["IDLE"]]);
    world.after_a_minute(&ASK);
    world.issue("compute-0");
    world.after_a_minute(&["note the reboots"]);
    world.now += PATIENCE;
    world.after_a_minute(&[]);
    let late = "active: primary - UP; reboots: 1 of 2 away, 1 to go; not back from reboot: compute-0";
    assert_eq!(world.reported(), late);
    assert!(world.retry_timer);
}

#[test]
fn a_node_that_does_not_answer_waits_and_others_go_first() {
    let mut world = queued(2, &[&["IDLE", "NOT_RESPONDING"], &["IDLE"]]);
    world.after_a_minute(&["note the reboots", "have compute-1 rebooted"]);
    let mut world = queued(1, &[&["IDLE", "NOT_RESPONDING"]]);
    world.after_a_minute(&[]);
    let stalled = "active: primary - UP; reboots: 0 of 1 away, 1 to go; cannot be rebooted now: compute-0";
    assert_eq!(world.reported(), stalled);
}

#[test]
fn whoever_is_away_for_another_reason_takes_a_place() {
    for state in [
        &["DOWN"] as &[&str],
        &["IDLE", "NOT_RESPONDING"],
        &["IDLE", "INVALID_REG"],
        &["IDLE", "DRAIN", "REBOOT_REQUESTED"],
        &["DOWN", "DRAIN", "REBOOT_ISSUED"],
    ] {
        let mut world = queued(1, &[&["IDLE"]]).with_node("compute-9", "compute", state).with_unit("compute/9");
        world.after_a_minute(&[]);
        let held = "active: primary - UP; reboots: 0 of 1 away, 1 to go; reboots wait for compute-9";
        assert_eq!(world.reported(), held, "{state:?}");
        assert!(world.retry_timer);
        world.node_record("compute-9").state = vec!["IDLE".to_owned()];
        world.after_a_minute(&ASK);
        // With more places it does not matter.
        let mut world = queued(2, &[&["IDLE"]]).with_node("compute-9", "compute", state).with_unit("compute/9");
        world.after_a_minute(&ASK);
    }
}

#[test]
fn whoever_is_drained_or_switched_off_takes_no_place() {
    for state in [&["IDLE", "DRAIN"] as &[&str], &["DOWN", "DRAIN", "NOT_RESPONDING"], &["IDLE", "POWERED_DOWN"]] {
        let mut world = queued(1, &[&["IDLE"]]).with_node("compute-9", "compute", state).with_unit("compute/9");
        world.after_a_minute(&ASK);
    }
}

#[test]
fn a_node_of_another_partition_takes_no_place() {
    let mut world = queued(1, &[&["IDLE"]]).with_node("gpu-0", "gpu", &["DOWN"]);
    world.after_a_minute(&ASK);
}

#[test]
fn nodes_that_are_down_are_rebooted_one_at_a_time_and_do_not_wait_for_each_other() {
    let mut world = queued(1, &[&["DOWN"], &["DOWN"]]);
    world.after_a_minute(&ASK);
    assert_eq!(world.reported(), "active: primary - UP; reboots: 1 of 2 away, 1 to go");
}

#[test]
fn a_node_that_fails_after_its_reboot_stops_the_others() {
    let mut world = queued(1, &[&["IDLE"], &["IDLE"], &["IDLE"]]);
    world.after_a_minute(&ASK);
    world.issue("compute-0");
    world.come_back("compute-0", &["IDLE", "INVALID_REG"], true);
    world.after_a_minute(&["note the reboots", "note the reboots"]);
    assert_eq!(world.reported(), "active: primary - UP; reboots: 0 of 3 away, 2 to go; reboots wait for compute-0");
}

#[test]
fn a_node_that_leaves_the_cluster_leaves_the_queue() {
    let mut world = queued(1, &[&["IDLE", "DRAIN"], &["IDLE"]]);
    world.node_record("compute-0").reason = LEAVING_REASON.to_owned();
    world.after_a_minute(&["note the reboots", "have compute-1 rebooted"]);
    let mut world = queued(1, &[&["IDLE"]]);
    world.nodes.clear();
    world.goal.as_mut().unwrap().clear();
    world.after_a_minute(&["note the reboots"]);
    assert_eq!(world.reboots, Noted::Absent);
}

#[test]
fn a_look_that_fails_changes_nothing() {
    let mut world = queued(1, &[&["IDLE"]]);
    world.after_a_minute(&ASK);
    world.mute = true;
    world.after_a_minute(&[]);
    assert!(world.reported().ends_with("reboots: 1 of 1 away, 0 to go"), "{}", world.reported());
}

#[test]
fn only_the_leader_reboots_nodes() {
    let mut world = queued(1, &[&["IDLE"]]).not_leading();
    world.after_a_minute(&[]);
}

#[test]
fn a_note_that_cannot_be_read_holds_reboots_and_nothing_else() {
    let mut world = queued(1, &[&["IDLE"]]);
    world.reboots = Noted::Unreadable { why: "/etc/slurm/reboots.json: no".to_owned() };
    world.after_a_minute(&[]);
    let held = "blocked: reboots on hold: repair or delete the note /etc/slurm/reboots.json: no";
    assert_eq!(world.reported(), held);
}

#[test]
fn a_dispatch_killed_before_any_step_asks_for_no_reboot_twice() {
    for at in 0.. {
        let mut world = queued(1, &[&["IDLE"], &["IDLE", "DRAIN"]]);
        let (mut left, mut killed, mut asked) = (at, false, 0);
        for _ in 0..20 {
            world.now += 60;
            let limit = if killed { usize::MAX } else { left };
            killed |= world.dispatch_until(&|_, _| None, limit);
            left = left.saturating_sub(world.taken.len());
            asked += world.taken.iter().filter(|step| step.ends_with("rebooted")).count();
            for (node, back) in [("compute-0", &["IDLE"] as &[&str]), ("compute-1", &["IDLE", "DRAIN"])] {
                if world.node_record(node).has("REBOOT_REQUESTED") {
                    world.issue(node);
                    world.come_back(node, back, true);
                }
            }
        }
        assert_eq!((asked, world.reboots.clone()), (2, Noted::Absent), "{at}");
        assert_eq!(world.shown_node("compute-0").0, "IDLE");
        assert_eq!(world.shown_node("compute-1"), pair("IDLE+DRAIN", "disk"));
        if !killed {
            assert!(at > 4, "only {at} steps");
            return;
        }
    }
}
