//! The node's record in Slurm: bring it to another description, and note what is known about it.

use super::{Planning, Situation, Tried, made, too_new};
use crate::node::description;
use crate::node::lifecycle::{Detection, Lifecycle, NodeNote, RejectedConfig};
use crate::node::reregistration::{Phase, comment_of};
use crate::step::{NoteReason, Step};
use slurm_interface::ControllerData;
use slurm_ops::journal;
use slurm_ops::scontrol::NodeLookup;
use slurm_unit::service::Running;

/// What earlier versions of this charm noted is kept in one note now.
pub(super) fn take_over(situation: &Situation<'_>, _: &Tried, _: &ControllerData) -> Planning<Vec<Step>> {
    let facts = situation.facts;
    Ok(match situation.note.filter(|_| facts.note().is_ok_and(|notes| notes.old)) {
        Some(note) => vec![write_note(note.clone(), NoteReason::TakeOver), Step::RemoveOldNotes],
        None => Vec::new(),
    })
}

fn write_note(note: NodeNote, reason: NoteReason) -> Step {
    Step::WriteNote(Box::new(note), reason)
}

/// A description that slurmd does not start with must not keep the node away. What the operator asked for before comes
/// back.
pub(super) fn retreat(situation: &Situation<'_>, _: &Tried, _: &ControllerData) -> Planning<Vec<Step>> {
    let facts = situation.facts;
    let (Running::Failing, Some(note)) = (situation.daemon.running, situation.note) else { return Ok(Vec::new()) };
    let Some(complaint) = facts.complaint()? else { return Ok(Vec::new()) };
    // A request that is still to be applied has no part in it, and one that worked before neither.
    let suspect = note.requested != note.last_working && situation.is_on_disk(&note.requested);
    if !suspect || !journal::may_blame_description(complaint) {
        return Ok(Vec::new());
    }
    let rejected = RejectedConfig { requested: note.requested.clone(), reason: complaint.clone() };
    let note = NodeNote { requested: note.last_working.clone(), rejected: Some(rejected), ..note.clone() };
    Ok(vec![write_note(note, NoteReason::TakeBack)])
}

/// Brings a registered node to another description.
pub(super) fn change(situation: &Situation<'_>, attempts: &Tried, data: &ControllerData) -> Planning<Vec<Step>> {
    let facts = situation.facts;
    let Some(note) = situation.note else { return Ok(Vec::new()) };
    let in_place = attempts.made(|step| matches!(step, Step::SetFeatures(_) | Step::SetWeight(_)));
    if let Some(step) = weight(situation, note) {
        return Ok(if in_place && matches!(step, Step::SetWeight(_)) { Vec::new() } else { vec![step] });
    }
    let closed = attempts.made(|step| matches!(step, Step::CloseNode { .. }));
    let reopened = attempts.made(|step| matches!(step, Step::ReopenNode { .. }));
    let phase = situation.phase()?;
    Ok(match phase {
        Phase::Features(features) if !in_place => vec![Step::SetFeatures(features)],
        Phase::Pending { weight: Some(weight) } if !in_place => {
            let note = NodeNote { set_weight: Some(weight), ..note.clone() };
            vec![write_note(note, NoteReason::SetWeight), Step::SetWeight(weight)]
        }
        Phase::Begin(change) => {
            let renewed = note.reregistration().is_some();
            // A change that ended in this dispatch does not begin again in it, and one that would cost jobs never does.
            let ready = !closed && !reopened && situation.daemon.spares_jobs() && too_new(facts, data)?.is_none();
            let note = NodeNote { lifecycle: Lifecycle::Reregistering(Box::new(change)), ..note.clone() };
            if renewed || ready { vec![write_note(note, NoteReason::BeginChange)] } else { Vec::new() }
        }
        Phase::Close { drain: true } if !made(attempts, &Step::CloseNode { drain: true }) => {
            vec![Step::CloseNode { drain: true }]
        }
        Phase::Close { drain: false } if !closed => vec![Step::CloseNode { drain: false }],
        Phase::Delete if !made(attempts, &Step::DeleteNode) => vec![Step::DeleteNode],
        Phase::Restore => restore(situation, attempts, note)?,
        Phase::Orphaned if !reopened => vec![reopen(situation, None, true)],
        Phase::Abort { reopen: true, ours } if !reopened => vec![reopen(situation, Some(note), ours)],
        Phase::Forget | Phase::Abort { reopen: false, .. } => {
            let note = NodeNote { lifecycle: Lifecycle::Member, ..note.clone() };
            vec![write_note(note, NoteReason::EndChange)]
        }
        // What is next there is done by the stages before, by somebody else, or was attempted in this dispatch.
        _ => Vec::new(),
    })
}

