//! slurmd on a machine: it fetches its configuration from a controller that it was told of, and registers.

use super::keys::Keys;
use super::node::Node;
use super::{Slurm, configuration};
use crate::store::Fault;
use slurm_ops::slurmd::SlurmdOptions;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How far a slurmd has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It asks for its configuration again and again, and systemd waits for it.
    Fetching,
    Running,
}

#[derive(Debug)]
pub(super) struct Slurmd {
    options: SlurmdOptions,
    keys: Option<Keys>,
    phase: Phase,
}

impl Slurmd {
    pub(super) fn runs(&self) -> bool {
        self.phase == Phase::Running
    }

    pub(super) fn is_node(&self, name: &str) -> bool {
        self.options.name.as_str() == name
    }

    pub(super) fn keys(&self) -> Option<&Keys> {
        self.keys.as_ref()
    }
}

/// What a node fetched is there as long as its slurmd runs.
pub(super) fn fetched(root: &Path) -> PathBuf {
    root.join("run/slurm/conf/slurm.conf")
}

impl Slurm {
    /// Starts slurmd on a machine, or has it begin anew with what it was started with.
    pub(crate) fn start_slurmd(&mut self, root: &Path, options: SlurmdOptions) {
        let slurmd = Slurmd { options, keys: Keys::read(root), phase: Phase::Fetching };
        self.slurmds.insert(root.to_owned(), slurmd);
        self.try_to_register(root);
    }

    /// If it was about to be asked to register, that comes first: the worst of all moments.
    pub(crate) fn stop_slurmd(&mut self, root: &Path) {
        let is_deleted = |name: &str| self.unasked.contains_key(name) && !self.memory.nodes.contains_key(name);
        if self.slurmds.get(root).is_some_and(|slurmd| slurmd.runs() && is_deleted(slurmd.options.name.as_str())) {
            self.try_to_register(root);
        }
        if self.slurmds.remove(root).is_some() {
            let _ = fs::remove_file(fetched(root));
        }
    }

    pub(crate) fn slurmd(&self, root: &Path) -> Option<Phase> {
        self.slurmds.get(root).map(|slurmd| slurmd.phase)
    }

    /// Every slurmd that waits for a controller asks again. One that runs never does, whatever slurmctld has forgotten.
    pub(super) fn knock(&mut self) {
        let waiting = self.slurmds.iter().filter(|(_, slurmd)| slurmd.phase == Phase::Fetching);
        let waiting: Vec<PathBuf> = waiting.map(|(root, _)| root.clone()).collect();
        waiting.iter().for_each(|root| self.try_to_register(root));
    }

    fn try_to_register(&mut self, root: &Path) {
        let Some(slurmd) = self.slurmds.get(root) else { return };
        if self.cut_off.contains(root) || self.is_cut(root) {
            return;
        }
        let (name, options) = (slurmd.options.name.to_string(), slurmd.options.clone());
        if let Some(controller) = self.controller.as_ref().filter(|_| !self.played) {
            let away = self.is_cut(&controller.root) || self.fault(&controller.root) == Some(Fault::Silent);
            if away || controller.shut_out || !controller.is_one_of(&options.controllers) {
                return;
            }
            let known = slurmd.keys.as_ref().zip(controller.keys.as_ref());
            if !known.is_some_and(|(own, theirs)| own.convince(theirs)) {
                let at = controller.root.clone();
                let refusal = format!(
                    "slurmctld: error: slurm_receive_msg [[{name}]:41234]: auth_g_verify: REQUEST_CONFIG has \
                     authentication error: Protocol authentication error\n"
                );
                self.set_journal(&at, &refusal);
                let complaint =
                    "slurmd: error: _fetch_child: failed to fetch remote configs: Protocol authentication error\n";
                self.set_journal(root, complaint);
                return;
            }
        } else if !self.played {
            return;
        }
        // A node that is known keeps what it registered with first. That one has come is saved much later.
        self.memory.nodes.entry(name.clone()).or_insert_with(|| Node::registered(&options)).returns();
        self.unasked.remove(&name);
        self.settle_node(&name, root);
        if let Some(slurmd) = self.slurmds.get_mut(root) {
            slurmd.phase = Phase::Running;
        }
        self.push_configuration(root);
    }

    /// Some seconds after its start slurmctld asks every node that it has loaded to register, as far as it is time for
    /// that within `ahead`. A slurmd that is asked registers, also if its node was deleted meanwhile.
    pub(super) fn ask_nodes(&mut self, ahead: Duration) {
        let until = self.now() + ahead.as_secs();
        let due: Vec<String> =
            self.unasked.iter().filter(|(_, at)| **at <= until).map(|(name, _)| name.clone()).collect();
        for name in due {
            self.unasked.remove(&name);
            let asked = self.slurmds.iter().find(|(_, slurmd)| slurmd.runs() && slurmd.is_node(&name));
            if let Some(root) = asked.map(|(root, _)| root.clone()) {
                self.try_to_register(&root);
            }
        }
    }

    /// slurmctld hands out its files, and whoever believes it reads its key again.
    pub(super) fn push_to_all(&mut self) {
        let running: Vec<PathBuf> =
            self.slurmds.iter().filter(|(_, slurmd)| slurmd.runs()).map(|(root, _)| root.clone()).collect();
        for root in running {
            let keys = self.controller.as_ref().and_then(|controller| controller.keys.clone());
            let cut = self.is_cut(&root);
            let Some(slurmd) = self.slurmds.get_mut(&root) else { continue };
            let known = self.memory.nodes.contains_key(slurmd.options.name.as_str());
            let believes = keys.as_ref().zip(slurmd.keys.as_ref()).is_some_and(|(keys, own)| keys.convince(own));
            if known && (believes || self.played) && !self.cut_off.contains(&root) && !cut {
                slurmd.keys = Keys::read(&root);
                self.push_configuration(&root);
            }
        }
    }

    fn push_configuration(&self, root: &Path) {
        let Some(controller) = self.controller.as_ref().filter(|controller| controller.root != root) else { return };
        let (path, text) = (fetched(root), configuration::text(&controller.root).unwrap_or_default());
        let written = path.parent().map(fs::create_dir_all).and_then(Result::ok).map(|()| fs::write(&path, text));
        assert!(matches!(written, Some(Ok(()))), "could not write {}", path.display());
    }
}
