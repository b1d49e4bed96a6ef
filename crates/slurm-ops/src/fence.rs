//! The fence: a service that lets a slurmctld serve only while what it saves is really saved.
//!
//! After a network cut a controller goes on from its old memory and overwrites what another one accepted meanwhile. So
//! beside each controller on a store runs this program, called `fence`. It has its own child write a probe once a
//! second (the fence itself never touches the store), and *closes* when no write was durable for too long, when the
//! store is not this cluster's or is not mounted, or when hardly any space is left. Closed means that slurmctld is
//! killed, and that none starts: `ExecStartPre=` is this program called `guard`. After two good probes in a row the
//! fence opens and starts the slurmctld that it had killed. A store that answers no controller at all closes nobody.
//!
//! [`decide`] says when, from what was seen; [`watch`] sees it; [`daemon`] is what follows; [`others`] are the fences
//! of the other controllers; [`install`] puts the service in place; [`guard`] asks; [`control`] is the way back of a
//! primary.

pub mod control;
pub mod daemon;
pub mod guard;
pub mod install;
pub mod others;
pub mod watch;

pub use guard::guard;
pub use install::{
    PROGRAM, SERVICE, await_word, disable, ensure_program, ensure_running, ensure_settings, is_in_place,
    is_program_current, prepare, unit_file,
};
pub use watch::run;

use crate::files::{self, Access, FileError};
use crate::heartbeat::Heartbeat;
use crate::machine::{Host, HostWriter};
use crate::sentinel;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the program is called with to be the fence.
pub const ARGUMENT: &str = "fence";
/// What the program is called with to be the guard.
pub const GUARD_ARGUMENT: &str = "guard";
/// What the fence has to know, written by the charm.
pub const SETTINGS: &str = "/var/lib/slurmctld-charm/fence.json";
/// What the fence sees, written once a second. In memory: it says nothing about the time after a boot.
pub const STATE: &str = "/run/slurmctld-charm/fence.json";
/// Before the name of the host in that of its probe.
pub const PROBE: &str = ".probe-";
/// Space that is left to Slurm. Its files become empty when a store is full.
pub const RESERVE: u64 = 16 * 1024 * 1024;

/// A few files are written at the same time.
const LEAST_FILES: u64 = 16;
/// So many good probes in a row open a fence.
const ENOUGH: u32 = 2;
/// Seconds after which a state that nobody wrote anew says nothing any more.
const STALE: u64 = 5;
const VERSION: u64 = 1;

/// What the fence has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Where the store is mounted, and probes are written.
    pub directory: String,
    /// Where slurmctld keeps its state, with the marker in it.
    pub state_directory: String,
    /// What the marker says.
    pub marker: String,
    /// How long slurmctld may serve after the last durable write.
    #[serde(rename = "patience_seconds", with = "seconds")]
    pub patience: Duration,
    /// The unit that is fenced.
    pub service: String,
    /// Bytes that have to be free.
    #[serde(default = "reserve")]
    pub reserve: u64,
    /// The hosts of the other controllers.
    #[serde(default)]
    pub others: Vec<String>,
    /// The position of this controller in slurm.conf, where there are several: the primary has zero.
    #[serde(default)]
    pub rank: Option<u64>,
    /// What calls the charm of this unit.
    #[serde(default)]
    pub call: Vec<String>,
}

fn reserve() -> u64 {
    RESERVE
}

mod seconds {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(length.as_secs())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_secs)
    }
}

impl Settings {
    /// Returns the text of the file.
    pub fn render(&self) -> String {
        serde_json::to_string(self).expect("invariant: texts and numbers have a JSON form") + "\n"
    }

    /// Reads the text of the file. `None`: it is none.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Says whether a sign of life is not older than a standby would wait for.
    fn is_fresh(&self, beat: &Heartbeat, now: u64) -> bool {
        now.saturating_sub(beat.at) <= 2 * self.patience.as_secs()
    }

    fn marker_file(&self) -> PathBuf {
        Path::new(&self.state_directory).join(sentinel::FILE)
    }
}

/// Reads the settings. `None`: there are none that can be read.
pub fn settings(host: &Host) -> Option<Settings> {
    files::read_text(host, SETTINGS).ok().flatten().as_deref().and_then(Settings::parse)
}

