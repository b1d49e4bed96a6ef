//! How a node that is registered comes to another description, a step at a time, with jobs and administrators
//! unharmed.
//!
//! ```text
//! differs ─▶ jobs on it? ──yes──▶ wait, and touch nothing but what Slurm changes in place
//!               │no
//!               ▼
//!   note what it has to get back ─▶ close it, mark the record ─▶ look again ──jobs──▶ open it, forget the note
//!                                                                    │none
//!      forget the note ◀─ give it back ◀─ start anew ◀─ delete ◀─ write the new description
//! ```
//!
//! Slurm ignores another description of a node that it knows, so the record has to be deleted first, and with it goes
//! what an administrator set there. Each phase follows from facts alone: the note on the machine, the mark on the
//! record, what the daemon was started with. So a dispatch that was killed anywhere is continued by the next one.

use super::description::{self, features, only_features_differ, open};
use super::state::is_closed;
use crate::facts::Occupancy;
use crate::names;
use serde::{Deserialize, Serialize};
use slurm_conf::Node;
use slurm_ops::scontrol::{NodeLookup, NodeNotes, NodeRecord};
use slurm_unit::LEAVING_REASON;

/// What a node has to get back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reregistration {
    /// The description that the old record was registered with.
    pub from: String,
    /// Who closed it, if somebody did.
    pub closed: Option<Closed>,
    /// A weight that was set with scontrol.
    pub weight: Option<u64>,
    /// Features that were added with scontrol.
    pub features: Vec<String>,
    pub comment: String,
    #[serde(default)]
    pub notes: NodeNotes,
}

/// A node that takes no jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Of `DOWN`, `DRAIN` and `FAIL` those that are set.
    pub states: Vec<String>,
    pub reason: String,
}

impl Closed {
    /// Returns what closes a node, unless this charm does, or Slurm itself because it did not like the description.
    fn of(record: &NodeRecord) -> Option<Self> {
        if !is_closed(record) || is_ours(record) || is_rejection(record) {
            return None;
        }
        let states = ["DOWN", "DRAIN", "FAIL"].into_iter().filter(|state| record.has(state)).map(str::to_owned);
        Some(Self { states: states.collect(), reason: record.reason.clone() })
    }

    /// Returns the state with which a node is registered closed: Slurm knows two.
    fn first_state(&self) -> &'static str {
        if self.states.iter().any(|state| state == "DOWN") { "DOWN" } else { "DRAIN" }
    }
}

impl Reregistration {
    /// Returns what a node with this record, registered as `on_disk`, has to get back when it is registered as
    /// `desired`.
    pub fn of(record: &NodeRecord, on_disk: &Node, desired: &Node) -> Self {
        let own = description::weight(on_disk);
        let weight_stays = on_disk.get("Weight") == desired.get("Weight");
        let known = features(on_disk);
        Self {
            from: on_disk.render(),
            closed: Closed::of(record),
            weight: (weight_stays && record.weight != own).then_some(record.weight),
            features: record.features.iter().filter(|feature| !known.contains(feature)).cloned().collect(),
            comment: record.comment.clone(),
            notes: record.notes.clone(),
        }
    }

    /// Returns this note if somebody has closed the node since it was written.
    pub fn renewed(&self, record: &NodeRecord) -> Option<Self> {
        let closed = Closed::of(record);
        (closed.is_some() && closed != self.closed).then(|| Self { closed, ..self.clone() })
    }

    /// Returns the description of the first registration: a node that was closed comes back closed.
    pub fn first_conf(&self, desired: &Node) -> Node {
        match &self.closed {
            None => desired.clone(),
            Some(closed) => description::closed(desired, closed.first_state(), &closed.reason),
        }
    }

    /// Says whether a node has all of it back.
    pub fn is_restored(&self, record: &NodeRecord) -> bool {
        let closed = self
            .closed
            .as_ref()
            .is_none_or(|closed| closed.states.iter().all(|state| record.has(state)) && closed.reason == record.reason);
        let weight = self.weight.is_none_or(|weight| weight == record.weight);
        let features = self.features.iter().all(|feature| record.features.contains(feature));
        closed && weight && features && self.notes.are_in(&record.notes) && record.comment == self.comment()
    }

