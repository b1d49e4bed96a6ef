//! Debian packages: what is installed, and installing without starting a daemon that nobody has configured.
//!
//! A package that brings a daemon also enables and starts it. slurmd without a configuration would then search for a
//! controller for ever, and munged is of no use with `auth/slurm`. So before the installation such units are masked
//! until the next boot, and afterwards disabled and unmasked. The mask doubles as a note: whoever finds one finishes
//! what a killed process began.
//!
//! Archives split Slurm differently, and some have one that is too old. What an archive offers is asked for first, so
//! that nothing is installed that could not be used. What stands in the way is told as an [`Obstacle`].

mod apt;
mod obstacle;

pub(crate) use apt::DEADLINE;
pub use obstacle::{Obstacle, PackageError};

use crate::command::{Command, CommandError};
use crate::files::{self, FileError};
use crate::machine::{Host, HostWriter};
use crate::source::{self, Source};
use crate::version::SlurmVersion;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

const QUICK_DEADLINE: Duration = Duration::from_secs(60);

/// What a daemon of Slurm needs.
#[derive(Debug, Clone, Copy)]
pub struct Selection {
    /// Without these nothing works. The first one's version is that of Slurm.
    pub required: &'static [&'static str],
    /// Parts of Slurm that are packages of their own in some archives, and in others not.
    pub optional: &'static [&'static str],
    /// The file of a plugin without which nothing works, whichever package brings it.
    pub plugin: &'static str,
    /// The services that come with them, or with what they depend on, and that have to be neither running nor enabled
    /// afterwards.
    pub services: &'static [&'static str],
}

impl Selection {
    fn names(&self) -> Vec<&'static str> {
        self.required.iter().chain(self.optional).copied().collect()
    }
}

/// What is on the machine of a [`Selection`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    /// The version of Slurm, if all that is needed is there.
    pub version: Option<SlurmVersion>,
    /// Why what is there will not do. Neither this nor a version: it is not, or not completely, installed.
    pub unfit: Option<Obstacle>,
    /// Upgrades leave alone whatever of it is there.
    pub held: bool,
}

/// A package that is completely installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Its version, as Debian writes it.
    pub version: String,
    /// Upgrades leave it alone.
    pub held: bool,
}

/// Looks what there is of a selection. Starts no process.
pub fn inventory(host: &Host, selection: &Selection) -> Result<Inventory, FileError> {
    let present = installed(host, &selection.names())?;
    let held = present.values().all(|package| package.held);
    if selection.required.iter().any(|name| !present.contains_key(*name)) || is_unfinished(host, selection.services) {
        return Ok(Inventory { held, ..Inventory::default() });
    }
    let first = selection.required[0];
    let (version, unfit) = match usable(first, &present[first].version) {
        Err(unfit) => (None, Some(unfit)),
        Ok(_) if !has_plugin(host, selection.plugin) => (None, Some(Obstacle::Lacking { plugin: selection.plugin })),
        Ok(version) => (Some(version), None),
    };
    Ok(Inventory { version, unfit, held })
}

/// Returns the version of Slurm in the version of a package, unless it is too old.
fn usable(package: &str, version: &str) -> Result<SlurmVersion, Obstacle> {
    match version.parse::<SlurmVersion>() {
        Ok(version) if !version.is_too_old() => Ok(version),
        Ok(version) => Err(Obstacle::TooOld { package: package.to_owned(), found: version.to_string() }),
        Err(_) => Err(Obstacle::TooOld { package: package.to_owned(), found: version.to_owned() }),
    }
}

/// Tells whether a plugin of Slurm is on the machine, wherever its packages put theirs. Starts no process.
pub fn has_plugin(host: &Host, file: &str) -> bool {
    let usual = usual_directories(host);
    usual.iter().any(|directory| host.path(format!("{directory}/{file}")).exists())
        || packaged(host, &usual).iter().any(|plugin| plugin == file)
}

/// Lists the files of Slurm's plugins, wherever its packages put them. Starts no process.
pub fn plugins(host: &Host) -> BTreeSet<String> {
    let usual = usual_directories(host);
    let names = usual.iter().flat_map(|directory| names_in(host, directory)).filter(|name| name.ends_with(PLUGIN));
    names.chain(packaged(host, &usual)).collect()
}

const PLUGIN: &str = ".so";

/// Debian has a directory for each architecture, and `slurm` is what Slurm itself calls its own.
fn usual_directories(host: &Host) -> Vec<String> {
    let libraries = names_in(host, "/usr/lib").filter(|name| name.contains("-linux-"));
    let libraries = ["/usr/lib".to_owned(), "/usr/lib64".to_owned()]
        .into_iter()
        .chain(libraries.map(|name| format!("/usr/lib/{name}")));
    libraries.flat_map(|library| [format!("{library}/slurm-wlm"), format!("{library}/slurm")]).collect()
}

