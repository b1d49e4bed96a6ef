//! Reboots that an operator has asked for, a few nodes at a time. Nothing here waits in a hook: a condition says how
//! many are away, and the retry timer looks again.
//!
//! ```text
//! waiting ─▶ begun: ask Slurm ─▶ requested: its jobs end ─▶ issued: it boots ─▶ returning: as it was before ─▶ –
//!                 cancelled ◀────────────┘ taken back
//! ```
//!
//! Slurm alone drains a node, waits for its jobs and has it rebooted. Of what it does with the node's state it cannot
//! be relied on: a reboot that takes longer than `ResumeTimeout` (a minute) leaves the node down, one that is taken
//! back takes an operator's drain along, and so does one after which the node is to be resumed.

use crate::condition::Condition;
use crate::facts::{Ask, Attempts, Facts, Question};
use crate::reboots::{Away, Before, Reboots, Stage};
use crate::step::{NodeChange, Outcome, Step};
use slurm_conf::NodeName;
use slurm_ops::scontrol::NodeRecord;
use slurm_unit::LEAVING_REASON;
use std::collections::BTreeSet;

/// A machine that takes longer to boot is named.
const PATIENCE: u64 = 15 * 60;
/// Slurm has written down what it was asked by then; a crash before that forgets it.
const SAVED_AFTER: u64 = 10;
/// The time of a boot varies by a second with each answer.
const SAME_BOOT: u64 = 5;
/// What Slurm adds to the reason of a node that it reboots, or says of one that has rebooted.
const ISSUED: &str = "reboot issued";
const TIMED_OUT: &str = "reboot timed out";
const UNEXPECTED: &str = "unexpectedly rebooted";
/// What it says where it was given no reason.
const UNGIVEN: &str = "Reboot ASAP";

/// The decisions of one round, with a slurmctld that answers.
pub(super) struct Rebooting<'f> {
    facts: &'f Facts,
    attempts: &'f Attempts,
    steps: Vec<Step>,
    pub(super) conditions: Vec<Condition>,
}

/// What is to become of a node that is away.
enum Next {
    /// Nothing new.
    Stays,
    /// It came to a stage, or something about it changed that has to be noted.
    Noted(Away),
    Steps(Vec<Step>),
    /// It is as it was.
    Ended,
}

impl<'f> Rebooting<'f> {
    pub(super) fn new(facts: &'f Facts, attempts: &'f Attempts) -> Self {
        Self { facts, attempts, steps: Vec::new(), conditions: Vec::new() }
    }

    /// Decides what to do next. What is noted comes before what is done.
    pub(super) fn plan(&mut self) -> Result<Vec<Step>, Ask> {
        let facts = self.facts;
        let Some(noted) = facts.reboots()?.known() else { return Ok(Vec::new()) };
        facts.need(&[Question::Nodes, Question::Now])?;
        let now = *facts.now()?;
        let mut next = noted.clone();
        if let Some(nodes) = facts.nodes()?.answer() {
            let record = |name: &NodeName| nodes.iter().find(|node| node.name == name.as_str());
            for (name, away) in &noted.away {
                match judge(name, away, record(name), now) {
                    Next::Stays => {}
                    Next::Noted(away) => drop(next.away.insert(name.clone(), away)),
                    Next::Steps(steps) => self.once(name, steps),
                    Next::Ended => {
                        next.away.remove(name);
                        next.ended += 1;
                    }
                }
            }
            let Unfilled { stalled, holders } = fill(&mut next, nodes, now);
            if !stalled.is_empty() {
                self.conditions.push(Condition::RebootsStalled(stalled));
            }
            if !holders.is_empty() {
                self.conditions.push(Condition::RebootsHeld(holders.into_iter().collect()));
            }
        }
        if next != *noted {
            return Ok(vec![Step::NoteReboots(next)]);
        }
        self.tell(noted, now);
        Ok(std::mem::take(&mut self.steps))
    }

    /// Takes each step once in a dispatch. After that the condition says why it had no effect.
    fn once(&mut self, name: &NodeName, steps: Vec<Step>) {
        for step in steps {
            match self.attempts.outcome(|made| *made == step) {
                None => self.steps.push(step),
                Some(Outcome::Changed(Err(why))) => {
                    self.conditions.push(Condition::RebootRefused { node: name.clone(), why: why.clone() });
                }
                Some(_) => {}
            }
        }
    }

