//! `action-*`: the parameters of an action and its answer.

use super::{ToolError, Tools};
use serde::de::DeserializeOwned;

impl Tools {
    /// Reads the parameters of the running action, defaults filled in.
    pub fn action_get<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        self.ask("action-get", &[])
    }

    /// Adds values to the action's result. A dot in a key makes an object in an object.
    pub fn action_set(&self, results: &[(String, String)]) -> Result<(), ToolError> {
        let pairs: Vec<String> = results.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut arguments = vec!["--"];
        arguments.extend(pairs.iter().map(String::as_str));
        self.tell("action-set", &arguments)
    }

    /// Marks the action as failed, for a reason that the operator reads. The process must still exit with 0, or Juju
    /// replaces the reason by `exit status N`.
    pub fn action_fail(&self, reason: &str) -> Result<(), ToolError> {
        self.tell("action-fail", &["--", reason])
    }

    /// Shows progress to an operator who watches the action.
    pub fn action_log(&self, message: &str) -> Result<(), ToolError> {
        self.tell("action-log", &["--", message])
    }
}
