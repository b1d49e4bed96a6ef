//! File systems: what is mounted where, and looking into one that may not answer.
//!
//! A network file system whose server is gone holds whoever touches it, for ever. So what is mounted is read from the kernel's
//! table, which touches nothing, and files are read by a child that can be left behind at its deadline.

use crate::command::{Command, CommandError};
use crate::files::{self, FileError};
use crate::machine::Host;
use nix::unistd::{AccessFlags, access};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// A file server that needs longer than this for a small file is not fit to hold the state of a cluster.
const DEADLINE: Duration = Duration::from_secs(10);

/// What is mounted at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mount {
    /// Nothing: the path belongs to the file system above it.
    Nothing,
    /// Only a trigger of autofs, behind which nothing is mounted yet.
    Trigger,
    /// A file system.
    Mounted {
        /// `nfs4`, `ext4`, `cephfs` …
        file_system: String,
        /// Where it comes from: a device, or a server and its path.
        source: String,
        /// Nothing can be written there.
        read_only: bool,
    },
}

/// Reads from the kernel what is mounted at `path`. Touches nothing there.
pub fn mount_at(host: &Host, path: impl AsRef<Path>) -> Result<Mount, FileError> {
    let table = files::read(host, "/proc/self/mountinfo")?.unwrap_or_default();
    Ok(parse(&String::from_utf8_lossy(&table), path.as_ref()))
}

/// Finds the uppermost mount at `path`: the last line of the kernel's table that names it.
fn parse(table: &str, path: &Path) -> Mount {
    let mut found = Mount::Nothing;
    for line in table.lines() {
        let Some((mount, source)) = line.split_once(" - ") else { continue };
        let mut mount = mount.split(' ');
        if mount.nth(4).map(unescape).as_deref().map(Path::new) != Some(path) {
            continue;
        }
        let options = mount.next().unwrap_or_default();
        let mut source = source.split(' ');
        let file_system = source.next().unwrap_or_default();
        let origin = source.next().unwrap_or_default();
        let of_server = source.next().unwrap_or_default();
        let read_only = [options, of_server].iter().any(|options| options.split(',').any(|option| option == "ro"));
        found = match file_system {
            "autofs" => Mount::Trigger,
            _ => Mount::Mounted { file_system: file_system.to_owned(), source: unescape(origin), read_only },
        };
    }
    found
}

