//! File systems: what is mounted where, by the kernel's table. That touches nothing, so it cannot be held by a server
//! that is gone.

use crate::files::{self, FileError};
use crate::machine::Host;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

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
        if mount.nth(4).is_none_or(|at| Path::new(&*unescape(at)) != path) {
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
            _ => {
                Mount::Mounted { file_system: file_system.to_owned(), source: unescape(origin).into_owned(), read_only }
            }
        };
    }
    found
}

/// The kernel writes what would end a word or a line as three octal digits, and the backslash with them.
fn unescape(text: &str) -> Cow<'_, str> {
    // Nearly none has one, and each path that is touched is looked up.
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let escapes = [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\043", "#"), (r"\134", "\\")];
    Cow::Owned(escapes.iter().fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain)))
}

/// Tells whether a path is on a file system that needs nobody else.
pub fn is_on_this_machine(host: &Host, path: impl AsRef<Path>) -> bool {
    let table = files::read(host, "/proc/self/mountinfo").ok().flatten().unwrap_or_default();
    is_on_a_disk(&String::from_utf8_lossy(&table), path.as_ref())
}

/// What is not known to be such a file system is none.
fn is_on_a_disk(table: &str, path: &Path) -> bool {
    holder(table, path).is_some_and(|(_, mount)| is_disk(&mount))
}

fn is_disk(mount: &Mount) -> bool {
    const DISKS: [&str; 9] = ["bcachefs", "btrfs", "ext2", "ext3", "ext4", "overlay", "tmpfs", "xfs", "zfs"];
    matches!(mount, Mount::Mounted { file_system, .. } if DISKS.contains(&file_system.as_str()))
}

/// Finds what is mounted at a path, or nearest above it, and where.
fn holder<'a>(table: &str, path: &'a Path) -> Option<(&'a Path, Mount)> {
    path.ancestors().map(|above| (above, parse(table, above))).find(|(_, mount)| *mount != Mount::Nothing)
}

/// Tells whether a path is on a file system that may hold whoever touches it. What has no mount of its own is as alive
/// as this program, which comes from the same file system.
pub(crate) fn may_be_silent(host: &Host, path: &Path) -> bool {
    // There the kernel itself answers. Some of it is read very often.
    if ["/proc", "/sys", "/dev"].iter().any(|kernel| path.starts_with(kernel)) {
        return false;
    }
    let table = table(host).unwrap_or_default();
    is_elsewhere(&String::from_utf8_lossy(&table), path)
}

/// Reads the kernel's table in one go: it has no length, so that whoever guesses one asks again and again.
fn table(host: &Host) -> io::Result<Vec<u8>> {
    let mut table = Vec::with_capacity(64 * 1024);
    File::open(host.path("/proc/self/mountinfo"))?.read_to_end(&mut table)?;
    Ok(table)
}

fn is_elsewhere(table: &str, path: &Path) -> bool {
    holder(table, path).is_some_and(|(at, mount)| at != Path::new("/") && !is_disk(&mount))
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
    }

    #[test]
    fn only_what_has_a_mount_of_its_own_may_be_silent() {
        let elsewhere = |path: &str| is_elsewhere(TABLE, Path::new(path));
        assert!(elsewhere("/var/lib/slurm/checkpoint/state") && elsewhere("/scratch") && elsewhere("/home/somebody"));
        assert!(!elsewhere("/var/lib/slurm") && !elsewhere("/mnt/with blank/a") && !elsewhere("/"));
        assert!(!is_elsewhere("", Path::new("/var/lib/slurm")));
        let distant = "1 0 0:1 / / rw,relatime shared:1 - nfs4 10.0.0.9:/root rw\n";
        assert!(!is_elsewhere(distant, Path::new("/etc/slurm")), "a program cannot outlive its root");
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
}
