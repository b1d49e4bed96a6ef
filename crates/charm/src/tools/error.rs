//! Why a hook tool gave no answer, with everything needed to repeat the call by hand.

use std::io;

/// A hook tool that failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("could not start `{command}`")]
    Start {
        command: String,
        #[source]
        source: io::Error,
    },
    #[error("`{command}` {}: {stderr}", exit_text(.exit_code))]
    Failed { command: String, exit_code: Option<i32>, stderr: String },
    #[error("`{command}` answered with something unexpected")]
    Decode {
        command: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("could not prepare a private file for `{tool}`")]
    PrivateFile {
        tool: &'static str,
        #[source]
        source: io::Error,
    },
}

fn exit_text(code: &Option<i32>) -> String {
    match code {
        Some(code) => format!("exited with {code}"),
        None => "was ended by a signal".to_owned(),
    }
}

/// What Juju may say no to. Texts differ between versions, so they are known by what they have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The thing asked for is unknown to Juju, or no longer known.
    NotFound,
    /// The unit may not read or write it.
    NotAllowed,
    /// Only the leader may.
    NotLeader,
    /// The unit was removed under the running hook, so the agent has no connection any more.
    AgentGone,
}

impl ToolError {
    /// Returns the exit code, if the tool ended by itself.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Failed { exit_code, .. } => *exit_code,
            _ => None,
        }
    }

    /// Returns what Juju said no to, or none if the failure is of another kind.
    pub fn refusal(&self) -> Option<Refusal> {
        let Self::Failed { stderr, .. } = self else { return None };
        let text = stderr.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if says(&["connection is shutdown"]) {
            Some(Refusal::AgentGone)
        } else if says(&["not the leader", "cannot write relation settings", "cannot write leadership settings"]) {
            Some(Refusal::NotLeader)
        } else if says(&["permission denied", "access denied", "is not allowed to"]) {
            Some(Refusal::NotAllowed)
        } else if says(&["not found"]) {
            Some(Refusal::NotFound)
        } else {
            None
        }
    }
}

/// Turns one of these refusals into `None`.
pub(super) fn unless_refused<T>(answer: Result<T, ToolError>, with: &[Refusal]) -> Result<Option<T>, ToolError> {
    match answer {
        Err(error) if error.refusal().is_some_and(|refusal| with.contains(&refusal)) => Ok(None),
        other => other.map(Some),
    }
}
