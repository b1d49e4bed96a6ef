//! Tools about the unit itself: `is-leader`, `status-get`, `status-set`, `juju-log`.

use super::session::LEADERSHIP_TRUSTED;
use super::{Juju, JujuWriter, ToolError};
use crate::status::Status;
use serde::Deserialize;
use std::time::Instant;

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

impl Juju {
    /// Asks whether this unit leads. True holds for at least half a minute more.
    pub fn is_leader(&self) -> Result<bool, ToolError> {
        // Juju keeps a no for the rest of the hook; a yes runs out.
        let known = self.link.session().leader;
        if let Some((leader, asked)) = known
            && (!leader || asked.elapsed() < LEADERSHIP_TRUSTED)
        {
            return Ok(leader);
        }
        let asked = Instant::now();
        let leader = self.link.ask("is-leader", &[])?;
        self.link.session().leader = Some((leader, asked));
        Ok(leader)
    }

    /// Reads the unit's workload status. None if it is one that no charm can set, such as `unknown`.
    pub fn status_get(&self) -> Result<Option<Status>, ToolError> {
        #[derive(Deserialize)]
        struct Answer {
            status: String,
            #[serde(default)]
            message: String,
        }
        let answer: Answer = self.link.ask("status-get", &["--include-data"])?;
        Ok(Status::from_words(&answer.status, &answer.message))
    }
}

impl JujuWriter {
    /// Sets the unit's workload status, at once and whatever becomes of the hook.
    pub fn status_set(&self, status: &Status) -> Result<(), ToolError> {
        self.link.tell("status-set", &["--", status.word(), status.message()])
    }

    /// Writes to the model's log. Charms use `tracing`, which ends here.
    pub fn juju_log(&self, level: LogLevel, message: &str) -> Result<(), ToolError> {
        self.link.run_silently("juju-log", &["-l", level.as_str(), "--", message], None).map(drop)
    }
}
