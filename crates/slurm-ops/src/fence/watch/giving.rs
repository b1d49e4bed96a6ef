//! The fence of the controller that serves, when its primary comes back.

use super::super::Settings;
use super::super::control::{self, Stage, Way};
use super::super::daemon::{Daemon, DaemonState};
use super::{Watch, say};
use crate::store::wire::{Content, Request, Work};
use std::time::{Duration, Instant};

/// How often to look whether a daemon that was stopped has ended.
const PAUSE: Duration = Duration::from_millis(50);

impl Watch {
    /// Stops the slurmctld that serves if its primary wants control, lets the primary go on, and starts it again.
    pub(super) fn give_way(&mut self, daemon: &dyn Daemon, settings: &Settings, next: Instant) {
        if std::mem::take(&mut self.no_control) {
            self.write_control(settings, "", next);
        }
        let (service, wanted) = (&settings.service, self.wanted.take());
        let runs = || matches!(daemon.state(service), DaemonState::Runs { .. });
        if let (Some((request, seen)), None, None) = (wanted, &self.way, &self.history.closed) {
            if !runs() || !self.write_control(settings, &request.at_stage(Stage::Taken).render(), next) {
                return;
            }
            // The primary may have stopped to wait for it.
            if (self.clock)().saturating_sub(seen) > control::PROMPT {
                say(&"a request for control was answered too late");
                self.write_control(settings, &request.at_stage(Stage::TakenBack).render(), next);
                return;
            }
            say(&format!("{} comes back: slurmctld stops in order, and gives control away", request.host));
            self.way = Some(Way::Stopping(Some(request)));
            self.tell();
        }
        match self.way.clone() {
            Some(Way::Stopping(request)) => {
                // Once more does no harm: the fence may have ended before slurmctld was told.
                if runs() {
                    daemon.stop(service);
                }
                while runs() {
                    if Instant::now() + PAUSE >= next {
                        return;
                    }
                    std::thread::sleep(PAUSE);
                }
                let given = request.as_ref().map(|request| request.at_stage(Stage::Given));
                if given.is_none_or(|given| self.write_control(settings, &given.render(), next)) {
                    self.way = Some(Way::Given(Instant::now()));
                }
            }
            Some(way) if way.is_over(self.news.serving, settings) => {
                self.way = None;
                // A fence that is closed starts it when it opens.
                self.killed |= self.history.closed.is_some();
                self.tell();
                if !self.killed {
                    daemon.start(service);
                }
            }
            Some(Way::Given(_)) | None => {}
        }
    }

    /// Has the child write what became of a request for control, and tells whether it did.
    fn write_control(&mut self, settings: &Settings, text: &str, next: Instant) -> bool {
        let path = self.machine.host().path(control::path(settings));
        let owner = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        let work = Work::Replace { content: Content(text.as_bytes().to_vec()), mode: 0o600, owner };
        self.have_done(&Request { path, work }, next).is_some()
    }

    /// Has the child do something beside its probes. `None`: it could not, or has not answered in time.
    pub(super) fn have_done(&mut self, request: &Request, next: Instant) -> Option<serde_json::Value> {
        // It has nothing else to do.
        let (Some(talk), None) = (&mut self.child.talk, self.child.asked) else { return None };
        match talk.send(request, next).and_then(|()| talk.receive(next.max(Instant::now() + PAUSE))) {
            Ok(answer) => answer.ok(),
            // An answer that comes later must not be taken for that to a probe.
            Err(_) => {
                talk.kill();
                (self.child.killed, self.child.asked) = (true, Some(((self.clock)(), Instant::now())));
                None
            }
        }
    }
}
