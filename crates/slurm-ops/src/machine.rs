//! Where the files and programs of a machine are. Holds no state of the machine.

use crate::command::Command;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The machine to work on.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
    search_path: Option<OsString>,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// Returns the machine that this process runs on.
    pub fn new() -> Self {
        Self { root: PathBuf::from("/"), search_path: None }
    }

    /// Returns a machine whose files are below `root`. Programs are still started here.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), search_path: None }
    }

    /// Looks for programs in these directories, joined by `:`, instead of in `PATH`.
    pub fn with_search_path(mut self, directories: impl Into<OsString>) -> Self {
        self.search_path = Some(directories.into());
        self
    }

    /// Returns where an absolute path of the machine really is.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Prepares a program to run.
    pub fn command(&self, program: &str) -> Command {
        let command = Command::new(program);
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
