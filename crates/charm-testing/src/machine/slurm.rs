//! A small Slurm: partitions from slurm.conf, nodes that register, and `scontrol` to ask about them.

use super::jobs::FakeJob;
use super::{Programs, State, fails, says};
use serde_json::{Value, json};
use slurm_conf::HostList;
use slurm_ops::command::Ended;
use slurm_ops::slurmd::SlurmdOptions;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Slurm {
    /// No controller answers.
    pub(super) silent: bool,
    /// After a refused reconfigure slurmctld serves nobody until it is restarted.
    pub(super) sulks: bool,
    pub(super) shut_out: bool,
    /// What the journal has to say about the next reconfigure, which is refused.
    pub(super) refusal: Option<String>,
    pub(super) journal: String,
    /// Words that the parser does not take.
    pub(super) unreadable: Vec<String>,
    /// Words that slurmctld does not take, and what it says then.
    pub(super) objections: Vec<(String, String)>,
    pub(super) jobs: BTreeMap<u64, FakeJob>,
    pub(super) nodes: BTreeMap<String, Node>,
    /// Nodes on which no job ends well.
    pub(super) broken: BTreeSet<String>,
    /// By name, with their settings, keys in lower case. What is set at run time lasts until the file is read again.
    partitions: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) features: Vec<String>,
    real_memory: u64,
    cpus: u64,
    down: bool,
    drained: bool,
    reason: String,
    comment: String,
    weight: u64,
    gres: String,
}

const SILENCE: &str = "slurm_load error: Unable to contact slurm controller (connect failure)\n";
const SHUT_OUT: &str = "scontrol: error: sack_create: failed to connect to any sack sockets\n";
const PARTITION_STATE: &str = "/var/lib/slurm/checkpoint/state/part_state";

impl Slurm {
    /// A node that is known keeps what it registered with first.
    pub(super) fn register(&mut self, options: &SlurmdOptions) {
        let value = |key: &str| options.conf.get(key).map(str::to_owned);
        let features = value("Feature").unwrap_or_default();
        self.nodes.entry(options.name.to_string()).or_insert_with(|| Node {
            features: features.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            real_memory: value("RealMemory").and_then(|text| text.parse().ok()).unwrap_or(0),
            cpus: value("CPUs").and_then(|text| text.parse().ok()).unwrap_or(0),
            // What a node brings along counts from its first registration.
            down: value("State").is_some_and(|state| state.eq_ignore_ascii_case("DOWN")),
            drained: value("State").is_some_and(|state| state.eq_ignore_ascii_case("DRAIN")),
            reason: value("Reason").unwrap_or_default(),
            comment: String::new(),
            weight: value("Weight").and_then(|text| text.parse().ok()).unwrap_or(1),
            gres: value("Gres").unwrap_or_default(),
        });
    }

    pub(super) fn add_node(&mut self, name: &str, feature: &str) {
        let node = Node {
            features: vec![feature.to_owned()],
            real_memory: 1000,
            cpus: 2,
            down: false,
            drained: false,
            reason: String::new(),
            comment: String::new(),
            weight: 1,
            gres: String::new(),
        };
        self.nodes.insert(name.to_owned(), node);
    }

    /// Says whether a partition starts jobs of one node.
    pub(super) fn is_open(&self, partition: &str) -> bool {
        let Some(settings) = self.partitions.get(partition) else { return false };
        let is = |key: &str, value: &str| settings.get(key).is_none_or(|own| own.eq_ignore_ascii_case(value));
        is("state", "UP") && is("minnodes", "1")
    }

    fn node(&self, name: &str, node: &Node) -> Value {
        let busy = self.jobs.values().any(|job| job.runs_on(name));
        let mut state = vec![match (node.down, busy) {
            (true, _) => "DOWN",
            (false, true) => "MIXED",
            (false, false) => "IDLE",
        }];
        if node.drained {
            state.push("DRAIN");
        }
        state.push("DYNAMIC_NORM");
        json!({
            "name": name, "state": state, "reason": node.reason, "hostname": "host", "features": node.features,
            // A node set is named after its feature, and its partition after it.
            "partitions": node.features, "real_memory": node.real_memory, "cpus": node.cpus,
            "comment": node.comment, "version": "24.11.5", "weight": node.weight, "gres": node.gres,
            "reason_set_by_user": if node.reason.is_empty() { "" } else { "root" },
        })
    }
}

