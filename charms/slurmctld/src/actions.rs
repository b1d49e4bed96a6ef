//! Requests of the operator to a controller.

use crate::names;
use charm::{Action, ActionFailure, ActionName, ActionResults, Tools};
use slurm_conf::HostList;
use slurm_ops::scontrol::ScontrolError;
use slurm_ops::{Machine, scontrol};

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
    let nodes = match request.nodename.trim().parse::<HostList>() {
        Ok(nodes) if !nodes.is_empty() => nodes,
        _ => {
            let expected = "expected names as in `compute-0` or `compute-[0-3],gpu-1`";
            let found: String = request.nodename.escape_debug().take(200).collect();
            return Err(ActionFailure::refused(format!("nodename `{found}`: {expected}")));
        }
    };
    match scontrol::resume_nodes(machine, &nodes) {
        // A node that is in service already is what was wanted.
        Ok(_) => Ok(ActionResults::default().with("status", "resuming").with("nodes", nodes.to_string())),
        Err(ScontrolError::Refused { reason, .. }) => {
            Err(ActionFailure::refused(format!("Error resuming {nodes}: {reason}")))
        }
        Err(error @ ScontrolError::Unreachable { .. }) => Err(ActionFailure::broken(error)),
    }
}
