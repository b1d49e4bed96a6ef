//! Where the files and programs of a machine are. Holds no state of the machine.

use crate::command::{Command, CommandRunner};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The machine to work on.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
    search_path: Option<OsString>,
    runner: Option<Arc<dyn CommandRunner>>,
    fetched_conf: Option<PathBuf>,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// Returns the machine that this process runs on.
    pub fn new() -> Self {
        Self { root: PathBuf::from("/"), search_path: None, runner: None, fetched_conf: None }
    }

    /// Returns a machine whose files are below `root`. Programs are still started here.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), search_path: None, runner: None, fetched_conf: None }
    }

    /// Looks for programs in these directories, joined by `:`, instead of in `PATH`.
    pub fn with_search_path(mut self, directories: impl Into<OsString>) -> Self {
        self.search_path = Some(directories.into());
        self
    }

    /// Has `runner` run programs instead of the system. Files stay where they are.
    pub fn with_runner(mut self, runner: Arc<dyn CommandRunner>) -> Self {
        self.runner = Some(runner);
        self
    }

    /// Has Slurm's clients read the configuration that a daemon on this machine fetched, while there is one. By themselves they prefer
    /// `/etc/slurm/slurm.conf`, and on a machine that was part of another cluster that is another cluster's.
    pub fn with_fetched_conf(mut self, path: impl Into<PathBuf>) -> Self {
        self.fetched_conf = Some(path.into());
        self
    }

    /// Returns where the configuration is that clients should read, if it is not where they look first.
    pub(crate) fn fetched_conf(&self) -> Option<PathBuf> {
        self.fetched_conf.as_ref().map(|path| self.path(path)).filter(|path| path.exists())
    }

    /// Returns where an absolute path of the machine really is.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Announces that a file or directory is about to change, to whoever runs programs in place of the system.
    pub(crate) fn before_write(&self, path: &Path) {
        if let Some(runner) = &self.runner {
            runner.before_write(path);
        }
    }

    /// Prepares a program to run.
    pub fn command(&self, program: &str) -> Command {
        let command = Command::new(program);
        let command = match &self.runner {
            Some(runner) => command.run_by(Arc::clone(runner)),
            None => command,
        };
        match &self.search_path {
            Some(directories) => command.env("PATH", directories),
            None => command,
        }
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
}
