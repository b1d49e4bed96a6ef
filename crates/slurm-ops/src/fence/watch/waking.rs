//! The fence of a single controller whose machine stood still, when it goes on.
//!
//! No standby can have taken over, so that what slurmctld has in its memory is right, and not all of it is saved yet.
//! But in all that time another controller may have joined, or another cluster may have adopted the store. So slurmctld
//! is held while the store is looked at, and goes on only if nobody else was there.

use super::super::daemon::Daemon;
use super::super::{PROBE, Settings, Why};
use super::{Watch, say};
use crate::clock;
use crate::files::Entry;
use crate::store::wire::{Request, Work};
use std::path::Path;
use std::time::{Duration, Instant};

/// A slurmctld that is held.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    /// How long its machine stood still.
    pub(super) stood: Duration,
    /// When it went on.
    pub(super) woke: Duration,
}

impl Watch {
    /// Lets a slurmctld that is held go on if it is the only one, and else ends it.
    pub(super) fn wake(&mut self, daemon: &dyn Daemon, settings: &Settings, next: Instant) {
        let Some(Held { stood, woke }) = self.held.take() else { return };
        // What was asked before the machine stood still says nothing about the time since.
        if self.history.last_write < woke {
            self.probe(settings, next);
        }
        let good = self.history.seen.as_ref().is_some_and(|seen| seen.is_good(settings));
        let served = self.heartbeat.is_some_and(|beat| settings.is_fresh(&beat, clock::now()));
        if self.history.last_write >= woke && good && !served && self.is_alone(settings, stood, next) {
            say(&format!("open: this machine stood still for {} s, and nobody else was here", stood.as_secs()));
            (self.history.closed, self.since) = (None, clock::now());
            self.tell();
        } else {
            self.end(daemon, settings, &Why::Frozen);
        }
        daemon.hold(&settings.service, false);
    }

    /// Finds out whether no other fence was at work on the store since the machine stood still.
    fn is_alone(&mut self, settings: &Settings, stood: Duration, next: Instant) -> bool {
        let path = self.machine.host().path(Path::new(&settings.directory));
        let found = self.have_done(&Request { path, work: Work::Entries }, next);
        let found = found.and_then(|found| serde_json::from_value::<Option<Vec<Entry>>>(found).ok().flatten());
        found.is_some_and(|entries| is_alone(&entries, &format!("{PROBE}{}", self.host_name), stood, settings.patience))
    }
}

/// Says whether all probes but the own one, which was just written, are older than what a machine stood still for, and
/// than the time in which a fence without a write ends its slurmctld. By the clock of the store alone.
fn is_alone(entries: &[Entry], own: &str, stood: Duration, patience: Duration) -> bool {
    let probes = || entries.iter().filter(|entry| entry.name.starts_with(PROBE));
    let Some(now) = probes().find(|probe| probe.name == own).map(|probe| probe.modified) else { return false };
    probes().all(|probe| probe.name == own || probe.modified + stood + 2 * patience < now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_wrote_a_probe_meanwhile_may_serve() {
        let entry = |name: &str, at| Entry { name: name.to_owned(), modified: Duration::from_secs(at) };
        let alone = |others: &[Entry]| {
            let entries = [&[entry(".probe-c1", 1000), entry("state", 1000), entry(".control", 999)], others].concat();
            is_alone(&entries, ".probe-c1", Duration::from_secs(100), Duration::from_secs(5))
        };
        assert!(alone(&[]));
        assert!(alone(&[entry(".probe-c2", 889)]), "one that left before");
        for at in [890, 950, 1000, 1001] {
            assert!(!alone(&[entry(".probe-c2", at)]), "{at}");
        }
        assert!(!is_alone(&[entry("state", 1000)], ".probe-c1", Duration::ZERO, Duration::ZERO), "it cannot be told");
    }
}
