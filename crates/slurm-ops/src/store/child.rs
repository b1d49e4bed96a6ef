//! The process that touches a store, seen from the one that must not. It is left behind when it does not answer in time,
//! and while it lives no other one is started.

use super::wire::{self, Answer, Request};
use crate::command;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a child that is not needed any more may take to end.
const GOODBYE: Duration = Duration::from_millis(200);

/// What a child is, and how long it may take.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// The program to start.
    pub(crate) program: PathBuf,
    /// How long an answer may take.
    pub(crate) deadline: Duration,
    /// Where to say who was left behind.
    pub(crate) note: PathBuf,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The store does not answer.
    Silent,
    /// The child could not be started, or has ended.
    Broken(io::Error),
}

/// The one child of a machine, for all threads.
#[derive(Debug, Default)]
pub(crate) struct StoreChild(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    None,
    Running(Talk),
    /// One was left behind. Nobody is asked any more.
    Silent,
}

impl StoreChild {
    /// Has the child do something. The first request starts it.
    pub(crate) fn ask(&self, terms: &Terms, request: &Request) -> Result<Answer, Trouble> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::None) {
            *state = match left_behind(&terms.note) {
                Some(_) => State::Silent,
                None => State::Running(Talk::start(&terms.program).map_err(Trouble::Broken)?),
            };
        }
        let State::Running(talk) = &mut *state else { return Err(Trouble::Silent) };
        let end = Instant::now() + terms.deadline;
        match talk.send(request, end).and_then(|()| talk.receive(end)) {
            Ok(answer) => Ok(answer),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                tracing::warn!("{} does not answer: {request:?}", request.path.display());
                if let State::Running(talk) = std::mem::replace(&mut *state, State::Silent) {
                    leave_behind(talk, &terms.note);
                }
                Err(Trouble::Silent)
            }
            Err(error) => {
                *state = State::None;
                Err(Trouble::Broken(error))
            }
        }
    }
}

/// Ends a child and does not wait for it: one that is held by the kernel ends when the store answers again.
fn leave_behind(mut talk: Talk, note: &Path) {
    talk.kill();
    if talk.has_ended() {
        return;
    }
    if let Err(error) = remember(talk.id(), note) {
        tracing::warn!("could not note who waits for the store: {error}");
    }
}

/// A process, told from another one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pid: u32,
    /// When it was started, in the kernel's own count.
    started: u64,
}

impl Process {
    /// Ends it, as soon as the kernel lets go of it.
    pub(crate) fn kill(self) {
        if let Ok(pid) = i32::try_from(self.pid) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// Notes a child, so that whoever comes later does not start another one beside it.
pub(crate) fn remember(pid: u32, note: &Path) -> io::Result<()> {
    let Some(started) = started(pid) else { return Ok(()) };
    if let Some(directory) = note.parent() {
        fs::create_dir_all(directory)?;
    }
    let temporary = note.with_extension("new");
    fs::write(&temporary, serde_json::to_vec(&Process { pid, started })?)?;
    fs::rename(temporary, note)
}

/// Returns the child that was left behind, if it still lives.
pub(crate) fn left_behind(note: &Path) -> Option<Process> {
    let process: Process = serde_json::from_slice(&fs::read(note).ok()?).ok()?;
    let lives = started(process.pid) == Some(process.started);
    if !lives {
        let _ = fs::remove_file(note);
    }
    lives.then_some(process)
}

/// Tells when a process was started. `None`: it has ended.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may hold anything, also parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // The 22nd field in all, of which the first two are gone.
    fields.nth(18)?.parse().ok()
}

/// A running child with both ends of the talk.
#[derive(Debug)]
pub(crate) struct Talk {
    child: Child,
    /// `None`: it was told to end.
    requests: Option<ChildStdin>,
    answers: ChildStdout,
    heard: Vec<u8>,
}

impl Talk {
    /// Starts a child.
    pub(crate) fn start(program: &Path) -> io::Result<Self> {
        let mut child = command::helper(program, super::ARGUMENT)?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ErrorKind::BrokenPipe.into());
        };
        fcntl(&requests, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        fcntl(&answers, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self { child, requests: Some(requests), answers, heard: Vec::new() })
    }

    /// Says what to do.
    pub(crate) fn send(&mut self, request: &Request, end: Instant) -> io::Result<()> {
        let message = wire::frame(request)?;
        let mut rest = message.as_slice();
        let Some(pipe) = &mut self.requests else { return Err(ErrorKind::BrokenPipe.into()) };
        while !rest.is_empty() {
            match pipe.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(length) => rest = &rest[length..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&*pipe, PollFlags::POLLOUT, end)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for the answer. One that did not come in time may be waited for again.
    pub(crate) fn receive(&mut self, end: Instant) -> io::Result<Answer> {
        let mut chunk = [0; 16 * 1024];
        loop {
            if let Some(message) = wire::unframe(&mut self.heard)? {
                return Ok(serde_json::from_slice(&message)?);
            }
            match self.answers.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.heard.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&self.answers, PollFlags::POLLIN, end)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the child, as soon as the kernel lets go of it.
    pub(crate) fn kill(&mut self) {
        self.requests = None;
        let _ = self.child.kill();
    }

    /// Tells whether the child is gone. Does not wait.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Talk {
    /// Without anybody to talk with a child ends by itself. One that is held by the kernel is left alone.
    fn drop(&mut self) {
        self.requests = None;
        let end = Instant::now() + GOODBYE;
        while !self.has_ended() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Waits until a pipe can be used.
fn wait(pipe: &impl AsFd, what: PollFlags, end: Instant) -> io::Result<()> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    // At least a millisecond, so that the last part of one is not spent in a loop.
    let left = PollTimeout::try_from(left.max(Duration::from_millis(1))).unwrap_or(PollTimeout::MAX);
    match poll(&mut [PollFd::new(pipe.as_fd(), what)], left) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let directory = tempfile::tempdir().unwrap();
        let note = directory.path().join("run/store-child");
        assert_eq!(left_behind(&note), None);
        remember(std::process::id(), &note).unwrap();
        assert_eq!(left_behind(&note).map(|process| process.pid), Some(std::process::id()));
        fs::write(&note, serde_json::to_vec(&Process { pid: std::process::id(), started: 1 }).unwrap()).unwrap();
        assert_eq!(left_behind(&note), None, "another one has its number now");
        assert!(!note.exists());
        for text in ["", "{}", "7"] {
            fs::write(&note, text).unwrap();
            assert_eq!(left_behind(&note), None, "{text}");
        }
    }
}
