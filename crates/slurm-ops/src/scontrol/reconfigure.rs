//! Configuration files and slurmctld: would it read this one, and has it taken the new one.

use super::by_hand::show_nodes;
use super::{could_not_ask, scontrol};
use crate::clock;
use crate::files::{self, Access, FileError};
use crate::journal::{self, Verdict, complaint};
use crate::machine::{Host, HostWriter};
use crate::{room, store};
use slurm_conf::overrides::NodeSettings;
use std::path::Path;
use std::time::{Duration, Instant};

/// The user that slurmctld runs as.
const SLURM_USER: &str = "slurm";

/// A reconfigure of a thousand nodes and partitions takes a second; after vanished nodes, scontrol itself gives up
/// after 10 s.
const RECONFIGURE_DEADLINE: Duration = Duration::from_secs(60);
const CHECK_DEADLINE: Duration = Duration::from_secs(15);
/// A successor waits up to a minute for a file; a slow one may take as long.
const LATE_VERDICT: Duration = Duration::from_secs(80);
const LATE_LOOK: Duration = Duration::from_secs(1);

/// How a reconfigure ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconfigure {
    /// slurmctld runs with the new files.
    Accepted,
    /// slurmctld, or scontrol on its behalf, refused them; the old configuration goes on.
    Refused {
        /// What was wrong, in Slurm's words.
        reason: String,
    },
    /// Nobody could be asked, or the answer did not come. The new files may be in effect or not.
    Unknown {
        /// The last thing that was said about it.
        why: String,
    },
}

/// What Slurm's own parser thinks of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Candidate {
    /// Keys and values can be read. slurmctld may still refuse it: unknown plugins, a partition twice, unknown node
    /// sets.
    Readable,
    /// Keys or values cannot be read.
    Refused {
        /// What was wrong, in Slurm's words.
        reason: String,
    },
    /// The parser could not be asked.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// Tells why slurmctld must not be told to reconfigure now, if so. Without a state directory that it can write it would
/// die; without room there its successor would begin with the state of long ago, and forget or repeat every job of
/// since.
pub fn can_reconfigure(host: &Host, state_directory: impl AsRef<Path>) -> Result<(), String> {
    match store::is_writable(host, state_directory.as_ref(), SLURM_USER) {
        Ok(true) if !room::is_enough(host, &state_directory) => {
            Err(format!("{} is full", state_directory.as_ref().display()))
        }
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("{} cannot be written by {SLURM_USER}", state_directory.as_ref().display())),
        Err(error) => Err(error.to_string()),
    }
}

/// Has slurmctld take up the files in `/etc/slurm`, and with it every registered slurmd.
///
/// `state_directory` is where slurmctld keeps its state. If that cannot be written a reconfigure would kill the daemon,
/// so then nobody is asked.
pub fn reconfigure(writer: &HostWriter, state_directory: impl AsRef<Path>) -> Reconfigure {
    if let Err(why) = can_reconfigure(writer.host(), state_directory) {
        return Reconfigure::Unknown { why };
    }
    let began = clock::now();
    let output = match scontrol(writer.host()).arg("reconfigure").deadline(RECONFIGURE_DEADLINE).output() {
        Ok(output) => output,
        Err(error) => return Reconfigure::Unknown { why: error.to_string() },
    };
    if output.success() {
        return Reconfigure::Accepted;
    }
    if let Some(reason) = parser_complaint(&output.stderr) {
        return Reconfigure::Refused { reason };
    }
    if output.stderr.contains("Socket timed out") {
        return awaited(writer.host(), began)
            .unwrap_or_else(|| Reconfigure::Unknown { why: output.complaint().to_owned() });
    }
    if could_not_ask(&output) {
        return Reconfigure::Unknown { why: output.complaint().to_owned() };
    }
    // A client that was killed or is broken says nothing about the files.
    if !output.stderr.contains("slurm_reconfigure error") {
        return Reconfigure::Unknown { why: format!("scontrol exited with {}: {}", output.code, output.complaint()) };
    }
    // The client only ever says "Unspecified error"; the successor that failed to start wrote the reason to the
    // journal.
    Reconfigure::Refused {
        reason: journal::complaint_of_reconfigure(writer.host(), began)
            .unwrap_or_else(|| output.complaint().to_owned()),
    }
}