/// Looks through what dpkg knows of packages of Slurm, for those that a site has made for another directory.
fn packaged(host: &Host, usual: &[String]) -> Vec<String> {
    const LISTS: &str = "/var/lib/dpkg/info";
    let lists = names_in(host, LISTS).filter(|name| name.starts_with("slurm") && name.ends_with(".list"));
    let texts = lists.filter_map(|name| fs::read_to_string(host.path(format!("{LISTS}/{name}"))).ok());
    let plugins = |list: String| -> Vec<String> {
        let files = list.lines().filter(|path| path.ends_with(PLUGIN)).filter_map(|path| path.rsplit_once('/'));
        let elsewhere = files.filter(|(directory, _)| !usual.iter().any(|usual| usual == directory));
        let there = elsewhere.filter(|(directory, name)| host.path(format!("{directory}/{name}")).exists());
        there.map(|(_, name)| name.to_owned()).collect()
    };
    texts.flat_map(plugins).collect()
}

fn names_in(host: &Host, directory: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(host.path(directory)).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Reads from dpkg's own records which of `names` are completely installed. Starts no process.
pub fn installed(host: &Host, names: &[&str]) -> Result<BTreeMap<String, Installed>, FileError> {
    let mut found = BTreeMap::new();
    let status = files::read(host, "/var/lib/dpkg/status")?.unwrap_or_default();
    read_status(&String::from_utf8_lossy(&status), names, &mut found);
    // What dpkg has not merged yet, after it was interrupted: numbered files of the same form, to be read in order.
    let is_entry = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let mut journal: Vec<String> = names_in(host, "/var/lib/dpkg/updates").filter(is_entry).collect();
    journal.sort();
    for name in journal {
        let entry = files::read(host, format!("/var/lib/dpkg/updates/{name}"))?.unwrap_or_default();
        read_status(&String::from_utf8_lossy(&entry), names, &mut found);
    }
    Ok(found)
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

/// Makes sure that a selection is installed, and tells whether that needed anything.
///
/// Where all of it is installed already, from wherever it came, nothing is done: another source takes nothing away and
/// upgrades nothing. Only what is too old to be of use is replaced. A unit that is on the machine already is not
/// touched. `begin` is called before the part that takes long.
pub fn ensure_installed(
    writer: &HostWriter,
    source: &Source,
    selection: &Selection,
    begin: impl FnOnce(),
) -> Result<bool, PackageError> {
    let present = installed(writer.host(), &selection.names())?;
    let complete = selection.required.iter().all(|name| present.contains_key(*name));
    let first = selection.required[0];
    if complete && usable(first, &present[first].version).is_ok() {
        let missing = is_unfinished(writer.host(), selection.services) || !has_plugin(writer.host(), selection.plugin);
        if missing {
            complete_installation(writer, selection, &present)?;
        }
        let finished = finish(writer, selection.services)?;
        return fit(writer.host(), selection).map(|()| finished);
    }
    let packages = offered(writer, source, selection)?;
    begin();
    let new: Vec<&str> = selection.services.iter().copied().filter(|unit| !unit_exists(writer.host(), unit)).collect();
    if !new.is_empty() {
        systemctl(writer, &["--quiet", "--runtime", "mask", "--"]).args(new.iter().copied()).run()?;
    }
    if let Err(error) = apt::install(writer, &packages) {
        // What has not come need not be kept from starting, either.
        let absent: Vec<&str> = new.into_iter().filter(|unit| !unit_exists(writer.host(), unit)).collect();
        finish(writer, &absent)?;
        return Err(error.into());
    }
    finish(writer, selection.services)?;
    fit(writer.host(), selection).map(|()| true)
}

/// Makes sure that packages are installed that are none of Slurm's, in whatever version, and tells whether that needed
/// anything. The services that they bring are neither started nor enabled.
pub fn ensure_present(writer: &HostWriter, packages: &[&str], services: &[&str]) -> Result<bool, PackageError> {
    if are_present(writer.host(), packages, services)? {
        return Ok(false);
    }
    let new: Vec<&str> = services.iter().copied().filter(|unit| !unit_exists(writer.host(), unit)).collect();
    if !new.is_empty() {
        systemctl(writer, &["--quiet", "--runtime", "mask", "--"]).args(new.iter().copied()).run()?;
    }
    let installed = apt::install(writer, packages);
    finish(writer, services)?;
    installed?;
    if are_present(writer.host(), packages, services)? {
        return Ok(true);
    }
    Err(PackageError::Obstacle(Obstacle::Failed(format!("apt succeeded but {} is not installed", packages.join(" ")))))
}

/// Tells whether packages are installed, and what they brought is as it should be. Starts no process.
pub fn are_present(host: &Host, packages: &[&str], services: &[&str]) -> Result<bool, FileError> {
    let present = installed(host, packages)?;
    Ok(packages.iter().all(|name| present.contains_key(*name)) && !is_unfinished(host, services))
}

/// Fails with what is wrong with what was just installed.
fn fit(host: &Host, selection: &Selection) -> Result<(), PackageError> {
    match inventory(host, selection)? {
        Inventory { unfit: Some(unfit), .. } => Err(PackageError::Obstacle(unfit)),
        Inventory { version: Some(_), .. } => Ok(()),
        _ => {
            let why = format!("apt succeeded but {} is not installed", selection.required[0]);
            Err(PackageError::Obstacle(Obstacle::Failed(why)))
        }
    }
}

/// Returns the packages to ask for, once it is known that Slurm in them is new enough. Nothing of it is installed for
/// that.
fn offered(writer: &HostWriter, source: &Source, selection: &Selection) -> Result<Vec<&'static str>, PackageError> {
    // A source that the operator has taken back must not stand in the way.
    if !matches!(source, Source::Deb822(_)) {
        files::remove(writer, source::FILE)?;
    }
    if *source == Source::Archive {
        if let Ok(packages) = choose(writer.host(), selection)? {
            return Ok(packages);
        }
        // The lists at hand may be old, or none at all. What cannot be fetched matters only if it is missed.
        let fetched = apt::update(writer);
        return match (choose(writer.host(), selection)?, fetched) {
            (Ok(packages), _) => Ok(packages),
            (Err(_), Err(error)) => Err(error.into()),
            (Err(obstacle), Ok(())) => Err(PackageError::Obstacle(obstacle)),
        };
    }
    source::ensure_known(writer, source, || apt::get(writer))?;
    // Always: a process killed after the source was named and before its lists were there would else install from
    // elsewhere.
    apt::update(writer)?;
    choose(writer.host(), selection)?.map_err(PackageError::Obstacle)
}

/// Chooses what to install of what apt knows: all that is required, and those optional parts that belong to the same
/// Slurm.
fn choose(host: &Host, selection: &Selection) -> Result<Result<Vec<&'static str>, Obstacle>, CommandError> {
    let candidates = apt::candidates(host, &selection.names())?;
    if let Some(package) = selection.required.iter().find(|name| !candidates.contains_key(**name)) {
        return Ok(Err(Obstacle::Unknown { package: (*package).to_owned() }));
    }
    let first = selection.required[0];
    let version = &candidates[first];
    if let Err(obstacle) = usable(first, version) {
        return Ok(Err(obstacle));
    }
    let optional = selection.optional.iter().filter(|name| candidates.get(**name) == Some(version));
    Ok(Ok(selection.required.iter().chain(optional).copied().collect()))
}

