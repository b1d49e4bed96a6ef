//! Running the external programs of this module: one way to start them, one form of error. No shell.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a program to its end and returns its standard output; a failure carries the command line and its standard
/// error.
pub(super) fn run(command: &mut Command) -> Result<String> {
    run_with_input(command, "")
}

/// Like [`run`], with something to read on standard input.
pub(super) fn run_with_input(command: &mut Command, input: &str) -> Result<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let line = line(command);
    let mut child = command.spawn().with_context(|| format!("could not start `{line}`"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends without reading tells why on its own; a broken pipe would only hide that.
        stdin.write_all(input.as_bytes()).ok();
    }
    let output = child.wait_with_output().with_context(|| format!("could not wait for `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed, {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command line as one would type it, for messages.
pub(super) fn line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// This very program, even when its file was replaced since it started.
#[expect(clippy::disallowed_methods, reason = "where this program starts itself")]
pub(super) fn ourselves<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("juju-local").args(arguments);
    command
}

/// Says whether a program of that name can be started.
pub(super) fn is_installed(name: &str) -> bool {
    find(name).is_some()
}

/// On PATH, or where system programs are: an ordinary user's PATH, kept by sudo, does not lead there.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(Into::into))
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

/// A command for a program of the system.
#[expect(clippy::disallowed_methods, reason = "where programs of the host are started")]
pub(super) fn system(name: &str) -> Command {
    Command::new(find(name).unwrap_or_else(|| name.into()))
}

/// The last lines of a log, for an error message.
pub(super) fn tail(path: &Path, lines: usize) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
}
