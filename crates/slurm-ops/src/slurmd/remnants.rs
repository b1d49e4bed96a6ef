//! Processes of slurmd that outlive their time, and their end.
//!
//! A reconfigure makes slurmd start its successor. Now and then the fork on the way there never returns: systemd goes on watching the old
//! process, which no longer reacts to anything, while the successor serves. A stop then lasts until systemd loses patience, and the
//! successor, whom nobody stops, keeps the port from the next slurmd. Jobs have processes of their own, `slurmstepd`, and live on.

use crate::command::CommandError;
use crate::machine::Machine;
use crate::systemd;
use std::fs;
use std::time::{Duration, Instant};

/// Returns the processes of the unit that run slurmd itself, in ascending order.
pub fn processes(machine: &Machine, unit: &str) -> Vec<u32> {
    let entries = fs::read_dir(machine.path("/proc")).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<u32> = numbers.filter(|pid| runs_slurmd(machine, *pid) && is_of(machine, *pid, unit)).collect();
    found.sort_unstable();
    found
}

/// Kills what is left of slurmd in a unit, but for the process to be spared, and returns which those were. The jobs of the node go on.
pub fn end(machine: &Machine, unit: &str, spared: Option<u32>) -> Result<Vec<u32>, CommandError> {
    let found: Vec<u32> = processes(machine, unit).into_iter().filter(|pid| Some(*pid) != spared).collect();
    if !found.is_empty() {
        // One that has ended meanwhile is no failure, and the next look tells whether any is left.
        machine.command("kill").arg("-KILL").args(found.iter().map(u32::to_string)).output()?;
    }
    Ok(found)
}

/// How often to look whether a daemon is up.
const PAUSE: Duration = Duration::from_millis(200);

/// Waits for as long as `patience` until slurmd is up and `is_known` says that the controllers know it, and then no longer: whether they do is
/// for the next look to tell.
///
/// A slurmd that has been told to go and has not by then never will, and keeps the next one from coming. What is left of it is killed and
/// its successor waited for once more. Returns what was killed. The jobs of the node go on.
pub fn await_start(
    machine: &Machine,
    unit: &str,
    patience: Duration,
    is_known: impl Fn() -> bool,
) -> Result<Vec<u32>, CommandError> {
    if await_known(machine, unit, patience, &is_known)? != "deactivating" {
        return Ok(Vec::new());
    }
    let ended = end(machine, unit, None)?;
    await_known(machine, unit, patience, &is_known)?;
    Ok(ended)
}

/// Returns what systemd says of the unit in the end.
fn await_known(
    machine: &Machine,
    unit: &str,
    patience: Duration,
    is_known: &impl Fn() -> bool,
) -> Result<String, CommandError> {
    let end = Instant::now() + patience;
    loop {
        let state = systemd::state(machine, unit)?;
        if (state.is_active() && is_known()) || Instant::now() >= end {
            return Ok(state.active);
        }
        std::thread::sleep(PAUSE.min(patience));
    }
}

/// Without control groups the programs of jobs are in the unit as well, under whatever names their users give them. Debian's slurmd is
/// a link to the second name. A package that was upgraded leaves `(deleted)` behind it.
fn runs_slurmd(machine: &Machine, pid: u32) -> bool {
    let program = fs::read_link(machine.path(format!("/proc/{pid}/exe"))).unwrap_or_default();
    let program = program.to_string_lossy();
    let program = program.strip_suffix(" (deleted)").unwrap_or(&program);
    program.ends_with("/sbin/slurmd") || program.ends_with("/sbin/slurmd-wlm")
}

fn is_of(machine: &Machine, pid: u32, unit: &str) -> bool {
    let groups = fs::read_to_string(machine.path(format!("/proc/{pid}/cgroup"))).unwrap_or_default();
    groups.lines().any(|line| line.split('/').any(|part| part == unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn process(root: &std::path::Path, pid: u32, program: &str, cgroup: &str) {
        let directory = root.join("proc").join(pid.to_string());
        fs::create_dir_all(&directory).unwrap();
        symlink(program, directory.join("exe")).unwrap();
        fs::write(directory.join("cgroup"), format!("1:name=systemd:/x\n0::{cgroup}\n")).unwrap();
    }

    #[test]
    fn only_slurmd_of_this_unit_is_meant_never_a_job_and_never_another_unit() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 20, "/usr/sbin/slurmd", "/system.slice/slurmd.service");
        process(root.path(), 7, "/usr/sbin/slurmd-wlm (deleted)", "/a/system.slice/slurmd.service");
        process(root.path(), 8, "/home/ada/slurmd", "/system.slice/slurmd.service");
        process(root.path(), 21, "/usr/sbin/slurmstepd", "/system.slice/slurmd.service");
        process(root.path(), 22, "/usr/sbin/slurmd", "/user.slice");
        process(root.path(), 23, "/usr/bin/sleep", "/system.slice/slurmd.service");
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        assert_eq!(processes(&Machine::at(root.path()), "slurmd.service"), [7, 20]);
    }
}
