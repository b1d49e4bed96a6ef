//! Everything a controller unit knows before it decides anything. Facts only: no wishes, no steps.
//!
//! How the facts are read is in the files below.

mod juju;
mod machine;
mod read;

use crate::configuration::{Files, Refusals};
use charm::{AppName, Databag, RelationId, SecretId, UnitName};
use slurm_conf::{ClusterName, HostName, NodeSet, Partition};
use slurm_interface::SecretUri;
use slurm_ops::journal::Stranger;
use slurm_ops::packages::Obstacle;
use std::collections::BTreeSet;

pub use read::{Memory, observe};

/// What is, at one moment.
#[derive(Debug, Clone)]
pub struct Observed {
    pub unit: UnitName,
    /// The model and the application, which no other cluster shares.
    pub home: String,
    /// This unit, or its application, is being removed.
    pub leaving: bool,
    /// This dispatch was called because slurmctld has just failed. Starting it at once could go on without end; the timer does it.
    pub alarmed: bool,
    pub leader: bool,
    /// Other units that are to stay. Asked for only while this unit has no configuration of its own.
    pub siblings: Vec<UnitName>,
    pub options: Options,
    /// None in the `install` hook, where Juju does not show the peer relation yet.
    pub peer: Option<Peer>,
    pub mount: Option<MountEndpoint>,
    pub computes: Vec<Compute>,
    pub auth_secret: Secret,
    pub jwt_secret: Secret,
    pub port_open: bool,
    /// The timer that calls this charm again is set.
    pub waking: bool,
    pub machine: Machine,
    pub tried: Tried,
}

/// What the operator chose, as it was written.
#[derive(Debug, Clone)]
pub struct Options {
    pub cluster_name: String,
    pub default_partition: String,
    pub parameters: String,
    pub cgroup_parameters: String,
    pub process_tracking: String,
    pub network_state: bool,
    pub source: String,
}

/// The relation between the units of this application.
#[derive(Debug, Clone)]
pub struct Peer {
    pub relation: RelationId,
    pub cluster_name: Option<ClusterName>,
    /// What this unit's own bag says.
    pub host: Option<String>,
}

/// The relation to a file system client.
#[derive(Debug, Clone)]
pub struct MountEndpoint {
    pub relation: RelationId,
    /// What this application has asked for there; empty on a unit that does not lead.
    pub published: Databag,
}

/// A related compute application.
#[derive(Debug, Clone)]
pub struct Compute {
    pub relation: RelationId,
    pub app: AppName,
    pub offer: Offer,
    /// This unit's agent is deaf to the relation: what the application says later no hook will tell.
    pub deaf: bool,
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

/// A secret with a key of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// Only the leader can know.
    Unknown,
    Absent,
    /// Made in this very dispatch. It must not be granted before the next: Juju 4.0.13 loses such a grant.
    JustMade,
    /// There, and for nobody but this application.
    Kept {
        /// Its content is there, and is the key on this machine if there is one. Juju up to 4.0.11 could lose it.
        holds_key: bool,
    },
    Shared(Shared),
}

/// A secret that Juju knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    pub id: SecretId,
    pub uri: SecretUri,
    /// Its content is there, and is the key on this machine if there is one. Juju up to 4.0.11 could lose it.
    pub holds_key: bool,
    /// The relations over which it can be read.
    pub granted: BTreeSet<RelationId>,
    /// Those of them that were granted in this dispatch. Whether that took shows in a later one.
    pub unconfirmed: BTreeSet<RelationId>,
}

/// What is on the machine.
#[derive(Debug, Clone)]
pub struct Machine {
    pub host: HostName,
    /// In a container Slurm cannot use control groups.
    pub container: bool,
    /// None unless there is a Slurm that can be used.
    pub version: Option<String>,
    /// Why the one that is there cannot be.
    pub unfit: Option<Obstacle>,
    /// Slurm has the plugin for tokens of users.
    pub takes_tokens: bool,
    /// The version that Juju has been told.
    pub reported_version: Option<String>,
    /// Upgrades leave the packages alone, and needrestart the daemon.
    pub packages_held: bool,
    pub left_alone: bool,
    pub store: Store,
    pub state: StateDirectory,
    /// The keys are on disk, and are fit to be keys.
    pub auth_key: bool,
    pub jwt_key: bool,
    /// Nobody but slurmctld can read them.
    pub keys_private: bool,
    pub drop_in: Option<String>,
    /// The service that systemd starts when slurmctld has failed for good.
    pub failure_service: Option<String>,
    /// Everybody can read the configuration: slurmctld and Slurm's clients run as other users.
    pub configuration_open: bool,
    /// Names of the files beside slurm.conf.
    pub beside: BTreeSet<String>,
    pub live: Files,
    pub accepted: Files,
    pub refusals: Refusals,
    /// A reconfigure was begun whose end nobody saw.
    pub unresolved: bool,
    pub daemon: Daemon,
    /// Why slurmctld cannot save its state now, if so. A file system of the network is asked only before a reconfigure.
    pub unsaved: Option<String>,
    /// The saved partitions are at least as new as the accepted configuration (a takeover would restore older ones).
    pub partitions_saved: bool,
    /// A machine whose messages slurmctld refuses. Not looked for in a brief look.
    pub stranger: Option<Stranger>,
    /// Why a file was put back, not long ago, that somebody had changed by hand.
    pub taken_back: Option<String>,
    /// Four random characters for the name of a new cluster.
    pub suffix: String,
}

/// What is mounted where a shared file system is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Store {
    /// Nothing, or only a trigger of autofs.
    Local,
    Mounted {
        read_only: bool,
    },
}

/// The directory that slurmctld keeps its state in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateDirectory {
    Absent,
    /// There, and nothing in it.
    Empty,
    /// There, with something in it but no note of whose it is.
    Unmarked,
    /// There, with a note.
    Of(String),
    /// It could not be looked into.
    Unreadable(String),
}

/// The state of slurmctld.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Daemon {
    Stopped,
    /// It ended badly and may be on its way up again.
    Failing {
        /// What it complained about, else how systemd says it ended.
        reason: String,
    },
    /// It runs and does not answer, or not yet. What it complains about, if anything.
    Silent {
        reason: Option<String>,
    },
    /// It runs and answers: `primary`, `UP`.
    Answering {
        mode: String,
    },
}

/// What this dispatch has tried and what did not show an effect. Nothing is tried twice in one dispatch.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    /// Why nothing could be installed.
    pub install: Option<Obstacle>,
    pub hold: bool,
    pub start: bool,
    /// A configuration that slurmctld failed with was put back, so that a start may well succeed.
    pub restored: bool,
    /// Partitions that slurmctld alone knows, and that a reconfigure would end with all their jobs. So there is none.
    pub at_risk: BTreeSet<String>,
    /// Why it is not known whether a reconfigure was accepted.
    pub reconfigure: Option<String>,
    pub save: bool,
    /// Secrets whose lost content was put back.
    pub refilled: BTreeSet<&'static str>,
}
