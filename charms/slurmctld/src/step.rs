//! The changes that a plan can consist of, and what each finds out. A step says what, never how.

use crate::applications::Applications;
use crate::config::files::Files;
use crate::config::rejections::Rejections;
use crate::config::rollout::Overrides;
use crate::config::sources::ConfigSource;
use crate::controllers::Started;
use crate::keys::Key;
use crate::mail::MailStep;
use crate::names;
use crate::neighbours::Neighbours;
use crate::place::Place;
use crate::reboots::{Before, Reboots, Wish};
use crate::rotation::{Phase, Rotation};
use charm::tools::SecretContent;
use charm::{Databag, RelationId, SecretId};
use slurm_conf::overrides::{NodeSettings, PartitionSettings, Update};
use slurm_conf::{NodeName, PartitionName};
use slurm_ops::fence::Settings;
use slurm_ops::keys::KeySet;
use slurm_ops::packages::Obstacle as InstallProblem;
use slurm_ops::scontrol::{Candidate, PartitionState, Reconfigure};
use slurm_unit::install::InstallStep;
use slurm_unit::service::ServiceStep;
use std::fmt;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A change of what of Slurm is on the machine.
    Install(InstallStep),
    /// A change of how systemd treats slurmctld.
    Service(ServiceStep),
    /// Makes the state directory and marks it with this note.
    PrepareState(String),
    /// Makes the configuration directory of this machine a link to the one of a place. What was there is kept, with
    /// this time in its name.
    LinkConfiguration { place: Place, stamp: String },
    /// Stops slurmctld and takes its state from where a store will be mounted to where no mount covers it. The files
    /// say so, and slurmctld is started with them.
    MakeWay { files: Files, drop_in: String },
    /// Has slurm.conf say where the state is: the files in place, and those that slurmctld has accepted.
    Agree { live: Files, accepted: Files },
    /// Moves the state that is aside, and the configuration, to the store, and starts slurmctld there.
    MoveToStore(Luggage),
    /// Moves state and configuration from the store to the local disk, and starts slurmctld there.
    MoveToDisk(Luggage),
    /// Takes a copy for the state that was made by a move to the local disk which has not come to its end.
    Arrive { stamp: String },
    /// Ends the fence of this machine for good.
    EndFence,
    /// Has the fence of this machine run with these settings.
    EnsureFence(Settings),
    /// Makes the key files such that only slurmctld can read them.
    SecureKeys,
    /// Lets everybody read the configuration.
    MakeWorldReadable,
    /// Makes a key that is nowhere.
    MakeKey(Key),
    /// Writes a key that is only in its secret.
    RestoreKey(Key, SecretContent),
    /// Writes the authentication keys of the next phase of a rotation.
    WriteKeys(KeySet),
    /// Notes how far a key that is being replaced has come.
    NoteRotation(Rotation),
    /// The key has been replaced.
    ForgetRotation,
    /// Has Slurm's parser read files, without effect. With `nodes`, slurmctld is asked for the settings of nodes as
    /// well.
    CheckCandidate { files: Files, nodes: bool },
    /// Puts files in place. `sources` says what is new in them.
    WriteFiles { files: Files, sources: Vec<ConfigSource> },
    /// Puts accepted files back in place.
    RestoreFiles(Files),
    /// Notes what was refused, and nothing else.
    NoteRejections(Rejections),
    /// Notes what was set at runtime, before a reconfigure undoes it.
    NoteOverrides(Overrides),
    /// Has slurmctld load the files in place, which are these.
    Reconfigure(Files),
    /// Sets again what a reconfigure undid.
    RestoreOverrides(Vec<Update>),
    /// Asks slurmdbd whether it serves, as a client that reads this slurm.conf.
    AskSlurmdbd(String),
    /// Has slurmctld take the identity of its cluster from slurmdbd at its next start.
    ForgetClusterId(Place),
    /// Gives slurmctld the identity of before, unless it has one.
    RecallClusterId(Place),
    /// Drops the note of what was set at runtime.
    ForgetOverrides,
    /// Keeps files as those that slurmctld has accepted.
    MarkAccepted(Files),
    /// Starts slurmctld, and waits until it answers.
    StartDaemon,
    /// Restarts a slurmctld that serves nobody.
    RestartDaemon,
    /// Restarts a slurmctld that stands by, so that it starts with the list of controllers in place.
    RestartStandby,
    /// Notes what slurmctld of this machine was started with.
    NoteStarted(Started),
    /// Has another controller take over from this one.
    HandOver { rank: usize, host: String },
    /// Stops slurmctld for good.
    StopDaemon,
    /// Makes slurmctld write its partitions to the state directory, through one that exists.
    SavePartitions { partition: PartitionName, settings: PartitionSettings, place: Place },
    /// Notes how far the applications have come that this cluster has served.
    NoteApplications(Applications),
    /// Has a partition take and start no job.
    ClosePartition(PartitionName),
    /// Gives a partition the state back that it had before it was closed.
    ReopenPartition(PartitionName, PartitionState),
    /// Keeps new jobs from nodes that leave.
    DrainNodes(Vec<NodeName>),
    /// Deletes the record of a node that has no unit.
    DeleteNode(NodeName),
    /// Deletes a partition at runtime, which comes before its lines in slurm.conf.
    DeletePartition(PartitionName),
    /// Notes which nodes are to be rebooted, and how far those have come that are away.
    NoteReboots(Reboots),
    /// Notes at which endpoints somebody is who hears of every change of the configuration.
    NoteNeighbours(Neighbours),
    /// Has Slurm reboot a node that was in this state.
    RequestReboot { node: NodeName, wish: Wish, before: Before },
    /// Takes a reboot back that has not begun.
    CancelReboot(NodeName),
    /// Brings a node that was rebooted into the state that it had.
    SetNode(NodeName, NodeChange),
    /// Has Juju open the port of slurmctld.
    OpenPort,
    /// Makes a secret of a key.
    AddSecret(Key, SecretContent),
    /// Puts a key back into its secret.
    RefillSecret(Key, SecretId, SecretContent),
    /// Removes a revision of the secret of a key that nobody tracks any more.
    DropRevision(Key, SecretId, u64),
    /// Lets another application read the secret of a key.
    GrantSecret(Key, SecretId, RelationId),
    /// Tells the other units the name of the cluster.
    PublishPeerApp(RelationId, Databag),
    /// Tells the other units the host of this one.
    PublishPeerUnit(RelationId, Databag),
    /// Tells another application where the controllers are. `copy`: in the bag of this unit too, for agents that are
    /// deaf to the relation.
    PublishController { relation: RelationId, bag: Databag, copy: bool },
    /// Tells the agent beside this unit where metrics are.
    PublishMetrics(RelationId, Databag),
    /// A change of what sends mail on this machine.
    Mail(MailStep),
    /// Asks for the file system that the state is to be on.
    RequestMount(RelationId, Databag),
}

