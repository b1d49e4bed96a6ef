//! What a node does that leaves its cluster, and where it waits.
//!
//! A unit that is removed waits inside the hook. A unit whose relation has ended does not: it may be integrated again
//! at any moment, and the retry timer calls.

use super::situation::NOT_RUNNING;
use super::{Decision, Planning, Tried, made};
use crate::condition::Condition;
use crate::facts::{Facts, Question};
use crate::node::departure::{Departure, Hold, Progress, Stage};
use crate::node::lifecycle::{Lifecycle, NodeNote};
use crate::step::{NoteReason, Step};
use charm::runtime::Plan;
use slurm_interface::ControllerData;
use slurm_unit::Trigger;
use slurm_unit::service::Running;
use std::time::Duration;

/// Why a node leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The unit is being removed, and this is a hook in which it may wait.
    Unit,
    /// Its relation with the controllers has ended.
    Relation,
}

/// Looks are frequent at first, for the sake of nodes that are empty within seconds.
const FIRST_MINUTE: u64 = 60;
const SHORT_PAUSE: Duration = Duration::from_secs(1);
const LONG_PAUSE: Duration = Duration::from_secs(5);

/// Says whether there is anything to leave: this machine is a node of the cluster, or was about to be.
pub(super) fn is_part(facts: &Facts) -> Planning<bool> {
    facts.need(&[Question::StartFile, Question::Note])?;
    let (file, node) = (facts.start_file()?, &facts.identity()?.node);
    // Whatever became of slurmd and its options since.
    let outside = [Lifecycle::Joining, Lifecycle::Gone];
    let noted = facts.note()?.node.as_ref().is_ok_and(|note| !outside.contains(&note.lifecycle));
    let described = file.options.as_ref().is_some_and(|options| options.name == *node);
    Ok(file.neighbour.is_none() && (described || noted))
}

/// Says whether the controllers that are related now are those of the cluster that the node is part of.
pub(super) fn is_same_cluster(facts: &Facts, data: &ControllerData) -> Planning<bool> {
    let known = facts.start_file()?.options.as_ref().map(|options| &options.controllers);
    Ok(known.is_none_or(|known| known.iter().any(|controller| data.controllers.contains(controller))))
}

/// The relation is there again: the node stays. Its drain is taken back like every drain of ours that no note explains.
pub(super) fn stay(note: &NodeNote, departure: &Departure) -> Step {
    let lifecycle = match &departure.change {
        _ if departure.deleted => Lifecycle::Joining,
        Some(change) => Lifecycle::Reregistering(change.clone()),
        None => Lifecycle::Member,
    };
    Step::WriteNote(Box::new(NodeNote { lifecycle, ..note.clone() }), NoteReason::Stay)
}

/// Decides about the next step of a node that leaves.
pub(super) fn leave(facts: &Facts, attempts: &Tried, why: Why) -> Planning<Decision> {
    if !is_part(facts)? {
        return Ok(Plan::rest(vec![Condition::Leaving]));
    }
    facts.need(&[Question::Daemon, Question::Options, Question::KeyFile, Question::Now])?;
    let daemon = facts.daemon()?;
    // The note of a unit that goes has nothing left to protect but the time at which its drain began.
    let note = match &facts.note()?.node {
        Ok(note) => note.clone(),
        Err(_) if why == Why::Unit => NodeNote::default(),
        Err(why) => return Ok(Plan::rest(vec![Condition::NoteUnreadable(why.clone())])),
    };
    let key = facts.key_file()?;
    let tried = made(attempts, &Step::StartDaemon) || facts.identity()?.trigger == Trigger::DaemonFailure;
    let progress = Progress {
        departure: note.departure(),
        gone: note.lifecycle == Lifecycle::Gone,
        running: daemon.running,
        can_start: !tried && key.keys.is_some() && facts.start_file()?.options.is_some(),
        lookup: if daemon.running == Running::Up { facts.node()? } else { &NOT_RUNNING },
        rule: facts.options()?.drain.as_ref().copied().unwrap_or_default(),
        now: *facts.now()?,
    };
    let write = |lifecycle, reason| Step::WriteNote(Box::new(NodeNote { lifecycle, ..note.clone() }), reason);
    let steps = match progress.stage(facts)? {
        Stage::Gone => return Ok(Plan::rest(vec![Condition::Leaving])),
        Stage::Begin => {
            let departure = Departure {
                since: progress.now,
                deleted: false,
                controller_deletes: *facts.controller_deletes()?,
                change: note.reregistration().cloned().map(Box::new),
            };
            vec![write(Lifecycle::Leaving(departure), NoteReason::Leave)]
        }
        Stage::StartDaemon => vec![Step::StartDaemon],
        Stage::Drain if !made(attempts, &Step::DrainNode) => vec![Step::DrainNode],
        Stage::Delete if !made(attempts, &Step::DeleteNode) => vec![Step::DeleteNode],
        Stage::Drain | Stage::Delete => return hold(facts, Hold::Refused, why, &progress),
        Stage::Cancel(jobs) if attempts.made(|step| matches!(step, Step::CancelJobs(_))) => {
            return hold(facts, Hold::Cancelled(jobs.len()), why, &progress);
        }
        Stage::Cancel(jobs) => vec![Step::CancelJobs(jobs)],
        Stage::Hold(held) => return hold(facts, held, why, &progress),
        Stage::NoteDeleted => {
            let departure = note.departure().cloned().map(|departure| Departure { deleted: true, ..departure });
            departure.map(|departure| write(Lifecycle::Leaving(departure), NoteReason::Deleted)).into_iter().collect()
        }
        Stage::End => {
            vec![Step::StopDaemon, Step::RemoveTraces { key: !key.shared }, write(Lifecycle::Gone, NoteReason::Gone)]
        }
    };
    Ok(Plan::steps(steps))
}

fn hold(facts: &Facts, hold: Hold, why: Why, progress: &Progress<'_>) -> Planning<Decision> {
    if why == Why::Relation {
        return Ok(Plan::rest(vec![Condition::Departing { hold, leader: false }]));
    }
    let since = progress.departure.map_or(progress.now, |departure| departure.since);
    let pause = if progress.now.saturating_sub(since) < FIRST_MINUTE { SHORT_PAUSE } else { LONG_PAUSE };
    Ok(Plan::steps(vec![Step::Wait { hold, leader: *facts.leader()?, pause }]))
}
