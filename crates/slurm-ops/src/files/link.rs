//! A directory of this machine that is really a link to one elsewhere. The link itself is always on this machine, and
//! what it points at is never touched.

use super::direct::{if_there, sync_directory};
use super::{FileError, Host, HostWriter};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

/// Tells where a link points at, as an absolute path of the machine. `None`: there is no link.
pub fn link_target(host: &Host, path: impl AsRef<Path>) -> Option<String> {
    let path = path.as_ref();
    let found = fs::read_link(host.path(path)).ok()?;
    // On a made-up machine links hold what the system can follow.
    let own = found.strip_prefix(host.path("/")).map_or_else(|_| found.clone(), |below| Path::new("/").join(below));
    let whole = path.parent().unwrap_or(Path::new("/")).join(own);
    let mut plain = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    Some(plain.to_string_lossy().into_owned())
}

/// Makes `path` a link to the directory `target`, and tells whether anything had to change.
///
/// What was at `path` is kept as `path_timestamp`; a link that points elsewhere is replaced. A process killed in between
/// leaves nothing at `path`, and the next call goes on from there.
pub fn ensure_link(
    writer: &HostWriter,
    path: impl AsRef<Path>,
    target: impl AsRef<Path>,
    timestamp: &str,
) -> Result<bool, FileError> {
    let wanted = writer.path(target);
    let path = writer.path(path);
    let directory = path.parent().unwrap_or(Path::new("/"));
    match fs::read_link(&path) {
        Ok(found) if found == wanted => return Ok(false),
        // Something else is there.
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            writer.before_write(&path).map_err(FileError::access("change", &path))?;
            let kept = PathBuf::from(format!("{}_{timestamp}", path.display()));
            fs::rename(&path, kept).map_err(FileError::access("rename", &path))?;
        }
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(FileError::access("look at", &path)(error)),
        Ok(_) | Err(_) => {}
    }
    writer.before_write(&path).map_err(FileError::access("change", &path))?;
    let temporary = directory.join(format!(".{}.new", path.file_name().unwrap_or_default().to_string_lossy()));
    if_there(fs::remove_file(&temporary), "remove", &temporary)?;
    symlink(&wanted, &temporary).map_err(FileError::access("link", &temporary))?;
    fs::rename(&temporary, &path).map_err(FileError::access("replace", &path))?;
    sync_directory(directory)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    const TARGET: &str = "/var/lib/slurm/checkpoint/etc-slurm";

    fn machine() -> (tempfile::TempDir, Machine) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("etc/slurm")).unwrap();
        fs::write(directory.path().join("etc/slurm/slurm.conf"), "old").unwrap();
        let machine = Machine::at(directory.path());
        (directory, machine)
    }

    fn link(machine: &Machine, target: &str, timestamp: &str) -> bool {
        ensure_link(&machine.writer(), "/etc/slurm", target, timestamp).unwrap()
    }

    #[test]
    fn a_directory_is_kept_and_a_link_takes_its_place() {
        let (root, machine) = machine();
        assert_eq!(link_target(&machine.host(), "/etc/slurm"), None);
        assert!(link(&machine, TARGET, "20261117_174324"));
        assert!(!link(&machine, TARGET, "20261117_174325"));
        assert_eq!(link_target(&machine.host(), "/etc/slurm").as_deref(), Some(TARGET));
        let kept = root.path().join("etc/slurm_20261117_174324/slurm.conf");
        assert_eq!(fs::read_to_string(kept).unwrap(), "old");
        // What the link points at is there for whoever follows it.
        fs::create_dir_all(machine.path(TARGET)).unwrap();
        fs::write(machine.path(TARGET).join("slurm.conf"), "new").unwrap();
        assert_eq!(super::super::read_text(&machine.host(), "/etc/slurm/slurm.conf").unwrap().as_deref(), Some("new"));
        assert_eq!(fs::read_dir(root.path().join("etc")).unwrap().count(), 2);
    }

    #[test]
    fn a_call_that_was_killed_half_way_is_finished_by_the_next() {
        let (root, machine) = machine();
        fs::rename(machine.path("/etc/slurm"), machine.path("/etc/slurm_1")).unwrap();
        symlink("half", machine.path("/etc/.slurm.new")).unwrap();
        assert!(link(&machine, TARGET, "2"));
        assert_eq!(link_target(&machine.host(), "/etc/slurm").as_deref(), Some(TARGET));
        assert!(!root.path().join("etc/slurm_2").exists(), "a backup of nothing is none");
    }

    #[test]
    fn a_link_that_points_elsewhere_is_replaced_and_not_kept() {
        let (root, machine) = machine();
        fs::rename(machine.path("/etc/slurm"), machine.path("/etc/other")).unwrap();
        symlink("../etc/./other", machine.path("/etc/slurm")).unwrap();
        assert_eq!(link_target(&machine.host(), "/etc/slurm").as_deref(), Some("/etc/other"));
        assert!(link(&machine, TARGET, "1"));
        assert_eq!(link_target(&machine.host(), "/etc/slurm").as_deref(), Some(TARGET));
        assert_eq!(fs::read_dir(root.path().join("etc")).unwrap().count(), 2);
    }
}