    fn tell(&mut self, noted: &Reboots, now: u64) {
        let (away, waiting) = (noted.away.len(), noted.waiting.len());
        let total = noted.ended + away + waiting;
        self.conditions.insert(0, Condition::Reboots { away, total, waiting });
        let late = |(_, away): &(&NodeName, &Away)| away.stage == Stage::Issued && now > away.since + PATIENCE;
        let late: Vec<NodeName> = noted.away.iter().filter(late).map(|(name, _)| name.clone()).collect();
        if !late.is_empty() {
            self.conditions.push(Condition::RebootLate(late));
        }
    }
}

/// Why nodes wait although a place of their own is free.
#[derive(Default)]
struct Unfilled {
    /// It is their turn, and they are not there.
    stalled: Vec<NodeName>,
    /// Others that are away as well, and have the places.
    holders: BTreeSet<NodeName>,
}

/// Gives free places to nodes that wait.
fn fill(next: &mut Reboots, nodes: &[NodeRecord], now: u64) -> Unfilled {
    let mut unfilled = Unfilled::default();
    let mut waiting = Vec::new();
    for (name, wish) in std::mem::take(&mut next.waiting) {
        let record = nodes.iter().find(|node| node.name == name.as_str());
        let Some(record) = record.filter(|record| !leaves(record)) else {
            // Whoever leaves the cluster is not rebooted for it.
            next.ended += 1;
            continue;
        };
        if next.away.len() >= next.max_unavailable {
            waiting.push((name, wish));
            continue;
        }
        let others = away_with(record, nodes, next);
        if next.away.len() + others.len() >= next.max_unavailable {
            unfilled.holders.extend(others);
            waiting.push((name, wish));
            continue;
        }
        match (record.booted, record.started) {
            (Some(booted), Some(started)) if is_there(record) => {
                let before = Before::of(record);
                let away = Away { wish, stage: Stage::Begun, since: now, booted, started, before };
                next.away.insert(name, away);
            }
            _ => {
                unfilled.stalled.push(name.clone());
                waiting.push((name, wish));
            }
        }
    }
    next.waiting = waiting;
    unfilled
}

/// Returns the nodes that a partition of this one has to do without already, beside those that are away for their
/// reboot. None if it has to do without this one, too: its reboot takes nobody away.
fn away_with(record: &NodeRecord, nodes: &[NodeRecord], reboots: &Reboots) -> Vec<NodeName> {
    if is_missing(record) {
        return Vec::new();
    }
    let missing = nodes.iter().filter(|other| is_missing(other));
    let beside = missing.filter(|other| other.partitions.iter().any(|own| record.partitions.contains(own)));
    beside.filter_map(|other| NodeName::new(&other.name).ok()).filter(|name| !reboots.away.contains_key(name)).collect()
}

/// Says whether a node is away, and nobody means it to be. Whoever drains a node knows that it takes no jobs; and Slurm
/// switches on what it has switched off.
fn is_missing(record: &NodeRecord) -> bool {
    let broken = ["DOWN", "NOT_RESPONDING", "INVALID_REG"];
    record.is_rebooting() || (!record.has("DRAIN") && broken.iter().any(|flag| record.has(flag)))
}

fn leaves(record: &NodeRecord) -> bool {
    record.has("DRAIN") && record.reason.starts_with(LEAVING_REASON)
}

/// Says whether Slurm can have a node rebooted, and nobody else has it rebooted already.
pub(crate) fn is_there(record: &NodeRecord) -> bool {
    let absent = ["NOT_RESPONDING", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "FAIL"];
    !record.is_rebooting() && !absent.iter().any(|flag| record.has(flag))
}

