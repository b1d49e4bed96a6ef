//! Runs a charm's real binary with a cleared environment, among made-up programs: hook tools that answer as Juju does,
//! and whatever else the charm would start on its machine. Every program is a small script that remembers how it was
//! called. Files of the machine are below a directory of their own, so that nothing is read from this one, or written.

#![allow(dead_code, reason = "each test binary uses its own part of this")]
#![expect(clippy::unwrap_used, reason = "a test without its stage has to end")]

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Hook tools that say nothing unless a test wants them to.
const SILENT: [&str; 20] = [
    "action-fail",
    "action-get",
    "action-log",
    "action-set",
    "application-version-set",
    "close-port",
    "juju-log",
    "open-port",
    "relation-set",
    "secret-add",
    "secret-get",
    "secret-grant",
    "secret-ids",
    "secret-info-get",
    "secret-remove",
    "secret-set",
    "state-get",
    "state-set",
    "status-set",
    "systemd-run",
];

/// A machine of programs that answer as told.
pub struct FakeJuju {
    directory: TempDir,
    answers: Vec<Answer>,
}

struct Answer {
    program: String,
    /// A shell pattern for the arguments, joined by blanks.
    pattern: String,
    stdout: String,
    stderr: String,
    exit_code: u8,
}

/// What one dispatch did.
#[derive(Debug)]
pub struct Run {
    pub exit_code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Every program that was started with its arguments, and `<` what it was given on standard input.
    pub calls: Vec<String>,
}

impl FakeJuju {
    /// A unit that leads, has no relation and no options, and whose status is unknown.
    pub fn new() -> Self {
        let mut juju = Self { directory: TempDir::new().unwrap(), answers: Vec::new() };
        fs::create_dir(juju.bin()).unwrap();
        fs::create_dir(juju.charm_dir()).unwrap();
        fs::create_dir(juju.root()).unwrap();
        juju.answers("is-leader", "*", "true")
            .answers("config-get", "*", "{}")
            .answers("relation-ids", "*", "[]")
            .answers("opened-ports", "*", "[]")
            .answers("status-get", "*", r#"{"message":"","status":"unknown","status-data":{}}"#)
            .answers("goal-state", "*", r#"{"units":{"test/0":{"status":"waiting","since":"x"}},"relations":{}}"#);
        for program in SILENT {
            juju.answers(program, "*", "");
        }
        juju
    }

    fn bin(&self) -> PathBuf {
        self.directory.path().join("bin")
    }

    /// Where the charm believes to be unpacked.
    pub fn charm_dir(&self) -> PathBuf {
        self.directory.path().join("charm")
    }

    /// Where the charm finds the files of its machine.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("machine")
    }

    /// Puts a file on the machine.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.file(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Returns where a file of the machine really is.
    pub fn file(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    /// Makes a program print `stdout` when its arguments match. What was said last about a program counts first.
    pub fn answers(&mut self, program: &str, pattern: &str, stdout: &str) -> &mut Self {
        self.says(program, pattern, stdout, "", 0)
    }

    /// Makes a program fail when its arguments match.
    pub fn fails(&mut self, program: &str, pattern: &str, exit_code: u8, stderr: &str) -> &mut Self {
        self.says(program, pattern, "", stderr, exit_code)
    }

    fn says(&mut self, program: &str, pattern: &str, stdout: &str, stderr: &str, exit_code: u8) -> &mut Self {
        self.answers.push(Answer {
            program: program.to_owned(),
            pattern: pattern.to_owned(),
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            exit_code,
        });
        self
    }

    fn write_programs(&self) {
        let mut programs: Vec<&str> = self.answers.iter().map(|answer| answer.program.as_str()).collect();
        programs.sort_unstable();
        programs.dedup();
        for program in programs {
            let path = self.bin().join(program);
            fs::write(&path, self.script(program)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    fn script(&self, program: &str) -> String {
        let calls = self.calls_file();
        let calls = calls.display();
        let mut script = String::from("#!/bin/sh\ninput=\n");
        // Only who is told to read from its standard input has one.
        script += "case \" $* \" in *\" --file - \"*) input=\" < $(/bin/cat)\" ;; esac\n";
        writeln!(script, "printf '%s\\n' \"{program} $*$input\" >> {calls}\ncase \"$*\" in").unwrap();
        for answer in self.answers.iter().rev().filter(|answer| answer.program == program) {
            let pattern = answer.pattern.replace(' ', "\\ ");
            let (stdout, stderr) = (quoted(&answer.stdout), quoted(&answer.stderr));
            writeln!(script, "{pattern}) printf '%s' {stdout}; printf '%s' {stderr} >&2; exit {} ;;", answer.exit_code)
                .unwrap();
        }
        script += "esac\nexit 99\n";
        script
    }

    fn calls_file(&self) -> PathBuf {
        self.directory.path().join("calls")
    }

    /// Runs one dispatch of `unit`, with further variables as Juju sets them for this kind of hook.
    #[expect(clippy::disallowed_methods, reason = "starts the charm as Juju does")]
    pub fn dispatch(&self, binary: &str, unit: &str, path: &str, variables: &[(&str, &str)]) -> Run {
        self.write_programs();
        let _ = fs::remove_file(self.calls_file());
        let output = Command::new(binary)
            .env_clear()
            .env("PATH", self.bin())
            .env("MACHINE_ROOT", self.root())
            .env("JUJU_DISPATCH_PATH", path)
            .env("JUJU_HOOK_NAME", path.strip_prefix("hooks/").unwrap_or_default())
            .env("JUJU_UNIT_NAME", unit)
            .env("JUJU_CHARM_DIR", self.charm_dir())
            .env("JUJU_MODEL_UUID", "4f3a1a5e-1111-4222-8333-444455556666")
            .env("JUJU_VERSION", "4.0.9")
            .envs(variables.iter().copied())
            .current_dir(self.charm_dir())
            .output()
            .unwrap();
        Run {
            exit_code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            calls: read_lines(&self.calls_file()),
        }
    }
}

impl Run {
    /// Returns the calls of one program.
    pub fn of(&self, program: &str) -> Vec<&str> {
        let is_it = |call: &&String| call.split(' ').next() == Some(program);
        self.calls.iter().filter(is_it).map(String::as_str).collect()
    }

    /// Fails unless a program was called exactly so.
    #[track_caller]
    pub fn called(&self, call: &str) {
        assert!(self.calls.iter().any(|seen| seen == call), "no `{call}` in {self:#?}");
    }

    /// Fails if one of these programs was called at all.
    #[track_caller]
    pub fn never_called(&self, programs: &[&str]) {
        for program in programs {
            assert!(self.of(program).is_empty(), "{self:#?}");
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn read_lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}
