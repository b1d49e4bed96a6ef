//! Which endpoints have applications that want to hear of every change of the configuration, beside the compute
//! applications: a note, so that a dispatch which changed a partition need not ask Juju for each of them.

use crate::names;
use serde::{Deserialize, Serialize};
use slurm_unit::note::Note;
use std::collections::BTreeSet;

/// The endpoints at which there was somebody when Juju was asked last. Only a hint: a quiet hook asks anyway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbours {
    endpoints: BTreeSet<String>,
}

impl Note for Neighbours {
    const PATH: &'static str = names::NEIGHBOURS;
    const VERSION: u64 = 1;
    const BESIDE_SLURM: bool = true;
}

impl Neighbours {
    /// Returns the note about these endpoints.
    pub fn at<const COUNT: usize>(endpoints: [(&str, bool); COUNT]) -> Self {
        let there = endpoints.into_iter().filter(|(_, there)| *there);
        Self { endpoints: there.map(|(name, _)| name.to_owned()).collect() }
    }

    /// Says whether somebody is at an endpoint.
    pub fn are_at(&self, endpoint: &str) -> bool {
        self.endpoints.contains(endpoint)
    }

    /// Says whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
    }
}
