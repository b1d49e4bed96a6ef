//! Processes of slurmd that outlive their time, and their end.
//!
//! A reconfigure makes slurmd start its successor. Now and then the fork on the way there never returns: systemd goes
//! on watching the old process, which no longer reacts to anything, while the successor serves. A stop then lasts until
//! systemd loses patience, and the successor, whom nobody stops, keeps the port from the next slurmd. Jobs have
//! processes of their own, `slurmstepd`, and live on.

use crate::command::CommandError;
use crate::machine::{Host, HostWriter};
use crate::scontrol::{self, NodeLookup};
use crate::systemd;
use slurm_conf::NodeName;
use std::fs;
use std::time::{Duration, Instant};

/// Returns the processes of the unit that run slurmd itself, in ascending order.
pub fn processes(host: &Host, unit: &str) -> Vec<u32> {
    let entries = fs::read_dir(host.path("/proc")).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<u32> = numbers
        .filter(|pid| runs_slurmd(host, *pid) && is_of(host, *pid, unit))
        .filter(|pid| host.owns_process(*pid))
        .collect();
    found.sort_unstable();
    found
}

/// Tells whether a slurmd of the unit has been there for a while beside the one that systemd watches. slurmd itself
/// starts others for moments only, and these become something else.
pub fn has_old(host: &Host, unit: &str, watched: Option<u32>) -> bool {
    let age = |pid: &u32| Process::read(host, *pid).and_then(|process| process.age(host));
    let others = processes(host, unit).into_iter().filter(|pid| Some(*pid) != watched);
    others.filter_map(|pid| age(&pid)).any(|age| age > OLD)
}

/// A process that is as old as this is not one for a moment.
const OLD: Duration = Duration::from_secs(20);

/// What the kernel tells about a process.
struct Process {
    parent: u32,
    /// In ticks since the boot.
    started: u64,
}

impl Process {
    fn read(host: &Host, pid: u32) -> Option<Self> {
        let text = fs::read_to_string(host.path(format!("/proc/{pid}/stat"))).ok()?;
        // The name of the program is in brackets and may hold anything; numbers follow the last one.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self { parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? })
    }

    fn age(&self, host: &Host) -> Option<Duration> {
        /// Linux counts so for programs on every machine that Slurm runs on.
        const TICKS_PER_SECOND: u64 = 100;
        let text = fs::read_to_string(host.path("/proc/uptime")).ok()?;
        let uptime: u64 = text.split(['.', ' ']).next()?.parse().ok()?;
        Some(Duration::from_secs(uptime.saturating_sub(self.started / TICKS_PER_SECOND)))
    }
}

/// Says whether one process is another, or was started by it or by what that started.
fn descends(host: &Host, pid: u32, from: u32) -> bool {
    const GENERATIONS: usize = 16;
    let parent = |pid: &u32| Process::read(host, *pid).map(|process| process.parent);
    std::iter::successors(Some(pid), parent).take(GENERATIONS).any(|ancestor| ancestor == from)
}

/// Lists the slurmd processes of a unit without the one to be spared and what that started.
fn left_behind(host: &Host, unit: &str, spared: Option<u32>) -> Vec<u32> {
    let is_spared = |pid: u32| spared.is_some_and(|spared| descends(host, pid, spared));
    processes(host, unit).into_iter().filter(|pid| !is_spared(*pid)).collect()
}

/// Kills what is left of slurmd in a unit and systemd has lost sight of, and returns which those were. The process that
/// systemd watches is spared with all that it started: a slurmd that fetches its configuration has a child do it, and
/// waits for that child for ever. The jobs of the node go on.
pub fn end(writer: &HostWriter, unit: &str) -> Result<Vec<u32>, CommandError> {
    let watched = systemd::state(writer.host(), unit)?.main_pid;
    end_all_but(writer, unit, watched)
}

fn end_all_but(writer: &HostWriter, unit: &str, spared: Option<u32>) -> Result<Vec<u32>, CommandError> {
    let found = left_behind(writer.host(), unit, spared);
    if !found.is_empty() {
        // One that has ended meanwhile is no failure, and the next look tells whether any is left.
        writer.command("kill").arg("-KILL").args(found.iter().map(u32::to_string)).output()?;
    }
    Ok(found)
}

/// How often to look whether a daemon is up.
const PAUSE: Duration = Duration::from_millis(200);

/// Waits for as long as `patience` until slurmd is up and the controllers know the node, and then no longer: whether
/// they do is for the next look to tell.
///
/// A slurmd that has been told to go and has not by then never will, and keeps the next one from coming. What is left
/// of it is killed and its successor waited for once more. Returns what was killed. The jobs of the node go on.
pub fn await_start(
    writer: &HostWriter,
    unit: &str,
    node: &NodeName,
    patience: Duration,
) -> Result<Vec<u32>, CommandError> {
    if await_known(writer.host(), unit, node, patience)? != "deactivating" {
        return Ok(Vec::new());
    }
    let ended = end_all_but(writer, unit, None)?;
    await_known(writer.host(), unit, node, patience)?;
    Ok(ended)
}

