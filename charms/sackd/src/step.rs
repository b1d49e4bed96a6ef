//! The changes that a plan may ask for: what, never how.

use crate::facts::Loaded;
use crate::names;
use charm::{Databag, RelationId};
use slurm_conf::ControllerAddress;
use slurm_ops::keys::KeySet;
use slurm_ops::packages::Obstacle;
use slurm_unit::install::InstallStep;
use slurm_unit::service::ServiceStep;
use std::fmt;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A change of what of Slurm is on the machine.
    Install(InstallStep),
    /// A change of how systemd treats sackd.
    Service(ServiceStep),
    /// Writes the key that the controllers share.
    WriteKey(KeySet),
    /// Writes the controllers that the next start of sackd will ask.
    WriteOptions(Vec<ControllerAddress>),
    StartDaemon,
    /// Has sackd fetch the configuration and register again. Calls of clients fail for a moment.
    RestartDaemon,
    /// Has sackd read its key, and nothing else. No call of a client fails meanwhile.
    ReloadDaemon,
    /// Notes what a reload or a restart was for, so that each key and each configuration counts once.
    NoteLoaded(Loaded),
    /// Tells the controllers which keys sackd has.
    Acknowledge(RelationId, Databag),
    OpenPort,
    ClosePort,
    /// Stops sackd for good.
    StopDaemon,
    /// Removes what sackd reads: options, and the key unless another daemon needs it here.
    RemoveTraces {
        key: bool,
    },
}

/// What a step found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// What stood in the way of an installation.
    InTheWay(Obstacle),
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Install(step) => formatter.write_str(&step.name(&names::PROFILE)),
            Self::Service(step) => formatter.write_str(&step.name(&names::PROFILE)),
            Self::WriteKey(_) => write!(formatter, "write the authentication key"),
            Self::WriteOptions(_) => write!(formatter, "write {}", names::OPTIONS_FILE),
            Self::StartDaemon => write!(formatter, "start sackd"),
            Self::RestartDaemon => write!(formatter, "restart sackd"),
            Self::ReloadDaemon => write!(formatter, "reload sackd"),
            Self::NoteLoaded(_) => write!(formatter, "note what sackd has loaded"),
            Self::Acknowledge(relation, _) => write!(formatter, "acknowledge the key to {relation}"),
            Self::OpenPort => write!(formatter, "open port {}", names::PORT),
            Self::ClosePort => write!(formatter, "close port {}", names::PORT),
            Self::StopDaemon => write!(formatter, "stop sackd"),
            Self::RemoveTraces { key: true } => write!(formatter, "remove the key and sackd's options"),
            Self::RemoveTraces { key: false } => write!(formatter, "remove sackd's options"),
        }
    }
}
