//! How a node leaves its cluster, a step at a time, without a job being lost.
//!
//! ```text
//! note it ─▶ drain ─▶ jobs here? ──yes──▶ hold ──(drain-timeout, drain-policy=cancel)──▶ cancel them
//!                        │no
//!                        ▼
//!            who else names the node? ──somebody──▶ hold
//!            slurmctld was just started? ──yes──▶ hold (it asks all nodes to register, and would make this one anew)
//!                        │nobody, no
//!                        ▼
//!                  delete the record ─▶ note that ─▶ stop slurmd ─▶ remove key and options ─▶ gone
//! ```
//!
//! Each stage follows from facts alone, so that a dispatch that was killed anywhere is continued by the next one. Once
//! the record is deleted slurmd must not start any more: it would register the node anew. That is what the note says
//! between the delete and the end.

use super::reregistration::Reregistration;
use super::state::is_closed;
use crate::facts::{Facts, Occupancy};
use crate::names;
use crate::plan::Planning;
use serde::{Deserialize, Serialize};
use slurm_ops::scontrol::NodeLookup;
use slurm_unit::service::Running;

/// How long controllers of which none is to stay may be silent before they count as gone, in seconds.
const SILENCE: u64 = 20;

/// A departure under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Departure {
    /// When it began, in seconds since 1970.
    pub since: u64,
    /// The record is deleted, or somebody else deletes it: slurmd must not start any more.
    #[serde(default)]
    pub deleted: bool,
    /// The charm of the controllers deletes the record by itself, and fails if another did.
    #[serde(default)]
    pub controller_deletes: bool,
    /// The new registration that was under way.
    #[serde(default)]
    pub change: Option<Box<Reregistration>>,
}

/// What an operator wants when a node that leaves has jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DrainRule {
    /// After so many seconds. None: never.
    pub timeout: Option<u64>,
    /// Jobs are cancelled then. Otherwise they are waited for all the same.
    pub cancel: bool,
}

/// What a departure waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// Jobs on the node. `left`: how many seconds the one that ends last has at most; None: it has no time limit.
    Jobs {
        count: usize,
        left: Option<u64>,
        /// The operator's time limit is over.
        overdue: bool,
    },
    /// Jobs that were cancelled because the operator's time limit is over.
    Cancelled(usize),
    /// Jobs in the queue that ask for this node by name, and would fail without it.
    PendingJobs(Vec<String>),
    /// Reservations over this node.
    Reservations(Vec<String>),
    /// slurmctld does not answer, and is to come back.
    Slurmctld,
    /// slurmctld was just started, and will ask this node to register.
    Registration,
    /// slurmctld would not do what it was asked to.
    Refused,
    /// Nobody can be asked, and these jobs still run something here. None: the processes cannot be listed.
    LocalJobs(Option<usize>),
}

/// What is next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Note that the node leaves.
    Begin,
    /// Without slurmd no command of Slurm works here.
    StartDaemon,
    Drain,
    Hold(Hold),
    /// Cancel these jobs, by handle. The operator's time limit is over.
    Cancel(Vec<String>),
    Delete,
    /// Note that slurmd must not start any more.
    NoteDeleted,
    /// Stop slurmd, remove what it read, note the end.
    End,
    Gone,
}

/// What the stage of a departure follows from.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    pub departure: Option<&'a Departure>,
    pub gone: bool,
    pub running: Running,
    /// slurmd has a key and options, and may be started.
    pub can_start: bool,
    pub lookup: &'a NodeLookup,
    pub rule: DrainRule,
    pub now: u64,
}

impl Progress<'_> {
    /// Finds out what is next. What costs something is asked only where something depends on it.
    pub fn stage(&self, facts: &Facts) -> Planning<Stage> {
        if self.gone {
            return Ok(Stage::Gone);
        }
        let Some(departure) = self.departure else { return Ok(Stage::Begin) };
        let ended = if departure.deleted { Stage::End } else { Stage::NoteDeleted };
        match self.lookup {
            // The record is for the charm of the controllers to delete.
            NodeLookup::Present(_) if departure.deleted && departure.controller_deletes => Ok(Stage::End),
            // Our own drain for another description would be taken back by whoever finds its note gone.
            NodeLookup::Present(record) if !is_closed(record) || record.reason.starts_with(names::CHANGE_REASON) => {
                Ok(Stage::Drain)
            }
            NodeLookup::Present(record) => Ok(match self.held(departure, facts.occupancy()?) {
                Some(stage) => stage,
                None if departure.controller_deletes => ended,
                None if record.is_to_register() => Stage::Hold(Hold::Registration),
                None => Stage::Delete,
            }),
            NodeLookup::Absent => Ok(match *facts.local_jobs()? {
                Some(0) => ended,
                jobs => Stage::Hold(Hold::LocalJobs(jobs)),
            }),
            NodeLookup::Unreachable { .. } if departure.deleted => Ok(Stage::End),
            NodeLookup::Unreachable { .. } => self.unanswered(departure, facts),
        }
    }

    fn held(&self, departure: &Departure, occupancy: &Occupancy) -> Option<Stage> {
        let waited = self.now.saturating_sub(departure.since);
        let overdue = self.rule.timeout.is_some_and(|limit| waited >= limit);
        let cancels = overdue && self.rule.cancel;
        match occupancy {
            Occupancy::Empty => None,
            Occupancy::Jobs(jobs) if cancels => {
                let handles: Vec<String> =
                    jobs.iter().filter(|job| !job.ending).filter_map(|job| job.handle.clone()).collect();
                let held = Stage::Hold(Hold::Cancelled(jobs.len()));
                Some(if handles.is_empty() { held } else { Stage::Cancel(handles) })
            }
            Occupancy::Jobs(jobs) => {
                let ends: Option<Vec<u64>> = jobs.iter().map(|job| job.ends).collect();
                let left = ends.and_then(|ends| ends.into_iter().max()).map(|end| end.saturating_sub(self.now));
                Some(Stage::Hold(Hold::Jobs { count: jobs.len(), left: left.map(rounded), overdue }))
            }
            Occupancy::Awaited(jobs) if cancels => Some(Stage::Cancel(jobs.clone())),
            Occupancy::Awaited(jobs) => Some(Stage::Hold(Hold::PendingJobs(jobs.clone()))),
            Occupancy::Reserved(names) => Some(Stage::Hold(Hold::Reservations(names.clone()))),
            Occupancy::Unknown => Some(Stage::Hold(Hold::Slurmctld)),
        }
    }

    /// Nobody answers. A controller that is to stay will; without one only the processes on this machine count.
    fn unanswered(&self, departure: &Departure, facts: &Facts) -> Planning<Stage> {
        let stays = *facts.controllers_stay()?;
        let down = matches!(self.running, Running::Stopped | Running::Failing);
        if stays != Some(false) && down && self.can_start {
            return Ok(Stage::StartDaemon);
        }
        // A slurmd that does not start takes no job either. The controller deletes the record of a unit that is gone.
        if stays != Some(false) && !down {
            return Ok(Stage::Hold(Hold::Slurmctld));
        }
        let silent = self.now.saturating_sub(departure.since) >= SILENCE;
        Ok(match *facts.local_jobs()? {
            Some(0) if silent || self.running != Running::Up => Stage::NoteDeleted,
            jobs => Stage::Hold(Hold::LocalJobs(jobs)),
        })
    }
}

/// A text that changed every second would fill the history of the status.
fn rounded(seconds: u64) -> u64 {
    let unit = if seconds > 60 { 60 } else { 10 };
    seconds.div_ceil(unit) * unit
}
