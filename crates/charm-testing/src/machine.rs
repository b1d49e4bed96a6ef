//! A machine with behaviour: its files are real ones in a directory of their own, its programs are made up.
//!
//! Which program does what is in the files below; here is only who gets called.

mod fence;
mod mounts;
mod packages;
mod pause;
mod slurmdbd;
mod systemd;

use crate::knife::Knife;
use crate::slurm::{FakeJob, FakeSlurm};
use crate::store::{self, Fault, Site};
use charm::UnitName;
use packages::Archive;
use pause::Meanwhile;
use slurm_ops::Machine;
use slurm_ops::command::{CommandRunner, Ended};
use slurm_ops::store::StoreFault;
use slurmdbd::Accounting;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use systemd::Unit;
use tempfile::TempDir;

/// A machine to run a charm on.
#[derive(Clone, Debug)]
pub struct FakeMachine {
    programs: Arc<Programs>,
}

#[derive(Debug)]
pub(crate) struct Programs {
    root: TempDir,
    site: Arc<Site>,
    state: Mutex<State>,
    knife: Mutex<Knife>,
    slurm: Mutex<FakeSlurm>,
    unit: UnitName,
    meanwhile: Mutex<Meanwhile>,
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<String>,
    reads: Vec<String>,
    units: BTreeMap<String, Unit>,
    next_pid: u32,
    archive: Archive,
    accounting: Accounting,
    /// Programs that are there no more.
    lost: Vec<String>,
    /// How many programs start before one fails.
    until_failure: Option<usize>,
}

