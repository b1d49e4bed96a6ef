//! How a charm that waits for something is called again by itself: which command, and how often.
//!
//! Juju calls a charm when something changes in the model. What a charm waits for is often elsewhere (a daemon that comes
//! up, a grant that was lost), so a timer of the machine calls it through `juju-exec`, under an event name of the charm's
//! own. Only the description is here; the timer itself is the machine's business.

use crate::name::UnitName;
use std::path::PathBuf;
use std::time::Duration;

/// One repeating wake-up call for one unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wake {
    /// The name of the timer and of the service it starts, without suffix: `compute-0-look-again`.
    pub name: String,
    /// What it runs.
    pub command: Vec<String>,
}

impl Wake {
    /// When it calls, counted from its start: 5, 10, 20 and 40 seconds apart.
    pub const FIRST: [Duration; 4] =
        [Duration::from_secs(5), Duration::from_secs(15), Duration::from_secs(35), Duration::from_secs(75)];
    /// The pause after each call once those are over.
    pub const REPEAT: Duration = Duration::from_secs(60);
    /// How long one call may wait for the unit's current hook and the machine's lock: `juju-exec` has no limit of its own.
    pub const PATIENCE: Duration = Duration::from_secs(600);

    /// Describes the call that sends `event` to `unit`.
    pub fn new(unit: &UnitName, event: &'static str) -> Self {
        Self {
            name: format!("{}-{event}", unit.dashed()),
            command: vec![
                "/usr/bin/juju-exec".to_owned(),
                "-u".to_owned(),
                unit.to_string(),
                // One argument is a script for Juju's shell; unit names and event names are harmless words.
                format!("JUJU_DISPATCH_PATH=hooks/{event} ./dispatch"),
            ],
        }
    }

    /// Returns the systemd unit that does the calling.
    pub fn timer(&self) -> String {
        format!("{}.timer", self.name)
    }

    /// Returns the file that exists for as long as the timer does, so that looking for it costs no process.
    pub fn timer_file(&self) -> PathBuf {
        PathBuf::from(format!("/run/systemd/transient/{}", self.timer()))
    }

    /// Returns the arguments with which `systemd-run` sets the timer.
    ///
    /// It repeats until it is stopped, so a call that fails is made up for by the next. systemd starts no service that
    /// still runs, so calls never pile up.
    pub fn systemd_run_arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--unit={}", self.name),
            "--description=Calls a charm that waits for something".to_owned(),
            "--collect".to_owned(),
            "--quiet".to_owned(),
            format!("--property=RuntimeMaxSec={}", Self::PATIENCE.as_secs()),
            "--timer-property=AccuracySec=100ms".to_owned(),
        ];
        arguments.extend(Self::FIRST.map(|after| format!("--on-active={}", after.as_secs())));
        arguments.push(format!("--on-unit-inactive={}", Self::REPEAT.as_secs()));
        arguments.push("--".to_owned());
        arguments.extend(self.command.iter().cloned());
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_names_its_unit_and_its_event() {
        let wake = Wake::new(&"compute/0".parse().unwrap(), "look-again");
        assert_eq!(wake.name, "compute-0-look-again");
        assert_eq!(wake.command[2..], ["compute/0", "JUJU_DISPATCH_PATH=hooks/look-again ./dispatch"]);
    }

    #[test]
    fn the_timer_is_bounded_repeats_and_can_be_seen() {
        let wake = Wake::new(&"compute/0".parse().unwrap(), "look-again");
        let arguments = wake.systemd_run_arguments().join(" ");
        let expected = "--property=RuntimeMaxSec=600 --timer-property=AccuracySec=100ms --on-active=5 --on-active=15 \
                        --on-active=35 --on-active=75 --on-unit-inactive=60 -- /usr/bin/juju-exec -u compute/0";
        assert!(arguments.contains(expected), "{arguments}");
        assert_eq!(wake.timer_file().to_str(), Some("/run/systemd/transient/compute-0-look-again.timer"));
    }

    #[test]
    fn pauses_grow_from_five_seconds_to_a_minute() {
        let mut last = Duration::ZERO;
        let mut pauses = Vec::new();
        for at in Wake::FIRST {
            pauses.push((at - last).as_secs());
            last = at;
        }
        pauses.push(Wake::REPEAT.as_secs());
        assert_eq!(pauses, [5, 10, 20, 40, 60]);
    }
}
