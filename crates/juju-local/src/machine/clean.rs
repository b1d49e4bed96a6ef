//! Removing what any run of this program ever made, without any record of it: by names alone.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;

use super::PREFIX;
use super::cgroup::{Cgroup, wait_until};
use super::disk::Disk;
use super::network;
use super::power::release;
use super::process::{Process, others};
use super::supervisor;

/// Kills every process and deletes every namespace and cgroup whose name begins with `prefix`; returns their names.
///
/// `jl-` stands for all there are, `jl-9c41f0` for one model. Daemons that have entered one of the networks are killed
/// too, except the calling process. Directories are left alone, see [`remove_tree`].
pub(crate) fn clean(prefix: &str) -> Result<Vec<String>> {
    ensure!(prefix.starts_with(PREFIX), "`{prefix}` does not begin with {PREFIX}");
    // Daemons first, so that none boots a machine again behind our back; then boots that a killed daemon left under
    // way.
    end_processes_in(&network::namespaces(prefix))?;
    end_boots(prefix)?;
    let mut names: BTreeSet<String> = network::namespaces(prefix).into_iter().collect();
    for cgroup in Cgroup::of_machines(prefix)? {
        names.extend(cgroup.path().file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    // Longer names first: machines before the network they hang on.
    for name in names.iter().rev() {
        release(name, None)?;
    }
    if let Ok(parent) = Cgroup::parent()
        && Cgroup::of_machines("")?.is_empty()
    {
        fs::remove_dir(parent.path()).ok();
    }
    Ok(names.into_iter().collect())
}

/// Removes a directory with all that is in it. A directory that is gone is no failure: two may remove it at a time.
pub(crate) fn remove_tree(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("could not remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

/// Kills whatever runs in one of these network namespaces.
fn end_processes_in(namespaces: &[String]) -> Result<()> {
    let wanted: BTreeSet<u64> =
        namespaces.iter().filter_map(|name| Some(fs::metadata(network::namespace_path(name)).ok()?.ino())).collect();
    let is_inside =
        |pid: &i32| fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|net| wanted.contains(&net.ino()));
    end(others().into_iter().filter(is_inside))?;
    Ok(())
}

/// Kills supervisors that are just starting, and are in no cgroup yet, with those who started them.
fn end_boots(prefix: &str) -> Result<()> {
    let is_ours = |pid: &i32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&str> =
            arguments.split(|byte| *byte == 0).filter_map(|word| str::from_utf8(word).ok()).collect();
        let ["juju-local", supervisor::BOOT | supervisor::SUPERVISE, directory, ..] = words.as_slice() else {
            return false;
        };
        let spec = Disk::at(Path::new(directory)).spec();
        spec.is_ok_and(|spec| spec.is_some_and(|spec| spec.name.starts_with(prefix)))
    };
    // One that was killed may have started another a moment before.
    while end(others().into_iter().filter(is_ours))? > 0 {}
    Ok(())
}

/// Kills processes, waits until they are gone, and says how many there were.
fn end(pids: impl Iterator<Item = i32>) -> Result<usize> {
    let found: Vec<Process> = pids.filter_map(|pid| Process::of(pid).ok()).collect();
    for process in &found {
        process.signal(Signal::SIGKILL);
    }
    wait_until(Duration::from_secs(30), || !found.iter().any(Process::is_alive))?;
    Ok(found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_can_be_cleaned() {
        assert!(clean("").is_err());
        assert!(clean("docker").is_err());
    }

    #[test]
    fn two_may_remove_a_directory_at_a_time() {
        let state = tempfile::tempdir().unwrap();
        let model = state.path().join("models/demo");
        for _ in 0..20 {
            for file in 0..50 {
                let directory = model.join(format!("machines/{file}"));
                fs::create_dir_all(&directory).unwrap();
                fs::write(directory.join("machine.json"), "{}").unwrap();
            }
            std::thread::scope(|scope| {
                let other = scope.spawn(|| remove_tree(&model));
                remove_tree(&model).unwrap();
                other.join().unwrap().unwrap();
            });
            assert!(!model.exists());
        }
    }
}
