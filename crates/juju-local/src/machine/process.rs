//! Processes that outlive this one: told apart from a later process with the same number.

use std::fs;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// A process by number, start time and boot of the host, so that a recycled number is never mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    pub(super) pid: i32,
    /// Clock ticks since the host's boot.
    started: u64,
    /// The host's boot.
    boot: String,
}

impl Process {
    /// Looks at a process that is there now.
    pub(super) fn of(pid: i32) -> Result<Process> {
        let Some(started) = start_time(pid) else { bail!("process {pid} is gone") };
        Ok(Process { pid, started, boot: boot_id()? })
    }

    /// Says whether it is still there, and not merely waiting to be collected.
    pub(super) fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.started) && boot_id().is_ok_and(|boot| boot == self.boot)
    }

    /// Sends a signal, unless the process is gone.
    pub(super) fn signal(&self, signal: Signal) {
        if self.is_alive() {
            // Gone in between is as good as signalled.
            kill(Pid::from_raw(self.pid), signal).ok();
        }
    }
}

/// The boot of this host; empty if it cannot be told.
pub(crate) fn host_boot() -> String {
    boot_id().unwrap_or_default()
}

fn boot_id() -> Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").context("could not tell the boot of this host")?;
    Ok(text.trim().to_owned())
}

/// Start time of a living process.
fn start_time(pid: i32) -> Option<u64> {
    parse_start_time(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of `/proc/PID/stat`, unless field 3 says that the process is dead.
fn parse_start_time(stat: &str) -> Option<u64> {
    // The name, field 2, may hold blanks and brackets; the last bracket ends it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    if matches!(fields.next()?, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Value of a line of `/proc/PID/status`.
pub(super) fn status_field(pid: i32, key: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Numbers of all processes but this one.
pub(super) fn others() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|pid| u32::try_from(*pid) != Ok(std::process::id())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        assert_eq!(parse_start_time(&format!("7 (a) S (b) S {REST}")), Some(4711));
    }

    #[test]
    fn a_zombie_is_not_alive() {
        assert_eq!(parse_start_time(&format!("7 (a) Z {REST}")), None);
    }

    #[test]
    fn a_process_is_known_by_its_start_time() {
        let this = Process::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(this.is_alive());
        assert!(!Process { started: this.started + 1, ..this }.is_alive());
    }
}
