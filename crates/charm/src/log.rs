//! From `tracing` to the model's log.
//!
//! Every `juju-log` is a process, so lines are gathered and sent in batches: neighbours of one level share a call.
//! Debug lines go to standard output instead, which the agent logs at that very level at no cost; in an action, where
//! standard output would become part of the result, they are dropped.

use crate::tools::Tools;
use crate::tools::unit::LogLevel;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Lines on their way to the log.
#[derive(Clone, Default)]
pub struct Journal {
    lines: Arc<Mutex<Vec<(LogLevel, String)>>>,
}

/// More than this is split over several calls: one argument of a process has its limit at 128 KiB.
const BATCH: usize = 32 * 1024;

impl Journal {
    /// Gathers what this thread logs while `work` runs. `quiet_output` keeps debug lines off standard output.
    pub fn during<T>(&self, quiet_output: bool, work: impl FnOnce() -> T) -> T {
        let layer = JournalLayer { journal: self.clone(), quiet_output };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work)
    }

    /// Adds one line.
    pub fn push(&self, level: LogLevel, line: String) {
        // A poisoned lock only means that some line was lost in a panic that is being reported right now.
        self.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((level, line));
    }

    /// Sends what has been gathered. A log that cannot be written is told on standard error and stops nothing.
    pub fn flush(&self, tools: &Tools) {
        let lines = std::mem::take(&mut *self.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        for (level, text) in batches(lines) {
            if let Err(error) = tools.writer().juju_log(level, &text) {
                let _ = writeln!(std::io::stderr(), "{text}\n({error})");
            }
        }
    }
}

fn batches(lines: Vec<(LogLevel, String)>) -> Vec<(LogLevel, String)> {
    let mut batches: Vec<(LogLevel, String)> = Vec::new();
    for (level, mut line) in lines {
        if let Some((end, _)) = line.char_indices().find(|(start, _)| *start >= BATCH) {
            line.truncate(end);
        }
        match batches.last_mut() {
            Some((last, text)) if *last == level && text.len() + line.len() < BATCH => {
                text.push('\n');
                text.push_str(&line);
            }
            _ => batches.push((level, line)),
        }
    }
    batches
}

struct JournalLayer {
    journal: Journal,
    quiet_output: bool,
}

impl<S: Subscriber> Layer<S> for JournalLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = match *event.metadata().level() {
            Level::ERROR => LogLevel::Error,
            Level::WARN => LogLevel::Warning,
            Level::INFO => LogLevel::Info,
            Level::DEBUG => LogLevel::Debug,
            Level::TRACE => return,
        };
        let mut line = Line::default();
        event.record(&mut line);
        let line = line.message + &line.fields;
        match level {
            LogLevel::Debug if self.quiet_output => {}
            LogLevel::Debug => {
                let _ = writeln!(std::io::stdout(), "{line}");
            }
            _ => self.journal.push(level, line),
        }
    }
}

/// The message first, then `key=value` for each field.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value}"),
            name => write!(self.fields, " {name}={value}"),
        };
    }
}

/// Writes an error and all its causes in one line, as it belongs at the top and nowhere else.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(level: LogLevel, text: &str) -> (LogLevel, String) {
        (level, text.to_owned())
    }

    #[test]
    fn neighbours_of_one_level_share_a_call_and_order_is_kept() {
        let lines = vec![
            line(LogLevel::Info, "one"),
            line(LogLevel::Info, "two"),
            line(LogLevel::Error, "three"),
            line(LogLevel::Info, "four"),
        ];
        let expected =
            vec![line(LogLevel::Info, "one\ntwo"), line(LogLevel::Error, "three"), line(LogLevel::Info, "four")];
        assert_eq!(batches(lines), expected);
    }

    #[test]
    fn a_batch_never_exceeds_what_one_argument_may_hold() {
        let lines = vec![line(LogLevel::Info, &"ä".repeat(BATCH)), line(LogLevel::Info, &"b".repeat(BATCH / 2))];
        let batches = batches(lines);
        assert_eq!(batches.len(), 2);
        assert!(batches.iter().all(|(_, text)| text.len() <= BATCH + 4));
    }

    #[test]
    fn an_error_is_told_with_its_causes_once_each() {
        #[derive(Debug, thiserror::Error)]
        #[error("could not start slurmd")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("no such unit"));
        assert_eq!(chain(&error), "could not start slurmd: no such unit");
    }

    #[test]
    fn fields_follow_the_message() {
        let journal = Journal::default();
        let layer = JournalLayer { journal: journal.clone(), quiet_output: true };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(steps = 2, event = "start", "settled");
            tracing::debug!("quiet");
        });
        let lines = journal.lines.lock().unwrap().clone();
        assert_eq!(lines, vec![line(LogLevel::Info, "settled steps=2 event=start")]);
    }
}
