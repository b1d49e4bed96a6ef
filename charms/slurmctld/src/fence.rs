//! The fence of this machine, as a plan sees it: which one there should be, and what it says about the store.

use crate::config::files::Config;
use crate::controllers::timeout;
use crate::identity::Identity;
use crate::names;
use charm::{UnitName, Wake};
use slurm_conf::HostName;
use slurm_ops::fence::{self, FenceState, RESERVE, Settings};
use slurm_ops::{Host, systemd};
use slurm_unit::Error;

/// A store whose writes take longer than this slows the whole cluster down: slurmctld waits for each.
const SLOW_MS: u64 = 100;
/// A store with less than one part in so many left is nearly full.
const NEARLY_FULL: u64 = 20;

/// What is there of a fence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fence {
    /// The program and the unit file are those of this charm.
    pub current: bool,
    pub settings: Option<Settings>,
    /// What the fence says. None: nothing that can be read.
    pub state: Option<FenceState>,
}

/// What a fence says about a store that takes writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// Most writes take so long, and the slowest so long, in milliseconds.
    Slow { median: u64, worst: u64 },
    /// So many bytes are free, of so many.
    NearlyFull { free: u64, total: u64 },
}

impl Fence {
    /// Looks at what is there. Starts no process.
    pub fn look(host: &Host) -> Result<Self, Error> {
        let unit_file = systemd::read_unit_file(host, fence::SERVICE)?;
        let current = unit_file.as_deref() == Some(fence::unit_file().as_str()) && fence::is_program_current(host);
        Ok(Self { current, settings: fence::settings(host), state: fence::look(host) })
    }

    /// Says whether it runs, as it should.
    pub fn is_as(&self, wanted: &Settings) -> bool {
        self.current && self.settings.as_ref() == Some(wanted) && self.is_running()
    }

    /// Says whether it has said anything lately.
    pub fn is_running(&self) -> bool {
        self.state.as_ref().is_some_and(|state| !state.stale)
    }

    /// Says why it keeps slurmctld from serving, if it does.
    pub fn closed(&self) -> Option<String> {
        let state = self.state.as_ref().filter(|state| !state.stale && !state.is_open())?;
        Some(state.why.as_ref().map_or_else(|| "it was just mounted".to_owned(), ToString::to_string))
    }

    /// Says what an operator should know about the store although it takes writes.
    pub fn warnings(&self) -> Vec<Warning> {
        let Some(state) = self.state.as_ref().filter(|state| state.is_open()) else { return Vec::new() };
        let FenceState { median_ms: median, worst_ms: worst, free, total, .. } = *state;
        let slow = (median > SLOW_MS).then_some(Warning::Slow { median, worst });
        let full = (total > 0 && free < total / NEARLY_FULL).then_some(Warning::NearlyFull { free, total });
        slow.into_iter().chain(full).collect()
    }
}

/// The event with which the fence calls the charm.
const EVENT: &str = "controllers-changed";

/// Returns what the fence of a unit has to know. It closes after half the time that a standby waits: a sign of life is
/// at most a quarter old when the store goes away, so that no standby takes over before.
pub fn settings(unit: &UnitName, host: &HostName, identity: &Identity, accepted: &Config) -> Settings {
    let others: Vec<HostName> = accepted.controllers().into_iter().filter(|listed| listed != host).collect();
    // A single one has nobody to take control from.
    let rank = accepted.rank_of(host).filter(|_| !others.is_empty()).and_then(|rank| u64::try_from(rank).ok());
    Settings {
        directory: names::CHECKPOINT_DIRECTORY.to_owned(),
        state_directory: names::STATE_DIRECTORY.to_owned(),
        marker: identity.note.clone(),
        patience: timeout(accepted) / 2,
        service: names::SERVICE.to_owned(),
        reserve: RESERVE,
        others: others.iter().map(ToString::to_string).collect(),
        rank,
        call: Wake::new(unit, EVENT).command,
    }
}
