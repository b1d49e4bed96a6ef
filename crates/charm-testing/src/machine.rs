//! A machine with behaviour: its files are real ones in a directory of their own, its programs are made up.
//!
//! Which program does what is in the files below; here is only who gets called.

mod jobs;
mod packages;
mod slurm;
mod systemd;

use crate::knife::Knife;
use charm::UnitName;
use packages::Archive;
use slurm::Slurm;
use slurm_ops::Machine;
use slurm_ops::command::{CommandRunner, Ended};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use systemd::Unit;
use tempfile::TempDir;

/// A machine to run a charm on.
#[derive(Clone, Debug)]
pub struct FakeMachine {
    programs: Arc<Programs>,
}

pub use jobs::FakeJob;

#[derive(Debug)]
struct Programs {
    root: TempDir,
    state: Mutex<State>,
    knife: Mutex<Knife>,
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<String>,
    units: BTreeMap<String, Unit>,
    next_pid: u32,
    slurm: Slurm,
    archive: Archive,
    /// Programs that are there no more.
    lost: Vec<String>,
    /// How many programs start before one fails.
    until_failure: Option<usize>,
}

impl FakeMachine {
    /// Returns a fresh machine for a unit: nothing is installed, the archive has everything, and whoever asks Slurm for its controllers
    /// gets an answer.
    #[expect(clippy::missing_panics_doc, reason = "a test without its stage has to end")]
    pub fn of(unit: &UnitName) -> Self {
        // Every file is written out to its disk, which in memory takes no time.
        let root = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a test needs a directory");
        let fake = Self { programs: Arc::new(Programs { root, state: Mutex::default(), knife: Mutex::default() }) };
        let (user, group) = (nix::unistd::Uid::effective(), nix::unistd::Gid::effective());
        // Whoever runs the test owns all there is, so every owner has its numbers.
        fake.write("/etc/passwd", &format!("root:x:{user}:{group}::/:/bin/sh\nslurm:x:{user}:{group}::/:/bin/false\n"));
        fake.write("/run/systemd/container", "systemd-nspawn\n");
        fake.write("/proc/self/mountinfo", "1 0 0:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n");
        let charm = format!("/var/lib/juju/agents/unit-{}/charm", unit.dashed());
        for directory in ["/etc/slurm", "/etc/default", "/var/lib/dpkg/updates", &charm] {
            fs::create_dir_all(fake.programs.path(directory)).expect("a test needs its directories");
        }
        fake
    }

    /// Puts the machine under a knife, most often that of its model.
    #[must_use]
    pub fn under(self, knife: &Knife) -> Self {
        *self.programs.knife.lock().unwrap_or_else(PoisonError::into_inner) = knife.clone();
        self
    }

    /// Returns the machine as a charm sees it.
    pub fn machine(&self) -> Machine {
        Machine::at(self.programs.root.path()).with_runner(Arc::clone(&self.programs) as Arc<dyn CommandRunner>)
    }

    /// Writes a file of the machine, parents included.
    #[expect(clippy::missing_panics_doc, reason = "a test without its stage has to end")]
    pub fn write(&self, path: &str, content: &str) {
        let path = self.programs.path(path);
        fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a test needs its directories");
        fs::write(path, content).expect("a test needs its files");
    }

    /// Reads a file of the machine. None: there is none.
    pub fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.programs.path(path)).ok()
    }

    /// Returns the programs that were started since the last question, with their arguments.
    pub fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.programs.state().calls)
    }

    /// Tells whether a service runs.
    pub fn is_running(&self, service: &str) -> bool {
        self.programs.state().units.get(service).is_some_and(|unit| unit.pid.is_some())
    }

    /// Ends a service the hard way, as a crash would.
    pub fn crash(&self, service: &str) {
        if let Some(unit) = self.programs.state().units.get_mut(service) {
            unit.pid = None;
            unit.failed = true;
        }
    }

    /// Has the archive offer Slurm in another version than it does at first, such as `23.11.4-1.2ubuntu5`.
    pub fn archive_offers(&self, version: &str) {
        self.programs.state().archive.version = version.to_owned();
    }

    /// Takes a package out of the archive.
    pub fn archive_lacks(&self, package: &str) {
        self.programs.state().archive.missing.push(package.to_owned());
    }

    /// Has `apt-get` and `apt-mark` fail with these words, or work again.
    pub fn apt_complains(&self, words: Option<&str>) {
        self.programs.state().archive.complaint = words.map(str::to_owned);
    }

    /// Takes a program away, as half an upgrade or a bad disk would.
    pub fn lose_program(&self, program: &str) {
        self.programs.state().lost.push(program.to_owned());
    }

    /// Cuts the machine off from every controller, or reconnects it.
    pub fn controllers_answer(&self, answer: bool) {
        self.programs.state().slurm.silent = !answer;
    }

    /// Has the program after the next `count` ones fail, without any effect. Tells nothing about why.
    pub fn fail_after(&self, count: usize) {
        self.programs.state().until_failure = Some(count);
    }

    /// Tells whether a failure that was ordered has not come yet, and takes the order back.
    pub fn spare(&self) -> bool {
        self.programs.state().until_failure.take().is_some()
    }

    /// Has an administrator set something with `scontrol update`: `["partitionname=compute", "maxtime=33"]`.
    #[expect(clippy::missing_panics_doc, reason = "a test without its stage has to end")]
    pub fn set_by_hand(&self, words: &[&str]) {
        let mut state = self.programs.state();
        let all: Vec<&str> = ["update"].iter().chain(words).copied().collect();
        let ended = self.programs.scontrol(&mut state, &all);
        assert_eq!(ended.code, 0, "{words:?}: {}", ended.stderr);
    }

    /// Has an administrator call `scontrol`.
    #[expect(clippy::missing_panics_doc, reason = "a test without its stage has to end")]
    pub fn scontrol(&self, words: &[&str]) {
        let mut state = self.programs.state();
        let ended = self.programs.scontrol(&mut state, words);
        assert_eq!(ended.code, 0, "{words:?}: {}", ended.stderr);
    }

    /// Returns what Slurm has in memory about partitions: one line each, with every setting.
    pub fn partitions(&self) -> Vec<String> {
        let mut state = self.programs.state();
        let ended = self.programs.scontrol(&mut state, &["--oneliner", "show", "partition"]);
        String::from_utf8_lossy(&ended.stdout).lines().map(str::to_owned).collect()
    }

    /// Has the journal say this when it is read next.
    pub fn journal(&self, text: &str) {
        self.programs.state().slurm.journal = text.to_owned();
    }

    /// Has Slurm's parser refuse every slurm.conf with this word in it.
    pub fn parser_refuses(&self, word: &str) {
        self.programs.state().slurm.unreadable.push(word.to_owned());
    }

    /// Has slurmctld refuse every slurm.conf with this word in it, in these words.
    pub fn slurmctld_refuses(&self, word: &str, journal: &str) {
        self.programs.state().slurm.objections.push((word.to_owned(), journal.to_owned()));
    }

    /// Has slurmctld serve nobody after a reconfigure that it refused, until it is restarted.
    pub fn slurmctld_sulks(&self) {
        self.programs.state().slurm.sulks = true;
    }

    /// Has the next reconfigure refuse, with this line in the journal.
    pub fn refuse_next_configuration(&self, journal: &str) {
        self.programs.state().slurm.refusal = Some(journal.to_owned());
    }
}

