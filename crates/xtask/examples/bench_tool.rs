//! Measures one dispatch inside a machine, for `cargo xtask bench dispatch`. One program under many names: as itself it
//! measures, under the name of a hook tool it answers as Juju did the first time, under another name it notes the call
//! and becomes that program.
//!
//!     bench_tool <directory> time|own|count <times> <command> [arguments…]
//!
//! A hook tool that reads asks the real one once and repeats its answer from then on; one that writes does nothing.
//! `time` prints nanoseconds, `own` the peak memory of the command itself in KiB and its processor time in nanoseconds,
//! `count` the names of the programs that were started.

#![expect(clippy::disallowed_methods, reason = "it starts what it measures, or becomes what it stands for")]

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Where answers and notes are kept.
const DIRECTORY: &str = "BENCH_DIRECTORY";

/// What to change in every answer, as `from|to`: so a bag says something new without anybody having written it.
const REPLACE: &str = "BENCH_REPLACE";

const READING: &[&str] = &[
    "action-get",
    "config-get",
    "goal-state",
    "is-leader",
    "network-get",
    "opened-ports",
    "relation-get",
    "relation-ids",
    "relation-list",
    "relation-model-get",
    "resource-get",
    "secret-get",
    "secret-ids",
    "secret-info-get",
    "state-get",
    "status-get",
    "storage-get",
    "storage-list",
    "unit-get",
];
const WRITING: &[&str] = &[
    "action-fail",
    "action-log",
    "action-set",
    "application-version-set",
    "close-port",
    "juju-log",
    "juju-reboot",
    "open-port",
    "relation-set",
    "secret-add",
    "secret-grant",
    "secret-remove",
    "secret-revoke",
    "secret-set",
    "state-delete",
    "state-set",
    "status-set",
    "storage-add",
];
/// What a charm of ours starts beside hook tools.
const PROGRAMS: &[&str] = &[
    "apt-cache",
    "apt-get",
    "apt-mark",
    "cat",
    "dpkg",
    "dpkg-query",
    "findmnt",
    "hostname",
    "journalctl",
    "kill",
    "mount",
    "needrestart",
    "scontrol",
    "scancel",
    "sh",
    "sinfo",
    "slurmctld",
    "slurmd",
    "squeue",
    "systemctl",
    "systemd-run",
    "systemd-tmpfiles",
    "test",
    "umount",
];

type Outcome = Result<ExitCode, Box<dyn Error>>;

fn main() -> Outcome {
    let name = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let name = name.file_name().and_then(OsStr::to_str).unwrap_or_default().to_owned();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match std::env::var_os(DIRECTORY) {
        Some(directory) => stand_in(Path::new(&directory), &name, &arguments),
        None => measure(&arguments),
    }
}

fn measure(arguments: &[OsString]) -> Outcome {
    let [directory, what, times, command @ ..] = arguments else { return Err("arguments are missing".into()) };
    let (directory, what) = (Path::new(directory), what.to_string_lossy());
    let times: usize = times.to_string_lossy().parse()?;
    let tools = directory.join(if what == "count" { "counted" } else { "tools" });
    fs::create_dir_all(&tools)?;
    fs::create_dir_all(directory.join("answers"))?;
    let programs = if what == "count" { PROGRAMS } else { &[] };
    for name in READING.iter().chain(WRITING).chain(programs) {
        // It is there from the last time.
        let _ = symlink(std::env::current_exe()?, tools.join(name));
    }
    let mut path = vec![tools];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let path = std::env::join_paths(path)?;
    let [program, rest @ ..] = command else { return Err("no command".into()) };
    for _ in 0..times {
        let _ = fs::remove_file(directory.join("calls"));
        let mut command = Command::new(program);
        command.args(rest).env(DIRECTORY, directory).env("PATH", &path).stdin(Stdio::null()).stdout(Stdio::null());
        let begun = Instant::now();
        let mut child = command.spawn()?;
        // Of each thread what was last seen: one that has ended is gone.
        let (mut peak, mut processor) = (0, HashMap::<OsString, u64>::new());
        while what == "own" && child.try_wait()?.is_none() {
            let process = PathBuf::from(format!("/proc/{}", child.id()));
            let status = fs::read_to_string(process.join("status")).unwrap_or_default();
            peak = status.lines().find_map(high_water).unwrap_or(peak);
            for thread in fs::read_dir(process.join("task")).into_iter().flatten().flatten() {
                let spent = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
                let spent = spent.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or_default();
                let known = processor.entry(thread.file_name()).or_default();
                // One that has ended but was not waited for says zero.
                *known = spent.max(*known);
            }
        }
        let status = child.wait()?;
        let nanos = begun.elapsed().as_nanos();
        if !status.success() {
            return Err(format!("the dispatch ended with {status}").into());
        }
        match &*what {
            "time" => println!("{nanos}"),
            "own" => println!("{peak} {}", processor.values().sum::<u64>()),
            _ => println!(
                "{}",
                fs::read_to_string(directory.join("calls")).unwrap_or_default().trim().replace('\n', " ")
            ),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn high_water(line: &str) -> Option<u64> {
    line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok()
}

fn stand_in(directory: &Path, name: &str, arguments: &[OsString]) -> Outcome {
    let mut calls = OpenOptions::new().create(true).append(true).open(directory.join("calls"))?;
    calls.write_all(format!("{name}\n").as_bytes())?;
    if WRITING.contains(&name) {
        return Ok(ExitCode::SUCCESS);
    }
    let real = real_program(name)?;
    if !READING.contains(&name) {
        return Err(Command::new(real).args(arguments).exec().into());
    }
    let mut hasher = DefaultHasher::new();
    (name, arguments).hash(&mut hasher);
    let answer = directory.join("answers").join(format!("{:x}", hasher.finish()));
    if !answer.exists() {
        let output = Command::new(real).args(arguments).output()?;
        fs::write(answer.with_extension("error"), output.stderr)?;
        fs::write(answer.with_extension("code"), output.status.code().unwrap_or(1).to_string())?;
        fs::write(&answer, output.stdout)?;
    }
    let mut text = String::from_utf8_lossy(&fs::read(&answer)?).into_owned();
    if let Some((from, to)) = std::env::var(REPLACE).ok().as_deref().and_then(|rule| rule.split_once('|')) {
        text = text.replace(from, to);
    }
    std::io::stdout().write_all(text.as_bytes())?;
    std::io::stderr().write_all(&fs::read(answer.with_extension("error"))?)?;
    Ok(ExitCode::from(fs::read_to_string(answer.with_extension("code"))?.parse::<u8>()?))
}

/// Finds the program of that name on PATH that is not this one.
fn real_program(name: &str) -> Result<PathBuf, Box<dyn Error>> {
    let own = std::env::current_exe()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|directory| directory.join(name));
    let real =
        candidates.find(|candidate| candidate.exists() && candidate.canonicalize().is_ok_and(|file| file != own));
    real.ok_or_else(|| format!("{name} is nowhere on PATH").into())
}