/// What a move has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Luggage {
    /// What the state directory is marked with.
    pub note: String,
    /// The files with the state where it will be.
    pub files: Files,
    /// The time in the names of what is left behind.
    pub stamp: String,
    /// How systemd is to treat slurmctld.
    pub drop_in: String,
    /// What a fence has to know on the store.
    pub fence: Settings,
}

/// What is given back to a node that was rebooted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeChange {
    Resume,
    /// For this reason.
    Drain(String),
    /// The reason alone.
    Reason(String),
}

/// What a step found out.
#[derive(Debug, Clone)]
pub enum Outcome {
    Done,
    /// What stood in the way of an installation or a hold.
    Install(Option<InstallProblem>),
    Candidate(Candidate, Option<NodeSettings>),
    Reconfigure(Reconfigure),
    /// Why settings could not be set again.
    RestoreOverrides(Result<(), String>),
    /// The partitions were seen on the disk.
    Saved(bool),
    /// Why slurmctld did not make a change.
    Changed(Result<(), String>),
}

impl Step {
    /// Says whether slurmctld is stopped by it, for a moment.
    pub fn stops_for_a_move(&self) -> bool {
        matches!(self, Self::MakeWay { .. } | Self::MoveToStore(_) | Self::MoveToDisk(_))
    }

