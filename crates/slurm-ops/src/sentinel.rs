//! The note in a state directory that says which cluster it belongs to. Written once, when the cluster is born, and never again.
//!
//! slurmctld starts on an empty directory as if there had never been a job, and the jobs that run are then killed as orphans. So
//! nobody may start it before this note was found and read.

use crate::command::CommandError;
use crate::files::{self, Access, FileError};
use crate::machine::{Host, HostWriter};
use crate::mounts;
use std::fs;
use std::io;
use std::path::Path;

/// The name of the note.
pub const FILE: &str = ".cluster";

/// The name of the note before it is one.
pub const DRAFT: &str = ".cluster.draft";

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
    let read = |error: CommandError| Sentinel::Unreadable { why: error.to_string() };
    match mounts::read(host, directory.as_ref().join(FILE)) {
        Ok(None) => Sentinel::Absent,
        Ok(Some(note)) => {
            let note = String::from_utf8_lossy(&note);
            match note.trim() == identity.trim() {
                true => Sentinel::Ours,
                false => Sentinel::Other { found: note.trim().chars().take(200).collect() },
            }
        }
        Err(error) => read(error),
    }
}

/// Writes the note unless there is one, whatever it says, and returns what it says then. Of two who try, one wins.
pub fn write_once(writer: &HostWriter, directory: impl AsRef<Path>, identity: &str) -> Result<Sentinel, FileError> {
    let directory = directory.as_ref();
    let note = writer.path(directory.join(FILE));
    if !note.exists() {
        // Written whole beside its place and then linked, which fails if somebody was faster. A process killed in between leaves the
        // draft behind, which says nothing about whose the directory is.
        let draft = directory.join(DRAFT);
        files::replace(writer, &draft, format!("{}\n", identity.trim()).as_bytes(), &Access::own(0o644))?;
        let linked = fs::hard_link(writer.path(&draft), &note);
        files::remove(writer, &draft)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(FileError::Access { action: "make", path: note, source: error });
            }
            _ => {}
        }
    }
    Ok(verify(writer.host(), directory, identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn the_first_cluster_keeps_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::at(directory.path());
        assert_eq!(verify(&machine.host(), "/", "lab"), Sentinel::Absent);
        assert_eq!(write_once(&machine.writer(), "/", "lab").unwrap(), Sentinel::Ours);
        assert_eq!(write_once(&machine.writer(), "/", "lab").unwrap(), Sentinel::Ours);
        assert_eq!(write_once(&machine.writer(), "/", "other").unwrap(), Sentinel::Other { found: "lab".to_owned() });
        assert_eq!(verify(&machine.host(), "/", "lab"), Sentinel::Ours);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_directory_that_is_not_there_is_not_made() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::at(directory.path());
        assert_eq!(verify(&machine.host(), "/gone", "lab"), Sentinel::Absent);
        assert!(write_once(&machine.writer(), "/gone", "lab").is_err());
        assert!(!directory.path().join("gone").exists());
    }

    #[test]
    fn a_note_that_cannot_be_read_is_neither_ours_nor_absent() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::at(directory.path());
        fs::create_dir(directory.path().join(FILE)).unwrap();
        assert!(matches!(verify(&machine.host(), "/", "lab"), Sentinel::Unreadable { .. }));
    }
}