    /// Returns the comment to give back. One that is not empty also tells that the node has been saved.
    pub fn comment(&self) -> &str {
        comment_of(&self.comment)
    }
}

/// Returns a comment without the mark of a record that is being replaced.
pub fn comment_of(comment: &str) -> &str {
    match comment {
        "" | names::CHANGE_COMMENT => "joined",
        comment => comment,
    }
}

/// Says whether this charm closed the node: for another description, or because the node was about to leave.
pub fn is_ours(record: &NodeRecord) -> bool {
    // Of a node that falls silent Slurm says so behind the reason that it has.
    record.has("DRAIN") && [names::CHANGE_REASON, LEAVING_REASON].iter().any(|own| record.reason.starts_with(own))
}

/// Says whether Slurm closed the node because its description does not fit the machine. Another description may fit.
/// Of a node that came back to its old description only the words are left.
fn is_rejection(record: &NodeRecord) -> bool {
    let complaint = record.reason.starts_with("Low ") || record.reason.starts_with("gres/");
    let (invalid, by_slurm) = (record.has("INVALID_REG"), record.reason_by == "slurm");
    !record.has("DOWN") && ((invalid && (by_slurm || complaint)) || (complaint && by_slurm))
}

/// What is to be done next about this node's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Nothing.
    Settled,
    /// Slurm takes features in place, for good.
    Features(Vec<String>),
    /// It has to wait. A weight can be had at once, though Slurm forgets it at its next reconfigure.
    Pending { weight: Option<u64> },
    /// Nobody is there: note what the node has to get back.
    Begin(Reregistration),
    /// Keep jobs away unless somebody does already, and mark the record as the old one.
    Close { drain: bool },
    /// Have the next start use the new description.
    Describe,
    /// Delete the old record.
    Delete,
    /// The record is gone: start anew.
    Register,
    /// The new record is there: give back what the old one had.
    Restore,
    /// All is done.
    Forget,
    /// Somebody came meanwhile, or the change is not wanted any more: leave it all as it was.
    Abort { reopen: bool, ours: bool },
    /// The node is closed by this charm, and no note says why: a note was lost.
    Orphaned,
    /// It cannot be told how far it has come.
    Hold,
}

/// What the phase of a node follows from.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// How the node should describe itself.
    pub desired: &'a Node,
    /// What the next start of slurmd will use.
    pub on_disk: &'a Node,
    /// What slurmd runs with. None: it does not run. Inside none: it does, and not as a dynamic node.
    pub running: Option<Option<&'a Node>>,
    pub lookup: &'a NodeLookup,
    pub change: Option<&'a Reregistration>,
    pub set_weight: Option<u64>,
}

