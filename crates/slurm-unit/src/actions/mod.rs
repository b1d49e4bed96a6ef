//! What actions of several charms have in common: how a request is read, how a refusal is worded, and the requests
//! about nodes and their jobs.

mod jobs;

pub use jobs::{Jobs, await_no_jobs, destroy_jobs, duration, jobs_on, names};

use charm::text::shown;
use charm::{ActionFailure, ActionResults};
use slurm_conf::HostList;
use slurm_ops::HostWriter;
use slurm_ops::scontrol::{self, NodeRecord, ScontrolError};
use std::collections::BTreeSet;

/// An action without parameters.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Longer than any list of nodes that an operator would write.
const LONGEST_LIST: usize = 16 * 1024;
/// The longest reason that Slurm's tables show in a useful way.
const LONGEST_REASON: usize = 256;

/// Nodes as an operator names them: a host list, and Slurm's function `feature{…}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeChoice {
    list: HostList,
    features: Vec<String>,
}

impl NodeChoice {
    /// Reads a parameter. An empty one is none.
    pub fn read(parameter: &str, text: &str) -> Result<Option<Self>, ActionFailure> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let choice = Some(text).filter(|text| text.len() <= LONGEST_LIST).and_then(Self::parse);
        choice.map(Some).ok_or_else(|| {
            let expected = "expected names as in `compute-0`, `compute-[0-3],gpu-1` or `feature{compute}`";
            ActionFailure::refused(format!("parameter `{parameter}`: `{}`: {expected}", shown(text)))
        })
    }

    /// Reads a parameter that has to name some.
    pub fn needed(parameter: &str, text: &str) -> Result<Self, ActionFailure> {
        Self::read(parameter, text)?.ok_or_else(|| {
            let expected = "expected names as in `compute-0` or `compute-[0-3]`";
            ActionFailure::refused(format!("parameter `{parameter}`: {expected}"))
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let (mut names, mut features) = (Vec::new(), Vec::new());
        let mut rest = text;
        while let Some(at) = rest.find("feature{") {
            let (before, function) = rest.split_at(at);
            let (feature, after) = function["feature{".len()..].split_once('}')?;
            let plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
            if feature.is_empty() || !feature.chars().all(plain) || !(after.is_empty() || after.starts_with(',')) {
                return None;
            }
            names.extend(Some(before.strip_suffix(',').unwrap_or(before)).filter(|before| !before.is_empty()));
            features.push(feature.to_owned());
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        names.extend(Some(rest).filter(|rest| !rest.is_empty()));
        let list = if names.is_empty() { HostList::default() } else { HostList::of_nodes(&names.join(",")).ok()? };
        Some(Self { list, features })
    }

    /// Returns the chosen ones among all nodes. Err: what of it names no node.
    pub fn of(&self, records: &[NodeRecord]) -> Result<HostList, String> {
        const NAMED: usize = 10;
        let known: BTreeSet<&str> = records.iter().map(|record| record.name.as_str()).collect();
        let unknown: Vec<String> =
            self.list.expand().filter(|name| !known.contains(name.as_str())).take(NAMED).collect();
        if !unknown.is_empty() {
            return Err(format!("Slurm knows no node {}", unknown.join(", ")));
        }
        let mut names: Vec<String> = Vec::new();
        for feature in &self.features {
            let before = names.len();
            let has = records.iter().filter(|record| record.features.contains(feature));
            names.extend(has.map(|record| record.name.clone()));
            if names.len() == before {
                return Err(format!("no node has the feature {feature}"));
            }
        }
        names.retain(|name| !self.list.contains(name));
        names.sort();
        names.dedup();
        if names.is_empty() {
            return Ok(self.list.clone());
        }
        let listed = Some(self.list.to_string()).filter(|list| !list.is_empty());
        let all = listed.into_iter().chain(names).collect::<Vec<_>>().join(",");
        all.parse().map_err(|_| "these are more nodes than a list can name".to_owned())
    }
}

impl std::fmt::Display for NodeChoice {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let listed = Some(self.list.to_string()).filter(|list| !list.is_empty());
        let features = self.features.iter().map(|feature| format!("feature{{{feature}}}"));
        formatter.write_str(&listed.into_iter().chain(features).collect::<Vec<_>>().join(","))
    }
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

    fn records(nodes: &[(&str, &str)]) -> Vec<NodeRecord> {
        let record = |(name, feature): &(&str, &str)| {
            serde_json::from_value(serde_json::json!({
                "name": name, "state": ["IDLE"], "reason": "", "hostname": "h", "partitions": [], "features": [feature],
                "real_memory": 1, "cpus": 1,
            }))
        };
        nodes.iter().map(|node| record(node).unwrap()).collect()
    }

    fn chosen(text: &str) -> Result<String, String> {
        let nodes = records(&[("compute-0", "compute"), ("compute-1", "compute"), ("gpu-0", "gpu")]);
        NodeChoice::needed("nodes", text).unwrap().of(&nodes).map(|list| list.to_string())
    }

    #[test]
    fn nodes_are_named_in_slurms_notation() {
        assert_eq!(chosen(" compute-[0-1] ").unwrap(), "compute-[0-1]");
        assert_eq!(chosen("feature{compute}").unwrap(), "compute-0,compute-1");
        assert_eq!(chosen("gpu-0,feature{compute}").unwrap(), "gpu-0,compute-0,compute-1");
        assert_eq!(chosen("feature{gpu},compute-0,feature{compute}").unwrap(), "compute-0,compute-1,gpu-0");
        assert_eq!(NodeChoice::read("nodes", "").unwrap(), None);
    }

    #[test]
    fn what_names_no_node_is_refused_by_name() {
        assert_eq!(chosen("compute-[1-2]").unwrap_err(), "Slurm knows no node compute-2");
        assert_eq!(chosen("feature{big}").unwrap_err(), "no node has the feature big");
    }

    #[test]
    fn a_list_that_names_no_node_is_refused_by_the_parameter() {
        let expected = "parameter `nodes`: expected names as in `compute-0` or `compute-[0-3]`";
        assert_eq!(text(NodeChoice::needed("nodes", " ").unwrap_err()), expected);
        let many = "n,".repeat(10_000);
        for list in ["a\nb", "compute-[0", "a b", "feature{", "feature{}", "feature{a b}", "feature{a}b", &many] {
            let refusal = text(NodeChoice::read("nodes", list).unwrap_err());
            assert!(refusal.starts_with("parameter `nodes`: `"), "{list}");
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
