//! Where the files and programs of a machine are, and the two views of it: to look at and to change. Holds no state of
//! the machine.

use crate::command::{Command, CommandError, CommandRunner};
use crate::files::FileError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Something on a machine that could neither be read or written, nor be asked for.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A program failed, or had no answer in time.
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// The machine to work on. Hands out a [`Host`] to whoever looks and a [`HostWriter`] to whoever changes.
#[derive(Debug, Clone)]
pub struct Machine {
    host: Host,
}

#[derive(Debug, Clone)]
struct Place {
    root: PathBuf,
    search_path: Option<OsString>,
    runner: Option<Arc<dyn CommandRunner>>,
    fetched_conf: Option<PathBuf>,
}

/// The machine, to look at. Nothing can be changed through it.
///
/// ```compile_fail
/// use slurm_ops::{Machine, systemd};
///
/// let host = Machine::new().host();
/// systemd::restart(&host, "slurmd.service"); // A look cannot change anything: that takes a `HostWriter`.
/// ```
#[derive(Debug, Clone)]
pub struct Host {
    place: Arc<Place>,
}

/// The machine, to change. Nothing can be looked at through it: what a change has to tell is its outcome.
///
/// ```compile_fail
/// use slurm_ops::{Machine, systemd};
///
/// let writer = Machine::new().writer();
/// systemd::state(&writer, "slurmd.service"); // A change cannot look: that takes a `Host`.
/// ```
#[derive(Debug, Clone)]
pub struct HostWriter {
    host: Host,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// Returns the machine that this process runs on. A program that is not built for release takes its root from the
    /// variable `MACHINE_ROOT`, so that a test of the whole program changes nothing here.
    pub fn new() -> Self {
        let root = if cfg!(debug_assertions) { std::env::var_os("MACHINE_ROOT") } else { None };
        Self::at(root.unwrap_or_else(|| "/".into()))
    }

    /// Returns a machine whose files are below `root`. Programs are still started here.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        let place = Place { root: root.into(), search_path: None, runner: None, fetched_conf: None };
        Self { host: Host { place: Arc::new(place) } }
    }

    /// Looks for programs in these directories, joined by `:`, instead of in `PATH`.
    pub fn with_search_path(mut self, directories: impl Into<OsString>) -> Self {
        Arc::make_mut(&mut self.host.place).search_path = Some(directories.into());
        self
    }

    /// Has `runner` run programs instead of the system. Files stay where they are.
    pub fn with_runner(mut self, runner: Arc<dyn CommandRunner>) -> Self {
        Arc::make_mut(&mut self.host.place).runner = Some(runner);
        self
    }

    /// Has Slurm's clients read the configuration that a daemon on this machine fetched, while there is one. By
    /// themselves they prefer `/etc/slurm/slurm.conf`, and on a machine that was part of another cluster that is
    /// another cluster's.
    pub fn with_fetched_conf(mut self, path: impl Into<PathBuf>) -> Self {
        Arc::make_mut(&mut self.host.place).fetched_conf = Some(path.into());
        self
    }

    /// Returns the machine, to look at.
    pub fn host(&self) -> Host {
        self.host.clone()
    }

    /// Returns the machine, to change.
    pub fn writer(&self) -> HostWriter {
        HostWriter { host: self.host() }
    }

    /// Returns where an absolute path of the machine really is, for whoever sets a made-up machine up.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.host.path(path)
    }
}

impl Host {
    /// Returns where the configuration is that clients should read, if it is not where they look first.
    pub(crate) fn fetched_conf(&self) -> Option<PathBuf> {
        self.place.fetched_conf.as_ref().map(|path| self.path(path)).filter(|path| path.exists())
    }

    /// Returns where an absolute path of the machine really is.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.place.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns the time of the machine in seconds since 1970. Unlike [`clock::now`](crate::clock::now) it knows of
    /// pauses in which no time really passed.
    pub fn now(&self) -> u64 {
        match &self.place.runner {
            Some(runner) => runner.now(),
            None => crate::clock::now(),
        }
    }

    /// Announces that a file is about to be read, to the runner that takes the system's place.
    pub(crate) fn before_read(&self, path: &Path) {
        if let Some(runner) = &self.place.runner {
            runner.before_read(path);
        }
    }

    /// Tells whether a process is of this machine, and not of a container on it, whose processes are seen as well.
    pub(crate) fn owns_process(&self, pid: u32) -> bool {
        let space = |whose: &str| std::fs::read_link(self.path(format!("/proc/{whose}/ns/pid"))).ok();
        match (space("self"), space(&pid.to_string())) {
            (Some(own), Some(its)) => own == its,
            _ => true,
        }
    }

    /// Prepares a program that only looks.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.runner = self.place.runner.clone();
        match &self.place.search_path {
            Some(directories) => command.env("PATH", directories),
            None => command,
        }
    }
}

impl HostWriter {
    /// Returns the machine to look at, for a change that has to compare first.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Returns where an absolute path of the machine really is.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.host.path(path)
    }

    /// Announces that a file or directory is about to change, to the runner that takes the system's place.
    pub(crate) fn before_write(&self, path: &Path) {
        if let Some(runner) = &self.host.place.runner {
            runner.before_write(path);
        }
    }

    /// Lets time pass. Only a step whose whole purpose is to wait may do this: nothing else of the unit runs meanwhile.
    pub fn pause(&self, length: Duration) {
        match &self.host.place.runner {
            Some(runner) => runner.pause(length),
            None => std::thread::sleep(length),
        }
    }

    /// Prepares a program that changes something.
    pub(crate) fn command(&self, program: &str) -> Command {
        self.host.command(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        assert_eq!(Machine::at("/tmp/x").path("/etc/slurm"), PathBuf::from("/tmp/x/etc/slurm"));
        assert_eq!(Machine::new().path("/etc/slurm"), PathBuf::from("/etc/slurm"));
    }

    #[test]
    fn a_pause_takes_its_time_unless_somebody_is_in_the_place_of_the_system() {
        #[derive(Debug, Default)]
        struct Clock(std::sync::Mutex<Duration>);
        impl CommandRunner for Clock {
            fn run(&self, _: &str, _: &[String]) -> Option<crate::command::Ended> {
                None
            }
            fn pause(&self, length: Duration) {
                *self.0.lock().unwrap() += length;
            }
        }
        let (began, short) = (std::time::Instant::now(), Duration::from_millis(20));
        Machine::new().writer().pause(short);
        assert!(began.elapsed() >= short);
        let clock = Arc::new(Clock::default());
        let machine = Machine::new().with_runner(Arc::clone(&clock) as Arc<dyn CommandRunner>);
        machine.writer().pause(Duration::from_secs(3600));
        assert_eq!(*clock.0.lock().unwrap(), Duration::from_secs(3600));
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn both_views_may_be_shared_between_threads() {
        fn shared<T: Send + Sync + Clone + std::fmt::Debug>() {}
        shared::<Host>();
        shared::<HostWriter>();
    }
}
