//! The way back: a primary that comes back asks for control through the store, before its slurmctld starts.
//!
//! Slurm has the primary ask the backup itself, and nobody is served for half a minute. A backup that is stopped in
//! order before saves its state in a moment. [`ask`] is the side of the primary, in the guard; [`Way`] is that of the
//! fence whose slurmctld serves. Both write into one file that is always there: a client of a network file system may
//! not see for long that a file was made, and sees at once that it has another content.
//!
//! ```text
//! primary   wanted ───────────────────────────────────────▶ starts
//! serves            ▶ taken: slurmctld stops ▶ given ▶ starts again, as a standby
//! ```
//!
//! A primary that nobody answers takes its request back. If the other one took it in the same moment, that shows within
//! [`GRACE`]: a fence whose answer took longer than [`PROMPT`] does nothing.

use super::watch::say;
use super::{Settings, leave};
use crate::files::{self, Access};
use crate::heartbeat::{self, Heartbeat};
use crate::machine::HostWriter;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file, where the store is mounted.
pub const FILE: &str = ".control";
/// A note of this boot: control was asked for, and slurmctld has not served since.
pub const ASKED: &str = "/run/slurmctld-charm/asked-for-control";

/// Seconds after which a request says nothing any more.
const FRESH: u64 = 30;
/// How long a fence may take between its look at a request and the word that it takes it.
pub(super) const PROMPT: Duration = Duration::from_secs(1);
/// How long a primary that took its request back waits for a fence that took it in the same moment. What another
/// machine wrote may be seen some seconds later.
const GRACE: Duration = Duration::from_secs(4);
/// How long the fence of the other controller may take to hear of it: it looks once a second.
const PATIENCE: Duration = Duration::from_secs(6);
/// How long slurmctld may take to save its state. A start has 90 seconds in all.
const SAVES: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);
/// How long a slurmctld that gave way waits for the primary to serve.
const GIVE_UP: Duration = Duration::from_secs(10);

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    Wanted,
    /// The primary goes on without.
    TakenBack,
    /// The other slurmctld was told to stop, and saves its state.
    Taken,
    /// It has ended.
    Given,
}

/// What is in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The host of the primary.
    pub host: String,
    /// When it asked, in seconds since 1970.
    pub at: u64,
    pub stage: Stage,
}

impl Request {
    /// Returns the text of the file.
    pub fn render(&self) -> String {
        serde_json::to_string(self).expect("invariant: texts and numbers have a JSON form") + "\n"
    }

    /// Reads the text of the file. `None`: nobody has asked yet.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Says whether another controller wants control now.
    pub(super) fn is_open(&self, settings: &Settings, now: u64) -> bool {
        self.stage == Stage::Wanted && now.abs_diff(self.at) <= FRESH && settings.others.contains(&self.host)
    }

    #[must_use]
    pub(super) fn at_stage(&self, stage: Stage) -> Self {
        Self { stage, ..self.clone() }
    }
}

/// Returns the path of the file.
pub(super) fn path(settings: &Settings) -> PathBuf {
    Path::new(&settings.directory).join(FILE)
}

/// Says whether another controller serves now, by the heartbeat.
fn is_served_by_another(heartbeat: Option<Heartbeat>, settings: &Settings, now: u64) -> bool {
    heartbeat.is_some_and(|beat| settings.is_fresh(&beat, now) && Some(beat.controller) != settings.rank)
}

/// Asks the controller that serves in place of this primary to stop in order, and waits until it has, or until nobody
/// answers. Asks nobody if nobody serves, or if this is no primary. Fails only while another one saves its state.
pub fn ask(writer: &HostWriter, settings: &Settings, own: &str) -> Result<(), String> {
    let (host, path) = (writer.host(), path(settings));
    let serves = || heartbeat::heartbeat(host, &settings.state_directory).ok().flatten();
    if settings.rank != Some(0) || files::exists(host, ASKED) || !is_served_by_another(serves(), settings, host.now()) {
        return Ok(());
    }
    let request = Request { host: own.to_owned(), at: host.now(), stage: Stage::Wanted };
    let write = |request: &Request| files::replace(writer, &path, request.render().as_bytes(), &Access::own(0o600));
    if let Err(error) = leave(writer, ASKED, b"").and_then(|_| write(&request)) {
        say(&error);
        return Ok(());
    }
    // The stage that it is at when it is none of these any more, or when time is up.
    let after = |stages: &[Stage], patience: Duration| {
        let end = Instant::now() + patience;
        loop {
            let text = files::read_text(host, &path).ok().flatten().unwrap_or_default();
            let stage = Request::parse(&text).filter(|found| found.at == request.at).map(|found| found.stage);
            if !stage.is_some_and(|stage| stages.contains(&stage)) || Instant::now() >= end {
                return stage;
            }
            std::thread::sleep(PAUSE);
        }
    };
    let mut stage = after(&[Stage::Wanted], PATIENCE);
    if stage == Some(Stage::Wanted) {
        say(&"the controller that serves does not answer: Slurm itself asks it for control");
        if let Err(error) = write(&request.at_stage(Stage::TakenBack)) {
            say(&error);
        }
        stage = after(&[Stage::Wanted, Stage::TakenBack], GRACE);
    }
    if stage == Some(Stage::Taken) && after(&[Stage::Taken], SAVES) == stage {
        return Err("the controller that serves still saves its state".to_owned());
    }
    Ok(())
}

/// How far a fence is whose slurmctld gives control away.
#[derive(Debug, Clone)]
pub(super) enum Way {
    /// slurmctld was told to stop, and saves its state. What was asked, if that is still known.
    Stopping(Option<Request>),
    /// It has ended at this time.
    Given(Instant),
}

impl Way {
    /// Says whether slurmctld is to start again: the primary serves, or does not come.
    pub(super) fn is_over(&self, serving: Option<u64>, settings: &Settings) -> bool {
        let Self::Given(at) = self else { return false };
        serving.is_some_and(|serving| Some(serving) != settings.rank) || at.elapsed() > GIVE_UP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(rank: u64) -> Settings {
        let text = r#"{"directory":"/a","state_directory":"/a/b","marker":"m","patience_seconds":5,"service":"s"}"#;
        Settings { rank: Some(rank), others: vec!["c1".to_owned()], ..Settings::parse(text).unwrap() }
    }

    #[test]
    fn a_request_counts_while_it_is_fresh_and_of_a_controller() {
        let of = |host: &str, at, stage| Request { host: host.to_owned(), at, stage };
        let counts = |request: Request| {
            let read = Request::parse(&request.render()).unwrap();
            assert_eq!(read, request);
            read.is_open(&settings(1), 100)
        };
        assert!(counts(of("c1", 70, Stage::Wanted)) && counts(of("c1", 130, Stage::Wanted)));
        assert!(!counts(of("c1", 69, Stage::Wanted)) && !counts(of("c9", 100, Stage::Wanted)));
        for stage in [Stage::TakenBack, Stage::Taken, Stage::Given] {
            assert!(!counts(of("c1", 100, stage)), "{stage:?}");
        }
        for text in ["", "{}", "given"] {
            assert_eq!(Request::parse(text), None);
        }
    }

    #[test]
    fn a_primary_asks_while_another_one_gives_signs_of_life() {
        let served = |at, controller| is_served_by_another(Some(Heartbeat { at, controller }), &settings(0), 100);
        assert!(served(90, 1) && served(100, 2));
        assert!(!served(89, 1) && !served(100, 0) && !is_served_by_another(None, &settings(0), 100));
    }
}
