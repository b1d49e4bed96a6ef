//! The work on files itself, at paths as the system knows them. Whoever calls this is held for as long as a file system
//! does not answer: [`files`](super) decides which process that may be.

use super::{Entry, FileError, Space};
use crate::store::wire::Content;
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, Gid, Uid, access, chown, fchown};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Numbers of a user and of a group.
pub(crate) type Owner = (u32, u32);

/// Is told before something changes, and may refuse.
pub(crate) type Announce<'a> = &'a dyn Fn(&Path) -> io::Result<()>;

/// Turns the failure to find a file into `None`.
pub(crate) fn if_there<T>(found: io::Result<T>, action: &'static str, path: &Path) -> Result<Option<T>, FileError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::access(action, path)(error)),
    }
}

pub(crate) fn read(path: &Path) -> Result<Option<Content>, FileError> {
    Ok(if_there(fs::read(path), "read", path)?.map(Content))
}

pub(crate) fn list(path: &Path) -> Result<Option<Vec<String>>, FileError> {
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    if_there(fs::read_dir(path).and_then(|entries| entries.map(name).collect()), "list", path)
}

pub(crate) fn entries(path: &Path) -> Result<Option<Vec<Entry>>, FileError> {
    let Some(entries) = if_there(fs::read_dir(path), "list", path)? else { return Ok(None) };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(FileError::access("list", path))?;
        let written = entry.metadata().and_then(|found| found.modified());
        // Slurm replaces its files all the time: one may go in this very moment.
        let Some(written) = if_there(written, "list", path)? else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        found.push(Entry { name, modified: written.duration_since(UNIX_EPOCH).unwrap_or_default() });
    }
    Ok(Some(found))
}

pub(crate) fn modified(path: &Path) -> Result<Option<Duration>, FileError> {
    let found = if_there(fs::metadata(path), "look at", path)?;
    Ok(found.and_then(|found| found.modified().ok()?.duration_since(UNIX_EPOCH).ok()))
}

pub(crate) fn replace(
    path: &Path,
    content: &[u8],
    mode: u32,
    owner: Owner,
    announce: Announce<'_>,
) -> Result<bool, FileError> {
    if is_already(path, content, mode, owner)? {
        return Ok(false);
    }
    announce(path).map_err(FileError::access("change", path))?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = directory.join(format!(".{name}.new"));
    let written = write_temporary(&temporary, content, mode, owner)
        .and_then(|()| fs::rename(&temporary, path).map_err(FileError::access("replace", path)));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    sync_directory(directory)?;
    Ok(true)
}

/// Returns the mode of a file and whose it is.
pub(crate) fn access_of(path: &Path) -> Result<Option<(u32, Owner)>, FileError> {
    let found = if_there(fs::symlink_metadata(path), "look at", path)?;
    Ok(found.map(|found| (found.mode() & 0o7777, (found.uid(), found.gid()))))
}

fn has_mode(found: &Metadata, mode: u32) -> bool {
    found.mode() & 0o7777 == mode
}

fn has_owner(found: &Metadata, owner: Owner) -> bool {
    (found.uid(), found.gid()) == owner
}

pub(crate) fn is_open(path: &Path) -> Result<bool, FileError> {
    let found = if_there(fs::metadata(path), "look at", path)?;
    Ok(found.is_none_or(|found| {
        let bits = if found.is_dir() { 0o005 } else { 0o004 };
        found.mode() & bits == bits
    }))
}

pub(crate) fn ensure_open(path: &Path, announce: Announce<'_>) -> Result<bool, FileError> {
    if is_open(path)? {
        return Ok(false);
    }
    announce(path).map_err(FileError::access("change", path))?;
    let found = fs::metadata(path).map_err(FileError::access("look at", path))?;
    let bits = if found.is_dir() { 0o555 } else { 0o444 };
    fs::set_permissions(path, Permissions::from_mode(found.mode() & 0o7777 | bits))
        .map_err(FileError::access("set the mode of", path))?;
    Ok(true)
}

pub(crate) fn remove(path: &Path, announce: Announce<'_>) -> Result<bool, FileError> {
    if path.symlink_metadata().is_ok() {
        announce(path).map_err(FileError::access("change", path))?;
    }
    let removed = if_there(fs::remove_file(path), "remove", path)?.is_some();
    if removed {
        sync_directory(path.parent().unwrap_or(Path::new("/")))?;
    }
    Ok(removed)
}

pub(crate) fn empty_directory(path: &Path, announce: Announce<'_>) -> Result<(), FileError> {
    for name in list(path)?.unwrap_or_default() {
        let entry = path.join(name);
        if !entry.is_dir() {
            remove(&entry, announce)?;
        }
    }
    Ok(())
}

pub(crate) fn ensure_directory(
    path: &Path,
    mode: u32,
    owner: Owner,
    announce: Announce<'_>,
) -> Result<bool, FileError> {
    let made = !path.is_dir();
    if made {
        announce(path).map_err(FileError::access("change", path))?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path)
            .map_err(FileError::access("make directory", path))?;
    }
    let found = fs::metadata(path).map_err(FileError::access("look at", path))?;
    let owned = has_owner(&found, owner);
    if !owned {
        let (user, group) = numbers(owner);
        chown(path, user, group).map_err(|error| FileError::access("give away", path)(error.into()))?;
    }
    let moded = has_mode(&found, mode);
    if !moded {
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(FileError::access("set the mode of", path))?;
    }
    Ok(made || !owned || !moded)
}

