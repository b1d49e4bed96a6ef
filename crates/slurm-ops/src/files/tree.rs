//! Whole directories: a copy that is made in several passes while somebody writes there, a rename, a removal. Where one
//! end is on a store, the child does the work on each entry of it, with a deadline for each.

use super::direct::{Announce, Owner, if_there, numbers, sync_directory};
use super::{FileError, Host, HostWriter, read};
use crate::store::wire::{Content, Work};
use nix::unistd::fchown;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, FileTimes, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clock of a file system may tick this slowly: a file that was changed so lately may change again unseen.
const TICK: Duration = Duration::from_secs(2);

/// So many directories are listed with one question: few enough for its deadline.
const AT_ONCE: usize = 200;

/// Something in a directory, as far as a copy has to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    name: String,
    kind: Kind,
    mode: u32,
    owner: Owner,
    size: u64,
    /// When it was last written, counted from 1970.
    modified: Duration,
    /// When anything about it was last changed.
    changed: Duration,
    inode: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    Directory,
    File,
    /// A link, to what is said there.
    Link(String),
    /// A socket and the like, which no copy needs.
    Other,
}

/// A copy of a directory, made in passes: each copies what is new or was changed since the one before.
#[derive(Debug)]
pub struct Copy {
    from: PathBuf,
    to: PathBuf,
    left_out: &'static [&'static str],
    /// What was copied, by its path in the directory. None: it may have been changed since, whatever it looks like.
    seen: BTreeMap<PathBuf, Option<Found>>,
    /// The directories of the copy.
    made: BTreeMap<PathBuf, (u32, Owner)>,
}

impl Copy {
    /// Begins with nothing: what an earlier copy left at `to` is removed. Names that are left out at the top are
    /// somebody else's to write.
    pub fn begin(
        writer: &HostWriter,
        from: impl Into<PathBuf>,
        to: impl Into<PathBuf>,
        left_out: &'static [&'static str],
    ) -> Result<Self, FileError> {
        let to = to.into();
        remove_tree(writer, &to)?;
        Ok(Self { from: from.into(), to, left_out, seen: BTreeMap::new(), made: BTreeMap::new() })
    }

    /// Copies what is new or was changed, removes what is gone, and tells how many entries that were. When this
    /// returns, all of it survives a power cut. What is at the top of a store is copied each time: there daemons keep
    /// what they write all the time, and its clock may be another one.
    ///
    /// With `patience`, gives up when that has passed.
    pub fn pass(&mut self, writer: &HostWriter, patience: Option<Duration>) -> Result<usize, FileError> {
        let end = patience.map(|patience| Instant::now() + patience);
        // What a store says about time is its own clock's.
        let doubted = writer.host().locate(&self.from).on_store;
        let (mut there, mut count) = (BTreeSet::new(), 0);
        let mut level = vec![PathBuf::new()];
        while !level.is_empty() {
            let mut below = Vec::new();
            for some in level.chunks(AT_ONCE) {
                let listed = details_of(writer.host(), &self.from, some)?;
                for (directory, own) in some.iter().zip(listed) {
                    let top = directory.as_os_str().is_empty();
                    let Some(own) = own else {
                        if top {
                            return Err(FileError::access("list", &self.from)(ErrorKind::NotFound.into()));
                        }
                        there.remove(directory);
                        continue;
                    };
                    let mut touched = self.ensure_directory(writer, directory)?;
                    for found in own {
                        let path = directory.join(&found.name);
                        if found.kind == Kind::Other || (top && self.left_out.contains(&found.name.as_str())) {
                            continue;
                        }
                        if end.is_some_and(|end| Instant::now() > end) {
                            let late = self.from.join(&path);
                            return Err(FileError::access("copy in time", &late)(ErrorKind::TimedOut.into()));
                        }
                        let known = self.seen.get(&path).and_then(Option::as_ref) == Some(&found);
                        if found.kind == Kind::Directory {
                            below.push(path.clone());
                        } else if (top && doubted) || !known {
                            if !self.copy(writer, &path, &found)? {
                                continue;
                            }
                            (touched, count) = (true, count + 1);
                        }
                        // Whatever is seen of a file was seen before it was read.
                        let settled = found.kind == Kind::Directory || !is_recent(&found);
                        self.seen.insert(path.clone(), Some(found).filter(|_| settled));
                        there.insert(path);
                    }
                    if touched {
                        perform(writer, &self.to.join(directory), || Work::Sync, |path, _| sync_directory(path))?;
                    }
                }
            }
            level = below;
        }
        // What is in a directory comes after it, and goes before it.
        let gone: Vec<PathBuf> = self.seen.keys().filter(|path| !there.contains(*path)).cloned().collect();
        for path in gone.iter().rev() {
            perform(writer, &self.to.join(path), || Work::RemoveAny, remove_any)?;
            self.seen.remove(path);
            self.made.remove(path);
        }
        Ok(count + gone.len())
    }

    /// Tells whether the directory had to be made. It is as open as the one that it is a copy of.
    fn ensure_directory(&mut self, writer: &HostWriter, directory: &Path) -> Result<bool, FileError> {
        let access = |path: &Path| writer.host().locate(path).perform(|| Work::Access, super::direct::access_of);
        let (from, to) = (self.from.join(directory), self.to.join(directory));
        // The first one may be a link.
        let wanted = match self.seen.get(directory).and_then(Option::as_ref) {
            Some(found) => Some((found.mode, found.owner)),
            None => access(&from.join("."))?,
        };
        let Some((mode, owner)) = wanted.filter(|own| self.made.get(directory) != Some(own)) else { return Ok(false) };
        let announce = |path: &Path| writer.before_write(path);
        let made = writer.host().locate(&to).perform(
            || Work::Directory { mode, owner },
            |path| super::direct::ensure_directory(path, mode, owner, &announce),
        )?;
        self.made.insert(directory.to_owned(), (mode, owner));
        Ok(made)
    }

    /// Tells whether there was still something to copy.
    fn copy(&self, writer: &HostWriter, path: &Path, found: &Found) -> Result<bool, FileError> {
        let (from, to) = (self.from.join(path), self.to.join(path));
        if let Kind::Link(target) = &found.kind {
            let link = || Work::Link { target: target.clone() };
            perform(writer, &to, link, |path, announce| make_link(path, target, announce))?;
            return Ok(true);
        }
        let Some(content) = read(writer.host(), &from)? else { return Ok(false) };
        let (mode, owner, modified) = (found.mode, found.owner, found.modified);
        perform(
            writer,
            &to,
            || Work::Put { content: Content(content.clone()), mode, owner, modified },
            |path, announce| put(path, &content, mode, owner, modified, announce),
        )?;
        Ok(true)
    }
}

