//! `juju ssh` and `juju scp`. There is no ssh between host and machine: the command steps into the machine's namespaces
//! and becomes the user there, with the exit status passed through.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};

use anyhow::Context as _;

use super::connect::Client;
use super::{DONE, Outcome, Refusal};
use crate::flags::{self, Flag, Parsed, switch, value};
use crate::machine::Machine;
use crate::wire::Request;

const FLAGS: &[Flag] = &[
    value(&["m", "model"]),
    value(&["container"]),
    switch(&["no-host-key-checks"]),
    switch(&["pty"]),
    switch(&["proxy"]),
    switch(&["remote"]),
];
const DEFAULT_USER: &str = "ubuntu";
/// Options of OpenSSH that take a value.
const SSH_VALUES: &[&str] =
    &["-o", "-i", "-p", "-l", "-F", "-L", "-R", "-D", "-b", "-c", "-e", "-E", "-J", "-m", "-S", "-W", "-w"];

fn machine(client: &mut Client, target: &str) -> Result<Machine, Refusal> {
    let answer = client.ask(&Request::Locate { target: target.to_owned() })?;
    let directory = PathBuf::from(answer["directory"].as_str().unwrap_or_default());
    let found = Machine::open(&directory)?;
    match found.filter(Machine::is_running) {
        Some(machine) => Ok(machine),
        None => {
            Err(Refusal::failed(format!("machine {} is not running", answer["machine"].as_str().unwrap_or_default())))
        }
    }
}

/// `user@target`.
fn split_user(text: &str) -> (&str, &str) {
    text.split_once('@').unwrap_or((DEFAULT_USER, text))
}

fn check_user(user: &str) -> Result<(), Refusal> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    match !user.is_empty() && !user.starts_with('-') && user.chars().all(allowed) {
        true => Ok(()),
        false => Err(Refusal::failed(format!("{user:?} is not the name of a user"))),
    }
}

/// The words after the options of ssh.
fn without_ssh_options(words: &[String]) -> &[String] {
    let mut rest = words;
    while let Some((word, tail)) = rest.split_first() {
        if word == "--" {
            return tail;
        }
        if !word.starts_with('-') {
            return rest;
        }
        rest = if SSH_VALUES.contains(&word.as_str()) { tail.get(1..).unwrap_or_default() } else { tail };
    }
    rest
}

/// Becomes the user, in its home and with nothing but its own environment, and runs the second argument for the shell.
///
/// Each step takes the place of the one before it. A `runuser` would stay as a parent that stops itself when its child
/// is stopped, as everybody is in a machine that shuts down; and the machine would wait a minute and a half for it.
const LOGIN: &str = "group=$(id -g \"$1\") || exit 1; user=$1 script=$2; shift 2; exec setpriv --reuid=\"$user\" \
    --regid=\"$group\" --init-groups --reset-env -- /bin/sh -c \"cd 2>/dev/null; unset OLDPWD; ulimit -Sn 1024; \
    $script\" sh \"$@\"";

/// The words of a script for the shell of a user's; arguments may follow.
fn login<'a>(user: &'a str, script: &'a str) -> Vec<&'a str> {
    vec!["/bin/sh", "-c", LOGIN, "sh", user, script]
}

fn exit_code(status: ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(255))
}

pub fn ssh(arguments: &[String]) -> Outcome {
    let parsed = flags::parse(FLAGS, arguments, true).map_err(Refusal::usage)?;
    let Some((target, words)) = parsed.arguments.split_first() else {
        return Err(Refusal::usage("no target name specified"));
    };
    let (user, target) = split_user(target);
    check_user(user)?;
    let machine = machine(&mut Client::for_command(&parsed)?, target)?;
    let command = without_ssh_options(words).join(" ");
    let mut words = login(user, "exec \"$SHELL\" -l \"$@\"");
    if !command.is_empty() {
        words.extend(["-c", &command]);
    }
    let mut command = machine.command(&words)?;
    if let Some(terminal) = std::env::var_os("TERM") {
        command.env("TERM", terminal);
    }
    let status = command.status().context("starting the command")?;
    Ok(exit_code(status))
}

/// One end of a copy.
enum End {
    Host(PathBuf),
    Machine { machine: Box<Machine>, user: String, path: String },
}

