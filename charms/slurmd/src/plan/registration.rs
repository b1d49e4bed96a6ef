//! How a node that is registered comes to another description, a step at a time, with jobs and administrators unharmed.
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
//! Each phase is told by facts alone: the note on the machine, the mark on the record, what the daemon was started with. So a dispatch
//! that was killed anywhere is continued by the next one.

use super::launch::described;
use crate::change::{self, Change, features, open_conf};
use crate::names;
use crate::observe::{Daemon, Observed, Occupancy, Record, Registration};
use slurm_conf::Node;

/// What is to be done next about this node's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing.
    Settled,
    /// Slurm takes features in place, for good.
    Features(Vec<String>),
    /// It has to wait. A weight can be had at once, though Slurm forgets it at its next reconfigure.
    Pending {
        weight: Option<u64>,
    },
    /// Nobody is there: note what the node has to get back.
    Begin(Change),
    /// Keep jobs away unless somebody does already, and mark the record as the old one.
    Close {
        drain: bool,
    },
    /// Have the next start use the new description.
    Describe,
    Delete,
    /// The record is gone: start anew.
    Register,
    /// The new record is there: give back what the old one had.
    Restore,
    /// All is done.
    Forget,
    /// Somebody came meanwhile, or the change is not wanted any more: leave it all as it was.
    Abort {
        reopen: bool,
        ours: bool,
    },
    /// It cannot be told how far it has come.
    Hold,
}

/// Finds out what is next.
pub(crate) fn phase(seen: &Observed) -> Phase {
    let Some((wanted, written)) = described(seen).zip(seen.machine.written.as_ref()) else { return Phase::Settled };
    match &seen.machine.change {
        None => before(seen, &wanted, &open_conf(&written.conf)),
        Some(change) => during(seen, &wanted, &written.conf, change),
    }
}

/// Says whether the plan depends on who is on the node.
pub(crate) fn depends_on_jobs(seen: &Observed) -> bool {
    let answered = matches!(seen.machine.registration, Registration::Present(_));
    answered && matches!(phase(seen), Phase::Pending { .. } | Phase::Hold)
}

/// Says whether a record has all that a description adds to another one.
pub(crate) fn is_in_place(written: &Node, wanted: &Node, record: &Record) -> bool {
    let written = open_conf(written);
    let (wanted_features, written_features) = (features(wanted), features(&written));
    let there = |feature: &String| record.features.contains(feature);
    let unwanted = |feature: &String| !wanted_features.contains(feature) && there(feature);
    written == *wanted
        || (only_features_differ(&written, wanted)
            && wanted_features.iter().all(there)
            && !written_features.iter().any(unwanted))
}

fn before(seen: &Observed, wanted: &Node, written: &Node) -> Phase {
    let (Registration::Present(record), Daemon::Running { .. }) = (&seen.machine.registration, &seen.machine.daemon)
    else {
        return Phase::Settled;
    };
    if is_in_place(written, wanted, record) {
        return Phase::Settled;
    }
    if only_features_differ(written, wanted) {
        return Phase::Features(all_features(record, written, wanted));
    }
    match &seen.machine.occupancy {
        Some(Occupancy::Empty) => Phase::Begin(Change::of(record, written, wanted)),
        _ => {
            let weight = change::weight(wanted);
            let news = written.get("Weight") != wanted.get("Weight") && record.weight != weight;
            // A weight that is neither the registered one nor ours is an administrator's.
            let free = record.weight == change::weight(written) || seen.machine.set_weight == Some(record.weight);
            Phase::Pending { weight: (news && free).then_some(weight) }
        }
    }
}

fn during(seen: &Observed, wanted: &Node, written: &Node, change: &Change) -> Phase {
    let record = match &seen.machine.registration {
        Registration::Present(record) => record,
        Registration::Absent => return Phase::Register,
        Registration::Unreachable => return Phase::Hold,
    };
    let first = change.first_conf(wanted);
    let Daemon::Running { with } = &seen.machine.daemon else { return Phase::Hold };
    let started_anew = with.as_ref().is_some_and(|with| with.conf == first || with.conf == *wanted);
    let marked = record.comment == names::CHANGE_COMMENT;
    if started_anew && !marked {
        return if change.is_restored(record) { Phase::Forget } else { Phase::Restore };
    }
    let ours = change::is_ours(record);
    let reopen = ours || marked;
    if change.from == wanted.render() {
        return Phase::Abort { reopen, ours };
    }
    match &seen.machine.occupancy {
        Some(Occupancy::Empty) => {}
        Some(Occupancy::Jobs(_) | Occupancy::Reserved(_)) => return Phase::Abort { reopen, ours },
        Some(Occupancy::Unknown) | None => return Phase::Hold,
    }
    if let Some(renewed) = change.renewed(record) {
        return Phase::Begin(renewed);
    }
    match (record.is_closed(), marked, *written == first) {
        (false, _, _) => Phase::Close { drain: true },
        (true, false, _) => Phase::Close { drain: false },
        (true, true, false) => Phase::Describe,
        (true, true, true) => Phase::Delete,
    }
}

fn only_features_differ(one: &Node, other: &Node) -> bool {
    let rest = |node: &Node| {
        let mut node = node.clone();
        node.unset("Feature");
        node
    };
    one != other && rest(one) == rest(other)
}

/// What is wanted, and what an administrator added.
fn all_features(record: &Record, written: &Node, wanted: &Node) -> Vec<String> {
    let (mut all, known) = (features(wanted), features(written));
    let added = record.features.iter().filter(|feature| !known.contains(feature));
    for feature in added {
        if !all.contains(feature) {
            all.push(feature.clone());
        }
    }
    all
}
