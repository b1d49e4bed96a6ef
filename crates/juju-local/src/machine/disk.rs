//! The directory of a machine: what lies where in it, its seeded files, and the overlay that makes its root.

use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::clean::remove_tree;
use super::process::Process;
use super::spec::{Content, SeedFile, Spec};

/// The processes of a machine that is on, as its supervisor recorded them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Running {
    pub(super) supervisor: Process,
    pub(super) nspawn: Process,
    /// PID 1 of the machine, by its number on the host.
    pub(super) leader: Process,
}

/// A machine's directory.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    directory: PathBuf,
}

impl Disk {
    pub(super) fn at(directory: &Path) -> Disk {
        Disk { directory: directory.to_owned() }
    }

    /// The file by which a machine's directory is known.
    fn spec_file(&self) -> PathBuf {
        self.directory.join("machine.json")
    }

    fn running_file(&self) -> PathBuf {
        self.directory.join("running.json")
    }

    /// What the machine and its supervisor print.
    pub(super) fn boot_log(&self) -> PathBuf {
        self.directory.join("boot.log")
    }

    /// Where the supervisor, and nobody else, sees the machine's files.
    pub(super) fn root(&self) -> PathBuf {
        self.directory.join("root")
    }

    fn upper(&self) -> PathBuf {
        self.directory.join("upper")
    }

    fn work(&self) -> PathBuf {
        self.directory.join("work")
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn is_machine(&self) -> bool {
        self.spec_file().is_file()
    }

    pub(super) fn spec(&self) -> Result<Option<Spec>> {
        read_json(&self.spec_file())
    }

    pub(super) fn running(&self) -> Result<Option<Running>> {
        read_json(&self.running_file())
    }

    pub(super) fn set_running(&self, running: &Running) -> Result<()> {
        write_json(&self.running_file(), running)
    }

    pub(super) fn forget_running(&self) {
        // Whoever reads the file checks the processes anyway.
        fs::remove_file(self.running_file()).ok();
    }

    /// Makes the directory and seeds the files, unless that was done before.
    ///
    /// The record of the machine is written last: a directory whose seeding was cut short is seeded again from the
    /// start.
    pub(super) fn prepare(&self, spec: &Spec) -> Result<()> {
        // The upper layer's mode is that of the machine's `/`; what is on the disk is nobody's business on the host.
        for (directory, mode) in [(&self.directory, 0o700), (&self.root(), 0o755), (&self.upper(), 0o755)] {
            fs::create_dir_all(directory)
                .and_then(|()| fs::set_permissions(directory, Permissions::from_mode(mode)))
                .with_context(|| format!("could not make {}", directory.display()))?;
        }
        if self.is_machine() {
            return Ok(());
        }
        let built_in = [
            SeedFile::file("/etc/hostname", 0o644, format!("{}\n", spec.hostname)),
            // With a complete identity systemd does not take this for the image's first boot.
            SeedFile::file("/etc/machine-id", 0o444, machine_id()?),
        ];
        for file in built_in.iter().chain(&spec.files) {
            seed(&self.upper(), &spec.rootfs, file)
                .with_context(|| format!("could not seed {} of {}", file.path.display(), spec.name))?;
        }
        write_json(&self.spec_file(), spec)
    }

    /// Mounts the machine's root from the image and its own layer. Only to be called in a private mount namespace.
    pub(super) fn mount(&self, spec: &Spec) -> Result<()> {
        let work = self.work();
        // Overlay leaves a mark there when it was not unmounted in order and then refuses; the content is always
        // scratch.
        remove_tree(&work)?;
        fs::create_dir(&work).with_context(|| format!("could not make {}", work.display()))?;
        mount_overlay(&spec.rootfs, &self.upper(), &work, &self.root())
    }

    pub(super) fn remove(&self) -> Result<()> {
        remove_tree(&self.directory)
    }
}

/// Mounts an overlay that does not wait for the disk.
///
/// A machine's power loss is the death of its processes, which loses nothing the kernel has; waiting for the host's
/// disk would only make package installation slow.
pub(super) fn mount_overlay(lower: &Path, upper: &Path, work: &Path, target: &Path) -> Result<()> {
    let layers = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    let attempt = |extra: &str| {
        let options = format!("{layers}{extra}");
        mount(Some("overlay"), target, Some("overlay"), MsFlags::empty(), Some(options.as_str()))
    };
    // Directories of the image can be renamed as on a plain disk with redirect_dir. Older kernels know less.
    let mounted = match attempt(",redirect_dir=on,volatile") {
        Err(Errno::EINVAL) => attempt(""),
        other => other,
    };
    mounted.with_context(|| format!("could not mount an overlay on {}", target.display()))
}

/// Puts one file into the upper layer, with parents like those of the image.
fn seed(upper: &Path, lower: &Path, file: &SeedFile) -> Result<()> {
    let relative = file.path.strip_prefix("/")?;
    let Some(parent) = relative.parent() else { bail!("the root itself cannot be seeded") };
    let mut walked = PathBuf::new();
    for part in parent.components() {
        walked.push(part);
        ensure_directory(&upper.join(&walked), &lower.join(&walked))?;
    }
    let target = upper.join(relative);
    match &file.content {
        Content::File(bytes) => {
            remove_file(&target)?;
            let mut handle = File::create_new(&target)?;
            handle.write_all(bytes)?;
        }
        Content::Symlink(destination) => {
            remove_file(&target)?;
            symlink(destination, &target)?;
            return Ok(lchown(&target, Some(file.user), Some(file.group))?);
        }
        Content::Directory => ensure_directory(&target, &lower.join(relative))?,
    }
    chown(&target, Some(file.user), Some(file.group))?;
    Ok(fs::set_permissions(&target, Permissions::from_mode(file.mode))?)
}

/// A directory of the upper layer decides over owner and mode of the merged one, so it takes those of the image.
fn ensure_directory(upper: &Path, lower: &Path) -> Result<()> {
    for path in [upper, lower] {
        if let Ok(metadata) = fs::symlink_metadata(path)
            && !metadata.is_dir()
        {
            bail!("{} is not a directory", path.display());
        }
    }
    if upper.exists() {
        return Ok(());
    }
    fs::create_dir(upper)?;
    let (mode, user, group) = match fs::metadata(lower) {
        Ok(metadata) => (metadata.mode() & 0o7777, metadata.uid(), metadata.gid()),
        Err(_) => (0o755, 0, 0),
    };
    chown(upper, Some(user), Some(group))?;
    Ok(fs::set_permissions(upper, Permissions::from_mode(mode))?)
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn machine_id() -> Result<String> {
    let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid").context("could not make a machine identity")?;
    Ok(uuid.replace('-', ""))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("could not read {}", path.display())),
        Ok(bytes) => Ok(Some(
            serde_json::from_slice(&bytes).with_context(|| format!("could not understand {}", path.display()))?,
        )),
    }
}

