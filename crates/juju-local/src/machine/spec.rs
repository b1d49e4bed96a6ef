//! What a machine is to be: names, address, seeded files, binds. Plain values and their checks; no effects.

use std::net::Ipv4Addr;
use std::path::{Component, Path, PathBuf};

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::PREFIX;

/// Everything needed to make and boot a machine.
///
/// All but the seeded files is remembered in the machine's directory, so that it can be powered on again later.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// Unique on the host, `jl-9c41f0-0`: names the network namespace, the link and the cgroup. At most 15 characters.
    pub(crate) name: String,
    /// What the machine calls itself, `juju-9c41f0-0`.
    pub(crate) hostname: String,
    /// The machine's own directory, absolute: its disk, boot log and records.
    pub(crate) directory: PathBuf,
    /// Root of the image, see [`super::image::ensure`]. Never written to.
    pub(crate) rootfs: PathBuf,
    /// Name of the model's network, which must exist.
    pub(crate) network: String,
    /// Address of `eth0`, in a /24.
    pub(crate) address: Ipv4Addr,
    /// Default route; the address of the model's bridge.
    pub(crate) gateway: Ipv4Addr,
    /// Written to the machine's disk before its first boot, never again.
    #[serde(skip)]
    pub(crate) files: Vec<SeedFile>,
    /// Paths of the host that the machine sees, at every boot.
    pub(crate) binds: Vec<Bind>,
}

/// One file, link or directory put on the disk before the first boot.
#[derive(Debug, Clone)]
pub(crate) struct SeedFile {
    /// Absolute path inside the machine. Its parents may be missing, but may not be symlinks.
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
    /// Permission bits; without meaning for a symlink.
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// What a [`SeedFile`] is.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    File(Vec<u8>),
    Symlink(PathBuf),
    Directory,
}

impl SeedFile {
    /// A regular file of root's.
    pub(crate) fn file(path: impl Into<PathBuf>, mode: u32, bytes: impl Into<Vec<u8>>) -> SeedFile {
        SeedFile { path: path.into(), content: Content::File(bytes.into()), mode, user: 0, group: 0 }
    }

    /// A symlink of root's.
    pub(crate) fn symlink(path: impl Into<PathBuf>, target: impl Into<PathBuf>) -> SeedFile {
        SeedFile { path: path.into(), content: Content::Symlink(target.into()), mode: 0o777, user: 0, group: 0 }
    }

    /// A directory of root's; an existing one only gets the mode.
    pub(crate) fn directory(path: impl Into<PathBuf>, mode: u32) -> SeedFile {
        SeedFile { path: path.into(), content: Content::Directory, mode, user: 0, group: 0 }
    }
}

/// A file or directory of the host that is visible in the machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Bind {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) read_only: bool,
}

impl Spec {
    /// Refuses what would become another option, path or name further down.
    pub(super) fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        check_name(&self.network)?;
        ensure!(self.name != self.network, "machine and network are both called `{}`", self.name);
        let host_character = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        ensure!(
            !self.hostname.is_empty() && self.hostname.len() <= 63 && self.hostname.chars().all(host_character),
            "`{}` is not a host name",
            self.hostname
        );
        for path in [&self.directory, &self.rootfs] {
            ensure!(is_plain(path), "{} is not a plain absolute path", path.display());
            check_layer(path)?;
        }
        for bind in &self.binds {
            for path in [&bind.source, &bind.target] {
                ensure!(is_plain(path), "bind of {}: not a plain absolute path", path.display());
            }
        }
        for file in &self.files {
            ensure!(is_plain(&file.path), "seeded file {}: not a plain absolute path", file.path.display());
        }
        Ok(())
    }
}

/// Accepts `jl-` and what may follow it in the name of a namespace, a link and a cgroup alike.
pub(super) fn check_name(name: &str) -> Result<()> {
    let Some(rest) = name.strip_prefix(PREFIX) else { bail!("`{name}` does not begin with {PREFIX}") };
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    ensure!(!rest.is_empty() && rest.chars().all(allowed), "`{name}` is not a name of the form {PREFIX}9c41f0-0");
    // The kernel's limit for the name of a link.
    ensure!(name.len() <= 15, "`{name}` is longer than 15 characters");
    Ok(())
}

/// Overlay separates its options and layers with some characters, and unescaping differs between kernels.
pub(super) fn check_layer(path: &Path) -> Result<()> {
    let text = path.to_string_lossy();
    ensure!(
        !text.contains([',', ':', '\\', '"']),
        "{text} holds a character that overlayfs cannot take: choose another directory"
    );
    Ok(())
}

/// Absolute, and made of nothing but names.
fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
        && !path.as_os_str().as_encoded_bytes().iter().any(|byte| byte.is_ascii_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_options_or_paths_are_refused() {
        for name in ["", "jl-", "9c41f0", "-jl-1", "jl-../x", "jl-a b", "jl-A", "jl-0123456789abc"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        check_name("jl-9c41f0").unwrap();
        check_name("jl-9c41f0-1234").unwrap();
    }

    #[test]
    fn a_path_with_a_way_up_is_not_plain() {
        assert!(!is_plain(Path::new("/etc/../root")));
        assert!(!is_plain(Path::new("etc")));
        assert!(!is_plain(Path::new("/etc/a\nb")));
        assert!(is_plain(Path::new("/etc/hosts")));
    }
}