/// Says what becomes of a weight that was set ahead of a new registration which is not to come, or has come.
fn weight(situation: &Situation<'_>, note: &NodeNote) -> Option<Step> {
    let set = note.set_weight?;
    let (NodeLookup::Present(record), None) = (situation.lookup, note.reregistration()) else { return None };
    let (desired, on_disk) = (situation.desired.as_ref()?, situation.conf_on_disk?);
    if on_disk.get("Weight") != desired.get("Weight") {
        return None;
    }
    let own = description::weight(desired);
    Some(if record.weight == set && set != own {
        Step::SetWeight(own)
    } else {
        write_note(NodeNote { set_weight: None, ..note.clone() }, NoteReason::ForgetWeight)
    })
}

fn restore(situation: &Situation<'_>, attempts: &Tried, note: &NodeNote) -> Planning<Vec<Step>> {
    let tried = attempts.made(|step| matches!(step, Step::RestoreNode { .. }));
    let (NodeLookup::Present(record), Some(change), false) = (situation.lookup, note.reregistration(), tried) else {
        return Ok(Vec::new());
    };
    let mut features = record.features.clone();
    features.extend(change.features.iter().filter(|feature| !record.features.contains(feature)).cloned());
    let boot = situation.facts.boot()?.note.clone();
    Ok(vec![Step::RestoreNode { change: Box::new(change.clone()), features, boot }])
}

/// `note` has the comment of before. Without one the comment on the record counts, unless it is our own mark.
fn reopen(situation: &Situation<'_>, note: Option<&NodeNote>, resume: bool) -> Step {
    let noted = note.and_then(NodeNote::reregistration).map(|change| change.comment.as_str());
    let shown = match situation.lookup {
        NodeLookup::Present(record) => record.comment.as_str(),
        NodeLookup::Absent | NodeLookup::Unreachable { .. } => "",
    };
    Step::ReopenNode { resume, comment: comment_of(noted.unwrap_or(shown)).to_owned() }
}

/// What follows once the controllers know the node.
pub(super) fn settle(situation: &Situation<'_>, attempts: &Tried, _: &ControllerData) -> Planning<Vec<Step>> {
    let facts = situation.facts;
    let mut steps = Vec::new();
    if let Some(note) = situation.note {
        let settled = settled_note(situation, note)?;
        if settled != *note {
            steps.push(write_note(settled, NoteReason::Settle));
        }
    }
    if let NodeLookup::Present(record) = situation.lookup {
        // A comment of the administrator stays, and shows that the node has been saved.
        if record.comment.is_empty() && !attempts.made(|step| matches!(step, Step::MarkJoined(_))) {
            steps.push(Step::MarkJoined(facts.boot()?.note.clone()));
        }
        if !*facts.port_open()? {
            steps.push(Step::OpenPort);
        }
    }
    Ok(steps)
}

/// Returns the note as it should be: what the machine has, that the node is a member, and which request works.
fn settled_note(situation: &Situation<'_>, note: &NodeNote) -> Planning<NodeNote> {
    let mut settled = note.clone();
    if situation.daemon.running != Running::Up {
        return Ok(settled);
    }
    if let (Some(hardware), true) = (&situation.hardware, situation.detected_now) {
        let (baseline, found) = (hardware.expected(), hardware.found.clone());
        settled.detection = Some(Detection { invocation: situation.daemon.invocation.clone(), baseline, found });
    }
    if let NodeLookup::Present(record) = situation.lookup {
        if matches!(note.lifecycle, Lifecycle::Joining | Lifecycle::Gone) {
            settled.lifecycle = Lifecycle::Member;
        }
        // What Slurm took in place is not known to work before slurmd has been started with it.
        let running = situation.daemon.with.as_ref().map(|with| description::open(&with.conf));
        let works = !record.has("INVALID_REG") && running.is_some() && running == situation.desired;
        if note.requested != note.last_working && works && situation.phase()? == Phase::Settled {
            settled.last_working = note.requested.clone();
        }
    }
    Ok(settled)
}
