//! A node that is being registered anew: what it has to get back afterwards. Pure, but for its form on disk, which is here too.
//!
//! Slurm ignores another description of a node that it knows, so the record has to be deleted first, and with it goes what an
//! administrator set there. This note is written before anything is touched and removed when all is back.

use crate::names;
use crate::observe::Record;
use serde::{Deserialize, Serialize};
use slurm_conf::Node;
use slurm_ops::scontrol::NodeNotes;

/// The weight of a node about which nothing is said.
const DEFAULT_WEIGHT: u64 = 1;

/// What a node has to get back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
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
    fn of(record: &Record) -> Option<Self> {
        if !record.is_closed() || is_ours(record) || is_rejection(record) {
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

impl Change {
    /// Returns what a node with this record, registered as `written`, has to get back when it is registered as `wanted`.
    pub fn of(record: &Record, written: &Node, wanted: &Node) -> Self {
        let own = weight(written);
        let weight_stays = written.get("Weight") == wanted.get("Weight");
        let known = features(written);
        Self {
            from: written.render(),
            closed: Closed::of(record),
            weight: (weight_stays && record.weight != own).then_some(record.weight),
            features: record.features.iter().filter(|feature| !known.contains(feature)).cloned().collect(),
            comment: record.comment.clone(),
            notes: record.notes.clone(),
        }
    }

    /// Returns this note if somebody has closed the node since it was written.
    pub fn renewed(&self, record: &Record) -> Option<Self> {
        let closed = Closed::of(record);
        (closed.is_some() && closed != self.closed).then(|| Self { closed, ..self.clone() })
    }

    /// Returns the description of the first registration: a node that was closed comes back closed.
    pub fn first_conf(&self, wanted: &Node) -> Node {
        match &self.closed {
            None => wanted.clone(),
            Some(closed) => closed_conf(wanted, closed.first_state(), &closed.reason),
        }
    }

    /// Says whether a node has all of it back.
    pub fn is_restored(&self, record: &Record) -> bool {
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
        match self.comment.as_str() {
            "" | names::CHANGE_COMMENT => "joined",
            comment => comment,
        }
    }

    /// Reads the note.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns the note as it is kept.
    pub fn render(&self) -> String {
        serde_json::to_string(self).expect("invariant: texts and numbers can be written") + "\n"
    }
}

/// Says whether this charm closed the node.
pub fn is_ours(record: &Record) -> bool {
    record.has("DRAIN") && record.reason == names::CHANGE_REASON
}

/// Says whether Slurm closed the node because its description does not fit the machine. Another description may fit. Of a node that came
/// back to its old description only the words are left.
fn is_rejection(record: &Record) -> bool {
    let complaint = record.reason.starts_with("Low ") || record.reason.starts_with("gres/");
    let (invalid, by_slurm) = (record.has("INVALID_REG"), record.reason_by == "slurm");
    !record.has("DOWN") && ((invalid && (by_slurm || complaint)) || (complaint && by_slurm))
}

/// Returns the features that a description names.
pub fn features(node: &Node) -> Vec<String> {
    let list = node.get("Feature").unwrap_or_default();
    list.split(',').filter(|feature| !feature.is_empty()).map(str::to_owned).collect()
}

/// Returns the weight that a description gives.
pub fn weight(node: &Node) -> u64 {
    node.get("Weight").and_then(|weight| weight.parse().ok()).unwrap_or(DEFAULT_WEIGHT)
}

/// Returns a description with which a node comes up closed.
pub fn closed_conf(node: &Node, state: &str, reason: &str) -> Node {
    let mut node = node.clone();
    // Some characters cannot travel here; the exact text is put back after the registration.
    let plain = |character: char| match character {
        '"' | '\'' | '#' | '\\' => ' ',
        control if control.is_control() => ' ',
        other => other,
    };
    let reason: String = reason.chars().map(plain).collect();
    let reason = if reason.trim().is_empty() { "unspecified" } else { reason.trim() };
    for (key, value) in [("State", state), ("Reason", reason)] {
        node.set(key, value).expect("invariant: a plain text is a value of State and Reason");
    }
    node
}

/// Returns a description without the state of a first registration.
pub fn open_conf(node: &Node) -> Node {
    let mut node = node.clone();
    node.unset("State");
    node.unset("Reason");
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::situations::idle;

    fn node(text: &str) -> Node {
        Node::from_config(text).unwrap()
    }

    fn closed(states: &[&str], reason: &str, by: &str) -> Record {
        let states = states.iter().map(|state| (*state).to_owned()).collect();
        Record { states, reason: reason.to_owned(), reason_by: by.to_owned(), ..idle() }
    }

    #[test]
    fn what_an_administrator_set_is_noted() {
        let record = Record {
            weight: 5,
            features: vec!["compute".to_owned(), "fast".to_owned()],
            comment: "mine".to_owned(),
            notes: NodeNotes { extra: "rack=7".to_owned(), cpu_binding: 4, ..NodeNotes::default() },
            ..closed(&["DOWN", "DRAIN", "DYNAMIC_NORM"], "it's #3", "root")
        };
        let change = Change::of(&record, &node("CPUs=2 Feature=compute"), &node("CPUs=1 Feature=compute"));
        assert_eq!((change.weight, change.comment.as_str()), (Some(5), "mine"));
        assert_eq!(change.features, ["fast"]);
        assert_eq!((change.notes.extra.as_str(), change.notes.cpu_binding), ("rack=7", 4));
        assert_eq!(change.closed.as_ref().unwrap().states, ["DOWN", "DRAIN"]);
        assert_eq!(change.first_conf(&node("CPUs=1")).render(), "CPUs=1 State=DOWN Reason=\"it s  3\"");
        assert_eq!(Change::parse(&change.render()), Some(change));
    }

    #[test]
    fn a_weight_that_changes_anyway_is_not_given_back() {
        let record = Record { weight: 5, ..idle() };
        assert_eq!(Change::of(&record, &node("CPUs=2"), &node("CPUs=2 Weight=7")).weight, None);
        assert_eq!(Change::of(&record, &node("CPUs=2 Weight=5"), &node("CPUs=1 Weight=5")).weight, None);
    }

    #[test]
    fn neither_our_drain_nor_a_rejection_is_an_administrators() {
        let from = node("CPUs=2");
        let of = |record: &Record| Change::of(record, &from, &from).closed;
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
        let change = Change::of(&idle(), &node("CPUs=2"), &node("CPUs=1"));
        assert_eq!(change.renewed(&closed(&["IDLE", "DRAIN"], names::CHANGE_REASON, "root")), None);
        let renewed = change.renewed(&closed(&["IDLE", "DRAIN"], "disk", "root")).unwrap();
        assert_eq!(renewed.closed.as_ref().unwrap().reason, "disk");
        assert_eq!(renewed.renewed(&closed(&["IDLE", "DRAIN"], "disk", "root")), None);
    }

    #[test]
    fn all_of_it_has_to_be_back() {
        let record = closed(&["IDLE", "DRAIN"], "disk", "root");
        let change = Change::of(&record, &node("CPUs=2"), &node("CPUs=1"));
        assert!(!change.is_restored(&idle()));
        assert!(!change.is_restored(&record), "the comment is not");
        assert!(change.is_restored(&Record { comment: "joined".to_owned(), ..record.clone() }));
        let notes = NodeNotes { instance_id: "i-1".to_owned(), ..NodeNotes::default() };
        let noted = Change { notes: notes.clone(), ..change };
        assert!(!noted.is_restored(&Record { comment: "joined".to_owned(), ..record.clone() }));
        assert!(noted.is_restored(&Record { comment: "joined".to_owned(), notes, ..record }));
    }
}
