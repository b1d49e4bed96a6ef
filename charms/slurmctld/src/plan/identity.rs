//! Which cluster this is, and whether a state directory is that cluster's.

use crate::observe::{Observed, StateDirectory, Store};
use ::slurm_conf::{ClusterName, SlurmConf};

/// The prefix of a cluster's name when the operator gives none.
const CLUSTER_PREFIX: &str = "charmed-hpc-";

/// Returns the name that the cluster was given for good: its saved state belongs to that name.
///
/// It is written down in several places, so that losing one of them makes no second cluster.
pub fn cluster_name(seen: &Observed) -> Option<ClusterName> {
    let in_file = |text: Option<&String>| -> Option<ClusterName> {
        SlurmConf::parse(text?).ok()?.get("ClusterName")?.parse().ok()
    };
    let noted = || match &seen.machine.state {
        StateDirectory::Of(note) => named_in(note, &seen.home),
        _ => None,
    };
    in_file(seen.machine.accepted.slurm.as_ref())
        .or_else(|| seen.peer.as_ref().and_then(|peer| peer.cluster_name.clone()))
        .or_else(noted)
        .or_else(|| in_file(seen.machine.live.slurm.as_ref()))
}

/// Returns the name of the cluster, or the one that it will get. An unusable option is caught before this is asked for.
pub(super) fn cluster_name_or_new(seen: &Observed) -> ClusterName {
    let chosen = || seen.options.cluster_name.parse().ok();
    let made = || format!("{CLUSTER_PREFIX}{}", seen.machine.suffix).parse().ok();
    cluster_name(seen).or_else(chosen).or_else(made).unwrap_or_else(|| {
        CLUSTER_PREFIX.trim_end_matches('-').parse().expect("invariant: the prefix is a cluster name")
    })
}

/// Returns the note that a state directory of this cluster carries: a name alone may be another model's as well.
pub(super) fn note(seen: &Observed) -> String {
    format!("{} {}", cluster_name_or_new(seen), seen.home)
}

/// Returns the name in a note, if the note is of this application.
fn named_in(note: &str, home: &str) -> Option<ClusterName> {
    let (name, of) = note.split_once(' ')?;
    (of == home).then(|| name.parse().ok()).flatten()
}

/// What stands between slurmctld and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The option wants a file system of the network, and there is none.
    NotMounted,
    /// Nothing can be written there.
    ReadOnly,
    /// The cluster was born, and its state is not here.
    Lost,
    /// Somebody else's state is here.
    Foreign(String),
    Unreadable(String),
}

/// Says what keeps slurmctld from its state. None: it is there, or the cluster is still to be made and there is room for it.
pub fn obstacle(seen: &Observed) -> Option<Obstacle> {
    let born = cluster_name(seen).is_some() && !is_newborn(seen);
    match (&seen.machine.store, seen.options.network_state) {
        (Store::Mounted { read_only: true }, _) => return Some(Obstacle::ReadOnly),
        (Store::Local, true) if !is_local(seen) => return Some(Obstacle::NotMounted),
        _ => {}
    }
    match &seen.machine.state {
        StateDirectory::Of(found) if *found == note(seen) => None,
        StateDirectory::Of(found) => Some(Obstacle::Foreign(found.clone())),
        StateDirectory::Unreadable(why) => Some(Obstacle::Unreadable(why.clone())),
        StateDirectory::Unmarked if born => Some(Obstacle::Lost),
        StateDirectory::Unmarked => Some(Obstacle::Foreign("nobody known".to_owned())),
        StateDirectory::Absent | StateDirectory::Empty if born => Some(Obstacle::Lost),
        StateDirectory::Absent | StateDirectory::Empty => None,
    }
}

/// Says whether the state of the cluster is on the disk of this machine. Then the option for a file system comes too late: nothing moves it.
pub(super) fn is_local(seen: &Observed) -> bool {
    let here = matches!(&seen.machine.state, StateDirectory::Of(found) if *found == note(seen));
    here && seen.machine.store == Store::Local
}

/// A cluster whose configuration slurmctld has never accepted has no state to lose.
fn is_newborn(seen: &Observed) -> bool {
    seen.machine.accepted.slurm.is_none() && seen.peer.as_ref().is_none_or(|peer| peer.cluster_name.is_none())
}

/// Says whether the state directory carries this cluster's note.
pub(super) fn state_is_ready(seen: &Observed) -> bool {
    matches!(&seen.machine.state, StateDirectory::Of(found) if *found == note(seen)) && obstacle(seen).is_none()
}
