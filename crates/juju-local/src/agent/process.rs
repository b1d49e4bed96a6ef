//! Processes the agent starts for the daemon: the charm's dispatch, scripts of `juju exec`. Output lines are passed on
//! as they come; the whole output follows with the end.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::Connection;
use super::sockets::ToolSocket;
use crate::paths::inside;
use crate::wire::{FromAgent, Program, Run};

/// How long output is awaited after the process itself has ended: a child in the background may hold the pipe for ever.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);

/// Numbers of the processes that run, so that they can be ended.
#[derive(Default)]
pub struct Runs(Mutex<HashMap<u64, i32>>);

impl Runs {
    pub fn kill(&self, run: u64) {
        let pids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = pids.get(&run) {
            // A charm's dispatch leads no group: then there is none of that number.
            killpg(Pid::from_raw(*pid), Signal::SIGKILL).ok();
            kill(Pid::from_raw(*pid), Signal::SIGKILL).ok();
        }
    }
}

/// Starts a process and returns at once; its end is reported to the daemon.
pub fn start(connection: &Arc<Connection>, runs: &Arc<Runs>, run: Run) {
    let (connection, runs) = (Arc::clone(connection), Arc::clone(runs));
    thread::spawn(move || {
        let id = run.id;
        let (end, stdout, stderr) = match execute(&connection, &runs, run) {
            Ok(done) => done,
            Err(error) => (Ok(126), Vec::new(), format!("{error:#}\n").into_bytes()),
        };
        runs.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let encode = |bytes: Vec<u8>| base64::engine::general_purpose::STANDARD.encode(bytes);
        let ended = FromAgent::Ended { run: id, end, stdout: encode(stdout), stderr: encode(stderr) };
        if let Err(error) = connection.send(&ended) {
            eprintln!("jujud: {error:#}");
        }
    });
}

type Done = (Result<i32, String>, Vec<u8>, Vec<u8>);

fn execute(connection: &Arc<Connection>, runs: &Runs, run: Run) -> anyhow::Result<Done> {
    let socket = run.unit.as_ref().map(|unit| ToolSocket::open(connection, unit)).transpose()?;
    let directory = ScriptDirectory::new(run.id)?;
    let mut command = command(&run, &directory.0)?;
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    if let Ok(pid) = i32::try_from(child.id()) {
        runs.0.lock().unwrap_or_else(PoisonError::into_inner).insert(run.id, pid);
    }
    let (stdout, stderr) = collect(connection, &run, &mut child)?;
    let status = child.wait()?;
    drop(socket);
    let end = match (status.code(), status.signal()) {
        (Some(code), _) => Ok(code),
        (None, Some(signal)) => Err(signal_name(signal)),
        (None, None) => Ok(-1),
    };
    Ok((end, stdout, stderr))
}

/// `/tmp/juju-exec<number>`, for as long as the script runs.
struct ScriptDirectory(PathBuf);

impl ScriptDirectory {
    fn new(run: u64) -> anyhow::Result<Self> {
        let path = PathBuf::from(format!("/tmp/juju-exec{}{run:06}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(ScriptDirectory(path))
    }
}

impl Drop for ScriptDirectory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Go's word for a signal.
fn signal_name(signal: i32) -> String {
    match Signal::try_from(signal) {
        Ok(Signal::SIGKILL) => "killed".to_owned(),
        Ok(Signal::SIGTERM) => "terminated".to_owned(),
        Ok(Signal::SIGSEGV) => "segmentation fault".to_owned(),
        Ok(Signal::SIGABRT) => "aborted".to_owned(),
        _ => format!("signal {signal}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "where the agent starts charms and scripts")]
fn command(run: &Run, scripts: &std::path::Path) -> anyhow::Result<Command> {
    let own_path = std::env::var("PATH").unwrap_or_else(|_| "/usr/sbin:/usr/bin:/sbin:/bin".to_owned());
    let mut command = match (&run.program, &run.unit) {
        (Program::Dispatch, Some(unit)) => Command::new(format!("{}/dispatch", inside::charm(unit))),
        (Program::Dispatch, None) => anyhow::bail!("no unit to dispatch to"),
        (Program::Script(text), _) => {
            let script = scripts.join("script.sh");
            fs::write(&script, text)?;
            let mut command = Command::new("/bin/bash");
            // A group of its own: what the script started ends with it.
            command.arg(script).process_group(0);
            command
        }
    };
    command.env_clear().envs(&run.environment);
    match &run.unit {
        Some(unit) => {
            command.env("PATH", format!("{}:{own_path}", inside::tools(unit))).current_dir(inside::charm(unit));
        }
        None => {
            let (uid, gid, home) = user("ubuntu")?;
            use std::os::unix::fs::{PermissionsExt, chown};
            fs::set_permissions(scripts, fs::Permissions::from_mode(0o755))?;
            chown(scripts, Some(uid), Some(gid))?;
            command.env("PATH", own_path).env("HOME", &home).env("USER", "ubuntu").env("LANG", "C.UTF-8");
            command.current_dir(home).uid(uid).gid(gid);
        }
    }
    Ok(command)
}

/// Numbers and home of a user, from the file itself: a static program cannot ask the name service.
fn user(name: &str) -> anyhow::Result<(u32, u32, String)> {
    let passwd = fs::read_to_string("/etc/passwd")?;
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name));
    let fields: Vec<&str> = line.map(|line| line.split(':').collect()).unwrap_or_default();
    match fields.as_slice() {
        [_, _, uid, gid, _, home, ..] => Ok((uid.parse()?, gid.parse()?, (*home).to_owned())),
        _ => anyhow::bail!("there is no user {name} on this machine"),
    }
}

/// Reads both streams to their end, line by line.
fn collect(connection: &Arc<Connection>, run: &Run, child: &mut Child) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let streams: [(bool, Option<Box<dyn Read + Send>>); 2] = [
        (false, child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>)),
        (true, child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>)),
    ];
    let (sender, receiver) = channel();
    for (error_stream, stream) in streams {
        let Some(stream) = stream else { continue };
        let sender = sender.clone();
        thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                if sender.send((error_stream, std::mem::take(&mut line))).is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut quiet_since_end = false;
    loop {
        match receiver.recv_timeout(OUTPUT_GRACE) {
            Ok((error_stream, line)) => {
                if run.module.is_some() {
                    let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
                    connection.send(&FromAgent::Output { run: run.id, error_stream, line: text })?;
                }
                if error_stream { stderr.extend(line) } else { stdout.extend(line) }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let ended = child.try_wait()?.is_some();
                if ended && quiet_since_end {
                    break;
                }
                quiet_since_end = ended;
            }
        }
    }
    Ok((stdout, stderr))
}
