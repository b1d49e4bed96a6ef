//! Requests of the operator to a controller.

use crate::names;
use charm::{Action, ActionFailure, ActionName, ActionResults, Tools};
use slurm_ops::{CommandError, Machine};

/// Answers an action.
pub fn act(action: &ActionName, tools: &Tools, machine: &Machine) -> Result<ActionResults, ActionFailure> {
    match action.as_str() {
        Resume::NAME => {
            let request: Resume = tools.action_get()?;
            resume(&request, machine)
        }
        other => Err(ActionFailure::refused(format!("this charm has no action {other}"))),
    }
}

/// Puts nodes back into service.
#[derive(Debug, serde::Deserialize)]
struct Resume {
    /// One node, or several in Slurm's notation.
    nodename: String,
}

impl Action for Resume {
    const NAME: &'static str = names::ACTION_RESUME;
}

fn resume(request: &Resume, machine: &Machine) -> Result<ActionResults, ActionFailure> {
    let nodes = request.nodename.trim();
    if !is_host_list(nodes) {
        let expected = "expected names as in `compute-0` or `compute-[0-3],gpu-1`";
        return Err(ActionFailure::refused(format!("nodename `{}`: {expected}", nodes.escape_debug())));
    }
    let update = machine.command("scontrol").args(["update", &format!("nodename={nodes}"), "state=resume"]);
    match update.run() {
        Ok(_) => {}
        // What slurmctld says about a node that is in service already.
        Err(CommandError::Failed { stderr, .. }) if stderr.contains("Invalid node state specified") => {}
        Err(CommandError::Failed { stderr, .. }) => {
            return Err(ActionFailure::refused(format!("Error resuming {nodes}: {}", stderr.trim())));
        }
        Err(error) => return Err(ActionFailure::broken(error)),
    }
    Ok(ActionResults::default().with("status", "resuming").with("nodes", nodes))
}

/// Host lists are words with ranges in brackets. Anything else could mean more to scontrol than nodes.
fn is_host_list(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.,[]".contains(&byte);
    !text.is_empty()
        && text.bytes().all(plain)
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_lists_pass_and_anything_else_does_not() {
        for text in ["compute-0", "compute-[0-3],gpu-1", "n1,n2"] {
            assert!(is_host_list(text), "{text}");
        }
        for text in ["", "compute-0 state=down", "a=b", "-x", "compute-0\nstate=down", "a'b", "[0-3]"] {
            assert!(!is_host_list(text), "{text}");
        }
    }
}
