//! One dispatch from start to exit code: the whole `main` of a charm.
//!
//! | exit code | meaning |
//! | --- | --- |
//! | 0 | done; also an action that was refused, which tells its reason through `action-fail` |
//! | 1 | the machine or Juju failed; the log has the chain of causes, and Juju runs a failed hook again |
//! | 2 | not started by Juju, or in an environment no Juju makes |
//! | 101 | a defect of the charm; the log has its place |

use crate::action::{ActionFailure, ActionResults};
use crate::context::Context;
use crate::event::{ActionName, Event};
use crate::log::{Journal, chain};
use crate::reconcile::{Reconciler, reconcile};
use crate::tools::unit::LogLevel;
use crate::tools::{ToolError, Tools};
use std::process::ExitCode;

/// A charm: a reconciler that also answers actions.
pub trait Charm: Reconciler + Sized {
    /// The private event names that this charm's own timers send.
    const TIMERS: &'static [&'static str];

    /// Takes what one dispatch has to go on.
    fn new(ctx: Context, tools: Tools) -> Self;

    /// Answers an action.
    fn act(&mut self, action: &ActionName) -> Result<ActionResults, ActionFailure>;
}

/// Runs one dispatch.
pub fn run<C: Charm>() -> ExitCode {
    let ctx = match Context::from_environment(C::TIMERS) {
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
    dispatch_into(&journal, quiet_output, ctx, &tools, C::new)
}

/// Runs one dispatch of a charm that `make` puts together, with whatever answers its tools. For tests: it leaves alone
/// what belongs to the process, which are standard output and what happens at a panic.
pub fn dispatch<C: Charm>(ctx: Context, tools: &Tools, make: impl FnOnce(Context, Tools) -> C) -> ExitCode {
    dispatch_into(&Journal::default(), true, ctx, tools, make)
}

fn dispatch_into<C: Charm>(
    journal: &Journal,
    quiet_output: bool,
    ctx: Context,
    tools: &Tools,
    make: impl FnOnce(Context, Tools) -> C,
) -> ExitCode {
    let subject = format!("{} {}", ctx.unit, ctx.event);
    let event = ctx.event.clone();
    let code = journal.during(quiet_output, || {
        let mut charm = make(ctx, tools.clone());
        match &event {
            Event::Action(name) => answer(&mut charm, name, &subject, tools),
            _ => settle(&mut charm, &subject, tools, journal),
        }
    });
    journal.flush(tools);
    code
}

fn settle<C: Charm>(charm: &mut C, subject: &str, tools: &Tools, journal: &Journal) -> ExitCode {
    match reconcile(charm, tools, journal) {
        Ok(steps) if steps.is_empty() => {
            tracing::info!("{subject}: nothing to do");
            ExitCode::SUCCESS
        }
        Ok(steps) => {
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

fn answer<C: Charm>(charm: &mut C, name: &ActionName, subject: &str, tools: &Tools) -> ExitCode {
    let told = match charm.act(name) {
        Ok(results) => {
            tracing::info!("{subject}: done");
            tools.writer().send().and_then(|()| set_results(tools, &results)).map(|()| ExitCode::SUCCESS)
        }
        Err(ActionFailure::Refused(reason)) => {
            tracing::info!("{subject}: refused: {reason}");
            tools.writer().action_fail(&reason).map(|()| ExitCode::SUCCESS)
        }
        Err(ActionFailure::Failed(results, reason)) => {
            tracing::info!("{subject}: failed: {reason}");
            set_results(tools, &results).and_then(|()| tools.writer().action_fail(&reason)).map(|()| ExitCode::SUCCESS)
        }
        Err(ActionFailure::Broken(error)) => {
            let text = chain(error.as_ref());
            tracing::error!("{subject}: {text}");
            // With this exit code Juju's message is only `exit status 1`, so the reason goes where an operator sees it.
            tools.writer().action_log(&text).map(|()| ExitCode::FAILURE)
        }
    };
    told.unwrap_or_else(|error| {
        tracing::error!("{subject}: {}", chain(&error));
        ExitCode::FAILURE
    })
}

pub(crate) fn set_results(tools: &Tools, results: &ActionResults) -> Result<(), ToolError> {
    match results.entries() {
        [] => Ok(()),
        entries => tools.writer().action_set(entries),
    }
}

/// A panic is logged with its place before the process ends with 101.
pub(crate) fn report_panics(journal: Journal, tools: Tools) {
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        journal.push(LogLevel::Error, format!("defect in the charm{place}: {text}"));
        journal.flush(&tools);
    }));
}
