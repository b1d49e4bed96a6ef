//! Reads the facts that the machine and Slurm have, through `slurm-ops`.

use super::read::Memory;
use super::{Daemon, Launch, Machine, Occupancy, Record, Refused, Registration};
use crate::change::Change;
use crate::error::Error;
use crate::names;
use charm::Context;
use slurm_conf::{Node, NodeName};
use slurm_ops::files::FileError;
use slurm_ops::journal::{self, Cause};
use slurm_ops::keys::KeySet;
use slurm_ops::packages::Inventory;
use slurm_ops::scontrol::{LocalJobs, NodeLookup};
use slurm_ops::slurmd::SlurmdOptions;
use slurm_ops::systemd::UnitState;
use slurm_ops::{address, clock, files, hardware, keys, needrestart, packages, scontrol, slurmd, systemd};

/// Reads everything but what only some plans depend on.
pub(super) fn observe(
    ctx: &Context,
    machine: &slurm_ops::Machine,
    node_name: &NodeName,
    memory: &mut Memory,
) -> Result<Machine, Error> {
    let Inventory { version, unfit, held } = packages::inventory(&machine.host(), &names::PACKAGES)?;
    let unit = systemd::state(&machine.host(), names::SERVICE)?;
    let daemon = daemon(machine, &unit)?;
    // Without a running slurmd no command of Slurm works on this machine.
    let (registration, silence) = match (&daemon, &memory.silence) {
        // Whoever does not answer takes half a minute for it, and will not a moment later.
        (Daemon::Running { .. }, Some(silence)) => (Registration::Unreachable, Some(silence.clone())),
        (Daemon::Running { .. }, None) => registration(scontrol::node(&machine.host(), node_name)),
        _ => (Registration::Unreachable, None),
    };
    memory.silence.clone_from(&silence);
    let note = Detection::read(machine)?;
    let mut detection_saved = matches!(daemon, Daemon::Running { .. })
        && note.as_ref().is_some_and(|note| note.invocation == unit.invocation);
    let detected = match (&note, version) {
        (Some(note), _) if detection_saved => Some(note.found.clone()),
        (note, Some(_)) => detected(machine, memory).unwrap_or_else(|error| {
            // A slurmd that cannot even do this tells why when it is started. What the machine had may still be known, and is not new.
            tracing::warn!("could not find out what this machine has: {error}");
            detection_saved = true;
            note.as_ref().map(|note| note.found.clone())
        }),
        (_, None) => None,
    };
    let written = slurmd::read_options(&machine.host())?.map(launch);
    let (cause, complaint) = trouble(machine, &daemon, &registration, silence.as_deref());
    Ok(Machine {
        version,
        unfit,
        reported_version: files::read_text(&machine.host(), ctx.charm_dir.join(names::REPORTED_VERSION))?,
        held,
        left_alone: needrestart::is_left_alone(&machine.host(), names::NEEDRESTART, &[names::SERVICE])?,
        // What systemd has not read does not count.
        drop_in: systemd::read_drop_in(&machine.host(), names::SERVICE, names::DROP_IN)?
            .filter(|_| !unit.needs_daemon_reload),
        alarm: systemd::read_unit_file(&machine.host(), names::ALARM)?,
        key_on_disk: keys_on_disk(machine)?.is_some(),
        key_is_news: key_is_news(machine, &unit)?,
        detected,
        remembered: note.map(|note| note.known),
        detection_saved,
        wish: wish(machine)?,
        // A note that cannot be read is none: there is nothing to go back to, and nothing to tell.
        proven: files::read_text(&machine.host(), names::PROVEN_CONFIG_FILE)?.and_then(node).unwrap_or_default(),
        refused: files::read_text(&machine.host(), names::REFUSED_CONFIG_FILE)?.and_then(refused),
        occupant: other_unit(ctx, machine, node_name, written.as_ref()),
        written,
        // systemd has an opinion about units that do not exist, too.
        kill_mode: if unit.exists() { unit.kill_mode } else { String::new() },
        invocation: unit.invocation,
        stuck: match (&daemon, &registration) {
            (_, Registration::Absent) => slurmd::remnants::processes(&machine.host(), names::SERVICE).len() > 1,
            (Daemon::Running { .. }, Registration::Unreachable) => {
                slurmd::remnants::has_old(&machine.host(), names::SERVICE, unit.main_pid)
            }
            _ => false,
        },
        moved_from: moved_from(machine, &registration)?,
        daemon,
        registration,
        change: files::read_text(&machine.host(), names::CHANGE_FILE)?.as_deref().and_then(Change::parse),
        marked_recently: marked_recently(machine)?,
        set_weight: files::read_text(&machine.host(), names::WEIGHT_FILE)?.and_then(|note| note.trim().parse().ok()),
        occupancy: None,
        skew: None,
        cause,
        complaint,
    })
}

