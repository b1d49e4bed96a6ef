//! The note in a state directory that says which cluster it belongs to. Written once, when the cluster is born, and
//! again only when another application adopts the cluster.
//!
//! slurmctld starts on an empty directory as if there had never been a job, and the jobs that run are then killed as
//! orphans. So nobody may start it before this note was found and read.

use crate::files::{self, Access, FileError, direct};
use crate::machine::{Host, HostWriter};
use crate::store::wire::{Content, Work};
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
    match files::read(host, directory.as_ref().join(FILE)) {
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
pub fn write_once(writer: &HostWriter, directory: impl AsRef<Path>, identity: &str) -> Result<Sentinel, FileError> {
    let (directory, host) = (directory.as_ref(), writer.host());
    match verify(host, directory, identity) {
        // A draft that a killed process left says nothing about whose the directory is.
        Sentinel::Absent => {
            let text = format!("{}\n", identity.trim()).into_bytes();
            let (draft, announce) = (writer.path(directory.join(DRAFT)), |path: &Path| writer.before_write(path));
            host.locate(directory.join(FILE)).perform(
                || Work::WriteOnce { draft: draft.clone(), content: Content(text.clone()) },
                |path| direct::write_once(path, &draft, &text, &announce),
            )?;
            Ok(verify(host, directory, identity))
        }
        found => Ok(found),
    }
}

/// Makes a directory that is another cluster's this one's. Whoever reads the note meanwhile reads one of the two.
pub fn replace(writer: &HostWriter, directory: impl AsRef<Path>, identity: &str) -> Result<(), FileError> {
    let text = format!("{}\n", identity.trim());
    files::replace(writer, directory.as_ref().join(FILE), text.as_bytes(), &Access::own(0o644)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use std::fs;

    #[test]
    fn the_first_cluster_keeps_the_directory() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("state")).unwrap();
        let machine = Machine::at(root.path());
        let (host, writer) = (machine.host(), machine.writer());
        assert_eq!(verify(&host, "/state", "lab"), Sentinel::Absent);
        assert_eq!(write_once(&writer, "/state", "lab").unwrap(), Sentinel::Ours);
        assert_eq!(write_once(&writer, "/state", "lab").unwrap(), Sentinel::Ours);
        assert_eq!(write_once(&writer, "/state", "other").unwrap(), Sentinel::Other { found: "lab".to_owned() });
        assert_eq!(verify(&host, "/state", "lab"), Sentinel::Ours);
        assert_eq!(fs::read_dir(root.path().join("state")).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_directory_that_is_not_there_is_not_made() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::at(root.path());
        assert_eq!(verify(&machine.host(), "/gone", "lab"), Sentinel::Absent);
        assert!(write_once(&machine.writer(), "/gone", "lab").is_err());
        assert!(!root.path().join("gone").exists());
    }

    #[test]
    fn a_note_that_cannot_be_read_is_neither_ours_nor_absent() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::at(directory.path());
        fs::create_dir(directory.path().join(FILE)).unwrap();
        assert!(matches!(verify(&machine.host(), "/", "lab"), Sentinel::Unreadable { .. }));
    }
}
