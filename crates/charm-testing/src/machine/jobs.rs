//! Jobs of the made-up Slurm: they are there because a test says so, and gone when somebody cancels them or they are told to end.

use super::{FakeMachine, Programs, State, fails, says};
use serde_json::{Value, json};
use slurm_conf::HostList;
use slurm_ops::command::Ended;

/// A job.
#[derive(Debug, Clone, Default)]
pub struct FakeJob {
    /// Its partition.
    pub partition: String,
    /// The nodes that it runs on, as a host list; empty while it waits.
    pub nodes: String,
    /// The nodes that it insists on, as a host list.
    pub required: String,
    /// Why it waits.
    pub reason: String,
}

impl FakeJob {
    /// A job that runs on nodes.
    pub fn running(partition: &str, nodes: &str) -> Self {
        Self { partition: partition.to_owned(), nodes: nodes.to_owned(), ..Self::default() }
    }

    /// A job that waits, for this reason.
    pub fn waiting(partition: &str, reason: &str) -> Self {
        Self { partition: partition.to_owned(), reason: reason.to_owned(), ..Self::default() }
    }

    pub(super) fn runs_on(&self, node: &str) -> bool {
        self.nodes.parse().is_ok_and(|list: HostList| list.contains(node))
    }

    fn shown(&self, id: u64) -> Value {
        let state = if self.nodes.is_empty() { "PENDING" } else { "RUNNING" };
        json!({
            "job_id": id, "name": "test", "user_name": "ubuntu", "partition": self.partition, "job_state": [state],
            "nodes": self.nodes, "required_nodes": self.required, "state_reason": self.reason,
        })
    }
}

impl FakeMachine {
    /// Puts a job into the queue or onto nodes, and returns its number.
    pub fn submit(&self, job: FakeJob) -> u64 {
        let mut state = self.programs.state();
        let id = state.slurm.jobs.last_key_value().map_or(1, |(last, _)| last + 1);
        state.slurm.jobs.insert(id, job);
        id
    }

    /// Ends a job.
    pub fn end_job(&self, id: u64) {
        self.programs.state().slurm.jobs.remove(&id);
    }

    /// Returns the numbers of all jobs.
    pub fn jobs(&self) -> Vec<u64> {
        self.programs.state().slurm.jobs.keys().copied().collect()
    }

    /// Makes a node known to Slurm whose slurmd is on another machine.
    pub fn add_node(&self, name: &str, feature: &str) {
        self.programs.state().slurm.add_node(name, feature);
    }

    /// Lets every job fail on a node.
    pub fn break_node(&self, name: &str) {
        self.programs.state().slurm.broken.insert(name.to_owned());
    }
}

impl Programs {
    pub(super) fn squeue(&self, state: &mut State, words: &[&str]) -> Ended {
        if !self.somebody_answers(state) {
            return fails(1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n");
        }
        if words.contains(&"--format=%A") {
            return says(state.slurm.jobs.keys().map(|id| format!("{id}\n")).collect::<String>());
        }
        let option = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)).copied();
        if let Some(node) = option("-w")
            && !state.slurm.nodes.contains_key(node)
        {
            return fails(1, format!("squeue: error: Invalid node name {node}\n"));
        }
        let fits = |job: &FakeJob| {
            option("-w").is_none_or(|node| job.runs_on(node))
                && option("-p").is_none_or(|partition| job.partition == partition)
                && option("-t").is_none_or(|_| job.nodes.is_empty())
        };
        let jobs: Vec<Value> =
            state.slurm.jobs.iter().filter(|(_, job)| fits(job)).map(|(id, job)| job.shown(*id)).collect();
        says(json!({ "jobs": jobs }).to_string())
    }

    pub(super) fn scancel(&self, state: &mut State, words: &[&str]) -> Ended {
        if !self.somebody_answers(state) {
            return fails(1, "scancel: error: Unable to contact slurm controller (connect failure)\n");
        }
        let mut complaint = String::new();
        for word in words {
            match word.parse::<u64>().ok().and_then(|id| state.slurm.jobs.remove(&id)) {
                Some(_) => {}
                None => {
                    complaint += &format!("scancel: error: Kill job error on job id {word}: Invalid job id specified\n")
                }
            }
        }
        if complaint.is_empty() { says("") } else { fails(1, complaint) }
    }

    /// A small job on a node that takes jobs says the node's name. One that does not say how little memory it needs wants all of it.
    pub(super) fn srun(&self, state: &mut State, words: &[&str]) -> Ended {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let node = option("--nodelist=").unwrap_or_default();
        if !state.slurm.nodes.contains_key(node) || !self.somebody_answers(state) {
            return fails(1, "srun: error: Unable to allocate resources: Invalid node name specified\n");
        }
        if state.slurm.broken.contains(node) {
            return fails(1, "srun: error: task 0 launch failed: Slurmd could not execve job\n");
        }
        let shared = state.slurm.jobs.values().any(|job| job.runs_on(node));
        let closed = option("--partition=").is_none_or(|partition| !state.slurm.is_open(partition));
        match closed || (shared && option("--mem=").is_none()) {
            false => says(format!("host-of-{node}\n")),
            true => fails(1, "srun: error: Unable to allocate resources: Requested nodes are busy\n"),
        }
    }
}