impl Programs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn knife(&self) -> Knife {
        self.knife.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.path(path);
        let written = path.parent().map(fs::create_dir_all).and_then(Result::ok).map(|()| fs::write(&path, content));
        assert!(matches!(written, Some(Ok(()))), "could not write {}", path.display());
    }
}

/// A program that printed something and is content.
fn says(stdout: impl Into<Vec<u8>>) -> Ended {
    Ended { stdout: stdout.into(), ..Ended::default() }
}

/// A program that is not.
fn fails(code: i32, stderr: impl Into<String>) -> Ended {
    Ended { code, stderr: stderr.into(), ..Ended::default() }
}

impl CommandRunner for Programs {
    fn run(&self, program: &str, arguments: &[String]) -> Option<Ended> {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut state = self.state();
        state.calls.push(format!("{program} {}", words.join(" ")));
        match state.until_failure {
            Some(0) => {
                state.until_failure = None;
                // What Slurm's clients say of a controller that does not answer. Other programs say something, too.
                return Some(fails(1, "made to fail: Unable to contact slurm controller (connect failure)\n"));
            }
            left => state.until_failure = left.map(|left| left - 1),
        }
        if state.lost.iter().any(|lost| lost == program) {
            return None;
        }
        let effect = !only_looks(program, &words);
        if effect {
            drop(state);
            self.knife().before(format!("{program} {}", words.join(" ")));
            state = self.state();
        }
        match program {
            "apt-cache" => Some(self.apt_cache(&state, &words)),
            "apt-get" => Some(self.apt_get(&state, &words)),
            "apt-mark" => Some(self.apt_mark(&state, &words)),
            "systemctl" => Some(self.systemctl(&mut state, &words)),
            "systemd-run" => Some(self.systemd_run(&words)),
            "kill" => {
                for pid in words.iter().filter_map(|word| word.parse::<u32>().ok()) {
                    let _ = fs::remove_dir_all(self.path(&format!("/proc/{pid}")));
                }
                Some(says(""))
            }
            "journalctl" => Some(says(std::mem::take(&mut state.slurm.journal))),
            "cat" => Some(match words.last().map(fs::read) {
                Some(Ok(content)) => says(content),
                _ => fails(1, "cat: No such file or directory\n"),
            }),
            "test" => Some(match words.get(1).map(fs::metadata) {
                Some(Ok(found)) if found.is_dir() => says(""),
                _ => fails(1, ""),
            }),
            // Nobody has a program before its package.
            "slurmd" if self.read("/usr/lib/systemd/system/slurmd.service").is_some() => Some(says(
                "NodeName=host CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=24103\n\
                 UpTime=0-00:12:04\n",
            )),
            "scontrol" if self.is_installed("slurm-client") => Some(self.scontrol(&mut state, &words)),
            "squeue" if self.is_installed("slurm-client") => Some(self.squeue(&mut state, &words)),
            "scancel" if self.is_installed("slurm-client") => Some(self.scancel(&mut state, &words)),
            "srun" if self.is_installed("slurm-client") => Some(self.srun(&mut state, &words)),
            _ => None,
        }
    }

    fn before_write(&self, path: &Path) {
        let shown = path.strip_prefix(self.root.path()).unwrap_or(path);
        self.knife().before(format!("write /{}", shown.display()));
    }
}

/// Tells whether a program changes nothing.
fn only_looks(program: &str, words: &[&str]) -> bool {
    match program {
        "systemctl" => words.contains(&"show"),
        "scontrol" => {
            let verb = words.iter().find(|word| !word.starts_with("--"));
            matches!(verb, Some(&("ping" | "show" | "version" | "listjobs")))
        }
        "apt-cache" | "cat" | "test" | "journalctl" | "squeue" | "slurmd" => true,
        _ => false,
    }
}
