//! Facts about the machine and about slurmctld, through `slurm-ops`.

use super::{Asked, Facts, Host, Load, StateDirectory, Store, StoreMount};
use crate::controllers::Beat;
use crate::names;
use slurm_conf::overrides::PartitionSettings;
use slurm_ops::mounts::{self, Mount};
use slurm_ops::scontrol::{self, ScontrolError};
use slurm_ops::{address, files, heartbeat, hostname, packages, sentinel, store};
use slurm_unit::{Error, View};

pub(super) fn host(view: &View) -> Result<Host, Error> {
    let container = hostname::container(&view.host)?.is_some();
    Ok(Host { name: hostname::short(&view.host)?, container, plugins: packages::plugins(&view.host) })
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
    let found = |state| Store { mount: mount.clone(), state, local, partitions_saved_at: None };
    let entries = match entries {
        Ok(Some(entries)) => entries,
        Ok(None) => return Ok(found(StateDirectory::Absent)),
        Err(error) => return Ok(found(StateDirectory::Unreadable(charm::log::chain(&error)))),
    };
    let state = match store::read(host, format!("{}/{}", names::STATE_DIRECTORY, sentinel::FILE)) {
        Ok(Some(note)) => StateDirectory::Of(String::from_utf8_lossy(&note).trim().to_owned()),
        // Without a note it matters whether there is anything to lose.
        Ok(None) if entries.iter().all(|entry| entry.name.contains(sentinel::DRAFT)) => StateDirectory::Empty,
        Ok(None) => StateDirectory::Unmarked,
        Err(error) => StateDirectory::Unreadable(charm::log::chain(&error)),
    };
    let saved = entries.iter().find(|entry| names::PARTITION_STATE.rsplit('/').next() == Some(&entry.name));
    Ok(Store { partitions_saved_at: saved.map(|entry| entry.modified), ..found(state) })
}

/// Compares with the time at which the store was looked at: a later save is what a step found out.
pub(super) fn partitions_saved(view: &View, known: &Facts) -> Result<bool, Error> {
    let saved = known.store().ok().and_then(|store| store.partitions_saved_at);
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
