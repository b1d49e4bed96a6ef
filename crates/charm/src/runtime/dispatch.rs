//! One dispatch from start to exit code: the whole `main` of a charm.
//!
//! | exit code | meaning |
//! | --- | --- |
//! | 0 | done; also an action that was refused or broke, which tells its reason through `action-fail` |
//! | 1 | the machine or Juju failed; the log has the chain of causes, and Juju runs a failed hook again |
//! | 2 | not started by Juju, or in an environment no Juju makes |
//! | 101 | a defect of the charm; the log has its place |

use super::{Charm, Settled};
use crate::action::{ActionFailure, ActionResults};
use crate::context::Context;
use crate::event::{ActionName, Event};
use crate::log::{Journal, chain};
use crate::tools::unit::LogLevel;
use crate::tools::{ToolError, Tools};
use std::process::ExitCode;

/// One dispatch under way.
pub struct Dispatch<'a, C: Charm> {
    pub view: C::View,
    pub hands: C::Hands,
    pub tools: &'a Tools,
    pub(super) journal: &'a Journal,
    /// The retry timer called.
    pub(super) is_retry: bool,
}

/// Runs one dispatch.
pub fn run<C: Charm>() -> ExitCode {
    let ctx = match Context::from_environment(C::EVENTS) {
        Ok(ctx) => ctx,
        Err(error) => {
            eprintln!("{}", chain(&error));
            return ExitCode::from(2);
        }
    };
    let tools = Tools::from_path(&ctx.unit);
    let journal = Journal::default();
    report_panics(journal.clone(), tools.clone());
    // In an action standard output would become part of the result.
    let quiet_output = matches!(ctx.event, Event::Action(_));
    dispatch_into::<C>(&journal, quiet_output, ctx, &tools, C::begin)
}

/// Runs one dispatch of a charm with the view and the hands that `begin` gives it. For tests: it leaves alone what
/// belongs to the process, which are standard output and what happens at a panic.
pub fn dispatch<C: Charm>(
    ctx: Context,
    tools: &Tools,
    begin: impl FnOnce(Context, &Tools) -> (C::View, C::Hands),
) -> ExitCode {
    dispatch_into::<C>(&Journal::default(), true, ctx, tools, begin)
}

fn dispatch_into<C: Charm>(
    journal: &Journal,
    quiet_output: bool,
    ctx: Context,
    tools: &Tools,
    begin: impl FnOnce(Context, &Tools) -> (C::View, C::Hands),
) -> ExitCode {
    let subject = format!("{} {}", ctx.unit, ctx.event);
    let event = ctx.event.clone();
    let code = journal.during(quiet_output, || {
        let (view, hands) = begin(ctx, tools);
        let is_retry = event == Event::Timer(C::RETRY);
        let dispatch = Dispatch::<C> { view, hands, tools, journal, is_retry };
        match &event {
            Event::Action(name) => dispatch.act(name, &subject),
            _ => dispatch.hook(&subject),
        }
    });
    journal.flush(tools);
    code
}

impl<C: Charm> Dispatch<'_, C> {
    fn hook(&self, subject: &str) -> ExitCode {
        match self.settle() {
            // Juju itself says at INFO that a hook ran. More than that would cost a process in every quiet hook.
            Ok(Settled { steps, .. }) if steps.is_empty() => {
                tracing::debug!("{subject}: nothing to do");
                ExitCode::SUCCESS
            }
            Ok(Settled { steps, .. }) => {
                let count = if steps.len() == 1 { "1 step".to_owned() } else { format!("{} steps", steps.len()) };
                tracing::info!("{subject}: {count}: {}", steps.join(", "));
                ExitCode::SUCCESS
            }
            Err(error) => {
                tracing::error!("{subject}: {}", chain(&error));
                ExitCode::FAILURE
            }
        }
    }

    fn act(&self, name: &ActionName, subject: &str) -> ExitCode {
        let answered = match C::act(self, name) {
            Ok(results) => {
                tracing::info!("{subject}: done");
                self.tools.writer().send().and_then(|()| set_results(self.tools, &results))
            }
            Err(ActionFailure::Refused(reason)) => {
                tracing::info!("{subject}: refused: {reason}");
                self.tools.writer().action_fail(&reason)
            }
            Err(ActionFailure::Failed(results, reason)) => {
                tracing::info!("{subject}: failed: {reason}");
                set_results(self.tools, &results).and_then(|()| self.tools.writer().action_fail(&reason))
            }
            Err(ActionFailure::Broken(error)) => {
                let reason = chain(error.as_ref());
                tracing::error!("{subject}: {reason}");
                // With another exit code than 0 Juju would show `exit status 1` instead of the reason.
                self.tools.writer().action_fail(&reason)
            }
        };
        match answered {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!("{subject}: {}", chain(&error));
                ExitCode::FAILURE
            }
        }
    }
}

fn set_results(tools: &Tools, results: &ActionResults) -> Result<(), ToolError> {
    match results.entries() {
        [] => Ok(()),
        entries => tools.writer().action_set(entries),
    }
}

/// A panic is logged with its place before the process ends with 101.
fn report_panics(journal: Journal, tools: Tools) {
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        journal.push(LogLevel::Error, format!("defect in the charm{place}: {text}"));
        journal.flush(&tools);
    }));
}
