//! Status words, and how the worst of several is found.

use serde::{Deserialize, Serialize};

use crate::clock::Moment;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Error,
    Blocked,
    Maintenance,
    Waiting,
    Active,
    Terminated,
    Unknown,
    Allocating,
    Executing,
    Idle,
    Lost,
    Failed,
    Pending,
    Started,
    Running,
    Stopped,
    Down,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Status::Error => "error",
            Status::Blocked => "blocked",
            Status::Maintenance => "maintenance",
            Status::Waiting => "waiting",
            Status::Active => "active",
            Status::Terminated => "terminated",
            Status::Unknown => "unknown",
            Status::Allocating => "allocating",
            Status::Executing => "executing",
            Status::Idle => "idle",
            Status::Lost => "lost",
            Status::Failed => "failed",
            Status::Pending => "pending",
            Status::Started => "started",
            Status::Running => "running",
            Status::Stopped => "stopped",
            Status::Down => "down",
        }
    }

    /// What a charm may set.
    pub fn settable(name: &str) -> Option<Self> {
        Some(match name {
            "maintenance" => Status::Maintenance,
            "blocked" => Status::Blocked,
            "waiting" => Status::Waiting,
            "active" => Status::Active,
            _ => return None,
        })
    }

    /// Smaller is worse; the order in which an application takes over the status of its units.
    pub fn severity(self) -> u8 {
        match self {
            Status::Error => 0,
            Status::Blocked => 1,
            Status::Maintenance => 2,
            Status::Waiting => 3,
            Status::Active => 4,
            Status::Terminated => 5,
            _ => 6,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusInfo {
    pub current: Status,
    pub message: String,
    pub since: Moment,
}

impl StatusInfo {
    pub fn new(current: Status, message: impl Into<String>) -> Self {
        StatusInfo { current, message: message.into(), since: Moment::now() }
    }
}
