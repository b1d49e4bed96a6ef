//! The configuration of the cluster: the files that slurmctld reads and hands to the compute nodes.
//!
//! | question | where |
//! | --- | --- |
//! | which files are there, parsed once | [`files`] |
//! | what can change in them, independently of each other | [`sources`] |
//! | which files there should be | [`desired`], and what the charm itself writes: [`managed_keys`] |
//! | what running jobs would pay for it | [`hazards`] |
//! | how they come into effect, one proven stage at a time | [`rollout`] |
//! | what Slurm refused, kept as a note | [`rejections`] |
//! | where a line comes from | [`origin`] |

pub mod desired;
pub mod files;
pub mod hazards;
pub mod managed_keys;
pub mod origin;
pub mod rejections;
pub mod rollout;
pub mod sources;

use crate::applications::Applications;
use crate::extras::Extras;
use crate::facts::{Compute, Host};
use crate::identity::Identity;
use crate::options::Options;
use crate::place::Place;
use files::{Config, Configuration, Files};
use rejections::Rejections;
use slurm_conf::{HostName, PartitionName};
use std::borrow::Cow;

/// What the files are made of.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'f> {
    pub options: &'f Options,
    pub host: &'f Host,
    /// The installed Slurm, whose verdict counts.
    pub version: &'f str,
    pub configuration: &'f Configuration,
    pub rejections: &'f Rejections,
    pub computes: &'f [Compute],
    pub applications: &'f Applications,
    pub identity: &'f Identity,
    /// Where the state is.
    pub place: Place,
    /// The hosts that slurm.conf should list.
    pub controllers: &'f [HostName],
    /// Who sees to something beside the cluster. None: nobody has looked, and all stays as it is.
    pub extras: Option<&'f Extras>,
}

impl<'f> Situation<'f> {
    /// Returns the files in place.
    pub fn live(&self) -> &'f Config {
        &self.configuration.live
    }

    /// Returns the files that slurmctld is known to have accepted.
    pub fn accepted(&self) -> &'f Config {
        &self.configuration.accepted
    }

    /// Says whether Slurm has the plugin for tokens of users.
    pub fn takes_tokens(&self) -> bool {
        self.host.plugins.contains(crate::names::TOKEN_PLUGIN)
    }

    /// Says whether Slurm has the plugin for metrics.
    pub fn has_metrics(&self) -> bool {
        self.host.plugins.contains(crate::names::METRICS_PLUGIN)
    }

    /// Parses files, unless they are parsed already.
    pub fn parsed(&self, files: &Files) -> Cow<'f, Config> {
        let known = [self.live(), self.accepted()].into_iter().find(|known| known.files == *files);
        match known {
            Some(known) => Cow::Borrowed(known),
            None => Cow::Owned(Config::read(files.clone(), &self.configuration.included)),
        }
    }

    /// Returns the application that has a partition: of several that claim it, the one related first.
    pub fn owner(&self, name: &PartitionName) -> Option<&'f Compute> {
        let claims = |compute: &&Compute| compute.partition().is_some_and(|(partition, _)| partition.name() == name);
        self.computes.iter().find(claims)
    }
}

#[cfg(test)]
mod by_hand_tests;
#[cfg(test)]
mod rejection_tests;