/// Replaces the file in one go, so that no reader sees half of it.
fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, serde_json::to_vec_pretty(value)?)
        .and_then(|()| fs::rename(&fresh, path))
        .with_context(|| format!("could not write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let (upper, lower) = (directory.path().join("upper"), directory.path().join("lower"));
        fs::create_dir_all(&upper).unwrap();
        fs::create_dir_all(lower.join("root/private")).unwrap();
        fs::set_permissions(lower.join("root/private"), Permissions::from_mode(0o700)).unwrap();
        symlink("usr/bin", lower.join("bin")).unwrap();
        (directory, upper, lower)
    }

    fn mine(file: SeedFile) -> SeedFile {
        let owner = fs::metadata("/proc/self").unwrap();
        SeedFile { user: owner.uid(), group: owner.gid(), ..file }
    }

    #[test]
    fn seeded_parents_keep_the_mode_they_have_in_the_image() {
        let (_directory, upper, lower) = layers();
        seed(&upper, &lower, &mine(SeedFile::file("/root/private/key", 0o600, "secret"))).unwrap();
        assert_eq!(fs::metadata(upper.join("root/private")).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(upper.join("root/private/key")).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read(upper.join("root/private/key")).unwrap(), b"secret");
    }

    #[test]
    fn a_parent_that_is_a_link_in_the_image_is_refused() {
        let (_directory, upper, lower) = layers();
        let error = seed(&upper, &lower, &mine(SeedFile::file("/bin/tool", 0o755, ""))).unwrap_err();
        assert!(error.to_string().contains("not a directory"), "{error}");
        assert!(!upper.join("bin").exists());
    }

    #[test]
    fn seeding_twice_replaces_the_first() {
        let (_directory, upper, lower) = layers();
        seed(&upper, &lower, &mine(SeedFile::symlink("/opt/tool", "a"))).unwrap();
        seed(&upper, &lower, &mine(SeedFile::symlink("/opt/tool", "b"))).unwrap();
        assert_eq!(fs::read_link(upper.join("opt/tool")).unwrap(), Path::new("b"));
    }
}
