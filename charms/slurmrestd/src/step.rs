//! The changes that a plan may ask for: what, never how.

use crate::facts::Loaded;
use crate::names;
use charm::{Databag, RelationId};
use slurm_ops::packages::Obstacle;
use slurm_unit::install::InstallStep;
use slurm_unit::service::ServiceStep;
use std::collections::BTreeMap;
use std::fmt;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A change of what of Slurm is on the machine.
    Install(InstallStep),
    /// A change of how systemd treats slurmrestd.
    Service(ServiceStep),
    /// Makes the user of slurmrestd.
    AddUser,
    /// Writes files of the configuration.
    WriteFiles(BTreeMap<String, String>),
    /// Removes files that are not part of the configuration any more.
    RemoveFiles(Vec<String>),
    /// Removes the key that an earlier charm has left.
    RemoveKey,
    /// Writes the options with which slurmrestd starts.
    WriteOptions(String),
    StartDaemon,
    /// Has slurmrestd read its configuration. Requests that it answers just then are lost.
    RestartDaemon,
    /// Notes what slurmrestd was started with.
    NoteLoaded(Loaded),
    /// Tells the controllers that this unit keeps no key.
    Acknowledge(RelationId, Databag),
    OpenPort,
    ClosePort,
    /// Stops slurmrestd for good.
    StopDaemon,
    RemoveOptions,
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
            Self::AddUser => write!(formatter, "make the user {}", names::USER),
            Self::WriteFiles(files) => {
                write!(formatter, "write {}", files.keys().cloned().collect::<Vec<_>>().join(", "))
            }
            Self::RemoveFiles(files) => write!(formatter, "remove {}", files.join(", ")),
            Self::RemoveKey => write!(formatter, "remove the key of an earlier charm"),
            Self::WriteOptions(_) => write!(formatter, "write {}", names::OPTIONS_FILE),
            Self::StartDaemon => write!(formatter, "start slurmrestd"),
            Self::RestartDaemon => write!(formatter, "restart slurmrestd"),
            Self::NoteLoaded(_) => write!(formatter, "note what slurmrestd was started with"),
            Self::Acknowledge(relation, _) => write!(formatter, "acknowledge the key to {relation}"),
            Self::OpenPort => write!(formatter, "open port {}", names::PORT),
            Self::ClosePort => write!(formatter, "close port {}", names::PORT),
            Self::StopDaemon => write!(formatter, "stop slurmrestd"),
            Self::RemoveOptions => write!(formatter, "remove slurmrestd's options"),
        }
    }
}
