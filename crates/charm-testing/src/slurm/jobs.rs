//! Jobs of the made-up Slurm: they are there because a test says so, and end when they are cancelled, told to end, or
//! have lasted as long as they should. Of one that has ended a record stays until it ages out.

use super::Slurm;
use crate::store::Fault;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slurm_conf::HostList;
use std::time::Duration;

/// A job.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct FakeJob {
    /// Its partition. One that waits may name several, with commas.
    pub partition: String,
    /// The nodes that it runs on, or did, as a host list; empty while it waits.
    pub nodes: String,
    /// The nodes that it insists on, as a host list.
    pub required: String,
    /// Why it waits.
    pub reason: String,
    /// Whose it is; `ubuntu` if nobody is named.
    pub user: String,
    /// How many minutes it may run. None: as long as it likes.
    pub limit: Option<u64>,
    /// After how many minutes it ends by itself, in made-up time. None: when it is told to.
    pub lasts: Option<u64>,
    /// The number of its array and its own in there.
    pub array: Option<(u64, u64)>,
    /// It has no script (`srun`).
    pub interactive: bool,
    /// How it ended: `COMPLETED`. Empty: it has not.
    pub ended: String,
    /// It has ended, but its processes have not.
    pub completing: bool,
    /// When it began to run, in seconds since 1970. Set by Slurm.
    pub began: u64,
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

    /// The same job, which ends by itself after so many minutes of made-up time.
    #[must_use]
    pub fn lasting(self, minutes: u64) -> Self {
        Self { lasts: Some(minutes), ..self }
    }

    /// The partitions that it may run in.
    pub(super) fn partitions(&self) -> impl Iterator<Item = &str> {
        self.partition.split(',')
    }

    fn is_on(&self, node: &str) -> bool {
        self.nodes.parse().is_ok_and(|list: HostList| list.contains(node))
    }

    /// Says whether it needs the node, still or at all.
    pub(super) fn runs_on(&self, node: &str) -> bool {
        self.is_active() && self.is_on(node)
    }

    pub(super) fn waits(&self) -> bool {
        self.nodes.is_empty() && self.ended.is_empty()
    }

    /// Says whether more than a record is left of it.
    pub(super) fn is_active(&self) -> bool {
        self.ended.is_empty() || self.completing
    }

    /// Its state with its flags.
    fn states(&self) -> Vec<&str> {
        let state = match (self.ended.as_str(), self.waits()) {
            ("", true) => "PENDING",
            ("", false) => "RUNNING",
            (ended, _) => ended,
        };
        if self.completing { vec![state, "COMPLETING"] } else { vec![state] }
    }

    /// Says whether `squeue` shows it to somebody who wants these states, or has not said which.
    pub(super) fn fits(&self, node: Option<&str>, partition: Option<&str>, states: Option<&str>) -> bool {
        node.is_none_or(|node| self.is_on(node))
            && partition.is_none_or(|partition| self.partitions().any(|own| own == partition))
            && match states {
                None => self.is_active(),
                Some(words) => words.split(',').any(|word| {
                    let own = self.states();
                    word.eq_ignore_ascii_case("all") || own.iter().any(|own| own.eq_ignore_ascii_case(word))
                }),
            }
    }

    pub(super) fn shown(&self, id: u64) -> Value {
        /// What Slurm says of a job that may run for ever.
        const YEAR: u64 = 365 * 24 * 60;
        let number = |number: u64| json!({"set": true, "infinite": false, "number": number});
        let end = if self.began == 0 { 0 } else { self.began + 60 * self.limit.unwrap_or(YEAR) };
        let (array, task) = self.array.unzip();
        json!({
            "job_id": id, "name": "test", "user_name": if self.user.is_empty() { "ubuntu" } else { &self.user },
            "partition": self.partition, "job_state": self.states(), "nodes": self.nodes,
            "required_nodes": self.required, "state_reason": self.reason,
            "start_time": number(self.began), "end_time": number(end),
            "time_limit": match self.limit {
                Some(minutes) => number(minutes),
                None => json!({"set": false, "infinite": true, "number": 0}),
            },
            "batch_flag": !self.interactive,
            "batch_host": self.nodes.parse::<HostList>().unwrap_or_default().expand().next().unwrap_or_default(),
            "array_job_id": number(array.unwrap_or(0)),
            "array_task_id": {"set": task.is_some(), "infinite": false, "number": task.unwrap_or(0)},
        })
    }
}

