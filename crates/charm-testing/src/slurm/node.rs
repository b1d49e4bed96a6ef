//! What slurmctld knows about a node, and how it lets itself be told.

use super::Slurm;
use super::reboots::Reboot;
use crate::machine::{fails, says};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slurm_ops::command::Ended;
use slurm_ops::slurmd::SlurmdOptions;

/// Why a node is down that nobody set down.
const SILENT: &str = "Not responding";
/// When machines were booted that nobody has rebooted.
const LONG_AGO: u64 = 1_000_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Node {
    pub(super) features: Vec<String>,
    real_memory: u64,
    cpus: u64,
    pub(super) down: bool,
    /// It is down for its silence alone.
    silent: bool,
    pub(super) drained: bool,
    pub(super) reason: String,
    comment: String,
    weight: u64,
    /// What it has again as soon as the configuration is read.
    registered_weight: u64,
    gres: String,
    /// Its slurmd is on a machine that nobody made up, and always there.
    elsewhere: bool,
    #[serde(default)]
    pub(super) reboot: Option<Reboot>,
    /// When its machine and its slurmd were started.
    #[serde(default)]
    pub(super) booted: u64,
    #[serde(default)]
    pub(super) started: u64,
}

impl Node {
    /// What a node brings along counts from its first registration.
    pub(super) fn registered(options: &SlurmdOptions) -> Self {
        let value = |key: &str| options.conf.get(key).map(str::to_owned);
        let number = |key: &str| value(key).and_then(|text| text.parse().ok());
        let comes = |word: &str| value("State").is_some_and(|state| state.eq_ignore_ascii_case(word));
        let weight = number("Weight").unwrap_or(1);
        let features = value("Feature").unwrap_or_default();
        Self {
            features: features.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            real_memory: number("RealMemory").unwrap_or(0),
            cpus: number("CPUs").unwrap_or(0),
            down: comes("DOWN"),
            silent: false,
            drained: comes("DRAIN"),
            reason: value("Reason").unwrap_or_default(),
            comment: String::new(),
            weight,
            registered_weight: weight,
            gres: value("Gres").unwrap_or_default(),
            elsewhere: false,
            reboot: None,
            booted: LONG_AGO,
            started: LONG_AGO,
        }
    }

    pub(super) fn elsewhere(feature: &str) -> Self {
        Self {
            features: vec![feature.to_owned()],
            real_memory: 1000,
            cpus: 2,
            down: false,
            silent: false,
            drained: false,
            reason: String::new(),
            comment: String::new(),
            weight: 1,
            registered_weight: 1,
            gres: String::new(),
            elsewhere: true,
            reboot: None,
            booted: LONG_AGO,
            started: LONG_AGO,
        }
    }

    /// A weight that somebody set lasts until the files are read again.
    pub(super) fn forget_what_was_set(&mut self) {
        self.weight = self.registered_weight;
    }

    pub(super) fn reason(&self) -> &str {
        &self.reason
    }

    /// Whoever was set aside before keeps its reason.
    pub(super) fn fall_silent(&mut self) {
        self.silent |= !self.down;
        self.down = true;
        if self.reason.is_empty() {
            SILENT.clone_into(&mut self.reason);
        }
    }

    /// It registers again. Whoever was down for its silence is back.
    pub(super) fn returns(&mut self) {
        if std::mem::take(&mut self.silent) {
            self.down = false;
        }
    }

    pub(super) fn one_line(&self, name: &str) -> String {
        format!("NodeName={name} OS=Linux State=IDLE TmpDisk=0 Weight={} Owner=N/A\n", self.weight)
    }

    pub(super) fn update(&mut self, changes: &[&str]) -> Ended {
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
            // The reason stays.
            (Some("resume" | "undrain" | "idle"), _) => {
                (self.drained, self.down, self.silent, self.reboot) = (false, false, false, None);
                says("")
            }
            (Some(_), None) => fails(1, "You must specify a reason when DOWNING or DRAINING a node. Request denied\n"),
            (Some(state), Some(reason)) => {
                (self.drained, self.down, self.silent) = (state != "down", state == "down", false);
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

impl Slurm {
    /// Returns the state of a node with its flags, the state first.
    pub(super) fn state_of(&self, name: &str, node: &Node) -> Vec<&'static str> {
        let here = self.memory.jobs.values().filter(|job| job.runs_on(name));
        let (completing, busy) = here
            .fold((false, false), |(completing, busy), job| (completing || job.completing, busy || !job.completing));
        let issued = node.reboot.as_ref().is_some_and(|reboot| reboot.issued);
        let mut state = vec![match (node.down || issued, busy) {
            (true, _) => "DOWN",
            (false, true) => "MIXED",
            (false, false) => "IDLE",
        }];
        if completing {
            state.push("COMPLETING");
        }
        if node.drained || issued {
            state.push("DRAIN");
        }
        if let Some(reboot) = &node.reboot {
            state.push(if reboot.issued { "REBOOT_ISSUED" } else { "REBOOT_REQUESTED" });
        }
        state.push("DYNAMIC_NORM");
        if !self.responds(name, node) {
            state.push("NOT_RESPONDING");
        }
        state
    }

    /// Says whether there is a slurmd behind a node.
    pub(super) fn responds(&self, name: &str, node: &Node) -> bool {
        node.elsewhere || self.slurmds.values().any(|slurmd| slurmd.runs() && slurmd.is_node(name))
    }

    pub(super) fn shown_node(&self, name: &str, node: &Node) -> Value {
        // What slurmctld does not save it does not know before it has heard from the node.
        let heard = node.elsewhere || !self.unasked.contains_key(name);
        let time = |number: u64| json!({"set": true, "infinite": false, "number": if heard { number } else { 0 }});
        json!({
            "name": name, "state": self.state_of(name, node), "reason": node.reason, "hostname": "host",
            "boot_time": time(node.booted), "slurmd_start_time": time(node.started),
            "features": node.features, "partitions": self.partitions_of(node), "real_memory": node.real_memory,
            "cpus": node.cpus, "comment": node.comment, "version": if heard { "24.11.5" } else { "" },
            "weight": node.weight, "gres": node.gres,
            "reason_set_by_user": if node.reason.is_empty() { "" } else { "root" },
        })
    }

    /// A played controller names its node sets after their feature, and its partitions after them.
    pub(super) fn partitions_of(&self, node: &Node) -> Vec<String> {
        if self.controller.is_none() {
            return node.features.clone();
        }
        let holds = |settings: &super::Settings| {
            let sets = settings.get("nodes").map(String::as_str).unwrap_or_default().split(',');
            let mut sets = sets.map(|set| (set, self.memory.node_sets.get(set)));
            sets.any(|(set, feature)| set == "ALL" || feature.is_some_and(|feature| node.features.contains(feature)))
        };
        let found = self.memory.partitions.iter().filter(|(_, settings)| holds(settings));
        found.map(|(name, _)| name.clone()).collect()
    }
}
