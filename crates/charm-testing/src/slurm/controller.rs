//! slurmctld: its start, its end, and what a reconfigure does.

use super::Slurm;
use super::configuration::{self, Configuration};
use super::keys::Keys;
use crate::machine::{fails, says};
use slurm_conf::ControllerAddress;
use slurm_ops::command::Ended;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A slurmctld that runs.
#[derive(Debug)]
pub(super) struct Controller {
    pub(super) root: PathBuf,
    /// Those that it has read. Without any it would turn to munge.
    pub(super) keys: Option<Keys>,
    /// It serves nobody until it is restarted.
    pub(super) shut_out: bool,
}

impl Controller {
    /// Says whether one of these addresses is this controller's: its own slurm.conf tells what it is called.
    pub(super) fn is_one_of(&self, addresses: &[ControllerAddress]) -> bool {
        let text = configuration::text(&self.root).unwrap_or_default();
        let hosts = text.lines().filter_map(|line| line.strip_prefix("SlurmctldHost="));
        let mut hosts = hosts.map(|host| host.split(['(', ' ']).next().unwrap_or_default());
        hosts.any(|host| addresses.iter().any(|address| address.host.as_str() == host))
    }
}

impl Slurm {
    /// Says whether slurmctld runs on a machine.
    pub(crate) fn is_controlled_by(&self, root: &Path) -> bool {
        self.controller.as_ref().is_some_and(|controller| controller.root == root)
    }

    /// Starts slurmctld on a machine. If it does not start, the journal says why.
    pub(crate) fn start_controller(&mut self, root: &Path) -> bool {
        self.begin(root, false)
    }

    /// Has the slurmctld of a machine take control as a backup does when the primary is gone.
    pub(crate) fn take_over(&mut self, root: &Path) -> bool {
        self.begin(root, true)
    }

    fn begin(&mut self, root: &Path, takes_over: bool) -> bool {
        let read = match &self.controller {
            Some(_) => Err("fatal: this made-up Slurm has room for one controller\n".to_owned()),
            None => Configuration::read(self, root),
        };
        let outcome = read.and_then(|read| {
            let saved = configuration::load(root);
            let partitions = if takes_over { saved.partitions.clone() } else { BTreeMap::new() };
            Self::stumbles(&saved.jobs, &read, &partitions.keys().collect::<Vec<_>>())?;
            let before = std::mem::replace(&mut self.memory, saved);
            for (id, job) in before.jobs.iter().filter(|(_, job)| job.is_active()) {
                if !self.memory.jobs.contains_key(id) {
                    self.losses.push(format!("job {id}: killed, slurmctld had forgotten it ({})", job.partition));
                    self.end_steps(*id);
                }
            }
            self.hear_of_ended();
            self.take_up(read);
            self.take_over_partitions(partitions)
        });
        if let Err(fatal) = outcome {
            self.set_journal(root, &format!("Starting slurmctld.service\nslurmctld: {fatal}"));
            return false;
        }
        self.controller = Some(Controller { root: root.to_owned(), keys: Keys::read(root), shut_out: false });
        self.hear_of_ends();
        self.knock();
        true
    }

    /// A clean stop saves everything.
    pub(crate) fn stop_controller(&mut self, root: &Path) {
        if self.is_controlled_by(root) {
            self.save_all();
            self.controller = None;
        }
    }

    /// A crash saves nothing.
    pub(crate) fn crash_controller(&mut self, root: &Path) {
        if self.is_controlled_by(root) {
            self.catch_up();
            self.controller = None;
        }
    }

    /// A successor is started with the files as they are. Only if it succeeds the old process goes.
    pub(crate) fn reconfigure(&mut self) -> Ended {
        // A controller that the test plays takes everything.
        let Some(root) = self.controller.as_ref().map(|controller| controller.root.clone()) else { return says("") };
        if configuration::is_read_only(&root) {
            let fatal = "slurmctld: fatal: Incorrect permissions on state save loc\n\
                         slurmctld: fatal: _create_clustername_file: failed to create file\n";
            self.set_journal(&root, fatal);
            self.controller = None;
            return fails(1, "slurm_reconfigure error: Unspecified error\n");
        }
        let refusal = self.whims.refusal.take();
        let read = refusal.map_or_else(|| Configuration::read(self, &root), Err);
        match read {
            Ok(read) => {
                // The old process saves what it has, partitions as they were included. The new one saves nothing.
                self.save_before_reconfigure();
                self.take_up(read);
                if let Some(controller) = &mut self.controller {
                    controller.keys = Keys::read(&root);
                }
                self.push_to_all();
                self.knock();
                says("")
            }
            Err(journal) => {
                let sulks = self.whims.sulks;
                if let Some(controller) = &mut self.controller {
                    controller.shut_out = sulks;
                }
                let journal = format!(
                    "slurmctld: Processing Reconfiguration Request\nslurmctld: {journal}\n\
                     slurmctld: error: Resuming operation, reconfigure failed.\n"
                );
                self.set_journal(&root, &journal);
                fails(1, "slurm_reconfigure error: Unspecified error\n")
            }
        }
    }
}