/// Tells whether no client on this machine gets through although slurmctld runs. One of 25.11.2 that resumes after a
/// refused reconfigure no longer serves its socket, which the successor took along, and only a restart brings it back.
pub fn is_shut_out(host: &Host) -> bool {
    let answer = scontrol(host).arg("ping").deadline(CHECK_DEADLINE).output();
    answer.is_ok_and(|output| !output.success() && output.stderr.contains("failed to connect to any sack sockets"))
}

/// Waits for how a reconfigure ends whose client has given up. Asking again would only queue behind it: slurmctld
/// serves nobody while its successor starts, and that one waits a minute for a file that is not there. `None`: the
/// journal does not tell.
fn awaited(host: &Host, began: u64) -> Option<Reconfigure> {
    let end = Instant::now() + LATE_VERDICT;
    loop {
        match journal::verdict_of_reconfigure(host, began)? {
            Verdict::Accepted => return Some(Reconfigure::Accepted),
            Verdict::Refused(reason) => return Some(Reconfigure::Refused { reason }),
            Verdict::Pending if Instant::now() >= end => return None,
            Verdict::Pending => std::thread::sleep(LATE_LOOK),
        }
    }
}

/// Has Slurm's parser read a configuration, without asking any daemon. `text` is at `path` while it is read, and gone
/// afterwards; relative `Include` lines are looked for beside it.
pub fn check(writer: &HostWriter, path: impl AsRef<Path>, text: &str) -> Result<Candidate, FileError> {
    with_candidate(writer, path.as_ref(), text, |path| parse(writer.host(), path))
}

/// Does what [`check`] does and, in the same breath, asks slurmctld about its nodes, of whose settings a reconfigure
/// takes some away: the client reads the candidate first, and reaches slurmctld by what stands in it. No settings: the
/// candidate is refused, or nobody could be asked.
pub fn check_and_ask(
    writer: &HostWriter,
    path: impl AsRef<Path>,
    text: &str,
) -> Result<(Candidate, Option<NodeSettings>), FileError> {
    with_candidate(writer, path.as_ref(), text, |path| parse_and_ask(writer.host(), path))
}

pub(crate) fn with_candidate<T>(
    writer: &HostWriter,
    path: &Path,
    text: &str,
    look: impl FnOnce(&Path) -> T,
) -> Result<T, FileError> {
    files::replace(writer, path, text.as_bytes(), &Access::own(0o600))?;
    let found = look(&writer.path(path));
    files::remove(writer, path)?;
    Ok(found)
}

/// Every client reads its configuration before it does anything, and `scontrol version` does nothing else.
pub(super) fn parse(host: &Host, path: &Path) -> Candidate {
    let command = scontrol(host).arg("version").env("SLURM_CONF", path).deadline(CHECK_DEADLINE);
    match command.output() {
        Ok(output) if output.success() => Candidate::Readable,
        Ok(output) => match parser_complaint(&output.stderr) {
            Some(reason) => Candidate::Refused { reason },
            None => Candidate::Unknown { why: output.complaint().to_owned() },
        },
        Err(error) => Candidate::Unknown { why: error.to_string() },
    }
}

fn parse_and_ask(host: &Host, path: &Path) -> (Candidate, Option<NodeSettings>) {
    let ask = || show_nodes(host).env("SLURM_CONF", path).output();
    match ask() {
        Ok(output) if output.success() => (Candidate::Readable, Some(NodeSettings::from_shown(&output.stdout))),
        Ok(output) => match parser_complaint(&output.stderr) {
            Some(reason) => (Candidate::Refused { reason }, None),
            // That slurmctld does not answer says nothing, unless it answers those who read the file in place, and them
            // alone.
            None if show_nodes(host).output().is_ok_and(|output| output.success()) => match ask() {
                Ok(output) if output.success() => (Candidate::Readable, Some(NodeSettings::from_shown(&output.stdout))),
                Ok(output) => (Candidate::Refused { reason: complaints(&output.stderr) }, None),
                Err(_) => (parse(host, path), None),
            },
            None => (parse(host, path), None),
        },
        Err(_) => (parse(host, path), None),
    }
}

/// Returns what Slurm's parser complained about, if it was the parser that gave up.
fn parser_complaint(stderr: &str) -> Option<String> {
    if !stderr.contains("Unable to process configuration file") {
        return None;
    }
    Some(complaints(stderr))
}

fn complaints(stderr: &str) -> String {
    let told: Vec<&str> =
        stderr.lines().filter_map(complaint).filter(|line| !line.contains("Unable to process")).collect();
    if told.is_empty() { "Unable to process configuration file".to_owned() } else { told.join(" / ") }
}
