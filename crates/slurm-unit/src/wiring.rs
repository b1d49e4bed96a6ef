//! `impl Charm`, which is the same for every charm of a Slurm daemon but for the names of its parts.

/// Writes a charm's type and its `impl Charm`.
///
/// The parts are found by name in the modules beside it: `facts::{Facts, Question, Fact, look}`, `plan::plan`,
/// `step::{Step, Outcome}`, `apply::{apply, learn}`, `condition::{Condition, status}` and `actions::act`. What the
/// retry timer and the failure of a daemon call for is alike everywhere. `$machine` is the machine that a dispatch
/// works on, `$announce` says what a slow step is doing, and `$is_wait` which steps only let time pass.
#[macro_export]
macro_rules! wire_charm {
    ($charm:ident, $machine:expr $(, announce: $announce:path)? $(, is_wait: $is_wait:path)?) => {
        /// The charm.
        pub struct $charm;

        impl ::charm::runtime::Charm for $charm {
            const EVENTS: &'static [&'static str] = &[$crate::retry::EVENT, $crate::service::FAILURE_EVENT];
            const RETRY: &'static str = $crate::retry::EVENT;

            type View = $crate::View;
            type Hands = $crate::Hands;
            type Facts = facts::Facts;
            type Step = step::Step;
            type Outcome = step::Outcome;
            type Condition = condition::Condition;
            type Error = $crate::Error;

            fn begin(ctx: ::charm::Context, tools: &::charm::Tools) -> ($crate::View, $crate::Hands) {
                $crate::View::split(ctx, tools, &$machine)
            }

            fn look(
                view: &$crate::View,
                question: facts::Question,
                known: &facts::Facts,
            ) -> Result<facts::Fact, $crate::Error> {
                facts::look(view, question, known)
            }

            fn plan(
                facts: &facts::Facts,
                attempts: &::charm::runtime::AttemptsOf<Self>,
            ) -> ::charm::runtime::Planned<Self> {
                plan::plan(facts, attempts)
            }

            fn apply(hands: &$crate::Hands, step: &step::Step) -> Result<step::Outcome, $crate::Error> {
                apply::apply(hands, step)
            }

            fn learn(facts: &mut facts::Facts, step: &step::Step, outcome: &step::Outcome) {
                apply::learn(facts, step, outcome);
            }

            fn status(facts: &facts::Facts, conditions: &[condition::Condition]) -> ::charm::Status {
                condition::status(facts, conditions)
            }

            $(fn announce(step: &step::Step) -> Option<::charm::Status> {
                $announce(step)
            })?

            $(fn is_wait(step: &step::Step) -> bool {
                $is_wait(step)
            })?

            fn retry_timer_is_set(view: &$crate::View) -> bool {
                $crate::retry::is_set(view)
            }

            fn set_retry_timer(hands: &$crate::Hands, set: bool) -> Result<(), $crate::Error> {
                $crate::retry::set(hands, set)
            }

            fn act(
                dispatch: &::charm::runtime::Dispatch<'_, Self>,
                action: &::charm::ActionName,
            ) -> Result<::charm::ActionResults, ::charm::ActionFailure> {
                actions::act(dispatch, action)
            }
        }
    };
}