fn judge(name: &NodeName, away: &Away, record: Option<&NodeRecord>, now: u64) -> Next {
    let passed = now.saturating_sub(away.since);
    // A unit that registers anew has no record for a moment.
    let Some(record) = record else { return if passed > PATIENCE { Next::Ended } else { Next::Stays } };
    let come_to = |stage| Next::Noted(Away { stage, since: now, ..away.clone() });
    match away.stage {
        Stage::Cancelled if record.has("REBOOT_REQUESTED") => Next::Steps(vec![Step::CancelReboot(name.clone())]),
        // Too late: whoever boots is left to himself.
        Stage::Cancelled if record.has("REBOOT_ISSUED") => Next::Ended,
        Stage::Cancelled => come_to(Stage::Redraining),
        Stage::Returning | Stage::Redraining => give_back(name, away, record, now),
        Stage::Begun | Stage::Requested | Stage::Issued if record.is_rebooting() => under_way(away, record, now),
        // slurmctld has only just been started, and has not heard of the node.
        _ if record.booted.is_none() || record.started.is_none() => Next::Stays,
        Stage::Begun | Stage::Requested | Stage::Issued if has_rebooted(away, record) => come_to(back(&away.before)),
        // Slurm is asked once more, and has not written that down yet.
        Stage::Begun if passed >= SAVED_AFTER => come_to(Stage::Begun),
        Stage::Begun => Next::Steps(vec![Step::RequestReboot {
            node: name.clone(),
            wish: away.wish.clone(),
            before: away.before.clone(),
        }]),
        _ if record.has("NOT_RESPONDING") || record.reason.contains(TIMED_OUT) => Next::Stays,
        // An administrator has taken it back, and the drain with it.
        Stage::Requested => come_to(Stage::Redraining),
        // Whatever became of slurmctld: the machine was told to.
        Stage::Issued if passed > PATIENCE => come_to(back(&away.before)),
        Stage::Issued => Next::Stays,
    }
}

/// Slurm is to reboot a node, or does.
fn under_way(away: &Away, record: &NodeRecord, now: u64) -> Next {
    let mut seen = away.clone();
    let stage = match () {
        () if record.has("REBOOT_ISSUED") => Stage::Issued,
        () if now >= away.since + SAVED_AFTER || away.stage != Stage::Begun => Stage::Requested,
        () => Stage::Begun,
    };
    if stage != away.stage {
        (seen.stage, seen.since) = (stage, now);
    }
    // A slurmd that was started again in the meantime is no sign of a boot.
    if let Some(started) = record.started.filter(|_| stage != Stage::Issued) {
        seen.started = started;
    }
    // Somebody drains the node while it is drained for its reboot. Slurm would forget that.
    let own = [away.wish.given_reason(), UNGIVEN].iter().any(|own| record.reason.starts_with(own));
    if (away.before.is_in_service() || away.before.meanwhile) && record.has("DRAIN") && !own {
        let reason = record.reason.split(&format!(" : {ISSUED}")).next().unwrap_or_default();
        seen.before = Before { down: false, drained: true, meanwhile: true, reason: reason.to_owned() };
    }
    if seen == *away { Next::Stays } else { Next::Noted(seen) }
}

/// Of a node that is to be resumed, or to be down, Slurm takes the drain away.
fn back(before: &Before) -> Stage {
    if before.drained && (before.meanwhile || before.down) { Stage::Redraining } else { Stage::Returning }
}

/// In a container, whose boot time is that of its host, the start of slurmd has to do; but only once Slurm has given up
/// to wait for another boot.
fn has_rebooted(away: &Away, record: &NodeRecord) -> bool {
    let booted = record.booted.is_some_and(|booted| booted > away.booted + SAME_BOOT);
    let told = away.stage != Stage::Begun || record.reason.contains(ISSUED);
    booted || (told && record.started.is_some_and(|started| started != away.started))
}

/// Brings a node that is back into the state that it had. What somebody else has made of it since stays.
fn give_back(name: &NodeName, away: &Away, record: &NodeRecord, now: u64) -> Next {
    let before = &away.before;
    let by_reboot = [ISSUED, TIMED_OUT, UNEXPECTED].iter().any(|words| record.reason.contains(words));
    let set = |change| Step::SetNode(name.clone(), change);
    let drain = || set(NodeChange::Drain(before.reason.clone()));
    let steps = match () {
        // Slurm has given up to wait. A node that is drained has to be resumed, and drained again.
        () if before.is_in_service() && record.is_set_aside() && by_reboot => vec![set(NodeChange::Resume)],
        () if before.drained && !before.down && record.has("DOWN") && by_reboot => match away.stage {
            Stage::Redraining => vec![set(NodeChange::Resume), drain()],
            _ => return Next::Noted(Away { stage: Stage::Redraining, since: now, ..away.clone() }),
        },
        () if before.drained && !record.has("DRAIN") && away.stage == Stage::Redraining => vec![drain()],
        () if !before.is_in_service()
            && record.is_set_aside()
            && record.reason != before.reason
            && (record.reason.is_empty() || (record.reason.starts_with(&before.reason) && by_reboot)) =>
        {
            vec![set(NodeChange::Reason(before.reason.clone()))]
        }
        () => return Next::Ended,
    };
    Next::Steps(steps)
}

#[cfg(test)]
#[path = "reboots_tests.rs"]
mod tests;
