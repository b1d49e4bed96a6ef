//! Files that are replaced whole: atomically, durably, and only if something is different.
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

use crate::machine::{Host, HostWriter};
use nix::unistd::{Gid, Uid, chown, fchown};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// A file or directory that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error("could not {action} {}", path.display())]
    Access {
        /// What was attempted.
        action: &'static str,
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
}

impl FileError {
    fn access(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Access { action, path: path.to_owned(), source }
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

/// Reads a file. `None`: there is none.
pub fn read(host: &Host, path: impl AsRef<Path>) -> Result<Option<Vec<u8>>, FileError> {
    let path = host.path(path);
    host.before_read(&path);
    if_there(fs::read(&path), "read", &path)
}

/// Turns the failure to find a file into `None`.
pub(crate) fn if_there<T>(found: io::Result<T>, action: &'static str, path: &Path) -> Result<Option<T>, FileError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::access(action, path)(error)),
    }
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
    host.path(path).exists()
}

/// Lists the names in a directory. `None`: there is none.
pub fn list(host: &Host, path: impl AsRef<Path>) -> Result<Option<Vec<String>>, FileError> {
    let path = host.path(path);
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    if_there(fs::read_dir(&path).and_then(|entries| entries.map(name).collect()), "list", &path)
}

/// TEMPORARY
pub fn link_target(host: &Host, path: impl AsRef<Path>) -> Result<Option<String>, FileError> {
    Ok(fs::read_link(host.path(path)).ok().map(|target| target.to_string_lossy().into_owned()))
}

/// TEMPORARY
pub fn ensure_link(writer: &HostWriter, path: impl AsRef<Path>, target: &str) -> Result<bool, FileError> {
    let _ = (writer, path, target);
    Ok(true)
}

/// Tells when a file was last written, counted from 1970. `None`: there is none.
pub fn modified(host: &Host, path: impl AsRef<Path>) -> Result<Option<Duration>, FileError> {
    let path = host.path(path);
    let found = if_there(fs::metadata(&path), "look at", &path)?;
    Ok(found.and_then(|found| found.modified().ok()?.duration_since(UNIX_EPOCH).ok()))
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
    let path = writer.path(path);
    let owner = owner_ids(writer.host(), access)?;
    if is_already(&path, content, access.mode, owner)? {
        return Ok(false);
    }
    writer.before_write(&path);
    let directory = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = directory.join(format!(".{name}.new"));
    let written = write_temporary(&temporary, content, access.mode, owner)
        .and_then(|()| fs::rename(&temporary, &path).map_err(FileError::access("replace", &path)));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    sync_directory(directory)?;
    Ok(true)
}

/// Tells whether a file has this owner and mode. One that is not there lacks nothing.
pub fn has_access(host: &Host, path: impl AsRef<Path>, access: &Access) -> Result<bool, FileError> {
    let path = host.path(path);
    let Some(found) = if_there(fs::symlink_metadata(&path), "look at", &path)? else { return Ok(true) };
    Ok(has_mode(&found, access.mode) && has_owner(&found, owner_ids(host, access)?))
}

fn has_mode(found: &Metadata, mode: u32) -> bool {
    found.mode() & 0o7777 == mode
}

fn has_owner(found: &Metadata, (user, group): (Uid, Gid)) -> bool {
    found.uid() == user.as_raw() && found.gid() == group.as_raw()
}

/// Tells whether everybody can read a file, through whatever link. One that is not there keeps nobody out.
pub fn is_open(host: &Host, path: impl AsRef<Path>) -> Result<bool, FileError> {
    let path = host.path(path);
    let found = if_there(fs::metadata(&path), "look at", &path)?;
    Ok(found.is_none_or(|found| {
        let bits = if found.is_dir() { 0o005 } else { 0o004 };
        found.mode() & bits == bits
    }))
}

/// Lets everybody read a file, or look into a directory, and tells whether anything had to change. Who owns it stays.
pub fn ensure_open(writer: &HostWriter, path: impl AsRef<Path>) -> Result<bool, FileError> {
    if is_open(writer.host(), path.as_ref())? {
        return Ok(false);
    }
    let path = writer.path(path);
    writer.before_write(&path);
    let found = fs::metadata(&path).map_err(FileError::access("look at", &path))?;
    let bits = if found.is_dir() { 0o555 } else { 0o444 };
    fs::set_permissions(&path, Permissions::from_mode(found.mode() & 0o7777 | bits))
        .map_err(FileError::access("set the mode of", &path))?;
    Ok(true)
}

/// Removes a file, and tells whether there was one.
pub fn remove(writer: &HostWriter, path: impl AsRef<Path>) -> Result<bool, FileError> {
    let path = writer.path(path);
    if path.symlink_metadata().is_ok() {
        writer.before_write(&path);
    }
    let removed = if_there(fs::remove_file(&path), "remove", &path)?.is_some();
    if removed {
        sync_directory(path.parent().unwrap_or(Path::new("/")))?;
    }
    Ok(removed)
}

/// Removes the files in a directory, as far as there are any. Directories in it stay.
pub fn empty_directory(writer: &HostWriter, path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    for name in list(writer.host(), path)?.unwrap_or_default() {
        let entry = path.join(name);
        if !writer.path(&entry).is_dir() {
            remove(writer, entry)?;
        }
    }
    Ok(())
}

/// Makes sure that a directory exists with `access`, parents included, and tells whether anything had to change.
pub fn ensure_directory(writer: &HostWriter, path: impl AsRef<Path>, access: &Access) -> Result<bool, FileError> {
    let path = writer.path(path);
    let owner @ (user, group) = owner_ids(writer.host(), access)?;
    let made = !path.is_dir();
    if made {
        writer.before_write(&path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&path)
            .map_err(FileError::access("make directory", &path))?;
    }
    let found = fs::metadata(&path).map_err(FileError::access("look at", &path))?;
    let owned = has_owner(&found, owner);
    if !owned {
        chown(&path, Some(user), Some(group)).map_err(|error| FileError::access("give away", &path)(error.into()))?;
    }
    let moded = has_mode(&found, access.mode);
    if !moded {
        fs::set_permissions(&path, Permissions::from_mode(access.mode))
            .map_err(FileError::access("set the mode of", &path))?;
    }
    Ok(made || !owned || !moded)
}

fn write_temporary(path: &Path, content: &[u8], mode: u32, (user, group): (Uid, Gid)) -> Result<(), FileError> {
    if_there(fs::remove_file(path), "remove", path)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(FileError::access("create", path))?;
    file.write_all(content).map_err(FileError::access("write", path))?;
    fchown(&file, Some(user), Some(group)).map_err(|error| FileError::access("give away", path)(error.into()))?;
    file.set_permissions(Permissions::from_mode(mode)).map_err(FileError::access("set the mode of", path))?;
    file.sync_all().map_err(FileError::access("write out", path))
}

fn is_already(path: &Path, content: &[u8], mode: u32, owner: (Uid, Gid)) -> Result<bool, FileError> {
    let Some(found) = if_there(fs::symlink_metadata(path), "look at", path)? else { return Ok(false) };
    let outside = found.is_file()
        && has_mode(&found, mode)
        && has_owner(&found, owner)
        && usize::try_from(found.len()) == Ok(content.len());
    Ok(outside && fs::read(path).map_err(FileError::access("read", path))? == content)
}

fn sync_directory(path: &Path) -> Result<(), FileError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(FileError::access("write out", path))
}

fn owner_ids(host: &Host, access: &Access) -> Result<(Uid, Gid), FileError> {
    match &access.owner {
        None => Ok((Uid::effective(), Gid::effective())),
        Some(name) => user_ids(host, name),
    }
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