/// Why a fence is closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Why {
    /// No write was durable for so long.
    NoWrite {
        /// Seconds since the last one.
        for_seconds: u64,
        /// What the last attempt said, if it said anything.
        error: Option<String>,
    },
    /// The marker is not this cluster's.
    Marker {
        /// What it says. `None`: there is none.
        found: Option<String>,
    },
    /// Nothing is mounted where the store should be.
    NotMounted,
    /// Hardly any space is left.
    Full {
        /// Bytes that are.
        free: u64,
    },
    /// This machine stood still, and others may have gone on without it.
    Frozen,
}

impl fmt::Display for Why {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWrite { for_seconds, error: None } => write!(formatter, "no write for {for_seconds} s"),
            Self::NoWrite { for_seconds, error: Some(error) } => {
                write!(formatter, "no write for {for_seconds} s: {error}")
            }
            Self::Marker { found: None } => formatter.write_str("the store has no marker of a cluster"),
            Self::Marker { found: Some(found) } => write!(formatter, "the store belongs to `{found}`"),
            Self::NotMounted => formatter.write_str("the store is not mounted"),
            Self::Full { free } => write!(formatter, "the store has only {} MiB left", free / (1024 * 1024)),
            Self::Frozen => formatter.write_str("this machine stood still"),
        }
    }
}

/// Whether slurmctld may serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Open,
    Closed(Why),
}

/// What was seen so far. Times are of a clock that goes on while the machine stands still.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// When the last write was begun that turned out to be durable.
    pub last_write: Duration,
    /// When the store was last known to answer no controller at all.
    pub silent_for_all: Duration,
    /// When slurmctld itself wrote its sign of life, as another controller saw it.
    pub vouched: Duration,
    /// When anybody looked at the clock for the last time.
    pub last_look: Duration,
    /// What the last probe saw that was answered. `None`: none was yet.
    pub seen: Option<Seen>,
    /// Probes in a row that were good.
    pub good: u32,
    /// Why it is closed, if it is.
    pub closed: Option<Why>,
}

/// What one probe saw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    pub mounted: bool,
    pub marker: Option<String>,
    /// Bytes that are free, as far as the store says.
    pub free: Option<u64>,
    pub free_files: Option<u64>,
    /// There was no room for the probe, whatever the store says of its space: a quota shows nowhere else.
    pub full: bool,
    /// Why the write, or the look after it, did not work.
    pub error: Option<String>,
}

impl Seen {
    /// Says what is wrong with the store, other than time.
    fn objection(&self, settings: &Settings) -> Option<Why> {
        let marker = self.marker.as_deref().map(str::trim);
        match () {
            () if !self.mounted => Some(Why::NotMounted),
            () if self.full => Some(Why::Full { free: 0 }),
            // What an error kept from being seen is neither right nor wrong. Time tells.
            () if self.error.is_some() => None,
            () if marker != Some(settings.marker.trim()) => {
                Some(Why::Marker { found: marker.map(|found| found.chars().take(200).collect()) })
            }
            () if self.free.is_some_and(|free| free < settings.reserve)
                || self.free_files.is_some_and(|files| files < LEAST_FILES) =>
            {
                Some(Why::Full { free: self.free.unwrap_or(0) })
            }
            () => None,
        }
    }

    /// Tells whether everything is as it should be.
    pub(crate) fn is_good(&self, settings: &Settings) -> bool {
        self.error.is_none() && self.objection(settings).is_none()
    }
}

/// Decides whether slurmctld may serve at the time `now`.
pub fn decide(now: Duration, history: &History, settings: &Settings) -> Verdict {
    // Where nobody can write, nobody takes over; nor from a slurmctld that can, although its fence cannot.
    let age = now.saturating_sub(history.last_write.max(history.silent_for_all).max(history.vouched));
    if age > settings.patience {
        // Nobody looked for most of that time, so nobody could have closed it before.
        if now.saturating_sub(history.last_look) > age / 2 || history.closed == Some(Why::Frozen) {
            return Verdict::Closed(Why::Frozen);
        }
        let error = history.seen.as_ref().and_then(|seen| seen.error.clone());
        let for_seconds = now.saturating_sub(history.last_write).as_secs();
        return Verdict::Closed(Why::NoWrite { for_seconds, error });
    }
    if let Some(why) = history.seen.as_ref().and_then(|seen| seen.objection(settings)) {
        return Verdict::Closed(why);
    }
    match &history.closed {
        Some(why) if history.good < ENOUGH => Verdict::Closed(why.clone()),
        _ => Verdict::Open,
    }
}

