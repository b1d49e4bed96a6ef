//! Transient timers of systemd: they call a command again and again until they are stopped, and do not survive a boot.

use crate::command::CommandError;
use crate::machine::{Host, HostWriter};
use crate::systemd;
use std::time::Duration;

/// When a timer calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rhythm<'a> {
    /// When it calls first, counted from its start.
    pub first: &'a [Duration],
    /// The pause after each call once those are over.
    pub repeat: Duration,
    /// How long one call may take.
    pub limit: Duration,
}

/// Tells whether a timer is set. Costs no process: systemd keeps a file for each.
pub fn is_set(host: &Host, name: &str) -> bool {
    host.path(format!("/run/systemd/transient/{name}.timer")).exists()
}

/// Sets a timer that calls a command again and again, unless it is set, and tells whether it was not. `name` is that of the timer and of the
/// service it starts, without suffix: `compute-0-look-again`.
///
/// A call that fails is made up for by the next. systemd starts no service that still runs, so calls never pile up.
pub fn ensure_set(
    writer: &HostWriter,
    name: &str,
    command: &[String],
    rhythm: &Rhythm<'_>,
) -> Result<bool, CommandError> {
    if is_set(writer.host(), name) {
        return Ok(false);
    }
    let command = writer
        .command("systemd-run")
        .arg(format!("--unit={name}"))
        .arg("--description=Calls a charm that waits for something")
        .args(["--collect", "--quiet"])
        .arg(format!("--property=RuntimeMaxSec={}", rhythm.limit.as_secs()))
        // systemd else gathers what is due within a minute.
        .arg("--timer-property=AccuracySec=100ms")
        .args(rhythm.first.iter().map(|after| format!("--on-active={}", after.as_secs())))
        .arg(format!("--on-unit-inactive={}", rhythm.repeat.as_secs()))
        .arg("--")
        .args(command.iter().cloned());
    command.run().map(|_| true)
}

/// Ends a timer, and tells whether it was set. A call in progress goes on.
pub fn ensure_ended(writer: &HostWriter, name: &str) -> Result<bool, CommandError> {
    if !is_set(writer.host(), name) {
        return Ok(false);
    }
    systemd::stop(writer, &format!("{name}.timer")).map(|()| true)
}
