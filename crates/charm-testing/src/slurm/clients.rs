//! `scontrol`, `squeue`, `scancel` and `srun` on a machine of the cluster. They need a daemon of Slurm beside them,
//! which lends them its key.

use super::controller::{Controller, TIMED_OUT};
use super::jobs::FakeJob;
use super::slurmd::fetched;
use super::{Settings, Slurm, configuration};
use crate::machine::{fails, says};
use crate::store::Fault;
use serde_json::{Value, json};
use slurm_conf::HostList;
use slurm_ops::command::Ended;
use std::cell::RefCell;
use std::fs;
use std::path::Path;

const NO_SOURCE: &str = "fatal: Could not establish a configuration source\n";
const SILENCE: &str = "slurm_load error: Unable to contact slurm controller (connect failure)\n";
const STANDBY: &str = "slurm_load error: Slurm backup controller in standby mode\n";
const SHUT_OUT: &str = "scontrol: error: sack_create: failed to connect to any sack sockets\n";
const STRANGER: &str = "slurm_load error: Protocol authentication error\n";

impl Slurm {
    /// Says why a client on a machine gets no answer, if so.
    fn silence(&self, root: &Path) -> Option<&'static str> {
        let own = self.controller_at(root);
        let slurmd = self.slurmds.get(root).filter(|slurmd| slurmd.runs()).map(super::Slurmd::keys);
        let sackd = self.sackds.get(root).filter(|sackd| sackd.runs()).map(super::sackd::Sackd::keys);
        // Either of them lends clients its key.
        let node = slurmd.or(sackd);
        let serves = self.serves(root);
        match (&self.controller, node) {
            (Some(controller), _) if controller.shut_out && (serves || self.played) => return Some(SHUT_OUT),
            (_, None) if own.is_none() => return Some(NO_SOURCE),
            // What a client on a controller reads first may be on a store that does not answer, or is gone.
            _ if own.is_some() && self.fault(root) == Some(Fault::Silent) => return Some(TIMED_OUT),
            (_, None) if configuration::text(root).is_none() => return Some(NO_SOURCE),
            _ if self.cut_off.contains(root) || self.is_cut(root) => return Some(SILENCE),
            _ => {}
        }
        let Some(controller) = &self.controller else {
            let standby = if self.standbys.is_empty() { SILENCE } else { STANDBY };
            return (!self.played).then_some(standby);
        };
        if serves || self.played {
            return None;
        }
        if self.is_cut(&controller.root) || !Self::is_told_of(root, controller) {
            return Some(SILENCE);
        }
        let own = node.flatten().or_else(|| own.and_then(|own| own.keys.as_ref()));
        let known = own.zip(controller.keys.as_ref()).is_some_and(|(own, theirs)| own.convince(theirs));
        match () {
            () if !known => Some(if controller.shut_out { SILENCE } else { STRANGER }),
            // It answers pings, and nothing else.
            () if self.fault(&controller.root) == Some(Fault::Silent) => Some(TIMED_OUT),
            () => None,
        }
    }

    /// Says whether the configuration on a machine names a controller: the own one, or the one that was fetched.
    fn is_told_of(root: &Path, controller: &Controller) -> bool {
        Self::told_of(root).contains(&controller.host)
    }

    /// The controllers that clients on a machine know of: by what was fetched, or by the own file.
    fn told_of(root: &Path) -> Vec<String> {
        let fetched = fs::read_to_string(fetched(root)).ok();
        configuration::listed(&fetched.or_else(|| configuration::text(root)).unwrap_or_default())
    }

    pub(crate) fn scontrol(&mut self, root: &Path, words: &[&str]) -> Ended {
        self.catch_up();
        match words {
            ["version"] => return self.check(root),
            // Asked through a candidate, if there is one, so that this one is read first.
            ["--oneliner", "show", "node"] if candidate(root).is_some() && self.check(root).code != 0 => {
                return self.check(root);
            }
            ["ping", ..] => match self.silence(root) {
                Some(SHUT_OUT) => {}
                Some(TIMED_OUT) if self.fault(root) == Some(Fault::Silent) => return fails(1, TIMED_OUT),
                _ => return says(self.ping(root).to_string()),
            },
            ["takeover", index @ ..] if self.silence(root).is_none_or(|why| why != NO_SOURCE && why != TIMED_OUT) => {
                let index = index.first().and_then(|index| index.parse().ok());
                return self.hand_over(root, index.unwrap_or(1));
            }
            _ => {}
        }
        // It looks at what is on the machine, and asks nobody.
        if let ["listjobs", rest @ ..] = words
            && self.slurmds.get(root).is_some_and(super::Slurmd::runs)
            && rest.iter().any(|word| self.homes.get(*word).is_some_and(|home| home == root))
        {
            let jobs = self.steps_on(root);
            return says(json!({"jobs": jobs.iter().map(|id| json!({"job_id": id})).collect::<Vec<_>>()}).to_string());
        }
        if let Some(silence) = self.silence(root) {
            return fails(1, silence);
        }
        match words {
            ["show", "node", rest @ ..] => {
                let name = rest.iter().find(|word| !word.starts_with("--"));
                let nodes = self.memory.nodes.iter().filter(|(own, _)| name.is_none_or(|name| name == own));
                let nodes: Vec<Value> = nodes.map(|(name, node)| self.shown_node(name, node)).collect();
                says(json!({ "nodes": nodes }).to_string())
            }
            ["show", "partition", rest @ ..] => {
                let name = rest.iter().find(|word| !word.starts_with("--"));
                let found = self.memory.partitions.iter().filter(|(own, _)| name.is_none_or(|name| name == own));
                let shown: Vec<Value> = found.map(|(name, settings)| partition(name, settings)).collect();
                says(json!({ "partitions": shown }).to_string())
            }
            ["--oneliner", "show", "node"] => {
                says(self.memory.nodes.iter().map(|(name, node)| node.one_line(name)).collect::<String>())
            }
            ["--oneliner", "show", "partition"] => says(self.partition_lines()),
            ["listjobs", rest @ ..] => {
                let name = rest.iter().find(|word| !word.starts_with("--")).copied().unwrap_or_default();
                let jobs = self.memory.jobs.iter().filter(|(_, job)| job.runs_on(name));
                says(json!({"jobs": jobs.map(|(id, _)| json!({"job_id": id})).collect::<Vec<_>>()}).to_string())
            }
            ["show", "config"] => says(self.shown_settings()),
            ["reboot", rest @ ..] => self.request_reboot(rest),
            ["cancel_reboot", name] => self.cancel_reboot(name),
            ["show", "reservation", ..] => says(self.shown_reservations().to_string()),
            ["token", user, lifespan] => says(format!("SLURM_JWT=header.{user}.{lifespan}\n")),
            ["reconfigure"] => self.reconfigure(),
            ["update", what, changes @ ..] => self.update(what, changes),
            ["create", what] => match what.split_once('=') {
                Some(("partitionname", name)) => {
                    let settings = [("lln".to_owned(), "NO".to_owned())].into();
                    self.memory.partitions.insert(name.to_owned(), settings);
                    self.save_partitions();
                    says("")
                }
                _ => fails(1, "invalid entity\n"),
            },
            ["delete", what] => self.delete(what),
            _ => fails(1, "invalid keyword\n"),
        }
    }

    /// Returns what slurmctld has in memory about partitions: one line each, with every setting.
    pub(crate) fn partition_lines(&self) -> String {
        let pair = |partition: &String, (key, value): (&String, &String)| match key.as_str() {
            // What the file names are node sets; which nodes those are is shown besides.
            "nodes" => {
                let nodes = self.memory.nodes.iter().filter(|(_, node)| self.partitions_of(node).contains(partition));
                let nodes: Vec<&str> = nodes.map(|(name, _)| name.as_str()).collect();
                format!(" nodesets={value} nodes={}", nodes.join(","))
            }
            _ => format!(" {key}={value}"),
        };
        let line = |(name, own): (&String, &Settings)| {
            let pairs: String = own.iter().map(|setting| pair(name, setting)).collect();
            format!("PartitionName={name}{pairs}\n")
        };
        self.memory.partitions.iter().map(line).collect()
    }

    /// Every client reads its configuration first: the one under examination, if there is one.
    fn check(&self, root: &Path) -> Ended {
        let text = candidate(root).unwrap_or_default();
        match self.whims.unreadable.iter().find(|word| text.contains(*word)) {
            None => says("slurm-wlm 24.11.5\n"),
            Some(word) => fails(
                1,
                format!(
                    "scontrol: error: _parse_next_key: Parsing error at unrecognized key: {word}\n\
                     scontrol: fatal: Unable to process configuration file\n"
                ),
            ),
        }
    }

    /// Tells rank and reach, never who serves.
    fn ping(&self, root: &Path) -> Value {
        let hosts = Self::told_of(root);
        let silence = self.silence(root);
        let apart = matches!(silence, Some(NO_SOURCE | STRANGER)) || self.cut_off.contains(root) || self.is_cut(root);
        let reaches = |own: &Controller| {
            // One that stands by with keys of before understands nobody.
            let keys = self.controller.as_ref().and_then(|active| active.keys.as_ref());
            let known = keys.is_none_or(|keys| own.keys.as_ref().is_some_and(|own| keys.convince(own)));
            !own.shut_out && known && !self.is_cut(&own.root)
        };
        let responds = |host: &String, rank: usize| match &self.controller {
            // A controller that the test plays.
            None if self.played => silence.is_none() && rank == 0,
            _ => !apart && self.all_controllers().any(|own| own.host == *host && reaches(own)),
        };
        let mode = |rank: usize| match (rank, hosts.len()) {
            (0, _) => "primary".to_owned(),
            (_, 2) => "backup".to_owned(),
            (rank, _) => format!("backup{rank}"),
        };
        let pings = hosts.iter().enumerate().map(|(rank, host)| {
            let responding = responds(host, rank);
            let pinged = if responding { "UP" } else { "DOWN" };
            json!({
                "hostname": host, "pinged": pinged, "responding": responding, "mode": mode(rank), "primary": rank == 0,
            })
        });
        json!({ "pings": pings.collect::<Vec<_>>() })
    }

    fn update(&mut self, what: &str, changes: &[&str]) -> Ended {
        match what.split_once('=') {
            Some(("partitionname", name)) => {
                let Some(settings) = self.memory.partitions.get_mut(name) else {
                    return fails(1, "slurm_update error: Invalid partition name specified\n");
                };
                let pairs = changes.iter().filter_map(|change| change.split_once('='));
                settings.extend(pairs.map(|(key, value)| match key.to_ascii_lowercase() {
                    key if key == "state" => (key, value.to_ascii_uppercase()),
                    key => (key, value.to_owned()),
                }));
                // All of them are saved, whichever is named.
                self.save_partitions();
                says("")
            }
            Some(("nodename", names)) => {
                let list: HostList = names.parse().unwrap_or_default();
                let mut outcome = says("");
                for name in list.expand() {
                    let one = match self.memory.nodes.get_mut(&name) {
                        Some(node) => node.update(changes),
                        None => fails(1, "slurm_update error: Invalid node name specified\n"),
                    };
                    if one.code == 0 && changes.contains(&"state=down") {
                        for id in self.lose_jobs_on(&name, &format!("NODE_FAIL, {name} was set down")) {
                            self.finish_job(id, "NODE_FAIL");
                        }
                    }
                    outcome = if one.code == 0 { outcome } else { one };
                }
                self.save_nodes();
                outcome
            }
            _ => fails(1, "invalid entity\n"),
        }
    }

    fn delete(&mut self, what: &str) -> Ended {
        if let Some(("reservationname", name)) = what.split_once('=') {
            return self.delete_reservation(name);
        }
        let memory = &mut self.memory;
        let (gone, kind) = match what.split_once('=') {
            Some(("nodename", name)) if memory.jobs.values().any(|job| job.runs_on(name)) => {
                return fails(1, format!("delete_node {what}: Requested nodes are busy\n"));
            }
            Some(("partitionname", name))
                if memory.jobs.values().any(|job| job.is_active() && job.partitions().any(|own| own == name)) =>
            {
                return fails(1, format!("delete_partition {what}: Partition is in use\n"));
            }
            Some(("nodename", name)) => (memory.nodes.remove(name).is_some(), "node"),
            Some(("partitionname", name)) => (memory.partitions.remove(name).is_some(), "partition"),
            _ => (false, "entity"),
        };
        if !gone {
            return fails(1, format!("delete_{kind} {what}: Invalid {kind} name specified\n"));
        }
        if let Some(("nodename", name)) = what.split_once('=') {
            self.node_leaves_reservations(name);
        }
        self.save_nodes();
        self.save_partitions();
        says("")
    }

    pub(crate) fn squeue(&mut self, root: &Path, words: &[&str]) -> Ended {
        if let Some(silence) = self.silence(root) {
            return fails(1, silence);
        }
        let option = |short: &str, long: &str| {
            let after =
                |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)).copied();
            let joined = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            after(short).or_else(|| after(long)).or_else(|| joined(long))
        };
        let (node, partition, states) =
            (option("-w", "--nodelist"), option("-p", "--partition"), option("-t", "--states"));
        if let Some(node) = node.filter(|node| !self.memory.nodes.contains_key(*node)) {
            return fails(1, format!("squeue: error: Invalid node name {node}\n"));
        }
        let jobs = self.memory.jobs.iter().filter(|(_, job)| job.fits(node, partition, states));
        if words.contains(&"--format=%A") {
            return says(jobs.map(|(id, _)| format!("{id}\n")).collect::<String>());
        }
        says(json!({ "jobs": jobs.map(|(id, job)| job.shown(*id)).collect::<Vec<_>>() }).to_string())
    }

    /// Shows one node, a line for each of its partitions, with the fields that are asked for.
    pub(crate) fn sinfo(&mut self, root: &Path, words: &[&str]) -> Ended {
        if let Some(silence) = self.silence(root) {
            return fails(1, silence);
        }
        let after = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)).copied();
        let (name, format) = (after("--nodes").unwrap_or_default(), after("--Format").unwrap_or_default());
        let Some(node) = self.memory.nodes.get(name) else { return says("") };
        let shown = self.shown_node(name, node);
        let state = self.state_of(name, node).join("+").to_lowercase();
        let text = |key: &str| match &shown[key] {
            Value::String(text) if !text.is_empty() => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => "(null)".to_owned(),
        };
        let line = |partition: &String| {
            let available = self.partition_state(partition).unwrap_or_else(|| "UP".to_owned()).to_lowercase();
            let field = |field: &str| match field {
                "NodeList" => name.to_owned(),
                "StateComplete" => state.clone(),
                "PartitionName" => partition.clone(),
                "Available" => available.replace("inactive", "inact"),
                "Features" => node.features.join(","),
                "Memory" => text("real_memory"),
                "CPUs" => text("cpus"),
                "NodeAddr" => text("address"),
                "NodeHost" => text("hostname"),
                "Weight" => text("weight"),
                "Gres" => text("gres"),
                "Version" => text("version"),
                "Comment" => text("comment"),
                other => panic!("sinfo is not played with {other}"),
            };
            let fields = format.split(',').filter_map(|one| one.split_once(':'));
            fields.map(|(name, after)| field(name) + after).collect::<String>() + "\n"
        };
        says(self.partitions_of(node).iter().map(line).collect::<String>())
    }

    /// Lists the processes of jobs, which the nodes are asked for. Whatever happens it ends with success.
    pub(crate) fn sstat(&mut self, root: &Path, words: &[&str]) -> Ended {
        let jobs = words.iter().find_map(|word| word.strip_prefix("--jobs=")).unwrap_or_default();
        let (mut stdout, mut stderr) = (String::new(), String::new());
        for id in jobs.split(',').filter_map(|id| id.parse::<u64>().ok()) {
            let job = self.memory.jobs.get(&id).filter(|job| job.is_active() && !job.waits());
            match job {
                Some(job) if self.silence(root).is_none() => {
                    if self.whims.broken.iter().any(|node| job.runs_on(node)) {
                        stderr += &format!(
                            "sstat: error: problem getting step_layout for StepId={id}.batch: \
                             Communication connection failure\n"
                        );
                    } else if !self.whims.without_processes.contains(&id) {
                        stdout += &format!("{id}.batch|205,204\n");
                    }
                }
                _ => stderr += &format!("sstat: error: couldn't get steps for job {id}\n"),
            }
        }
        Ended { stderr, ..says(stdout) }
    }

    pub(crate) fn scancel(&mut self, root: &Path, words: &[&str]) -> Ended {
        if let Some(silence) = self.silence(root) {
            return fails(1, silence);
        }
        let mut complaint = String::new();
        for word in words {
            let task = word.split_once('_').and_then(|(array, task)| Some((array.parse().ok()?, task.parse().ok()?)));
            let named = |(id, job): &(&u64, &FakeJob)| {
                job.is_active()
                    && (word.parse().is_ok_and(|word: u64| word == **id) || (task.is_some() && job.array == task))
            };
            match self.memory.jobs.iter().find(named).map(|(id, _)| *id) {
                Some(id) => self.finish_job(id, "CANCELLED"),
                None => {
                    complaint +=
                        &format!("scancel: error: Kill job error on job id {word}: Invalid job id specified\n");
                }
            }
        }
        self.save_jobs();
        if complaint.is_empty() { says("") } else { fails(1, complaint) }
    }

    /// A small job on a node that takes jobs says the node's name. A job that does not say how little memory it needs
    /// wants all of it.
    pub(crate) fn srun(&mut self, root: &Path, words: &[&str]) -> Ended {
        if let Some(silence) = self.silence(root) {
            return fails(1, silence);
        }
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let name = option("--nodelist=").unwrap_or_default();
        let Some(node) = self.memory.nodes.get(name) else {
            return fails(1, "srun: error: Unable to allocate resources: Invalid node name specified\n");
        };
        if self.whims.broken.contains(name) || !self.responds(name, node) {
            return fails(1, "srun: error: task 0 launch failed: Slurmd could not execve job\n");
        }
        let partition = option("--partition=").unwrap_or_default();
        if matches!(self.partition_state(partition).as_deref(), Some("INACTIVE" | "DRAIN")) {
            let why = "Required partition not available (inactive or drain)";
            return fails(1, format!("srun: error: Unable to allocate resources: {why}\n"));
        }
        let shared = self.memory.jobs.values().any(|job| job.runs_on(name));
        let closed = option("--partition=").is_none_or(|partition| !self.is_open(partition));
        match closed || (shared && option("--mem=").is_none()) {
            false => says(format!("host-of-{name}\n")),
            true => fails(1, "srun: error: Unable to allocate resources: Requested nodes are busy\n"),
        }
    }

    /// Says whether a partition starts jobs of one node.
    fn is_open(&self, partition: &str) -> bool {
        let Some(settings) = self.memory.partitions.get(partition) else { return false };
        let is = |key: &str, value: &str| settings.get(key).is_none_or(|own| own.eq_ignore_ascii_case(value));
        is("state", "UP") && is("minnodes", "1")
    }
}

fn candidate(root: &Path) -> Option<String> {
    let told = CANDIDATE.with_borrow(Clone::clone);
    told.or_else(|| fs::read_to_string(root.join("etc/slurm/slurm.conf.candidate")).ok())
}

thread_local! {
    /// The slurm.conf that the program of this thread is told to read.
    static CANDIDATE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a program that is told to read this slurm.conf, if any.
pub(crate) fn reading<T>(candidate: Option<String>, run: impl FnOnce() -> T) -> T {
    CANDIDATE.set(candidate);
    let done = run();
    CANDIDATE.set(None);
    done
}

fn partition(name: &str, settings: &Settings) -> Value {
    let minutes = settings.get("maxtime").and_then(|text| text.parse::<u64>().ok());
    let limit = json!({"set": minutes.is_some(), "infinite": minutes.is_none(), "number": minutes.unwrap_or(0)});
    let state = settings.get("state").map_or("UP", String::as_str).to_ascii_uppercase();
    let least = settings.get("minnodes").and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    json!({
        "name": name, "nodes": {"configured": ""}, "node_sets": name,
        "maximums": {"time": limit}, "minimums": {"nodes": least}, "partition": {"state": [state]},
    })
}
