//! Jobs: those that slurmctld knows, through `squeue`, and those that a node itself knows, through `scontrol
//! listjobs`.
//!
//! A node is empty only if both say so. Neither is proof alone: slurmctld may have forgotten a job that still runs,
//! and a node keeps naming jobs whose processes were killed.

use super::{MaybeNumber, ScontrolError, ask, client, refusal, run_json, scontrol};
use crate::machine::{Host, HostWriter};
use serde::Deserialize;
use slurm_conf::{HostList, NodeName, PartitionName};
use std::collections::BTreeSet;
use std::fs;

/// What slurmctld knows about a job.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct JobRecord {
    /// Its number.
    #[serde(rename = "job_id")]
    pub id: u64,
    /// What its owner calls it.
    pub name: String,
    /// Its owner.
    #[serde(rename = "user_name")]
    pub user: String,
    /// Its partition.
    pub partition: String,
    /// The base state first (`PENDING`, `RUNNING`, `COMPLETING` …), then flags.
    #[serde(rename = "job_state")]
    pub state: Vec<String>,
    /// The nodes it runs on, as a host list; empty while it waits.
    pub nodes: String,
    /// The nodes it insists on, as a host list.
    #[serde(rename = "required_nodes")]
    pub required: String,
    /// Why it waits.
    #[serde(rename = "state_reason", default)]
    pub reason: String,
    /// It has a script (`sbatch`).
    #[serde(rename = "batch_flag", default)]
    script: bool,
    /// Where a script runs, if there is one.
    #[serde(rename = "batch_host", default)]
    script_host: String,
    /// The array that it is a task of; 0 if of none.
    #[serde(rename = "array_job_id", default)]
    array: Number,
    /// Its place in that array; not set while several tasks that wait share one record.
    #[serde(rename = "array_task_id", default)]
    task: Number,
    /// How long it may run, in minutes.
    #[serde(default)]
    time_limit: MaybeNumber,
    /// When it began to run, in seconds since 1970.
    #[serde(default)]
    start_time: MaybeNumber,
    /// When it ends at the latest, in seconds since 1970.
    #[serde(default)]
    end_time: MaybeNumber,
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobPhase {
    /// It has not begun.
    Waiting,
    /// It runs, is suspended or just ends. A state that nobody knows counts as this one.
    Active,
    /// Only its record is left, until `MinJobAge` is over.
    Ended,
}

/// States of a job that has ended.
const ENDED: [&str; 9] =
    ["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"];

/// A number as Slurm writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
struct Number {
    set: bool,
    number: u64,
}

impl JobRecord {
    /// Returns what stands for this job and for no other, as `squeue` shows it and `scancel` takes it: `5_1` for a
    /// task of an array.
    ///
    /// One task of an array has the array's own number, which `scancel` takes for all of its tasks, wherever they run.
    pub fn handle(&self) -> String {
        match (self.array, self.task) {
            (Number { number: array @ 1.., .. }, Number { set: true, number }) => format!("{array}_{number}"),
            _ => self.id.to_string(),
        }
    }

    /// Returns the node that its script runs on. `None`: it has none, or does not run.
    pub fn script_host(&self) -> Option<&str> {
        (self.script && !self.script_host.is_empty()).then_some(self.script_host.as_str())
    }

    /// Returns when it began to run, in seconds since 1970. `None`: it does not run.
    pub fn began(&self) -> Option<u64> {
        self.start_time.finite().filter(|began| *began > 0 && self.state == ["RUNNING"])
    }

    /// Returns when it ends at the latest, in seconds since 1970. `None`: it has no time limit.
    pub fn ends(&self) -> Option<u64> {
        self.time_limit.finite().and_then(|_| self.end_time.finite())
    }

    /// Tells whether the job is in a state or carries a flag.
    pub fn has(&self, state: &str) -> bool {
        self.state.iter().any(|own| own.eq_ignore_ascii_case(state))
    }

    /// Returns how far the job has come.
    pub fn phase(&self) -> JobPhase {
        // A job that is requeued waits already while its nodes are being cleaned up.
        if self.has("COMPLETING") || self.has("STAGE_OUT") {
            return JobPhase::Active;
        }
        match self.state.first().map(String::as_str) {
            Some("PENDING") => JobPhase::Waiting,
            Some(base) if ENDED.contains(&base) => JobPhase::Ended,
            _ => JobPhase::Active,
        }
    }

    /// Tells whether its record names a partition; a job that waits may name several.
    pub fn names_partition(&self, name: &PartitionName) -> bool {
        self.partition.split(',').any(|own| own == name.as_str())
    }

    /// Tells whether it is on a node, or just leaving it. A list that cannot be read may name it.
    pub fn is_on(&self, node: &NodeName) -> bool {
        self.phase() == JobPhase::Active
            && self.nodes.parse().map_or(true, |list: HostList| list.contains(node.as_str()))
    }

    /// Tells whether it waits and insists on a node: without that node it would fail. A list that cannot be read may
    /// name it.
    pub fn waits_for(&self, node: &NodeName) -> bool {
        self.has("PENDING") && self.required.parse().map_or(true, |list: HostList| list.contains(node.as_str()))
    }
}

/// The jobs whose processes a node knows of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalJobs {
    /// Their numbers; none may be there.
    Known(Vec<u64>),
    /// It could not be found out.
    Unknown {
        /// The last thing that was said about it.
        why: String,
    },
}

/// Lists every job that waits, runs or is ending.
pub fn jobs(host: &Host) -> Result<Vec<JobRecord>, ScontrolError> {
    queue(host, &[])
}

