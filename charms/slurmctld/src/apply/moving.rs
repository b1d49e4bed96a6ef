//! Moves state and configuration from one place to another. Which moment decides is in ARCHITECTURE.md, "Several
//! controllers": what comes before it can be left half done by whatever ends this process.

use super::write_at;
use crate::config::files::Files;
use crate::names;
use crate::step::Luggage;
use slurm_ops::files::{self, Access, Copy};
use slurm_ops::{HostWriter, fence, scontrol, sentinel, systemd};
use slurm_unit::{Error, Profile};
use std::time::Duration;

/// Passes while slurmctld serves: the first may take long, and the second has only what changed meanwhile.
const PASSES: usize = 2;
/// How long the last pass may take, in which nobody serves. A store that needs longer is not moved to.
const PATIENCE: Duration = Duration::from_secs(20);

/// The marker is written when all else is there.
const MARKER: &[&str] = &[sentinel::FILE, sentinel::DRAFT];

/// Makes way for a mount.
pub(super) fn make_way(host: &HostWriter, files: &Files, drop_in: &str) -> Result<(), Error> {
    files::ensure_directory(host, names::ASIDE_DIRECTORY, &Access::slurm(0o755))?;
    stop(host, drop_in)?;
    // slurm.conf agrees with the place to come before the marker is there, which lets systemd start it at a boot.
    super::write(host, files, "")?;
    super::write(host, files, names::ACCEPTED)?;
    files::rename(host, names::STATE_DIRECTORY, names::ASIDE_STATE)?;
    start(host)
}

/// Moves from aside to the store.
pub(super) fn to_store(host: &HostWriter, luggage: &Luggage) -> Result<(), Error> {
    let Luggage { note, files, stamp, .. } = luggage;
    let (state, configuration) = (names::STATE_INCOMING, names::SHARED_CONFIGURATION_INCOMING);
    let mut copies = [
        Copy::begin(host, names::ASIDE_STATE, state, MARKER)?,
        Copy::begin(host, names::CONFIGURATION_DIRECTORY, configuration, &[])?,
    ];
    copy_while_it_serves(host, &mut copies)?;
    fence::prepare(host)?;
    stop(host, &luggage.drop_in)?;
    copy_the_rest(host, &mut copies)?;
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
    // What follows the plan would do as well. It would look around before each, and nobody serves meanwhile.
    files::ensure_link(host, names::CONFIGURATION_DIRECTORY, names::SHARED_CONFIGURATION, stamp)?;
    fence::ensure_settings(host, &luggage.fence)?;
    systemd::restart(host, fence::SERVICE)?;
    fence::await_word(host);
    start(host)
}

/// Moves from the store to the local disk.
pub(super) fn to_disk(host: &HostWriter, luggage: &Luggage) -> Result<(), Error> {
    let Luggage { note, files, stamp, .. } = luggage;
    files::ensure_directory(host, names::ASIDE_DIRECTORY, &Access::slurm(0o755))?;
    files::remove_below(host, names::ASIDE_DIRECTORY, names::INCOMING)?;
    let (state, configuration) = (incoming(stamp), names::ASIDE_CONFIGURATION);
    let mut copies = [
        Copy::begin(host, names::STATE_DIRECTORY, &state, MARKER)?,
        Copy::begin(host, names::SHARED_CONFIGURATION, configuration, &[])?,
    ];
    copy_while_it_serves(host, &mut copies)?;
    stop(host, &luggage.drop_in)?;
    copy_the_rest(host, &mut copies)?;
    for suffix in ["", names::ACCEPTED] {
        write_at(host, configuration, files, suffix)?;
    }
    sentinel::write_once(host, &state, note)?;
    // Until now the state is on the store. From now on it is this copy, which is known by its time.
    files::rename(host, names::STATE_DIRECTORY, moved(names::STATE_DIRECTORY, stamp))?;
    // It would end a slurmctld that has left the store, also at a boot.
    end_fence(host)?;
    files::ensure_link(host, names::CONFIGURATION_DIRECTORY, configuration, stamp)?;
    arrive(host, stamp)?;
    start(host)
}

/// Ends the fence for good. Without settings the guard lets nobody start, and it is known to be done.
pub(super) fn end_fence(host: &HostWriter) -> Result<(), Error> {
    fence::disable(host)?;
    files::remove(host, fence::SETTINGS)?;
    Ok(())
}

/// Takes the copy with this time for the state.
pub(super) fn arrive(host: &HostWriter, stamp: &str) -> Result<(), Error> {
    files::rename(host, incoming(stamp), names::ASIDE_STATE)?;
    Ok(())
}

fn copy_while_it_serves(host: &HostWriter, copies: &mut [Copy]) -> Result<(), Error> {
    for _ in 0..PASSES {
        for copy in &mut *copies {
            copy.pass(host, None)?;
        }
    }
    Ok(())
}

fn copy_the_rest(host: &HostWriter, copies: &mut [Copy]) -> Result<(), Error> {
    for copy in copies {
        let count = copy.pass(host, Some(PATIENCE))?;
        tracing::debug!("{count} files changed since the pass before");
    }
    Ok(())
}

/// Stops slurmctld. From then on systemd starts it only where the state will be.
fn stop(host: &HostWriter, drop_in: &str) -> Result<(), Error> {
    systemd::ensure_drop_in(host, names::SERVICE, Profile::DROP_IN, drop_in)?;
    systemd::stop(host, names::SERVICE)?;
    Ok(())
}

/// Starts slurmctld and waits until it answers.
fn start(host: &HostWriter) -> Result<(), Error> {
    scontrol::start_again(host, names::SERVICE, super::PATIENCE)?;
    Ok(())
}

fn incoming(stamp: &str) -> String {
    format!("{}/{}{stamp}", names::ASIDE_DIRECTORY, names::INCOMING)
}

fn moved(path: &str, stamp: &str) -> String {
    format!("{path}{}{stamp}", names::MOVED)
}
