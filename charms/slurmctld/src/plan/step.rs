//! The changes that a plan can consist of. A step says what, never how.

use crate::configuration::{Files, Refusals, Refused, Suspect};
use crate::names;
use charm::{Databag, RelationId};
use slurm_conf::PartitionName;
use slurm_ops::source::Source;
use std::fmt;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    InstallPackages(Source),
    HoldPackages,
    LeaveAlone,
    ReportVersion(String),
    /// Makes the state directory and marks it with this note.
    PrepareState(String),
    /// Makes the key files such that nobody else can read them.
    SecureKeys,
    /// Lets everybody read the configuration.
    OpenConfiguration,
    MakeAuthKey,
    RestoreAuthKey,
    MakeJwtKey,
    RestoreJwtKey,
    WriteDropIn(String),
    WriteFailureService(String),
    /// Puts a configuration in place if Slurm can read it; else remembers why not.
    OfferConfiguration {
        files: Files,
        version: String,
        suspects: Vec<Suspect>,
    },
    /// Puts a configuration back and remembers why the other one was refused.
    RestoreConfiguration {
        refused: Refused,
        suspects: Vec<Suspect>,
        back: Files,
    },
    /// Remembers that one change was refused for itself.
    Blame(Suspect, String),
    /// Remembers no more of what was refused than this.
    ForgetRefusals(Refusals),
    StartDaemon,
    /// Makes slurmctld load the configuration in place; one that it refuses is taken back.
    Reconfigure {
        version: String,
        suspects: Vec<Suspect>,
        back: Files,
    },
    /// Makes slurmctld write its partitions to the state directory, through one that exists.
    SavePartitions(PartitionName),
    OpenPort,
    /// Makes a secret of the key on this machine.
    AddSecret(&'static str),
    /// Puts the key on this machine back into a secret that lost its content.
    RefillSecret(&'static str),
    GrantSecret(RelationId),
    PublishPeerApp(RelationId, Databag),
    PublishPeerUnit(RelationId, Databag),
    PublishController(RelationId, Databag),
    RequestMount(RelationId, Databag),
    StartWaking,
    StopWaking,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InstallPackages(_) => write!(formatter, "install slurmctld"),
            Self::HoldPackages => write!(formatter, "hold the packages of Slurm"),
            Self::LeaveAlone => write!(formatter, "keep needrestart from {}", names::SERVICE),
            Self::ReportVersion(version) => write!(formatter, "report version {version}"),
            Self::PrepareState(_) => write!(formatter, "prepare {}", names::STATE_DIRECTORY),
            Self::SecureKeys => write!(formatter, "keep the keys from others"),
            Self::OpenConfiguration => write!(formatter, "let everybody read {}", names::SLURM_CONF),
            Self::MakeAuthKey => write!(formatter, "make the authentication key"),
            Self::RestoreAuthKey => write!(formatter, "restore the authentication key"),
            Self::MakeJwtKey => write!(formatter, "make the token key"),
            Self::RestoreJwtKey => write!(formatter, "restore the token key"),
            Self::WriteDropIn(_) => write!(formatter, "write the drop-in of {}", names::SERVICE),
            Self::WriteFailureService(_) => write!(formatter, "write {}", names::FAILURE_SERVICE),
            Self::OfferConfiguration { suspects, .. } => {
                write!(formatter, "write {}", names::SLURM_CONF)?;
                if let [only] = suspects.as_slice() { write!(formatter, " with {}", only.change) } else { Ok(()) }
            }
            Self::RestoreConfiguration { .. } => write!(formatter, "put the accepted {} back", names::SLURM_CONF),
            Self::Blame(suspect, _) => write!(formatter, "leave out {}", suspect.change),
            Self::ForgetRefusals(_) => write!(formatter, "forget what is wanted no more"),
            Self::StartDaemon => write!(formatter, "start slurmctld"),
            Self::Reconfigure { .. } => write!(formatter, "reconfigure slurmctld"),
            Self::SavePartitions(_) => write!(formatter, "save partitions"),
            Self::OpenPort => write!(formatter, "open port {}", names::PORT),
            Self::AddSecret(label) => write!(formatter, "add secret {label}"),
            Self::RefillSecret(label) => write!(formatter, "put the key back into secret {label}"),
            Self::GrantSecret(relation) => write!(formatter, "grant secret {} to {relation}", names::AUTH_SECRET),
            Self::PublishPeerApp(relation, _) => write!(formatter, "publish cluster name to {relation}"),
            Self::PublishPeerUnit(relation, _) => write!(formatter, "publish host name to {relation}"),
            Self::PublishController(relation, _) => write!(formatter, "publish controllers to {relation}"),
            Self::RequestMount(relation, _) => write!(formatter, "ask {relation} for a file system"),
            Self::StartWaking => write!(formatter, "look again soon"),
            Self::StopWaking => write!(formatter, "look again no more"),
        }
    }
}