/// Makes a file that was never there. It is written whole as a draft beside its place and then linked, which fails if
/// somebody was faster. A process killed in between leaves the draft behind.
pub(crate) fn write_once(path: &Path, draft: &Path, content: &[u8], announce: Announce<'_>) -> Result<(), FileError> {
    let own = (Uid::effective().as_raw(), Gid::effective().as_raw());
    replace(draft, content, 0o644, own, announce)?;
    let linked = fs::hard_link(draft, path);
    remove(draft, announce)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(FileError::access("make", path)(error)),
        _ => Ok(()),
    }
}

/// Tells whether a directory is there and can be written by a user; by whoever asks, if there is no such user.
pub(crate) fn is_writable(path: &Path, user: Option<Owner>) -> Result<bool, FileError> {
    let Some(found) = if_there(fs::metadata(path), "look at", path)? else { return Ok(false) };
    let allowed = user.is_none_or(|(user, group)| may_write(&found, user, group));
    Ok(found.is_dir() && access(path, AccessFlags::W_OK).is_ok() && allowed)
}

/// Tells whether the bits of a directory let a user make files in it.
fn may_write(directory: &Metadata, user: u32, group: u32) -> bool {
    const WRITE_AND_ENTER: u32 = 0o3;
    let class = match () {
        () if user == 0 => return true,
        () if user == directory.uid() => 6,
        () if group == directory.gid() => 3,
        () => 0,
    };
    (directory.mode() >> class) & WRITE_AND_ENTER == WRITE_AND_ENTER
}

/// Writes a time over the one of before, such that it survives a power cut. Needs no space but the first time.
pub(crate) fn probe(path: &Path, stamp: u64) -> Result<(), FileError> {
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o644).open(path);
    let mut file = opened.map_err(FileError::access("open", path))?;
    writeln!(file, "{stamp:020}").map_err(FileError::access("write", path))?;
    file.sync_all().map_err(FileError::access("write out", path))
}

pub(crate) fn space(path: &Path) -> Result<Space, FileError> {
    let found = statvfs(path).map_err(|error| FileError::access("look at the space of", path)(error.into()))?;
    Ok(Space {
        // What root alone may use is of no use to Slurm.
        free: found.blocks_available().saturating_mul(found.fragment_size()),
        total: found.blocks().saturating_mul(found.fragment_size()),
        free_files: (found.files() > 0).then(|| found.files_available()),
    })
}

fn write_temporary(path: &Path, content: &[u8], mode: u32, owner: Owner) -> Result<(), FileError> {
    if_there(fs::remove_file(path), "remove", path)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(FileError::access("create", path))?;
    file.write_all(content).map_err(FileError::access("write", path))?;
    let (user, group) = numbers(owner);
    fchown(&file, user, group).map_err(|error| FileError::access("give away", path)(error.into()))?;
    file.set_permissions(Permissions::from_mode(mode)).map_err(FileError::access("set the mode of", path))?;
    file.sync_all().map_err(FileError::access("write out", path))
}

pub(crate) fn numbers((user, group): Owner) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))
}

fn is_already(path: &Path, content: &[u8], mode: u32, owner: Owner) -> Result<bool, FileError> {
    let Some(found) = if_there(fs::symlink_metadata(path), "look at", path)? else { return Ok(false) };
    let outside = found.is_file()
        && has_mode(&found, mode)
        && has_owner(&found, owner)
        && usize::try_from(found.len()) == Ok(content.len());
    Ok(outside && fs::read(path).map_err(FileError::access("read", path))? == content)
}

pub(crate) fn sync_directory(path: &Path) -> Result<(), FileError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(FileError::access("write out", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_written_by_whom_its_bits_allow() {
        let directory = tempfile::tempdir().unwrap();
        let (owner, group) = (directory.path().metadata().unwrap().uid(), directory.path().metadata().unwrap().gid());
        for (mode, expected) in [
            (0o700, (true, false, false)),
            (0o770, (true, true, false)),
            (0o777, (true, true, true)),
            (0o500, (false, false, false)),
        ] {
            fs::set_permissions(directory.path(), PermissionsExt::from_mode(mode)).unwrap();
            let found = directory.path().metadata().unwrap();
            // Whoever runs the tests may be root, to whom bits mean nothing.
            let as_owner = owner == 0 || may_write(&found, owner, group + 1) == expected.0;
            assert!(as_owner, "{mode:o}");
            assert_eq!(may_write(&found, owner + 7, group), expected.1, "{mode:o}");
            assert_eq!(may_write(&found, owner + 7, group + 7), expected.2, "{mode:o}");
            assert!(may_write(&found, 0, 0));
        }
    }

    #[test]
    fn of_two_who_write_at_the_same_time_the_first_wins() {
        let directory = tempfile::tempdir().unwrap();
        let (path, draft) = (directory.path().join("note"), directory.path().join("draft"));
        for content in ["one", "two"] {
            write_once(&path, &draft, content.as_bytes(), &|_| Ok(())).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert!(!draft.exists());
    }
}
