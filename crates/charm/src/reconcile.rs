//! Rounds of observe, plan and apply until nothing is left to do, and then the status.
//!
//! What is observed, planned and applied belongs to the charm. This module owns the order of it, and its end.

use crate::log::Journal;
use crate::status::Status;
use crate::tools::{ToolError, Tools};
use std::error::Error;
use std::fmt;

/// What a plan wants done, in order, and whether anything is still awaited afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan<Step> {
    pub steps: Vec<Step>,
    pub next: Next,
}

/// What comes after the steps of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing is awaited; the next event will do.
    Settled,
    /// Something is awaited that may come without an event.
    LookAgain,
}

impl<Step> Plan<Step> {
    /// Returns a plan that also keeps the timer which calls this charm again: set while something is awaited, ended
    /// when nothing is.
    ///
    /// Its steps come when nothing else is left to do, so that a round ends with the world as the timer should find
    /// it. `waking` tells whether the timer is set now.
    #[must_use]
    pub fn keeping_timer(mut steps: Vec<Step>, next: Next, waking: bool, set: Step, end: Step) -> Self {
        if steps.is_empty() {
            match (next, waking) {
                (Next::LookAgain, false) => steps.push(set),
                (Next::Settled, true) => steps.push(end),
                (Next::LookAgain, true) | (Next::Settled, false) => {}
            }
        }
        Self { steps, next }
    }
}

/// A charm's own observe, plan, apply and status.
pub trait Reconciler {
    type Observed;
    /// Says what, never how. Its `Display` is the step's name in the log and in errors; it shows no secret.
    type Step: fmt::Display;
    type Error: Error + 'static;

    /// Reads everything a plan may need, complete before any decision.
    fn observe(&mut self) -> Result<Self::Observed, Self::Error>;

    /// Decides what to change next. Pure, total, deterministic.
    fn plan(seen: &Self::Observed) -> Plan<Self::Step>;

    /// Makes one change, without deciding anything.
    fn apply(&mut self, step: &Self::Step) -> Result<(), Self::Error>;

    /// Says what is.
    fn status(seen: &Self::Observed) -> Status;

    /// Says what a slow step is doing, for whoever watches meanwhile.
    fn announce(_step: &Self::Step) -> Option<Status> {
        None
    }
}

/// Why the rounds ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError<E: Error + 'static> {
    #[error("could not find out what is")]
    Observe {
        #[source]
        source: E,
    },
    #[error("could not {step}")]
    Apply {
        step: String,
        #[source]
        source: E,
    },
    #[error("after {MAX_ROUNDS} rounds the plan still wants to: {steps}")]
    Unsettled { steps: String },
    #[error("could not publish")]
    Publish {
        #[source]
        source: ToolError,
    },
    #[error("could not report the status")]
    Report {
        #[source]
        source: ToolError,
    },
}

/// A chain of facts that only show one after another is shorter than this in every charm here. The longest is that of a
/// controller that finds out which of several changes its daemon refuses: two rounds for each.
pub const MAX_ROUNDS: usize = 48;

/// Brings a unit as far as it can be brought now, publishes what its steps wrote for Juju, reports its status, and
/// returns the names of the steps taken. A failure is in the status as well.
pub fn reconcile<R: Reconciler>(
    reconciler: &mut R,
    tools: &Tools,
    journal: &Journal,
) -> Result<Vec<String>, ReconcileError<R::Error>> {
    let outcome = rounds(reconciler, tools, journal);
    if let Err(error @ (ReconcileError::Observe { .. } | ReconcileError::Apply { .. })) = &outcome {
        // Juju shows that a hook failed. What a timer or an action ran into nobody would see, and the status of before
        // may be a lie by now. Never blocked: the unit may be leaving.
        let status = Status::waiting(format!("for another try: {}", crate::log::chain(error)));
        if let Err(error) = tools.writer().status_set(&status) {
            tracing::warn!("{}", crate::log::chain(&error));
        }
    }
    outcome
}

fn rounds<R: Reconciler>(
    reconciler: &mut R,
    tools: &Tools,
    journal: &Journal,
) -> Result<Vec<String>, ReconcileError<R::Error>> {
    let mut taken = Vec::new();
    let mut shown = None;
    for round in 0.. {
        let seen = reconciler.observe().map_err(|source| ReconcileError::Observe { source })?;
        let steps = R::plan(&seen).steps;
        if steps.is_empty() {
            tools.writer().send().map_err(|source| ReconcileError::Publish { source })?;
            report(tools, shown, &R::status(&seen)).map_err(|source| ReconcileError::Report { source })?;
            break;
        }
        if round == MAX_ROUNDS {
            let steps = steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(ReconcileError::Unsettled { steps });
        }
        for step in &steps {
            let name = step.to_string();
            tracing::info!("{name}");
            if let Some(status) = R::announce(step)
                && shown.as_ref() != Some(&status)
            {
                tools.writer().status_set(&status).map_err(|source| ReconcileError::Report { source })?;
                shown = Some(status);
                // Whoever sees the status may look into the log for more.
                journal.flush(tools);
            }
            reconciler.apply(step).map_err(|source| ReconcileError::Apply { step: name.clone(), source })?;
            taken.push(name);
        }
    }
    Ok(taken)
}

/// Sets the status if it differs from the one that is shown.
fn report(tools: &Tools, shown: Option<Status>, status: &Status) -> Result<(), ToolError> {
    let shown = match shown {
        Some(shown) => Some(shown),
        None => tools.status_get()?,
    };
    match shown.as_ref() == Some(status) {
        true => Ok(()),
        false => tools.writer().status_set(status),
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