impl Programs {
    /// Reads slurm.conf as slurmctld does when it starts. Returns what it would refuse.
    pub(super) fn take_up_configuration(&self, state: &mut State) -> Option<String> {
        let text = self.read("/etc/slurm/slurm.conf").unwrap_or_default();
        let objection = state.slurm.objections.iter().find(|(word, _)| text.contains(word));
        if let Some((_, journal)) = objection {
            return Some(format!("{journal}\n"));
        }
        let lines = text.lines().filter_map(|line| line.strip_prefix("PartitionName="));
        let mut partitions = BTreeMap::new();
        for line in lines {
            let name = line.split(' ').next().unwrap_or_default();
            let pairs = line.split(' ').filter_map(|word| word.split_once('='));
            let mut settings: BTreeMap<String, String> =
                [("lln", "NO"), ("maxtime", "UNLIMITED"), ("prioritytier", "1"), ("state", "UP")]
                    .map(|(key, value)| (key.into(), value.into()))
                    .into();
            settings.extend(pairs.map(|(key, value)| (key.to_ascii_lowercase(), value.to_owned())));
            // Of a partition that is there slurmctld keeps the state, if it is told to.
            let known = state.slurm.partitions.get(name).and_then(|known| known.get("state"));
            if let Some(known) = known.filter(|_| text.contains("KeepPartState")) {
                settings.insert("state".to_owned(), known.clone());
            }
            if partitions.insert(name.to_owned(), settings).is_some() {
                return Some(format!(
                    "fatal: _build_single_partitionline_info: duplicate entry for partition {name}\n"
                ));
            }
        }
        state.slurm.partitions = partitions;
        None
    }

    pub(super) fn scontrol(&self, state: &mut State, words: &[&str]) -> Ended {
        match words {
            ["version"] => return self.check(state),
            // Asked through a candidate, if there is one, so that this one is read first.
            ["--oneliner", "show", "node"] if self.candidate().is_some() && self.check(state).code != 0 => {
                return self.check(state);
            }
            _ if state.slurm.shut_out => return fails(1, SHUT_OUT),
            ["ping", ..] => return says(self.ping(state).to_string()),
            _ => {}
        }
        if !self.somebody_answers(state) {
            return fails(1, SILENCE);
        }
        match words {
            ["show", "node", rest @ ..] => {
                let name = rest.iter().find(|word| !word.starts_with("--"));
                let nodes = state.slurm.nodes.iter().filter(|(own, _)| name.is_none_or(|name| name == own));
                let nodes: Vec<Value> = nodes.map(|(name, node)| state.slurm.node(name, node)).collect();
                says(json!({ "nodes": nodes }).to_string())
            }
            ["show", "partition", rest @ ..] => {
                let name = rest.iter().find(|word| !word.starts_with("--"));
                let found = state.slurm.partitions.iter().filter(|(own, _)| name.is_none_or(|name| name == own));
                let shown: Vec<Value> = found.map(|(name, settings)| partition(name, settings)).collect();
                says(json!({ "partitions": shown }).to_string())
            }
            ["--oneliner", "show", "node"] => {
                let line = |(name, node): (&String, &Node)| {
                    format!("NodeName={name} OS=Linux State=IDLE TmpDisk=0 Weight={} Owner=N/A\n", node.weight)
                };
                says(state.slurm.nodes.iter().map(line).collect::<String>())
            }
            ["--oneliner", "show", "partition"] => {
                let pairs = |settings: &BTreeMap<String, String>| -> String {
                    settings.iter().map(|(key, value)| format!(" {key}={value}")).collect()
                };
                let lines = state.slurm.partitions.iter();
                says(lines.map(|(name, own)| format!("PartitionName={name}{}\n", pairs(own))).collect::<String>())
            }
            ["listjobs", rest @ ..] => {
                let name = rest.iter().find(|word| !word.starts_with("--")).copied().unwrap_or_default();
                let jobs = state.slurm.jobs.iter().filter(|(_, job)| job.runs_on(name));
                says(json!({"jobs": jobs.map(|(id, _)| json!({"job_id": id})).collect::<Vec<_>>()}).to_string())
            }
            ["show", "reservation", ..] => says(json!({ "reservations": [] }).to_string()),
            ["reconfigure"] => self.reconfigure(state),
            ["update", what, changes @ ..] => self.update(state, what, changes),
            ["create", what] => match what.split_once('=') {
                Some(("partitionname", name)) => {
                    state.slurm.partitions.insert(name.to_owned(), [("lln".to_owned(), "NO".to_owned())].into());
                    says("")
                }
                _ => fails(1, "invalid entity\n"),
            },
            ["delete", what] => delete(state, what),
            _ => fails(1, "invalid keyword\n"),
        }
    }

    fn candidate(&self) -> Option<String> {
        let candidates = ["/etc/slurm/slurm.conf.candidate", "/run/slurm-charm-candidate.conf"];
        candidates.iter().find_map(|path| self.read(path))
    }

