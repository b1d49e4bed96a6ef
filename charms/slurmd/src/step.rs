//! The changes that a plan may ask for: what, never how.

use crate::names;
use crate::node::departure::Hold;
use crate::node::lifecycle::{BootNote, NodeNote};
use crate::node::reregistration::Reregistration;
use charm::{Databag, RelationId};
use slurm_ops::keys::KeySet;
use slurm_ops::packages::Obstacle;
use slurm_ops::slurmd::SlurmdOptions;
use slurm_unit::install::InstallStep;
use slurm_unit::service::ServiceStep;
use std::fmt;
use std::time::Duration;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A change of what of Slurm is on the machine.
    Install(InstallStep),
    /// A change of how systemd treats slurmd.
    Service(ServiceStep),
    /// Tells the controllers about the partition.
    PublishPartition(RelationId, Databag),
    /// Writes the key that the controllers share.
    WriteKey {
        keys: KeySet,
        owner: &'static str,
    },
    /// Writes what the next start of slurmd will use.
    WriteOptions(SlurmdOptions),
    /// Keeps what is to be known about the node.
    WriteNote(Box<NodeNote>, NoteReason),
    /// Removes what earlier versions of this charm noted.
    RemoveOldNotes,
    /// Keeps what is to be known until the next boot.
    NoteForBoot(BootNote),
    /// Starts slurmd, whatever became of it before.
    StartDaemon,
    /// Jobs go on: only the daemon itself is replaced.
    RestartDaemon,
    /// Makes slurmd read its key and its configuration, and register again.
    ReloadDaemon,
    /// Makes slurmctld save this node, which it else would do only after minutes, and notes when.
    MarkJoined(BootNote),
    /// Slurm takes features in place, for good.
    SetFeatures(Vec<String>),
    /// Slurm takes a weight in place, until its next reconfigure.
    SetWeight(u64),
    /// Keeps jobs away, unless somebody does already, and marks the record as the old one.
    CloseNode {
        drain: bool,
    },
    /// Slurm takes another description only of a node that it does not know.
    DeleteNode,
    /// Gives a new record what the old one had. `features` are those of the new one and of the old one.
    RestoreNode {
        change: Box<Reregistration>,
        features: Vec<String>,
        boot: BootNote,
    },
    /// Gives the record its comment back, and takes our own drain away if there is one.
    ReopenNode {
        resume: bool,
        comment: String,
    },
    /// Has Juju open the port of slurmd.
    /// Tells the controllers which keys slurmd has.
    Acknowledge(RelationId, Databag),
    OpenPort,
    /// Has Juju close it: nobody listens there any more.
    ClosePort,
    /// Keeps new jobs away, because the node leaves.
    DrainNode,
    /// Cancels jobs by their handles.
    CancelJobs(Vec<String>),
    /// Stops slurmd for good.
    StopDaemon,
    /// Removes what slurmd reads: options, fetched configuration, and the key unless a controller needs it here.
    RemoveTraces {
        key: bool,
    },
    /// Lets time pass in the hook that holds the machine. `leader`: nobody else can write for the application
    /// meanwhile.
    Wait {
        hold: Hold,
        leader: bool,
        pause: Duration,
    },
}

/// Why the note about the node is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteReason {
    /// It was kept in another form before.
    TakeOver,
    /// slurmd does not start with what the operator asked for last.
    TakeBack,
    BeginChange,
    EndChange,
    /// A weight is about to be set ahead of a new registration. A weight that is not noted would pass for an
    /// administrator's.
    SetWeight,
    ForgetWeight,
    /// The node begins to leave.
    Leave,
    /// Its record is gone, or is somebody else's to delete.
    Deleted,
    /// The node has left.
    Gone,
    /// The relation is there again before the node has left.
    Stay,
    /// What the machine has, that the node is a member, and which request works.
    Settle,
}

/// What a step found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// What stood in the way of an installation.
    InTheWay(Obstacle),
    /// When slurmctld was asked to save the node, in seconds since 1970.
    Marked(u64),
}

impl Step {
    /// Says whether the step only lets time pass.
    pub fn is_wait(&self) -> bool {
        matches!(self, Self::Wait { .. })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Install(step) => formatter.write_str(&step.name(&names::PROFILE)),
            Self::Service(step) => formatter.write_str(&step.name(&names::PROFILE)),
            Self::PublishPartition(relation, _) => write!(formatter, "publish partition to {relation}"),
            Self::WriteKey { .. } => write!(formatter, "write the authentication key"),
            Self::WriteOptions(_) => write!(formatter, "write {}", names::OPTIONS_FILE),
            Self::WriteNote(note, reason) => match reason {
                NoteReason::TakeOver => write!(formatter, "take over the notes of an earlier version"),
                NoteReason::TakeBack => {
                    let rejected = note.rejected.as_ref().map(|rejected| rejected.requested.render());
                    write!(formatter, "take back `{}`, which slurmd refuses", rejected.unwrap_or_default())
                }
                NoteReason::BeginChange => write!(formatter, "note what the node has to get back"),
                NoteReason::EndChange => write!(formatter, "end the new registration"),
                NoteReason::SetWeight => write!(formatter, "note the weight to be set"),
                NoteReason::ForgetWeight => write!(formatter, "leave the node's weight as it is"),
                NoteReason::Leave => write!(formatter, "note that the node leaves"),
                NoteReason::Deleted => write!(formatter, "note that slurmd must not start any more"),
                NoteReason::Gone => write!(formatter, "note that the node has left"),
                NoteReason::Stay => write!(formatter, "note that the node stays"),
                NoteReason::Settle => write!(formatter, "note how the node is"),
            },
            Self::RemoveOldNotes => write!(formatter, "remove the notes of an earlier version"),
            Self::NoteForBoot(_) => write!(formatter, "note what is known until the next boot"),
            Self::Acknowledge(relation, _) => write!(formatter, "acknowledge the key to {relation}"),
            Self::StartDaemon => write!(formatter, "start slurmd"),
            Self::RestartDaemon => write!(formatter, "restart slurmd"),
            Self::ReloadDaemon => write!(formatter, "reload slurmd"),
            Self::MarkJoined(_) => write!(formatter, "mark the node as joined"),
            Self::SetFeatures(features) => write!(formatter, "set the node's features to {}", features.join(",")),
            Self::SetWeight(weight) => write!(formatter, "set the node's weight to {weight}"),
            Self::CloseNode { drain: true } => write!(formatter, "drain the node for a new registration"),
            Self::CloseNode { drain: false } => write!(formatter, "mark the node for a new registration"),
            Self::DeleteNode => write!(formatter, "delete the node's record"),
            Self::RestoreNode { .. } => write!(formatter, "give the node back what it had"),
            Self::ReopenNode { .. } => write!(formatter, "open the node again"),
            Self::OpenPort => write!(formatter, "open port {}", names::PORT),
            Self::ClosePort => write!(formatter, "close port {}", names::PORT),
            Self::DrainNode => write!(formatter, "drain the node, which leaves"),
            Self::CancelJobs(jobs) => write!(formatter, "cancel jobs {}, drain-timeout is over", jobs.join(" ")),
            Self::StopDaemon => write!(formatter, "stop slurmd"),
            Self::RemoveTraces { key: true } => write!(formatter, "remove the key and slurmd's options"),
            Self::RemoveTraces { key: false } => write!(formatter, "remove slurmd's options"),
            Self::Wait { pause, .. } => write!(formatter, "wait for {} s", pause.as_secs()),
        }
    }
}
