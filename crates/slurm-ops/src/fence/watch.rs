//! The fence at work: once a second a probe, a decision, and what follows from it.
//!
//! Nothing here touches the store. The child does, and while it is held by one that does not answer, time goes on and
//! decides.

mod giving;
mod waking;

use super::control::{self, Request as ControlRequest, Way};
use super::daemon::{Daemon, DaemonState, Service};
use super::others::{self, Network, Nobody, Others, Own};
use super::{
    FenceState, Gate, History, PROBE, STATE, Seen, Settings, VERSION, Verdict, Why, decide, leave, look, settings,
};
use crate::clock;
use crate::files;
use crate::heartbeat::{self, Heartbeat};
use crate::hostname;
use crate::machine::Machine;
use crate::mounts::{self, Mount};
use crate::store::child::{Talk, left_behind, remember};
use crate::store::wire::{Beat, Request, Work};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often to probe.
pub const RHYTHM: Duration = Duration::from_secs(1);
/// When to end a child that does not answer, for those file systems that let go of a process that is killed.
const ABANDON: Duration = Duration::from_secs(10);
/// When to kill the same process once more.
const TELL_AGAIN: Duration = Duration::from_secs(10);
/// Where the child is noted, so that a fence that is started anew does not start another one beside it.
const CHILD: &str = "/run/slurmctld-charm/fence-child";
/// How many probes are remembered.
const REMEMBERED: usize = 60;
/// What a fence that did not run for a while gives the store before it closes.
const GRACE: Duration = Duration::from_secs(3);
/// A controller whose last write is older than this cannot write now.
const CANNOT_WRITE: Duration = Duration::from_secs(2);
/// When to try again to call.
const CALL_AGAIN: Duration = Duration::from_secs(5);

/// Is the fence, for as long as the process lives.
pub fn run() -> ExitCode {
    let machine = Machine::new();
    let daemon = Service::new(machine.clone());
    let network = Network::start(&machine, others::PORT, boot_time);
    let mut watch = Watch::new(machine).with_others(network);
    loop {
        let next = Instant::now() + RHYTHM;
        watch.turn(&daemon, next);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Says something to the journal: systemd keeps what a service writes to its standard error.
pub(super) fn say(what: &dyn std::fmt::Display) {
    eprintln!("{what}");
}

/// Returns the time since boot, with all of it in which the machine stood still.
pub(crate) fn boot_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}

/// A fence with what it knows.
#[derive(Debug)]
pub struct Watch {
    machine: Machine,
    /// With when their file was written.
    settings: Option<(Settings, Option<Duration>)>,
    history: History,
    child: Probe,
    /// The fence killed the daemon.
    killed: bool,
    /// Which process was killed last, and when.
    told: Option<(Option<u32>, Instant)>,
    /// Since when it is open or closed, in seconds since 1970.
    since: u64,
    /// In milliseconds, the last one last.
    taken: VecDeque<u64>,
    space: (u64, u64),
    boot_id: String,
    /// A durable write was seen since the start, in seconds since 1970.
    last_write: Option<u64>,
    host_name: String,
    clock: fn() -> Duration,
    others: Box<dyn Others>,
    /// The store does not answer the last probe.
    silent: bool,
    /// There was a fresh sign of life when the store answered last, which a single controller does not give.
    several: bool,
    /// The last sign of life that was seen, however old.
    heartbeat: Option<Heartbeat>,
    /// What the charm was called for, or is to be called for since a moment.
    news: News,
    call: Option<Instant>,
    /// A primary wants control, and the controller that serves is this one. With when the look was begun that saw it.
    wanted: Option<(ControlRequest, Duration)>,
    /// There is no file for such requests yet.
    no_control: bool,
    /// How far that is.
    way: Option<Way>,
    /// This machine stood still, and slurmctld is held until the store was looked at.
    held: Option<waking::Held>,
}

/// What a charm has to know at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct News {
    closed: bool,
    /// The store has not answered for long, and no other controller either.
    unanswered: bool,
    /// Which controller serves, by its place in slurm.conf.
    serving: Option<u64>,
}

/// The child and what it was asked.
#[derive(Debug, Default)]
struct Probe {
    talk: Option<Talk>,
    /// When, by the clock of the fence and by that of the process.
    asked: Option<(Duration, Instant)>,
    killed: bool,
}

impl Watch {
    /// Returns a fence that goes on where the one before it stopped.
    pub fn new(machine: Machine) -> Self {
        Self::with_clock(machine, boot_time)
    }

