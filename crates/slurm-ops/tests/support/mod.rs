//! A machine of its own for a test: a directory for its files, and small programs that answer as real ones were seen
//! to do.

#![allow(dead_code, reason = "each test binary uses its own part of this")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use slurm_ops::Machine;
use std::fs;
use std::process::Command;

pub struct Sandbox {
    directory: tempfile::TempDir,
}

impl Sandbox {
    pub fn new() -> Self {
        let sandbox = Self { directory: tempfile::tempdir().unwrap() };
        let (user, group) = (nix::unistd::Uid::effective(), nix::unistd::Gid::effective());
        sandbox.file("/proc/self/mountinfo", "1 0 0:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n");
        sandbox
            .file("/etc/passwd", &format!("root:x:{user}:{group}::/:/bin/sh\nslurm:x:{user}:{group}::/:/bin/false\n"));
        sandbox
    }

    pub fn machine(&self) -> Machine {
        let programs = self.directory.path().join("programs");
        // The small programs are shell scripts and need the tools of this machine.
        let search_path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        Machine::at(self.directory.path()).with_search_path(search_path)
    }

    /// Writes a file of the machine.
    pub fn file(&self, path: &str, content: &str) -> &Self {
        let path = self.directory.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Makes a program that notes its arguments and then runs `script`, in which `$ROOT` is the machine's directory.
    #[expect(clippy::disallowed_methods, reason = "the copy must be another process's")]
    pub fn program(&self, name: &str, script: &str) -> &Self {
        let root = self.directory.path().display();
        let text = format!("#!/bin/sh\nROOT={root}\necho \"{name} $*\" >> $ROOT/calls\n{script}\n");
        let source = format!("{name}.sh");
        self.file(&source, &text);
        // Copied by another process: a file that this one had open for writing could still be held by a fork of
        // another test's thread, and then cannot be executed.
        let target = self.path(&format!("programs/{name}"));
        let status =
            Command::new("install").args(["-D", "-m", "755"]).arg(self.path(&source)).arg(target).status().unwrap();
        assert!(status.success());
        self
    }

    /// Makes a program that prints a recorded answer.
    pub fn answer(&self, name: &str, stdout: &str, stderr: &str, code: i32) -> &Self {
        self.file(&format!("{name}.stdout"), stdout).file(&format!("{name}.stderr"), stderr);
        self.program(name, &format!("cat $ROOT/{name}.stdout; cat $ROOT/{name}.stderr >&2; exit {code}"))
    }

    /// Returns which programs were started with which arguments, in order.
    pub fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.directory.path().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.directory.path().join(path.trim_start_matches('/'))).unwrap()
    }

    pub fn path(&self, path: &str) -> std::path::PathBuf {
        self.directory.path().join(path.trim_start_matches('/'))
    }
}
