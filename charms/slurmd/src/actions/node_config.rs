//! `node-config`: what the operator wants of this node, and `set-node-config`, which says the same to scripts of the Python charms.
//!
//! The request is checked as a whole, by our own tables and by the Slurm on this machine, before anything is written. Then it is kept,
//! and the usual rounds bring the node there, now or when its jobs have ended.

use crate::Slurmd;
use crate::apply::{RHYTHM, remember, wish_text};
use crate::error::Error;
use crate::names;
use crate::observe::{Observed, Registration};
use crate::plan::{self, Phase};
use crate::{options, status};
use charm::{ActionFailure, ActionResults, Reconciler, Wake};
use slurm_conf::Node;
use slurm_ops::scontrol::{self, Candidate};
use slurm_ops::{files, timer};

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
    charm.tools.writer().action_set(&answer).map_err(ActionFailure::broken)?;
    Err(ActionFailure::refused(refusal))
}

/// Checks a request, keeps it, and brings the node as far as it can be brought now.
fn take(charm: &mut Slurmd, request: &Request) -> Result<Result<Observed, Refusal>, ActionFailure> {
    let seen = charm.observe().map_err(ActionFailure::broken)?;
    let wish = match check(charm, &seen, request)? {
        Ok(wish) => wish,
        Err(refusal) => return Ok(Err(refusal)),
    };
    // A timer that has been waiting for something else looks once a minute by now; for this it begins anew. It is set before anything is
    // touched: whatever becomes of this action, what it began is brought to its end.
    let wake = Wake::new(&charm.ctx.unit, names::EVENT_LOOK_AGAIN);
    timer::restart(&charm.machine.writer(), &wake.name, &wake.command, &RHYTHM).map_err(ActionFailure::broken)?;
    if request.reset {
        // What the machine had once is not asked for any more either.
        files::remove(&charm.machine.writer(), names::DETECTED_FILE).map_err(ActionFailure::broken)?;
    }
    files::remove(&charm.machine.writer(), names::REFUSED_CONFIG_FILE).map_err(ActionFailure::broken)?;
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
    if let Some(key) = owned(&request.parameters) {
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
        return invalid("slurmd is not installed yet, or does not say what this machine has".to_owned());
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
    match scontrol::judge_node(&charm.machine.writer(), &described)
        .map_err(|error| ActionFailure::broken(Error::from(error)))?
    {
        Candidate::Readable => Ok(Ok(wish)),
        Candidate::Refused { reason } => invalid(options::objection(&reason, asked.unknown())),
        Candidate::Unknown { why } => invalid(format!("the Slurm on this machine could not be asked: {why}")),
    }
}

/// Returns the first key in a text that is not the operator's to set. Slurm takes blanks around `=`, and so does this; whatever else may
/// be wrong with the text, this is told first.
fn owned(text: &str) -> Option<&'static str> {
    let keys = text.match_indices('=').filter_map(|(at, _)| text[..at].split_whitespace().next_back());
    keys.flat_map(|key| OWNED.into_iter().filter(move |owned| owned.eq_ignore_ascii_case(key))).next()
}

/// Says what Slurm took no notice of, as far as it can be seen in its record.
fn ignored(seen: &Observed) -> Option<String> {
    let (Registration::Present(record), Ok(wish)) = (&seen.machine.registration, &seen.machine.wish) else {
        return None;
    };
    if plan::phase(seen) != Phase::Settled {
        return None;
    }
    let cpus = wish.get("CPUs").filter(|cpus| cpus.parse::<u64>().is_ok_and(|cpus| cpus != record.cpus));
    let cpus = cpus.map(|cpus| format!("CPUs={cpus}: Slurm takes it to have {}", record.cpus));
    let kind = |entry: &str| entry.split(':').next().unwrap_or_default().to_owned();
    let known: Vec<String> = record.gres.split(',').map(kind).collect();
    let gres = wish.get("Gres").filter(|list| list.split(',').map(kind).any(|kind| !known.contains(&kind)));
    let gres = gres.map(|list| format!("Gres={list}: not in GresTypes of slurm.conf"));
    let ignored: Vec<String> = [cpus, gres].into_iter().flatten().collect();
    (!ignored.is_empty()).then(|| ignored.join("; "))
}

/// What is, what was asked for, and what is still to come.
fn shown(seen: &Observed) -> ActionResults {
    let written = seen.machine.written.as_ref().map(|launch| launch.conf.render()).unwrap_or_default();
    let wish = seen.machine.wish.as_ref().map(Node::render).unwrap_or_default();
    let results = ActionResults::default().with("node-parameters", written).with("user-supplied-node-parameters", wish);
    let results = match ignored(seen) {
        Some(ignored) => results.with("ignored", ignored),
        None => results,
    };
    let results = match &seen.machine.registration {
        Registration::Present(record) if record.has("INVALID_REG") => results.with("refused", record.reason.as_str()),
        _ => results,
    };
    let registered = matches!(seen.machine.registration, Registration::Present(_));
    match (status::pending(seen), plan::described(seen)) {
        (Some(pending), Some(described)) => results.with("pending", pending).with("wanted", described.render()),
        (None, _) if registered => results.with("pending", ""),
        _ if seen.machine.registration == Registration::Unreachable => {
            results.with("pending", "slurmctld does not answer")
        }
        _ => results.with("pending", "the node is not registered"),
    }
}

fn excerpt(text: &str) -> String {
    options::one_line(text).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_not_the_operators_is_found_however_it_is_written() {
        for (text, key) in [
            ("Port=7000", "Port"),
            ("Port =7000", "Port"),
            ("Weight=5 nodeaddr = 10.9.9.9", "NodeAddr"),
            ("Weight=5\tSTATE\t=\tDOWN", "State"),
            ("Reason = x", "Reason"),
            ("NodeName=x", "NodeName"),
        ] {
            assert_eq!(owned(text), Some(key), "{text}");
        }
        for text in ["", "=", "Weight=5", "Feature=State", "Portly=1", "state"] {
            assert_eq!(owned(text), None, "{text}");
        }
    }

    #[test]
    fn what_slurmctld_refuses_is_in_the_answer() {
        let mut seen = Observed::joined();
        assert!(!shown(&seen).entries().iter().any(|(key, _)| key == "refused"));
        let record = seen.record_mut();
        record.states.extend(["DRAIN".to_owned(), "INVALID_REG".to_owned()]);
        record.reason = "Low TmpDisk".to_owned();
        assert!(shown(&seen).entries().contains(&("refused".to_owned(), "Low TmpDisk".to_owned())));
    }
}