impl Slurm {
    /// Puts a job into the queue or onto nodes, and returns its number.
    pub(crate) fn submit(&mut self, mut job: FakeJob) -> u64 {
        let id = self.memory.jobs.last_key_value().map_or(0, |(last, _)| *last).max(self.last_job) + 1;
        self.last_job = id;
        if !job.waits() {
            job.began = self.now();
        }
        self.memory.jobs.insert(id, job);
        self.start_steps(id);
        self.jobs_changed();
        id
    }

    /// Does what `sbatch` does: takes a job into the queue unless its partition takes none.
    pub(super) fn sbatch(&mut self, job: FakeJob) -> Result<u64, String> {
        let refused = |why: &str| Err(format!("sbatch: error: Batch job submission failed: {why}\n"));
        if !self.is_heard() {
            return refused("Unable to contact slurm controller (connect failure)");
        }
        let fault = self.controller.as_ref().and_then(|controller| self.fault(&controller.root));
        if matches!(fault, Some(Fault::ReadOnly | Fault::Full | Fault::Gone)) {
            return refused("I/O error writing script/environment to file");
        }
        let states: Option<Vec<String>> = job.partitions().map(|name| self.partition_state(name)).collect();
        match states {
            None => refused("Invalid partition name specified"),
            Some(states) if states.iter().all(|state| state == "INACTIVE" || state == "DRAIN") => {
                refused("Required partition not available (inactive or drain)")
            }
            Some(_) if fault == Some(Fault::Silent) => {
                // It was taken all the same, and runs when the store answers again.
                self.submit(job);
                refused("Socket timed out on send/recv operation")
            }
            Some(_) => Ok(self.submit(job)),
        }
    }

    /// The state of a partition in capitals. None: there is no such partition.
    pub(super) fn partition_state(&self, name: &str) -> Option<String> {
        let settings = self.memory.partitions.get(name)?;
        Some(settings.get("state").map_or("UP", String::as_str).to_ascii_uppercase())
    }

    /// Starts every job that waits and has a place now: a free node of its partition that takes jobs.
    pub(super) fn schedule(&mut self) -> Vec<u64> {
        let mut started = Vec::new();
        let waiting: Vec<u64> = self.memory.jobs.iter().filter(|(_, job)| job.waits()).map(|(id, _)| *id).collect();
        for id in waiting {
            let job = &self.memory.jobs[&id];
            let starts = |name: &&str| matches!(self.partition_state(name).as_deref(), Some("UP" | "DRAIN"));
            let open: Vec<String> = job.partitions().filter(starts).map(str::to_owned).collect();
            let required: HostList = job.required.parse().unwrap_or_default();
            let required: Vec<String> = required.expand().collect();
            let free = self.memory.nodes.iter().find_map(|(name, node)| {
                let fits = self.state_of(name, node).join("+") == "IDLE+DYNAMIC_NORM"
                    && (required.is_empty() || required == [(*name).clone()]);
                let own = self.partitions_of(node);
                open.iter().find(|open| fits && own.contains(open)).map(|open| (name.clone(), open.clone()))
            });
            let Some((node, partition)) = free else { continue };
            let now = self.now();
            if let Some(job) = self.memory.jobs.get_mut(&id) {
                (job.nodes, job.partition, job.began, job.reason) = (node, partition, now, String::new());
            }
            self.start_steps(id);
            started.push(id);
        }
        self.jobs_changed();
        started
    }

