//! Operations and tasks: actions and `juju exec`, from the request to the result.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::Moment;
use crate::names::UnitName;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    Pending,
    Running,
    Completed,
    Failed,
    Error,
    Cancelled,
    /// Its process was told to end.
    Aborting,
    Aborted,
}

impl TaskState {
    pub fn name(self) -> &'static str {
        match self {
            TaskState::Pending => "pending",
            TaskState::Running => "running",
            TaskState::Completed => "completed",
            TaskState::Failed => "failed",
            TaskState::Error => "error",
            TaskState::Cancelled => "cancelled",
            TaskState::Aborting => "aborting",
            TaskState::Aborted => "aborted",
        }
    }

    pub fn is_over(self) -> bool {
        !matches!(self, TaskState::Pending | TaskState::Running | TaskState::Aborting)
    }

    /// The state after the process ended in `end`: who was told to end is aborted, however it took it.
    pub fn ended(self, end: TaskState) -> TaskState {
        if self == TaskState::Aborting { TaskState::Aborted } else { end }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Receiver {
    Unit(UnitName),
    Machine(String),
}

impl Receiver {
    pub fn label(&self) -> String {
        match self {
            Receiver::Unit(unit) => unit.to_string(),
            Receiver::Machine(machine) => machine.clone(),
        }
    }

    pub fn tag(&self) -> String {
        match self {
            Receiver::Unit(unit) => unit.tag(),
            Receiver::Machine(machine) => format!("machine-{machine}"),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Operation {
    pub id: u64,
    /// Name of the action, or `juju-exec`.
    pub action: String,
    pub parameters: Value,
    pub summary: String,
    pub enqueued: Moment,
    pub tasks: Vec<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    pub id: u64,
    pub receiver: Receiver,
    pub action: String,
    /// Parameters as asked for; defaults are filled in when it runs.
    pub parameters: Value,
    pub state: TaskState,
    pub message: String,
    pub log: Vec<(Moment, String)>,
    /// Set by `action-set`, with `return-code`, `stdout` and `stderr` once it ran.
    pub results: Option<Map<String, Value>>,
    pub enqueued: Moment,
    pub started: Option<Moment>,
    pub completed: Option<Moment>,
}

pub const EXEC: &str = "juju-exec";

impl Task {
    pub fn is_exec(&self) -> bool {
        self.action == EXEC
    }
}
