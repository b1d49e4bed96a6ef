//! Moves state and configuration from one place to another. Which moment decides is in ARCHITECTURE.md, "Several
//! controllers": what comes before it can be left half done by whatever ends this process.

use super::write_at;
use crate::config::files::Files;
use crate::names;
use slurm_ops::files::{self, Access, Copy};
use slurm_ops::{HostWriter, sentinel, systemd};
use slurm_unit::Error;
use std::time::Duration;

/// Passes while slurmctld serves: the first may take long, and the second has only what changed meanwhile.
const PASSES: usize = 2;
/// How long the last pass may take, in which nobody serves. A store that needs longer is not moved to.
const PATIENCE: Duration = Duration::from_secs(20);

/// The marker is written when all else is there.
const MARKER: &[&str] = &[sentinel::FILE, sentinel::DRAFT];

/// Makes way for a mount.
pub(super) fn make_way(host: &HostWriter, files: &Files) -> Result<(), Error> {
    files::ensure_directory(host, names::ASIDE_DIRECTORY, &Access::slurm(0o755))?;
    systemd::stop(host, names::SERVICE)?;
    files::rename(host, names::STATE_DIRECTORY, names::ASIDE_STATE)?;
    super::write(host, files, "")?;
    super::write(host, files, names::ACCEPTED)
}

/// Moves from aside to the store. `stamp` is the time in the names of what is left behind.
pub(super) fn to_store(host: &HostWriter, note: &str, files: &Files, stamp: &str) -> Result<(), Error> {
    let (state, configuration) = (names::STATE_INCOMING, names::SHARED_CONFIGURATION_INCOMING);
    let mut copies = [
        Copy::begin(host, names::ASIDE_STATE, state, MARKER)?,
        Copy::begin(host, names::CONFIGURATION_DIRECTORY, configuration, &[])?,
    ];
    copy(host, &mut copies)?;
    for suffix in ["", names::ACCEPTED] {
        write_at(host, configuration, files, suffix)?;
    }
    for before in [names::SHARED_CONFIGURATION, names::STATE_DIRECTORY] {
        files::rename_if_there(host, before, moved(before, stamp))?;
    }
    sentinel::write_once(host, state, note)?;
    files::rename(host, configuration, names::SHARED_CONFIGURATION)?;
    files::rename(host, state, names::STATE_DIRECTORY)?;
    // Until now the state is aside, whatever is on the store. From now on it is there.
    files::rename(host, names::ASIDE_STATE, moved(names::ASIDE_STATE, stamp))?;
    Ok(())
}

/// Moves from the store to the local disk.
pub(super) fn to_disk(host: &HostWriter, note: &str, files: &Files, stamp: &str) -> Result<(), Error> {
    files::ensure_directory(host, names::ASIDE_DIRECTORY, &Access::slurm(0o755))?;
    files::remove_below(host, names::ASIDE_DIRECTORY, names::INCOMING)?;
    let (state, configuration) = (incoming(stamp), names::ASIDE_CONFIGURATION);
    let mut copies = [
        Copy::begin(host, names::STATE_DIRECTORY, &state, MARKER)?,
        Copy::begin(host, names::SHARED_CONFIGURATION, configuration, &[])?,
    ];
    copy(host, &mut copies)?;
    for suffix in ["", names::ACCEPTED] {
        write_at(host, configuration, files, suffix)?;
    }
    sentinel::write_once(host, &state, note)?;
    // Until now the state is on the store. From now on it is this copy, which is known by its time.
    files::rename(host, names::STATE_DIRECTORY, moved(names::STATE_DIRECTORY, stamp))?;
    arrive(host, stamp)
}

/// Takes the copy with this time for the state.
pub(super) fn arrive(host: &HostWriter, stamp: &str) -> Result<(), Error> {
    files::rename(host, incoming(stamp), names::ASIDE_STATE)?;
    Ok(())
}

/// Copies while slurmctld serves, stops it, and copies what changed.
fn copy(host: &HostWriter, copies: &mut [Copy]) -> Result<(), Error> {
    for _ in 0..PASSES {
        for copy in &mut *copies {
            copy.pass(host, None)?;
        }
    }
    systemd::stop(host, names::SERVICE)?;
    for copy in copies {
        let count = copy.pass(host, Some(PATIENCE))?;
        tracing::debug!("{count} files changed since the pass before");
    }
    Ok(())
}

fn incoming(stamp: &str) -> String {
    format!("{}/{}{stamp}", names::ASIDE_DIRECTORY, names::INCOMING)
}

fn moved(path: &str, stamp: &str) -> String {
    format!("{path}{}{stamp}", names::MOVED)
}
