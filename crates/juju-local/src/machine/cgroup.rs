//! The cgroup of a machine, in the unified hierarchy: where its processes are found, frozen and killed.
//!
//! Layout below `/juju-local/<machine>`: `watch` holds the supervisor, `nspawn` all the rest, which systemd-nspawn
//! divides into `supervisor` and `payload`. They are apart because a cgroup that hands controllers down may hold no
//! process itself.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::fuse;

/// Our own corner of the hierarchy.
const PARENT: &str = "juju-local";

/// After so long without a turn of any thread, processes that are to stand still do. A thread that waits in the kernel
/// for a FUSE process that stands still already is never frozen in the kernel's eyes.
const STILL: Duration = Duration::from_millis(500);

/// One directory of the unified hierarchy.
#[derive(Debug, Clone)]
pub(super) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// The cgroup of a machine; it may exist or not.
    pub(super) fn of_machine(name: &str) -> Result<Cgroup> {
        Ok(Cgroup { path: hierarchy()?.join(PARENT).join(name) })
    }

    /// The cgroups of all machines whose name begins with `prefix`.
    pub(super) fn of_machines(prefix: &str) -> Result<Vec<Cgroup>> {
        let entries = fs::read_dir(hierarchy()?.join(PARENT)).into_iter().flatten().flatten();
        let of_ours = |path: &PathBuf| {
            path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        };
        Ok(entries.map(|entry| entry.path()).filter(of_ours).map(|path| Cgroup { path }).collect())
    }

    /// The cgroup in which systemd of the machine with this leader has its own tree.
    pub(super) fn of_payload(leader: i32) -> Result<Cgroup> {
        let text =
            fs::read_to_string(format!("/proc/{leader}/cgroup")).context("could not find the machine's cgroup")?;
        let Some(path) = text.lines().find_map(|line| line.strip_prefix("0::/")) else {
            bail!("process {leader} is in no unified cgroup")
        };
        let path = path.strip_suffix("/init.scope").unwrap_or(path);
        Ok(Cgroup { path: hierarchy()?.join(path) })
    }

    pub(super) fn child(&self, name: &str) -> Cgroup {
        Cgroup { path: self.path.join(name) }
    }

    pub(super) fn at(path: &Path) -> Cgroup {
        Cgroup { path: path.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn exists(&self) -> bool {
        self.path.is_dir()
    }

    /// Makes the directory and those above it.
    pub(super) fn create(&self) -> Result<()> {
        fs::create_dir_all(&self.path).with_context(|| format!("could not make cgroup {}", self.path.display()))
    }

    /// Lets the children of this cgroup use every controller it has. A host with v1 controllers has none to offer.
    pub(super) fn hand_down_controllers(&self) {
        let available = fs::read_to_string(self.path.join("cgroup.controllers")).unwrap_or_default();
        for controller in available.split_whitespace() {
            // Best effort: a machine without a controller works, jobs are just not confined by it.
            fs::write(self.path.join("cgroup.subtree_control"), format!("+{controller}")).ok();
        }
    }

    /// Our corner itself.
    pub(super) fn parent() -> Result<Cgroup> {
        Ok(Cgroup { path: hierarchy()?.join(PARENT) })
    }

    /// Moves the calling process here.
    pub(super) fn join(&self) -> Result<()> {
        let file = self.path.join("cgroup.procs");
        fs::write(&file, "0").with_context(|| format!("could not join cgroup {}", self.path.display()))
    }

    /// Every process here and below.
    pub(super) fn processes(&self) -> Vec<i32> {
        let mut found = Vec::new();
        for directory in self.directories() {
            let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
            found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
        }
        found
    }

    pub(super) fn is_populated(&self) -> bool {
        self.event("populated")
    }

    /// Stops every process here and below in its tracks, or lets them run again.
    pub(super) fn set_frozen(&self, frozen: bool) -> Result<()> {
        let file = self.path.join("cgroup.freeze");
        fs::write(&file, if frozen { "1" } else { "0" })
            .with_context(|| format!("could not write {}", file.display()))?;
        let (mut ran, mut since) = ((0, 0), Instant::now());
        let mut stands_still = || {
            let turns = self.turns();
            if turns != ran {
                (ran, since) = (turns, Instant::now());
            }
            since.elapsed() > STILL
        };
        wait_until(Duration::from_secs(10), || self.event("frozen") == frozen || (frozen && stands_still()))
            .with_context(|| format!("cgroup {} did not change to frozen={frozen}", self.path.display()))
    }

    /// Says whether it was told to stand still.
    pub(super) fn is_frozen(&self) -> bool {
        fs::read_to_string(self.path.join("cgroup.freeze")).is_ok_and(|text| text.trim() == "1")
    }

    /// Counts the threads here and below, and how often they had a processor.
    fn turns(&self) -> (usize, u64) {
        let threads = self.processes().into_iter().flat_map(|process| {
            fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten().map(|entry| entry.path())
        });
        let turns = threads.filter_map(|thread| {
            let text = fs::read_to_string(thread.join("schedstat")).ok()?;
            text.split_whitespace().nth(2)?.parse::<u64>().ok()
        });
        turns.fold((0, 0), |(threads, sum), turns| (threads + 1, sum + turns))
    }

    /// Kills every process here and below, at once and without asking, and waits until they are gone. One that waits
    /// for a file system in user space whose server waits too is helped out of it.
    pub(super) fn kill(&self) -> Result<()> {
        /// A killed process is gone within milliseconds, unless it waits for what no signal ends.
        const USUAL: Duration = Duration::from_secs(3);
        if !self.exists() {
            return Ok(());
        }
        let connections = fuse::connections(&self.processes());
        let file = self.path.join("cgroup.kill");
        fs::write(&file, "1").with_context(|| format!("could not write {}", file.display()))?;
        if wait_until(USUAL, || !self.is_populated()).is_err() {
            fuse::abort(&connections)?;
        }
        wait_until(Duration::from_secs(30), || !self.is_populated())
            .with_context(|| format!("processes {:?} in {} do not die", self.processes(), self.path.display()))
    }

    /// Removes the empty directories here and below, and our corner with the last of them.
    pub(super) fn remove(&self) -> Result<()> {
        for directory in self.directories().iter().rev() {
            match fs::remove_dir(directory) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("could not remove cgroup {}", directory.display()));
                }
                _ => {}
            }
        }
        if let Some(parent) = self.path.parent().filter(|parent| parent.ends_with(PARENT)) {
            // Fails while another machine has its cgroup there, which is right.
            fs::remove_dir(parent).ok();
        }
        Ok(())
    }

    fn event(&self, key: &str) -> bool {
        let text = fs::read_to_string(self.path.join("cgroup.events")).unwrap_or_default();
        text.lines().any(|line| line.strip_prefix(key).is_some_and(|value| value.trim() == "1"))
    }

    /// This directory and all below, parents before children.
    fn directories(&self) -> Vec<PathBuf> {
        let mut found = vec![self.path.clone()];
        let mut next = 0;
        while let Some(directory) = found.get(next) {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            let below: Vec<PathBuf> =
                entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()).collect();
            found.extend(below);
            next += 1;
        }
        found
    }
}