fn is_recent(found: &Found) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    found.changed + TICK > now
}

/// Renames something within its file system, such that it survives a power cut. What is at `to` already is an error.
pub fn rename(writer: &HostWriter, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), FileError> {
    let to = writer.path(to);
    let work = || Work::Rename { to: to.clone() };
    perform(writer, from.as_ref(), work, |path, announce| rename_directly(path, &to, announce))
}

/// Renames what may not be there, such that it survives a power cut.
pub fn rename_if_there(writer: &HostWriter, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), FileError> {
    let there = writer.host().locate(&from).perform(|| Work::Access, super::direct::access_of)?.is_some();
    if there { rename(writer, from, to) } else { Ok(()) }
}

/// Removes the directories in one whose names begin like this, with all that is in them.
pub fn remove_below(writer: &HostWriter, path: impl AsRef<Path>, prefix: &str) -> Result<(), FileError> {
    let path = path.as_ref();
    for found in details(writer.host(), path)?.unwrap_or_default() {
        if found.kind == Kind::Directory && found.name.starts_with(prefix) {
            remove_tree(writer, path.join(&found.name))?;
        }
    }
    Ok(())
}

/// Removes a directory with all that is in it, as far as it is there.
pub fn remove_tree(writer: &HostWriter, path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    for found in details(writer.host(), path)?.unwrap_or_default() {
        let own = path.join(&found.name);
        match found.kind {
            Kind::Directory => remove_tree(writer, &own)?,
            Kind::File | Kind::Link(_) | Kind::Other => {
                perform(writer, &own, || Work::RemoveAny, remove_any)?;
            }
        }
    }
    perform(writer, path, || Work::RemoveAny, remove_any)
}

