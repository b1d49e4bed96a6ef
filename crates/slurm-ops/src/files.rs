//! Files that are replaced whole: atomically, durably, and only if something is different.
//!
//! Where a path is on a file system that may not answer, all of this is done by a child with a deadline
//! ([`store`](crate::store)). Nobody who calls has to know.
//!
//! ```
//! use slurm_ops::Machine;
//! use slurm_ops::files::{self, Access};
//!
//! let directory = tempfile::tempdir()?;
//! let machine = Machine::at(directory.path());
//! let (host, writer) = (machine.host(), machine.writer());
//! assert!(files::replace(&writer, "/note", b"one", &Access::own(0o600))?);
//! assert!(!files::replace(&writer, "/note", b"one", &Access::own(0o600))?, "nothing had to change");
//! assert_eq!(files::read_text(&host, "/note")?.as_deref(), Some("one"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod direct;
mod link;
pub(crate) mod tree;

pub use link::{ensure_link, link_target};
pub use tree::{Copy, remove_below, remove_tree, rename, rename_if_there};

use crate::machine::{Host, HostWriter};
use crate::store::wire::{Content, Work};
use direct::Owner;
use nix::unistd::{Gid, Uid};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file or directory that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error("could not {action} {}", path.display())]
    Access {
        /// What was attempted.
        action: Cow<'static, str>,
        /// On what.
        path: PathBuf,
        /// Why it did not work.
        #[source]
        source: io::Error,
    },
    /// `/etc/passwd` knows no such user.
    #[error("no user `{name}` on this machine")]
    NoSuchUser {
        /// The name that was looked up.
        name: String,
    },
    /// The content of the file cannot be what it should be. The content itself is not shown.
    #[error("{}: expected {expected}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
    /// The file system did not answer in time, now or earlier in this dispatch, or holds who asked in an earlier one.
    /// Whether a change was made is not known: the last thing that a child was held in may still be done.
    #[error("no answer within {seconds} s from the file system of {}", path.display())]
    Silent {
        /// What was asked for.
        path: PathBuf,
        /// How long it may take.
        seconds: u64,
    },
}

impl FileError {
    pub(crate) fn access(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Access { action: Cow::Borrowed(action), path: path.to_owned(), source }
    }

    /// Tells whether the file system did not answer. Then nothing is known about the file, and nothing else on the same
    /// file system need be asked for.
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::Silent { .. })
    }
}

/// Who may do what with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Permission bits.
    pub mode: u32,
    /// Owner by name, with its primary group; `None` is whoever this process runs as.
    pub owner: Option<String>,
}

impl Access {
    /// Returns access for the user `slurm`.
    pub fn slurm(mode: u32) -> Self {
        Self { mode, owner: Some("slurm".to_owned()) }
    }

    /// Returns access for the user that this process runs as.
    pub fn own(mode: u32) -> Self {
        Self { mode, owner: None }
    }
}

/// Something in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// When it was last written, counted from 1970.
    pub modified: Duration,
}

/// What a file system has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Bytes that can be written.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
    /// Files that can be made. `None`: as many as there is space for.
    pub free_files: Option<u64>,
}

/// Reads a file. `None`: there is none.
pub fn read(host: &Host, path: impl AsRef<Path>) -> Result<Option<Vec<u8>>, FileError> {
    let place = host.locate(path);
    host.before_read(&place.path);
    Ok(place.perform(|| Work::Read, direct::read)?.map(|content| content.0))
}

/// Reads a file that holds text. `None`: there is none.
///
/// Bytes that are no UTF-8 are taken for Latin-1: an administrator's editor may write that into a comment, which Slurm
/// does not mind.
pub fn read_text(host: &Host, path: impl AsRef<Path>) -> Result<Option<String>, FileError> {
    Ok(read(host, path.as_ref())?.map(|bytes| String::from_utf8(bytes).unwrap_or_else(|error| text(error.as_bytes()))))
}

fn text(bytes: &[u8]) -> String {
    let chunks = bytes.utf8_chunks();
    chunks.flat_map(|chunk| chunk.valid().chars().chain(chunk.invalid().iter().map(|byte| char::from(*byte)))).collect()
}

/// Tells whether there is something at a path. What cannot be looked at is not there.
pub fn exists(host: &Host, path: impl AsRef<Path>) -> bool {
    host.locate(path).perform(|| Work::Exists, |path| Ok(path.exists())).unwrap_or(false)
}

/// Lists the names in a directory. `None`: there is none.
pub fn list(host: &Host, path: impl AsRef<Path>) -> Result<Option<Vec<String>>, FileError> {
    host.locate(path).perform(|| Work::List, direct::list)
}

/// Lists a directory, with when each entry was last written. `None`: there is none.
pub fn entries(host: &Host, path: impl AsRef<Path>) -> Result<Option<Vec<Entry>>, FileError> {
    host.locate(path).perform(|| Work::Entries, direct::entries)
}

