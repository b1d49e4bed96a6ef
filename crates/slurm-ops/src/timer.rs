//! Timers of systemd that call a command again and again until they are ended, and do not survive a boot.
//!
//! The service that makes the call is a file of ours, and only the timer is transient. A transient service would still
//! be loaded while its call waits for Juju's lock, and systemd then refuses to make another timer of that name: the
//! very hook or action that holds the lock could not set one.

use crate::files;
use crate::machine::{Host, HostWriter, MachineError};
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
    files::exists(host, format!("/run/systemd/transient/{name}.timer"))
}

/// Sets a timer that calls a command again and again, unless it is set, and tells whether it was not. `name` is that of
/// the timer and of the service it starts, without suffix: `compute-0-look-again`. A call of an earlier timer may still
/// be in progress, or be who asks.
///
/// A call that fails is made up for by the next. systemd starts no service that still runs, so calls never pile up.
pub fn ensure_set(
    writer: &HostWriter,
    name: &str,
    command: &[String],
    rhythm: &Rhythm<'_>,
) -> Result<bool, MachineError> {
    if is_set(writer.host(), name) {
        return Ok(false);
    }
    let service = systemd::one_shot_service("Calls a charm that waits for something", command, rhythm.limit);
    systemd::ensure_runtime_unit_file(writer, &format!("{name}.service"), &service)?;
    writer
        .command("systemd-run")
        .arg(format!("--unit={name}.service"))
        .arg("--quiet")
        // systemd else gathers what is due within a minute.
        .arg("--timer-property=AccuracySec=100ms")
        // A timer that begins anew several times within seconds is no failure. One that systemd calls failed stays
        // there, and never calls.
        .arg("--timer-property=StartLimitIntervalSec=0")
        .args(rhythm.first.iter().map(|after| format!("--on-active={}", after.as_secs())))
        .arg(format!("--on-unit-inactive={}", rhythm.repeat.as_secs()))
        .run()?;
    Ok(true)
}

/// Has a timer begin its rhythm anew, whether it is set or not. There is no moment in which one that was set is not.
pub fn restart(writer: &HostWriter, name: &str, command: &[String], rhythm: &Rhythm<'_>) -> Result<(), MachineError> {
    if !ensure_set(writer, name, command, rhythm)? {
        systemd::restart(writer, &format!("{name}.timer"))?;
    }
    Ok(())
}

/// Ends a timer, and tells whether it was set. A call in progress goes on.
pub fn ensure_ended(writer: &HostWriter, name: &str) -> Result<bool, MachineError> {
    if !is_set(writer.host(), name) {
        return Ok(false);
    }
    systemd::stop(writer, &format!("{name}.timer"))?;
    Ok(true)
}