    /// Says whether a unit that leaves must not do this: it joins, starts or publishes something.
    pub fn is_for_a_unit_that_stays(&self) -> bool {
        !matches!(
            self,
            Self::CheckCandidate { .. }
                | Self::WriteFiles { .. }
                | Self::RestoreFiles(_)
                | Self::NoteRejections(_)
                | Self::NoteOverrides(_)
                | Self::Reconfigure(_)
                | Self::RestoreOverrides(_)
                | Self::ForgetOverrides
                | Self::AskSlurmdbd(_)
                | Self::ForgetClusterId(_)
                | Self::RecallClusterId(_)
                | Self::MarkAccepted(_)
                | Self::RestartDaemon
                | Self::NoteStarted(_)
                | Self::NoteRotation(_)
                | Self::SavePartitions { .. }
        )
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Install(step) => write!(formatter, "{}", step.name(&names::PROFILE)),
            Self::Service(step) => write!(formatter, "{}", step.name(&names::PROFILE)),
            Self::PrepareState(_) => write!(formatter, "prepare {}", names::STATE_DIRECTORY),
            Self::LinkConfiguration { place, .. } => {
                let target = if *place == Place::Store { "the store" } else { names::ASIDE_CONFIGURATION };
                write!(formatter, "link {} to {target}", names::CONFIGURATION_DIRECTORY)
            }
            Self::MakeWay { .. } => write!(formatter, "make way for a mount at {}", names::CHECKPOINT_DIRECTORY),
            Self::Agree { .. } => write!(formatter, "have {} say where the state is", names::SLURM_CONF),
            Self::MoveToStore(_) => write!(formatter, "move to the store"),
            Self::MoveToDisk(_) => write!(formatter, "move to the local disk"),
            Self::Arrive { .. } => write!(formatter, "end the move to the local disk"),
            Self::EndFence => write!(formatter, "end the fence"),
            Self::EnsureFence(_) => write!(formatter, "put the fence in place"),
            Self::WriteKeys(keys) => write!(formatter, "write the authentication keys: {}", Phase::of(keys)),
            Self::NoteRotation(_) => write!(formatter, "note how far the new key has come"),
            Self::ForgetRotation => write!(formatter, "forget the rotation, which is over"),
            Self::DropRevision(key, _, revision) => {
                write!(formatter, "remove revision {revision} of secret {}", key.label())
            }
            Self::SecureKeys => write!(formatter, "keep the keys from others"),
            Self::MakeWorldReadable => write!(formatter, "let everybody read {}", names::SLURM_CONF),
            Self::MakeKey(key) => write!(formatter, "make the {}", key.name()),
            Self::RestoreKey(key, _) => write!(formatter, "restore the {}", key.name()),
            Self::CheckCandidate { .. } => write!(formatter, "check the new {}", names::SLURM_CONF),
            Self::WriteFiles { sources, .. } => {
                write!(formatter, "write {}", names::SLURM_CONF)?;
                if let [only] = sources.as_slice() { write!(formatter, " with {only}") } else { Ok(()) }
            }
            Self::RestoreFiles(_) => write!(formatter, "put the accepted {} back", names::SLURM_CONF),
            Self::NoteRejections(rejections) if rejections.is_empty() => write!(formatter, "forget what was refused"),
            Self::NoteRejections(_) => write!(formatter, "note what was refused"),
            Self::NoteOverrides(_) => write!(formatter, "note what was set at runtime"),
            Self::Reconfigure(_) => write!(formatter, "reconfigure slurmctld"),
            Self::RestoreOverrides(_) => write!(formatter, "set again what was set at runtime"),
            Self::AskSlurmdbd(_) => write!(formatter, "ask slurmdbd"),
            Self::ForgetClusterId(_) => write!(formatter, "have slurmdbd say which cluster this is"),
            Self::RecallClusterId(_) => write!(formatter, "put back which cluster this is"),
            Self::ForgetOverrides => write!(formatter, "forget what was set at runtime"),
            Self::MarkAccepted(_) => write!(formatter, "keep the accepted {}", names::SLURM_CONF),
            Self::StartDaemon => write!(formatter, "start slurmctld"),
            Self::RestartDaemon => write!(formatter, "restart slurmctld"),
            Self::RestartStandby => write!(formatter, "restart slurmctld, which stands by"),
            Self::NoteStarted(_) => write!(formatter, "note what slurmctld was started with"),
            Self::HandOver { host, .. } => write!(formatter, "hand over to {host}"),
            Self::StopDaemon => write!(formatter, "stop slurmctld for good"),
            Self::SavePartitions { .. } => write!(formatter, "save partitions"),
            Self::NoteApplications(_) => write!(formatter, "note the applications"),
            Self::ClosePartition(name) => write!(formatter, "close partition {name}"),
            Self::ReopenPartition(name, _) => write!(formatter, "reopen partition {name}"),
            Self::DrainNodes(nodes) => write!(formatter, "drain {}", charm::text::some(nodes)),
            Self::DeleteNode(name) => write!(formatter, "delete node {name}"),
            Self::DeletePartition(name) => write!(formatter, "delete partition {name}"),
            Self::NoteReboots(_) => write!(formatter, "note the reboots"),
            Self::NoteNeighbours(_) => write!(formatter, "note who hears of the configuration"),
            Self::RequestReboot { node, .. } => write!(formatter, "have {node} rebooted"),
            Self::CancelReboot(node) => write!(formatter, "take the reboot of {node} back"),
            Self::SetNode(node, NodeChange::Resume) => write!(formatter, "resume {node}"),
            Self::SetNode(node, NodeChange::Drain(_)) => write!(formatter, "drain {node} again"),
            Self::SetNode(node, NodeChange::Reason(_)) => write!(formatter, "give {node} its reason back"),
            Self::OpenPort => write!(formatter, "open port {}", names::PORT),
            Self::AddSecret(key, _) => write!(formatter, "add secret {}", key.label()),
            Self::RefillSecret(key, ..) => write!(formatter, "put the key back into secret {}", key.label()),
            Self::GrantSecret(key, _, relation) => write!(formatter, "grant secret {} to {relation}", key.label()),
            Self::PublishPeerApp(relation, _) => write!(formatter, "publish cluster name to {relation}"),
            Self::PublishPeerUnit(relation, _) => write!(formatter, "publish host name to {relation}"),
            Self::PublishController { relation, .. } => write!(formatter, "publish controllers to {relation}"),
            Self::PublishMetrics(relation, _) => write!(formatter, "publish metrics to {relation}"),
            Self::Mail(step) => write!(formatter, "{}", step.name()),
            Self::RequestMount(relation, _) => write!(formatter, "ask {relation} for a file system"),
        }
    }
}