/// Compares this machine's clock with slurmctld's. A node whose clock is ahead joins like any other, and then cannot be told to run a job.
pub(super) fn skew(machine: &slurm_ops::Machine) -> Option<i64> {
    /// What is said between machines is good for a minute.
    const TOLERANCE: i64 = 30;
    let theirs = i64::try_from(scontrol::controller_clock(&machine.host())?).ok()?;
    let ours = i64::try_from(clock::now()).ok()?;
    Some(ours - theirs).filter(|skew| skew.abs() > TOLERANCE)
}

/// Returns the node that this machine is already, if the unit it belongs to is still here.
pub fn occupant(ctx: &Context, machine: &slurm_ops::Machine, own: &NodeName) -> Result<Option<NodeName>, FileError> {
    Ok(other_unit(ctx, machine, own, slurmd::read_options(&machine.host())?.map(launch).as_ref()))
}

fn other_unit(
    ctx: &Context,
    machine: &slurm_ops::Machine,
    own: &NodeName,
    written: Option<&Launch>,
) -> Option<NodeName> {
    let other = written.map(|launch| &launch.node_name).filter(|name| *name != own);
    // A node is called like its unit, and so is the directory of the unit's agent, which goes with it.
    let agents = ctx.charm_dir.ancestors().nth(2);
    let is_here = |name: &&NodeName| {
        agents.is_some_and(|agents| files::exists(&machine.host(), agents.join(format!("unit-{name}"))))
    };
    other.filter(is_here).cloned()
}

/// A key that others can read, or that Slurm would not take because of whose it is, has to be written anew.
pub(super) fn key_is_private(machine: &slurm_ops::Machine) -> Result<bool, FileError> {
    Ok(keys::are_private(&machine.host(), names::KEY_OWNER)? || keys::are_private(&machine.host(), names::SLURM_USER)?)
}

/// A file that holds no keys is as good as none: it will be replaced.
pub(super) fn keys_on_disk(machine: &slurm_ops::Machine) -> Result<Option<KeySet>, FileError> {
    match keys::read_auth_keys(&machine.host()) {
        Err(FileError::Content { .. }) => Ok(None),
        other => other,
    }
}

/// slurmd reads the key when it starts, and when the controllers tell it to; of the second nothing is known here.
fn key_is_news(machine: &slurm_ops::Machine, unit: &UnitState) -> Result<bool, FileError> {
    let written = files::modified(&machine.host(), keys::AUTH_KEY_FILE)?;
    Ok(written.zip(unit.main_started).is_some_and(|(written, started)| written.as_secs() >= started))
}

/// A node behind a translation of addresses is known under one that is none of its own, for good: each such address counts once.
fn moved_from(machine: &slurm_ops::Machine, registration: &Registration) -> Result<Option<String>, FileError> {
    let Registration::Present(record) = registration else { return Ok(None) };
    if !address::is_foreign(&record.address) {
        return Ok(None);
    }
    let noted = files::read_text(&machine.host(), names::ADDRESS_FILE)?;
    Ok(Some(record.address.clone()).filter(|address| noted.as_deref().map(str::trim) != Some(address)))
}

/// slurmctld saves its nodes at most every five seconds, whenever it is asked to.
fn marked_recently(machine: &slurm_ops::Machine) -> Result<bool, FileError> {
    const SAVED_AFTER: u64 = 12;
    let marked =
        files::read_text(&machine.host(), names::MARKED_FILE)?.and_then(|note| note.trim().parse::<u64>().ok());
    // A clock that was set back must not keep the timer for ever.
    Ok(marked.is_some_and(|marked| (marked..marked.saturating_add(SAVED_AFTER)).contains(&clock::now())))
}

/// Returns what the operator asked for. A file that cannot be read is no reason to fail: the node goes on as it is.
fn wish(machine: &slurm_ops::Machine) -> Result<Result<Node, String>, FileError> {
    let text = files::read_text(&machine.host(), names::NODE_CONFIG_FILE)?.unwrap_or_default();
    Ok(Node::from_config(&text).map_err(|error| error.to_string()))
}

fn node(text: String) -> Option<Node> {
    Node::from_config(&text).ok()
}

/// The note has the wish in its first line, and the reason in its second.
fn refused(note: String) -> Option<Refused> {
    let (wish, reason) = note.split_once('\n')?;
    Some(Refused { wish: Node::from_config(wish).ok()?, reason: reason.trim().to_owned() })
}

