//! The guard: asks before each start of slurmctld whether it may, for `ExecStartPre=`, and asks for control where
//! another controller serves in its place.

use super::{Settings, control, look, settings};
use crate::hostname;
use crate::machine::{Host, Machine};
use crate::sentinel::{self, Sentinel};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a fence that was started in the same moment may take to say something.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the marker may take.
const DEADLINE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

/// Is the guard: succeeds if slurmctld may start on this machine, and else says why not.
pub fn guard() -> ExitCode {
    let machine = Machine::new().with_store_deadline(DEADLINE);
    match may_start(&machine.host(), PATIENCE).and_then(|settings| ask_for_control(&machine, &settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("slurmctld must not start: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Tells whether slurmctld may start, or why not.
pub fn may_start(host: &Host, patience: Duration) -> Result<Settings, String> {
    let settings = settings(host).ok_or("the fence has no settings")?;
    fence_is_open(host, patience)?;
    marker_is_right(host, &settings)?;
    Ok(settings)
}

fn ask_for_control(machine: &Machine, settings: &Settings) -> Result<(), String> {
    let Ok(own) = hostname::short(&machine.host()) else { return Ok(()) };
    control::ask(&machine.writer(), settings, own.as_str())
}

fn fence_is_open(host: &Host, patience: Duration) -> Result<(), String> {
    let end = Instant::now() + patience;
    loop {
        let state = look(host);
        match &state {
            Some(state) if state.is_open() => return Ok(()),
            Some(state) if !state.stale => {
                let why = state.why.as_ref().map_or_else(|| "it does not say why".to_owned(), ToString::to_string);
                return Err(format!("the fence is closed: {why}"));
            }
            _ if Instant::now() >= end => return Err("the fence does not run".to_owned()),
            _ => std::thread::sleep(PAUSE),
        }
    }
}

fn marker_is_right(host: &Host, settings: &Settings) -> Result<(), String> {
    match sentinel::verify(host, &settings.state_directory, &settings.marker) {
        Sentinel::Ours => Ok(()),
        Sentinel::Absent => Err(format!("{} has no marker of a cluster", settings.state_directory)),
        Sentinel::Other { found } => Err(format!("{} belongs to `{found}`", settings.state_directory)),
        Sentinel::Unreadable { why } => Err(why),
    }
}