fn perform(
    writer: &HostWriter,
    path: &Path,
    work: impl FnOnce() -> Work,
    here: impl FnOnce(&Path, Announce<'_>) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let announce = |path: &Path| writer.before_write(path);
    writer.host().locate(path).perform(work, |path| here(path, &announce))
}

/// Lists several directories below one: each question of a child costs, and a busy machine makes it dear.
fn details_of(host: &Host, from: &Path, below: &[PathBuf]) -> Result<Vec<Option<Vec<Found>>>, FileError> {
    let work = || Work::DetailsOf { below: below.to_vec() };
    host.locate(from).perform(work, |path| details_of_directly(path, below))
}

pub(crate) fn details_of_directly(path: &Path, below: &[PathBuf]) -> Result<Vec<Option<Vec<Found>>>, FileError> {
    below.iter().map(|own| details_directly(&path.join(own))).collect()
}

fn details(host: &Host, path: &Path) -> Result<Option<Vec<Found>>, FileError> {
    host.locate(path).perform(|| Work::Details, details_directly)
}

pub(crate) fn details_directly(path: &Path) -> Result<Option<Vec<Found>>, FileError> {
    let Some(entries) = if_there(fs::read_dir(path), "list", path)? else { return Ok(None) };
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry.map_err(FileError::access("list", path))?;
        // One may go in this very moment.
        let Some(found) = if_there(found(&entry.path()), "look at", &entry.path())? else { continue };
        all.push(found);
    }
    Ok(Some(all))
}

fn found(path: &Path) -> io::Result<Found> {
    let seen = fs::symlink_metadata(path)?;
    let text = |path: &Path| path.to_str().map(str::to_owned).ok_or(io::Error::from(ErrorKind::InvalidData));
    let kind = match seen.file_type() {
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_file() => Kind::File,
        kind if kind.is_symlink() => Kind::Link(text(&fs::read_link(path)?)?),
        _ => Kind::Other,
    };
    let time = |seconds: i64, nanoseconds: i64| {
        let seconds = u64::try_from(seconds).unwrap_or(0);
        Duration::new(seconds, u32::try_from(nanoseconds).unwrap_or(0))
    };
    Ok(Found {
        name: text(Path::new(path.file_name().unwrap_or_default()))?,
        kind,
        mode: seen.mode() & 0o7777,
        owner: (seen.uid(), seen.gid()),
        size: seen.len(),
        modified: time(seen.mtime(), seen.mtime_nsec()),
        changed: time(seen.ctime(), seen.ctime_nsec()),
        inode: seen.ino(),
    })
}

/// Writes a file of a copy. Nobody reads it before the copy is whole, so it need not be replaced in one step.
pub(crate) fn put(
    path: &Path,
    content: &[u8],
    mode: u32,
    owner: Owner,
    modified: Duration,
    announce: Announce<'_>,
) -> Result<(), FileError> {
    announce(path).map_err(FileError::access("change", path))?;
    // What is there may be a link, or not be ours to write.
    if_there(fs::remove_file(path), "remove", path)?;
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = opened.map_err(FileError::access("create", path))?;
    file.write_all(content).map_err(FileError::access("write", path))?;
    let (user, group) = numbers(owner);
    fchown(&file, user, group).map_err(|error| FileError::access("give away", path)(error.into()))?;
    file.set_permissions(Permissions::from_mode(mode)).map_err(FileError::access("set the mode of", path))?;
    file.set_times(FileTimes::new().set_modified(UNIX_EPOCH + modified))
        .map_err(FileError::access("set the time of", path))?;
    file.sync_all().map_err(FileError::access("write out", path))
}

pub(crate) fn make_link(path: &Path, target: &str, announce: Announce<'_>) -> Result<(), FileError> {
    announce(path).map_err(FileError::access("change", path))?;
    if_there(fs::remove_file(path), "remove", path)?;
    symlink(target, path).map_err(FileError::access("link", path))
}

pub(crate) fn remove_any(path: &Path, announce: Announce<'_>) -> Result<(), FileError> {
    let Some(found) = if_there(fs::symlink_metadata(path), "look at", path)? else { return Ok(()) };
    announce(path).map_err(FileError::access("change", path))?;
    let removed = if found.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
    if_there(removed, "remove", path).map(drop)
}

pub(crate) fn rename_directly(path: &Path, to: &Path, announce: Announce<'_>) -> Result<(), FileError> {
    if to.symlink_metadata().is_ok() {
        return Err(FileError::access("rename something to", to)(ErrorKind::AlreadyExists.into()));
    }
    announce(path).map_err(FileError::access("change", path))?;
    fs::rename(path, to).map_err(FileError::access("rename", path))?;
    let parent = |path: &Path| path.parent().unwrap_or(Path::new("/")).to_owned();
    sync_directory(&parent(to))?;
    if parent(path) == parent(to) { Ok(()) } else { sync_directory(&parent(path)) }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
