//! Jobs that slurmctld takes for running although the node that counts has no process of them. Slurm forgets their
//! launch or their end when it crashes at the wrong moment. Nothing is done about them here: they are named.

use slurm_conf::HostList;
use slurm_ops::Host;
use slurm_ops::scontrol::{self, JobProcesses, JobRecord, NodeRecord};

/// Each is a question to its nodes.
const ASKED_AT_MOST: usize = 50;

/// Those on some nodes.
#[derive(Debug, Default)]
pub(super) struct LostJobs {
    /// Each with the node that should have a process of it.
    jobs: Vec<(JobRecord, String)>,
    /// So many were too many to ask about.
    pub(super) not_asked: usize,
}

impl LostJobs {
    /// Looks for them. What could not be asked is not found.
    pub(super) fn look(host: &Host, nodes: &[NodeRecord]) -> Self {
        let (Ok(jobs), Some(limit)) = (scontrol::jobs(host), limit(host)) else { return Self::default() };
        let now = host.now();
        let shown = |list: &HostList| nodes.iter().any(|node| list.contains(&node.name));
        let mut aged: Vec<(JobRecord, HostList)> = jobs
            .into_iter()
            .filter(|job| is_aged(job, now, limit))
            .filter_map(|job| job.nodes.parse().ok().map(|list| (job, list)))
            .filter(|(_, list)| shown(list))
            .collect();
        let not_asked = aged.len().saturating_sub(ASKED_AT_MOST);
        aged.truncate(ASKED_AT_MOST);
        let lost = |(job, _): (JobRecord, HostList)| missing_on(host, &job).map(|node| (job, node));
        Self { jobs: aged.into_iter().filter_map(lost).collect(), not_asked }
    }

    pub(super) fn on(&self, node: &str) -> impl Iterator<Item = &JobRecord> {
        self.jobs.iter().filter(move |(_, own)| own == node).map(|(job, _)| job)
    }
}

/// Returns the node that has no process of a job which has been running for longer than any Prolog takes. None: it is
/// well, or nobody can tell.
pub(super) fn lost_on(host: &Host, job: &JobRecord) -> Option<String> {
    let limit = limit(host)?;
    is_aged(job, host.now(), limit).then(|| missing_on(host, job)).flatten()
}

fn missing_on(host: &Host, job: &JobRecord) -> Option<String> {
    match scontrol::job_processes(host, job) {
        JobProcesses::Absent { node } => Some(node),
        JobProcesses::Present | JobProcesses::Unknown { .. } => None,
    }
}

/// For so many seconds a job may have no process. None: nobody could be asked.
fn limit(host: &Host) -> Option<u64> {
    scontrol::settings(host).ok().map(|settings| scontrol::longest_prolog(&settings).as_secs())
}

fn is_aged(job: &JobRecord, now: u64, limit: u64) -> bool {
    job.began().is_some_and(|began| now > began + limit)
}
