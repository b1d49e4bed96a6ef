//! Tools about the unit itself: `is-leader`, `status-get`, `status-set`, `application-version-set`, `juju-log`.

use super::{ToolError, Tools};
use crate::status::Status;
use serde::Deserialize;

/// The levels that `juju-log` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Debug,
    Info,
    Warning,
    Error,
}

impl LogLevel {
    fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        }
    }
}

impl Tools {
    /// Asks whether this unit leads. True holds for at least half a minute more.
    pub fn is_leader(&self) -> Result<bool, ToolError> {
        self.ask("is-leader", &[])
    }

    /// Reads the unit's workload status. None if it is one that no charm can set, such as `unknown`.
    pub fn status_get(&self) -> Result<Option<Status>, ToolError> {
        #[derive(Deserialize)]
        struct Answer {
            status: String,
            #[serde(default)]
            message: String,
        }
        let answer: Answer = self.ask("status-get", &["--include-data"])?;
        Ok(Status::from_words(&answer.status, &answer.message))
    }

    /// Sets the unit's workload status, at once and whatever becomes of the hook.
    pub fn status_set(&self, status: &Status) -> Result<(), ToolError> {
        self.tell("status-set", &["--", status.word(), status.message()])
    }

    /// Tells Juju which version of the workload runs. It takes effect at once and cannot be read back.
    pub fn application_version_set(&self, version: &str) -> Result<(), ToolError> {
        self.tell("application-version-set", &["--", version])
    }

    /// Writes to the model's log. Charms use `tracing`, which ends here.
    pub fn juju_log(&self, level: LogLevel, message: &str) -> Result<(), ToolError> {
        self.run_silently("juju-log", &["-l", level.as_str(), "--", message], None).map(drop)
    }
}