/// A fence that lets serve, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    Open,
    Closed,
}

/// What a fence says about itself. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceState {
    version: u64,
    pub state: Gate,
    /// Since when it is open or closed.
    pub since: u64,
    /// Why it is closed.
    pub why: Option<Why>,
    /// When the last durable write was begun. `None`: there was none since the fence was started.
    pub last_write: Option<u64>,
    /// How long probes took, of the last sixty: most of them, and the slowest.
    pub median_ms: u64,
    pub worst_ms: u64,
    /// Bytes that are free, and bytes in all.
    pub free: u64,
    pub total: u64,
    /// Another one after each boot.
    pub boot_id: String,
    /// When this was written.
    pub written: u64,
    /// The last durable write once more, in milliseconds of the clock that counts from boot.
    last_write_boot_ms: u64,
    /// The fence has killed slurmctld, and will start it.
    pub killed: bool,
    /// The fence has stopped slurmctld for a primary that comes back, and will start it.
    #[serde(default)]
    pub gave_way: bool,
    /// Nobody has written it anew for a while: the fence does not run.
    #[serde(skip)]
    pub stale: bool,
}

impl FenceState {
    /// Returns an open one, as of a fence that has just begun at a time in seconds since 1970.
    pub fn opened(at: u64) -> Self {
        Self {
            version: VERSION,
            state: Gate::Open,
            since: at,
            why: None,
            last_write: Some(at),
            median_ms: 0,
            worst_ms: 0,
            free: 0,
            total: 0,
            boot_id: String::new(),
            written: at,
            last_write_boot_ms: 0,
            killed: false,
            gave_way: false,
            stale: false,
        }
    }

    /// Tells whether slurmctld may serve.
    pub fn is_open(&self) -> bool {
        self.state == Gate::Open && !self.stale
    }

    /// Returns the text of the file.
    pub fn render(&self) -> String {
        serde_json::to_string(self).expect("invariant: texts and numbers have a JSON form") + "\n"
    }

    /// Reads the text of the file, as it is at a time in seconds since 1970.
    fn parse(text: &str, now: u64) -> Option<Self> {
        let state: Self = serde_json::from_str(text).ok()?;
        let stale = now.abs_diff(state.written) > STALE;
        (state.version == VERSION).then_some(Self { stale, ..state })
    }
}

/// Leaves a file of this boot beside what the fence says.
fn leave(writer: &HostWriter, path: &str, content: &[u8]) -> Result<bool, FileError> {
    let directory = path.rsplit_once('/').map_or("/run", |(directory, _)| directory);
    files::ensure_directory(writer, directory, &Access::own(0o755))?;
    files::replace(writer, path, content, &Access::own(0o644))
}

