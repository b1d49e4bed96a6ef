//! Which cluster this is, whether this unit is its controller, and whether a state directory is the cluster's.

use crate::facts::{Ask, Facts, StateDirectory, Store, StoreMount};
use crate::names;
use crate::place::Place;
use slurm_conf::ClusterName;

/// The prefix of a cluster's name when the operator gives none.
const CLUSTER_PREFIX: &str = "charmed-hpc-";

/// What a unit of this application is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A controller: it has the configuration, or is the leader of an application that has no cluster yet, or is on a
    /// store with others.
    Controller,
    /// A further unit. Several controllers need shared state.
    Second,
    /// Too early to say: Juju has not shown the peer relation, or not made a leader.
    Undecided,
}

/// Says whether the cluster is on a store of the network, or is to be made there.
pub fn is_on_store(facts: &Facts) -> Result<bool, Ask> {
    Ok(Place::find(facts)? == Place::Store)
}

/// Says whether the configuration directory of this machine is the one on the store.
pub fn is_linked(facts: &Facts) -> Result<bool, Ask> {
    Ok(facts.configuration_link()?.as_deref() == Some(names::SHARED_CONFIGURATION))
}

/// Decides a unit's role. A unit without a configuration never makes a second cluster beside an existing one.
pub fn role(facts: &Facts) -> Result<Role, Ask> {
    if is_on_store(facts)? {
        return Ok(if facts.peer()?.is_some() { Role::Controller } else { Role::Undecided });
    }
    let (host, configuration) = (&facts.host()?.name, facts.configuration()?);
    if [&configuration.live, &configuration.accepted].iter().any(|config| config.rank_of(host).is_some()) {
        return Ok(Role::Controller);
    }
    let peer = facts.peer()?.as_ref();
    let named = peer.is_some_and(|peer| peer.cluster_name.is_some());
    // A unit that has published its host is the one that made the cluster, whatever has become of its files.
    let published = peer.and_then(|peer| peer.own.as_ref()).map(|own| &own.hostname);
    if named && published == Some(host) {
        return Ok(Role::Controller);
    }
    let leader = *facts.leader()?;
    Ok(if named || (!leader && !facts.siblings()?.is_empty()) {
        Role::Second
    } else if leader && peer.is_some() {
        Role::Controller
    } else {
        Role::Undecided
    })
}

/// The name of a cluster, which its saved state belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name that the cluster was given for good. None: the cluster is still to be made.
    pub given: Option<ClusterName>,
    /// The name of the cluster, or the name that it will get.
    pub name: ClusterName,
    /// slurmctld has never accepted a configuration, so that there is no state to lose.
    pub newborn: bool,
    /// What a state directory of this cluster is marked with: a name alone may be another model's as well.
    pub note: String,
}

impl Identity {
    /// Finds the name. It is written down in several places, so that losing one of them makes no second cluster.
    pub fn find(facts: &Facts) -> Result<Self, Ask> {
        let (home, configuration) = (&facts.call()?.home, facts.configuration()?);
        let in_file =
            |conf: Option<&slurm_conf::SlurmConf>| -> Option<ClusterName> { conf?.get("ClusterName")?.parse().ok() };
        let accepted = in_file(configuration.accepted.conf.as_ref());
        let peer = if configuration.accepted.exists() && accepted.is_some() { None } else { facts.peer()?.as_ref() };
        let in_peer = peer.and_then(|peer| peer.cluster_name.clone());
        let newborn = !configuration.accepted.exists() && in_peer.is_none();
        let marked = match Place::find(facts)?.state(facts)? {
            StateDirectory::Of(note) => named_in(note, home),
            _ => None,
        };
        let given = accepted.or(in_peer).or(marked).or_else(|| in_file(configuration.live.conf.as_ref()));
        let name = match &given {
            Some(name) => name.clone(),
            None => new_name(facts)?,
        };
        let note = format!("{name} {home}");
        Ok(Self { given, name, newborn, note })
    }

    /// Says what keeps everybody from a store, whatever is on it.
    pub fn store_problem(store: &Store) -> Option<StateProblem> {
        match (&store.mount, &store.state) {
            (StoreMount::Nothing, _) => Some(StateProblem::NotMounted),
            (StoreMount::Mounted { read_only: true }, _) => Some(StateProblem::ReadOnly),
            (_, StateDirectory::Unreadable(why)) => Some(StateProblem::Unreadable(why.clone())),
            _ => None,
        }
    }

    /// Says what keeps slurmctld from its state. None: it is there, or the cluster is still to be made and there is
    /// place for it.
    pub fn state_problem(&self, facts: &Facts) -> Result<Option<StateProblem>, Ask> {
        let (place, store) = (Place::find(facts)?, facts.store()?);
        let born = self.given.is_some() && !self.newborn;
        match &store.mount {
            _ if place == Place::Aside => {}
            StoreMount::Mounted { read_only: true } => return Ok(Some(StateProblem::ReadOnly)),
            StoreMount::Nothing if place == Place::Store => return Ok(Some(StateProblem::NotMounted)),
            StoreMount::Mounted { .. } | StoreMount::Nothing => {}
        }
        Ok(match place.state(facts)? {
            state @ (StateDirectory::Of(_) | StateDirectory::Unreadable(_)) => self.objection(state),
            StateDirectory::Unmarked | StateDirectory::Absent | StateDirectory::Empty if born => {
                Some(StateProblem::Lost)
            }
            state => self.objection(state),
        })
    }

    /// Says why a state directory cannot be this cluster's, and cannot become it.
    pub fn objection(&self, state: &StateDirectory) -> Option<StateProblem> {
        match state {
            StateDirectory::Of(found) if *found == self.note => None,
            StateDirectory::Of(found) => Some(StateProblem::Foreign(found.clone())),
            StateDirectory::Unreadable(why) => Some(StateProblem::Unreadable(why.clone())),
            StateDirectory::Unmarked => Some(StateProblem::Unmarked),
            StateDirectory::Absent | StateDirectory::Empty => None,
        }
    }

    /// Says whether a state directory carries this cluster's note.
    pub fn is_marked(&self, state: &StateDirectory) -> bool {
        matches!(state, StateDirectory::Of(found) if *found == self.note)
    }
}

/// Returns the name that a new cluster gets. An unusable option is caught before anything is done with it.
fn new_name(facts: &Facts) -> Result<ClusterName, Ask> {
    if let Some(chosen) = &facts.options()?.cluster_name {
        let stand_in =
            || CLUSTER_PREFIX.trim_end_matches('-').parse().expect("invariant: the prefix is a cluster name");
        return Ok(chosen.clone().unwrap_or_else(|_| stand_in()));
    }
    let made_up = format!("{CLUSTER_PREFIX}{}", facts.fresh_suffix()?);
    Ok(made_up.parse().expect("invariant: letters, digits, `-` and `_` make a cluster name"))
}

/// Returns the name in a note, if the note is of this application.
fn named_in(note: &str, home: &str) -> Option<ClusterName> {
    let (name, of) = of_note(note)?;
    (of == home).then(|| name.parse().ok()).flatten()
}

/// Returns the name of the cluster in a note, and the model and application that the cluster is of.
pub fn of_note(note: &str) -> Option<(&str, &str)> {
    note.split_once(' ')
}

/// What stands between slurmctld and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateProblem {
    /// The option wants a file system of the network, and there is none.
    NotMounted,
    /// Nothing can be written there.
    ReadOnly,
    /// The cluster was born, and its state is not here.
    Lost,
    /// Somebody else's state is here.
    Foreign(String),
    /// Somebody's state is here, and no note says whose.
    Unmarked,
    Unreadable(String),
}
