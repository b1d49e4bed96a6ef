//! File systems in user space that processes of a machine have mounted. A process that waits for one whose server waits
//! too is beyond every signal; it goes when the kernel's connection with the server is aborted.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// The connections behind the mounts of these processes, by the kernel's number, without those of the host itself.
pub(super) fn connections(processes: &[i32]) -> BTreeSet<u32> {
    let of = |process: &str| {
        let table = fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap_or_default();
        numbers(&table)
    };
    let own = of("self");
    let theirs = processes.iter().flat_map(|process| of(&process.to_string()));
    theirs.filter(|number| !own.contains(number)).collect()
}

/// Aborts connections: whoever waits for an answer gets an error.
pub(super) fn abort(connections: &BTreeSet<u32>) -> Result<()> {
    if connections.is_empty() {
        return Ok(());
    }
    let place = tempfile::tempdir().context("could not make a directory for the connections of FUSE")?;
    mount(Some("fusectl"), place.path(), Some("fusectl"), MsFlags::empty(), None::<&str>)
        .context("could not mount the connections of FUSE")?;
    let aborted = connections.iter().try_for_each(|number| abort_one(place.path(), *number));
    umount2(place.path(), MntFlags::MNT_DETACH).context("could not unmount the connections of FUSE")?;
    aborted
}

fn abort_one(place: &Path, number: u32) -> Result<()> {
    let file = place.join(number.to_string()).join("abort");
    // One that has ended by itself is not there any more.
    if !file.exists() {
        return Ok(());
    }
    fs::write(&file, "1").with_context(|| format!("could not abort connection {number} of FUSE"))
}

/// The minor numbers of the devices of FUSE in a table of mounts.
fn numbers(mountinfo: &str) -> BTreeSet<u32> {
    let number = |line: &str| -> Option<u32> {
        let (before, after) = line.split_once(" - ")?;
        let kind = after.split(' ').next()?;
        let is_fuse = kind == "fuse" || kind == "fuseblk" || kind.starts_with("fuse.");
        is_fuse.then_some(())?;
        before.split(' ').nth(2)?.split_once(':')?.1.parse().ok()
    };
    mountinfo.lines().filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connections_are_those_of_fuse() {
        let table = "31 30 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                     40 30 0:55 / /var/lib/slurm/checkpoint rw,nosuid shared:1 - fuse.mfs mfs#10.0.0.1:9421 rw\n\
                     41 30 0:56 / /mnt rw - fuseblk /dev/sdb1 rw\n\
                     42 30 0:57 / /sys/fs/fuse/connections rw - fusectl fusectl rw\n\
                     a line that is none\n";
        assert_eq!(numbers(table), [55, 56].into());
    }

    #[test]
    fn nothing_is_mounted_for_nothing() {
        assert!(abort(&BTreeSet::new()).is_ok());
    }
}
