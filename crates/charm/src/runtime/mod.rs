//! The rounds of one dispatch: the plan asks, the runtime looks; the plan decides, the runtime applies.
//!
//! ```text
//!          ┌────────────── Err(Ask): look at what was asked, side by side ◀─────────────┐
//!          ▼                                                                            │
//!   plan(facts, attempts) ──────────────────────────────────────────────────────────────┘
//!          │ Ok(Plan)
//!          ├── steps ──▶ apply each, learn its outcome, plan again
//!          └── none ───▶ send what was written for Juju, set the retry timer, set the status, or end the timer
//! ```
//!
//! The runtime owns what must not differ between charms: the order, the end, the retry timer, what was attempted in
//! this dispatch. A charm owns its questions, its steps and its conditions. See [`Charm`].

mod attempts;
mod beside;
mod charm;
mod dispatch;
mod facts;
mod rounds;

pub use attempts::Attempts;
pub use beside::{both, each};
pub use charm::{AttemptsOf, Charm, Condition, FactOf, Plan, Planned, QuestionOf};
pub use dispatch::{Dispatch, dispatch, run};
pub use facts::{Ask, Facts};
pub use rounds::{Preview, RoundsError, Settled};

#[cfg(test)]
mod tests;
