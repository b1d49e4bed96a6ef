//! The changes that a plan may ask for: what, never how.

use crate::change::Change;
use crate::names;
use crate::observe::{Launch, Refused};
use charm::{Databag, RelationId};
use slurm_conf::Node;
use slurm_ops::source::Source;
use std::fmt;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    InstallPackages(Source),
    /// Upgrades of the machine leave Slurm alone.
    HoldPackages,
    /// So does needrestart.
    LeaveAlone,
    ReportVersion(String),
    PublishPartition(RelationId, Databag),
    WriteAlarm(String),
    WriteDropIn(&'static str),
    /// Writes the key that was read from the secret.
    WriteAuthKey,
    WriteOptions(Launch),
    /// Goes back to what the operator asked for before, because slurmd does not start with what was asked for last.
    TakeBackWish {
        refused: Refused,
        proven: Node,
    },
    /// Notes that a node was registered with what the operator asked for.
    RememberWish(Node),
    /// Notes under which address of another machine this node was registered.
    NoteAddress(String),
    StartDaemon,
    /// Jobs go on: only the daemon itself is replaced.
    RestartDaemon,
    /// Makes slurmd register again.
    ReloadDaemon,
    /// Makes slurmctld save this node, which it else would do only after minutes.
    MarkJoined,
    RememberDetection {
        invocation: String,
        known: Node,
        found: Node,
    },
    SetFeatures(Vec<String>),
    /// Gives the record a weight ahead of a new registration, and notes that this charm did.
    SetWeight(u64),
    /// Takes that weight back, because it is not wanted any more.
    ResetWeight(u64),
    ForgetWeight,
    /// Notes what the node has to get back when it is registered anew.
    BeginChange(Change),
    /// Keeps jobs away, unless somebody does already, and marks the record as the old one.
    CloseNode {
        drain: bool,
    },
    DeleteNode,
    RestoreNode(Change),
    /// Gives the record its comment back, and takes our own drain away if there is one.
    ReopenNode {
        resume: bool,
        comment: String,
    },
    ForgetChange,
    OpenPort,
    StartWaking,
    StopWaking,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InstallPackages(_) => write!(formatter, "install slurmd"),
            Self::HoldPackages => write!(formatter, "hold the packages of Slurm"),
            Self::LeaveAlone => write!(formatter, "keep needrestart from {}", names::SERVICE),
            Self::ReportVersion(version) => write!(formatter, "report version {version}"),
            Self::PublishPartition(relation, _) => write!(formatter, "publish partition to {relation}"),
            Self::WriteAlarm(_) => write!(formatter, "write {}", names::ALARM),
            Self::WriteDropIn(_) => write!(formatter, "write the drop-in of {}", names::SERVICE),
            Self::WriteAuthKey => write!(formatter, "write the authentication key"),
            Self::WriteOptions(_) => write!(formatter, "write {}", names::OPTIONS_FILE),
            Self::TakeBackWish { refused, .. } => {
                write!(formatter, "take back `{}`, which slurmd refuses", refused.wish)
            }
            Self::RememberWish(_) => write!(formatter, "remember what the operator asked for"),
            Self::NoteAddress(address) => write!(formatter, "note that {address} is no address of this machine"),
            Self::StartDaemon => write!(formatter, "start slurmd"),
            Self::RestartDaemon => write!(formatter, "restart slurmd"),
            Self::ReloadDaemon => write!(formatter, "reload slurmd"),
            Self::MarkJoined => write!(formatter, "mark the node as joined"),
            Self::RememberDetection { .. } => write!(formatter, "remember what this machine has"),
            Self::SetFeatures(features) => write!(formatter, "set the node's features to {}", features.join(",")),
            Self::SetWeight(weight) => write!(formatter, "set the node's weight to {weight}"),
            Self::ResetWeight(weight) => write!(formatter, "set the node's weight back to {weight}"),
            Self::ForgetWeight => write!(formatter, "leave the node's weight as it is"),
            Self::BeginChange(_) => write!(formatter, "note what the node has to get back"),
            Self::CloseNode { drain: true } => write!(formatter, "drain the node for a new registration"),
            Self::CloseNode { drain: false } => write!(formatter, "mark the node for a new registration"),
            Self::DeleteNode => write!(formatter, "delete the node's record"),
            Self::RestoreNode(_) => write!(formatter, "give the node back what it had"),
            Self::ReopenNode { .. } => write!(formatter, "open the node again"),
            Self::ForgetChange => write!(formatter, "end the new registration"),
            Self::OpenPort => write!(formatter, "open port {}", names::PORT),
            Self::StartWaking => write!(formatter, "look again soon"),
            Self::StopWaking => write!(formatter, "look again no more"),
        }
    }
}