/// Lists every job that slurmctld has a record of, in whatever partition: also those that have ended, until it forgets
/// them. slurmctld does not survive a record whose partition is gone.
pub fn job_records(host: &Host) -> Result<Vec<JobRecord>, ScontrolError> {
    queue(host, &["--all", "--states=all"])
}

/// Lists the jobs on a node, those that are just ending included. A node that slurmctld does not know is refused.
pub fn jobs_on(host: &Host, node: &NodeName) -> Result<Vec<JobRecord>, ScontrolError> {
    queue(host, &["-w", node.as_str()])
}

/// Lists the jobs that wait and insist on a node.
pub fn jobs_waiting_for(host: &Host, node: &NodeName) -> Result<Vec<JobRecord>, ScontrolError> {
    let waiting = queue(host, &["-t", "PENDING"])?;
    Ok(waiting.into_iter().filter(|job| job.waits_for(node)).collect())
}

/// Cancels jobs by their [handles](JobRecord::handle). They then take until their processes have ended. One that has
/// ended already is no obstacle.
pub fn cancel_jobs(writer: &HostWriter, handles: impl IntoIterator<Item = String>) -> Result<(), ScontrolError> {
    let handles: Vec<String> = handles.into_iter().collect();
    if handles.is_empty() {
        return Ok(());
    }
    let scancel = client(writer.host(), "scancel").args(handles);
    let output = scancel.output().map_err(|error| super::unreachable(&error))?;
    let ended = |line: &str| line.contains("Invalid job id") || line.contains("already completing or completed");
    if output.success() || output.stderr.lines().filter(|line| !line.trim().is_empty()).all(ended) {
        return Ok(());
    }
    Err(refusal(&scancel, &output))
}

fn queue(host: &Host, filter: &[&str]) -> Result<Vec<JobRecord>, ScontrolError> {
    #[derive(Deserialize)]
    struct Answer {
        jobs: Vec<JobRecord>,
    }
    ask::<Answer>(|json| client(host, "squeue").args(filter.iter().copied()).arg(json)).map(|answer| answer.jobs)
}

/// Asks this machine for the jobs of the node that runs here, without asking slurmctld.
///
/// Slurm looks for sockets, and that of a slurmstepd which went with a power cut stays for ten minutes. So what is
/// listed counts only as long as it has a process.
///
/// The node's name is needed: without it Slurm takes the host's name, and where the two differ it finds nothing and
/// says so as if there were no jobs.
pub fn local_jobs(host: &Host, node: &NodeName) -> LocalJobs {
    #[derive(Deserialize)]
    struct Answer {
        jobs: Vec<Job>,
    }
    #[derive(Deserialize)]
    struct Job {
        job_id: u64,
    }
    let asked = run_json(|json| scontrol(host).args(["listjobs", node.as_str(), json]));
    let (command, output) = match asked {
        Ok(asked) => asked,
        Err(error) => return LocalJobs::Unknown { why: error.to_string() },
    };
    // A machine without slurmd answers "none" as well, with a complaint.
    if !output.success() || output.stderr.contains("Domain socket directory") {
        return LocalJobs::Unknown { why: refusal(&command, &output).to_string() };
    }
    match serde_json::from_str::<Answer>(&output.stdout) {
        Ok(answer) => {
            let live = if answer.jobs.is_empty() { None } else { live_jobs(host) };
            let is_live = |job: &u64| live.as_ref().is_none_or(|live| live.contains(job));
            LocalJobs::Known(answer.jobs.into_iter().map(|job| job.job_id).filter(is_live).collect())
        }
        Err(error) => LocalJobs::Unknown { why: command.unreadable(error).to_string() },
    }
}

/// A process of Slurm that runs a step of a job on this machine, `slurmstepd: [39.batch]`.
struct Step {
    pid: u32,
    job: u64,
    /// It belongs to the job as a whole, and lasts until slurmctld ends it.
    external: bool,
}

/// Lists the steps on this machine, and the parents of all processes. `None`: it cannot be told, because there is no
/// table of processes, or a step does not say yet whose it is.
fn steps(host: &Host) -> Option<(Vec<Step>, BTreeSet<u32>)> {
    let table = host.path("/proc");
    if !table.join("1").exists() {
        return None;
    }
    let (mut steps, mut parents) = (Vec::new(), BTreeSet::new());
    for entry in fs::read_dir(table).ok()?.flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        // The name of a program, which comes before, may hold anything.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace());
        parents.extend(fields.and_then(|mut fields| fields.nth(1)?.parse::<u32>().ok()));
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        let Some(rest) = words.rsplit_once('/').map_or(&*words, |(_, name)| name).strip_prefix("slurmstepd") else {
            continue;
        };
        // The process that keeps the control group of all steps belongs to no job.
        if rest.trim_matches('\0').trim() == "infinity" || !host.owns_process(pid) {
            continue;
        }
        let (job, step) = rest.strip_prefix(": [")?.split_once('.')?;
        steps.push(Step { pid, job: job.parse().ok()?, external: step.starts_with("extern") });
    }
    Some((steps, parents))
}

/// Returns the jobs that have a step on this machine. Asks neither slurmctld nor slurmd.
fn live_jobs(host: &Host) -> Option<BTreeSet<u64>> {
    steps(host).map(|(steps, _)| steps.into_iter().map(|step| step.job).collect())
}

/// Returns the jobs that still run something on this machine, whether or not anybody can be asked. `None`: it cannot be
/// told.
///
/// A step whose program has ended stays until it has told slurmctld so, which without a slurmctld is for ever.
pub fn jobs_at_work(host: &Host) -> Option<BTreeSet<u64>> {
    let (steps, parents) = steps(host)?;
    let at_work = steps.into_iter().filter(|step| !step.external && parents.contains(&step.pid));
    Some(at_work.map(|step| step.job).collect())
}
