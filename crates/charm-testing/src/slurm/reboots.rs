//! Reboots of nodes by slurmctld, with the habits of the real one: a request is written down later, one that is taken
//! back takes a drain along, and so does a node that is to be resumed.

use super::{Slurm, configuration};
use crate::machine::{fails, says};
use serde::{Deserialize, Serialize};
use slurm_ops::command::Ended;

/// A reboot that was asked for and is not over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Reboot {
    /// slurmd was told to.
    pub(super) issued: bool,
    /// `RESUME`, `DOWN` or nothing.
    next: String,
}

impl Slurm {
    fn setting(&self, key: &str) -> Option<String> {
        configuration::value(&self.controller.as_ref()?.root, key)
    }

    /// What slurmctld runs with, as far as somebody asks.
    pub(super) fn shown_settings(&self) -> String {
        let value = |key: &str| self.setting(key).unwrap_or_else(|| "(null)".to_owned());
        let timeout = self.setting("PrologEpilogTimeout").unwrap_or_else(|| "65534".to_owned());
        let prolog = self.setting("Prolog").map(|prolog| format!("Prolog[0] = {prolog}\n")).unwrap_or_default();
        format!("RebootProgram = {}\n{prolog}PrologEpilogTimeout = {timeout}\n", value("RebootProgram"))
    }

    /// It is written down some seconds later.
    pub(super) fn request_reboot(&mut self, words: &[&str]) -> Ended {
        if self.setting("RebootProgram").is_none() {
            return fails(1, "scontrol: error: RebootProgram isn't defined\n");
        }
        let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)).map(str::to_owned);
        let name = words.last().copied().unwrap_or_default();
        let Some(node) = self.memory.nodes.get_mut(name) else {
            return fails(1, "scontrol_reboot_nodes error: Invalid node name specified\n");
        };
        if node.reboot.is_some() {
            let stderr = format!("scontrol: error: Skipping reboot of nodes {name} due to current node state.\n");
            return Ended { stderr, ..says("") };
        }
        let asap = words.contains(&"ASAP");
        match value("reason=") {
            Some(reason) => node.reason = reason,
            None if asap && !node.drained && !node.down => "Reboot ASAP".clone_into(&mut node.reason),
            None => {}
        }
        node.drained |= asap;
        node.reboot = Some(Reboot { issued: false, next: value("nextstate=").unwrap_or_default() });
        says("")
    }

    pub(super) fn cancel_reboot(&mut self, name: &str) -> Ended {
        let requested = |node: &&mut super::Node| node.reboot.as_ref().is_some_and(|reboot| !reboot.issued);
        let Some(node) = self.memory.nodes.get_mut(name).filter(requested) else {
            return fails(1, "slurm_update error: Invalid node state specified\n");
        };
        (node.reboot, node.drained) = (None, false);
        node.reason.clear();
        self.save_nodes();
        says("")
    }

    pub(super) fn issue_reboots(&mut self) {
        let jobs = &self.memory.jobs;
        for (name, node) in &mut self.memory.nodes {
            let Some(reboot) = &mut node.reboot else { continue };
            if !reboot.issued && !jobs.values().any(|job| job.runs_on(name)) {
                reboot.issued = true;
                node.reason += " : reboot issued";
                *self.boots.entry(name.clone()).or_default() += 1;
            }
        }
        self.save_nodes();
    }

    pub(super) fn give_up_reboots(&mut self) {
        for node in self.memory.nodes.values_mut() {
            if node.reboot.as_ref().is_some_and(|reboot| reboot.issued) {
                (node.reboot, node.down, node.drained) = (None, true, true);
                node.reason += " : reboot timed out";
            }
        }
        self.save_nodes();
    }

    pub(super) fn come_back(&mut self, name: &str, visibly: bool) {
        let now = self.now();
        let Some(node) = self.memory.nodes.get_mut(name) else { return };
        node.started = now;
        if !visibly {
            return;
        }
        node.booted = now;
        match node.reboot.take().map(|reboot| reboot.next).as_deref() {
            Some("RESUME") => (node.down, node.drained) = (false, false),
            Some("DOWN") => {
                (node.down, node.drained) = (true, false);
                node.reason += " : reboot complete";
            }
            Some(_) => node.down = false,
            // It was drained, or down already, and stays so.
            None if node.drained || node.down => {}
            None => (node.down, node.reason) = (true, "Node unexpectedly rebooted".to_owned()),
        }
        self.save_nodes();
    }
}
