//! The note in a state directory that says which cluster it belongs to. Written once, when the cluster is born, and
//! never again.
//!
//! slurmctld starts on an empty directory as if there had never been a job, and the jobs that run are then killed as
//! orphans. So nobody may start it before this note was found and read.

use crate::command::CommandError;
use crate::files::{self, Access, FileError};
use crate::machine::{Host, HostWriter, MachineError};
use crate::mounts;
use crate::store;
use std::fs;
use std::io;
use std::path::Path;

/// The name of the note.
pub const FILE: &str = ".cluster";

/// The name of the note before it is one.
pub const DRAFT: &str = ".cluster.draft";

/// Where the note is before a child takes it to a store of another machine.
const LOCAL_DRAFT: &str = "/run/slurm-charm-cluster.draft";

/// What the note says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sentinel {
    /// The directory belongs to this cluster.
    Ours,
    /// There is no note, or no directory: a new store, or one that is not mounted.
    Absent,
    /// The directory belongs to another cluster.
    Other {
        /// What the note says instead.
        found: String,
    },
    /// The note could not be read in time.
    Unreadable {
        /// Why not.
        why: String,
    },
}

/// Reads the note in `directory`, with a deadline, and compares it with `identity`.
pub fn verify(host: &Host, directory: impl AsRef<Path>, identity: &str) -> Sentinel {
    match store::read(host, directory.as_ref().join(FILE)) {
        Ok(None) => Sentinel::Absent,
        Ok(Some(note)) => {
            let note = String::from_utf8_lossy(&note);
            match note.trim() == identity.trim() {
                true => Sentinel::Ours,
                false => Sentinel::Other { found: note.trim().chars().take(200).collect() },
            }
        }
        Err(error) => Sentinel::Unreadable { why: error.to_string() },
    }
}

/// Writes the note unless there is one, whatever it says, and returns what it says then. Of two who try, one wins.
pub fn write_once(writer: &HostWriter, directory: impl AsRef<Path>, identity: &str) -> Result<Sentinel, MachineError> {
    let directory = directory.as_ref();
    match verify(writer.host(), directory, identity) {
        // Written whole beside its place and then linked, which fails if somebody was faster. A process killed in
        // between leaves the draft behind, which says nothing about whose the directory is.
        Sentinel::Absent => {
            let text = format!("{}\n", identity.trim());
            match mounts::is_on_this_machine(writer.host(), directory) {
                true => write_here(writer, directory, &text)?,
                false => write_elsewhere(writer, directory, &text)?,
            }
            Ok(verify(writer.host(), directory, identity))
        }
        found => Ok(found),
    }
}

fn write_here(writer: &HostWriter, directory: &Path, text: &str) -> Result<(), FileError> {
    let (draft, note) = (directory.join(DRAFT), writer.path(directory.join(FILE)));
    files::replace(writer, &draft, text.as_bytes(), &Access::own(0o644))?;
    let linked = fs::hard_link(writer.path(&draft), &note);
    files::remove(writer, &draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(FileError::Access { action: "make", path: note, source: error })
        }
        _ => Ok(()),
    }
}

/// Children write, because a server that is gone would hold this process.
fn write_elsewhere(writer: &HostWriter, directory: &Path, text: &str) -> Result<(), MachineError> {
    let host = writer.host();
    files::replace(writer, LOCAL_DRAFT, text.as_bytes(), &Access::own(0o644))?;
    let (draft, note) = (store::text(host, &directory.join(DRAFT)), store::text(host, &directory.join(FILE)));
    writer.before_write(Path::new(&note));
    store::child(host, "cp").args(["--", &store::text(host, Path::new(LOCAL_DRAFT)), &draft]).run()?;
    store::child(host, "sync").args(["--", &draft]).run()?;
    let linked = store::child(host, "ln").args(["--no-target-directory", "--", &draft, &note]).run();
    store::child(host, "rm").args(["--force", "--", &draft]).run()?;
    store::child(host, "sync").args(["--", &store::text(host, directory)]).run()?;
    files::remove(writer, LOCAL_DRAFT)?;
    match linked {
        Err(CommandError::Failed { stderr, .. }) if stderr.contains("File exists") => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    /// A store on a disk of this machine, or on another machine.
    fn stores() -> [(tempfile::TempDir, Machine); 2] {
        ["ext4 /dev/vda1", "nfs4 10.0.0.9:/srv"].map(|kind| {
            let root = tempfile::tempdir().unwrap();
            for directory in ["proc/self", "run", "state"] {
                fs::create_dir_all(root.path().join(directory)).unwrap();
            }
            let table = format!("1 0 0:1 / / rw,relatime shared:1 - {kind} rw\n");
            fs::write(root.path().join("proc/self/mountinfo"), table).unwrap();
            let machine = Machine::at(root.path());
            (root, machine)
        })
    }

    #[test]
    fn the_first_cluster_keeps_the_directory() {
        for (root, machine) in stores() {
            let (host, writer) = (machine.host(), machine.writer());
            assert_eq!(verify(&host, "/state", "lab"), Sentinel::Absent);
            assert_eq!(write_once(&writer, "/state", "lab").unwrap(), Sentinel::Ours);
            assert_eq!(write_once(&writer, "/state", "lab").unwrap(), Sentinel::Ours);
            assert_eq!(write_once(&writer, "/state", "other").unwrap(), Sentinel::Other { found: "lab".to_owned() });
            assert_eq!(verify(&host, "/state", "lab"), Sentinel::Ours);
            assert_eq!(fs::read_dir(root.path().join("state")).unwrap().count(), 1, "nothing is left beside it");
            assert_eq!(fs::read_dir(root.path().join("run")).unwrap().count(), 0);
        }
    }

    #[test]
    fn of_two_who_write_at_the_same_time_the_first_wins() {
        let [(_here, local), (_away, distant)] = stores();
        write_here(&local.writer(), Path::new("/state"), "lab\n").unwrap();
        write_here(&local.writer(), Path::new("/state"), "other\n").unwrap();
        write_elsewhere(&distant.writer(), Path::new("/state"), "lab\n").unwrap();
        write_elsewhere(&distant.writer(), Path::new("/state"), "other\n").unwrap();
        for machine in [local, distant] {
            assert_eq!(verify(&machine.host(), "/state", "lab"), Sentinel::Ours);
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_not_made() {
        for (root, machine) in stores() {
            assert_eq!(verify(&machine.host(), "/gone", "lab"), Sentinel::Absent);
            assert!(write_once(&machine.writer(), "/gone", "lab").is_err());
            assert!(!root.path().join("gone").exists());
        }
    }

    #[test]
    fn a_note_that_cannot_be_read_is_neither_ours_nor_absent() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::at(directory.path());
        fs::create_dir(directory.path().join(FILE)).unwrap();
        assert!(matches!(verify(&machine.host(), "/", "lab"), Sentinel::Unreadable { .. }));
    }
}
