//! Several slurmctld: who stands by, who takes over from whom, and what a network that was cut does to them.

use super::controller::{Controller, rank};
use super::{Slurm, configuration};
use crate::machine::{fails, says};
use crate::store::Fault;
use slurm_ops::command::Ended;
use std::fs;
use std::path::Path;
use std::time::Duration;

const HEARTBEAT: &str = "heartbeat";
const NOBODY: &str = "slurm_takeover error: Unable to contact slurm controller (connect failure)\n";

impl Slurm {
    /// Has the slurmctld of a machine take control as a backup does when the primary is gone. If it does not run there,
    /// one is started for that.
    pub(crate) fn take_over(&mut self, root: &Path) -> bool {
        assert!(self.controller.is_none(), "{:?} serves", self.controller.as_ref().map(|own| &own.host));
        let standby = self.standbys.iter().position(|controller| controller.root == root);
        let controller = match standby {
            Some(at) => Ok(self.standbys.remove(at)),
            None => self.prepare(root),
        };
        match controller {
            Ok(controller) => self.succeed(controller),
            Err(fatal) => self.dies(root, &fatal),
        }
    }

    /// A standby takes over. It keeps its place in the list that it was started with, and where that is another one
    /// than the file gives it, it takes itself for somebody else and ends that one.
    fn succeed(&mut self, controller: Controller) -> bool {
        let root = controller.root.clone();
        if rank(&configuration::hosts(&root), &controller.host) != controller.rank() {
            let journal = format!(
                "slurmctld: error: _shutdown_bu_thread:send/recv {}: Socket timed out on send/recv operation\n\
                 slurmctld: Running as primary controller\nslurmctld: Performing RPC: REQUEST_SHUTDOWN\n\
                 slurmctld: Terminate signal SIGTERM received\n",
                controller.host
            );
            self.set_journal(&root, &journal);
            self.exits.insert(root, true);
            return false;
        }
        self.serve(controller, true)
    }

    /// Whoever serves lets go of it and stands by, if it can be told. One that cannot goes on as before. Tells whether
    /// one had to be waited for.
    pub(super) fn relinquish(&mut self) -> bool {
        let Some(controller) = &self.controller else { return false };
        if self.is_cut(&controller.root) {
            self.stale.extend(self.controller.take());
            return false;
        }
        self.save_all();
        self.standbys.extend(self.controller.take());
        true
    }

    /// One that came back has control once the other one has let go of it.
    pub(super) fn return_control(&mut self) {
        let now = self.now();
        let over = |own: &Controller| own.returns_at.is_some_and(|at| at <= now);
        if let Some(at) = self.standbys.iter().position(over) {
            let mut controller = self.standbys.remove(at);
            controller.returns_at = None;
            self.serve(controller, false);
        }
    }

    /// `scontrol takeover`: a backup is told to serve, and whoever did before is ended.
    pub(super) fn hand_over(&mut self, root: &Path, index: usize) -> Ended {
        let hosts = configuration::hosts(root);
        let Some(host) = hosts.get(index) else { return fails(1, NOBODY) };
        if self.controller.as_ref().is_some_and(|controller| controller.host == *host) {
            return says("");
        }
        let able = |own: &Controller| own.host == *host && self.is_able(own);
        let Some(at) = self.standbys.iter().position(able) else { return fails(1, NOBODY) };
        let next = self.standbys.remove(at);
        match self.controller.as_ref().map(|controller| controller.root.clone()) {
            Some(before) if self.is_cut(&before) => self.stale.extend(self.controller.take()),
            Some(before) => {
                self.stop_controller(&before);
                self.exits.insert(before, true);
            }
            None => {}
        }
        if self.succeed(next) { says("") } else { fails(1, NOBODY) }
    }

    /// Says whether one that stands by can read the state directory and be heard.
    fn is_able(&self, controller: &Controller) -> bool {
        !self.is_cut(&controller.root) && !matches!(self.fault(&controller.root), Some(Fault::Silent | Fault::Gone))
    }

    /// Time has passed. When nobody has given a sign of life for `SlurmctldTimeout`, it is as if that had passed.
    pub(super) fn wait_for_a_sign(&mut self, length: Duration) {
        let served = self.controller.as_ref().is_some_and(|controller| self.fault(&controller.root).is_none());
        self.without_sign = if served { Duration::ZERO } else { self.without_sign + length };
        if self.without_sign >= self.timeout() {
            self.without_sign = Duration::ZERO;
            self.fail_over();
        }
    }

