//! Tools about the application as a whole: its version, and its status, which only the leader may set.

use super::{Refusal, ToolError, Tools};
use crate::status::Status;
use serde::Deserialize;

impl Tools {
    /// Tells Juju which version of the workload runs. It takes effect at once and cannot be read back.
    pub fn application_version_set(&self, version: &str) -> Result<(), ToolError> {
        self.tell("application-version-set", &["--", version])
    }

    /// Reads the status of the application. None on a unit that does not lead, and for a status that no charm can set.
    pub fn status_get_application(&self) -> Result<Option<Status>, ToolError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        struct Answer {
            application_status: Inner,
        }
        #[derive(Deserialize)]
        struct Inner {
            status: String,
            #[serde(default)]
            message: String,
        }
        match self.ask::<Answer>("status-get", &["--include-data", "--application"]) {
            Ok(answer) => Ok(Status::from_words(&answer.application_status.status, &answer.application_status.message)),
            Err(error) if error.refusal() == Some(Refusal::NotLeader) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the status of the application, at once and whatever becomes of the hook. False on a unit that does not lead.
    pub fn status_set_application(&self, status: &Status) -> Result<bool, ToolError> {
        match self.tell("status-set", &["--application", "--", status.word(), status.message()]) {
            Ok(()) => Ok(true),
            Err(error) if error.refusal() == Some(Refusal::NotLeader) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
