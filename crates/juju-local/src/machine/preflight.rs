//! What the host must offer before a machine can be made, each lack said in one sentence with its cure.

use std::fs;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;

use super::spec::check_layer;
use super::{cgroup, disk, program};

/// Each needed program, and the Debian and Ubuntu package that has it.
const PROGRAMS: [(&str, &str); 3] =
    [("systemd-nspawn", "systemd-container"), ("ip", "iproute2"), ("nsenter", "util-linux")];

/// Machines watch files; each takes a few of these, and the usual limit of 128 ends at about twenty machines.
const INOTIFY_INSTANCES: u32 = 8192;
const INOTIFY_LIMIT: &str = "/proc/sys/fs/inotify/max_user_instances";

/// Checks that machines can run here, with their disks below `state`.
pub(crate) fn preflight(state: &Path) -> Result<()> {
    ensure!(geteuid().is_root(), "machines need root: run this as root or with sudo");
    for (name, package) in PROGRAMS {
        ensure!(program::is_installed(name), "{name} is missing: apt-get install {package}");
    }
    cgroup::hierarchy().context("machines need cgroup v2, alone or beside v1")?;
    check_layer(state)?;
    fs::create_dir_all(state).with_context(|| format!("could not make {}", state.display()))?;
    try_overlay(state).context(
        "machines need overlayfs: load the kernel module `overlay`, or set JUJU_LOCAL_STATE to a directory on a plain \
         file system such as ext4 or xfs",
    )
}

/// Mounts a real overlay where the machines' disks will be, seen by nobody and gone with the thread that did it.
fn try_overlay(state: &Path) -> Result<()> {
    let scratch = tempfile::Builder::new().prefix(".preflight-").tempdir_in(state)?;
    let [lower, upper, work, root] = ["lower", "upper", "work", "root"].map(|name| scratch.path().join(name));
    for directory in [&lower, &upper, &work, &root] {
        fs::create_dir(directory)?;
    }
    let attempt = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS)?;
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        disk::mount_overlay(&lower, &upper, &work, &root)
    });
    match attempt.join() {
        Ok(outcome) => outcome,
        Err(_) => bail!("the attempt to mount one ended in a panic"),
    }
}

/// Raises the limit if it is lower. Failing is not fatal: a few machines still fit.
pub(super) fn raise_inotify_limit() {
    let current = fs::read_to_string(INOTIFY_LIMIT).ok().and_then(|text| text.trim().parse::<u32>().ok());
    if current.is_some_and(|current| current < INOTIFY_INSTANCES) {
        fs::write(INOTIFY_LIMIT, INOTIFY_INSTANCES.to_string()).ok();
    }
}
