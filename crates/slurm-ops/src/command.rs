//! The only place that starts a process. Every run has a deadline and ends with the process gone; there is no shell.

mod listen;

use self::listen::{Heard, listen};
use crate::store::StoreFault;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a command may take unless it is told otherwise.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);
/// How often to look whether a killed process is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long a killed process may take to be gone.
const KILLED: Duration = Duration::from_secs(2);

/// Whoever runs programs in place of the system: a made-up machine in a test. The system itself needs none.
pub trait CommandRunner: fmt::Debug + Send + Sync {
    /// Runs a program to its end. `None`: there is no such program.
    fn run(&self, program: &str, arguments: &[String]) -> Option<Ended>;

    /// Runs a program that is told something by its environment.
    fn run_with(&self, program: &str, arguments: &[String], _variables: &[(String, OsString)]) -> Option<Ended> {
        self.run(program, arguments)
    }

    /// Is told before a file or directory is changed, so that a test can end things right there, or refuse the change.
    fn before_write(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Is told before a file is read.
    fn before_read(&self, _path: &Path) {}

    /// Returns what the machine is called. `None`: the system is to be asked.
    fn host_name(&self) -> Option<String> {
        None
    }

    /// Returns the time in seconds since 1970.
    fn now(&self) -> u64 {
        crate::clock::now()
    }

    /// Lets time pass.
    fn pause(&self, length: Duration) {
        std::thread::sleep(length);
    }

    /// Tells what is wrong with the store that a path is on. No child is started; what is right is done here.
    fn store(&self, _path: &Path) -> StoreFault {
        StoreFault::None
    }
}

/// How a program ended that a [`CommandRunner`] ran.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ended {
    /// Exit status.
    pub code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

/// A program with its arguments, ready to run.
#[derive(Debug, Clone)]
pub struct Command {
    pub(crate) runner: Option<Arc<dyn CommandRunner>>,
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, OsString)>,
    unset: Vec<String>,
    deadline: Duration,
}

/// What a program that ended said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit status; 128 plus the signal if one ended it.
    pub code: i32,
    /// Standard output; bytes that are no UTF-8 are replaced.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
}

impl Output {
    /// Tells whether the exit status was 0.
    pub fn success(&self) -> bool {
        self.code == 0
    }

    /// Returns the last line of standard error that is not blank, or of standard output if there is none.
    pub fn complaint(&self) -> &str {
        let text = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        text.trim_end().lines().next_back().unwrap_or_default().trim()
    }
}

/// A command that did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It could not be started.
    #[error("could not start `{command}`")]
    Start {
        /// The whole command line.
        command: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It ended with another status than 0.
    #[error("`{command}` exited with {code}: {}", last_lines(stderr))]
    Failed {
        /// The whole command line.
        command: String,
        /// Exit status.
        code: i32,
        /// Standard error, or standard output if that was empty.
        stderr: String,
    },
    /// It had to be killed.
    #[error("`{command}` did not end within {} s: {}", after.as_secs(), last_lines(stderr))]
    TimedOut {
        /// The whole command line.
        command: String,
        /// The deadline that it had.
        after: Duration,
        /// Standard error up to then.
        stderr: String,
    },
    /// It ended well, but what it printed cannot be read.
    #[error("`{command}` printed something unexpected: {problem}")]
    Unreadable {
        /// The whole command line.
        command: String,
        /// What is wrong with the output.
        problem: String,
    },
}

impl Command {
    pub(crate) fn new(program: &str) -> Self {
        Self {
            runner: None,
            program: program.to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            unset: Vec::new(),
            deadline: DEFAULT_DEADLINE,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item: Into<String>>>(mut self, arguments: I) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Keeps a variable of this process from the program.
    pub fn env_remove(mut self, name: &str) -> Self {
        self.unset.push(name.to_owned());
        self
    }

    /// Sets how long the program may take.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs the program and fails unless it exits with 0.
    pub fn run(&self) -> Result<Output, CommandError> {
        let output = self.output()?;
        if output.success() {
            return Ok(output);
        }
        let said = if output.stderr.trim().is_empty() { output.stdout } else { output.stderr };
        Err(CommandError::Failed { command: self.to_string(), code: output.code, stderr: said })
    }

    /// Runs the program. Any exit status is an answer; only a program that could not start or had to be killed is an
    /// error.
    pub fn output(&self) -> Result<Output, CommandError> {
        let Ended { code, stdout, stderr } = self.finish()?;
        Ok(Output { code, stdout: String::from_utf8_lossy(&stdout).into_owned(), stderr })
    }

    fn finish(&self) -> Result<Ended, CommandError> {
        if let Some(runner) = &self.runner {
            let ended = runner.run_with(&self.program, &self.arguments, &self.environment);
            let none = || CommandError::Start { command: self.to_string(), source: ErrorKind::NotFound.into() };
            return ended.ok_or_else(none);
        }
        let began = Instant::now();
        let mut child = self.spawn()?;
        let heard = listen(&mut child, began + self.deadline);
        // However the listening ended, the process is gone afterwards.
        if !matches!(&heard, Ok(Heard { status: Some(_), .. })) {
            kill(&mut child);
        }
        let heard = heard.map_err(|source| CommandError::Start { command: self.to_string(), source })?;
        let stderr = String::from_utf8_lossy(&heard.stderr).into_owned();
        let milliseconds = began.elapsed().as_millis();
        match heard.status {
            Some(status) => {
                let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                tracing::debug!("`{self}` exited with {code} after {milliseconds} ms");
                Ok(Ended { code, stdout: heard.stdout, stderr })
            }
            None => {
                tracing::debug!("`{self}` killed after {milliseconds} ms");
                Err(CommandError::TimedOut { command: self.to_string(), after: self.deadline, stderr })
            }
        }
    }

    /// Returns the error of a command whose output makes no sense.
    pub(crate) fn unreadable(&self, problem: impl fmt::Display) -> CommandError {
        CommandError::Unreadable { command: self.to_string(), problem: problem.to_string() }
    }

    #[expect(clippy::disallowed_methods, reason = "where this crate starts programs")]
    fn spawn(&self) -> Result<Child, CommandError> {
        let mut command = std::process::Command::new(&self.program);
        // Messages are matched, so they have to come in one language.
        command.args(&self.arguments).env("LC_ALL", "C.UTF-8");
        for name in &self.unset {
            command.env_remove(name);
        }
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        // A group of its own, so that at the deadline its children can be killed with it.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|source| CommandError::Start { command: self.to_string(), source })
    }
}

impl fmt::Display for Command {
    /// Shows the command line; an argument that is not a plain word is quoted.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.program)?;
        for argument in &self.arguments {
            let plain = !argument.is_empty()
                && argument.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '\'' | '"' | '`'));
            if plain { write!(formatter, " {argument}")? } else { write!(formatter, " {argument:?}")? }
        }
        Ok(())
    }
}

