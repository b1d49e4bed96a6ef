//! Waits for a process and hears all that it says, in one thread: whatever it wrote before it ended is in its pipes
//! when it has, however late this machine gets round to look. What its own children say after that is of no interest,
//! and does not hold us.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How often to look whether a process has ended that gave its output to a child.
const LOOK_AGAIN: u8 = 10;
/// How soon to look whether a process has ended that closed its output, and how often if it takes its time.
const FIRST_LOOK: Duration = Duration::from_micros(50);
const LATER_LOOKS: Duration = Duration::from_millis(10);
/// More output than this is not read; the process then blocks until its deadline.
const LARGEST_OUTPUT: usize = 256 * 1024 * 1024;

/// One end of a pipe and what came out of it.
struct Pipe<P> {
    /// None: nothing more will come.
    open: Option<P>,
    heard: Vec<u8>,
}

impl<P: Read + AsFd> Pipe<P> {
    fn new(pipe: Option<P>) -> std::io::Result<Self> {
        if let Some(pipe) = &pipe {
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(Self { open: pipe, heard: Vec::new() })
    }

    /// Takes all that is in the pipe now.
    fn drain(&mut self) {
        let mut chunk = [0; 16 * 1024];
        while self.heard.len() < LARGEST_OUTPUT {
            let Some(pipe) = &mut self.open else { return };
            match pipe.read(&mut chunk) {
                Ok(length @ 1..) => self.heard.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => self.open = None,
            }
        }
    }

    /// What to wait for, unless nothing more is wanted of it.
    fn interest(&self) -> Option<PollFd<'_>> {
        let wanted = self.heard.len() < LARGEST_OUTPUT;
        self.open.as_ref().filter(|_| wanted).map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN))
    }
}

/// What was heard of a process, and how it ended.
pub(super) struct Heard {
    /// None: it has not ended by the deadline.
    pub(super) status: Option<ExitStatus>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// Listens until the process has ended, or until the deadline; then it still runs.
pub(super) fn listen(child: &mut Child, deadline: Instant) -> std::io::Result<Heard> {
    let mut stdout = Pipe::new(child.stdout.take())?;
    let mut stderr = Pipe::new(child.stderr.take())?;
    let mut pause = FIRST_LOOK;
    let status = loop {
        // Asked before the pipes are emptied: what it wrote was written before.
        let status = child.try_wait()?;
        stdout.drain();
        stderr.drain();
        let left = deadline.saturating_duration_since(Instant::now());
        if status.is_some() || left.is_zero() {
            break status;
        }
        let mut waited_for: Vec<PollFd<'_>> = stdout.interest().into_iter().chain(stderr.interest()).collect();
        if waited_for.is_empty() {
            // Both closed, which is how most processes announce their exit.
            std::thread::sleep(pause);
            pause = (pause * 2).min(LATER_LOOKS);
        } else {
            // An interrupted wait is a short one.
            let _ = poll(&mut waited_for, PollTimeout::from(LOOK_AGAIN));
        }
    };
    Ok(Heard { status, stdout: stdout.heard, stderr: stderr.heard })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[expect(clippy::disallowed_methods, reason = "a program to listen to")]
    fn started(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Waits until the process has ended, and leaves its status and its output where they are.
    fn ended(child: &Child) {
        let state = format!("/proc/{}/stat", child.id());
        while !std::fs::read_to_string(&state).unwrap().contains(") Z ") {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn whoever_looks_late_hears_all_of_it() {
        let mut child = started("head -c 60000 /dev/zero; echo err >&2; exit 3");
        ended(&child);
        let heard = listen(&mut child, Instant::now()).unwrap();
        assert_eq!(heard.status.and_then(|status| status.code()), Some(3));
        assert_eq!((heard.stdout.len(), heard.stderr.as_slice()), (60_000, b"err\n".as_slice()));
    }

    #[test]
    fn at_the_deadline_what_was_said_until_then_is_kept_and_the_process_still_runs() {
        let mut child = started("echo early; exec sleep 60");
        let heard = listen(&mut child, Instant::now() + Duration::from_millis(500)).unwrap();
        assert_eq!((heard.status, heard.stdout.as_slice()), (None, b"early\n".as_slice()));
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
