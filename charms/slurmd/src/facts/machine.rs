//! Looks at the machine and at Slurm, through `slurm-ops`.

use super::{Boot, Daemon, Facts, JobHere, KeyFile, Notes, Occupancy, StartFile, node_name};
use crate::names;
use crate::node::lifecycle;
use slurm_conf::{Node, NodeName, PartitionName};
use slurm_ops::files::{self, FileError};
use slurm_ops::scontrol::{self, Candidate, LocalJobs, NodeLookup};
use slurm_ops::slurmd::SlurmdOptions;
use slurm_ops::{address, clock, hardware, keys, slurmd, systemd};
use slurm_unit::note::{self, Noted};
use slurm_unit::service::{Running, running};
use slurm_unit::{Error, View};
use std::collections::BTreeMap;

pub(super) fn daemon(view: &View) -> Result<Daemon, Error> {
    let unit = systemd::state(&view.host, names::SERVICE)?;
    let running = running(&unit);
    let with = match (running, unit.main_pid) {
        (Running::Up | Running::Starting, Some(pid)) => match systemd::command_line(&view.host, pid)? {
            Some(words) => SlurmdOptions::from_arguments(&words),
            // The process may have been replaced by its successor this very moment; then the file tells as much.
            None => slurmd::read_options(&view.host)?,
        },
        (Running::Up | Running::Starting, None) => slurmd::read_options(&view.host)?,
        _ => None,
    };
    Ok(Daemon {
        running,
        with,
        // systemd has an opinion about units that do not exist, too.
        kill_mode: if unit.exists() { unit.kill_mode } else { String::new() },
        result: unit.result,
        invocation: unit.invocation,
        started: unit.main_started,
        main_pid: unit.main_pid,
        needs_reload_of_units: unit.needs_daemon_reload,
    })
}

pub(super) fn start_file(view: &View) -> Result<StartFile, Error> {
    let options = slurmd::read_options(&view.host)?;
    let neighbour = other_unit(view, options.as_ref());
    Ok(StartFile { options, neighbour })
}

/// Returns the node that this machine is already, if the unit it belongs to is still here.
pub(crate) fn neighbour(view: &View) -> Result<Option<NodeName>, FileError> {
    Ok(other_unit(view, slurmd::read_options(&view.host)?.as_ref()))
}

fn other_unit(view: &View, options: Option<&SlurmdOptions>) -> Option<NodeName> {
    let other = options.map(|options| &options.name).filter(|name| **name != node_name(&view.ctx.unit));
    // A node is called like its unit, and so is the directory of the unit's agent, which goes with it.
    let agents = view.ctx.charm_dir.ancestors().nth(2);
    let is_here =
        |name: &&NodeName| agents.is_some_and(|agents| files::exists(&view.host, agents.join(format!("unit-{name}"))));
    other.filter(is_here).cloned()
}

pub(super) fn key_file(view: &View) -> Result<KeyFile, Error> {
    let keys = match keys::read_auth_keys(&view.host) {
        Err(FileError::Content { .. }) => None,
        other => other?,
    };
    let private = keys::are_private(&view.host, names::KEY_OWNER)? || keys::are_private(&view.host, names::SLURM_USER)?;
    Ok(KeyFile { keys, private, shared: files::exists(&view.host, names::SLURM_CONF) })
}

impl Notes {
    pub(super) fn look(view: &View) -> Result<Self, Error> {
        let old = lifecycle::read_old(view)?;
        let exist = old.is_some();
        let node = match note::read(&view.host)? {
            Noted::Known(note) => Ok(note),
            Noted::Unreadable { why } => Err(why),
            Noted::Absent => old.unwrap_or_else(|| Ok(lifecycle::NodeNote::default())),
        };
        Ok(Self { node, old: exist })
    }
}

impl Boot {
    /// A note that cannot be read is as good as none: all that it spares is a repetition.
    pub(super) fn look(view: &View) -> Result<Self, Error> {
        /// slurmctld saves its nodes at most every five seconds, whenever it is asked to.
        const SAVED_AFTER: u64 = 12;
        let note = note::read::<lifecycle::BootNote>(&view.host)?.known().cloned().unwrap_or_default();
        // A clock that was set back must not keep the timer for ever.
        let recent = |marked: u64| (marked..marked.saturating_add(SAVED_AFTER)).contains(&clock::now());
        Ok(Self { marked_recently: note.marked.is_some_and(recent), note })
    }
}

