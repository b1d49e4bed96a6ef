//! The jobs on this node: `destroy-jobs`, and waiting until there are none.

use super::refused;
use crate::Slurmd;
use charm::{ActionFailure, ActionResults};
use slurm_ops::scontrol::{self, LocalJobs};
use std::time::{Duration, Instant};

/// Slurm gives a job 30 seconds to end (`KillWait`), and some more to clean up after it.
const PATIENCE: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Destroy {
    #[serde(default)]
    dry_run: bool,
}

pub(super) fn destroy(charm: &mut Slurmd) -> Result<ActionResults, ActionFailure> {
    let request: Destroy = charm.tools.action_get()?;
    charm.record()?;
    let jobs = on_this_node(charm)?;
    let numbers = text(&jobs);
    if request.dry_run {
        return Ok(ActionResults::default().with("dry-run", "true").with("jobs", numbers));
    }
    scontrol::cancel_jobs(&charm.machine, &jobs)
        .map_err(|error| refused(&format!("could not cancel jobs {numbers}"), &error))?;
    await_empty(charm, Some((PATIENCE, &jobs)))?;
    charm.look_again()?;
    Ok(ActionResults::default().with("destroyed", jobs.len().to_string()).with("jobs", numbers))
}

/// Lists the jobs on this node: those that slurmctld has here, and those whose processes the machine knows of.
pub(super) fn on_this_node(charm: &Slurmd) -> Result<Vec<u64>, ActionFailure> {
    let name = charm.node_name();
    let queue = scontrol::jobs_on(&charm.machine, &name)
        .map_err(|error| refused(&format!("could not list the jobs on {name}"), &error))?;
    let local = match scontrol::local_jobs(&charm.machine, &name) {
        LocalJobs::Known(jobs) => jobs,
        LocalJobs::Unknown { why } => {
            return Err(ActionFailure::refused(format!("could not list the jobs on this machine: {why}")));
        }
    };
    let mut jobs: Vec<u64> = queue.iter().map(|job| job.id).chain(local).collect();
    jobs.sort_unstable();
    jobs.dedup();
    Ok(jobs)
}

/// Waits until no job is on this node, or none of the given ones, and shows which still are. With a limit it fails when that is reached.
pub(super) fn await_empty(charm: &Slurmd, limit: Option<(Duration, &[u64])>) -> Result<(), ActionFailure> {
    let began = Instant::now();
    let mut shown = Vec::new();
    loop {
        // An answer that does not come is no answer; it is asked again.
        if let Ok(jobs) = on_this_node(charm) {
            let left: Vec<u64> = match limit {
                Some((_, ours)) => jobs.into_iter().filter(|job| ours.contains(job)).collect(),
                None => jobs,
            };
            if left.is_empty() {
                return Ok(());
            }
            if left != shown {
                charm.tools.action_log(&format!("waiting for jobs {}", text(&left))).map_err(ActionFailure::broken)?;
                shown = left;
            }
        }
        if let Some((limit, _)) = limit
            && began.elapsed() > limit
        {
            let seconds = limit.as_secs();
            return Err(ActionFailure::refused(format!("jobs {} are still here after {seconds} s", text(&shown))));
        }
        std::thread::sleep(PAUSE);
    }
}

fn text(jobs: &[u64]) -> String {
    jobs.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}