/// Reads what the fence says. `None`: there is none, or it says nothing that can be read.
pub fn look(host: &Host) -> Option<FenceState> {
    FenceState::parse(&files::read_text(host, STATE).ok().flatten()?, host.now())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            directory: "/store".to_owned(),
            state_directory: "/store/state".to_owned(),
            marker: "lab".to_owned(),
            patience: Duration::from_secs(30),
            service: "slurmctld.service".to_owned(),
            reserve: 1000,
            others: Vec::new(),
            rank: None,
            call: Vec::new(),
        }
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn the_table_of_decisions() {
        let good = Seen { mounted: true, marker: Some("lab\n".to_owned()), free: Some(1000), ..Seen::default() };
        let history = History {
            last_write: seconds(100),
            silent_for_all: seconds(0),
            vouched: seconds(0),
            last_look: seconds(129),
            seen: Some(good.clone()),
            good: 9,
            closed: None,
        };
        let with = |seen: Seen| History { seen: Some(seen), ..history.clone() };
        let failed = Seen { error: Some("Input/output error".to_owned()), marker: None, free: None, ..good.clone() };
        let no_write = |error: Option<&str>| Why::NoWrite { for_seconds: 31, error: error.map(str::to_owned) };
        let shut = |good| History { closed: Some(Why::NotMounted), good, ..history.clone() };
        let cases = [
            ("a fresh write", 101, history.clone(), None),
            ("as late as may be", 130, history.clone(), None),
            ("too late", 131, History { last_look: seconds(130), ..history.clone() }, Some(no_write(None))),
            (
                "too late, with a reason",
                131,
                History { last_look: seconds(130), ..with(failed.clone()) },
                Some(no_write(Some("Input/output error"))),
            ),
            ("an error alone closes nothing", 110, with(failed), None),
            (
                "silent for everybody a moment ago",
                500,
                History { last_look: seconds(499), silent_for_all: seconds(498), ..history.clone() },
                None,
            ),
            (
                "and then for longer than may be",
                529,
                History { last_look: seconds(528), silent_for_all: seconds(498), ..history.clone() },
                Some(Why::NoWrite { for_seconds: 429, error: None }),
            ),
            (
                "slurmctld was seen to write",
                150,
                History { last_look: seconds(149), vouched: seconds(120), ..history.clone() },
                None,
            ),
            (
                "and then no more",
                151,
                History { last_look: seconds(150), vouched: seconds(120), ..history.clone() },
                Some(Why::NoWrite { for_seconds: 51, error: None }),
            ),
            ("a machine that stood still", 500, history.clone(), Some(Why::Frozen)),
            (
                "one that did, and whose store has not answered yet",
                502,
                History { last_look: seconds(501), closed: Some(Why::Frozen), ..history.clone() },
                Some(Why::Frozen),
            ),
            (
                "one that had tried for long before it stood still",
                140,
                History { last_look: seconds(135), ..history.clone() },
                Some(Why::NoWrite { for_seconds: 40, error: None }),
            ),
            (
                "another cluster",
                110,
                with(Seen { marker: Some("other\n".to_owned()), ..good.clone() }),
                Some(Why::Marker { found: Some("other".to_owned()) }),
            ),
            ("no marker", 110, with(Seen { marker: None, ..good.clone() }), Some(Why::Marker { found: None })),
            ("nothing mounted", 110, with(Seen { mounted: false, ..good.clone() }), Some(Why::NotMounted)),
            ("full", 110, with(Seen { free: Some(999), ..good.clone() }), Some(Why::Full { free: 999 })),
            (
                "no room for the probe",
                110,
                with(Seen { full: true, error: Some("Disk quota exceeded".to_owned()), ..good.clone() }),
                Some(Why::Full { free: 0 }),
            ),
            ("a store that does not say", 110, with(Seen { free: None, ..good.clone() }), None),
            ("no more files", 110, with(Seen { free_files: Some(15), ..good.clone() }), Some(Why::Full { free: 1000 })),
            ("files enough", 110, with(Seen { free_files: Some(16), ..good.clone() }), None),
            ("nothing seen yet", 110, History { seen: None, ..history.clone() }, None),
            ("closed, and one good probe", 110, shut(1), Some(Why::NotMounted)),
            ("closed, and two", 110, shut(2), None),
        ];
        for (name, now, history, expected) in cases {
            let expected = expected.map_or(Verdict::Open, Verdict::Closed);
            assert_eq!(decide(seconds(now), &history, &settings()), expected, "{name}");
        }
    }

    #[test]
    fn settings_are_read_back_and_space_is_kept_unless_told_otherwise() {
        assert_eq!(Settings::parse(&settings().render()), Some(settings()));
        let text = r#"{"directory":"/a","state_directory":"/a/b","marker":"m","patience_seconds":60,"service":"s"}"#;
        assert_eq!(Settings::parse(text).map(|settings| settings.reserve), Some(RESERVE));
        assert_eq!(Settings::parse("{}"), None);
    }

    #[test]
    fn a_state_that_nobody_writes_is_stale() {
        let state = FenceState { why: Some(Why::Full { free: 7 }), ..FenceState::opened(1000) };
        let read = |now| FenceState::parse(&state.render(), now);
        assert_eq!(read(1005), Some(state.clone()));
        assert!(read(1005).unwrap().is_open() && !read(1006).unwrap().is_open() && !read(900).unwrap().is_open());
        for text in ["", "{}", &state.render().replace("\"version\":1", "\"version\":2")] {
            assert_eq!(FenceState::parse(text, 1000), None, "{text}");
        }
    }
}
