//! What a charm brings: its questions, its plan, its steps, its words.

use super::{Ask, Attempts, Dispatch, Facts};
use crate::action::{ActionFailure, ActionResults};
use crate::context::Context;
use crate::event::ActionName;
use crate::status::Status;
use crate::tools::Tools;
use std::error::Error;
use std::fmt;

/// The questions of a charm.
pub type QuestionOf<C> = <<C as Charm>::Facts as Facts>::Question;
/// The answers of a charm.
pub type FactOf<C> = <<C as Charm>::Facts as Facts>::Fact;

/// What a plan of a charm comes to: a plan, or the questions that are to be answered first.
pub type Planned<C> = Result<Plan<<C as Charm>::Step, <C as Charm>::Condition>, Ask<QuestionOf<C>>>;
/// The steps of a charm in this dispatch, with their outcomes.
pub type AttemptsOf<C> = Attempts<<C as Charm>::Step, <C as Charm>::Outcome>;

/// A charm.
///
/// `View` and `Hands` are types of the charm's own choice. A look is handed the one, a step the other, so that it is
/// the compiler who says that a look changes nothing and a step looks at nothing. What a step has to know comes with
/// it, and what it finds out is its outcome.
pub trait Charm: Sized {
    /// The private event names that this charm's own timers and services send.
    const EVENTS: &'static [&'static str];
    /// The one of them that the retry timer sends.
    const RETRY: &'static str;

    /// The world, to look at.
    type View: Sync;
    /// The world, to change.
    type Hands;
    type Facts: Facts;
    /// Says what, never how. Its `Display` is the step's name in the log and in errors; it shows no secret.
    type Step: Clone + fmt::Display;
    /// What a step found out.
    type Outcome;
    /// Why this unit is not as it should be.
    type Condition: Condition;
    type Error: Error + Send + 'static;

    /// Takes what one dispatch has to go on, on the machine that this process runs on.
    fn begin(ctx: Context, tools: &Tools) -> (Self::View, Self::Hands);

    /// Answers one question. Answers of the rounds before are in `known`; questions of one round are looked at side by
    /// side.
    fn look(view: &Self::View, question: QuestionOf<Self>, known: &Self::Facts) -> Result<FactOf<Self>, Self::Error>;

    /// Decides what to do next. Pure, total, deterministic.
    fn plan(facts: &Self::Facts, attempts: &AttemptsOf<Self>) -> Planned<Self>;

    /// Makes one change, without deciding anything.
    fn apply(hands: &Self::Hands, step: &Self::Step) -> Result<Self::Outcome, Self::Error>;

    /// Takes over what a step has changed: learns what is known now, forgets what is not known any more. Pure.
    fn learn(facts: &mut Self::Facts, step: &Self::Step, outcome: &Self::Outcome);

    /// Says how this unit is, from the facts and the reasons of the last plan. Pure.
    fn status(facts: &Self::Facts, conditions: &[Self::Condition]) -> Status;

    /// Says what a slow step is doing, for an operator who watches meanwhile.
    fn announce(_step: &Self::Step) -> Option<Status> {
        None
    }

    /// Says whether a step only lets time pass. After it a dispatch begins anew: what was attempted may be attempted
    /// again, and the rounds are counted from here.
    fn is_wait(_step: &Self::Step) -> bool {
        false
    }

    /// Says whether the retry timer is set.
    fn retry_timer_is_set(view: &Self::View) -> bool;

    /// Sets the retry timer, or ends it.
    fn set_retry_timer(hands: &Self::Hands, set: bool) -> Result<(), Self::Error>;

    /// Answers an action.
    fn act(dispatch: &Dispatch<'_, Self>, action: &ActionName) -> Result<ActionResults, ActionFailure>;
}

/// What to do now, and why this unit is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan<Step, Condition> {
    /// Applied in order. A step that makes a fact worthless on which a later decision rests is the last one of its
    /// plan.
    pub steps: Vec<Step>,
    /// The reasons of the status. They count only in a plan that is judged.
    pub conditions: Vec<Condition>,
    /// There are no steps, or they change nothing that the status speaks of.
    pub judged: bool,
}

impl<Step, Condition> Plan<Step, Condition> {
    /// Returns a plan that changes something. What comes of it is seen in the next round.
    pub fn steps(steps: Vec<Step>) -> Self {
        Self { steps, conditions: Vec::new(), judged: false }
    }

    /// Returns a plan whose steps change nothing that the status speaks of: what is noted, or said to others.
    pub fn aside(steps: Vec<Step>, conditions: Vec<Condition>) -> Self {
        Self { steps, conditions, judged: true }
    }

    /// Returns a plan that changes nothing more in this dispatch.
    pub fn rest(conditions: Vec<Condition>) -> Self {
        Self { steps: Vec::new(), conditions, judged: true }
    }

    /// Returns a plan with these steps, or one that rests for a reason if there are none.
    pub fn steps_or(steps: Vec<Step>, otherwise: Condition) -> Self {
        if steps.is_empty() { Self::rest(vec![otherwise]) } else { Self::steps(steps) }
    }
}

impl<Step, Reason: Condition> Plan<Step, Reason> {
    /// Says whether none of the reasons is worse than active.
    pub fn is_well(&self) -> bool {
        self.conditions.iter().all(|condition| matches!(condition.status(), Status::Active(_)))
    }
}

/// A reason why a unit is not as it should be.
pub trait Condition {
    /// Says it to the operator.
    fn status(&self) -> Status;

    /// Says whether it may end without an event of Juju. The retry timer calls the charm again while one of these
    /// holds.
    fn needs_retry(&self) -> bool;
}
