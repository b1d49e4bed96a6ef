//! Transient timers of systemd: they call a command again and again until they are stopped, and do not survive a boot.

use crate::command::CommandError;
use crate::machine::Machine;
use crate::systemd;
use std::time::Duration;

/// A command that is called again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransientTimer {
    /// The name of the timer and of the service it starts, without suffix: `compute-0-look-again`.
    pub name: String,
    /// What it is for, for whoever lists timers.
    pub description: String,
    /// When it calls first, counted from its start.
    pub first: Vec<Duration>,
    /// The pause after each call once those are over.
    pub repeat: Duration,
    /// How long one call may take.
    pub limit: Duration,
    /// What it runs.
    pub command: Vec<String>,
}

/// Tells whether a timer is set. Costs no process: systemd keeps a file for each.
pub fn is_set(machine: &Machine, name: &str) -> bool {
    machine.path(format!("/run/systemd/transient/{name}.timer")).exists()
}

/// Sets a timer unless it is set, and tells whether it was not.
///
/// A call that fails is made up for by the next. systemd starts no service that still runs, so calls never pile up.
pub fn ensure_set(machine: &Machine, timer: &TransientTimer) -> Result<bool, CommandError> {
    if is_set(machine, &timer.name) {
        return Ok(false);
    }
    let command = machine
        .command("systemd-run")
        .arg(format!("--unit={}", timer.name))
        .arg(format!("--description={}", timer.description))
        .args(["--collect", "--quiet"])
        .arg(format!("--property=RuntimeMaxSec={}", timer.limit.as_secs()))
        // systemd else gathers what is due within a minute.
        .arg("--timer-property=AccuracySec=100ms")
        .args(timer.first.iter().map(|after| format!("--on-active={}", after.as_secs())))
        .arg(format!("--on-unit-inactive={}", timer.repeat.as_secs()))
        .arg("--")
        .args(timer.command.iter().cloned());
    command.run().map(|_| true)
}

/// Ends a timer, and tells whether it was set. A call in progress goes on.
pub fn ensure_ended(machine: &Machine, name: &str) -> Result<bool, CommandError> {
    if !is_set(machine, name) {
        return Ok(false);
    }
    systemd::stop(machine, &format!("{name}.timer")).map(|()| true)
}
