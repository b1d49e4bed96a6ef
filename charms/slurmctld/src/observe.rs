//! Everything a controller unit knows before it decides anything. Facts only: no wishes, no steps.
//!
//! How the facts are read is in `read`.

mod read;

use charm::{AppName, Databag, RelationId, SecretId, UnitName};
use slurm_conf::{ClusterName, HostName, NodeSet, Partition};
use slurm_interface::SecretUri;
use std::collections::BTreeSet;

pub use read::{Memory, observe};

/// What is, at one moment.
#[derive(Debug, Clone)]
pub struct Observed {
    pub unit: UnitName,
    /// This unit, or its application, is being removed.
    pub leaving: bool,
    pub leader: bool,
    /// Other units that are to stay. Asked for only while this unit has no configuration of its own.
    pub siblings: Vec<UnitName>,
    pub options: Options,
    /// None in the `install` hook, where Juju does not show the peer relation yet.
    pub peer: Option<Peer>,
    pub computes: Vec<Compute>,
    pub secret: Secret,
    pub port_open: bool,
    /// The timer that calls this charm again is set.
    pub waking: bool,
    pub machine: Machine,
    pub tried: Tried,
}

/// What the operator chose.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub cluster_name: String,
    pub default_partition: String,
}

/// The relation between the units of this application.
#[derive(Debug, Clone)]
pub struct Peer {
    pub relation: RelationId,
    pub cluster_name: Option<ClusterName>,
    /// What this unit's own bag says.
    pub host: Option<String>,
}

/// A related compute application.
#[derive(Debug, Clone)]
pub struct Compute {
    pub relation: RelationId,
    pub app: AppName,
    pub offer: Offer,
    /// What this application has published there; empty on a unit that does not lead.
    pub published: Databag,
}

/// What a compute application says about its partition.
#[derive(Debug, Clone)]
pub enum Offer {
    /// Nothing yet.
    Nothing,
    Partition(Partition, NodeSet),
    /// Something that cannot be used, and why.
    Unusable(String),
}

/// The secret with the authentication key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// Only the leader can know.
    Unknown,
    Absent,
    /// Made in this very dispatch. It must not be granted before the next: Juju 4.0.13 loses such a grant.
    JustMade,
    Shared {
        id: SecretId,
        uri: SecretUri,
        granted: BTreeSet<RelationId>,
    },
}

/// What is on the machine.
#[derive(Debug, Clone)]
pub struct Machine {
    pub host: HostName,
    /// In a container Slurm cannot use control groups.
    pub container: bool,
    /// None unless all packages are installed.
    pub version: Option<String>,
    /// The version that Juju has been told.
    pub reported_version: Option<String>,
    pub state_directory: bool,
    pub auth_key: bool,
    pub jwt_key: bool,
    pub cgroup_conf: Option<String>,
    pub drop_in: Option<String>,
    pub configuration: Configuration,
    pub daemon: Daemon,
    /// The saved partitions are at least as new as the accepted configuration (a takeover would restore older ones).
    pub partitions_saved: bool,
    /// Four random characters for the name of a new cluster.
    pub suffix: String,
}

/// The texts of slurm.conf.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    /// The file that slurmctld reads.
    pub live: Option<String>,
    /// The last one it is known to have accepted.
    pub accepted: Option<String>,
    pub refused: Option<Refused>,
}

/// A configuration that slurmctld did not take.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Refused {
    pub candidate: String,
    pub reason: String,
}

/// The state of slurmctld.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Daemon {
    Stopped,
    /// It ended badly and may be on its way up again.
    Failing {
        result: String,
    },
    /// It runs and does not answer, or not yet.
    Silent,
    /// It runs and answers: `primary`, `UP`.
    Answering {
        mode: String,
    },
}

/// What this dispatch has tried and what did not show an effect. Nothing is tried twice in one dispatch.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    pub start: bool,
    /// Why it is not known whether a reconfigure was accepted.
    pub reconfigure: Option<String>,
    pub save: bool,
}