impl Progress<'_> {
    /// Finds out what is next. `occupancy` is asked only where something depends on it; its failure is handed on.
    pub fn phase<'o, E>(&self, occupancy: impl FnOnce() -> Result<&'o Occupancy, E>) -> Result<Phase, E> {
        match self.change {
            None => self.before(occupancy),
            Some(change) => self.during(change, occupancy),
        }
    }

    fn before<'o, E>(&self, occupancy: impl FnOnce() -> Result<&'o Occupancy, E>) -> Result<Phase, E> {
        let (NodeLookup::Present(record), Some(_)) = (self.lookup, self.running) else { return Ok(Phase::Settled) };
        let (desired, on_disk) = (self.desired, &open(self.on_disk));
        if is_ours(record) {
            return Ok(Phase::Orphaned);
        }
        if is_in_place(on_disk, desired, record) {
            return Ok(Phase::Settled);
        }
        if only_features_differ(on_disk, desired) {
            return Ok(Phase::Features(all_features(record, on_disk, desired)));
        }
        if *occupancy()? == Occupancy::Empty {
            return Ok(Phase::Begin(Reregistration::of(record, on_disk, desired)));
        }
        let weight = description::weight(desired);
        let news = on_disk.get("Weight") != desired.get("Weight") && record.weight != weight;
        // A weight that is neither the registered one nor ours is an administrator's.
        let free = record.weight == description::weight(on_disk) || self.set_weight == Some(record.weight);
        Ok(Phase::Pending { weight: (news && free).then_some(weight) })
    }

    fn during<'o, E>(
        &self,
        change: &Reregistration,
        occupancy: impl FnOnce() -> Result<&'o Occupancy, E>,
    ) -> Result<Phase, E> {
        let record = match self.lookup {
            NodeLookup::Present(record) => record,
            NodeLookup::Absent => return Ok(Phase::Register),
            NodeLookup::Unreachable { .. } => return Ok(Phase::Hold),
        };
        let first = change.first_conf(self.desired);
        let Some(with) = self.running else { return Ok(Phase::Hold) };
        let started_anew = with.is_some_and(|with| *with == first || with == self.desired);
        let marked = record.comment == names::CHANGE_COMMENT;
        if started_anew && !marked {
            return Ok(if change.is_restored(record) { Phase::Forget } else { Phase::Restore });
        }
        let ours = is_ours(record);
        let abort = Phase::Abort { reopen: ours || marked, ours };
        if change.from == self.desired.render() {
            return Ok(abort);
        }
        match occupancy()? {
            Occupancy::Empty => {}
            Occupancy::Unknown => return Ok(Phase::Hold),
            Occupancy::Jobs(_) | Occupancy::Awaited(_) | Occupancy::Reserved(_) => return Ok(abort),
        }
        if let Some(renewed) = change.renewed(record) {
            return Ok(Phase::Begin(renewed));
        }
        Ok(match (is_closed(record), marked, *self.on_disk == first) {
            (false, _, _) => Phase::Close { drain: true },
            (true, false, _) => Phase::Close { drain: false },
            (true, true, false) => Phase::Describe,
            // slurmd would register the node anew as it was, before it is started with the new description.
            (true, true, true) if record.is_to_register() => Phase::Hold,
            (true, true, true) => Phase::Delete,
        })
    }
}

/// Says whether a record has all that a description adds to another one.
pub fn is_in_place(on_disk: &Node, desired: &Node, record: &NodeRecord) -> bool {
    let on_disk = open(on_disk);
    let (desired_features, on_disk_features) = (features(desired), features(&on_disk));
    let there = |feature: &String| record.features.contains(feature);
    let unwanted = |feature: &String| !desired_features.contains(feature) && there(feature);
    on_disk == *desired
        || (only_features_differ(&on_disk, desired)
            && desired_features.iter().all(there)
            && !on_disk_features.iter().any(unwanted))
}