/// Tells when a file was last written, counted from 1970. `None`: there is none.
pub fn modified(host: &Host, path: impl AsRef<Path>) -> Result<Option<Duration>, FileError> {
    host.locate(path).perform(|| Work::Modified, direct::modified)
}

/// Makes `path` hold exactly `content` with `access`, and tells whether anything had to change.
///
/// A reader sees the old file or the new one, never a part; when this returns, the new one survives a power cut. The
/// temporary file has a fixed name beside the target and no access for others from its first byte, so one left by a
/// killed process is neither readable nor lasting.
pub fn replace(
    writer: &HostWriter,
    path: impl AsRef<Path>,
    content: &[u8],
    access: &Access,
) -> Result<bool, FileError> {
    let (owner, mode) = (owner_ids(writer.host(), access)?, access.mode);
    let announce = |path: &Path| writer.before_write(path);
    writer.host().locate(path).perform(
        || Work::Replace { content: Content(content.to_vec()), mode, owner },
        |path| direct::replace(path, content, mode, owner, &announce),
    )
}

/// Tells whether a file has this owner and mode. One that is not there lacks nothing.
pub fn has_access(host: &Host, path: impl AsRef<Path>, access: &Access) -> Result<bool, FileError> {
    let Some(found) = host.locate(path).perform(|| Work::Access, direct::access_of)? else { return Ok(true) };
    Ok(found == (access.mode, owner_ids(host, access)?))
}

/// Tells whether everybody can read a file, through whatever link. One that is not there keeps nobody out.
pub fn is_open(host: &Host, path: impl AsRef<Path>) -> Result<bool, FileError> {
    host.locate(path).perform(|| Work::IsOpen, direct::is_open)
}

/// Lets everybody read a file, or look into a directory, and tells whether anything had to change. Who owns it stays.
pub fn ensure_open(writer: &HostWriter, path: impl AsRef<Path>) -> Result<bool, FileError> {
    let announce = |path: &Path| writer.before_write(path);
    writer.host().locate(path).perform(|| Work::Open, |path| direct::ensure_open(path, &announce))
}

/// Removes a file, and tells whether there was one.
pub fn remove(writer: &HostWriter, path: impl AsRef<Path>) -> Result<bool, FileError> {
    let announce = |path: &Path| writer.before_write(path);
    writer.host().locate(path).perform(|| Work::Remove, |path| direct::remove(path, &announce))
}

/// Removes the files in a directory, as far as there are any. Directories in it stay.
pub fn empty_directory(writer: &HostWriter, path: impl AsRef<Path>) -> Result<(), FileError> {
    let announce = |path: &Path| writer.before_write(path);
    writer.host().locate(path).perform(|| Work::Empty, |path| direct::empty_directory(path, &announce))
}

/// Makes sure that a directory exists with `access`, parents included, and tells whether anything had to change.
pub fn ensure_directory(writer: &HostWriter, path: impl AsRef<Path>, access: &Access) -> Result<bool, FileError> {
    let (owner, mode) = (owner_ids(writer.host(), access)?, access.mode);
    let announce = |path: &Path| writer.before_write(path);
    writer
        .host()
        .locate(path)
        .perform(|| Work::Directory { mode, owner }, |path| direct::ensure_directory(path, mode, owner, &announce))
}

fn owner_ids(host: &Host, access: &Access) -> Result<Owner, FileError> {
    let (user, group) = match &access.owner {
        None => (Uid::effective(), Gid::effective()),
        Some(name) => user_ids(host, name)?,
    };
    Ok((user.as_raw(), group.as_raw()))
}

