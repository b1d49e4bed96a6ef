//! `node-config`: what the operator wants of this node, and `set-node-config`, which says the same to scripts of the
//! Python charms.
//!
//! The request is checked as a whole, by our own tables and by the Slurm on this machine, before anything is written.
//! Then it is kept, and the usual rounds bring the node there, now or when its jobs have ended.

use super::{Act, find_out, settle};
use crate::condition::rejection;
use crate::facts::{Fact, Facts, Notes, Question};
use crate::node::hardware::number;
use crate::node::lifecycle::{Lifecycle, NodeNote};
use crate::node::reregistration::Phase;
use crate::plan::{Planning, Situation, waits};
use charm::{ActionFailure, ActionResults};
use slurm_conf::Node;
use slurm_ops::scontrol::{self, Candidate, NodeLookup, NodeRecord};
use slurm_unit::{note, options, retry};

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

pub(super) fn node_config(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: Request = act.tools.action_get()?;
    if request.parameters.trim().is_empty() && !request.reset {
        return find_out(act, &mut Facts::default(), shown);
    }
    let found = excerpt(&request.parameters);
    match take(act, &request)? {
        Ok(results) => Ok(results),
        Err(Refusal::Owned(key)) => Err(ActionFailure::refused(format!(
            "parameters `{found}`: {key} is set by the charm, and not accepted here"
        ))),
        Err(Refusal::Invalid(problem)) => Err(ActionFailure::refused(format!("parameters `{found}`: {problem}"))),
    }
}

pub(super) fn set_node_config(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: Request = act.tools.action_get()?;
    let found = excerpt(&request.parameters);
    let refusal = match take(act, &request)? {
        Ok(results) => return Ok(results.with("accepted", "True")),
        Err(Refusal::Owned(_)) => format!(
            "Cannot apply node configuration parameters '{found}'. Reason: Overrides charm-managed configuration parameter."
        ),
        Err(Refusal::Invalid(problem)) => {
            format!("Validation for node configuration parameters '{found}' failed. Reason:\n{problem}")
        }
    };
    Err(ActionFailure::failed(ActionResults::default().with("accepted", "False"), refusal))
}

/// Checks a request, keeps it, and brings the node as far as it can be brought now.
fn take(act: &Act<'_>, request: &Request) -> Result<Result<ActionResults, Refusal>, ActionFailure> {
    let note = match check(act, request)? {
        Ok(note) => note,
        Err(refusal) => return Ok(Err(refusal)),
    };
    // A timer that has been waiting for something else calls once a minute by now; for this it begins anew. It is set
    // before anything is touched: whatever becomes of this action, what it began is brought to its end.
    retry::begin_anew(&act.hands).map_err(ActionFailure::broken)?;
    note::write(&act.hands.host, &note).map_err(ActionFailure::broken)?;
    let mut facts = settle(act)?;
    if let Ok(note) = facts.note().map(|notes| &notes.node)
        && let Ok(NodeNote { rejected: Some(rejected), last_working, .. }) = note
    {
        return Ok(Err(Refusal::Invalid(format!("{}; the node is as it was", rejection(rejected, last_working)))));
    }
    find_out(act, &mut facts, shown).map(Ok)
}

/// Returns the note with what is asked for.
fn check(act: &Act<'_>, request: &Request) -> Result<Result<NodeNote, Refusal>, ActionFailure> {
    let invalid = |problem: String| Ok(Err(Refusal::Invalid(problem)));
    if let Some(key) = owned(&request.parameters) {
        return Ok(Err(Refusal::Owned(key)));
    }
    let asked = match Node::from_config(&request.parameters) {
        Ok(asked) => asked,
        Err(error) => return invalid(charm::log::chain(&error)),
    };
    let mut facts = Facts::default();
    act.know(&mut facts, &[Question::Note, Question::Installation]).map_err(ActionFailure::broken)?;
    let installed = facts.installation().is_ok_and(|installation| installation.version.is_some());
    let mut note = match facts.note().map(|notes| notes.node.clone()) {
        Ok(Ok(note)) => note,
        // What the note said is lost, and the operator says so. A drain of ours is found by its reason.
        _ if request.reset => NodeNote { lifecycle: Lifecycle::Member, ..NodeNote::default() },
        Ok(Err(why)) => return invalid(format!("{why}; mend it, or start afresh with reset=true")),
        Err(_) => return invalid("the note about this node could not be read".to_owned()),
    };
    note.rejected = None;
    if request.reset {
        note.requested = Node::new();
        // What the machine had once is not asked for any more either.
        note.detection = None;
    }
    note.requested.merge(&asked);
    let missing = "slurmd is not installed yet, or does not say what this machine has";
    if !installed {
        return invalid(missing.to_owned());
    }
    // What follows from the request is worked out as the plan will.
    facts.learn(Fact::Note(Notes { node: Ok(note.clone()), old: false }));
    let desired = find_out(act, &mut facts, |facts| {
        let situation = Situation::of(facts)?;
        let found = situation.hardware.as_ref().map(|hardware| hardware.found.clone());
        Ok(found.zip(situation.desired))
    })?;
    let Some((found, desired)) = desired else { return invalid(missing.to_owned()) };
    if let (Some(asked), Some(there)) = (number(&asked, "RealMemory"), number(&found, "RealMemory"))
        && asked > there
    {
        return invalid(format!(
            "RealMemory={asked}: this machine has {there} MiB, and Slurm refuses a node with less than it says"
        ));
    }
    match scontrol::judge_node(&act.view.host, &desired) {
        Candidate::Readable => Ok(Ok(note)),
        Candidate::Refused { reason } => invalid(options::objection(&reason, asked.unknown())),
        Candidate::Unknown { why } => invalid(format!("the Slurm on this machine could not be asked: {why}")),
    }
}