/// The kernel writes blanks and backslashes as three octal digits.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|digits| first == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match digits {
            Some(digits) => {
                let value = digits.iter().fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'));
                bytes.push(u8::try_from(value).unwrap_or(b'?'));
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads a small file in a file system that may not answer. `None`: there is no such file.
pub fn read(host: &Host, path: impl AsRef<Path>) -> Result<Option<Vec<u8>>, CommandError> {
    read_within(host, path, DEADLINE)
}

fn read_within(host: &Host, path: impl AsRef<Path>, deadline: Duration) -> Result<Option<Vec<u8>>, CommandError> {
    match child(host, "cat").deadline(deadline).arg("--").arg(text(host, path.as_ref())).bytes() {
        Ok(content) => Ok(Some(content)),
        Err(CommandError::Failed { stderr, .. }) if stderr.contains("No such file or directory") => Ok(None),
        Err(error) => Err(error),
    }
}

/// Tells whether a directory is there and can be written by a user; by whoever asks, if there is no such user. A disk of this machine answers; a
/// file system of another only a child asks.
pub fn is_writable(host: &Host, path: impl AsRef<Path>, user: &str) -> Result<bool, CommandError> {
    let known = files::user_ids(host, user).ok();
    if is_on_this_machine(host, &path) {
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

/// Tells whether a path is on a file system that needs nobody else.
pub fn is_on_this_machine(host: &Host, path: impl AsRef<Path>) -> bool {
    let table = files::read(host, "/proc/self/mountinfo").ok().flatten().unwrap_or_default();
    is_on_a_disk(&String::from_utf8_lossy(&table), path.as_ref())
}

/// What is not known to be such a file system is none.
fn is_on_a_disk(table: &str, path: &Path) -> bool {
    const DISKS: [&str; 9] = ["bcachefs", "btrfs", "ext2", "ext3", "ext4", "overlay", "tmpfs", "xfs", "zfs"];
    let holder = path.ancestors().map(|above| parse(table, above)).find(|mount| *mount != Mount::Nothing);
    matches!(holder, Some(Mount::Mounted { file_system, .. }) if DISKS.contains(&file_system.as_str()))
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

fn child(host: &Host, program: &str) -> Command {
    host.command(program).deadline(DEADLINE)
}

fn text(host: &Host, path: &Path) -> String {
    host.path(path).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    const TABLE: &str = "\
2234 2202 0:206 / / rw,relatime shared:596 - overlay overlay rw,lowerdir=/var/cache
2300 2234 0:50 / /var/lib/slurm/checkpoint rw,relatime shared:1 - autofs /etc/auto.slurm rw,fd=6,pgrp=1,timeout=300
2301 2300 0:51 / /var/lib/slurm/checkpoint rw,relatime shared:2 - nfs4 10.0.0.9:/srv/slurm rw,vers=4.2,hard
2302 2234 0:52 / /mnt/with\\040blank ro,relatime - ext4 /dev/vdb1 rw
2303 2234 0:53 / /home rw,relatime shared:9 - autofs systemd-1 rw,fd=7
2304 2234 0:54 / /scratch rw,relatime shared:9 - nfs4 10.0.0.9:/scratch ro,vers=4.2
";

    fn mounted(file_system: &str, source: &str, read_only: bool) -> Mount {
        Mount::Mounted { file_system: file_system.to_owned(), source: source.to_owned(), read_only }
    }

    #[test]
    fn the_uppermost_mount_counts_and_a_trigger_is_none() {
        let at = |path: &str| parse(TABLE, Path::new(path));
        assert_eq!(at("/var/lib/slurm/checkpoint"), mounted("nfs4", "10.0.0.9:/srv/slurm", false));
        assert_eq!(at("/mnt/with blank"), mounted("ext4", "/dev/vdb1", true));
        assert_eq!(at("/scratch"), mounted("nfs4", "10.0.0.9:/scratch", true));
        assert_eq!(at("/home"), Mount::Trigger);
        assert_eq!(at("/var/lib/slurm"), Mount::Nothing);
        assert_eq!(at("/var/lib/slurm/checkpoint/state"), Mount::Nothing);
    }

    #[test]
    fn only_a_disk_of_this_machine_is_asked_without_a_child() {
        let disk = |path: &str| is_on_a_disk(TABLE, Path::new(path));
        assert!(disk("/var/lib/slurm") && disk("/mnt/with blank/a/b"));
        assert!(!disk("/var/lib/slurm/checkpoint/state") && !disk("/home/somebody") && !disk("/scratch"));
        assert!(!is_on_a_disk("", Path::new("/var/lib/slurm")));
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::at(directory.path());
        std::fs::create_dir_all(directory.path().join("proc/self")).unwrap();
        std::fs::write(directory.path().join("proc/self/mountinfo"), TABLE).unwrap();
        std::fs::write(directory.path().join("file"), "").unwrap();
        let writable = |path: &str| is_writable(&machine.host(), path, "slurm").unwrap();
        assert!(writable("/proc"));
        assert!(!writable("/file") && !writable("/none"));
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
    fn any_text_is_a_table() {
        for table in ["", "\n\n", " - ", "1 2 3 4 /a", "1 2 3 4 /a - ", "1 2 3 4 \\99 - x y z", "1 2 3 4 \\777 - x"] {
            assert_ne!(parse(table, Path::new("/nowhere")), Mount::Trigger);
        }
    }

    #[test]
    fn the_root_of_this_machine_is_mounted() {
        assert!(matches!(mount_at(&Machine::new().host(), "/").unwrap(), Mount::Mounted { .. }));
    }

    #[test]
    fn files_are_read_by_a_child_byte_for_byte() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::at(directory.path());
        std::fs::write(directory.path().join("x"), [0, 255, 10, 13]).unwrap();
        assert_eq!(read(&machine.host(), "/x").unwrap().unwrap(), [0, 255, 10, 13]);
        assert_eq!(read(&machine.host(), "/none").unwrap(), None);
        let writable = |path: &str| is_writable(&machine.host(), path, "slurm").unwrap();
        assert!(writable("/") && !writable("/x") && !writable("/none"));
    }

    #[test]
    fn a_file_that_never_answers_is_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::at(directory.path());
        // Nobody writes into this pipe, so whoever opens it waits.
        nix::unistd::mkfifo(&directory.path().join("x"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        let outcome = read_within(&machine.host(), "/x", Duration::from_millis(100));
        assert!(matches!(outcome, Err(CommandError::TimedOut { .. })), "{outcome:?}");
    }
}
