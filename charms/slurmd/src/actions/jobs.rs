//! The jobs on this node: `destroy-jobs`, and waiting until there are none.

use super::refused;
use crate::Slurmd;
use charm::{ActionFailure, ActionResults};
use slurm_ops::scontrol::{self, JobRecord, LocalJobs};
use std::collections::BTreeMap;
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
    let shown = text(&jobs);
    if request.dry_run {
        return Ok(ActionResults::default().with("dry-run", "true").with("jobs", shown));
    }
    // One that slurmctld does not have here is not its to cancel: the number may stand for something else elsewhere.
    scontrol::cancel_jobs(&charm.machine.writer(), jobs.values().flatten())
        .map_err(|error| refused(&format!("could not cancel jobs {shown}"), &error))?;
    await_empty(charm, Some((PATIENCE, &jobs)))?;
    charm.look_again()?;
    Ok(ActionResults::default().with("destroyed", jobs.len().to_string()).with("jobs", shown))
}

/// Jobs by number, each with what slurmctld says about it, if it has it on this node.
pub(super) type Jobs = BTreeMap<u64, Option<JobRecord>>;

/// Lists the jobs on this node: those that slurmctld has here, and those whose processes the machine knows of.
pub(super) fn on_this_node(charm: &Slurmd) -> Result<Jobs, ActionFailure> {
    let name = charm.node_name();
    let queue = scontrol::jobs_on(&charm.machine.host(), &name)
        .map_err(|error| refused(&format!("could not list the jobs on {name}"), &error))?;
    let local = match scontrol::local_jobs(&charm.machine.host(), &name) {
        LocalJobs::Known(jobs) => jobs,
        LocalJobs::Unknown { why } => {
            return Err(ActionFailure::refused(format!("could not list the jobs on this machine: {why}")));
        }
    };
    let mut jobs: Jobs = local.into_iter().map(|id| (id, None)).collect();
    jobs.extend(queue.into_iter().map(|job| (job.id, Some(job))));
    Ok(jobs)
}

/// Waits until no job is on this node, or none of the given ones, and shows which still are. With a limit it fails when that is reached.
pub(super) fn await_empty(charm: &Slurmd, limit: Option<(Duration, &Jobs)>) -> Result<(), ActionFailure> {
    let began = Instant::now();
    let mut shown = String::new();
    loop {
        // An answer that does not come is no answer; it is asked again.
        if let Ok(mut left) = on_this_node(charm) {
            left.retain(|id, _| limit.is_none_or(|(_, ours)| ours.contains_key(id)));
            if left.is_empty() {
                return Ok(());
            }
            let left = text(&left);
            if left != shown {
                charm.tools.writer().action_log(&format!("waiting for jobs {left}")).map_err(ActionFailure::broken)?;
                shown = left;
            }
        }
        if let Some((limit, _)) = limit
            && began.elapsed() > limit
        {
            let seconds = limit.as_secs();
            return Err(ActionFailure::refused(format!("jobs {shown} are still here after {seconds} s")));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Names jobs as `squeue` does, or by number.
pub(super) fn text(jobs: &Jobs) -> String {
    let name =
        |(id, record): (&u64, &Option<JobRecord>)| record.as_ref().map_or_else(|| id.to_string(), JobRecord::handle);
    jobs.iter().map(name).collect::<Vec<_>>().join(" ")
}
