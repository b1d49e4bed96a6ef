//! Facts about the machine, through `slurm-ops`.

use super::read::Memory;
use super::{Daemon, Machine, StateDirectory, Store};
use crate::configuration::{Files, Refusals};
use crate::error::Error;
use crate::{names, secret_content};
use charm::Context;
use slurm_conf::{HostName, SlurmConf};
use slurm_ops::mounts::Mount;
use slurm_ops::packages::Inventory;
use slurm_ops::systemd::UnitState;
use slurm_ops::{
    clock, files, hostname, journal, keys, mounts, needrestart, packages, scontrol, sentinel, store, systemd,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// A slurmd that is refused tries again every ten seconds.
const LATELY: Duration = Duration::from_secs(60);
/// How many seconds somebody is told that a file was put back.
const TOLD: u64 = 15 * 60;

/// Looks at the machine. With `may_be_brief`, and if this machine is the one controller of a cluster that is up, no closer than needed.
pub(super) fn observe(
    ctx: &Context,
    machine: &slurm_ops::Machine,
    memory: &mut Memory,
    may_be_brief: bool,
) -> Result<Machine, Error> {
    let host = hostname::short()?;
    let (live, accepted) = (read_files(machine, "")?, read_files(machine, names::ACCEPTED)?);
    let beside = beside(machine);
    let conf = live.slurm.as_ref().and_then(|text| SlurmConf::parse(text).ok());
    // Every command of Slurm would wait a minute for it.
    let mute = conf.and_then(|conf| conf.missing_include(&beside));
    let alone =
        || may_be_brief && mute.is_none() && [&live, &accepted].iter().all(|files| is_only_controller(files, &host));
    let brief = *memory.brief.get_or_insert_with(alone);
    let known = memory.daemon.take().or_else(|| if brief { answering(machine, memory) } else { None });
    let (unit, daemon) = match known {
        Some(known) => known,
        None => {
            let unit = systemd::state(&machine.host(), names::SERVICE)?;
            let daemon = match &mute {
                Some(reason) if unit.is_active() => Daemon::Silent { reason: Some(reason.clone()) },
                _ => daemon(machine, &unit, &host),
            };
            (unit, daemon)
        }
    };
    memory.daemon = Some((unit.clone(), daemon.clone()));
    let read_by_systemd = |text: Option<String>| text.filter(|_| !unit.needs_daemon_reload);
    let Inventory { version, unfit, held } = packages::inventory(&machine.host(), &names::PACKAGES)?;
    let (store, state, saved) = state_directory(machine)?;
    let accepted_at = files::modified(&machine.host(), format!("{}{}", names::SLURM_CONF, names::ACCEPTED))?;
    let refusals = refusals(machine)?;
    let taken_back = refusals.taken_back.clone().filter(|(at, _)| clock::now() < at + TOLD).map(|(_, why)| why);
    let here =
        mounts::is_on_this_machine(&machine.host(), names::STATE_DIRECTORY) && matches!(state, StateDirectory::Of(_));
    let unsaved = here.then(|| scontrol::can_reconfigure(&machine.host(), names::STATE_DIRECTORY).err()).flatten();
    let look = || if brief { None } else { journal::refused_lately(&machine.host(), LATELY) };
    let stranger = memory.stranger.get_or_insert_with(look).clone();
    Ok(Machine {
        container: hostname::container(&machine.host())?.is_some(),
        version: version.map(|version| version.to_string()),
        unfit,
        takes_tokens: packages::has_plugin(&machine.host(), names::TOKEN_PLUGIN),
        reported_version: files::read_text(&machine.host(), ctx.charm_dir.join(names::REPORTED_VERSION))?,
        packages_held: held,
        left_alone: needrestart::is_left_alone(&machine.host(), names::NEEDRESTART, &[names::SERVICE])?,
        store,
        state,
        auth_key: secret_content::wanted(machine, names::AUTH_SECRET)?.is_some(),
        jwt_key: secret_content::wanted(machine, names::JWT_SECRET)?.is_some(),
        keys_private: keys::are_private(&machine.host(), names::SLURM_USER)?,
        // A drop-in that systemd has not read does not count.
        drop_in: read_by_systemd(systemd::read_drop_in(&machine.host(), names::SERVICE, names::DROP_IN)?),
        failure_service: systemd::read_unit_file(&machine.host(), names::FAILURE_SERVICE)?,
        configuration_open: is_configuration_open(machine)?,
        beside,
        live,
        accepted,
        refusals,
        unresolved: files::exists(&machine.host(), names::BY_HAND),
        daemon,
        unsaved,
        partitions_saved: saved.zip(accepted_at).is_some_and(|(saved, accepted)| saved >= accepted),
        stranger,
        taken_back,
        suffix: suffix(memory)?,
        host,
    })
}

fn read_files(machine: &slurm_ops::Machine, suffix: &str) -> Result<Files, Error> {
    let [slurm, cgroup, gres] = Files::PATHS.map(|path| files::read_text(&machine.host(), format!("{path}{suffix}")));
    Ok(Files { slurm: slurm?, cgroup: cgroup?, gres: gres? })
}

fn is_configuration_open(machine: &slurm_ops::Machine) -> Result<bool, Error> {
    for path in Files::PATHS.into_iter().chain([names::CONFIGURATION_DIRECTORY]) {
        if !files::is_open(&machine.host(), path)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A directory that cannot be listed has nothing in it that could be read.
fn beside(machine: &slurm_ops::Machine) -> BTreeSet<String> {
    files::list(&machine.host(), names::CONFIGURATION_DIRECTORY)
        .ok()
        .flatten()
        .unwrap_or_default()
        .into_iter()
        .collect()
}

/// A record that cannot be read is none: what it says would be found out again.
fn refusals(machine: &slurm_ops::Machine) -> Result<Refusals, Error> {
    let text = files::read_text(&machine.host(), names::REFUSALS)?.unwrap_or_default();
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// Looks at the store and into the state directory. Also tells when the partitions in it were last saved.
fn state_directory(machine: &slurm_ops::Machine) -> Result<(Store, StateDirectory, Option<Duration>), Error> {
    let host = machine.host();
    let mut mount = mounts::mount_at(&host, names::CHECKPOINT_DIRECTORY)?;
    // Looking also makes autofs mount what is behind its trigger.
    let entries = store::list(&host, names::STATE_DIRECTORY);
    if mount == Mount::Trigger {
        mount = mounts::mount_at(&host, names::CHECKPOINT_DIRECTORY)?;
    }
    let place = match mount {
        Mount::Mounted { read_only, .. } => Store::Mounted { read_only },
        Mount::Nothing | Mount::Trigger => Store::Local,
    };
    let entries = match entries {
        Ok(Some(entries)) => entries,
        Ok(None) => return Ok((place, StateDirectory::Absent, None)),
        Err(error) => return Ok((place, StateDirectory::Unreadable(charm::log::chain(&error)), None)),
    };
    let saved = entries.iter().find(|entry| names::PARTITION_STATE.rsplit('/').next() == Some(&entry.name));
    let saved = saved.map(|entry| entry.modified);
    let state = match store::read(&host, format!("{}/{}", names::STATE_DIRECTORY, sentinel::FILE)) {
        Ok(Some(note)) => StateDirectory::Of(String::from_utf8_lossy(&note).trim().to_owned()),
        // Without a note it matters whether there is anything to lose.
        Ok(None) if entries.iter().all(|entry| entry.name.contains(sentinel::DRAFT)) => StateDirectory::Empty,
        Ok(None) => StateDirectory::Unmarked,
        Err(error) => StateDirectory::Unreadable(charm::log::chain(&error)),
    };
    Ok((place, state, saved))
}

/// Says whether a configuration names this machine, and no other, as a controller.
fn is_only_controller(files: &Files, host: &HostName) -> bool {
    let conf = files.slurm.as_ref().and_then(|text| SlurmConf::parse(text).ok()).unwrap_or_default();
    let hosts: Vec<&str> = conf.controllers().iter().filter_map(|line| line.split('(').next()).collect();
    hosts == [host.as_str()]
}

/// Asks the only controller of a cluster for what a change would have to ask it anyway. Whoever answers is up, and systemd need not be asked.
fn answering(machine: &slurm_ops::Machine, memory: &mut Memory) -> Option<(UnitState, Daemon)> {
    memory.partitions = Some(scontrol::partition_settings(&machine.host()).ok()?);
    Some((UnitState::default(), Daemon::Answering { mode: "primary".to_owned() }))
}

fn daemon(machine: &slurm_ops::Machine, unit: &UnitState, host: &HostName) -> Daemon {
    let complaint = || journal::last_complaint(&machine.host(), names::SERVICE);
    if unit.is_active() {
        let answer = scontrol::ping(&machine.host()).unwrap_or_else(|error| {
            tracing::debug!("{error}");
            Vec::new()
        });
        let own = answer.into_iter().find(|ping| ping.hostname == host.as_str() && ping.responding);
        return own
            .map_or_else(|| Daemon::Silent { reason: complaint() }, |ping| Daemon::Answering { mode: ping.mode });
    }
    // A daemon that somebody killed says nothing about its configuration, and is on its way up again.
    let killed = matches!(unit.result.as_str(), "signal" | "core-dump" | "oom-kill" | "watchdog");
    match (unit.active.as_str(), unit.sub.as_str()) {
        (_, "auto-restart" | "auto-restart-queued") if killed => Daemon::Stopped,
        ("failed", _) | (_, "auto-restart" | "auto-restart-queued") => {
            Daemon::Failing { reason: complaint().unwrap_or_else(|| format!("systemd: {}", unit.result)) }
        }
        _ if unit.is_starting() => Daemon::Silent { reason: None },
        _ => Daemon::Stopped,
    }
}

/// The four characters stay the same for one dispatch, or its plan would never settle.
fn suffix(memory: &mut Memory) -> Result<String, Error> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    if let Some(suffix) = &memory.suffix {
        return Ok(suffix.clone());
    }
    let mut random = [0_u8; 4];
    getrandom::fill(&mut random).map_err(Error::Random)?;
    let suffix: String = random.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 64)])).collect();
    memory.suffix = Some(suffix.clone());
    Ok(suffix)
}
