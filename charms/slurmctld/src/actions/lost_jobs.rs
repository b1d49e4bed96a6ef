//! Jobs that slurmctld takes for running although no node has a process of them. Slurm forgets their launch or their
//! end when it crashes at the wrong moment. Nothing is done about them here: they are named.

use slurm_conf::HostList;
use slurm_ops::Host;
use slurm_ops::scontrol::{self, JobProcesses, JobRecord, NodeRecord};

/// Each is a question to its nodes.
const ASKED_AT_MOST: usize = 50;

/// Those on some nodes.
#[derive(Debug, Default)]
pub(super) struct LostJobs {
    jobs: Vec<(JobRecord, HostList)>,
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
        aged.retain(|(job, _)| scontrol::job_processes(host, job) == JobProcesses::Absent);
        Self { jobs: aged, not_asked }
    }

    pub(super) fn on(&self, node: &str) -> impl Iterator<Item = &JobRecord> {
        self.jobs.iter().filter(move |(_, list)| list.contains(node)).map(|(job, _)| job)
    }
}

/// Says whether a job has been running for longer than any Prolog takes, and has no process.
pub(super) fn is_lost(host: &Host, job: &JobRecord) -> bool {
    limit(host).is_some_and(|limit| is_aged(job, host.now(), limit))
        && scontrol::job_processes(host, job) == JobProcesses::Absent
}

/// For so many seconds a job may have no process. None: nobody could be asked.
fn limit(host: &Host) -> Option<u64> {
    scontrol::settings(host).ok().map(|settings| scontrol::longest_prolog(&settings).as_secs())
}

fn is_aged(job: &JobRecord, now: u64, limit: u64) -> bool {
    job.began().is_some_and(|began| now > began + limit)
}
