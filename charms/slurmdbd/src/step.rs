//! The changes that a plan may ask for: what, never how.

use crate::conf::Tried;
use crate::facts::Loaded;
use crate::names;
use charm::{Databag, RelationId};
use slurm_ops::keys::{JwtKey, KeySet};
use slurm_ops::packages::Obstacle;
use slurm_ops::slurmdbd::ConfText;
use slurm_unit::install::InstallStep;
use slurm_unit::service::ServiceStep;
use std::fmt;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A change of what of Slurm is on the machine.
    Install(InstallStep),
    /// A change of how systemd treats slurmdbd.
    Service(ServiceStep),
    /// Asks the database for what slurmdbd needs.
    RequestDatabase(RelationId, Databag),
    /// Writes the key that the controllers share.
    WriteKey(KeySet),
    /// Writes the key of users' tokens.
    WriteJwtKey(JwtKey),
    /// Writes where slurmdbd finds the database on this machine, or that it does not.
    WriteSocket(Option<String>),
    /// Writes the slurm.conf with which slurmdbd is asked.
    WriteClientConf,
    /// Has slurmdbd read a file without serving.
    TryConf(ConfText),
    /// Replaces slurmdbd.conf. `soft`: slurmdbd takes the change over without a start.
    WriteConf {
        text: ConfText,
        soft: bool,
    },
    /// Notes what became of the operator's parameters.
    NoteParameters(Tried),
    StartDaemon,
    /// Has slurmdbd load everything. Controllers keep their records meanwhile.
    RestartDaemon,
    /// Has slurmdbd read its file, but neither keys nor password.
    ReloadDaemon,
    /// Notes what a start, a restart or a reload was for.
    NoteLoaded(Loaded),
    /// Tells the controllers which keys slurmdbd has.
    Acknowledge(RelationId, Databag),
    OpenPort,
    ClosePort,
    /// Tells the controllers where slurmdbd is.
    PublishHost(RelationId, Databag),
    /// Tells the leader where slurmdbd is.
    PublishToPeers(RelationId, Databag),
    /// Stops slurmdbd for good.
    StopDaemon,
    /// Removes what the controllers shared.
    RemoveKeys,
    /// Removes what the database shared.
    RemoveConf,
}

/// What a step found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// What stood in the way of an installation.
    InTheWay(Obstacle),
    /// What slurmdbd has against a file.
    Refused(String),
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Install(step) => formatter.write_str(&step.name(&names::PROFILE)),
            Self::Service(step) => formatter.write_str(&step.name(&names::PROFILE)),
            Self::RequestDatabase(relation, _) => write!(formatter, "ask {relation} for a database"),
            Self::WriteKey(_) => write!(formatter, "write the authentication key"),
            Self::WriteJwtKey(_) => write!(formatter, "write the token key"),
            Self::WriteSocket(_) => write!(formatter, "write {}", slurm_ops::slurmdbd::DEFAULTS_FILE),
            Self::WriteClientConf => write!(formatter, "write {}", names::CLIENT_CONF),
            Self::TryConf(_) => write!(formatter, "try slurmdbd.conf"),
            Self::WriteConf { .. } => write!(formatter, "write slurmdbd.conf"),
            Self::NoteParameters(_) => write!(formatter, "note what became of the parameters"),
            Self::StartDaemon => write!(formatter, "start slurmdbd"),
            Self::RestartDaemon => write!(formatter, "restart slurmdbd"),
            Self::ReloadDaemon => write!(formatter, "reload slurmdbd"),
            Self::NoteLoaded(_) => write!(formatter, "note what slurmdbd has loaded"),
            Self::Acknowledge(relation, _) => write!(formatter, "acknowledge the key to {relation}"),
            Self::OpenPort => write!(formatter, "open port {}", names::PORT),
            Self::ClosePort => write!(formatter, "close port {}", names::PORT),
            Self::PublishHost(relation, _) => write!(formatter, "publish the host of slurmdbd to {relation}"),
            Self::PublishToPeers(relation, _) => write!(formatter, "publish the host of slurmdbd to {relation}"),
            Self::StopDaemon => write!(formatter, "stop slurmdbd"),
            Self::RemoveKeys => write!(formatter, "remove the keys"),
            Self::RemoveConf => write!(formatter, "remove slurmdbd.conf"),
        }
    }
}