/// Returns the first key in a text that is not the operator's to set. Slurm takes blanks around `=`, and so does this;
/// whatever else may be wrong with the text, this is told first.
fn owned(text: &str) -> Option<&'static str> {
    let keys = text.match_indices('=').filter_map(|(at, _)| text[..at].split_whitespace().next_back());
    keys.flat_map(|key| OWNED.into_iter().filter(move |owned| owned.eq_ignore_ascii_case(key))).next()
}

/// Says what Slurm took no notice of, as far as it can be seen in its record.
fn ignored(record: &NodeRecord, requested: &Node) -> Option<String> {
    let cpus = requested.get("CPUs").filter(|cpus| cpus.parse::<u64>().is_ok_and(|cpus| cpus != record.cpus));
    let cpus = cpus.map(|cpus| format!("CPUs={cpus}: Slurm takes it to have {}", record.cpus));
    let kind = |entry: &str| entry.split(':').next().unwrap_or_default().to_owned();
    let known: Vec<String> = record.gres.split(',').map(kind).collect();
    let gres = requested.get("Gres").filter(|list| list.split(',').map(kind).any(|kind| !known.contains(&kind)));
    let gres = gres.map(|list| format!("Gres={list}: not in GresTypes of slurm.conf"));
    let ignored: Vec<String> = [cpus, gres].into_iter().flatten().collect();
    (!ignored.is_empty()).then(|| ignored.join("; "))
}

/// What is, what was asked for, and what is still to come.
fn shown(facts: &Facts) -> Planning<ActionResults> {
    facts.need(&[Question::Identity, Question::Daemon, Question::Note, Question::StartFile])?;
    let situation = Situation::of(facts)?;
    let on_disk = situation.conf_on_disk.map(Node::render).unwrap_or_default();
    let requested = situation.note.map(|note| note.requested.clone()).unwrap_or_default();
    let mut results = ActionResults::default()
        .with("node-parameters", on_disk)
        .with("user-supplied-node-parameters", requested.render());
    let record = match situation.lookup {
        NodeLookup::Present(record) => record,
        NodeLookup::Absent => return Ok(results.with("pending", "the node is not registered")),
        NodeLookup::Unreachable { .. } => return Ok(results.with("pending", "slurmctld does not answer")),
    };
    if let Some(ignored) = ignored(record, &requested).filter(|_| situation.phase() == Ok(Phase::Settled)) {
        results = results.with("ignored", ignored);
    }
    if record.has("INVALID_REG") {
        results = results.with("refused", record.reason.as_str());
    }
    Ok(match (waits(&situation, record)?, &situation.desired) {
        (Some(waits), Some(desired)) => results.with("pending", waits.text()).with("wanted", desired.render()),
        _ => results.with("pending", ""),
    })
}

fn excerpt(text: &str) -> String {
    charm::text::one_line(text, 200)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::World;

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
        let mut world = World::joined();
        assert!(!world.find_out(shown).entries().iter().any(|(key, _)| key == "refused"));
        let record = world.record_mut();
        record.state.extend(["DRAIN".to_owned(), "INVALID_REG".to_owned()]);
        record.reason = "Low TmpDisk".to_owned();
        assert!(world.find_out(shown).entries().contains(&("refused".to_owned(), "Low TmpDisk".to_owned())));
    }
}