    pub(crate) fn end_job(&mut self, id: u64) {
        self.finish_job(id, "COMPLETED");
    }

    /// A job has ended; a record stays. A slurmctld that is away hears of it when it is back.
    pub(super) fn finish_job(&mut self, id: u64, how: &str) {
        if let Some(job) = self.memory.jobs.get_mut(&id) {
            // How it had ended stays.
            if job.ended.is_empty() {
                how.clone_into(&mut job.ended);
            }
            job.completing = false;
        }
        if !self.is_heard() {
            self.unheard.insert(id, how.to_owned());
        }
        self.finished.insert(id);
        self.end_steps(id);
        self.jobs_changed();
    }

    /// Hears of the jobs that ended while nobody listened.
    pub(super) fn hear_of_ended(&mut self) {
        for (id, how) in std::mem::take(&mut self.unheard) {
            if let Some(job) = self.memory.jobs.get_mut(&id) {
                (job.ended, job.completing) = (how, false);
            }
        }
    }

    /// Jobs that have ended, but whose processes have not.
    pub(super) fn complete(&mut self, id: u64) {
        if let Some(job) = self.memory.jobs.get_mut(&id) {
            (job.ended, job.completing) = ("COMPLETED".to_owned(), true);
        }
        self.jobs_changed();
    }

    /// Forgets the jobs that have ended, as slurmctld does after `MinJobAge`.
    pub(super) fn age_out(&mut self) {
        self.memory.jobs.retain(|_, job| job.is_active());
        self.jobs_changed();
    }

    /// Lets made-up time pass. Jobs end that have lasted as long as they should, or may.
    pub(crate) fn pass(&mut self, length: Duration) {
        self.passed += length;
        if self.memory.nodes.values().any(|node| node.reboot.is_some()) {
            self.save_nodes();
        }
        self.beat();
        self.return_control();
        self.ask_nodes(Duration::ZERO);
        let now = self.now();
        let runs = self.memory.jobs.iter().filter(|(_, job)| job.ended.is_empty() && !job.waits());
        let over: Vec<(u64, &str)> = runs
            .filter_map(|(id, job)| {
                let past = |minutes: Option<u64>| minutes.is_some_and(|minutes| job.began + 60 * minutes <= now);
                let how = past(job.lasts).then_some("COMPLETED").or_else(|| past(job.limit).then_some("TIMEOUT"))?;
                Some((*id, how))
            })
            .collect();
        for (id, how) in over {
            self.finish_job(id, how);
        }
    }

    /// Notes that jobs are lost which a machine ran, once for each.
    pub(super) fn lose_jobs_on(&mut self, node: &str, why: &str) -> Vec<u64> {
        let runs = self.memory.jobs.iter().filter(|(_, job)| job.runs_on(node));
        let jobs: Vec<u64> = runs.map(|(id, _)| *id).collect();
        for id in &jobs {
            if !self.losses.iter().any(|loss| loss.starts_with(&format!("job {id}: "))) {
                self.losses.push(format!("job {id}: {why}"));
            }
        }
        jobs
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
        let mut lost = Vec::new();
        memory.jobs.retain(|id, job| {
            let required: HostList = job.required.parse().unwrap_or_default();
            let missing = required.expand().find(|name| job.waits() && !nodes.contains_key(name));
            let why = match missing {
                _ if !job.is_active() => return true,
                _ if !job.partitions().any(|name| partitions.contains_key(name)) => {
                    format!("Invalid partition ({})", job.partition)
                }
                Some(node) => format!("Invalid req_nodes ({node})"),
                None => return true,
            };
            self.losses.push(format!("job {id}: NODE_FAIL, {why}"));
            lost.push(*id);
            false
        });
        lost.into_iter().for_each(|id| self.end_steps(id));
    }
}
