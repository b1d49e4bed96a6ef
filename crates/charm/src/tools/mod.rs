//! Hook tools, one typed function each, in files grouped by noun. Every one goes through [`Tools::run`], and the only
//! place that starts a process is [`process`].
//!
//! A function here asks or says one thing; it compares nothing and decides nothing. Whether a write is needed is for a
//! plan to find out.

pub mod action;
pub mod config;
pub mod error;
pub mod goal_state;
pub mod network;
pub mod port;
pub mod process;
pub mod relation;
pub mod secret;
pub mod state;
pub mod unit;

pub use config::Config;
pub use error::{Refusal, ToolError};
pub use goal_state::GoalState;
pub use network::Network;
pub use port::Port;
pub use process::{Call, Output, ProcessRunner, ToolRunner};
pub use secret::{SecretAnswer, SecretContent, SecretInfo, Unreadable};

use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Instant;

/// Values of a bag, ordered by key.
pub type Databag = std::collections::BTreeMap<String, String>;

/// Access to Juju from inside a hook.
#[derive(Clone)]
pub struct Tools {
    runner: Arc<dyn ToolRunner>,
}

impl Tools {
    /// Returns tools that are found on `PATH`, where the agent puts them.
    pub fn from_path() -> Self {
        Self::with_runner(Arc::new(ProcessRunner))
    }

    /// Returns tools that are served by `runner`.
    pub fn with_runner(runner: Arc<dyn ToolRunner>) -> Self {
        Self { runner }
    }

    /// Runs one tool to its end and returns what it printed.
    fn run(&self, tool: &str, arguments: &[&str], stdin: Option<&[u8]>) -> Result<Vec<u8>, ToolError> {
        let started = Instant::now();
        let answer = self.run_silently(tool, arguments, stdin);
        let outcome = match &answer {
            Ok(_) => "0".to_owned(),
            Err(error) => error.exit_code().map_or_else(|| "none".to_owned(), |code| code.to_string()),
        };
        tracing::debug!(exit = outcome, milliseconds = started.elapsed().as_millis(), "{tool}");
        answer
    }

    /// Runs one tool without a log line of its own: the log's own way out.
    fn run_silently(&self, tool: &str, arguments: &[&str], stdin: Option<&[u8]>) -> Result<Vec<u8>, ToolError> {
        let call = Call { tool, arguments, stdin };
        let output =
            self.runner.run(&call).map_err(|source| ToolError::Start { command: call.command_line(), source })?;
        match output.exit_code {
            Some(0) => Ok(output.stdout),
            exit_code => Err(ToolError::Failed {
                command: call.command_line(),
                exit_code,
                stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            }),
        }
    }

    /// Runs one tool with `--format=json` and decodes its answer.
    fn ask<T: DeserializeOwned>(&self, tool: &str, arguments: &[&str]) -> Result<T, ToolError> {
        let mut all = vec!["--format=json"];
        all.extend_from_slice(arguments);
        let stdout = self.run(tool, &all, None)?;
        serde_json::from_slice(&stdout).map_err(|source| ToolError::Decode {
            command: Call { tool, arguments: &all, stdin: None }.command_line(),
            source,
        })
    }

    /// Runs one tool that answers with nothing.
    fn tell(&self, tool: &str, arguments: &[&str]) -> Result<(), ToolError> {
        self.run(tool, arguments, None).map(drop)
    }

    /// Runs one tool that reads a map of values from its standard input.
    fn tell_map(&self, tool: &str, arguments: &[&str], values: &Databag) -> Result<(), ToolError> {
        let text = serde_json::to_vec(values).expect("invariant: a map of strings has a JSON form");
        self.run(tool, arguments, Some(&text)).map(drop)
    }
}

#[cfg(test)]
mod tests;
