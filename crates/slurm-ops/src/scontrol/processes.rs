//! Whether a job that slurmctld takes for running has a process anywhere. `sstat` asks the slurmd of its nodes.
//!
//! A launch that could not be delivered, and an end of the last seconds, is in slurmctld's memory only: a crash or a
//! reconfigure forgets it, and the job stays RUNNING for as long as it may.
//!
//! A job that has lost its processes on one of several nodes cannot be told from one whose tasks have ended there. Of a
//! step that has nothing left on one of its nodes `sstat` says nothing at all, whatever runs on the others; slurmctld
//! shows the step as running on all of them; and nobody but slurmd on the node itself lists what is there. (Seen on
//! 24.11.5: the same answers for a task that had exited with 0 and for one that was killed while slurmctld was away. Nor
//! does Slurm find it when that node registers again.) So only what is on one node by its nature is judged: the script
//! of a job, or a job that has one node.

use super::{ControllerSettings, JobRecord, client};
use crate::machine::Host;
use slurm_conf::HostList;
use std::time::Duration;

/// What the nodes of a job know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobProcesses {
    /// It has a process, on one node at least.
    Present,
    /// The node of its script, or its only one, answered and has none. That is also what it says during a Prolog.
    Absent {
        /// That node.
        node: String,
    },
    /// It could not be found out.
    Unknown {
        /// The last thing that was said about it.
        why: String,
    },
}

/// Asks the nodes of a job for its processes.
pub fn job_processes(host: &Host, job: &JobRecord) -> JobProcesses {
    let question = ["--allsteps", "--format=JobID,Pids", "--noheader", "--parsable2"];
    let command = client(host, "sstat").args(question).arg(format!("--jobs={}", job.id));
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return JobProcesses::Unknown { why: super::unreachable(&error).to_string() },
    };
    let has_process = |line: &str| line.split_once('|').is_some_and(|(_, pids)| !pids.trim().is_empty());
    // It ends with success even if nobody could be asked, so that its complaints are what counts; an allocation without
    // steps is complained about as well.
    match () {
        () if output.stdout.lines().any(has_process) => JobProcesses::Present,
        () if !output.success() || !output.stderr.trim().is_empty() => {
            JobProcesses::Unknown { why: output.complaint().to_owned() }
        }
        () if output.stdout.trim().is_empty() => match decisive_node(job) {
            Some(node) => JobProcesses::Absent { node },
            None => JobProcesses::Unknown { why: format!("one of {} has no task of it left", job.nodes) },
        },
        () => JobProcesses::Unknown { why: format!("sstat said {}", output.stdout.trim()) },
    }
}

/// Returns the node without whose processes a job cannot be.
fn decisive_node(job: &JobRecord) -> Option<String> {
    let only = || {
        let nodes = job.nodes.parse::<HostList>().ok()?;
        let mut nodes = nodes.expand();
        nodes.next().filter(|_| nodes.next().is_none())
    };
    job.script_host().map(str::to_owned).or_else(only)
}

/// Returns how long a job may run without a process, because its nodes prepare themselves.
pub fn longest_prolog(settings: &ControllerSettings) -> Duration {
    const LAUNCH: Duration = Duration::from_secs(60);
    const UNLIMITED: Duration = Duration::from_secs(30 * 60);
    /// What Slurm shows for "none".
    const NO_VALUE: u64 = 65_534;
    if !settings.has_any("Prolog") {
        return LAUNCH;
    }
    let limit = settings.get("PrologEpilogTimeout").and_then(|text| text.split(' ').next()?.parse().ok());
    limit.filter(|limit| *limit < NO_VALUE).map_or(UNLIMITED, |limit| LAUNCH.max(Duration::from_secs(limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_may_be_without_a_process_as_long_as_a_prolog_takes() {
        let limit = |text: &str| longest_prolog(&ControllerSettings::from_shown(text)).as_secs();
        assert_eq!(limit("PrologEpilogTimeout = 65534\nPrologFlags = (null)\nTaskProlog = (null)\n"), 60);
        assert_eq!(limit("Prolog[0] = /etc/slurm/prolog.sh\nPrologEpilogTimeout = 65534\n"), 1800);
        assert_eq!(limit("Prolog[0] = /etc/slurm/prolog.sh\nPrologEpilogTimeout = 300\n"), 300);
        assert_eq!(limit("Prolog = (null)\n"), 60);
    }
}
