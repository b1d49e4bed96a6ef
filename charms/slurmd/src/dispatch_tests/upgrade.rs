//! A unit that is refreshed from the version that kept its notes in eight files.

use super::Node;
use crate::names;
use crate::node::lifecycle::{Lifecycle, old};
use charm_testing::Hook;
use serde_json::json;
use slurm_unit::retry;

const DETECTED: &str = "CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=24103";

impl Node {
    /// Puts the notes of the earlier version in the place of ours.
    fn with_old_notes(&self) {
        let note = self.note();
        let detection = note.detection.unwrap();
        std::fs::remove_file(self.machine.machine().path(names::NODE_NOTE)).unwrap();
        self.machine.write(old::DETECTION, &format!("{}\n{DETECTED}\n{DETECTED}\n", detection.invocation));
        self.machine.write(old::MARKED, "1794830922\n");
    }

    fn old_files(&self) -> Vec<&str> {
        old::ALL.into_iter().filter(|path| self.machine.read(path).is_some()).collect()
    }
}

#[test]
fn a_unit_at_rest_takes_its_notes_over_and_goes_on_resting() {
    let (node, _) = Node::joined();
    node.with_old_notes();
    node.machine.write(old::REQUESTED, "Weight=7\n");
    node.machine.write(old::LAST_WORKING, "Weight=7\n");
    node.machine.write(names::OPTIONS_FILE, &node.machine.read(names::OPTIONS_FILE).unwrap());
    node.hook(&Hook::named("upgrade-charm"));
    assert_eq!(node.old_files(), [""; 0]);
    assert_eq!(node.note().requested.render(), "Weight=7");
    node.time_passes();
    node.hook(&Hook::named(retry::EVENT));
    assert_eq!((node.record().weight, node.shown().as_str()), (7, "active: idle, partition compute"));
}

#[test]
fn the_timer_of_the_earlier_version_is_ended() {
    const TIMER: &str = "/run/systemd/transient/compute-0-look-again.timer";
    let (node, _) = Node::joined();
    node.with_old_notes();
    node.machine.write(TIMER, "[Timer]\n");
    // The timer may call before Juju does.
    node.hook(&Hook::named("look-again"));
    assert_eq!(node.machine.read(TIMER), None);
    assert_eq!(node.shown(), "active: idle, partition compute");
}

/// The earlier version was in the middle of a new registration: it had drained the node and marked its record.
fn in_the_middle() -> Node {
    let (node, _) = Node::joined();
    node.with_old_notes();
    node.machine.write(old::REQUESTED, "RealMemory=900\n");
    let from = format!("{DETECTED} MemSpecLimit=1024 Feature=compute");
    let change = json!({"from": from, "closed": null, "weight": 5, "features": [], "comment": "rack 7", "notes": {
        "extra": "", "instance_id": "", "instance_type": "", "cpu_binding": 0}});
    node.machine.write(old::REREGISTRATION, &change.to_string());
    let reason = format!("reason={}", names::CHANGE_REASON);
    node.machine.set_by_hand(&["nodename=compute-0", "state=drain", &reason]);
    node.machine.set_by_hand(&["nodename=compute-0", &format!("comment={}", names::CHANGE_COMMENT)]);
    node
}

#[test]
fn a_change_that_was_under_way_is_brought_to_its_end() {
    let node = in_the_middle();
    node.hook(&Hook::named("upgrade-charm"));
    let record = node.record();
    assert_eq!((record.real_memory, record.weight, record.comment.as_str()), (900, 5, "rack 7"));
    assert!(!record.has("DRAIN"), "a drain of ours is not left behind: {record:?}");
    assert_eq!((node.note().lifecycle, node.old_files().len()), (Lifecycle::Member, 0));
}

#[test]
fn a_change_that_was_under_way_and_is_killed_again_is_brought_to_its_end() {
    for at in 0.. {
        let node = in_the_middle();
        node.model.knife().kill_before(at);
        let killed = node.dispatch(&Hook::named("upgrade-charm")).killed;
        node.model.knife().spare();
        node.hook(&Hook::named("upgrade-charm"));
        for _ in 0..2 {
            node.time_passes();
            node.hook(&Hook::named(retry::EVENT));
        }
        let record = node.record();
        let found = (record.real_memory, record.weight, record.comment.as_str(), record.has("DRAIN"));
        assert_eq!(found, (900, 5, "rack 7", false), "killed before effect {at}");
        assert_eq!((node.note().lifecycle, node.old_files().len()), (Lifecycle::Member, 0), "{at}");
        if !killed {
            assert!(at > 10, "only {at} effects");
            break;
        }
    }
}

#[test]
fn a_change_that_cannot_be_read_stops_the_work_and_is_told() {
    let node = in_the_middle();
    node.machine.write(old::REREGISTRATION, "{\"from\": ");
    node.hook(&Hook::named("upgrade-charm"));
    assert!(node.shown().starts_with("blocked: /var/lib/slurmd-charm/change: "), "{}", node.shown());
    assert!(node.record().has("DRAIN") && node.machine.is_running(names::SERVICE));
    assert!(node.machine.read(old::REREGISTRATION).is_some(), "it is kept for somebody to look at");
    // The operator gives up what was noted.
    assert!(node.act("node-config", json!({"reset": true})).failure.is_none());
    assert!(!node.record().has("DRAIN"), "a drain of ours is known by its reason");
    assert_eq!((node.old_files().len(), node.shown().as_str()), (0, "active: idle, partition compute"));
}
