//! Everything a compute unit knows before it decides anything. Facts only: no wishes, no steps.
//!
//! How the facts are read is in `read`.

mod read;

use charm::tools::Unreadable;
use charm::{AppName, Databag, RelationId, UnitName};
use slurm_conf::{ControllerAddress, Node, NodeName, Partition};
use slurm_interface::ControllerData;

pub use read::{Memory, observe};

/// What is, at one moment.
#[derive(Debug, Clone)]
pub struct Observed {
    pub unit: UnitName,
    pub node_name: NodeName,
    /// This unit, or its application, is being removed.
    pub leaving: bool,
    pub leader: bool,
    /// The partition that the operator's options describe.
    pub partition: Result<Partition, BadOption>,
    pub controller: Option<Controller>,
    pub key: Key,
    pub port_open: bool,
    /// The timer that calls this charm again is set.
    pub waking: bool,
    pub machine: Machine,
    pub tried: Tried,
}

/// An option that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadOption {
    pub option: &'static str,
    pub value: String,
    pub problem: String,
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
    /// None unless all packages are installed.
    pub version: Option<String>,
    /// The version that Juju has been told.
    pub reported_version: Option<String>,
    pub drop_in: Option<String>,
    pub key_on_disk: bool,
    /// What slurmd finds in this machine. Looked for only when it is about to be needed.
    pub detected: Option<Node>,
    /// What the next start of slurmd will use.
    pub written: Option<Launch>,
    pub daemon: Daemon,
    pub registration: Registration,
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
    Starting,
    /// It runs. What it runs with is none if it was not started as a dynamic node.
    Running {
        with: Option<Launch>,
    },
}

/// What the controllers know about this node.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    pub partitions: Vec<String>,
    pub comment: String,
}

/// What this dispatch has tried and what did not show an effect. Nothing is tried twice in one dispatch.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    pub start: bool,
    pub restart: bool,
    pub reload: bool,
    pub mark: bool,
}
