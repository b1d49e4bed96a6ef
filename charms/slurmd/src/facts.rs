//! Everything a compute unit knows before it decides anything. Facts only: no wishes, no steps.
//!
//! How the facts are read is in `read`; those of the machine in `machine`.

mod machine;
mod read;

use crate::change::Change;
use crate::options::Options;
use charm::tools::Unreadable;
use charm::{AppName, Databag, RelationId, UnitName};
use slurm_conf::{ControllerAddress, Node, NodeName};
use slurm_interface::ControllerData;
use slurm_ops::SlurmVersion;
use slurm_ops::journal::Cause;
use slurm_ops::packages::Obstacle;
use slurm_ops::scontrol::NodeNotes;

pub use machine::occupant;
pub use read::{Memory, observe};

/// What is, at one moment.
#[derive(Debug, Clone)]
pub struct Observed {
    pub unit: UnitName,
    pub node_name: NodeName,
    /// This unit, or its application, is being removed.
    pub leaving: bool,
    /// This dispatch was called because slurmd has failed.
    pub alarmed: bool,
    /// This dispatch was called by the timer.
    pub woken: bool,
    pub leader: bool,
    pub options: Options,
    pub controller: Option<Controller>,
    pub key: Key,
    pub port_open: bool,
    /// The timer that calls this charm again is set.
    pub waking: bool,
    pub machine: Machine,
    pub tried: Tried,
}

/// The relation to the controllers.
#[derive(Debug, Clone)]
pub struct Controller {
    pub relation: RelationId,
    pub app: AppName,
    pub offer: Offer,
    /// What this application has published there; empty on a unit that does not lead.
    pub published: Databag,
}

/// What the controllers say about themselves.
#[derive(Debug, Clone)]
pub enum Offer {
    /// Nothing yet.
    Nothing,
    Data(ControllerData),
    /// Something that cannot be used, and why.
    Unusable(String),
}

/// The authentication key: what the controllers share, next to what is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// There is no controller to ask for it.
    NotOffered,
    /// Not granted yet, or no longer. What is on the disk goes on serving.
    Unreadable(Unreadable),
    /// The secret is there and does not have what a key needs.
    Malformed,
    Offered {
        same_as_on_disk: bool,
    },
}

/// A wish of the operator's that slurmd did not start with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub wish: Node,
    pub reason: String,
}

/// What slurmd is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    pub node_name: NodeName,
    pub conf: Node,
    pub controllers: Vec<ControllerAddress>,
}

/// What is on the machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// None unless there is a Slurm that can be used.
    pub version: Option<SlurmVersion>,
    /// Why the one that is there cannot be.
    pub unfit: Option<Obstacle>,
    /// The version that Juju has been told.
    pub reported_version: Option<String>,
    /// Upgrades leave the packages alone.
    pub held: bool,
    /// So does needrestart the daemon.
    pub left_alone: bool,
    pub drop_in: Option<String>,
    pub alarm: Option<String>,
    /// Who dies with slurmd when it is stopped. Empty if it is not known.
    pub kill_mode: String,
    pub key_on_disk: bool,
    /// The key on the disk is newer than the running daemon.
    pub key_is_news: bool,
    /// What slurmd finds in this machine. None until there is a slurmd to ask.
    pub detected: Option<Node>,
    /// What it is taken to have: what was remembered of an earlier start, or of this one.
    pub remembered: Option<Node>,
    /// That was remembered for the running daemon.
    pub detection_saved: bool,
    /// What the operator asked for, or why that cannot be read.
    pub wish: Result<Node, String>,
    /// What the operator asked for when the node was last registered as wanted.
    pub proven: Node,
    /// What the operator asked for and slurmd did not start with.
    pub refused: Option<Refused>,
    /// What the next start of slurmd will use.
    pub written: Option<Launch>,
    /// The node of another unit on this machine, whose slurmd it is.
    pub occupant: Option<NodeName>,
    pub daemon: Daemon,
    /// Another start of the daemon has another one.
    pub invocation: String,
    pub registration: Registration,
    /// systemd watches a slurmd that is stuck beside its successor, or in the middle of making one. Looked for only if the controllers do not
    /// know the node, or nobody answers.
    pub stuck: bool,
    /// The address under which slurmctld looks for this node, if this machine has it no more and nothing was done about it yet.
    pub moved_from: Option<String>,
    /// The registration that is being replaced, if one is.
    pub change: Option<Change>,
    /// slurmctld was asked to save this node so short a time ago that it may not have done so yet.
    pub marked_recently: bool,
    /// The weight that this charm set on the record, while that is not the registered one.
    pub set_weight: Option<u64>,
    /// Asked for only where a plan depends on it.
    pub occupancy: Option<Occupancy>,
    /// Why the daemon cannot talk to the controllers. Looked for only if it cannot.
    pub cause: Option<Cause>,
    /// By how many seconds this machine's clock is ahead of slurmctld's, if that is too many. Asked for only while something is awaited.
    pub skew: Option<i64>,
    /// What the daemon complained about. Looked for only if it failed.
    pub complaint: Option<String>,
}

/// The state of slurmd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Daemon {
    Stopped,
    /// It ended badly and may be on its way up again.
    Failing {
        result: String,
    },
    /// It has been started and has not found a controller yet.
    Starting {
        with: Option<Launch>,
    },
    /// It runs. What it runs with is none if it was not started as a dynamic node.
    Running {
        with: Option<Launch>,
    },
}

/// What the controllers know about this node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one of these is made for each look")]
pub enum Registration {
    /// Nobody answered, or nobody could be asked. Never read as "not known".
    Unreachable,
    Absent,
    Present(Record),
}

/// The controllers' record of this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Upper case words, the state first: `IDLE`, `DYNAMIC_NORM`.
    pub states: Vec<String>,
    pub reason: String,
    /// Who gave the reason.
    pub reason_by: String,
    pub partitions: Vec<String>,
    pub features: Vec<String>,
    pub weight: u64,
    pub comment: String,
    pub notes: NodeNotes,
    /// Processors and resources that Slurm takes it to have.
    pub cpus: u64,
    pub gres: String,
    pub address: String,
}

impl Record {
    /// Says whether the node is in a state or carries a flag.
    pub fn has(&self, state: &str) -> bool {
        self.states.iter().any(|known| known == state)
    }

    /// Says whether the controllers hear from the node.
    pub fn is_responding(&self) -> bool {
        !self.has("NOT_RESPONDING")
    }

    /// Says whether the node takes no jobs because somebody said so.
    pub fn is_closed(&self) -> bool {
        ["DRAIN", "DOWN", "FAIL"].iter().any(|state| self.has(state))
    }
}

/// What is in the way of deleting this node's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Occupancy {
    Empty,
    /// Jobs are on it, by the controllers' count or the machine's own.
    Jobs(Vec<u64>),
    /// Nobody is on it, and reservations name it, which would go with it.
    Reserved(Vec<String>),
    /// It could not be found out.
    Unknown,
}

/// What this dispatch has tried and what did not show an effect. Nothing is tried twice in one dispatch.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    /// Why nothing could be installed.
    pub install: Option<Obstacle>,
    pub hold: bool,
    /// A description that slurmd did not start with was taken back, so that a start may well succeed.
    pub taken_back: bool,
    pub start: bool,
    pub restart: bool,
    pub reload: bool,
    pub mark: bool,
    pub in_place: bool,
    pub drain: bool,
    pub mark_old: bool,
    pub reopen: bool,
    pub delete: bool,
    pub restore: bool,
}
