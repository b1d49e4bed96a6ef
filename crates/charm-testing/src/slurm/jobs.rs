//! Jobs of the made-up Slurm: they are there because a test says so, and gone when they are cancelled or told to end.

use super::Slurm;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slurm_conf::HostList;

/// A job.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
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

    /// A job that waits, and insists on nodes.
    pub fn insisting(partition: &str, required: &str) -> Self {
        Self { required: required.to_owned(), ..Self::waiting(partition, "ReqNodeNotAvail") }
    }

    pub(super) fn runs_on(&self, node: &str) -> bool {
        self.nodes.parse().is_ok_and(|list: HostList| list.contains(node))
    }

    pub(super) fn waits(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn shown(&self, id: u64) -> Value {
        let state = if self.waits() { "PENDING" } else { "RUNNING" };
        json!({
            "job_id": id, "name": "test", "user_name": "ubuntu", "partition": self.partition, "job_state": [state],
            "nodes": self.nodes, "required_nodes": self.required, "state_reason": self.reason,
        })
    }
}

impl Slurm {
    /// Puts a job into the queue or onto nodes, and returns its number.
    pub(crate) fn submit(&mut self, job: FakeJob) -> u64 {
        let id = self.memory.jobs.last_key_value().map_or(1, |(last, _)| last + 1);
        self.memory.jobs.insert(id, job);
        self.jobs_changed();
        id
    }

    pub(crate) fn end_job(&mut self, id: u64) {
        self.memory.jobs.remove(&id);
        self.jobs_changed();
    }

    fn jobs_changed(&mut self) {
        /// Some tests submit thousands, which would be written down thousands of times.
        const MANY: usize = 100;
        self.unsaved_jobs = true;
        if self.memory.jobs.len() < MANY {
            self.catch_up();
        }
    }

    /// Fails the jobs that have no place in a configuration: their partition is gone, or a node that they insist on.
    pub(super) fn fail_jobs(&mut self) {
        let memory = &mut self.memory;
        let (partitions, nodes) = (&memory.partitions, &memory.nodes);
        memory.jobs.retain(|id, job| {
            let required: HostList = job.required.parse().unwrap_or_default();
            let missing = required.expand().find(|name| job.waits() && !nodes.contains_key(name));
            let why = match missing {
                _ if !partitions.contains_key(&job.partition) => format!("Invalid partition ({})", job.partition),
                Some(node) => format!("Invalid req_nodes ({node})"),
                None => return true,
            };
            self.losses.push(format!("job {id}: NODE_FAIL, {why}"));
            false
        });
    }
}
