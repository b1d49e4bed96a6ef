//! How a charm that waits for something is called again by itself: which command, and how often.
//!
//! Juju calls a charm when something changes in the model. What a charm waits for is often elsewhere (a daemon that
//! comes up, a grant that was lost), so a timer of the machine calls it through `juju-exec`, under an event name of
//! the charm's own. Only the description is here; the timer itself is the machine's business.

use crate::name::UnitName;
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
    /// How long one call may wait for the unit's current hook and the machine's lock: `juju-exec` has no limit of its
    /// own.
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
