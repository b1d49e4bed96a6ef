//! `node-config`: what the operator wants of this node, and `set-node-config`, which says the same to scripts of the Python charms.
//!
//! The request is checked as a whole, by our own tables and by the Slurm on this machine, before anything is written. Then it is kept,
//! and the usual rounds bring the node there, now or when its jobs have ended.

use crate::Slurmd;
use crate::apply::{remember, wish_text};
use crate::error::Error;
use crate::names;
use crate::observe::{Observed, Registration};
use crate::{options, plan, status};
use charm::{ActionFailure, ActionResults, Reconciler};
use slurm_conf::Node;
use slurm_ops::files;
use slurm_ops::scontrol::{self, Candidate};

/// Keys of a node that follow from the unit, or are the state of the node rather than its description.
const OWNED: [&str; 6] = ["NodeName", "NodeAddr", "NodeHostname", "State", "Reason", "Port"];

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(default)]
    parameters: String,
    #[serde(default)]
    reset: bool,
}

/// Why a request is refused. The Python charm has words of its own for each.
#[derive(Debug)]
enum Refusal {
    /// It sets what is not the operator's.
    Owned(&'static str),
    /// It makes no sense to us, to Slurm or to this machine.
    Invalid(String),
}

pub(super) fn node_config(charm: &mut Slurmd) -> Result<ActionResults, ActionFailure> {
    let request: Request = charm.tools.action_get()?;
    if request.parameters.trim().is_empty() && !request.reset {
        let seen = charm.observe().map_err(ActionFailure::broken)?;
        return Ok(shown(&seen));
    }
    let found = excerpt(&request.parameters);
    match take(charm, &request)? {
        Ok(seen) => Ok(shown(&seen)),
        Err(Refusal::Owned(key)) => Err(ActionFailure::refused(format!(
            "parameters `{found}`: {key} is set by the charm, and not accepted here"
        ))),
        Err(Refusal::Invalid(problem)) => Err(ActionFailure::refused(format!("parameters `{found}`: {problem}"))),
    }
}

pub(super) fn set_node_config(charm: &mut Slurmd) -> Result<ActionResults, ActionFailure> {
    let request: Request = charm.tools.action_get()?;
    let found = excerpt(&request.parameters);
    let refusal = match take(charm, &request)? {
        Ok(seen) => return Ok(shown(&seen).with("accepted", "True")),
        Err(Refusal::Owned(_)) => format!(
            "Cannot apply node configuration parameters '{found}'. Reason: Overrides charm-managed configuration parameter."
        ),
        Err(Refusal::Invalid(problem)) => {
            format!("Validation for node configuration parameters '{found}' failed. Reason:\n{problem}")
        }
    };
    let answer = [("accepted".to_owned(), "False".to_owned())];
    charm.tools.action_set(&answer).map_err(ActionFailure::broken)?;
    Err(ActionFailure::refused(refusal))
}

/// Checks a request, keeps it, and brings the node as far as it can be brought now.
fn take(charm: &mut Slurmd, request: &Request) -> Result<Result<Observed, Refusal>, ActionFailure> {
    let seen = charm.observe().map_err(ActionFailure::broken)?;
    let wish = match check(charm, &seen, request)? {
        Ok(wish) => wish,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if request.reset {
        // What the machine had once is not asked for any more either.
        files::remove(&charm.machine, names::DETECTED_FILE).map_err(ActionFailure::broken)?;
    }
    files::remove(&charm.machine, names::REFUSED_CONFIG_FILE).map_err(ActionFailure::broken)?;
    remember(&charm.machine, names::NODE_CONFIG_FILE, &wish_text(&wish)).map_err(ActionFailure::broken)?;
    charm.look_again()?;
    let seen = charm.observe().map_err(ActionFailure::broken)?;
    Ok(match &seen.machine.refused {
        Some(refused) => {
            Err(Refusal::Invalid(format!("{}; the node is as it was", status::refusal(refused, &seen.machine.proven))))
        }
        None => Ok(seen),
    })
}

fn check(charm: &Slurmd, seen: &Observed, request: &Request) -> Result<Result<Node, Refusal>, ActionFailure> {
    let invalid = |problem: String| Ok(Err(Refusal::Invalid(problem)));
    let words = request.parameters.split_whitespace();
    let owned = words
        .filter_map(|word| word.split_once('='))
        .find_map(|(key, _)| OWNED.iter().find(|owned| owned.eq_ignore_ascii_case(key.trim())));
    if let Some(key) = owned {
        return Ok(Err(Refusal::Owned(key)));
    }
    let asked = match Node::from_config(&request.parameters) {
        Ok(asked) => asked,
        Err(error) => return invalid(charm::log::chain(&error)),
    };
    let mut wish = match &seen.machine.wish {
        Ok(wish) if !request.reset => wish.clone(),
        _ => Node::new(),
    };
    wish.merge(&asked);
    let Some(detected) = &seen.machine.detected else {
        return invalid("slurmd is not installed yet, so nobody can judge it".to_owned());
    };
    let memory = |node: &Node| node.get("RealMemory").and_then(|memory| memory.parse::<u64>().ok());
    if let (Some(asked), Some(there)) = (memory(&asked), memory(detected))
        && asked > there
    {
        return invalid(format!(
            "RealMemory={asked}: this machine has {there} MiB, and Slurm refuses a node with less than it says"
        ));
    }
    let mut candidate = seen.clone();
    candidate.machine.wish = Ok(wish.clone());
    let described = plan::described(&candidate).expect("invariant: detected and wished for");
    match scontrol::judge_node(&charm.machine, &described).map_err(|error| ActionFailure::broken(Error::from(error)))? {
        Candidate::Readable => Ok(Ok(wish)),
        Candidate::Refused { reason } => invalid(options::objection(&reason, asked.unknown())),
        Candidate::Unknown { why } => invalid(format!("the Slurm on this machine could not be asked: {why}")),
    }
}

/// What is, what was asked for, and what is still to come.
fn shown(seen: &Observed) -> ActionResults {
    let written = seen.machine.written.as_ref().map(|launch| launch.conf.render()).unwrap_or_default();
    let wish = seen.machine.wish.as_ref().map(Node::render).unwrap_or_default();
    let results = ActionResults::default().with("node-parameters", written).with("user-supplied-node-parameters", wish);
    let registered = matches!(seen.machine.registration, Registration::Present(_));
    match (status::pending(seen), plan::described(seen)) {
        (Some(pending), Some(described)) => results.with("pending", pending).with("wanted", described.render()),
        (None, _) if registered => results.with("pending", ""),
        _ => results.with("pending", "the node is not registered"),
    }
}

fn excerpt(text: &str) -> String {
    text.escape_debug().take(200).collect()
}
