//! slurmctld: its start, its end, and what a reconfigure does. Who of several serves is in `takeover`.

use super::configuration::{self, Configuration};
use super::keys::Keys;
use super::{Memory, Slurm};
use crate::machine::{fails, says};
use crate::store::{Fault, Site};
use slurm_conf::ControllerAddress;
use slurm_ops::command::Ended;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const TIMED_OUT: &str = "slurm_load error: Socket timed out on send/recv operation\n";

/// How many seconds one that serves needs to let go of it.
const RETURN: u64 = 29;
/// How many seconds after its start slurmctld asks all nodes to register.
const ASKS_AFTER: u64 = 3;

/// A slurmctld that runs.
#[derive(Debug)]
pub(super) struct Controller {
    pub(super) root: PathBuf,
    /// What its machine is called.
    pub(super) host: String,
    /// The `SlurmctldHost` lines that it was started with. One that serves takes others from a reconfigure.
    pub(super) hosts: Vec<String>,
    /// Those that it has read. Without any it would turn to munge.
    pub(super) keys: Option<Keys>,
    /// It serves nobody until it is restarted.
    pub(super) shut_out: bool,
    /// What it served when its machine was cut off.
    pub(super) believed: Option<Memory>,
    /// When it will have control back, in seconds since 1970.
    pub(super) returns_at: Option<u64>,
}

impl Controller {
    /// Says whether one of these addresses is this controller's. Whether one that stands by would hand out its files
    /// was never tried.
    pub(super) fn is_one_of(&self, addresses: &[ControllerAddress]) -> bool {
        addresses.iter().any(|address| address.host.as_str() == self.host)
    }

    /// Its place in the list that it was started with.
    pub(super) fn rank(&self) -> Option<usize> {
        rank(&self.hosts, &self.host)
    }
}

pub(super) fn rank(hosts: &[String], host: &str) -> Option<usize> {
    hosts.iter().position(|own| own == host)
}

impl Slurm {
    /// Gets to know a machine.
    pub(crate) fn meet(&mut self, root: &Path, site: &Arc<Site>) {
        self.sites.insert(root.to_owned(), Arc::clone(site));
    }

    /// What is wrong with the store on a machine, if slurmctld keeps its state there.
    pub(super) fn fault(&self, root: &Path) -> Option<Fault> {
        self.sites.get(root).and_then(|site| site.fault()).filter(|_| configuration::is_on_mount(root))
    }

    pub(super) fn is_cut(&self, root: &Path) -> bool {
        self.sites.get(root).is_some_and(|site| site.is_cut())
    }

    /// Says whether slurmctld runs on a machine, whatever it does there.
    pub(crate) fn runs_controller(&self, root: &Path) -> bool {
        self.controller_at(root).is_some()
    }

    pub(super) fn controller_at(&self, root: &Path) -> Option<&Controller> {
        self.all_controllers().find(|controller| controller.root == root)
    }

    /// The one that serves first.
    pub(super) fn all_controllers(&self) -> impl Iterator<Item = &Controller> {
        self.controller.iter().chain(&self.standbys).chain(&self.stale)
    }

    /// Says whether somebody is there to be told things.
    pub(super) fn is_heard(&self) -> bool {
        self.played || self.controller.as_ref().is_some_and(|controller| !self.is_cut(&controller.root))
    }

    /// Tells whether the slurmctld of a machine that ended by itself did so without a fault.
    pub(crate) fn ended_well(&self, root: &Path) -> bool {
        self.exits.get(root).copied().unwrap_or(false)
    }

    /// Starts slurmctld on a machine. If it does not start, the journal says why. The first one in the list serves at
    /// once, and takes control back from whoever has it; the others stand by.
    pub(crate) fn start_controller(&mut self, root: &Path) -> bool {
        let mut controller = match self.prepare(root) {
            Ok(controller) => controller,
            Err(fatal) => return self.dies(root, &fatal),
        };
        if controller.rank() != Some(0) {
            self.standbys.push(controller);
            return true;
        }
        if self.relinquish() && self.whims.returns_slowly {
            controller.returns_at = Some(self.now() + RETURN);
            self.standbys.push(controller);
            return true;
        }
        self.serve(controller, false)
    }

    /// Reads what a slurmctld has in memory before it serves.
    pub(super) fn prepare(&mut self, root: &Path) -> Result<Controller, String> {
        self.exits.remove(root);
        if self.fault(root) == Some(Fault::Silent) {
            return Err("start operation timed out. Terminating.\n".to_owned());
        }
        let host = self.sites.get(root).map(|site| site.name()).unwrap_or_default();
        let hosts = configuration::hosts(root);
        if rank(&hosts, &host).is_none() {
            return Err(format!("error: This host ({host}/{host}) not a valid controller\n"));
        }
        let keys = Keys::read(root);
        Ok(Controller { root: root.to_owned(), host, hosts, keys, shut_out: false, believed: None, returns_at: None })
    }

    pub(super) fn dies(&mut self, root: &Path, fatal: &str) -> bool {
        self.set_journal(root, &format!("Starting slurmctld.service\nslurmctld: {fatal}"));
        self.exits.insert(root.to_owned(), false);
        false
    }