/// What is desired, and what an administrator added.
fn all_features(record: &NodeRecord, on_disk: &Node, desired: &Node) -> Vec<String> {
    let (mut all, known) = (features(desired), features(on_disk));
    let added = record.features.iter().filter(|feature| !known.contains(feature));
    for feature in added {
        if !all.contains(feature) {
            all.push(feature.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::idle;

    fn node(text: &str) -> Node {
        Node::from_config(text).unwrap()
    }

    fn closed(states: &[&str], reason: &str, by: &str) -> NodeRecord {
        let states = states.iter().map(|state| (*state).to_owned()).collect();
        NodeRecord { state: states, reason: reason.to_owned(), reason_by: by.to_owned(), ..idle() }
    }

    #[test]
    fn what_an_administrator_set_is_noted() {
        let record = NodeRecord {
            weight: 5,
            features: vec!["compute".to_owned(), "fast".to_owned()],
            comment: "mine".to_owned(),
            notes: NodeNotes { extra: "rack=7".to_owned(), cpu_binding: 4, ..NodeNotes::default() },
            ..closed(&["DOWN", "DRAIN", "DYNAMIC_NORM"], "it's #3", "root")
        };
        let change = Reregistration::of(&record, &node("CPUs=2 Feature=compute"), &node("CPUs=1 Feature=compute"));
        assert_eq!((change.weight, change.comment.as_str()), (Some(5), "mine"));
        assert_eq!(change.features, ["fast"]);
        assert_eq!((change.notes.extra.as_str(), change.notes.cpu_binding), ("rack=7", 4));
        assert_eq!(change.closed.as_ref().unwrap().states, ["DOWN", "DRAIN"]);
        assert_eq!(change.first_conf(&node("CPUs=1")).render(), "CPUs=1 State=DOWN Reason=\"it s  3\"");
        let text = serde_json::to_string(&change).unwrap();
        assert_eq!(serde_json::from_str::<Reregistration>(&text).unwrap(), change);
    }

    #[test]
    fn a_weight_that_changes_anyway_is_not_given_back() {
        let record = NodeRecord { weight: 5, ..idle() };
        assert_eq!(Reregistration::of(&record, &node("CPUs=2"), &node("CPUs=2 Weight=7")).weight, None);
        assert_eq!(Reregistration::of(&record, &node("CPUs=2 Weight=5"), &node("CPUs=1 Weight=5")).weight, None);
    }

    #[test]
    fn neither_our_drain_nor_a_rejection_is_an_administrators() {
        let from = node("CPUs=2");
        let of = |record: &NodeRecord| Reregistration::of(record, &from, &from).closed;
        assert_eq!(of(&closed(&["IDLE", "DRAIN"], names::CHANGE_REASON, "root")), None);
        assert_eq!(of(&closed(&["IDLE", "DRAIN", "INVALID_REG"], "Low RealMemory", "slurm")), None);
        assert_eq!(of(&closed(&["IDLE", "DRAIN"], "gres/gpu count reported lower than configured", "slurm")), None);
        let words = "RestrictedCoresPerGPU=1 but the gpus are not topologically close";
        assert_eq!(of(&closed(&["IDLE", "DRAIN", "INVALID_REG"], words, "slurm")), None);
        assert!(of(&closed(&["IDLE", "DRAIN", "INVALID_REG"], "fan is loud", "root")).is_some());
        assert!(of(&closed(&["IDLE", "DRAIN"], "Low on disk space", "root")).is_some());
        assert!(of(&closed(&["DOWN"], "Node unexpectedly rebooted", "slurm")).is_some());
        assert!(of(&closed(&["IDLE", "FAIL"], "disk", "root")).is_some());
    }

    #[test]
    fn a_drain_that_came_meanwhile_is_taken_over() {
        let change = Reregistration::of(&idle(), &node("CPUs=2"), &node("CPUs=1"));
        assert_eq!(change.renewed(&closed(&["IDLE", "DRAIN"], names::CHANGE_REASON, "root")), None);
        let renewed = change.renewed(&closed(&["IDLE", "DRAIN"], "disk", "root")).unwrap();
        assert_eq!(renewed.closed.as_ref().unwrap().reason, "disk");
        assert_eq!(renewed.renewed(&closed(&["IDLE", "DRAIN"], "disk", "root")), None);
    }

    #[test]
    fn all_of_it_has_to_be_back() {
        let record = closed(&["IDLE", "DRAIN"], "disk", "root");
        let change = Reregistration::of(&record, &node("CPUs=2"), &node("CPUs=1"));
        assert!(!change.is_restored(&idle()));
        assert!(!change.is_restored(&record), "the comment is not");
        assert!(change.is_restored(&NodeRecord { comment: "joined".to_owned(), ..record.clone() }));
        let notes = NodeNotes { instance_id: "i-1".to_owned(), ..NodeNotes::default() };
        let noted = Reregistration { notes: notes.clone(), ..change };
        assert!(!noted.is_restored(&NodeRecord { comment: "joined".to_owned(), ..record.clone() }));
        assert!(noted.is_restored(&NodeRecord { comment: "joined".to_owned(), notes, ..record }));
    }
}