/// Looks a user up in `/etc/passwd`. A static binary cannot ask the system's name services.
pub fn user_ids(host: &Host, name: &str) -> Result<(Uid, Gid), FileError> {
    let passwd = read_text(host, "/etc/passwd")?.unwrap_or_default();
    let found = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let user = fields.next()?;
        let _password = fields.next()?;
        let ids = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        (user == name).then_some(ids)
    });
    let (user, group) = found.ok_or_else(|| FileError::NoSuchUser { name: name.to_owned() })?;
    Ok((Uid::from_raw(user), Gid::from_raw(group)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn text_of_another_age_can_be_read() {
        let (_directory, machine) = machine();
        fs::write(machine.path("/old"), b"# caf\xe9 \xc3\xa9\nKey=1\n").unwrap();
        assert_eq!(read_text(&machine.host(), "/old").unwrap().as_deref(), Some("# caf\u{e9} \u{e9}\nKey=1\n"));
    }

    fn machine() -> (tempfile::TempDir, Machine) {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::at(directory.path());
        fs::create_dir(directory.path().join("etc")).unwrap();
        let (user, group) = (Uid::effective(), Gid::effective());
        fs::write(
            directory.path().join("etc/passwd"),
            format!("bad line\nslurm:x:{user}:{group}:Slurm:/:/bin/false\n"),
        )
        .unwrap();
        (directory, machine)
    }

    #[test]
    fn a_file_is_written_once_and_then_left_alone() {
        let (directory, machine) = machine();
        let access = Access::slurm(0o640);
        assert!(replace(&machine.writer(), "/etc/x", b"one", &access).unwrap());
        let first = fs::metadata(directory.path().join("etc/x")).unwrap();
        assert_eq!(first.mode() & 0o7777, 0o640);
        assert!(!replace(&machine.writer(), "/etc/x", b"one", &access).unwrap());
        assert_eq!(fs::metadata(directory.path().join("etc/x")).unwrap().ino(), first.ino());
        assert!(replace(&machine.writer(), "/etc/x", b"two", &access).unwrap());
        assert_eq!(read(&machine.host(), "/etc/x").unwrap().unwrap(), b"two");
        assert_eq!(fs::read_dir(directory.path().join("etc")).unwrap().count(), 2, "nothing is left beside it");
    }

    #[test]
    fn a_wrong_mode_is_put_right() {
        let (directory, machine) = machine();
        let path = directory.path().join("etc/x");
        replace(&machine.writer(), "/etc/x", b"key", &Access::own(0o600)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(replace(&machine.writer(), "/etc/x", b"key", &Access::own(0o600)).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    }

    #[test]
    fn what_a_killed_process_left_is_no_obstacle() {
        let (directory, machine) = machine();
        let leftover = directory.path().join("etc/.x.new");
        fs::write(&leftover, "half").unwrap();
        assert!(replace(&machine.writer(), "/etc/x", b"whole", &Access::own(0o600)).unwrap());
        assert!(!leftover.exists());
    }

    #[test]
    fn a_link_is_replaced_and_its_target_is_not_written() {
        let (directory, machine) = machine();
        fs::write(directory.path().join("target"), "old").unwrap();
        std::os::unix::fs::symlink(directory.path().join("target"), directory.path().join("etc/x")).unwrap();
        assert!(replace(&machine.writer(), "/etc/x", b"new", &Access::own(0o644)).unwrap());
        assert_eq!(fs::read(directory.path().join("target")).unwrap(), b"old");
    }

    #[test]
    fn what_everybody_has_to_read_is_opened() {
        let (directory, machine) = machine();
        let path = directory.path().join("etc/x");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        replace(&machine.writer(), "/etc/x", b"", &Access::own(0o640)).unwrap();
        fs::set_permissions(directory.path().join("etc"), Permissions::from_mode(0o700)).unwrap();
        for (name, expected) in [("/etc/x", 0o644), ("/etc", 0o755)] {
            assert!(!is_open(&machine.host(), name).unwrap());
            assert!(ensure_open(&machine.writer(), name).unwrap());
            assert!(!ensure_open(&machine.writer(), name).unwrap());
            assert_eq!(mode(&machine.path(name)), expected, "{name} {}", path.display());
        }
        assert!(is_open(&machine.host(), "/etc/none").unwrap());
    }

    #[test]
    fn absence_is_not_an_error() {
        let (_directory, machine) = machine();
        assert_eq!(read(&machine.host(), "/etc/none").unwrap(), None);
        assert_eq!(modified(&machine.host(), "/etc/none").unwrap(), None);
        assert!(modified(&machine.host(), "/etc/passwd").unwrap() > Some(Duration::from_secs(1_700_000_000)));
        assert!(!remove(&machine.writer(), "/etc/none").unwrap());
        replace(&machine.writer(), "/etc/x", b"", &Access::own(0o600)).unwrap();
        assert!(remove(&machine.writer(), "/etc/x").unwrap());
    }

    #[test]
    fn a_failure_names_the_path_and_an_unknown_user_the_name() {
        let (_directory, machine) = machine();
        let error = replace(&machine.writer(), "/none/x", b"", &Access::own(0o600)).unwrap_err();
        assert!(error.to_string().starts_with("could not create"), "{error}");
        let error =
            replace(&machine.writer(), "/etc/x", b"", &Access { mode: 0o600, owner: Some("nobody-here".to_owned()) })
                .unwrap_err();
        assert_eq!(error.to_string(), "no user `nobody-here` on this machine");
        let nobody = Access { mode: 0o600, owner: Some("nobody-here".to_owned()) };
        assert!(has_access(&machine.host(), "/etc/none", &nobody).unwrap());
        assert!(has_access(&machine.host(), "/etc/passwd", &nobody).is_err());
    }

    #[test]
    fn a_directory_is_made_once() {
        let (directory, machine) = machine();
        assert!(ensure_directory(&machine.writer(), "/var/lib/slurm/checkpoint", &Access::slurm(0o755)).unwrap());
        assert!(!ensure_directory(&machine.writer(), "/var/lib/slurm/checkpoint", &Access::slurm(0o755)).unwrap());
        assert!(ensure_directory(&machine.writer(), "/var/lib/slurm/checkpoint", &Access::slurm(0o700)).unwrap());
        assert!(directory.path().join("var/lib/slurm/checkpoint").is_dir());
    }
}