    /// Has a slurmctld serve, from what was saved. One that takes over believes the saved partitions.
    pub(super) fn serve(&mut self, mut controller: Controller, takes_over: bool) -> bool {
        let root = controller.root.clone();
        let read = match self.unfit(&root) {
            Some(fatal) => Err(fatal),
            None => Configuration::read(self, &root),
        };
        let outcome = read.and_then(|read| {
            let saved = configuration::load(&root);
            let partitions = if takes_over { saved.partitions.clone() } else { BTreeMap::new() };
            Self::stumbles(&saved.jobs, &read, &partitions.keys().collect::<Vec<_>>())?;
            self.recall(saved);
            self.hear_of_ended();
            self.take_up(read);
            self.take_over_partitions(partitions)
        });
        if let Err(fatal) = outcome {
            return self.dies(&root, &fatal);
        }
        controller.hosts = configuration::hosts(&root);
        self.controller = Some(controller);
        self.beat();
        self.hear_of_ends();
        let asks_at = self.now() + ASKS_AFTER;
        self.unasked = self.memory.nodes.keys().map(|name| (name.clone(), asks_at)).collect();
        self.knock();
        self.knock_for_sackds();
        true
    }

    /// Why slurmctld could not begin with a state directory.
    fn unfit(&self, root: &Path) -> Option<String> {
        match self.fault(root) {
            Some(Fault::Gone | Fault::Silent | Fault::ReadOnly) => {
                Some("fatal: Incorrect permissions on state save loc\n".to_owned())
            }
            Some(Fault::Full) | None => None,
        }
    }

    /// Begins with what was saved. Jobs that were not are killed as orphans.
    pub(super) fn recall(&mut self, saved: Memory) {
        let before = std::mem::replace(&mut self.memory, saved);
        for (id, job) in before.jobs.iter().filter(|(_, job)| job.is_active()) {
            if !self.memory.jobs.contains_key(id) {
                self.losses.push(format!("job {id}: killed, slurmctld had forgotten it ({})", job.partition));
                self.end_steps(*id);
            }
        }
    }

    /// A clean stop saves everything.
    pub(crate) fn stop_controller(&mut self, root: &Path) {
        if self.serves(root) {
            self.save_all();
        }
        self.forget_controller(root);
    }

    /// A crash saves nothing.
    pub(crate) fn crash_controller(&mut self, root: &Path) {
        if self.serves(root) {
            self.catch_up();
        }
        self.forget_controller(root);
    }

    pub(crate) fn stands_by(&self, root: &Path) -> bool {
        self.standbys.iter().any(|controller| controller.root == root)
    }

    pub(super) fn serves(&self, root: &Path) -> bool {
        self.controller.as_ref().is_some_and(|controller| controller.root == root)
    }

    fn forget_controller(&mut self, root: &Path) {
        self.controller.take_if(|controller| controller.root == root);
        for others in [&mut self.standbys, &mut self.stale] {
            others.retain(|controller| controller.root != root);
        }
    }

    /// A successor is started with the files as they are. Only if it succeeds the old process goes.
    pub(crate) fn reconfigure(&mut self) -> Ended {
        // A controller that the test plays takes everything.
        let Some(controller) = self.controller.as_ref() else { return says("") };
        let (root, host) = (controller.root.clone(), controller.host.clone());
        match self.fault(&root) {
            Some(Fault::Gone | Fault::Silent) => return fails(1, TIMED_OUT),
            Some(Fault::ReadOnly) => return self.reconfigure_in_vain(&root),
            None if configuration::is_read_only(&root) => return self.reconfigure_in_vain(&root),
            Some(Fault::Full) | None => {}
        }
        let hosts = configuration::hosts(&root);
        let refusal = self.whims.refusal.take().or_else(|| {
            let stranger = format!("error: This host ({host}/{host}) not a valid controller\n");
            rank(&hosts, &host).is_none().then_some(stranger)
        });
        let read = refusal.map_or_else(|| Configuration::read(self, &root), Err);
        match read {
            Ok(read) => {
                // The old process saves what it has, partitions as they were included. The new one saves nothing.
                self.save_before_reconfigure();
                if self.fault(&root) == Some(Fault::Full) {
                    // What could not be saved is not there for the new one.
                    self.recall(configuration::load(&root));
                }
                self.take_up(read);
                if let Some(controller) = &mut self.controller {
                    (controller.keys, controller.hosts) = (Keys::read(&root), hosts);
                }
                self.beat();
                self.push_to_all();
                self.push_to_sackds();
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

    /// Neither the new process nor the old one can live with a state directory that cannot be written.
    fn reconfigure_in_vain(&mut self, root: &Path) -> Ended {
        let fatal = "slurmctld: fatal: Incorrect permissions on state save loc\n\
                     slurmctld: fatal: _create_clustername_file: failed to create file\n";
        self.set_journal(root, fatal);
        self.controller = None;
        fails(1, "slurm_reconfigure error: Unspecified error\n")
    }
}
