//! What the tool box says to the person in front of it: progress on stderr, and how long each phase took. Data goes to
//! stdout and is printed where it is made.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::Result;

/// Prints one line of progress.
pub(crate) fn say(line: &str) {
    // A closed stderr (`2>&-`, a pager that was quit) is no reason to stop working.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Renders a duration as people say it: `4.2 s`, `75 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 10.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}

/// Measures the phases of one command and can list them at the end.
pub(crate) struct Phases {
    begun: Instant,
    finished: Vec<(String, Duration)>,
}

impl Phases {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now(), finished: Vec::new() }
    }

    /// Runs one phase, says its name before and its time after.
    pub(crate) fn phase<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        say(&format!("== {name}"));
        let begun = Instant::now();
        let outcome = work();
        let taken = begun.elapsed();
        let ending = if outcome.is_ok() { "" } else { " (failed)" };
        say(&format!("== {name}: {}{ending}", seconds(taken)));
        self.finished.push((name.to_owned(), taken));
        outcome
    }

    /// Returns one line with every phase and the whole.
    pub(crate) fn summary(&self) -> String {
        let mut parts: Vec<String> =
            self.finished.iter().map(|(name, taken)| format!("{name} {}", seconds(*taken))).collect();
        parts.push(format!("together {}", seconds(self.begun.elapsed())));
        parts.join(", ")
    }
}

/// A line that is rewritten in place on a terminal, and printed anew only when it says something new elsewhere.
pub(crate) struct ProgressLine {
    terminal: bool,
    said: String,
}

impl ProgressLine {
    pub(crate) fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), said: String::new() }
    }

    /// Shows `text`, with the time that has gone by in front.
    pub(crate) fn show(&mut self, elapsed: Duration, text: &str) {
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K{:>4} s  {text}", elapsed.as_secs());
            let _ = std::io::stderr().flush();
        } else if self.said != text {
            say(&format!("{:>4} s  {text}", elapsed.as_secs()));
        }
        text.clone_into(&mut self.said);
    }

    /// Ends the line, so that what follows begins on a new one.
    pub(crate) fn end(&self) {
        if self.terminal && !self.said.is_empty() {
            say("");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_times_keep_a_decimal() {
        assert_eq!(seconds(Duration::from_millis(4_240)), "4.2 s");
        assert_eq!(seconds(Duration::from_millis(75_400)), "75 s");
    }

    #[test]
    fn a_failed_phase_is_still_in_the_summary() {
        let mut phases = Phases::begin();
        assert!(phases.phase("image", || -> Result<()> { anyhow::bail!("no network") }).is_err());
        assert!(phases.summary().starts_with("image "), "{}", phases.summary());
    }
}
