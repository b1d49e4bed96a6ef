//! The loop: ask, look, decide, apply, until nothing is left to do.

use super::{Ask, Attempts, Charm, Condition, Dispatch, Facts, Plan, QuestionOf, both, each};
use crate::log::chain;
use crate::status::Status;
use crate::tools::ToolError;
use std::error::Error;

/// Why the rounds ended early.
#[derive(Debug, thiserror::Error)]
pub enum RoundsError<E: Error + 'static> {
    #[error("could not look at {question}")]
    Look {
        question: String,
        #[source]
        source: E,
    },
    #[error("could not {step}")]
    Apply {
        step: String,
        #[source]
        source: E,
    },
    #[error("after {MAX_ROUNDS} rounds the plan still wants to {wanted}")]
    Unsettled { wanted: String },
    #[error("could not {} the retry timer", if *.set { "set" } else { "end" })]
    RetryTimer {
        set: bool,
        #[source]
        source: E,
    },
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

/// A plan asks or acts this often at most. The longest story is that of a controller that finds out which of several
/// changes its daemon refuses: some rounds for each.
pub const MAX_ROUNDS: usize = 256;

/// The end of the rounds.
pub struct Settled<C: Charm> {
    /// What is known at the end.
    pub facts: C::Facts,
    /// The names of the steps that were taken.
    pub steps: Vec<String>,
    /// Why the unit is not as it should be.
    pub conditions: Vec<C::Condition>,
}

/// What a hook would do now.
pub struct Preview<C: Charm> {
    /// What is known.
    pub facts: C::Facts,
    /// The next steps, and why the unit is not as it should be.
    pub plan: Plan<C::Step, C::Condition>,
}

impl<C: Charm> Preview<C> {
    /// Says how the unit is: its status, or what has to be done before it is known.
    pub fn state(&self) -> String {
        if self.plan.judged {
            let status = C::status(&self.facts, &self.plan.conditions);
            return format!("{}: {}", status.word(), status.message());
        }
        let steps: Vec<String> = self.plan.steps.iter().map(ToString::to_string).collect();
        format!("the next hook will {}", steps.join(", "))
    }
}

