//! Files on a file system that may not answer: the only way to look at a store that may come from another machine.
//!
//! A network file system whose server is gone holds whoever touches it, for ever. So unless the kernel's table of
//! mounts says that a path is on a disk of this machine, a child looks, which is left behind at its deadline.

use crate::command::{Command, CommandError};
use crate::files::{self, FileError};
use crate::machine::{Host, MachineError};
use crate::mounts;
use nix::unistd::{AccessFlags, access};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// A file server that needs longer than this for a small file is not fit to hold the state of a cluster.
const DEADLINE: Duration = Duration::from_secs(10);

/// Something in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// When it was last written, counted from 1970.
    pub modified: Duration,
}

/// Reads a small file. `None`: there is none.
pub fn read(host: &Host, path: impl AsRef<Path>) -> Result<Option<Vec<u8>>, MachineError> {
    if mounts::is_on_this_machine(host, &path) {
        return Ok(files::read(host, path)?);
    }
    absent(child(host, "cat").arg("--").arg(text(host, path.as_ref())).bytes())
}

/// Lists a directory, with when each entry was last written: all of it by one process. `None`: there is none.
pub fn list(host: &Host, path: impl AsRef<Path>) -> Result<Option<Vec<Entry>>, MachineError> {
    match mounts::is_on_this_machine(host, &path) {
        true => Ok(list_here(&host.path(path))?),
        false => Ok(find(host, path.as_ref(), "1")?.map(|(_, entries)| entries)),
    }
}

/// Tells when a file was last written, counted from 1970. `None`: there is none.
pub fn modified(host: &Host, path: impl AsRef<Path>) -> Result<Option<Duration>, MachineError> {
    if mounts::is_on_this_machine(host, &path) {
        return Ok(files::modified(host, path)?);
    }
    Ok(find(host, path.as_ref(), "0")?.map(|(itself, _)| itself.modified))
}

/// Tells whether a directory is there and can be written by a user; by whoever asks, if there is no such user.
pub fn is_writable(host: &Host, path: impl AsRef<Path>, user: &str) -> Result<bool, CommandError> {
    let known = files::user_ids(host, user).ok();
    if mounts::is_on_this_machine(host, &path) {
        let path = host.path(path);
        let allowed = || match (&known, path.metadata()) {
            (Some((user, group)), Ok(found)) => may_write(&found, user.as_raw(), group.as_raw()),
            (None, Ok(_)) => true,
            (_, Err(_)) => false,
        };
        return Ok(path.is_dir() && access(&path, AccessFlags::W_OK).is_ok() && allowed());
    }
    let path = text(host, path.as_ref());
    let command = match known {
        Some(_) => child(host, "runuser").args(["-u", user, "--", "test"]),
        None => child(host, "test"),
    };
    let command = command.args(["-d", &path, "-a", "-w", &path]);
    let output = command.output()?;
    match output.code {
        0 => Ok(true),
        1 => Ok(false),
        _ => Err(command.unreadable(output.complaint())),
    }
}

fn list_here(path: &Path) -> Result<Option<Vec<Entry>>, FileError> {
    let Some(entries) = files::if_there(fs::read_dir(path), "list", path)? else { return Ok(None) };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| FileError::Access { action: "list", path: path.to_owned(), source })?;
        let written = entry.metadata().and_then(|found| found.modified());
        // It may go in this very moment.
        let Some(written) = files::if_there(written, "list", path)? else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        found.push(Entry { name, modified: written.duration_since(UNIX_EPOCH).unwrap_or_default() });
    }
    Ok(Some(found))
}

/// Finds what is at a path, and what is in it.
fn find(host: &Host, path: &Path, depth: &str) -> Result<Option<(Entry, Vec<Entry>)>, MachineError> {
    // Slurm replaces its files all the time. One that goes while this looks must not make the whole directory seem to
    // be gone.
    let command = child(host, "find").args(["-H", &text(host, path), "-ignore_readdir_race", "-maxdepth", depth]);
    let command = command.args(["-printf", r"%T@ %f\0"]);
    let Some(found) = absent(command.bytes())? else { return Ok(None) };
    let entries: Option<Vec<Entry>> = String::from_utf8_lossy(&found).split_terminator('\0').map(parse).collect();
    let mut entries = entries.ok_or_else(|| command.unreadable("no time and name"))?.into_iter();
    // What the path itself is comes first.
    Ok(entries.next().map(|itself| (itself, entries.collect())))
}

/// An entry is `1794830922.1234567890 part_state`.
fn parse(entry: &str) -> Option<Entry> {
    let (time, name) = entry.split_once(' ')?;
    let (seconds, fraction) = time.split_once('.').unwrap_or((time, "0"));
    // One that was written before 1970 is as old as can be told.
    let seconds = seconds.parse::<i64>().ok()?.try_into().unwrap_or(0);
    let nanoseconds = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    Some(Entry { name: name.to_owned(), modified: Duration::new(seconds, nanoseconds) })
}

