//! systemd units: what they do, and making them do something else.

use crate::command::{Command, CommandError};
use crate::files::{self, Access, FileError};
use crate::machine::{Host, HostWriter, MachineError};
use std::time::Duration;

/// A start may wait for a daemon to say that it is ready; this is when we stop waiting, not when systemd does.
const JOB_DEADLINE: Duration = Duration::from_secs(120);

/// Sending a signal waits for nobody.
const KILL_DEADLINE: Duration = Duration::from_secs(5);

/// Where unit files and drop-ins of administrators are, and ours.
const UNITS: &str = "/etc/systemd/system";
/// Where unit files are that the next boot takes away.
const RUNTIME_UNITS: &str = "/run/systemd/system";

/// What systemd says about a unit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnitState {
    /// `loaded`, `not-found`, `masked` …
    pub load: String,
    /// `active`, `inactive`, `activating`, `deactivating`, `failed` …
    pub active: String,
    /// `running`, `dead`, `start`, `auto-restart` …
    pub sub: String,
    /// `success`, `exit-code`, `signal`, `timeout` …: how the last run ended.
    pub result: String,
    /// The main process, if there is one. Changes with each reconfigure: never keep it.
    pub main_pid: Option<u32>,
    /// When its main process was started, in seconds since 1970. A reconfigure replaces the process without a start.
    pub main_started: Option<u64>,
    /// Another one for each start, whoever asked for it.
    pub invocation: String,
    /// Who is killed when the unit stops. slurmd needs `process`: with anything else its jobs die with it.
    pub kill_mode: String,
    /// The unit file or a drop-in is newer than what systemd has read.
    pub needs_daemon_reload: bool,
}

impl UnitState {
    /// Tells whether the unit exists on this machine.
    pub fn exists(&self) -> bool {
        self.load != "not-found"
    }

    /// Tells whether the daemon is up. For slurmd and slurmctld that is not yet "registered" or "serving".
    pub fn is_active(&self) -> bool {
        matches!(self.active.as_str(), "active" | "reloading")
    }

    /// Tells whether systemd is at work on a start.
    pub fn is_starting(&self) -> bool {
        self.active == "activating"
    }
}

/// Asks for the state of one unit. A unit that does not exist has the load state `not-found`.
pub fn state(host: &Host, unit: &str) -> Result<UnitState, CommandError> {
    let states = states(host, &[unit])?;
    Ok(states.into_iter().next().unwrap_or_default())
}

/// Asks for the state of several units with one process. The answers come in the order of the question.
pub fn states(host: &Host, units: &[&str]) -> Result<Vec<UnitState>, CommandError> {
    const PROPERTIES: &str = "LoadState,ActiveState,SubState,Result,MainPID,\
        ExecMainStartTimestamp,InvocationID,KillMode,NeedDaemonReload";
    let command =
        systemctl(host).args(["show", "--timestamp=unix", "--property", PROPERTIES, "--"]).args(units.iter().copied());
    let output = command.run()?;
    let states: Vec<UnitState> =
        output.stdout.split("\n\n").filter(|block| !block.trim().is_empty()).map(parse_state).collect();
    if states.len() != units.len() || states.iter().any(|state| state.load.is_empty() || state.active.is_empty()) {
        return Err(command.unreadable(format_args!("expected {} units, found {}", units.len(), states.len())));
    }
    Ok(states)
}

fn parse_state(block: &str) -> UnitState {
    let mut state = UnitState::default();
    for (name, value) in block.lines().filter_map(|line| line.split_once('=')) {
        match name {
            "LoadState" => state.load = value.to_owned(),
            "ActiveState" => state.active = value.to_owned(),
            "SubState" => state.sub = value.to_owned(),
            "Result" => state.result = value.to_owned(),
            "MainPID" => state.main_pid = value.parse().ok().filter(|pid| *pid != 0),
            "ExecMainStartTimestamp" => state.main_started = value.strip_prefix('@').and_then(|time| time.parse().ok()),
            "InvocationID" => state.invocation = value.to_owned(),
            "KillMode" => state.kill_mode = value.to_owned(),
            "NeedDaemonReload" => state.needs_daemon_reload = value == "yes",
            _ => {}
        }
    }
    state
}

