//! The slurmd charm: the compute nodes of a Slurm cluster. Only wiring is here; the program itself is `main.rs`.

mod actions;
mod apply;
mod condition;
#[cfg(test)]
mod dispatch_tests;
mod facts;
mod names;
mod node;
mod options;
mod plan;
#[cfg(test)]
mod reference_tests;
mod step;
#[cfg(test)]
mod world;

use crate::condition::Condition;
use crate::facts::{Fact, Facts, Question};
use crate::step::{Outcome, Step};
use charm::runtime::{AttemptsOf, Charm, Dispatch, Planned};
use charm::{ActionFailure, ActionName, ActionResults, Context, Status, Tools};
use slurm_ops::Machine;
use slurm_unit::{Error, Hands, View, retry, service};

/// The charm.
pub struct Slurmd;

impl Charm for Slurmd {
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
        View::split(ctx, tools, &Machine::new().with_fetched_conf(names::FETCHED_CONF))
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