/// Installs what a killed process may have left out, or what somebody has removed. The rest works without, or says so
/// itself.
fn complete_installation(
    writer: &HostWriter,
    selection: &Selection,
    present: &BTreeMap<String, Installed>,
) -> Result<(), CommandError> {
    let candidates = apt::candidates(writer.host(), selection.optional)?;
    let version = &present[selection.required[0]].version;
    let belongs = |name: &&&str| !present.contains_key(**name) && candidates.get(**name) == Some(version);
    let missing: Vec<&str> = selection.optional.iter().filter(belongs).copied().collect();
    if !missing.is_empty()
        && let Err(error) = apt::install(writer, &missing)
    {
        tracing::warn!("could not install {}: {error}", missing.join(" "));
    }
    Ok(())
}

/// Has upgrades leave a selection alone, and tells whether anything of it was not held before.
pub fn ensure_held(writer: &HostWriter, selection: &Selection) -> Result<bool, PackageError> {
    let present = installed(writer.host(), &selection.names())?;
    let free: Vec<&str> = present.iter().filter(|(_, package)| !package.held).map(|(name, _)| name.as_str()).collect();
    if free.is_empty() {
        return Ok(false);
    }
    writer.command("apt-mark").arg("hold").args(free).deadline(QUICK_DEADLINE).run()?;
    Ok(true)
}

/// Disables and unmasks what was masked for the installation. Tells whether there was anything to do.
fn finish(writer: &HostWriter, units: &[&str]) -> Result<bool, CommandError> {
    let masked: Vec<&str> = units.iter().copied().filter(|unit| is_masked(writer.host(), unit)).collect();
    if masked.is_empty() {
        return Ok(false);
    }
    // Disabled while still masked: there is no moment in which a boot or another package could start it.
    let existing: Vec<&str> = masked.iter().copied().filter(|unit| unit_exists(writer.host(), unit)).collect();
    if !existing.is_empty() {
        systemctl(writer, &["--quiet", "disable", "--"]).args(existing).run()?;
    }
    systemctl(writer, &["--quiet", "--runtime", "unmask", "--"]).args(masked).run()?;
    Ok(true)
}

/// Tells whether an installation was cut short before `units` were unmasked: they cannot be started until
/// [`ensure_installed`] is called again. Starts no process.
fn is_unfinished(host: &Host, units: &[&str]) -> bool {
    units.iter().any(|unit| is_masked(host, unit))
}

fn is_masked(host: &Host, unit: &str) -> bool {
    let link = fs::read_link(host.path(format!("/run/systemd/system/{unit}")));
    link.is_ok_and(|target| target.as_os_str() == "/dev/null")
}

fn unit_exists(host: &Host, unit: &str) -> bool {
    ["/usr/lib/systemd/system", "/etc/systemd/system"]
        .iter()
        .any(|directory| host.path(format!("{directory}/{unit}")).exists())
}

fn systemctl(writer: &HostWriter, arguments: &[&str]) -> Command {
    writer.command("systemctl").arg("--no-ask-password").args(arguments.iter().copied()).deadline(QUICK_DEADLINE)
}