/// Returns the command line of a running process. `None`: it is gone.
///
/// What a daemon runs with decides whether it has to be restarted, not what was written to a file.
pub fn command_line(host: &Host, pid: u32) -> Result<Option<Vec<String>>, FileError> {
    let raw = match files::read(host, format!("/proc/{pid}/cmdline")) {
        Ok(raw) => raw,
        // The process ended between opening and reading.
        Err(FileError::Access { source, .. }) if source.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32) => None,
        Err(error) => return Err(error),
    };
    let words = raw.map(|raw| {
        let text = String::from_utf8_lossy(&raw).into_owned();
        text.strip_suffix('\0').unwrap_or(&text).split('\0').map(str::to_owned).collect::<Vec<_>>()
    });
    Ok(words.filter(|words| words.iter().any(|word| !word.is_empty())))
}

/// Starts a unit and does not wait for it: slurmd without a reachable controller stays in `activating`.
pub fn start_no_block(writer: &HostWriter, unit: &str) -> Result<(), CommandError> {
    job(writer, &["start", "--no-block", "--", unit])
}

/// Restarts a unit and does not wait for it.
pub fn restart_no_block(writer: &HostWriter, unit: &str) -> Result<(), CommandError> {
    job(writer, &["restart", "--no-block", "--", unit])
}

/// Restarts a unit and waits until it is ready.
pub fn restart(writer: &HostWriter, unit: &str) -> Result<(), CommandError> {
    job(writer, &["restart", "--", unit])
}

/// Has a unit reload its configuration. For slurmctld this says nothing about whether the configuration was accepted.
pub fn reload(writer: &HostWriter, unit: &str) -> Result<(), CommandError> {
    job(writer, &["reload", "--", unit])
}

/// Stops a unit and waits until it is gone.
pub fn stop(writer: &HostWriter, unit: &str) -> Result<(), CommandError> {
    job(writer, &["stop", "--", unit])
}

/// Stops a unit and does not wait for it.
pub fn stop_no_block(writer: &HostWriter, unit: &str) -> Result<(), CommandError> {
    job(writer, &["stop", "--no-block", "--", unit])
}

/// Starts a command as a unit of its own, and does not wait for it. Fails while that unit still runs.
pub fn run_once(writer: &HostWriter, unit: &str, command: &[String], limit: Duration) -> Result<(), CommandError> {
    writer
        .command("systemd-run")
        .args(["--quiet", "--collect", "--no-block"])
        .arg(format!("--unit={unit}"))
        .arg(format!("--property=RuntimeMaxSec={}", limit.as_secs()))
        .arg("--")
        .args(command.iter().cloned())
        .deadline(JOB_DEADLINE)
        .run()
        .map(drop)
}

/// Ends all processes of a unit the hard way.
pub fn kill(writer: &HostWriter, unit: &str) -> Result<(), CommandError> {
    let command = systemctl(writer.host()).args(["kill", "--signal=KILL", "--", unit]);
    command.deadline(KILL_DEADLINE).run().map(drop)
}

/// Has a unit start with the machine.
pub fn enable(writer: &HostWriter, unit: &str) -> Result<(), CommandError> {
    job(writer, &["--quiet", "enable", "--", unit])
}

/// Has a unit not start with the machine.
pub fn disable(writer: &HostWriter, unit: &str) -> Result<(), CommandError> {
    job(writer, &["--quiet", "disable", "--", unit])
}

/// Forgets that a unit failed, so that it may be started again at once.
pub fn reset_failed(writer: &HostWriter, unit: &str) -> Result<(), CommandError> {
    job(writer, &["reset-failed", "--", unit])
}

