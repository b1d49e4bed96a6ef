//! Facts about the machine and about slurmctld, through `slurm-ops`.

use super::{Aside, Asked, Facts, Host, Load, Recording, StateDirectory, Store, StoreMount};
use crate::controllers::Beat;
use crate::names;
use crate::place::Place;
use slurm_conf::overrides::PartitionSettings;
use slurm_ops::mounts::{self, Mount};
use slurm_ops::scontrol::{self, ScontrolError};
use slurm_ops::{address, connections, files, heartbeat, hostname, packages, sentinel, slurmdbd, store};
use slurm_unit::{Error, View};
use std::time::Duration;

pub fn host(view: &View) -> Result<Host, Error> {
    let container = hostname::container(&view.host)?.is_some();
    Ok(Host { name: hostname::short(&view.host)?, container, plugins: packages::plugins(&view.host) })
}

/// Asks slurmdbd and slurmctld, side by side.
pub(super) fn recording(view: &View) -> Recording {
    let host = &view.host;
    let (reach, queued) =
        charm::runtime::both(|| slurmdbd::reach(host, names::SLURM_CONF), || scontrol::queued_records(host));
    // Tables that cannot be read say nothing against a connection.
    let connected = connections::is_connected_to(host, names::SLURMDBD_PORT).unwrap_or(true);
    Recording { reach, connected, queued }
}

/// Looks at the store and into the state directory. A file system of the network may never answer, so there only a
/// child process looks.
pub(super) fn store(view: &View) -> Result<Store, Error> {
    let host = &view.host;
    let mut mount = mounts::mount_at(host, names::CHECKPOINT_DIRECTORY)?;
    // Looking also makes autofs mount what is behind its trigger.
    let entries = store::list(host, names::STATE_DIRECTORY);
    if mount == Mount::Trigger {
        mount = mounts::mount_at(host, names::CHECKPOINT_DIRECTORY)?;
    }
    let mount = match mount {
        Mount::Mounted { read_only, .. } => StoreMount::Mounted { read_only },
        Mount::Nothing | Mount::Trigger => StoreMount::Nothing,
    };
    let local = mounts::is_on_this_machine(host, names::STATE_DIRECTORY);
    let (state, partitions_saved_at) = state_in(host, names::STATE_DIRECTORY, entries);
    let mut moved = Vec::new();
    if state == StateDirectory::Absent && mount != StoreMount::Nothing {
        let prefix = format!("{}{}", names::STATE, names::MOVED);
        let all = files::list(host, names::CHECKPOINT_DIRECTORY).ok().flatten().unwrap_or_default();
        moved = all.iter().filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned)).collect();
    }
    Ok(Store { mount, state, local, partitions_saved_at, moved })
}

/// Looks at what is where no mount covers it. Most clusters have nothing there.
pub(super) fn aside(view: &View) -> Result<Aside, Error> {
    let host = &view.host;
    let mut names = files::list(host, names::ASIDE_DIRECTORY)?.unwrap_or_default();
    names.sort();
    let entries = if names.is_empty() { Ok(None) } else { store::list(host, names::ASIDE_STATE) };
    let (state, partitions_saved_at) = state_in(host, names::ASIDE_STATE, entries);
    let note = |name: &String| {
        let path = format!("{}/{name}/{}", names::ASIDE_DIRECTORY, sentinel::FILE);
        Some(files::read_text(host, path).ok()??.trim().to_owned())
    };
    let is_moved = |name: &&String| name.starts_with(&format!("{}{}", names::STATE, names::MOVED));
    let moved = names.iter().filter(is_moved).filter_map(note).collect();
    let mut incoming = names.iter().rev().filter(|name| note(name).is_some());
    let incoming = incoming.find_map(|name| name.strip_prefix(names::INCOMING).map(str::to_owned));
    Ok(Aside { state, partitions_saved_at, moved, incoming })
}

/// Says what a state directory is, and when partitions were last saved there.
fn state_in(
    host: &slurm_ops::Host,
    directory: &str,
    entries: Result<Option<Vec<store::Entry>>, slurm_ops::FileError>,
) -> (StateDirectory, Option<Duration>) {
    let entries = match entries {
        Ok(Some(entries)) => entries,
        Ok(None) => return (StateDirectory::Absent, None),
        Err(error) => return (StateDirectory::Unreadable(charm::log::chain(&error)), None),
    };
    let state = match store::read(host, format!("{directory}/{}", sentinel::FILE)) {
        Ok(Some(note)) => StateDirectory::Of(String::from_utf8_lossy(&note).trim().to_owned()),
        // Without a note it matters whether there is anything to lose.
        Ok(None) if entries.iter().all(|entry| entry.name.contains(sentinel::DRAFT)) => StateDirectory::Empty,
        Ok(None) => StateDirectory::Unmarked,
        Err(error) => StateDirectory::Unreadable(charm::log::chain(&error)),
    };
    let saved = entries.iter().find(|entry| entry.name == names::PARTITION_STATE);
    (state, saved.map(|entry| entry.modified))
}

/// Returns where slurmctld keeps its state, as far as that is known.
pub(super) fn state_directory(known: &Facts) -> &'static str {
    Place::find(known).unwrap_or(Place::Checkpoint).state_directory()
}

/// Compares with the time at which the store was looked at: a later save is what a step found out.
pub(super) fn partitions_saved(view: &View, known: &Facts) -> Result<bool, Error> {
    let saved = Place::find(known).and_then(|place| place.partitions_saved_at(known)).ok().flatten();
    let accepted = files::modified(&view.host, format!("{}{}", names::SLURM_CONF, names::ACCEPTED))?;
    Ok(saved.zip(accepted).is_some_and(|(saved, accepted)| saved >= accepted))
}

/// Compares with when the accepted configuration was written: the sign of life counts hosts by a list.
pub fn heartbeat(view: &View) -> Result<Option<Beat>, Error> {
    let Some(heartbeat) = heartbeat::heartbeat(&view.host, names::STATE_DIRECTORY)? else { return Ok(None) };
    let accepted = files::modified(&view.host, format!("{}{}", names::SLURM_CONF, names::ACCEPTED))?;
    let counts_as_accepted = accepted.is_some_and(|accepted| heartbeat.at > accepted.as_secs());
    Ok(Some(Beat { heartbeat, counts_as_accepted }))
}

/// A client tries for nine seconds to reach a slurmctld that does not run.
pub(super) fn partition_settings(view: &View) -> Asked<PartitionSettings> {
    if address::is_silent(&view.host, names::PORT) {
        return Asked::Unreachable(format!("no program listens on port {}", names::PORT));
    }
    asked(scontrol::partition_settings(&view.host))
}

pub(super) fn load(view: &View) -> Asked<Load> {
    let count = || Ok(Load { nodes: scontrol::node_count(&view.host)?, jobs: scontrol::job_count(&view.host)? });
    asked(count())
}

pub(super) fn asked<T>(answer: Result<T, ScontrolError>) -> Asked<T> {
    match answer {
        Ok(answer) => Asked::Answer(answer),
        Err(error) if error.is_unparsable() => Asked::Unparsable,
        Err(ScontrolError::Unreachable { why } | ScontrolError::Refused { reason: why, .. }) => Asked::Unreachable(why),
    }
}

/// Returns four random characters.
pub(super) fn fresh_suffix() -> Result<String, Error> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut random = [0_u8; 4];
    getrandom::fill(&mut random).map_err(|error| Error::Other(format!("the kernel gave no random bytes: {error}")))?;
    Ok(random.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 64)])).collect())
}