fn daemon(machine: &slurm_ops::Machine, unit: &UnitState) -> Result<Daemon, Error> {
    let with = || -> Result<Option<Launch>, Error> {
        let words = match unit.main_pid {
            Some(pid) => systemd::command_line(&machine.host(), pid)?,
            None => None,
        };
        // The process may have been replaced by its successor this very moment; then the file tells as much.
        let with = match words {
            Some(words) => SlurmdOptions::from_arguments(&words),
            None => slurmd::read_options(&machine.host())?,
        };
        Ok(with.map(launch))
    };
    // One that somebody killed says nothing about itself, and is on its way up again.
    let killed = matches!(unit.result.as_str(), "signal" | "core-dump" | "oom-kill" | "watchdog");
    Ok(match (unit.active.as_str(), unit.sub.as_str()) {
        _ if unit.is_active() => Daemon::Running { with: with()? },
        (_, "auto-restart" | "auto-restart-queued") if killed => Daemon::Stopped,
        ("failed", _) | (_, "auto-restart" | "auto-restart-queued") => Daemon::Failing { result: unit.result.clone() },
        _ if unit.is_starting() => Daemon::Starting { with: with()? },
        _ => Daemon::Stopped,
    })
}

fn launch(options: SlurmdOptions) -> Launch {
    Launch { node_name: options.name, conf: options.conf, controllers: options.controllers }
}

fn registration(lookup: NodeLookup) -> (Registration, Option<String>) {
    match lookup {
        NodeLookup::Unreachable { why } => {
            tracing::debug!("no answer about this node: {why}");
            (Registration::Unreachable, Some(why))
        }
        NodeLookup::Absent => (Registration::Absent, None),
        NodeLookup::Present(record) => {
            let record = Record {
                states: record.state,
                reason: record.reason,
                reason_by: record.reason_by,
                partitions: record.partitions,
                features: record.features,
                weight: record.weight,
                comment: record.comment,
                notes: record.notes,
                cpus: record.cpus,
                gres: record.gres,
                address: record.address,
            };
            (Registration::Present(record), None)
        }
    }
}

/// The note about what slurmd found when it was last started.
///
/// It is looked for once for each start, whoever started it: what a machine is made of may have changed by then, and looking costs
/// a process.
struct Detection {
    invocation: String,
    known: Node,
    found: Node,
}

impl Detection {
    fn read(machine: &slurm_ops::Machine) -> Result<Option<Self>, FileError> {
        let note = files::read_text(&machine.host(), names::DETECTED_FILE)?.unwrap_or_default();
        let [invocation, known, found] = note.lines().collect::<Vec<_>>()[..] else { return Ok(None) };
        let nodes = Node::from_config(known).ok().zip(Node::from_config(found).ok());
        Ok(nodes.map(|(known, found)| Self { invocation: invocation.to_owned(), known, found }))
    }
}

/// Has slurmd look what is in this machine, once in a dispatch.
fn detected(machine: &slurm_ops::Machine, memory: &mut Memory) -> Result<Option<Node>, Error> {
    if let Some(node) = &memory.detected {
        return Ok(Some(node.clone()));
    }
    let mut node = slurmd::machine_info(&machine.host())?;
    // slurmd names the cards it finds by itself; one that does not is told.
    let cards: Vec<String> = hardware::nvidia_gpus(&machine.host())?.iter().map(ToString::to_string).collect();
    if node.get("Gres").is_none() && !cards.is_empty() {
        node.set("Gres", &cards.join(",")).expect("invariant: names of cards are plain words");
    }
    memory.detected = Some(node.clone());
    Ok(Some(node))
}

/// Finds out why slurmd is of no use. Costs a process, so it is asked only where something is wrong.
fn trouble(
    machine: &slurm_ops::Machine,
    daemon: &Daemon,
    registration: &Registration,
    silence: Option<&str>,
) -> (Option<Cause>, Option<String>) {
    match (daemon, registration) {
        (Daemon::Failing { .. }, _) => (None, journal::last_complaint(&machine.host(), names::SERVICE)),
        (Daemon::Starting { .. }, _) => (journal::cause(&machine.host(), names::SERVICE), None),
        (Daemon::Running { .. }, Registration::Unreachable) => (silence.and_then(Cause::find), None),
        (Daemon::Running { .. }, Registration::Present(record)) if !record.is_responding() => {
            (journal::cause(&machine.host(), names::SERVICE), None)
        }
        _ => (None, None),
    }
}

/// Finds out who is on this node. Nobody is only if the controllers and the machine itself both say so.
pub(super) fn occupancy(machine: &slurm_ops::Machine, node: &NodeName) -> Occupancy {
    let Ok(queue) = scontrol::jobs_on(&machine.host(), node) else { return Occupancy::Unknown };
    let LocalJobs::Known(local) = scontrol::local_jobs(&machine.host(), node) else { return Occupancy::Unknown };
    let mut jobs: Vec<u64> = queue.iter().map(|job| job.id).chain(local).collect();
    jobs.sort_unstable();
    jobs.dedup();
    if !jobs.is_empty() {
        return Occupancy::Jobs(jobs);
    }
    match scontrol::reservations_naming(&machine.host(), node) {
        Ok(reservations) if reservations.is_empty() => Occupancy::Empty,
        Ok(reservations) => Occupancy::Reserved(reservations.into_iter().map(|entry| entry.name).collect()),
        Err(_) => Occupancy::Unknown,
    }
}
