//! A unit: what Juju shows of it, and what its agent remembers between hooks.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Forced, Life, Status, StatusInfo};
use crate::clock::Moment;
use crate::names::UnitName;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OpenPort {
    pub protocol: String,
    pub from: u16,
    pub to: u16,
    /// Endpoint, or empty for all.
    pub endpoint: String,
}

impl OpenPort {
    pub fn label(&self) -> String {
        match (self.protocol.as_str(), self.from == self.to) {
            ("icmp", _) => "icmp".to_owned(),
            (protocol, true) => format!("{}/{protocol}", self.from),
            (protocol, false) => format!("{}-{}/{protocol}", self.from, self.to),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unit {
    pub name: UnitName,
    pub machine: String,
    pub principal: Option<UnitName>,
    pub life: Life,
    pub agent: StatusInfo,
    pub workload: StatusInfo,
    pub workload_version: String,
    pub ports: Vec<OpenPort>,
    pub state: BTreeMap<String, String>,
    /// Storage instances attached to it.
    pub storage: BTreeSet<String>,
    /// When the removal job looks next, once it is Dying.
    pub removal_due: Moment,
    /// Set by `--force`.
    pub forced: Option<Forced>,
    pub uniter: Uniter,
}

impl Unit {
    /// A unit that was just asked for.
    pub fn new(name: UnitName, machine: &str) -> Self {
        Unit {
            name,
            machine: machine.to_owned(),
            principal: None,
            life: Life::Alive,
            agent: StatusInfo::new(Status::Allocating, ""),
            workload: StatusInfo::new(Status::Waiting, "waiting for machine"),
            workload_version: String::new(),
            ports: Vec::new(),
            state: BTreeMap::new(),
            storage: BTreeSet::new(),
            removal_due: Moment(0),
            forced: None,
            uniter: Uniter::default(),
        }
    }
}

/// What a unit's agent has done so far. Everything it still has to do follows from this and the model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Uniter {
    /// The charm that lies on the machine.
    pub charm: Option<String>,
    pub installed: bool,
    pub started: bool,
    pub stopped: bool,
    pub removed: bool,
    /// The machine was rebooted: `start` runs again.
    pub rebooted: bool,
    /// Storage whose attached hook has run.
    pub storage_seen: BTreeSet<String>,
    /// Relations that 4.0 does not deliver after they were removed and made again; forgotten when the agent starts
    /// anew.
    pub deaf_to: BTreeSet<String>,
    /// What runs now. Found here by a daemon that was killed, it is taken for failed.
    pub running: Option<Running>,
    /// A hook that follows the one just done before anything else of its kind: `start`, or `changed` after `joined`.
    pub queued: Option<Hook>,
    pub failure: Option<Failure>,
    pub config_seen: Option<u64>,
    pub leader_seen: bool,
    /// Version of the leader's settings that this unit was told of; only in 3.6.
    #[serde(default)]
    pub leader_settings_version: Option<u64>,
    pub relations: BTreeMap<u32, Member>,
    pub update_status_at: Option<Moment>,
}

/// One relation as this unit's agent remembers it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Member {
    /// Version of the remote application's bag that was seen.
    pub application_seen: u64,
    /// Remote units that joined, and the version of their bag that was seen.
    pub units_seen: BTreeMap<UnitName, u64>,
    /// Units that are gone without this agent being told.
    pub ghosts: BTreeSet<UnitName>,
    /// The agent was started anew since: it has forgotten that this is a peer relation, and the other side's name.
    pub forgotten: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    pub hook: Hook,
    pub retry_at: Option<Moment>,
    pub attempts: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Running {
    Hook(Hook),
    Task(u64),
    /// `juju-exec` on the machine.
    Commands,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hook {
    Install,
    LeaderElected,
    /// Only in 3.6, on units that do not lead.
    LeaderSettingsChanged,
    ConfigChanged,
    Start,
    Stop,
    Remove,
    UpgradeCharm,
    UpdateStatus,
    Relation(RelationHook),
    Secret(SecretHook),
    StorageAttached(String),
    StorageDetaching(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelationKind {
    Created,
    Joined,
    Changed,
    Departed,
    Broken,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationHook {
    pub kind: RelationKind,
    pub relation: u32,
    pub endpoint: String,
    pub remote_application: String,
    pub remote_unit: Option<UnitName>,
    /// Version of the remote bag when the hook was chosen. What is written later makes another hook, even if this one
    /// is run again and sees it.
    pub version: u64,
    /// Who leaves; only in `departed`.
    pub departing: Option<UnitName>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecretHook {
    Changed { id: String, label: String },
    Remove { id: String, label: String, revision: u32 },
    Expired { id: String, label: String, revision: u32 },
    Rotate { id: String, label: String },
}

/// `data` of `data/0`.
fn storage_name(id: &str) -> &str {
    id.split('/').next().unwrap_or(id)
}

impl Hook {
    pub fn name(&self) -> String {
        match self {
            Hook::Install => "install".to_owned(),
            Hook::LeaderElected => "leader-elected".to_owned(),
            Hook::LeaderSettingsChanged => "leader-settings-changed".to_owned(),
            Hook::ConfigChanged => "config-changed".to_owned(),
            Hook::Start => "start".to_owned(),
            Hook::Stop => "stop".to_owned(),
            Hook::Remove => "remove".to_owned(),
            Hook::UpgradeCharm => "upgrade-charm".to_owned(),
            Hook::UpdateStatus => "update-status".to_owned(),
            Hook::StorageAttached(id) => format!("{}-storage-attached", storage_name(id)),
            Hook::StorageDetaching(id) => format!("{}-storage-detaching", storage_name(id)),
            Hook::Secret(SecretHook::Expired { .. }) => "secret-expired".to_owned(),
            Hook::Secret(SecretHook::Rotate { .. }) => "secret-rotate".to_owned(),
            Hook::Secret(SecretHook::Changed { .. }) => "secret-changed".to_owned(),
            Hook::Secret(SecretHook::Remove { .. }) => "secret-remove".to_owned(),
            Hook::Relation(hook) => {
                let kind = match hook.kind {
                    RelationKind::Created => "created",
                    RelationKind::Joined => "joined",
                    RelationKind::Changed => "changed",
                    RelationKind::Departed => "departed",
                    RelationKind::Broken => "broken",
                };
                format!("{}-relation-{kind}", hook.endpoint)
            }
        }
    }

    /// What the agent's status says while it runs.
    pub fn activity(&self) -> String {
        let name = self.name();
        match self {
            Hook::Relation(RelationHook { remote_unit: Some(remote), .. }) => {
                format!("running {name} hook for {remote}")
            }
            _ => format!("running {name} hook"),
        }
    }
}
