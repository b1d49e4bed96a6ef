//! Tools about the application as a whole: its version.

use super::{JujuWriter, ToolError};

impl JujuWriter {
    /// Tells Juju which version of the workload runs. It takes effect at once and cannot be read back.
    pub fn application_version_set(&self, version: &str) -> Result<(), ToolError> {
        self.link.tell("application-version-set", &["--", version])
    }
}
