//! What stands in the way of an installation, in words for whoever can do something about it.

use crate::command::CommandError;
use crate::files::FileError;
use crate::source;
use crate::version::SlurmVersion;

/// Something about the packages of the machine that did not work.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// A command failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// dpkg's records could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// What there is will not do.
    #[error("{}", .0.told())]
    Obstacle(Obstacle),
}

/// Why there is no usable Slurm on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// What is installed, or to be had, is older than what is needed.
    TooOld {
        /// The package.
        package: String,
        /// Its version.
        found: String,
    },
    /// apt knows no such package.
    Unknown {
        /// The package.
        package: String,
    },
    /// Slurm is there without a plugin that it needs.
    Lacking {
        /// The plugin's file.
        plugin: &'static str,
    },
    /// Somebody else is installing, or the network is away: it may work in a moment.
    Passing(String),
    /// Anything else that apt complained about.
    Failed(String),
}

impl Obstacle {
    /// Tells whether it may go away by itself.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Passing(_))
    }

    /// Tells whether trying again in a while may help.
    pub fn is_worth_another_look(&self) -> bool {
        matches!(self, Self::Passing(_) | Self::Failed(_))
    }

    /// Says what is wrong.
    pub fn told(&self) -> String {
        match self {
            Self::TooOld { package, found } => {
                format!("{package} {found} is too old, {} is needed", SlurmVersion::OLDEST.release())
            }
            Self::Unknown { package } => format!("apt knows no package {package}"),
            Self::Lacking { plugin } => format!("Slurm on this machine lacks {plugin}"),
            Self::Passing(why) | Self::Failed(why) => why.clone(),
        }
    }

    /// Says what is wrong, and what helps: another value of the option that names the source.
    pub fn advice(&self, option: &str) -> String {
        match self {
            Self::TooOld { .. } | Self::Unknown { .. } | Self::Lacking { .. } => {
                format!("{}: set option {option}, e.g. {}", self.told(), source::EXAMPLE)
            }
            Self::Passing(why) | Self::Failed(why) => why.clone(),
        }
    }
}

impl TryFrom<PackageError> for Obstacle {
    type Error = FileError;

    /// A command that failed is an obstacle in what it said. A file that could not be read or written is none: the
    /// machine is broken.
    fn try_from(error: PackageError) -> Result<Self, FileError> {
        match error {
            PackageError::Obstacle(obstacle) => Ok(obstacle),
            PackageError::File(error) => Err(error),
            PackageError::Command(error) => Ok(of_command(&error)),
        }
    }
}

/// Tells whether apt gave up because somebody else is at work.
pub(super) fn is_locked(error: &CommandError) -> bool {
    matches!(error, CommandError::Failed { stderr, .. } if LOCKED.iter().any(|sign| stderr.contains(sign)))
}

fn of_command(error: &CommandError) -> Obstacle {
    let (CommandError::Failed { stderr, .. } | CommandError::TimedOut { stderr, .. }) = error else {
        return Obstacle::Failed(error.to_string());
    };
    let has = |signs: &[&str]| signs.iter().any(|sign| stderr.contains(sign));
    let slow = matches!(error, CommandError::TimedOut { .. });
    let reason = reason(stderr).unwrap_or_else(|| error.to_string());
    if is_locked(error) || ((slow || has(&AWAY)) && !has(&WRONG)) {
        Obstacle::Passing(reason)
    } else {
        Obstacle::Failed(reason)
    }
}

/// What apt and dpkg say when somebody else is at work.
const LOCKED: [&str; 4] = [
    "Could not get lock",
    "Unable to acquire the dpkg frontend lock",
    "Unable to lock",
    "lock was locked by another process",
];
/// What apt says when the network is away, or a mirror in the middle of a change.
const AWAY: [&str; 11] = [
    "Temporary failure",
    "timed out",
    "Could not resolve",
    "Could not connect",
    "Unable to connect",
    "Connection failed",
    "Connection timed out",
    "Network is unreachable",
    "No route to host",
    "Hash Sum mismatch",
    "Mirror sync in progress",
];
/// What no waiting mends.
const WRONG: [&str; 4] = ["404 ", "File not found", "not signed", "NO_PUBKEY"];

/// Returns what apt itself said first, without the command line. Of a package whose own script failed apt says only
/// that dpkg did; that one names it.
fn reason(stderr: &str) -> Option<String> {
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    if let Some(said) = stderr.split_once("dpkg: error processing ").and_then(|(_, rest)| rest.split_once(":\n")) {
        return said.1.lines().next().map(|line| line.trim().to_owned());
    }
    let error = lines.clone().find_map(|line| line.strip_prefix("E: "));
    error.or_else(|| lines.next_back()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn of(stderr: &str) -> Obstacle {
        of_command(&CommandError::Failed { command: "apt-get".to_owned(), code: 100, stderr: stderr.to_owned() })
    }

    #[test]
    fn a_package_whose_script_failed_is_named() {
        let failed = "/usr/lib/sysusers.d/x.conf:1: Unknown modifier 'u!'.\ndpkg: error processing package slurmd (--configure):\n \
                      installed slurmd package post-installation script subprocess returned error exit status 1\n\
                      E: Sub-process /usr/bin/dpkg returned an error code (1)\n";
        let expected = "installed slurmd package post-installation script subprocess returned error exit status 1";
        assert_eq!(of(failed), Obstacle::Failed(expected.to_owned()));
    }

    #[test]
    fn a_lock_and_an_absent_network_pass_and_the_rest_does_not() {
        let locked =
            "W: x\nE: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt-get)\nE: y\n";
        let expected = "Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt-get)";
        assert_eq!(of(locked), Obstacle::Passing(expected.to_owned()));
        let away = "E: Failed to fetch http://x.example/InRelease  Temporary failure resolving 'x.example'\n";
        assert!(of(away).is_passing());
        assert!(
            of("urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>\n").is_passing()
        );
        for lasting in [
            "E: Failed to fetch http://x.example/Packages  404  Not Found\n",
            "E: Failed to fetch file:/srv/x/Packages  File not found - /srv/x/Packages (2: No such file or directory)\n",
            "E: The repository 'http://x.example noble Release' is not signed.\n",
            "E: Sub-process /usr/bin/dpkg returned an error code (1)\n",
            "",
        ] {
            assert!(matches!(of(lasting), Obstacle::Failed(_)), "{lasting}");
        }
        let slow = CommandError::TimedOut { command: "x".to_owned(), after: Duration::ZERO, stderr: String::new() };
        assert!(of_command(&slow).is_passing());
    }

    #[test]
    fn the_way_out_is_told() {
        let old = Obstacle::TooOld { package: "slurmd".to_owned(), found: "23.11.4".to_owned() };
        let expected =
            "slurmd 23.11.4 is too old, 24.11 is needed: set option slurm-source, e.g. ppa:ubuntu-hpc/slurm-wlm-25.11";
        assert_eq!(old.advice("slurm-source"), expected);
        let unknown = Obstacle::Unknown { package: "slurmd".to_owned() };
        assert!(
            unknown.advice("slurm-source").starts_with("apt knows no package slurmd: set option slurm-source, e.g. ")
        );
        let locked = Obstacle::Passing("Could not get lock".to_owned());
        assert_eq!(locked.advice("slurm-source"), "Could not get lock");
    }
}
