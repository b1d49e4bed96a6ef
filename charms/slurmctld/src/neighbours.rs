//! Which endpoints have applications that want to hear of every change of the configuration, beside the compute
//! applications: a note, so that a dispatch which changed a partition need not ask Juju for each of them.

use crate::names;
use serde::{Deserialize, Serialize};
use slurm_conf::HostName;
use slurm_unit::note::Note;
use std::collections::BTreeSet;

/// The endpoints at which there was somebody when Juju was asked last. Only a hint: a quiet hook asks anyway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbours {
    endpoints: BTreeSet<String>,
    /// The host of slurmdbd that the charm wrote into slurm.conf: those lines are its own.
    #[serde(default)]
    pub accounting: Option<String>,
}

impl Note for Neighbours {
    const PATH: &'static str = names::NEIGHBOURS;
    const VERSION: u64 = 1;
    const BESIDE_SLURM: bool = true;
}

impl Neighbours {
    /// Returns the note about these endpoints.
    pub fn at<'n>(endpoints: impl IntoIterator<Item = &'n str>, accounting: Option<String>) -> Self {
        Self { endpoints: endpoints.into_iter().map(str::to_owned).collect(), accounting }
    }

    /// Returns the same with a slurmdbd that the charm writes into slurm.conf.
    pub fn with_accounting(self, host: &HostName) -> Self {
        Self { accounting: Some(host.to_string()), ..self }
    }

    /// Says whether this is the slurmdbd that the charm writes into slurm.conf.
    pub fn wrote(&self, host: &HostName) -> bool {
        self.accounting.as_deref() == Some(host.as_str())
    }

    /// Says whether somebody is at an endpoint.
    pub fn are_at(&self, endpoint: &str) -> bool {
        self.endpoints.contains(endpoint)
    }

    /// Says whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty() && self.accounting.is_none()
    }
}