    /// Returns one with another clock.
    pub fn with_clock(machine: Machine, clock: fn() -> Duration) -> Self {
        let host = machine.host();
        let boot_id = files::read_text(&host, "/proc/sys/kernel/random/boot_id").ok().flatten().unwrap_or_default();
        let boot_id = boot_id.trim().to_owned();
        let now = clock();
        let mut watch = Self {
            settings: None,
            history: History {
                last_write: now,
                silent_for_all: Duration::ZERO,
                vouched: Duration::ZERO,
                last_look: now,
                seen: None,
                good: 0,
                closed: None,
            },
            child: Probe::default(),
            killed: false,
            told: None,
            since: clock::now(),
            taken: VecDeque::new(),
            space: (0, 0),
            last_write: None,
            host_name: hostname::short(&host).map_or_else(|_| "unknown".to_owned(), |name| name.to_string()),
            clock,
            others: Box::new(Nobody),
            silent: false,
            several: false,
            heartbeat: None,
            news: News::default(),
            call: None,
            wanted: None,
            no_control: false,
            way: None,
            held: None,
            boot_id,
            machine,
        };
        watch.read_settings();
        if let Some(before) = look(&host).filter(|before| before.boot_id == watch.boot_id) {
            watch.go_on(&before, now);
        }
        watch
    }

    /// Has it ask others.
    #[must_use]
    pub fn with_others(mut self, others: impl Others + 'static) -> Self {
        self.others = Box::new(others);
        self
    }

    /// Takes up what the fence before knew. After a while without one, nobody knows what the store did meanwhile: it is
    /// given a moment to show.
    fn go_on(&mut self, before: &FenceState, now: Duration) {
        let patience = self.settings.as_ref().map_or(Duration::ZERO, |(settings, _)| settings.patience);
        let last_write = Duration::from_millis(before.last_write_boot_ms);
        let least = now.saturating_sub(patience.saturating_sub(GRACE));
        self.history.last_write = if before.stale { last_write.max(least) } else { last_write };
        self.history.closed = before.why.clone().filter(|_| before.state == Gate::Closed);
        (self.killed, self.since) = (before.killed, before.since);
        self.news.closed = before.state == Gate::Closed;
        self.way = before.gave_way.then_some(Way::Stopping(None));
    }

    /// Probes, decides, says so and acts, within the time until `next`.
    pub fn turn(&mut self, daemon: &dyn Daemon, next: Instant) {
        self.read_settings();
        let Some((settings, _)) = self.settings.clone() else { return };
        // First of all the clock: this machine may have stood still.
        self.judge(daemon, &settings, true);
        self.probe(&settings, next);
        self.wake(daemon, &settings, next);
        self.ask_others(&settings);
        self.judge(daemon, &settings, false);
        self.give_way(daemon, &settings, next);
        self.call(daemon, &settings);
    }

    /// Finds out whether the store answers any controller. Without others nobody takes over.
    fn ask_others(&mut self, settings: &Settings) {
        let (cluster, last_write, heartbeat) = (settings.marker.clone(), self.history.last_write, self.heartbeat);
        self.others.tell(Own { cluster, last_write, heartbeat });
        // A list of others that is not known yet is not "none".
        if !self.silent || (settings.others.is_empty() && self.several) {
            return;
        }
        self.others.ask(&settings.marker, &settings.others);
        // By the clock of this machine, which wrote it.
        let own = |beat: &Heartbeat| Some(beat.controller) == settings.rank;
        let seen = settings.others.iter().filter_map(|host| self.others.heard(host)?.heartbeat.filter(own));
        if let Some(at) = seen.map(|beat| beat.at).max() {
            let age = Duration::from_secs(clock::now().saturating_sub(at) + 1);
            self.history.vouched = self.history.vouched.max((self.clock)().saturating_sub(age));
        }
        let cannot_write = |host: &String| self.others.heard(host).filter(|heard| heard.age > CANNOT_WRITE);
        let heard: Option<Vec<Duration>> =
            settings.others.iter().map(|host| cannot_write(host).map(|heard| heard.asked)).collect();
        if let Some(heard) = heard {
            let all = heard.into_iter().min().unwrap_or_else(self.clock);
            self.history.silent_for_all = self.history.silent_for_all.max(all);
        }
    }

    /// Calls the charm when there is news.
    fn call(&mut self, daemon: &dyn Daemon, settings: &Settings) {
        let unanswered = (self.clock)().saturating_sub(self.history.last_write) > settings.patience;
        let news = News { closed: self.history.closed.is_some(), unanswered, ..self.news };
        if self.news != news {
            (self.news, self.call) = (news, Some(Instant::now()));
        }
        let due = self.call.is_some_and(|at| at <= Instant::now());
        if due && !settings.call.is_empty() {
            self.call = if daemon.call(&settings.call) { None } else { Some(Instant::now() + CALL_AGAIN) };
        }
    }