impl FakeMachine {
    /// Returns a fresh machine for a unit: nothing is installed, the archive has everything, and whoever asks Slurm for
    /// its controllers gets an answer.
    #[expect(clippy::missing_panics_doc, reason = "a test without its stage has to end")]
    pub fn of(unit: &UnitName) -> Self {
        let root = store::directory();
        let site = Arc::new(Site::new(root.path(), unit.dashed()));
        let slurm = FakeSlurm::played();
        slurm.lock().meet(root.path(), &site);
        let fake = Self {
            programs: Arc::new(Programs {
                root,
                site,
                state: Mutex::default(),
                knife: Mutex::default(),
                slurm: Mutex::new(slurm),
                unit: unit.clone(),
                meanwhile: Mutex::default(),
            }),
        };
        let (user, group) = (nix::unistd::Uid::effective(), nix::unistd::Gid::effective());
        // Whoever runs the test owns all there is, so every owner has its numbers.
        fake.write("/etc/passwd", &format!("root:x:{user}:{group}::/:/bin/sh\nslurm:x:{user}:{group}::/:/bin/false\n"));
        fake.write("/run/systemd/container", "systemd-nspawn\n");
        fake.write("/proc/1/cmdline", "/sbin/init\0");
        fake.write("/proc/self/mountinfo", store::DISK);
        // It is copied, and what a test runs as is large.
        fake.write(&program(unit), "the charm's own program\n");
        for directory in ["/etc/slurm", "/etc/default", "/var/lib/dpkg/updates"] {
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

    /// Makes the machine part of a cluster, in which some machine has to run slurmctld. A machine that is part of none
    /// has a Slurm of its own, whose controller the test plays.
    #[must_use]
    pub fn in_cluster(self, slurm: &FakeSlurm) -> Self {
        slurm.lock().meet(self.programs.root.path(), &self.programs.site);
        slurm.know(Arc::downgrade(&self.programs));
        *self.programs.slurm.lock().unwrap_or_else(PoisonError::into_inner) = slurm.clone();
        self
    }

    /// Returns the machine as a charm sees it.
    pub fn machine(&self) -> Machine {
        let runner = Arc::clone(&self.programs) as Arc<dyn CommandRunner>;
        let program = self.programs.path(&program(&self.programs.unit));
        Machine::at(self.programs.root.path()).with_runner(runner).with_program(program)
    }

    /// Runs a program of the machine, as an administrator would. None: there is no such program.
    pub fn run(&self, program: &str, words: &[&str]) -> Option<Ended> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        CommandRunner::run(&*self.programs, program, &words)
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

    /// Returns the files that were read since the last question, each as often as it was.
    pub fn take_reads(&self) -> Vec<String> {
        std::mem::take(&mut self.programs.state().reads)
    }

    /// Tells whether a service runs. One that is still being started does not.
    pub fn is_running(&self, service: &str) -> bool {
        let mut state = self.programs.state();
        self.programs.find_dead(&mut state);
        self.programs.is_up(&state, service)
    }

    /// Ends a service the hard way, as a crash would. A slurmctld whose store does not answer does nothing more, but
    /// systemd takes it for running until the store lets go of it.
    pub fn crash(&self, service: &str) {
        self.programs.crash(&mut self.programs.state(), service);
    }

    /// Has systemd start a service that failed once more, as it does by itself seconds later if it was told to.
    pub fn revive(&self, service: &str) {
        self.programs.start(&mut self.programs.state(), service, false);
    }

    /// Has a service have been started at a time, in seconds since 1970: files are dated in seconds, too.
    pub fn set_started(&self, service: &str, seconds: u64) {
        self.programs.state().units.entry(service.to_owned()).or_default().started = seconds;
    }

    /// Takes the power away and gives it back: every daemon is gone without a word, what was in memory as well. What is
    /// enabled starts.
    pub fn reboot(&self) {
        self.programs.meanwhile().cut = true;
        self.programs.reboot(&mut self.programs.state());
    }

    /// Has the slurmctld of this machine take control as a backup does when the primary is gone. Tells whether it
    /// survives.
    pub fn take_over(&self) -> bool {
        self.programs.slurm().lock().take_over(self.programs.root.path())
    }

    /// Returns the events that timers of this machine send to a unit: what `juju-exec` is told to dispatch.
    pub(crate) fn timers(&self, unit: &UnitName) -> Vec<String> {
        let entries = fs::read_dir(self.programs.path("/run/systemd/transient")).into_iter().flatten().flatten();
        let mut texts: Vec<String> = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok()).collect();
        texts.sort();
        let event = |text: &String| {
            let (_, call) = text.split_once(&format!("juju-exec -u {unit} JUJU_DISPATCH_PATH=hooks/"))?;
            call.split_whitespace().next().map(str::to_owned)
        };
        texts.iter().filter_map(event).collect()
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
        self.programs.slurm().lock().cut_off(self.programs.root.path(), !answer);
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
    pub fn set_by_hand(&self, words: &[&str]) {
        let all: Vec<&str> = ["update"].iter().chain(words).copied().collect();
        self.scontrol(&all);
    }

    /// Has an administrator call `scontrol`, with success.
    #[expect(clippy::missing_panics_doc, reason = "a test without its stage has to end")]
    pub fn scontrol(&self, words: &[&str]) {
        let told = self.ask_scontrol(words);
        assert!(told.is_ok(), "{words:?}: {told:?}");
    }

    /// Has an administrator call `scontrol`. Returns what it prints, or its complaint.
    pub fn ask_scontrol(&self, words: &[&str]) -> Result<String, String> {
        let ended = self.programs.slurm().lock().scontrol(self.programs.root.path(), words);
        match ended.code {
            0 => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
            _ => Err(ended.stderr),
        }
    }

    /// Returns what Slurm has in memory about partitions: one line each, with every setting.
    pub fn partitions(&self) -> Vec<String> {
        self.programs.slurm().lock().partition_lines().lines().map(str::to_owned).collect()
    }

    /// Puts a job into the queue or onto nodes, and returns its number.
    pub fn submit(&self, job: FakeJob) -> u64 {
        self.programs.slurm().lock().submit(job)
    }

    /// Ends a job. Its record stays.
    pub fn end_job(&self, id: u64) {
        self.programs.slurm().lock().end_job(id);
    }

    /// Returns the Slurm of this machine's cluster, or of the machine alone.
    pub fn slurm(&self) -> FakeSlurm {
        self.programs.slurm()
    }

    /// Returns the numbers of all jobs that have not ended.
    pub fn jobs(&self) -> Vec<u64> {
        self.programs.slurm().jobs()
    }

    /// Makes a node known to Slurm whose slurmd is on another machine.
    pub fn add_node(&self, name: &str, feature: &str) {
        self.programs.slurm().lock().add_node(name, feature);
    }

    /// Lets every job fail on a node.
    pub fn break_node(&self, name: &str) {
        self.programs.slurm().lock().whims.broken.insert(name.to_owned());
    }

    /// Has the journal say this when it is read next.
    pub fn journal(&self, text: &str) {
        self.programs.slurm().lock().set_journal(self.programs.root.path(), text);
    }

    /// Has Slurm's parser refuse every slurm.conf with this word in it.
    pub fn parser_refuses(&self, word: &str) {
        self.programs.slurm().lock().whims.unreadable.push(word.to_owned());
    }

    /// Has slurmctld refuse every slurm.conf with this word in it, in these words.
    pub fn slurmctld_refuses(&self, word: &str, journal: &str) {
        self.programs.slurm().lock().whims.objections.push((word.to_owned(), journal.to_owned()));
    }

    /// Has slurmctld serve nobody after a reconfigure that it refused, until it is restarted.
    pub fn slurmctld_sulks(&self) {
        self.programs.slurm().lock().whims.sulks = true;
    }

    /// Has the next reconfigure refuse, with this line in the journal.
    pub fn refuse_next_configuration(&self, journal: &str) {
        self.programs.slurm().lock().whims.refusal = Some(journal.to_owned());
    }
}

impl Programs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn knife(&self) -> Knife {
        self.knife.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn slurm(&self) -> FakeSlurm {
        self.slurm.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn path(&self, path: &str) -> PathBuf {
        store::within(self.root.path(), path)
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

/// Where the charm's own program is.
fn program(unit: &UnitName) -> String {
    format!("/var/lib/juju/agents/unit-{}/charm/dispatch", unit.dashed())
}

/// A program that printed something and is content.
pub(crate) fn says(stdout: impl Into<Vec<u8>>) -> Ended {
    Ended { stdout: stdout.into(), ..Ended::default() }
}

/// A program that is not.
pub(crate) fn fails(code: i32, stderr: impl Into<String>) -> Ended {
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
        self.find_dead(&mut state);
        let (slurm, root) = (self.slurm(), self.root.path());
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
            "useradd" => {
                let passwd = self.read("/etc/passwd").unwrap_or_default();
                let (user, group) = (nix::unistd::Uid::effective(), nix::unistd::Gid::effective());
                let name = words.last().copied().unwrap_or_default();
                if passwd.lines().any(|line| line.starts_with(&format!("{name}:"))) {
                    return Some(fails(9, format!("useradd: user '{name}' already exists\n")));
                }
                self.write("/etc/passwd", format!("{passwd}{name}:x:{user}:{group}::/:/bin/false\n").as_bytes());
                Some(says(""))
            }
            "journalctl" => Some(says(slurm.lock().read_journal(root, &words))),
            // Nobody has a program before its package.
            "slurmd" if self.read("/usr/lib/systemd/system/slurmd.service").is_some() => Some(says(
                "NodeName=host CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=24103\n\
                 UpTime=0-00:12:04\n",
            )),
            "scontrol" if self.is_installed("slurm-client") => Some(slurm.lock().scontrol(root, &words)),
            "squeue" if self.is_installed("slurm-client") => Some(slurm.lock().squeue(root, &words)),
            "sinfo" if self.is_installed("slurm-client") => Some(slurm.lock().sinfo(root, &words)),
            "scancel" if self.is_installed("slurm-client") => Some(slurm.lock().scancel(root, &words)),
            "slurmdbd" if self.is_installed("slurmdbd") => Some(self.slurmdbd(&state)),
            "sacctmgr" if self.is_installed("slurm-client") => Some(self.sacctmgr(&state, &words)),
            "sstat" if self.is_installed("slurm-client") => Some(slurm.lock().sstat(root, &words)),
            "srun" if self.is_installed("slurm-client") => Some(slurm.lock().srun(root, &words)),
            _ => None,
        }
    }

    fn before_read(&self, path: &Path) {
        let shown = path.strip_prefix(self.root.path()).unwrap_or(path);
        let mut state = self.state();
        state.reads.push(format!("/{}", shown.display()));
        self.refresh_fence(&state, path);
    }

    fn run_with(&self, program: &str, arguments: &[String], variables: &[(String, OsString)]) -> Option<Ended> {
        let conf = variables.iter().find(|(name, _)| name == "SLURM_CONF");
        let candidate = conf.and_then(|(_, path)| fs::read_to_string(path).ok());
        crate::slurm::reading(candidate, || self.run(program, arguments))
    }

    fn before_write(&self, path: &Path) -> io::Result<()> {
        if let StoreFault::Unwritable(kind) = self.store(path)
            && self.is_on_store(path)
        {
            return Err(kind.into());
        }
        let shown = path.strip_prefix(self.root.path()).unwrap_or(path);
        self.knife().before(format!("write /{}", shown.display()));
        Ok(())
    }

    fn host_name(&self) -> Option<String> {
        Some(self.site.name())
    }

    fn now(&self) -> u64 {
        self.slurm().lock().now()
    }

    fn pause(&self, length: Duration) {
        self.let_pass(length);
    }

    fn store(&self, _path: &Path) -> StoreFault {
        match self.site.fault() {
            Some(Fault::Silent) => StoreFault::Silent,
            Some(Fault::ReadOnly) => StoreFault::Unwritable(ErrorKind::ReadOnlyFilesystem),
            Some(Fault::Full) => StoreFault::Unwritable(ErrorKind::StorageFull),
            // Behind the trigger nothing is found.
            Some(Fault::Gone) | None => StoreFault::None,
        }
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
        "apt-cache" | "journalctl" | "sinfo" | "squeue" | "sdiag" | "sstat" | "slurmd" | "sacctmgr" => true,
        _ => false,
    }
}
