//! The slurmctld charm: the controller of a Slurm cluster. Only wiring is here; the program itself is `main.rs`.

mod actions;
mod applications;
mod apply;
mod condition;
mod config;
mod daemon;
#[cfg(test)]
mod dispatch_tests;
mod facts;
mod identity;
mod keys;
mod names;
mod options;
mod plan;
mod step;

use charm::runtime::{AttemptsOf, Charm, Dispatch, Planned};
use charm::{ActionFailure, ActionName, ActionResults, Context, Status, Tools};
use condition::Condition;
use facts::{Fact, Facts, Question};
use slurm_ops::Machine;
use slurm_unit::{Error, Hands, View, retry, service};
use step::{Outcome, Step};

/// The charm.
pub struct Slurmctld;

impl Charm for Slurmctld {
    const EVENTS: &'static [&'static str] = &[retry::EVENT, service::FAILURE_EVENT];
    const RETRY: &'static str = retry::EVENT;

    type View = View;
    type Hands = Hands;
    type Facts = Facts;
    type Step = Step;
    type Outcome = Outcome;
    type Condition = Condition;
    type Error = Error;

    fn begin(ctx: Context, tools: &Tools) -> (View, Hands) {
        View::split(ctx, tools, &Machine::new())
    }

    fn look(view: &View, question: Question, known: &Facts) -> Result<Fact, Error> {
        facts::look(view, question, known)
    }

    fn plan(facts: &Facts, attempts: &AttemptsOf<Self>) -> Planned<Self> {
        plan::plan(facts, attempts)
    }

    fn apply(hands: &Hands, step: &Step) -> Result<Outcome, Error> {
        apply::apply(hands, step)
    }

    fn learn(facts: &mut Facts, step: &Step, outcome: &Outcome) {
        apply::learn(facts, step, outcome);
    }

    fn status(facts: &Facts, conditions: &[Condition]) -> Status {
        condition::status(facts, conditions)
    }

    fn announce(step: &Step) -> Option<Status> {
        apply::announce(step)
    }

    fn retry_timer_is_set(view: &View) -> bool {
        retry::is_set(view)
    }

    fn set_retry_timer(hands: &Hands, set: bool) -> Result<(), Error> {
        retry::set(hands, set)
    }

    fn act(dispatch: &Dispatch<'_, Self>, action: &ActionName) -> Result<ActionResults, ActionFailure> {
        actions::act(dispatch, action)
    }
}