    /// Every client reads its configuration first: the one under examination, if there is one.
    fn check(&self, state: &State) -> Ended {
        let text = self.candidate().unwrap_or_default();
        match state.slurm.unreadable.iter().find(|word| text.contains(*word)) {
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

    /// On a controller its own daemon answers; on a node whoever there is.
    pub(super) fn somebody_answers(&self, state: &State) -> bool {
        if state.slurm.silent {
            return false;
        }
        let runs = |service: &str| state.units.get(service).is_some_and(|unit| unit.pid.is_some());
        runs("slurmctld.service") || runs("slurmd.service")
    }

    fn ping(&self, state: &State) -> Value {
        let responding = self.somebody_answers(state);
        let text = self.read("/etc/slurm/slurm.conf").unwrap_or_default();
        let hosts = text.lines().filter_map(|line| line.strip_prefix("SlurmctldHost="));
        let pings: Vec<Value> = hosts
            .enumerate()
            .map(|(rank, host)| {
                let host = host.split(['(', ' ']).next().unwrap_or_default();
                let mode = if rank == 0 { "primary" } else { "backup" };
                json!({"hostname": host, "responding": responding && rank == 0, "mode": mode})
            })
            .collect();
        json!({ "pings": pings })
    }

    fn reconfigure(&self, state: &mut State) -> Ended {
        let refusal = state.slurm.refusal.take().or_else(|| self.take_up_configuration(state));
        match refusal {
            None => says(""),
            Some(journal) => {
                state.slurm.shut_out = state.slurm.sulks;
                state.slurm.journal = format!(
                    "slurmctld: Processing Reconfiguration Request\nslurmctld: {journal}\n\
                     slurmctld: error: Resuming operation, reconfigure failed.\n"
                );
                fails(1, "slurm_reconfigure error: Unspecified error\n")
            }
        }
    }

    fn update(&self, state: &mut State, what: &str, changes: &[&str]) -> Ended {
        match what.split_once('=') {
            Some(("partitionname", name)) if state.slurm.partitions.contains_key(name) => {
                let settings = state.slurm.partitions.entry(name.to_owned()).or_default();
                let pairs = changes.iter().filter_map(|change| change.split_once('='));
                settings.extend(pairs.map(|(key, value)| (key.to_ascii_lowercase(), value.to_owned())));
                let saved: Vec<&str> = state.slurm.partitions.keys().map(String::as_str).collect();
                self.write(PARTITION_STATE, saved.join("\n").as_bytes());
                says("")
            }
            Some(("partitionname", _)) => fails(1, "slurm_update error: Invalid partition name specified\n"),
            Some(("nodename", names)) => {
                let list: HostList = names.parse().unwrap_or_default();
                let mut outcome = says("");
                for name in list.expand() {
                    let one = match state.slurm.nodes.get_mut(&name) {
                        Some(node) => node.update(changes),
                        None => fails(1, "slurm_update error: Invalid node name specified\n"),
                    };
                    outcome = if one.code == 0 { outcome } else { one };
                }
                outcome
            }
            _ => fails(1, "invalid entity\n"),
        }
    }
}

impl Node {
    fn update(&mut self, changes: &[&str]) -> Ended {
        let value = |key: &str| changes.iter().find_map(|change| change.strip_prefix(key));
        if let Some(comment) = value("comment=") {
            self.comment = comment.to_owned();
        }
        if let Some(weight) = value("weight=").and_then(|weight| weight.parse().ok()) {
            self.weight = weight;
        }
        if let Some(features) = value("availablefeatures=") {
            self.features = features.split(',').map(str::to_owned).collect();
        }
        // scontrol takes one quote away at either end, also where only one is there.
        let reason = value("reason=").map(|text| text.strip_prefix('"').unwrap_or(text));
        let reason = reason.map(|text| text.strip_suffix('"').unwrap_or(text));
        match (value("state="), reason) {
            (Some("resume" | "undrain"), _) if !self.drained && !self.down => {
                fails(1, "slurm_update error: Invalid node state specified\n")
            }
            (Some("resume" | "undrain" | "idle"), _) => {
                (self.drained, self.down) = (false, false);
                says("")
            }
            (Some(_), None) => fails(1, "You must specify a reason when DOWNING or DRAINING a node. Request denied\n"),
            (Some(state), Some(reason)) => {
                (self.drained, self.down) = (state != "down", state == "down");
                self.reason = reason.to_owned();
                says("")
            }
            (None, Some(reason)) => {
                self.reason = reason.to_owned();
                says("")
            }
            (None, None) => says(""),
        }
    }
}

fn delete(state: &mut State, what: &str) -> Ended {
    let busy = |name: &str| state.slurm.jobs.values().any(|job| job.runs_on(name));
    if what.strip_prefix("nodename=").is_some_and(busy) {
        return fails(1, format!("delete_node {what}: Requested nodes are busy\n"));
    }
    let (gone, kind) = match what.split_once('=') {
        Some(("nodename", name)) => (state.slurm.nodes.remove(name).is_some(), "node"),
        Some(("partitionname", name)) => (state.slurm.partitions.remove(name).is_some(), "partition"),
        _ => (false, "entity"),
    };
    match gone {
        true => says(""),
        false => fails(1, format!("delete_{kind} {what}: Invalid {kind} name specified\n")),
    }
}

fn partition(name: &str, settings: &BTreeMap<String, String>) -> Value {
    let minutes = settings.get("maxtime").and_then(|text| text.parse::<u64>().ok());
    let limit = json!({"set": minutes.is_some(), "infinite": minutes.is_none(), "number": minutes.unwrap_or(0)});
    let state = settings.get("state").map_or("UP", String::as_str).to_ascii_uppercase();
    let least = settings.get("minnodes").and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    json!({
        "name": name, "nodes": {"configured": ""}, "node_sets": name,
        "maximums": {"time": limit}, "minimums": {"nodes": least}, "partition": {"state": [state]},
    })
}