/// Returns what systemd says of the unit in the end.
fn await_known(host: &Host, unit: &str, node: &NodeName, patience: Duration) -> Result<String, CommandError> {
    let is_known = || matches!(scontrol::node(host, node), NodeLookup::Present(_));
    let end = Instant::now() + patience;
    loop {
        let state = systemd::state(host, unit)?;
        if (state.is_active() && is_known()) || Instant::now() >= end {
            return Ok(state.active);
        }
        std::thread::sleep(PAUSE.min(patience));
    }
}

/// Without control groups the programs of jobs are in the unit as well, under whatever names their users give them.
/// Debian's slurmd is a link to the second name. A package that was upgraded leaves `(deleted)` behind it.
fn runs_slurmd(host: &Host, pid: u32) -> bool {
    let program = fs::read_link(host.path(format!("/proc/{pid}/exe"))).unwrap_or_default();
    let program = program.to_string_lossy();
    let program = program.strip_suffix(" (deleted)").unwrap_or(&program);
    program.ends_with("/sbin/slurmd") || program.ends_with("/sbin/slurmd-wlm")
}

fn is_of(host: &Host, pid: u32, unit: &str) -> bool {
    let groups = fs::read_to_string(host.path(format!("/proc/{pid}/cgroup"))).unwrap_or_default();
    groups.lines().any(|line| line.split('/').any(|part| part == unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use std::os::unix::fs::symlink;

    fn process(root: &std::path::Path, pid: u32, program: &str, cgroup: &str) {
        let directory = root.join("proc").join(pid.to_string());
        fs::create_dir_all(&directory).unwrap();
        symlink(program, directory.join("exe")).unwrap();
        fs::write(directory.join("cgroup"), format!("1:name=systemd:/x\n0::{cgroup}\n")).unwrap();
    }

    /// Says who started a process, and when, in seconds since the boot.
    fn started(root: &std::path::Path, pid: u32, parent: u32, at: u64) {
        let fields = format!("S {parent} 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 {} 0 0", at * 100);
        fs::write(root.join(format!("proc/{pid}/stat")), format!("{pid} (a) b) {fields}\n")).unwrap();
    }

    #[test]
    fn the_slurmd_of_a_container_on_this_machine_is_not_ours() {
        let root = tempfile::tempdir().unwrap();
        for (pid, space) in [("self", "pid:[1]"), ("20", "pid:[1]"), ("30", "pid:[2]")] {
            let directory = root.path().join(format!("proc/{pid}/ns"));
            fs::create_dir_all(&directory).unwrap();
            symlink(space, directory.join("pid")).unwrap();
        }
        process(root.path(), 20, "/usr/sbin/slurmd", "/system.slice/slurmd.service");
        process(root.path(), 30, "/usr/sbin/slurmd", "/lxc.payload.node/system.slice/slurmd.service");
        assert_eq!(processes(&Machine::at(root.path()).host(), "slurmd.service"), [20]);
    }

    #[test]
    fn a_slurmd_that_fetches_its_configuration_keeps_its_child() {
        let root = tempfile::tempdir().unwrap();
        for (pid, parent) in [(20, 1), (21, 20), (22, 21), (30, 1)] {
            process(root.path(), pid, "/usr/sbin/slurmd", "/system.slice/slurmd.service");
            started(root.path(), pid, parent, 10);
        }
        let machine = Machine::at(root.path());
        assert_eq!(left_behind(&machine.host(), "slurmd.service", Some(20)), [30]);
        assert_eq!(left_behind(&machine.host(), "slurmd.service", None), [20, 21, 22, 30]);
    }

    #[test]
    fn only_what_has_been_there_for_a_while_is_old() {
        let root = tempfile::tempdir().unwrap();
        for (pid, at) in [(20, 10), (21, 95)] {
            process(root.path(), pid, "/usr/sbin/slurmd", "/system.slice/slurmd.service");
            started(root.path(), pid, 1, at);
        }
        fs::write(root.path().join("proc/uptime"), "100.27 300.00\n").unwrap();
        let machine = Machine::at(root.path());
        assert!(!has_old(&machine.host(), "slurmd.service", Some(20)), "the other one is young");
        assert!(has_old(&machine.host(), "slurmd.service", Some(21)));
        assert!(has_old(&machine.host(), "slurmd.service", None));
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
        assert_eq!(processes(&Machine::at(root.path()).host(), "slurmd.service"), [7, 20]);
    }
}
