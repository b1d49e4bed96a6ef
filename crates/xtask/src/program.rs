//! Running other programs: never through a shell, always with an error that names the whole command. The only place in
//! this crate that waits for a child process.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const POLL: Duration = Duration::from_millis(20);

/// What a program left behind.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Returns a command that starts in the top directory of the checkout.
#[expect(clippy::disallowed_methods, reason = "where this crate starts programs")]
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>) -> Result<Command> {
    let mut command = Command::new(name);
    command.current_dir(crate::layout::root()?);
    Ok(command)
}

/// Returns a cargo command: the cargo that runs us, if it said so.
pub(crate) fn cargo() -> Result<Command> {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Renders a command as one could type it.
pub(crate) fn describe(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    let words = command.get_args().map(|argument| {
        let argument = argument.to_string_lossy();
        if argument.is_empty() || argument.contains(char::is_whitespace) {
            format!("'{argument}'")
        } else {
            argument.into_owned()
        }
    });
    std::iter::once(name).chain(words).collect::<Vec<_>>().join(" ")
}

/// Runs a program that writes straight to our own stdout and stderr. A bad end is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = describe(command);
    let status = command.status().with_context(|| format!("could not start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}

/// Runs a program and returns what it printed. A bad end is an error that carries its stderr.
pub(crate) fn capture(command: &mut Command, deadline: Duration) -> Result<String> {
    let shown = describe(command);
    let finished = collect(command, deadline)?;
    if !finished.status.success() {
        bail!("`{shown}` ended with {}: {}", finished.status, finished.stderr.trim());
    }
    Ok(finished.stdout)
}

/// Runs a program and returns what it printed, as fast as it answers: for measuring. There is no deadline.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = describe(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("could not start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program and returns what it printed, whichever way it ended.
pub(crate) fn collect(command: &mut Command, deadline: Duration) -> Result<Finished> {
    let shown = describe(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("could not start `{shown}`"))?;
    let stdout = read_in_background(child.stdout.take());
    let stderr = read_in_background(child.stderr.take());
    let status = wait(&mut child, deadline, &shown)?;
    // A grandchild may hold the pipe open after the program has ended; what came until then is enough.
    let stdout = stdout.recv_timeout(Duration::from_secs(5)).unwrap_or_default();
    let stderr = stderr.recv_timeout(Duration::from_secs(5)).unwrap_or_default();
    Ok(Finished { status, stdout, stderr })
}

/// Runs a program, repeats its stdout line by line on ours, and returns it as well. Its stderr is ours.
pub(crate) fn tee(command: &mut Command) -> Result<Finished> {
    let shown = describe(command);
    command.stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("could not start `{shown}`"))?;
    let mut stdout = String::new();
    if let Some(pipe) = child.stdout.take() {
        let mut lines = BufReader::new(pipe);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).with_context(|| format!("could not read from `{shown}`"))? > 0 {
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(&line).and_then(|()| out.flush());
            stdout.push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    let status = child.wait().with_context(|| format!("could not wait for `{shown}`"))?;
    Ok(Finished { status, stdout, stderr: String::new() })
}

/// A program that runs while we do something else. What it prints is kept until it has ended; its stderr is ours.
pub(crate) struct Background {
    child: Child,
    shown: String,
    stdout: mpsc::Receiver<String>,
}

impl Background {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let shown = describe(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("could not start `{shown}`"))?;
        let stdout = read_in_background(child.stdout.take());
        Ok(Self { child, shown, stdout })
    }

    /// Waits for its end, and repeats on our stdout what it printed.
    pub(crate) fn finish(mut self) -> Result<Finished> {
        let status = self.child.wait().with_context(|| format!("could not wait for `{}`", self.shown))?;
        let stdout = self.stdout.recv_timeout(Duration::from_secs(5)).unwrap_or_default();
        print!("{stdout}");
        Ok(Finished { status, stdout, stderr: String::new() })
    }
}

impl Drop for Background {
    /// Whoever gave up waiting leaves nothing running. One that has ended minds neither call.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_in_background(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn wait(child: &mut Child, deadline: Duration, shown: &str) -> Result<ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().with_context(|| format!("could not wait for `{shown}`"))? {
            return Ok(status);
        }
        if begun.elapsed() > deadline {
            // It may have ended by itself in this very moment; either way it is gone afterwards.
            let _ = child.kill();
            let _ = child.wait();
            bail!("`{shown}` did not end within {}", crate::console::seconds(deadline));
        }
        thread::sleep(POLL);
    }
}

/// Says whether this process may do what only root may.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Looks for an executable on PATH, and in the directories of system programs that an ordinary PATH leaves out.
pub(crate) fn find_on_path(name: &str) -> Option<std::path::PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|directory| directory.join(name)).find(|candidate| {
        candidate.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "programs to look at")]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_could_type_it() {
        let mut command = Command::new("/usr/bin/juju");
        command.args(["exec", "--", "echo one two"]);
        assert_eq!(describe(&command), "juju exec -- 'echo one two'");
    }

    #[test]
    fn a_failing_program_is_named_with_its_stderr() {
        let mut command = Command::new("ls");
        command.arg("/no/such/directory");
        let error = capture(&mut command, Duration::from_secs(10)).unwrap_err().to_string();
        assert!(error.contains("`ls /no/such/directory` ended with"), "{error}");
        assert!(error.contains("No such file"), "{error}");
    }

    #[test]
    fn a_program_that_hangs_is_ended_at_its_deadline() {
        let begun = Instant::now();
        let error = capture(Command::new("sleep").arg("60"), Duration::from_millis(100)).unwrap_err().to_string();
        assert!(error.contains("did not end within 0.1 s"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn what_runs_beside_us_is_heard_at_its_end() {
        let finished = Background::start(Command::new("echo").arg("one two")).unwrap().finish().unwrap();
        assert_eq!((finished.status.success(), finished.stdout.as_str()), (true, "one two\n"));
    }

    #[test]
    fn what_runs_beside_us_is_gone_when_dropped() {
        let hanging = Background::start(Command::new("sleep").arg("60")).unwrap();
        let process = format!("/proc/{}", hanging.child.id());
        drop(hanging);
        assert!(!std::path::Path::new(&process).exists());
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("no-such-program-anywhere")).unwrap_err().to_string();
        assert_eq!(error, "could not start `no-such-program-anywhere`");
    }
}
