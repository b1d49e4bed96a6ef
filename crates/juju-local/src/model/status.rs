//! Status words, what a unit shows of its own, and how the worst of several is found.

use serde::{Deserialize, Serialize};

use super::{Hook, Model, Unit};
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

impl Model {
    /// What a unit shows: what the charm said, unless its agent is lost or a failed hook hides it.
    pub fn workload_status(&self, unit: &Unit) -> StatusInfo {
        if let Some(since) = self.lost_since(&unit.machine) {
            let message = format!("agent lost, see 'juju show-status-log {}'", unit.name);
            return StatusInfo { current: Status::Unknown, message, since };
        }
        let Some(failure) = unit.uniter.failure.as_ref().filter(|_| unit.uniter.running.is_none()) else {
            return unit.workload.clone();
        };
        let mut message = format!("hook failed: \"{}\"", failure.hook.name());
        if let Hook::Relation(hook) = &failure.hook
            && let Some(relation) = self.relations.get(&hook.relation)
            && let Some(other) = relation.other_side(unit.name.application())
        {
            message = format!("{message} for {}", other.label());
        }
        StatusInfo { current: Status::Error, message, since: unit.agent.since }
    }

    /// Set by the leader, or else the worst of the units; of several as bad the one with the lowest number.
    pub fn application_status(&self, name: &str) -> StatusInfo {
        if let Some(status) = self.applications.get(name).and_then(|application| application.status.clone()) {
            return status;
        }
        let worst = self
            .units_of(name)
            .map(|unit| (unit.name.number(), self.workload_status(unit)))
            .min_by_key(|(number, status)| (status.current.severity(), *number));
        worst.map_or_else(|| StatusInfo::new(Status::Unknown, ""), |(_, status)| status)
    }
}
