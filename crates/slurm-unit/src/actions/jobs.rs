//! The jobs on nodes: find them, end them, wait until there are none.

use super::refused;
use charm::{ActionFailure, ActionResults, JujuWriter};
use slurm_conf::{HostList, NodeName};
use slurm_ops::scontrol::{self, JobRecord, LocalJobs};
use slurm_ops::{Host, HostWriter};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Slurm gives a job 30 seconds to end (`KillWait`), and some more to its processes.
const PATIENCE: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(500);

/// Jobs by number, each with what slurmctld says about it. None: only the node itself knows the job.
pub type Jobs = BTreeMap<u64, Option<JobRecord>>;

/// Lists the jobs that have something on one of the nodes, those that are just ending included. `here` is the node of
/// this machine, if it is one of them: its own processes are asked as well.
pub fn jobs_on(host: &Host, nodes: &HostList, here: Option<&NodeName>) -> Result<Jobs, ActionFailure> {
    running_on(host, nodes, here, &queue(host, nodes)?)
}

fn queue(host: &Host, nodes: &HostList) -> Result<Vec<JobRecord>, ActionFailure> {
    scontrol::jobs(host).map_err(|error| refused(&format!("could not list the jobs on {nodes}"), &error))
}

fn running_on(
    host: &Host,
    nodes: &HostList,
    here: Option<&NodeName>,
    queue: &[JobRecord],
) -> Result<Jobs, ActionFailure> {
    let touches = |job: &JobRecord| match job.nodes.parse::<HostList>() {
        Ok(used) => used.expand().any(|node| nodes.contains(&node)),
        // A job that waits has an empty list.
        Err(_) => !job.nodes.is_empty(),
    };
    let local = match here.map(|node| scontrol::local_jobs(host, node)) {
        None => Vec::new(),
        Some(LocalJobs::Known(jobs)) => jobs,
        Some(LocalJobs::Unknown { why }) => {
            return Err(ActionFailure::refused(format!("could not list the jobs on this machine: {why}")));
        }
    };
    let mut jobs: Jobs = local.into_iter().map(|id| (id, None)).collect();
    let running = queue.iter().filter(|job| !job.has("PENDING") && touches(job));
    jobs.extend(running.map(|job| (job.id, Some(job.clone()))));
    Ok(jobs)
}

/// Cancels every job on the nodes, and the pending jobs that ask for one of them by name: without the node these would
/// fail. Waits until the jobs on the nodes are gone.
pub fn destroy_jobs(
    (host, writer, juju): (&Host, &HostWriter, &JujuWriter),
    nodes: &HostList,
    here: Option<&NodeName>,
    dry_run: bool,
) -> Result<ActionResults, ActionFailure> {
    let queue = queue(host, nodes)?;
    let jobs = running_on(host, nodes, here, &queue)?;
    // A list that cannot be read is no reason to cancel.
    let required = |job: &JobRecord| job.required.parse::<HostList>().unwrap_or_default();
    let names_one = |job: &&JobRecord| required(job).expand().any(|node| nodes.contains(&node));
    let pending: Vec<&JobRecord> = queue.iter().filter(|job| job.has("PENDING")).filter(names_one).collect();
    let status = match (jobs.is_empty() && pending.is_empty(), dry_run) {
        (true, _) => "no jobs",
        (false, true) => "dry run",
        (false, false) => {
            // A job that slurmctld does not have there is not its to cancel: the number may stand for another job
            // elsewhere.
            let doomed = jobs.values().flatten().chain(pending.iter().copied());
            scontrol::cancel_jobs(writer, doomed.map(JobRecord::handle))
                .map_err(|error| refused(&format!("could not cancel jobs {}", names(&jobs)), &error))?;
            await_no_jobs((host, juju), nodes, here, Some(&jobs))?;
            "cancelled"
        }
    };
    let now = host.now();
    let running = jobs.values().flatten().map(|job| detail(job, now));
    let waiting = pending
        .iter()
        .map(|job| format!("{} {} of {} asks for {} (PENDING)", job.handle(), job.name, job.user, job.required));
    let results = ActionResults::default()
        .with("status", status)
        .with("nodes", nodes.to_string())
        .with("jobs", names(&jobs))
        .with("pending", pending.iter().map(|job| job.handle()).collect::<Vec<_>>().join(" "))
        .with("details", running.chain(waiting).collect::<Vec<_>>().join("\n"));
    let count = jobs.len() + pending.len();
    Ok(if dry_run { results.with("dry-run", "true") } else { results.with("destroyed", count.to_string()) })
}

/// Waits until no job is on the nodes, and shows which still are. With `only` it waits for these jobs, and not for
/// ever.
pub fn await_no_jobs(
    (host, juju): (&Host, &JujuWriter),
    nodes: &HostList,
    here: Option<&NodeName>,
    only: Option<&Jobs>,
) -> Result<(), ActionFailure> {
    let began = Instant::now();
    let mut shown = String::new();
    loop {
        // A question that is not answered is asked again.
        if let Ok(mut left) = jobs_on(host, nodes, here) {
            left.retain(|id, _| only.is_none_or(|only| only.contains_key(id)));
            if left.is_empty() {
                return Ok(());
            }
            let left = names(&left);
            if left != shown {
                juju.action_log(&format!("waiting for jobs {left}"))?;
                shown = left;
            }
        }
        if only.is_some() && began.elapsed() > PATIENCE {
            let seconds = PATIENCE.as_secs();
            return Err(ActionFailure::refused(format!(
                "cancelled, but still ending after {seconds} s: jobs {shown}; look at their processes on the nodes, \
                 or run this again"
            )));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Names jobs as `squeue` does, or by number.
pub fn names(jobs: &Jobs) -> String {
    let name =
        |(id, record): (&u64, &Option<JobRecord>)| record.as_ref().map_or_else(|| id.to_string(), JobRecord::handle);
    jobs.iter().map(name).collect::<Vec<_>>().join(" ")
}

fn detail(job: &JobRecord, now: u64) -> String {
    let left = match job.ends() {
        Some(end) => format!("{} left", duration(end.saturating_sub(now))),
        None => "no time limit".to_owned(),
    };
    let state = job.state.join("+");
    format!("{} {} of {} on {} ({state}, {left})", job.handle(), job.name, job.user, job.nodes)
}

/// Writes seconds as Slurm writes a time: `1:12:00`, `2-0:00:00`.
pub fn duration(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let time = format!("{}:{:02}:{:02}", rest / 3600, rest % 3600 / 60, rest % 60);
    if days > 0 { format!("{days}-{time}") } else { time }
}