fn absent<T>(answer: Result<T, CommandError>) -> Result<Option<T>, MachineError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(CommandError::Failed { stderr, .. }) if stderr.contains("No such file or directory") => Ok(None),
        Err(error) => Err(error.into()),
    }
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

/// Prepares a program that looks at a store, or changes it, and is left behind at its deadline.
pub(crate) fn child(host: &Host, program: &str) -> Command {
    host.command(program).deadline(DEADLINE)
}

pub(crate) fn text(host: &Host, path: &Path) -> String {
    host.path(path).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    const HERE: &str = "1 0 0:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n";
    const ELSEWHERE: &str = "1 0 0:1 / / rw,relatime shared:1 - nfs4 10.0.0.9:/srv rw,vers=4.2,hard\n";

    fn machine(table: &str) -> (tempfile::TempDir, Machine) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("proc/self")).unwrap();
        std::fs::write(directory.path().join("proc/self/mountinfo"), table).unwrap();
        std::fs::create_dir(directory.path().join("state")).unwrap();
        std::fs::write(directory.path().join("state/a b\nc"), [0, 255, 10, 13]).unwrap();
        std::fs::write(directory.path().join("state/.d"), "").unwrap();
        let machine = Machine::at(directory.path());
        (directory, machine)
    }

    #[test]
    fn a_child_sees_what_is_seen_without_it() {
        let ((here, local), (away, distant)) = (machine(HERE), machine(ELSEWHERE));
        for (root, host) in [(here, local.host()), (away, distant.host())] {
            assert_eq!(read(&host, "/state/a b\nc").unwrap().unwrap(), [0, 255, 10, 13]);
            assert_eq!(read(&host, "/none").unwrap(), None);
            let written = root.path().join("state/.d").metadata().unwrap().modified().unwrap();
            let written = written.duration_since(UNIX_EPOCH).unwrap();
            assert_eq!(modified(&host, "/state/.d").unwrap(), Some(written), "to the nanosecond");
            assert_eq!(modified(&host, "/none").unwrap(), None);
            let mut found = list(&host, "/state").unwrap().unwrap();
            found.sort_by(|one, other| one.name.cmp(&other.name));
            assert_eq!(found.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), [".d", "a b\nc"]);
            assert_eq!(found[0].modified, written);
            assert_eq!(list(&host, "/none").unwrap(), None);
            assert!(list(&host, "/proc/self/mountinfo/x").is_err());
            let writable = |path: &str| is_writable(&host, path, "slurm").unwrap();
            assert!(writable("/state") && !writable("/state/.d") && !writable("/none"));
        }
    }

    #[test]
    fn a_store_of_another_machine_is_never_touched_by_this_process() {
        use std::os::unix::fs::PermissionsExt;
        let (root, machine) = machine(ELSEWHERE);
        for program in ["cat", "find", "test"] {
            let path = root.path().join(program);
            std::fs::write(&path, "#!/bin/sh\necho \"$0: Stale file handle\" >&2; exit 2\n").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let host = machine.with_search_path(root.path()).host();
        assert!(read(&host, "/state/.d").is_err());
        assert!(list(&host, "/state").is_err());
        assert!(modified(&host, "/state/.d").is_err());
        assert!(is_writable(&host, "/state", "slurm").is_err());
    }

    #[test]
    fn a_directory_is_written_by_whom_its_bits_allow() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let (owner, group) = (directory.path().metadata().unwrap().uid(), directory.path().metadata().unwrap().gid());
        for (mode, expected) in [
            (0o700, (true, false, false)),
            (0o770, (true, true, false)),
            (0o777, (true, true, true)),
            (0o500, (false, false, false)),
        ] {
            std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(mode)).unwrap();
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
    fn a_file_that_never_answers_is_left_behind() {
        let (root, machine) = machine(ELSEWHERE);
        // Nobody writes into this pipe, so whoever opens it waits.
        nix::unistd::mkfifo(&root.path().join("x"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        let host = machine.host();
        let outcome =
            child(&host, "cat").deadline(Duration::from_millis(100)).arg(text(&host, Path::new("/x"))).bytes();
        assert!(matches!(outcome, Err(CommandError::TimedOut { .. })), "{outcome:?}");
    }

    #[test]
    fn times_are_read_to_the_nanosecond() {
        let at = |text: &str| parse(text).map(|entry| entry.modified);
        assert_eq!(at("12.5 x"), Some(Duration::from_millis(12_500)));
        assert_eq!(at("12.0123456789 x"), Some(Duration::new(12, 12_345_678)));
        assert_eq!(at("-3.5 x"), Some(Duration::from_millis(500)));
        assert_eq!((at(""), at("x y"), at("12")), (None, None, None));
    }
}