    fn read_settings(&mut self) {
        let host = self.machine.host();
        let written = files::modified(&host, super::SETTINGS).ok().flatten();
        if self.settings.as_ref().is_some_and(|(_, known)| *known == written) {
            return;
        }
        // A file that cannot be read changes nothing.
        if let Some(settings) = settings(&host) {
            // Their names are looked up before they are needed.
            self.others.ask(&settings.marker, &settings.others);
            self.settings = Some((settings, written));
        }
    }

    /// Decides, and says so before anything follows from it: the guard of a daemon that is started reads what is said.
    /// A daemon that runs although the fence was closed before is only looked for if `again`.
    fn judge(&mut self, daemon: &dyn Daemon, settings: &Settings, again: bool) {
        let now = (self.clock)();
        let verdict = decide(now, &self.history, settings);
        let stood = now.saturating_sub(std::mem::replace(&mut self.history.last_look, now));
        let was_closed = self.history.closed.is_some();
        self.history.closed = match &verdict {
            Verdict::Closed(why) => Some(why.clone()),
            Verdict::Open => None,
        };
        if was_closed != self.history.closed.is_some() {
            (self.since, self.history.good) = (clock::now(), 0);
            say(&self.history.closed.as_ref().map_or_else(|| "open".to_owned(), |why| format!("closed: {why}")));
        }
        if self.history.seen.is_some() || self.history.closed.is_some() {
            self.tell();
        }
        match verdict {
            // Nobody takes over from a single one: it is looked first whether it still is one.
            Verdict::Closed(Why::Frozen) if !was_closed && settings.others.is_empty() => {
                daemon.hold(&settings.service, true);
                self.held = Some(waking::Held { stood, woke: now });
            }
            Verdict::Closed(why) if again || !was_closed => {
                // Clients have waited for a machine that stood still. What they are told now would be lost.
                let held = why == Why::Frozen;
                if held {
                    daemon.hold(&settings.service, true);
                }
                self.end(daemon, settings, &why);
                if held {
                    daemon.hold(&settings.service, false);
                }
            }
            Verdict::Open if was_closed => {
                if self.killed || daemon.state(&settings.service) == DaemonState::Failed {
                    daemon.start(&settings.service);
                }
                (self.killed, self.told) = (false, None);
            }
            Verdict::Closed(_) | Verdict::Open => {}
        }
    }

    /// Kills the daemon if it runs. One that is held by the store ends only when that answers, so the same process is
    /// not told every second. One with enough space left is given the time to save its state; with less its files would
    /// become empty.
    fn end(&mut self, daemon: &dyn Daemon, settings: &Settings, why: &Why) {
        let service = &settings.service;
        let pid = match daemon.state(service) {
            DaemonState::Runs { pid } => Some(pid),
            // It may run.
            DaemonState::Unknown => None,
            DaemonState::Stopped | DaemonState::Failed => return,
        };
        let told = self.told.is_some_and(|(to, at)| to == pid && at.elapsed() < TELL_AGAIN);
        if !told {
            let first = self.told.is_none_or(|(to, _)| to != pid);
            match why {
                Why::Full { free } if first && *free >= settings.reserve / 2 => daemon.stop(service),
                _ => daemon.kill(service),
            }
            (self.killed, self.told) = (true, Some((pid, Instant::now())));
        }
    }

    /// Asks the child, or waits for the answer to an earlier question, until `next`.
    fn probe(&mut self, settings: &Settings, next: Instant) {
        if self.child.asked.is_none() && !self.ask(settings, next) {
            return;
        }
        let (Some(talk), Some((began, sent))) = (&mut self.child.talk, self.child.asked) else { return };
        match talk.receive(next) {
            Ok(answer) => {
                (self.child.asked, self.silent) = (None, false);
                let took = u64::try_from(sent.elapsed().as_millis()).unwrap_or(u64::MAX);
                self.taken.push_back(took);
                if self.taken.len() > REMEMBERED {
                    self.taken.pop_front();
                }
                let beat = answer.map_err(|failure| failure.to_string()).and_then(|beat| {
                    serde_json::from_value::<Beat>(beat).map_err(|_| "an answer that cannot be read".to_owned())
                });
                self.take(settings, began, beat.unwrap_or_else(Beat::failed));
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                self.silent = true;
                if sent.elapsed() > ABANDON && !self.child.killed {
                    talk.kill();
                    self.child.killed = true;
                }
            }
            // It has ended, as one does that was killed once the store lets go of it.
            Err(_) => {
                let why = if self.child.killed { "the store did not answer" } else { "the child has ended" };
                if talk.has_ended() {
                    self.child = Probe::default();
                }
                self.take(settings, began, Beat::failed(why.to_owned()));
            }
        }
    }

