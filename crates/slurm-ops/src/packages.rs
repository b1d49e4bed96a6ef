//! Debian packages: what is installed, and installing without starting a daemon that nobody has configured.
//!
//! A package that brings a daemon also enables and starts it. slurmd without a configuration would then search for a controller
//! for ever, and munged is of no use with `auth/slurm`. So before the installation such units are masked until the next boot, and
//! afterwards disabled and unmasked. The mask doubles as a note: whoever finds one finishes what a killed process began.

use crate::command::{Command, CommandError};
use crate::files::{self, FileError};
use crate::machine::Machine;
use crate::source::{self, EnsureError, Source};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

pub(crate) const INSTALL_DEADLINE: Duration = Duration::from_secs(20 * 60);
const QUICK_DEADLINE: Duration = Duration::from_secs(60);

/// Something about the packages of the machine that did not work.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// A command failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// dpkg's records could not be read.
    #[error(transparent)]
    File(#[from] FileError),
}

impl PackageError {
    /// Returns what apt itself said last, without the command line: short enough for an operator who has to mend a source.
    pub fn reason(&self) -> String {
        match self {
            Self::Command(CommandError::Failed { stderr, .. } | CommandError::TimedOut { stderr, .. }) => {
                let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
                let errors: Vec<&str> = lines.clone().filter_map(|line| line.strip_prefix("E: ")).collect();
                errors.first().copied().or_else(|| lines.next_back()).unwrap_or("no output").to_owned()
            }
            other => other.to_string(),
        }
    }
}

impl From<EnsureError> for PackageError {
    fn from(error: EnsureError) -> Self {
        match error {
            EnsureError::Command(error) => Self::Command(error),
            EnsureError::File(error) => Self::File(error),
        }
    }
}

/// A package that is completely installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Its version, as Debian writes it.
    pub version: String,
    /// Upgrades leave it alone.
    pub held: bool,
}

impl Installed {
    /// Returns the version of the software: without Debian's epoch and revision.
    pub fn upstream_version(&self) -> &str {
        let version = self.version.split_once(':').map_or(self.version.as_str(), |(_, rest)| rest);
        version.rsplit_once('-').map_or(version, |(upstream, _)| upstream)
    }
}

/// Reads from dpkg's own records which of `names` are completely installed. Starts no process.
pub fn installed(machine: &Machine, names: &[&str]) -> Result<BTreeMap<String, Installed>, FileError> {
    let mut found = BTreeMap::new();
    let status = files::read(machine, "/var/lib/dpkg/status")?.unwrap_or_default();
    read_status(&String::from_utf8_lossy(&status), names, &mut found);
    // What dpkg has not merged yet, after it was interrupted: numbered files of the same form, to be read in order.
    let mut journal: Vec<_> = fs::read_dir(machine.path("/var/lib/dpkg/updates"))
        .map(|entries| entries.flatten().map(|entry| entry.file_name()).collect())
        .unwrap_or_default();
    journal.sort();
    for name in
        journal.iter().filter_map(|name| name.to_str()).filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    {
        let entry = files::read(machine, format!("/var/lib/dpkg/updates/{name}"))?.unwrap_or_default();
        read_status(&String::from_utf8_lossy(&entry), names, &mut found);
    }
    Ok(found)
}

/// Returns the version of one package. `None`: it is not completely installed.
pub fn version(machine: &Machine, name: &str) -> Result<Option<Installed>, FileError> {
    Ok(installed(machine, &[name])?.remove(name))
}

fn read_status(text: &str, names: &[&str], found: &mut BTreeMap<String, Installed>) {
    for stanza in text.split("\n\n") {
        let Some(name) = stanza.trim_start().strip_prefix("Package: ").and_then(|rest| rest.lines().next()) else {
            continue;
        };
        if !names.contains(&name) {
            continue;
        }
        let field =
            |wanted: &str| stanza.lines().find_map(|line| line.strip_prefix(wanted)).map(str::trim).unwrap_or_default();
        // Three words: what is wanted, whether something is broken, what is.
        let mut status = field("Status:").split(' ');
        let held = status.next() == Some("hold");
        if status.nth(1) == Some("installed") {
            found.insert(name.to_owned(), Installed { version: field("Version:").to_owned(), held });
        } else {
            found.remove(name);
        }
    }
}

/// Makes sure that `packages` are installed, and tells whether that needed anything.
///
/// `units` are the services that come with them (or with what they depend on) and that have to be neither running nor enabled
/// afterwards. A unit that is on the machine already is not touched.
pub fn ensure_installed(machine: &Machine, packages: &[&str], units: &[&str]) -> Result<bool, PackageError> {
    ensure_installed_from(machine, &Source::Archive, packages, units)
}

