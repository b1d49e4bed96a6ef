//! What a fence does to slurmctld, and to the charm of its unit, through systemd.

use super::watch::say;
use crate::machine::Machine;
use crate::systemd::{self, UnitState};
use std::time::Duration;

/// The unit that calls the charm.
const CALL: &str = "slurmctld-fence-call.service";
/// How long a call may wait for a hook of the unit.
const CALL_LIMIT: Duration = Duration::from_secs(600);

/// What is fenced.
pub trait Daemon {
    /// Tells whether it runs.
    fn state(&self, service: &str) -> DaemonState;
    /// Ends it in order, and does not wait for it.
    fn stop(&self, service: &str);
    /// Ends it the hard way.
    fn kill(&self, service: &str);
    /// Has its processes stand still, now, or lets them go on. Needs no other process, and is only tried.
    fn hold(&self, service: &str, still: bool);
    /// Starts it, and does not wait for it.
    fn start(&self, service: &str);
    /// Starts the command that calls the charm, and tells whether it could.
    fn call(&self, command: &[String]) -> bool;
}

/// What a daemon does, as far as a fence has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonState {
    Runs {
        /// Its main process.
        pid: u32,
    },
    /// Nobody wants it to run.
    Stopped,
    /// It should run and does not.
    Failed,
    /// Could not ask.
    Unknown,
}

/// A daemon of systemd.
#[derive(Debug)]
pub(super) struct Service(Machine);

impl Service {
    pub(super) fn new(machine: Machine) -> Self {
        Self(machine)
    }
}

impl Daemon for Service {
    fn state(&self, service: &str) -> DaemonState {
        match systemd::state(&self.0.host(), service) {
            Ok(UnitState { main_pid: Some(pid), .. }) => DaemonState::Runs { pid },
            Ok(unit) if unit.active == "failed" => DaemonState::Failed,
            Ok(_) => DaemonState::Stopped,
            Err(error) => {
                say(&error);
                DaemonState::Unknown
            }
        }
    }

    fn stop(&self, service: &str) {
        if let Err(error) = systemd::stop_no_block(&self.0.writer(), service) {
            say(&error);
        }
    }

    fn kill(&self, service: &str) {
        if let Err(error) = systemd::kill(&self.0.writer(), service) {
            say(&error);
        }
    }

    fn hold(&self, service: &str, still: bool) {
        // Where cgroups of both versions are, the newer ones are below `unified`.
        for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            let file = self.0.path(format!("{root}/system.slice/{service}/cgroup.freeze"));
            let _ = std::fs::write(file, if still { "1" } else { "0" });
        }
    }

    fn start(&self, service: &str) {
        let started = systemd::reset_failed(&self.0.writer(), service)
            .and_then(|()| systemd::start_no_block(&self.0.writer(), service));
        if let Err(error) = started {
            say(&error);
        }
    }

    /// A call of before may still wait for Juju. Then systemd refuses this one, and it is made later.
    fn call(&self, command: &[String]) -> bool {
        systemd::run_once(&self.0.writer(), CALL, command, CALL_LIMIT).is_ok()
    }
}