    /// `SlurmctldTimeout` has passed. The best of those that stand by takes over unless one before it answers, or
    /// whoever serves still writes the heartbeat.
    pub(super) fn fail_over(&mut self) {
        self.pass(self.timeout());
        if self.standbys.iter().any(|own| own.returns_at.is_some()) {
            return;
        }
        let able = self.standbys.iter().enumerate().filter(|(_, own)| self.is_able(own));
        let Some((at, next)) = able.min_by_key(|(_, own)| own.rank()) else { return };
        if let Some(active) = &self.controller {
            let cut = self.is_cut(&active.root);
            // One that hangs on its store answers nevertheless.
            let answers = !cut && !self.cut_off.contains(&active.root);
            let beats = self.fault(&active.root).is_none();
            let later = active.rank() > next.rank();
            if !later && (answers || beats) {
                return;
            }
        }
        if self.heartbeat_is_broken(&next.root) {
            let journal = "slurmctld: error: heartbeat file could not be read. \
                           Something is wrong with your StateSaveLocation.\n";
            let root = next.root.clone();
            self.set_journal(&root, journal);
            return;
        }
        let next = self.standbys.remove(at);
        self.relinquish();
        self.succeed(next);
    }

    fn timeout(&self) -> Duration {
        const USUAL: u64 = 120;
        let roots = self.all_controllers().map(|controller| &controller.root);
        let values = roots.filter_map(|root| configuration::value(root, "SlurmctldTimeout"));
        Duration::from_secs(values.filter_map(|value| value.parse().ok()).next().unwrap_or(USUAL))
    }

    /// A machine loses its network. What its slurmctld serves is what it goes on with.
    pub(crate) fn cut_network(&mut self, root: &Path) {
        if self.serves(root) {
            self.catch_up();
            let believed = self.memory.clone();
            if let Some(controller) = &mut self.controller {
                controller.believed = Some(believed);
            }
        }
    }

    /// A machine has its network again. If another one has taken over meanwhile, and nobody killed the one before, that
    /// one goes on from its old memory, overwrites all that was saved since, and the other one ends.
    pub(crate) fn heal_network(&mut self, root: &Path) {
        let Some(at) = self.stale.iter().position(|controller| controller.root == root) else {
            if self.serves(root) {
                self.hear_of_ended();
                self.hear_of_ends();
                self.beat();
                self.knock();
            }
            return;
        };
        let mut stale = self.stale.remove(at);
        let Some(believed) = stale.believed.take() else { return };
        let after = std::mem::replace(&mut self.memory, believed);
        for (id, job) in &after.jobs {
            let known = self.memory.jobs.get(id);
            let why = match (job.is_active(), known.map(|known| known.is_active())) {
                (true, None) => format!("forgotten by {}, which had been cut off", stale.host),
                (false, Some(true)) => format!("running again in the memory of {}, which had been cut off", stale.host),
                _ => continue,
            };
            self.losses.push(format!("job {id}: {why}"));
        }
        if let Some(other) = self.controller.take() {
            let fatal = "fatal: Two slurmctld daemons are running as primary. Shutting down this daemon to avoid \
                         inconsistent state due to split brain.\n";
            self.dies(&other.root, fatal);
        }
        self.controller = Some(stale);
        self.save_all();
        self.save_reservations();
        self.beat();
        self.knock();
    }

    /// The sign of life of whoever serves, and its place in the list: two numbers of eight bytes. One alone gives none.
    pub(super) fn beat(&self) {
        let Some(controller) = self.controller.as_ref().filter(|controller| controller.hosts.len() > 1) else { return };
        let path = configuration::state_directory(&controller.root).join(HEARTBEAT);
        let (at, index) = (self.now(), controller.rank().unwrap_or(0) as u64);
        match self.fault(&controller.root) {
            None if !configuration::is_read_only(&controller.root) => {
                let beat = [at.to_be_bytes(), index.to_be_bytes()].concat();
                let _ = fs::write(path, beat);
            }
            // It is made anew each time, and there is no room for what is in it.
            Some(Fault::Full) => drop(fs::write(path, "")),
            _ => {}
        }
    }

    fn heartbeat_is_broken(&self, root: &Path) -> bool {
        const LENGTH: usize = 16;
        let beat = fs::read(configuration::state_directory(root).join(HEARTBEAT));
        beat.is_ok_and(|beat| beat.len() != LENGTH)
    }
}
