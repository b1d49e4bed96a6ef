//! sackd on a login node: it fetches its configuration from a controller that it was told of, and lends clients its
//! key. slurmctld sends it every new configuration until it forgets it. Of slurmdbd there is only whether it runs, and
//! with which keys.

use super::controller::Controller;
use super::keys::Keys;
use super::slurmd::{Phase, fetched};
use super::{Slurm, configuration};
use slurm_conf::ControllerAddress;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Sackd {
    controllers: Vec<ControllerAddress>,
    keys: Option<Keys>,
    phase: Phase,
    /// The slurmctld that serves has it in its list, which is saved only with the nodes.
    known: bool,
}

impl Sackd {
    pub(super) fn runs(&self) -> bool {
        self.phase == Phase::Running
    }

    pub(super) fn keys(&self) -> Option<&Keys> {
        self.keys.as_ref()
    }
}

impl Slurm {
    /// Starts sackd on a machine, or has it begin anew with what it was started with.
    pub(crate) fn start_sackd(&mut self, root: &Path, controllers: Vec<ControllerAddress>) {
        let sackd = Sackd { controllers, keys: Keys::read(root), phase: Phase::Fetching, known: false };
        self.sackds.insert(root.to_owned(), sackd);
        self.serve_sackd(root);
    }

    pub(crate) fn stop_sackd(&mut self, root: &Path) {
        if self.sackds.remove(root).is_some() {
            let _ = fs::remove_file(fetched(root));
        }
    }

    /// Starts slurmdbd on a machine.
    pub(crate) fn start_slurmdbd(&mut self, root: &Path) {
        self.slurmdbds.insert(root.to_owned(), Keys::read(root));
    }

    pub(crate) fn stop_slurmdbd(&mut self, root: &Path) {
        self.slurmdbds.remove(root);
    }

    /// Says whether a slurmdbd runs in this cluster.
    pub(crate) fn has_slurmdbd(&self) -> bool {
        !self.slurmdbds.is_empty()
    }

    pub(crate) fn sackd(&self, root: &Path) -> Option<Phase> {
        self.sackds.get(root).map(|sackd| sackd.phase)
    }

    /// Has sackd do what it does at SIGHUP: read its key. It neither fetches nor registers then.
    pub(crate) fn reload_sackd(&mut self, root: &Path) {
        let keys = Keys::read(root);
        if let Some(sackd) = self.sackds.get_mut(root) {
            sackd.keys = keys;
        }
    }

    /// Every sackd that waits for a controller asks again. A slurmctld that was just started knows none of them.
    pub(super) fn knock_for_sackds(&mut self) {
        self.sackds.values_mut().for_each(|sackd| sackd.known = false);
        let waiting = self.sackds.iter().filter(|(_, sackd)| !sackd.runs());
        let waiting: Vec<PathBuf> = waiting.map(|(root, _)| root.clone()).collect();
        for root in waiting {
            self.serve_sackd(&root);
        }
    }

    /// slurmctld sends its configuration to those that it knows and that have its key, which is then read again.
    pub(super) fn push_to_sackds(&mut self) {
        let known: Vec<PathBuf> =
            self.sackds.iter().filter(|(_, sackd)| sackd.known).map(|(root, _)| root.clone()).collect();
        for root in known {
            if self.serve_sackd(&root) {
                self.reload_sackd(&root);
            }
        }
    }

    fn serve_sackd(&mut self, root: &Path) -> bool {
        let Some(sackd) = self.sackds.get(root) else { return false };
        let away = self.cut_off.contains(root) || self.is_cut(root);
        let text = match self.controller.as_ref() {
            // A controller that the test plays takes every key, and has hardly a configuration.
            None if self.played && !away => "ClusterName=played\nSlurmctldHost=played\n".to_owned(),
            Some(controller) if !away && self.takes(sackd, controller) => {
                configuration::text(&controller.root).unwrap_or_default()
            }
            _ => return false,
        };
        let path = fetched(root);
        let written = path.parent().map(fs::create_dir_all).and_then(Result::ok).map(|()| fs::write(&path, text));
        assert!(matches!(written, Some(Ok(()))), "could not write {}", path.display());
        if let Some(sackd) = self.sackds.get_mut(root) {
            (sackd.phase, sackd.known) = (Phase::Running, true);
        }
        true
    }

    fn takes(&self, sackd: &Sackd, controller: &Controller) -> bool {
        let keys = sackd.keys.as_ref().zip(controller.keys.as_ref());
        let convinced = keys.is_some_and(|(own, theirs)| own.convince(theirs));
        convinced && !controller.shut_out && !self.is_cut(&controller.root) && controller.is_one_of(&sackd.controllers)
    }
}