    /// Starts a child if there is none, and asks it. Tells whether there is an answer to wait for.
    fn ask(&mut self, settings: &Settings, next: Instant) -> bool {
        let host = self.machine.host();
        if self.child.talk.is_none() {
            let note = host.path(CHILD);
            // One of the fence before may still wait for the store. Where a signal ends that, it does.
            if let Some(process) = left_behind(&note) {
                process.kill();
                return false;
            }
            match Talk::start(host.program()) {
                Ok(talk) => {
                    let _ = remember(talk.id(), &note);
                    self.child = Probe { talk: Some(talk), ..Probe::default() };
                }
                Err(error) => say(&format!("could not start a child: {error}")),
            }
        }
        let Some(talk) = &mut self.child.talk else { return false };
        let began = (self.clock)();
        let probe = Path::new(&settings.directory).join(format!("{PROBE}{}", self.host_name));
        let heartbeat = host.path(Path::new(&settings.state_directory).join(heartbeat::FILE));
        let (marker, expected) = (host.path(settings.marker_file()), settings.marker.clone());
        let control = host.path(control::path(settings));
        let work = Work::Beat { stamp: clock::now(), marker, expected, heartbeat, control };
        match talk.send(&Request { path: host.path(probe), work }, next) {
            Ok(()) => {
                self.child.asked = Some((began, Instant::now()));
                true
            }
            Err(_) => {
                talk.kill();
                if talk.has_ended() {
                    self.child = Probe::default();
                }
                false
            }
        }
    }

    /// Takes in what a probe found that was begun at a time.
    fn take(&mut self, settings: &Settings, began: Duration, beat: Beat) {
        let mount = mounts::mount_at(&self.machine.host(), &settings.directory);
        let mounted = matches!(mount, Ok(Mount::Mounted { .. }));
        let fresh = |beat: &Heartbeat| settings.is_fresh(beat, clock::now());
        let serving = beat.heartbeat.filter(fresh).map(|beat| beat.controller);
        self.several = serving.is_some();
        self.heartbeat = beat.heartbeat;
        let serves = serving.is_some() && serving == settings.rank;
        let request = beat.control.as_deref().filter(|_| serves && serving != Some(0)).and_then(ControlRequest::parse);
        let request = request.filter(|request| request.is_open(settings, clock::now()));
        self.wanted = request.map(|request| (request, began));
        self.no_control = beat.written && beat.control.is_none();
        if serves && files::exists(&self.machine.host(), control::ASKED) {
            let _ = files::remove(&self.machine.writer(), control::ASKED);
        }
        if serving.is_some() && serving != self.news.serving {
            // The first one that is seen is no news: the charm was there when it began.
            if self.news.serving.is_some() {
                self.call = Some(Instant::now());
            }
            self.news.serving = serving;
        }
        // Some file systems know nothing of their size.
        let space = beat.space.filter(|space| space.total > 0);
        let seen = Seen {
            mounted,
            marker: beat.marker,
            free: space.map(|space| space.free),
            free_files: space.and_then(|space| space.free_files),
            full: beat.full,
            error: beat.error,
        };
        if let Some(space) = space {
            self.space = (space.free, space.total);
        }
        if mounted && beat.written {
            self.history.last_write = self.history.last_write.max(began);
            self.last_write = Some(clock::now().saturating_sub((self.clock)().saturating_sub(began).as_secs()));
        }
        self.history.good = if seen.is_good(settings) { self.history.good.saturating_add(1) } else { 0 };
        self.history.seen = Some(seen);
    }

    /// Leaves what is known in a file.
    fn tell(&self) {
        let waiting = self.child.asked.map_or(0, |(_, sent)| u64::try_from(sent.elapsed().as_millis()).unwrap_or(0));
        let mut sorted: Vec<u64> = self.taken.iter().copied().collect();
        sorted.sort_unstable();
        let state = FenceState {
            version: VERSION,
            state: if self.history.closed.is_some() { Gate::Closed } else { Gate::Open },
            since: self.since,
            why: self.history.closed.clone(),
            last_write: self.last_write,
            median_ms: sorted.get(sorted.len() / 2).copied().unwrap_or(0),
            worst_ms: sorted.last().copied().unwrap_or(0).max(waiting),
            free: self.space.0,
            total: self.space.1,
            boot_id: self.boot_id.clone(),
            written: clock::now(),
            last_write_boot_ms: u64::try_from(self.history.last_write.as_millis()).unwrap_or(u64::MAX),
            killed: self.killed,
            gave_way: self.way.is_some(),
            stale: false,
        };
        let writer = self.machine.writer();
        if let Err(error) = leave(&writer, STATE, state.render().as_bytes()) {
            say(&error);
        }
    }
}
