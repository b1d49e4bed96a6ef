//! Hook tools, one typed function each, in files grouped by noun. Every one goes through one function, and the only
//! place that starts a process is [`process`].
//!
//! What Juju shows the same to a hook from its start to its end is asked once and remembered. What Juju would only
//! commit after the hook (bags, state, ports, grants of secrets) is collected, seen by later reads, and sent by
//! [`Tools::send`], each only if it differs from what is there. A dispatch that fails sends nothing of it, also under
//! `juju-exec`, where Juju itself would commit. What acts at once in Juju (status, version, log, reboot) is said at
//! once.

pub mod action;
pub mod application;
pub mod config;
pub mod error;
pub mod goal_state;
pub mod port;
pub mod process;
pub mod relation;
pub mod secret;
mod session;
pub mod unit;

pub use config::Config;
pub use error::{Refusal, ToolError};
pub use goal_state::GoalState;
pub use port::Port;
pub use process::{Call, Output, ProcessRunner, ToolRunner};
pub use relation::Remote;
pub use secret::{SecretAnswer, SecretContent, SecretInfo, Unreadable};

use crate::name::UnitName;
use serde::de::DeserializeOwned;
use session::Session;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Values of a bag, ordered by key.
pub type Databag = std::collections::BTreeMap<String, String>;

/// Access to Juju from inside a hook, in two halves: [`Juju`] to ask, [`JujuWriter`] to change.
///
/// Clones share what was read and what is to be sent.
#[derive(Clone)]
pub struct Tools {
    juju: Juju,
    writer: JujuWriter,
}

/// Juju, to ask. Nothing can be changed through it.
///
/// ```compile_fail
/// fn look(juju: &charm::Juju) {
///     juju.open_port(charm::tools::Port::tcp(80));
/// }
/// ```
#[derive(Clone)]
pub struct Juju {
    link: Link,
}

/// Juju, to change. Nothing can be asked through it.
///
/// ```compile_fail
/// fn change(juju: &charm::JujuWriter) {
///     juju.config_get();
/// }
/// ```
#[derive(Clone)]
pub struct JujuWriter {
    link: Link,
}

/// The way to the hook tools, and the memory of one dispatch.
#[derive(Clone)]
struct Link {
    runner: Arc<dyn ToolRunner>,
    unit: UnitName,
    session: Arc<Mutex<Session>>,
}

impl Tools {
    /// Returns the tools of a unit that are found on `PATH`, where the agent puts them.
    pub fn from_path(unit: &UnitName) -> Self {
        Self::with_runner(unit, Arc::new(ProcessRunner))
    }

    /// Returns the tools of a unit that are served by `runner`.
    pub fn with_runner(unit: &UnitName, runner: Arc<dyn ToolRunner>) -> Self {
        let link = Link { runner, unit: unit.clone(), session: Arc::default() };
        Self { juju: Juju { link: link.clone() }, writer: JujuWriter { link } }
    }

    /// Returns the half that asks.
    pub fn juju(&self) -> &Juju {
        &self.juju
    }

    /// Forgets the answers that Juju does not keep as they were at the start of a hook: who exists, and who leads.
    pub(crate) fn forget_the_living(&self) {
        let mut session = self.juju.link.session();
        session.forget("goal-state");
        session.leader = None;
    }

    /// Returns the half that changes.
    pub fn writer(&self) -> &JujuWriter {
        &self.writer
    }
}

/// Whoever has both halves asks without naming the half.
impl std::ops::Deref for Tools {
    type Target = Juju;

    fn deref(&self) -> &Juju {
        &self.juju
    }
}

impl JujuWriter {
    /// What is to be written is compared with what is there.
    fn juju(&self) -> Juju {
        Juju { link: self.link.clone() }
    }
}

impl Link {
    fn session(&self) -> MutexGuard<'_, Session> {
        // A panic while it was held is being reported; nothing is sent after that.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
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
        let all = as_json(arguments);
        let stdout = self.run(tool, &all, None)?;
        decode(tool, &all, &stdout)
    }

    /// Like [`Self::ask`], for what Juju keeps as it was at the start of the hook: the same question starts one
    /// process, also where two looks have it at once.
    fn ask_once<T: DeserializeOwned>(&self, tool: &str, arguments: &[&str]) -> Result<T, ToolError> {
        let all = as_json(arguments);
        let line = Call { tool, arguments: &all, stdin: None }.command_line();
        let known = self.session().answers.entry(line).or_default().clone();
        // A panic while it was held left it empty.
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stdout) = &*known {
            return decode(tool, &all, stdout);
        }
        let stdout = self.run(tool, &all, None)?;
        let answer = decode(tool, &all, &stdout)?;
        *known = Some(stdout);
        Ok(answer)
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

fn as_json<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["--format=json"];
    all.extend_from_slice(arguments);
    all
}

fn decode<T: DeserializeOwned>(tool: &str, arguments: &[&str], stdout: &[u8]) -> Result<T, ToolError> {
    serde_json::from_slice(stdout)
        .map_err(|source| ToolError::Decode { command: Call { tool, arguments, stdin: None }.command_line(), source })
}

#[cfg(test)]
mod tests;