/// Does what [`ensure_installed`] does, with packages from a source of the operator's. Where all of them are installed already, from
/// wherever they came, nothing is done: another source takes nothing away and upgrades nothing.
pub fn ensure_installed_from(
    machine: &Machine,
    source: &Source,
    packages: &[&str],
    units: &[&str],
) -> Result<bool, PackageError> {
    let present = installed(machine, packages)?;
    let missing: Vec<&str> = packages.iter().copied().filter(|name| !present.contains_key(*name)).collect();
    if missing.is_empty() {
        return Ok(finish(machine, units)?);
    }
    let new: Vec<&str> = units.iter().copied().filter(|unit| !unit_exists(machine, unit)).collect();
    if !new.is_empty() {
        systemctl(machine, &["--quiet", "--runtime", "mask", "--"]).args(new).run()?;
    }
    // A source that the operator has taken back must not stand in the way.
    if !matches!(source, Source::Deb822(_)) {
        files::remove(machine, source::FILE)?;
    }
    if *source != Source::Archive {
        source::ensure_known(machine, source, || apt_get(machine))?;
        // Always: a process killed after the source was named and before its lists were there would else install from elsewhere.
        // A source that cannot be fetched is only a warning to apt, and the packages would come from elsewhere.
        apt_get(machine).arg("--option=APT::Update::Error-Mode=any").arg("update").run()?;
    }
    install(machine, &missing)?;
    finish(machine, units)?;
    Ok(true)
}

/// Has upgrades leave `packages` alone, and tells whether any was not held before.
pub fn ensure_held(machine: &Machine, packages: &[&str]) -> Result<bool, PackageError> {
    let present = installed(machine, packages)?;
    let free: Vec<&str> =
        packages.iter().copied().filter(|name| present.get(*name).is_some_and(|package| !package.held)).collect();
    if free.is_empty() {
        return Ok(false);
    }
    machine.command("apt-mark").arg("hold").args(free).deadline(QUICK_DEADLINE).run()?;
    Ok(true)
}

/// Installs with the package lists at hand; fetches new lists only if that does not work.
fn install(machine: &Machine, packages: &[&str]) -> Result<(), CommandError> {
    let install = || {
        // A held package of ours may be among what is asked for again after an interruption.
        apt_get(machine)
            .args(["install", "--no-install-recommends", "--allow-change-held-packages"])
            .args(packages.iter().copied())
            .run()
    };
    let Err(first) = install() else { return Ok(()) };
    tracing::debug!("{first}; trying again after a repair and an update");
    if matches!(&first, CommandError::Failed { stderr, .. } if stderr.contains("dpkg --configure -a")) {
        let configure = machine.command("dpkg").args(["--force-confdef", "--force-confold", "--configure", "-a"]);
        quiet(configure).deadline(INSTALL_DEADLINE).run()?;
    }
    apt_get(machine).arg("update").run()?;
    install().map(drop)
}

/// Disables and unmasks what was masked for the installation. Tells whether there was anything to do.
fn finish(machine: &Machine, units: &[&str]) -> Result<bool, CommandError> {
    let masked: Vec<&str> = units.iter().copied().filter(|unit| is_masked(machine, unit)).collect();
    if masked.is_empty() {
        return Ok(false);
    }
    // Disabled while still masked: there is no moment in which a boot or another package could start it.
    let existing: Vec<&str> = masked.iter().copied().filter(|unit| unit_exists(machine, unit)).collect();
    if !existing.is_empty() {
        systemctl(machine, &["--quiet", "disable", "--"]).args(existing).run()?;
    }
    systemctl(machine, &["--quiet", "--runtime", "unmask", "--"]).args(masked).run()?;
    Ok(true)
}

/// Tells whether an installation was cut short before `units` were unmasked: they cannot be started until [`ensure_installed`] is
/// called again. Starts no process.
pub fn is_unfinished(machine: &Machine, units: &[&str]) -> bool {
    units.iter().any(|unit| is_masked(machine, unit))
}

fn is_masked(machine: &Machine, unit: &str) -> bool {
    let link = fs::read_link(machine.path(format!("/run/systemd/system/{unit}")));
    link.is_ok_and(|target| target.as_os_str() == "/dev/null")
}

fn unit_exists(machine: &Machine, unit: &str) -> bool {
    ["/usr/lib/systemd/system", "/etc/systemd/system"]
        .iter()
        .any(|directory| machine.path(format!("{directory}/{unit}")).exists())
}

fn systemctl(machine: &Machine, arguments: &[&str]) -> Command {
    machine.command("systemctl").arg("--no-ask-password").args(arguments.iter().copied()).deadline(QUICK_DEADLINE)
}

fn apt_get(machine: &Machine) -> Command {
    let command = machine.command("apt-get").args([
        "--quiet",
        "--assume-yes",
        // Another package run on the machine is waited for instead of failing at once.
        "--option=DPkg::Lock::Timeout=300",
        "--option=Dpkg::Options::=--force-confdef",
        "--option=Dpkg::Options::=--force-confold",
    ]);
    quiet(command).deadline(INSTALL_DEADLINE)
}

/// Keeps maintainer scripts from asking, and needrestart from restarting daemons that have jobs.
fn quiet(command: Command) -> Command {
    command.env("DEBIAN_FRONTEND", "noninteractive").env("NEEDRESTART_SUSPEND", "1")
}