fn end(parsed: &Parsed, text: &str) -> Result<End, Refusal> {
    let Some((place, path)) =
        text.split_once(':').filter(|(place, _)| !place.contains("./") && !place.starts_with('/'))
    else {
        return Ok(End::Host(PathBuf::from(text)));
    };
    let (user, target) = split_user(place);
    check_user(user)?;
    let machine = machine(&mut Client::for_command(parsed)?, target)?;
    Ok(End::Machine {
        machine: Box::new(machine),
        user: user.to_owned(),
        path: if path.is_empty() { ".".to_owned() } else { path.to_owned() },
    })
}

pub fn scp(arguments: &[String]) -> Outcome {
    let parsed = flags::parse(FLAGS, arguments, true).map_err(Refusal::usage)?;
    let recursive =
        parsed.arguments.iter().any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('r'));
    let paths: Vec<&String> = parsed.arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let Some((target, sources)) = paths.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Err(Refusal::usage("at least two arguments required"));
    };
    for source in sources {
        match (end(&parsed, source)?, end(&parsed, target)?) {
            (End::Host(source), End::Machine { machine, user, path }) => {
                upload(&source, &machine, &user, &path, recursive)?
            }
            (End::Machine { machine, user, path }, End::Host(target)) => {
                download(&machine, &user, &path, &target, recursive)?
            }
            _ => return Err(Refusal::usage("one of source and destination must be on a machine, the other here")),
        }
    }
    DONE
}

/// A script that sees its arguments as `$1`, `$2`: paths never become words of the shell.
fn as_user(machine: &Machine, user: &str, script: &str, arguments: &[&str]) -> anyhow::Result<std::process::Command> {
    let mut words = login(user, script);
    words.extend(arguments);
    machine.command(&words)
}

fn check(what: &Path, status: ExitStatus) -> Result<(), Refusal> {
    match status.success() {
        true => Ok(()),
        false => Err(Refusal::failed(format!("copying {} failed", what.display()))),
    }
}

/// The `tar` of the host; that of a machine is started there.
#[expect(clippy::disallowed_methods, reason = "as `scp` would, it runs as whoever called and where they stand")]
fn tar() -> std::process::Command {
    std::process::Command::new("tar")
}

fn upload(source: &Path, machine: &Machine, user: &str, path: &str, recursive: bool) -> Result<(), Refusal> {
    let name = source.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if source.is_dir() {
        if !recursive {
            return Err(Refusal::failed(format!("{}: not a regular file", source.display())));
        }
        let parent = source.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut packer = tar()
            .arg("-C")
            .arg(parent)
            .args(["-cf", "-", "--", &name])
            .stdout(Stdio::piped())
            .spawn()
            .context("starting tar")?;
        let stream = packer.stdout.take().context("tar has no output")?;
        let status =
            as_user(machine, user, "tar -C \"$1\" -xf -", &[path])?.stdin(stream).status().context("starting tar")?;
        packer.wait().context("waiting for tar")?;
        return check(source, status);
    }
    let file = File::open(source).map_err(|error| Refusal::failed(format!("{}: {error}", source.display())))?;
    let script = "if [ -d \"$1\" ]; then cat > \"$1/$2\"; else cat > \"$1\"; fi";
    let status = as_user(machine, user, script, &[path, &name])?.stdin(file).status().context("starting the copy")?;
    check(source, status)
}

fn download(machine: &Machine, user: &str, path: &str, target: &Path, recursive: bool) -> Result<(), Refusal> {
    if recursive {
        let mut packer =
            as_user(machine, user, "cd \"$(dirname \"$1\")\" && tar -cf - -- \"$(basename \"$1\")\"", &[path])?
                .stdout(Stdio::piped())
                .spawn()
                .context("starting tar")?;
        let stream = packer.stdout.take().context("tar has no output")?;
        let status = tar().arg("-C").arg(target).args(["-xf", "-"]).stdin(stream).status();
        packer.wait().context("waiting for tar")?;
        return check(Path::new(path), status.context("starting tar")?);
    }
    let name = Path::new(path).file_name().map(PathBuf::from).unwrap_or_default();
    let target = if target.is_dir() { target.join(name) } else { target.to_owned() };
    let file = File::create(&target).map_err(|error| Refusal::failed(format!("{}: {error}", target.display())))?;
    let status =
        as_user(machine, user, "cat -- \"$1\"", &[path])?.stdout(file).status().context("starting the copy")?;
    check(Path::new(path), status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_ssh_are_not_the_command() {
        let words: Vec<String> = ["-o", "StrictHostKeyChecking=no", "-t", "echo", "-n", "x"].map(str::to_owned).into();
        assert_eq!(without_ssh_options(&words), ["echo", "-n", "x"]);
    }
}