/// Has slurmd look what is in this machine. A slurmd that cannot even do this tells why when it is started.
pub(super) fn detected(view: &View) -> Result<Option<Node>, Error> {
    let mut node = match slurmd::machine_info(&view.host) {
        Ok(node) => node,
        Err(error) => {
            tracing::warn!("could not find out what this machine has: {error}");
            return Ok(None);
        }
    };
    // slurmd names the cards it finds by itself; one that does not is told.
    let cards: Vec<String> = hardware::nvidia_gpus(&view.host)?.iter().map(ToString::to_string).collect();
    if node.get("Gres").is_none() && !cards.is_empty() {
        node.set("Gres", &cards.join(",")).expect("invariant: names of cards are plain words");
    }
    Ok(Some(node))
}

pub(super) fn moved_from(known: &Facts) -> Option<String> {
    match known.seen() {
        Ok(NodeLookup::Present(record)) if address::is_foreign(&record.address) => Some(record.address.clone()),
        _ => None,
    }
}

pub(super) fn stale_processes(view: &View, known: &Facts) -> bool {
    match (known.daemon(), known.seen()) {
        (Ok(_), Ok(NodeLookup::Absent)) => slurmd::remnants::processes(&view.host, names::SERVICE).len() > 1,
        (Ok(daemon), Ok(NodeLookup::Unreachable { .. })) => {
            slurmd::remnants::has_old(&view.host, names::SERVICE, daemon.main_pid)
        }
        _ => false,
    }
}

/// The node is empty only if the controllers and the machine itself both say so, and nobody waits for it.
pub(super) fn occupancy(view: &View) -> Occupancy {
    let (host, node) = (&view.host, &node_name(&view.ctx.unit));
    let Ok(queue) = scontrol::jobs_on(host, node) else { return Occupancy::Unknown };
    let LocalJobs::Known(local) = scontrol::local_jobs(host, node) else { return Occupancy::Unknown };
    let local = local.into_iter().map(|id| JobHere { id, handle: None, ends: None, ending: false });
    let mut jobs: BTreeMap<u64, JobHere> = local.map(|job| (job.id, job)).collect();
    // Jobs that wait are not on the node, whatever the filter of `squeue` thinks.
    jobs.extend(queue.iter().filter(|job| !job.has("PENDING")).map(|job| {
        let (handle, ending) = (Some(job.handle()), job.has("COMPLETING"));
        (job.id, JobHere { id: job.id, handle, ends: job.ends(), ending })
    }));
    if !jobs.is_empty() {
        return Occupancy::Jobs(jobs.into_values().collect());
    }
    match scontrol::jobs_waiting_for(host, node) {
        Ok(waiting) if waiting.is_empty() => {}
        Ok(waiting) => return Occupancy::Awaited(waiting.iter().map(scontrol::JobRecord::handle).collect()),
        Err(_) => return Occupancy::Unknown,
    }
    match scontrol::reservations_naming(host, node) {
        Ok(reservations) if reservations.is_empty() => Occupancy::Empty,
        Ok(reservations) => Occupancy::Reserved(reservations.into_iter().map(|entry| entry.name).collect()),
        Err(_) => Occupancy::Unknown,
    }
}

/// A Slurm that could not be asked has no objection; the controller's own check comes next.
pub(super) fn verdict(view: &View, known: &Facts) -> Candidate {
    match known.options().map(|options| &options.partition) {
        Ok(Ok(partition)) => scontrol::judge_partition(&view.host, partition),
        _ => Candidate::Readable,
    }
}

pub(super) fn partition_state(view: &View) -> Option<String> {
    let partition: PartitionName = view.ctx.unit.app().as_str().parse().ok()?;
    let settings = scontrol::partition_settings(&view.host).ok()?;
    settings.get(&partition, "State").map(str::to_owned)
}

/// Compares this machine's clock with slurmctld's. A node whose clock is ahead joins like any other, and then cannot be
/// told to run a job.
pub(super) fn skew(view: &View) -> Option<i64> {
    /// What is said between machines is good for a minute.
    const TOLERANCE: i64 = 30;
    let theirs = i64::try_from(scontrol::controller_clock(&view.host)?).ok()?;
    let ours = i64::try_from(clock::now()).ok()?;
    Some(ours - theirs).filter(|skew| skew.abs() > TOLERANCE)
}