/// Where the unified hierarchy is mounted: `/sys/fs/cgroup`, or beside the v1 controllers on a hybrid host.
pub(super) fn hierarchy() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").context("could not read the mounts")?;
    match find_hierarchy(&mounts) {
        Some(path) => Ok(path),
        None => bail!("no unified cgroup hierarchy (cgroup2) is mounted"),
    }
}

fn find_hierarchy(mountinfo: &str) -> Option<PathBuf> {
    let mounted = mountinfo.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let fields: Vec<&str> = before.split(' ').collect();
        (after.split(' ').next()? == "cgroup2").then_some(())?;
        Some(PathBuf::from(fields.get(4)?))
    });
    // The last mount on a path hides those before it; the usual place wins over any other.
    let all: Vec<PathBuf> = mounted.collect();
    all.iter().find(|path| path.starts_with("/sys/fs/cgroup")).or(all.first()).cloned()
}

/// Looks every few milliseconds until it is so.
pub(super) fn wait_until(limit: Duration, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !is_so() {
        if Instant::now() > deadline {
            bail!("still waiting after {} s", limit.as_secs());
        }
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unified_hierarchy_is_found_beside_v1() {
        let hybrid = "31 30 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      32 31 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      33 31 0:29 / /sys/fs/cgroup/unified rw shared:1 - cgroup2 cgroup2 rw\n";
        assert_eq!(find_hierarchy(hybrid), Some(PathBuf::from("/sys/fs/cgroup/unified")));
    }

    #[test]
    fn the_unified_hierarchy_is_found_alone() {
        let pure = "31 30 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(find_hierarchy(pure), Some(PathBuf::from("/sys/fs/cgroup")));
    }

    #[test]
    fn a_host_without_a_unified_hierarchy_has_none() {
        assert_eq!(find_hierarchy("31 30 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"), None);
    }
}
