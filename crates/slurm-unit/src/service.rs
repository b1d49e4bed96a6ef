//! How systemd treats the daemon: its state, our drop-in, and the service that calls the charm when the daemon has
//! failed.

use crate::{Error, Hands, Profile, View, retry};
use charm::Wake;
use slurm_ops::systemd::{self, UnitState};

/// The event that systemd sends when the daemon has failed.
pub const FAILURE_EVENT: &str = "daemon-failed";

/// What systemd says about a daemon, in the words that plans use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Running {
    Stopped,
    /// It ended badly and may be on its way up again.
    Failing,
    Starting,
    Up,
}

/// Judges the state of a unit. A daemon that a signal ended says nothing about its configuration, and systemd starts
/// it again.
pub fn running(unit: &UnitState) -> Running {
    let killed = matches!(unit.result.as_str(), "signal" | "core-dump" | "oom-kill" | "watchdog");
    match (unit.active.as_str(), unit.sub.as_str()) {
        _ if unit.is_active() => Running::Up,
        (_, "auto-restart" | "auto-restart-queued") if killed => Running::Stopped,
        ("failed", _) | (_, "auto-restart" | "auto-restart-queued") => Running::Failing,
        _ if unit.is_starting() => Running::Starting,
        _ => Running::Stopped,
    }
}

/// A daemon, as systemd sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemon {
    pub running: Running,
    /// How its last run ended.
    pub result: String,
    /// When it was started, in seconds since 1970.
    pub started: Option<u64>,
    /// systemd has not read its files since they changed.
    pub needs_reload_of_units: bool,
}

impl Daemon {
    /// Asks systemd.
    pub fn look(view: &View, profile: &Profile) -> Result<Self, Error> {
        let unit = systemd::state(&view.host, profile.service)?;
        Ok(Self {
            running: running(&unit),
            started: unit.main_started,
            needs_reload_of_units: unit.needs_daemon_reload,
            result: unit.result,
        })
    }
}

/// The files of ours that systemd reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceFiles {
    pub drop_in: Option<String>,
    pub failure_service: Option<String>,
    /// The retry timer of an earlier version of the charm, under its old name, is still set.
    pub old_timer: bool,
}

impl ServiceFiles {
    /// Looks which files are there. Starts no process.
    pub fn look(view: &View, profile: &Profile) -> Result<Self, Error> {
        Ok(Self {
            drop_in: systemd::read_drop_in(&view.host, profile.service, Profile::DROP_IN)?,
            failure_service: systemd::read_unit_file(&view.host, &profile.failure_service())?,
            old_timer: retry::old_is_set(view),
        })
    }

    /// Returns them as a step leaves them.
    #[must_use]
    pub fn after(mut self, step: &ServiceStep) -> Self {
        match step {
            ServiceStep::WriteDropIn(text) => self.drop_in = Some(text.clone()),
            ServiceStep::WriteFailureService(text) => self.failure_service = Some(text.clone()),
            ServiceStep::EndOldTimer => self.old_timer = false,
            ServiceStep::ReloadUnits => {}
        }
        self
    }

    /// Returns those of a daemon of a unit.
    pub fn of(unit: &charm::UnitName, profile: &Profile, drop_in: String) -> Self {
        let failure_service = failure_service(unit, profile);
        Self { drop_in: Some(drop_in), failure_service: Some(failure_service), old_timer: false }
    }

    /// Says what is missing, or differs from `wanted`. `unread`: systemd has not read what is there.
    pub fn upkeep(&self, wanted: &Self, unread: bool) -> Vec<ServiceStep> {
        let mut steps = self.steps(wanted);
        if steps.is_empty() && unread {
            steps.push(ServiceStep::ReloadUnits);
        }
        steps
    }

    /// Says what is missing, or differs from `wanted`.
    pub fn steps(&self, wanted: &Self) -> Vec<ServiceStep> {
        let mut steps = Vec::new();
        if let Some(text) = wanted.failure_service.as_ref().filter(|text| self.failure_service.as_ref() != Some(text)) {
            steps.push(ServiceStep::WriteFailureService(text.clone()));
        }
        if let Some(text) = wanted.drop_in.as_ref().filter(|text| self.drop_in.as_ref() != Some(text)) {
            steps.push(ServiceStep::WriteDropIn(text.clone()));
        }
        if self.old_timer {
            steps.push(ServiceStep::EndOldTimer);
        }
        steps
    }
}

/// Returns the text of the service that calls the charm of a unit when its daemon has failed.
fn failure_service(unit: &charm::UnitName, profile: &Profile) -> String {
    let wake = Wake::new(unit, FAILURE_EVENT);
    let description = format!("Calls the charm of {unit}: {} has failed", profile.daemon);
    systemd::one_shot_service(&description, &wake.command, Wake::PATIENCE)
}

/// Returns the drop-in of a daemon that fetches its configuration from a controller. Waiting for one may take long, and
/// giving up would need somebody to start the daemon again. A daemon that cannot start at all is given up after
/// seconds. The charm is told of every failure: also one that systemd starts again may then wait for ever, for a key or
/// a controller, and nobody would know.
pub fn patient_drop_in(profile: &Profile) -> String {
    format!(
        "# Written by the {daemon} charm.\n[Unit]\nStartLimitIntervalSec=120\nStartLimitBurst=4\n\
         OnFailure={failed}\n\n[Service]\nKillMode=process\nRestart=always\nRestartSec=2\n\
         TimeoutStartSec=infinity\n",
        daemon = profile.daemon,
        failed = profile.failure_service(),
    )
}

/// Returns the drop-in of a daemon that has its configuration on the disk. systemd starts one that died again, and
/// gives one up that cannot start at all. The charm is told of every failure.
pub fn restarting_drop_in(profile: &Profile) -> String {
    format!(
        "# Written by the {daemon} charm.\n[Unit]\nStartLimitIntervalSec=120\nStartLimitBurst=4\n\
         OnFailure={failed}\n\n[Service]\nRestart=always\nRestartSec=2\n",
        daemon = profile.daemon,
        failed = profile.failure_service(),
    )
}

/// A change of how systemd treats the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceStep {
    WriteDropIn(String),
    WriteFailureService(String),
    /// Has systemd read files that are right already: a dispatch was killed before it said so.
    ReloadUnits,
    EndOldTimer,
}

impl ServiceStep {
    /// Names the step.
    pub fn name(&self, profile: &Profile) -> String {
        match self {
            Self::WriteDropIn(_) => format!("write the drop-in of {}", profile.service),
            Self::WriteFailureService(_) => format!("write {}", profile.failure_service()),
            Self::ReloadUnits => "have systemd read its unit files".to_owned(),
            Self::EndOldTimer => "end the timer of an earlier version of this charm".to_owned(),
        }
    }

    /// Makes the change.
    pub fn apply(&self, hands: &Hands, profile: &Profile) -> Result<(), Error> {
        match self {
            Self::WriteDropIn(text) => {
                systemd::ensure_drop_in(&hands.host, profile.service, Profile::DROP_IN, text)?;
            }
            Self::WriteFailureService(text) => {
                systemd::ensure_unit_file(&hands.host, &profile.failure_service(), text)?;
            }
            Self::ReloadUnits => systemd::daemon_reload(&hands.host)?,
            Self::EndOldTimer => retry::end_old(hands)?,
        }
        Ok(())
    }
}
