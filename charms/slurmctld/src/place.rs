//! Where the state of the cluster is, from where its marker and the link of the configuration are. Pure.
//!
//! A cluster is made on the local disk or on a store, and may move from one to the other (`plan/moving.rs`). Everybody
//! who has to know where the state is asks here.

use crate::facts::{Ask, Facts, StateDirectory, StoreMount};
use crate::identity;
use crate::names;
use std::time::Duration;

/// Where the state of the cluster is, or is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the local disk, where a store would be mounted.
    Checkpoint,
    /// On the local disk, where no mount covers it.
    Aside,
    /// On a file system of the network.
    Store,
}

impl Place {
    /// Finds it out.
    ///
    /// A state aside counts unless this machine is still linked to a store that has one, too: the way to the store ends
    /// with taking away the one aside, and the way back begins with taking away the one on the store.
    pub fn find(facts: &Facts) -> Result<Self, Ask> {
        let (aside, store, linked) = (facts.aside()?, facts.store()?, identity::is_linked(facts)?);
        let marked = |state: &StateDirectory| matches!(state, StateDirectory::Of(_));
        Ok(if marked(&aside.state) && !(linked && marked(&store.state)) {
            Self::Aside
        } else if linked || has_moved(facts)? {
            Self::Store
        } else if store.mount == StoreMount::Nothing && marked(&store.state) {
            Self::Checkpoint
        } else if facts.options()?.network_state {
            Self::Store
        } else {
            Self::Checkpoint
        })
    }

    /// Returns where slurmctld keeps its state.
    pub fn state_directory(self) -> &'static str {
        match self {
            Self::Checkpoint | Self::Store => names::STATE_DIRECTORY,
            Self::Aside => names::ASIDE_STATE,
        }
    }

    /// Returns what is in the state directory.
    pub fn state(self, facts: &Facts) -> Result<&StateDirectory, Ask> {
        Ok(if self == Self::Aside { &facts.aside()?.state } else { &facts.store()?.state })
    }

    /// Says when slurmctld last saved its partitions, counted from 1970.
    pub fn partitions_saved_at(self, facts: &Facts) -> Result<Option<Duration>, Ask> {
        let (aside, store) = (facts.aside()?, facts.store()?);
        Ok(if self == Self::Aside { aside.partitions_saved_at } else { store.partitions_saved_at })
    }

    /// Says whether the state is on a file system that needs no other machine.
    pub fn is_local(self, facts: &Facts) -> Result<bool, Ask> {
        Ok(self == Self::Aside || facts.store()?.local)
    }
}

/// Says whether the state of this cluster was aside until it moved to a store.
fn has_moved(facts: &Facts) -> Result<bool, Ask> {
    let (moved, home) = (&facts.aside()?.moved, &facts.call()?.home);
    Ok(moved.iter().any(|note| identity::of_note(note).is_some_and(|(_, of)| of == home)))
}

/// Returns the time in the name of a copy that has arrived on the local disk and that the store has been left for,
/// although nobody has said so here yet.
pub fn arrived(facts: &Facts) -> Result<Option<&str>, Ask> {
    let (aside, store) = (facts.aside()?, facts.store()?);
    // The configuration follows when the store has been left, and never before.
    let followed = facts.configuration_link()?.as_deref() == Some(names::ASIDE_CONFIGURATION);
    let left = |stamp: &&String| followed || (store.state == StateDirectory::Absent && store.moved.contains(*stamp));
    let waits = !matches!(aside.state, StateDirectory::Of(_));
    Ok(aside.incoming.as_ref().filter(left).filter(|_| waits).map(String::as_str))
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
