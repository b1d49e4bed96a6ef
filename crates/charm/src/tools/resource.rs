//! `resource-get`: files that come with the charm but not in it.

use super::{ToolError, Tools};
use std::path::PathBuf;

impl Tools {
    /// Fetches a resource if need be and returns where it is. None if nobody has given one, or it cannot be had now.
    pub fn resource_get(&self, name: &str) -> Result<Option<PathBuf>, ToolError> {
        match self.ask_text("resource-get", &[name]) {
            Ok(path) => Ok(Some(path).filter(|path| !path.is_empty()).map(PathBuf::from)),
            Err(ToolError::Failed { stderr, .. }) if stderr.contains("could not download resource") => Ok(None),
            Err(error) => Err(error),
        }
    }
}
