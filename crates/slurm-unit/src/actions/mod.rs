//! What actions of several charms have in common: how a request is read, how a refusal is worded, and the requests
//! about nodes and their jobs.

mod jobs;

pub use jobs::{Jobs, await_no_jobs, destroy_jobs, jobs_on, names};

use charm::text::shown;
use charm::{ActionFailure, ActionResults};
use slurm_conf::HostList;
use slurm_ops::HostWriter;
use slurm_ops::scontrol::{self, ScontrolError};

/// An action without parameters.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Longer than any list of nodes that an operator would write.
const LONGEST_LIST: usize = 16 * 1024;
/// The longest reason that Slurm's tables show in a useful way.
const LONGEST_REASON: usize = 256;

/// Reads a list of nodes in Slurm's notation. An empty one is none.
pub fn host_list(parameter: &str, text: &str) -> Result<Option<HostList>, ActionFailure> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let list = Some(text).filter(|text| text.len() <= LONGEST_LIST).and_then(|text| HostList::of_nodes(text).ok());
    list.map(Some).ok_or_else(|| {
        let expected = "expected names as in `compute-0` or `compute-[0-3],gpu-1`";
        ActionFailure::refused(format!("parameter `{parameter}`: `{}`: {expected}", shown(text)))
    })
}

/// Reads a list of nodes that has to name some.
pub fn needed_host_list(parameter: &str, text: &str) -> Result<HostList, ActionFailure> {
    host_list(parameter, text)?.ok_or_else(|| {
        let expected = "expected names as in `compute-0` or `compute-[0-3]`";
        ActionFailure::refused(format!("parameter `{parameter}`: {expected}"))
    })
}

/// Checks a reason, which goes into Slurm's tables: one line of printable text.
pub fn reason(text: &str) -> Result<&str, ActionFailure> {
    let text = text.trim();
    let problem = if text.chars().any(char::is_control) {
        "expected one line of printable text".to_owned()
    } else if text.chars().count() > LONGEST_REASON {
        format!("expected at most {LONGEST_REASON} characters")
    } else {
        return Ok(text);
    };
    Err(ActionFailure::refused(format!("parameter `reason`: `{}`: {problem}", shown(text))))
}

/// Checks a reason that Slurm insists on.
pub fn needed_reason(text: &str) -> Result<&str, ActionFailure> {
    let text = reason(text)?;
    if text.is_empty() {
        return Err(ActionFailure::refused("parameter `reason`: Slurm drains no node without a reason"));
    }
    Ok(text)
}

/// Words for what Slurm did not do. That slurmctld does not answer is an answer, too: the operator can look why.
pub fn refused(attempt: &str, error: &ScontrolError) -> ActionFailure {
    match error {
        ScontrolError::Refused { reason, .. } => ActionFailure::refused(format!("{attempt}: {reason}")),
        ScontrolError::Unreachable { why } => {
            ActionFailure::refused(format!("{attempt}: slurmctld does not answer: {why}"))
        }
    }
}

/// Puts nodes back into service. A node that is in service already is what was wanted.
pub fn resume(writer: &HostWriter, nodes: &HostList) -> Result<ActionResults, ActionFailure> {
    scontrol::resume_nodes(writer, nodes).map_err(|error| refused(&format!("Error resuming {nodes}"), &error))?;
    Ok(ActionResults::default().with("status", "resuming").with("nodes", nodes.to_string()))
}

/// Keeps new jobs from nodes.
pub fn drain(writer: &HostWriter, nodes: &HostList, reason: &str) -> Result<ActionResults, ActionFailure> {
    scontrol::drain_nodes(writer, nodes, reason)
        .map_err(|error| refused(&format!("Error draining {nodes}"), &error))?;
    Ok(ActionResults::default().with("status", "draining").with("nodes", nodes.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(failure: ActionFailure) -> String {
        match failure {
            ActionFailure::Refused(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_list_of_nodes_is_read_in_slurms_notation() {
        assert_eq!(host_list("nodes", " compute-[0-1] ").unwrap().unwrap().to_string(), "compute-[0-1]");
        assert_eq!(host_list("nodes", "").unwrap(), None);
    }

    #[test]
    fn a_list_that_names_no_node_is_refused_by_the_parameter() {
        let expected = "parameter `nodes`: expected names as in `compute-0` or `compute-[0-3]`";
        assert_eq!(text(needed_host_list("nodes", " ").unwrap_err()), expected);
        for list in ["a\nb", "compute-[0", "a b", &"n,".repeat(10_000)] {
            assert!(text(host_list("nodes", list).unwrap_err()).starts_with("parameter `nodes`: `"), "{list}");
        }
    }

    #[test]
    fn a_reason_is_one_printable_line() {
        assert_eq!(reason(" disk ").unwrap(), "disk");
        assert!(reason("a\nState=UP").is_err());
        assert!(reason(&"x".repeat(LONGEST_REASON + 1)).is_err());
    }

    #[test]
    fn a_drain_needs_a_reason() {
        assert!(needed_reason(" ").is_err());
    }
}