/// Has systemd read unit files and drop-ins again.
pub fn daemon_reload(writer: &HostWriter) -> Result<(), CommandError> {
    job(writer, &["daemon-reload"])
}

/// Reads what [`ensure_drop_in`] wrote. `None`: there is none.
pub fn read_drop_in(host: &Host, unit: &str, name: &str) -> Result<Option<String>, FileError> {
    files::read_text(host, format!("{UNITS}/{unit}.d/{name}.conf"))
}

/// Reads what [`ensure_unit_file`] wrote. `None`: there is none.
pub fn read_unit_file(host: &Host, unit: &str) -> Result<Option<String>, FileError> {
    files::read_text(host, format!("{UNITS}/{unit}"))
}

/// Writes `/etc/systemd/system/<unit>.d/<name>.conf` and has systemd read it, both only if it is different. Tells
/// whether it was.
///
/// A process killed between the two leaves [`UnitState::needs_daemon_reload`] set.
pub fn ensure_drop_in(writer: &HostWriter, unit: &str, name: &str, text: &str) -> Result<bool, MachineError> {
    ensure_unit_file_in(writer, &format!("{UNITS}/{unit}.d"), &format!("{name}.conf"), text)
}

/// Writes a unit file of our own, `/etc/systemd/system/<unit>`, and has systemd read it, both only if it is different.
/// Tells whether it was.
pub fn ensure_unit_file(writer: &HostWriter, unit: &str, text: &str) -> Result<bool, MachineError> {
    ensure_unit_file_in(writer, UNITS, unit, text)
}

/// Does what [`ensure_unit_file`] does, until the next boot.
pub(crate) fn ensure_runtime_unit_file(writer: &HostWriter, unit: &str, text: &str) -> Result<bool, MachineError> {
    ensure_unit_file_in(writer, RUNTIME_UNITS, unit, text)
}

fn ensure_unit_file_in(writer: &HostWriter, directory: &str, unit: &str, text: &str) -> Result<bool, MachineError> {
    files::ensure_directory(writer, directory, &Access::own(0o755))?;
    let changed = files::replace(writer, format!("{directory}/{unit}"), text.as_bytes(), &Access::own(0o644))?;
    if changed {
        daemon_reload(writer)?;
    }
    Ok(changed)
}

/// Returns the text of a service that runs `command` once, for `OnFailure=` of another unit or for a timer. A run that
/// fails is forgotten: only the journal tells of it.
///
/// A percent or dollar sign in an argument stays what it is.
pub fn one_shot_service(description: &str, command: &[String], limit: Duration) -> String {
    let quoted: Vec<String> = command
        .iter()
        .map(|word| {
            let mut quoted = String::from("\"");
            for character in word.chars().filter(|character| !character.is_control()) {
                match character {
                    '"' | '\\' => quoted.extend(['\\', character]),
                    '%' | '$' => quoted.extend([character, character]),
                    _ => quoted.push(character),
                }
            }
            quoted + "\""
        })
        .collect();
    let (limit, quoted) = (limit.as_secs(), quoted.join(" "));
    format!(
        "[Unit]\nDescription={description}\nCollectMode=inactive-or-failed\n\n\
         [Service]\nType=oneshot\nTimeoutStartSec={limit}\nExecStart={quoted}\n"
    )
}

fn systemctl(host: &Host) -> Command {
    host.command("systemctl").arg("--no-pager").arg("--no-ask-password")
}

fn job(writer: &HostWriter, arguments: &[&str]) -> Result<(), CommandError> {
    systemctl(writer.host()).args(arguments.iter().copied()).deadline(JOB_DEADLINE).run().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_service_stay_words() {
        let command = ["/usr/bin/x".to_owned(), "a b\"c\\d%e$f\ng".to_owned()];
        let text = one_shot_service("Tells somebody", &command, Duration::from_secs(9));
        assert!(text.ends_with("TimeoutStartSec=9\nExecStart=\"/usr/bin/x\" \"a b\\\"c\\\\d%%e$$fg\"\n"), "{text}");
    }
}