/// Starts a program that is talked with by pipes. It has nothing of this process: no environment, and no standard error
/// either, since whoever waits for the end of that would wait for a helper that was left behind.
#[expect(clippy::disallowed_methods, reason = "where this crate starts programs")]
pub(crate) fn helper(program: &Path, argument: &str) -> std::io::Result<Child> {
    let mut command = std::process::Command::new(program);
    // What it is called is how somebody who looks for it finds it.
    command.arg0("slurm-charm").arg(argument).env_clear().current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

fn kill(child: &mut Child) {
    // Failure means that it is gone already.
    if let Ok(id) = i32::try_from(child.id()) {
        let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
    }
    let _ = child.kill();
    // One that hangs in the kernel, in a file system that does not answer, cannot be waited for. Whoever adopts it
    // will.
    let end = Instant::now() + KILLED;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The end of an error output, where programs say what is wrong, on one line.
fn last_lines(text: &str) -> String {
    const LINES: usize = 3;
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { "no output".to_owned() } else { lines[lines.len().saturating_sub(LINES)..].join(" / ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        Command::new("sh").arg("-c").arg(script)
    }

    #[test]
    fn output_and_status_are_kept() {
        let output = shell("echo out; echo err >&2; exit 3").output().unwrap();
        assert_eq!(output, Output { code: 3, stdout: "out\n".to_owned(), stderr: "err\n".to_owned() });
        assert_eq!(output.complaint(), "err");
    }

    #[test]
    fn a_failure_shows_command_status_and_reason() {
        let error = Command::new("sh").args(["-c", "echo why >&2; exit 3"]).run().unwrap_err();
        assert_eq!(error.to_string(), "`sh -c \"echo why >&2; exit 3\"` exited with 3: why");
    }

    #[test]
    fn a_signal_counts_as_status() {
        assert_eq!(shell("kill -TERM $$").output().unwrap().code, 143);
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error_of_its_own() {
        assert!(matches!(Command::new("no-such-program").output(), Err(CommandError::Start { .. })));
    }

    #[test]
    fn the_deadline_kills_the_program_and_its_children() {
        let began = Instant::now();
        let error =
            shell("echo early >&2; sleep 60 & sleep 60").deadline(Duration::from_millis(200)).output().unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(5));
        assert!(matches!(&error, CommandError::TimedOut { stderr, .. } if stderr == "early\n"), "{error:?}");
    }

    #[test]
    fn a_child_that_keeps_the_pipe_does_not_hold_us() {
        let began = Instant::now();
        let output = shell("sleep 5 & echo done").deadline(Duration::from_secs(30)).output().unwrap();
        assert!(began.elapsed() < Duration::from_secs(3));
        assert_eq!(output.stdout, "done\n");
    }

    #[test]
    fn much_output_does_not_block() {
        let output = shell("head -c 3000000 /dev/zero | tr '\\0' x; head -c 3000000 /dev/zero >&2").output().unwrap();
        assert_eq!((output.stdout.len(), output.stderr.len()), (3_000_000, 3_000_000));
    }

    #[test]
    fn a_program_that_closes_its_output_is_waited_for() {
        assert_eq!(shell("exec >&- 2>&-; sleep 0.2; exit 7").output().unwrap().code, 7);
    }

    #[test]
    fn variables_are_set_and_kept_away() {
        let output =
            shell("echo $LC_ALL $ADDED ${HOME-unset}").env("ADDED", "yes").env_remove("HOME").output().unwrap();
        assert_eq!(output.stdout, "C.UTF-8 yes unset\n");
    }
}