impl<C: Charm> Dispatch<'_, C> {
    /// Brings the unit as far as it can be brought now, publishes what its steps wrote for Juju, keeps the retry timer,
    /// and reports the status.
    ///
    /// A failure is in the status as well: Juju shows that a hook failed, but not what a timer or an action ran into.
    pub fn settle(&self) -> Result<Settled<C>, RoundsError<C::Error>> {
        let settled = self.rounds();
        if let Err(error) = &settled {
            // Never blocked: the unit may be leaving.
            let status = Status::waiting(format!("retrying after error: {}", chain(error)));
            if let Err(error) = self.tools.writer().status_set(&status) {
                tracing::warn!("{}", chain(&error));
            }
        }
        settled
    }

    fn rounds(&self) -> Result<Settled<C>, RoundsError<C::Error>> {
        let mut facts = C::Facts::default();
        let mut attempts = Attempts::default();
        let mut taken = Vec::new();
        let mut shown = Shown::NotAsked;
        let mut rounds = 0;
        while rounds < MAX_ROUNDS {
            rounds += 1;
            match C::plan(&facts, &attempts) {
                // The status that Juju shows is asked beside other looks: it is compared at the end.
                Err(ask) if matches!(shown, Shown::NotAsked) && ask.has_several() => {
                    let tools = self.tools;
                    let (status, answered) = both(|| tools.status_get(), || self.answer(&mut facts, ask));
                    answered?;
                    shown = Shown::Is(status.map_err(|source| RoundsError::Report { source })?);
                }
                Err(ask) => self.answer(&mut facts, ask)?,
                Ok(Plan { steps, conditions, .. }) if steps.is_empty() => {
                    self.finish(&facts, &conditions, shown)?;
                    return Ok(Settled { facts, steps: taken, conditions });
                }
                Ok(Plan { steps, .. }) => {
                    for step in steps {
                        let outcome = self.take(&step, &mut shown)?;
                        C::learn(&mut facts, &step, &outcome);
                        if C::is_wait(&step) {
                            (attempts, rounds) = (Attempts::default(), 0);
                            self.tools.forget_the_living();
                        } else {
                            taken.push(step.to_string());
                            attempts.note(step, outcome);
                        }
                    }
                }
            }
        }
        let wanted = match C::plan(&facts, &attempts) {
            Err(ask) => format!("know {:?}", ask.into_questions()),
            Ok(plan) => plan.steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        Err(RoundsError::Unsettled { wanted })
    }

    /// Answers questions until none of them is open. For actions, which ask by themselves.
    pub fn know(&self, facts: &mut C::Facts, questions: &[QuestionOf<C>]) -> Result<(), RoundsError<C::Error>> {
        match facts.need(questions) {
            Ok(()) => Ok(()),
            Err(ask) => self.answer(facts, ask),
        }
    }

    /// Returns what a hook would do now, and what is known then. For actions that look and change nothing.
    pub fn preview(&self) -> Result<Preview<C>, RoundsError<C::Error>> {
        let mut facts = C::Facts::default();
        loop {
            match C::plan(&facts, &Attempts::default()) {
                Ok(plan) => return Ok(Preview { facts, plan }),
                Err(ask) => self.answer(&mut facts, ask)?,
            }
        }
    }

    /// Looks at everything that was asked, side by side: most looks wait for a process of their own.
    fn answer(&self, facts: &mut C::Facts, ask: Ask<QuestionOf<C>>) -> Result<(), RoundsError<C::Error>> {
        let questions = ask.into_questions();
        tracing::debug!("looks at {questions:?}");
        let (view, known) = (&self.view, &*facts);
        let answers = each(questions, |question| (question, C::look(view, question, known)));
        for (question, answer) in answers {
            let fact = answer.map_err(|source| RoundsError::Look { question: format!("{question:?}"), source })?;
            facts.learn(fact);
        }
        Ok(())
    }

    /// Applies one step.
    fn take(&self, step: &C::Step, shown: &mut Shown) -> Result<C::Outcome, RoundsError<C::Error>> {
        match C::is_wait(step) {
            true => tracing::debug!("{step}"),
            false => tracing::info!("{step}"),
        }
        if let Some(status) = C::announce(step)
            && !shown.is(&status)
        {
            self.tools.writer().status_set(&status).map_err(|source| RoundsError::Report { source })?;
            *shown = Shown::Is(Some(status));
            // An operator who sees the status may look into the log for more.
            self.journal.flush(self.tools);
        }
        C::apply(&self.hands, step).map_err(|source| RoundsError::Apply { step: step.to_string(), source })
    }

    /// What comes when nothing is left to do.
    fn finish(&self, facts: &C::Facts, conditions: &[C::Condition], shown: Shown) -> Result<(), RoundsError<C::Error>> {
        self.tools.writer().send().map_err(|source| RoundsError::Publish { source })?;
        let wanted = conditions.iter().any(Condition::needs_retry);
        let set = C::retry_timer_is_set(&self.view);
        let turn = |set| C::set_retry_timer(&self.hands, set).map_err(|source| RoundsError::RetryTimer { set, source });
        if wanted && !set {
            turn(true)?;
        }
        let status = C::status(facts, conditions);
        self.report(shown, &status).map_err(|source| RoundsError::Report { source })?;
        // A hook that comes in between has not waited for what the timer waits for: only a call of the timer ends it.
        // It does so last: nobody makes up for a call that is cut off after that.
        if set && !wanted && self.is_retry {
            turn(false)?;
        }
        Ok(())
    }

    /// Sets the status if it differs from the one that is shown.
    fn report(&self, shown: Shown, status: &Status) -> Result<(), ToolError> {
        let shown = match shown {
            Shown::Is(shown) => Shown::Is(shown),
            Shown::NotAsked => Shown::Is(self.tools.status_get()?),
        };
        if shown.is(status) { Ok(()) } else { self.tools.writer().status_set(status) }
    }
}

/// The status that Juju shows. None: one that no charm can set.
enum Shown {
    NotAsked,
    Is(Option<Status>),
}

impl Shown {
    fn is(&self, status: &Status) -> bool {
        matches!(self, Self::Is(Some(shown)) if shown == status)
    }
}
