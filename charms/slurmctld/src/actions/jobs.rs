//! Jobs on nodes: end them.

use super::{ActionFailure, ActionResults, Dispatch, needed_host_list, nodes, told};
use serde::Deserialize;
use slurm_conf::HostList;
use slurm_ops::scontrol::{self, JobRecord};
use std::time::{Duration, Instant};

/// Slurm gives a job half a minute to end by itself, and then some to its processes.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, Deserialize)]
pub(super) struct Destroy {
    nodes: String,
    #[serde(default, rename = "dry-run")]
    dry_run: bool,
}

pub(super) fn destroy(
    request: &Destroy,
    daemon: impl FnOnce() -> Result<(), ActionFailure>,
    on: &Dispatch<'_>,
) -> Result<ActionResults, ActionFailure> {
    let wanted = needed_host_list("nodes", &request.nodes)?;
    daemon()?;
    nodes::select(on, Some(&wanted))?;
    let found = jobs_on(on, &wanted)?;
    let status = match (found.is_empty(), request.dry_run) {
        (true, _) => "no jobs",
        (false, true) => "dry run",
        (false, false) => {
            scontrol::cancel_jobs(&on.hands.host, &found).map_err(|error| told(error, str::to_owned))?;
            gone(on, &wanted, &found)?;
            "cancelled"
        }
    };
    let detail = |job: &JobRecord| {
        format!("{} {} of {} on {} ({})", job.handle(), job.name, job.user, job.nodes, job.state.join("+"))
    };
    Ok(ActionResults::default()
        .with("status", status)
        .with("nodes", wanted.to_string())
        .with("jobs", handles(&found))
        .with("details", found.iter().map(detail).collect::<Vec<_>>().join("\n")))
}

fn handles(jobs: &[JobRecord]) -> String {
    jobs.iter().map(JobRecord::handle).collect::<Vec<_>>().join(" ")
}

/// Returns the jobs that have something on one of the nodes, those that are just ending included.
fn jobs_on(on: &Dispatch<'_>, nodes: &HostList) -> Result<Vec<JobRecord>, ActionFailure> {
    let jobs = scontrol::jobs(&on.view.host).map_err(|error| told(error, str::to_owned))?;
    let touches = |job: &JobRecord| match job.nodes.parse::<HostList>() {
        Ok(used) => used.expand().any(|node| nodes.contains(&node)),
        // An empty list is that of a job that waits.
        Err(_) => !job.nodes.is_empty(),
    };
    Ok(jobs.into_iter().filter(|job| !job.has("PENDING") && touches(job)).collect())
}

/// Waits until none of the jobs is on the nodes any more.
fn gone(on: &Dispatch<'_>, nodes: &HostList, jobs: &[JobRecord]) -> Result<(), ActionFailure> {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut left = jobs_on(on, nodes)?;
        left.retain(|job| jobs.iter().any(|ours| ours.id == job.id));
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            let (left, seconds) = (handles(&left), PATIENCE.as_secs());
            return Err(ActionFailure::refused(format!(
                "cancelled, but still ending after {seconds} s: jobs {left}; look at their processes on the nodes, or run this again"
            )));
        }
        std::thread::sleep(PAUSE);
    }
}
