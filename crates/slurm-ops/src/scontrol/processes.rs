//! Whether a job that slurmctld takes for running has a process anywhere. `sstat` asks the slurmd of its nodes.
//!
//! A launch that could not be delivered, and an end of the last seconds, is in slurmctld's memory only: a crash or a
//! reconfigure forgets it, and the job stays RUNNING for as long as it may.

use super::{ControllerSettings, JobRecord, client};
use crate::machine::Host;
use std::time::Duration;

/// What the nodes of a job know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobProcesses {
    /// It has a process, on one node at least.
    Present,
    /// All its nodes answered, and none has one. That is also what they say during a Prolog.
    Absent,
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
        () if output.stdout.trim().is_empty() => JobProcesses::Absent,
        () => JobProcesses::Unknown { why: format!("sstat said {}", output.stdout.trim()) },
    }
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
