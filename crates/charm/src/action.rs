//! An action as a value: what it is asked, what it answers, and how it says no.

use crate::tools::ToolError;
use std::error::Error;

/// What a finished action shows, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActionResults(Vec<(String, String)>);

impl ActionResults {
    /// Adds one value. Keys are lower case words joined by hyphens; a dot nests.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.0.push((key.to_owned(), value.into()));
        self
    }

    /// Returns the values in order.
    pub fn entries(&self) -> &[(String, String)] {
        &self.0
    }
}

/// Why an action did not do what it was asked.
#[derive(Debug)]
pub enum ActionFailure {
    /// The request cannot be met, and the text says why. Shown to the operator as the action's message.
    Refused(String),
    /// It was done, and came out badly: what there is to show, and what to say about it.
    Failed(ActionResults, String),
    /// The machine or Juju failed.
    Broken(Box<dyn Error>),
}

impl From<ToolError> for ActionFailure {
    fn from(error: ToolError) -> Self {
        Self::broken(error)
    }
}

impl ActionFailure {
    /// A request that cannot be met.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::Refused(reason.into())
    }

    /// A request that was met, with a result that is a failure.
    pub fn failed(results: ActionResults, reason: impl Into<String>) -> Self {
        Self::Failed(results, reason.into())
    }

    /// A failure below the action.
    pub fn broken(error: impl Error + 'static) -> Self {
        Self::Broken(Box::new(error))
    }
}
