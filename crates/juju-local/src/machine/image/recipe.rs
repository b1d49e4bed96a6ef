//! What is in the image: packages, pool, files, masked units. Data only; `build.rs` carries it out.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::SlurmRelease;

/// Raised when `build.rs` or `pool.rs` change in a way that the data below does not show.
const REVISION: u32 = 3;

/// Where the pool lies in the image.
pub(super) const POOL: &str = "var/lib/juju-local/pool";

/// A user of Juju's machines has this name, and root's rights by `sudo`.
pub(super) const USER: &str = "ubuntu";
pub(super) const USER_ID: u32 = 1000;

/// Installed: a small system that feels like an Ubuntu cloud machine from within.
const INSTALLED: &[&str] = &[
    "ca-certificates",
    "dbus",
    "iproute2",
    "iputils-ping",
    "less",
    "libnss-myhostname",
    "nano",
    "netbase",
    "procps",
    "python3",
    "sudo",
    "systemd",
    "systemd-sysv",
];

/// In the pool, with all they depend on and recommend: what charms install.
const POOLED: &[&str] = &[
    "munge",
    "needrestart",
    "openssh-server",
    "sackd",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "slurm-wlm-jwt-plugin",
    "slurm-wlm-mysql-plugin",
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurmrestd",
];

/// In the pool too, with what they depend on and nothing more: a database, a network file system and what mounts it,
/// what sends mail, and what reads metrics. What they recommend (NFS above all) is ten times their size.
const POOLED_BARE: &[&str] = &[
    "autofs",
    "bsd-mailx",
    "mariadb-server",
    "moosefs-chunkserver",
    "moosefs-client",
    "moosefs-master",
    "msmtp",
    "msmtp-mta",
    "prometheus",
];

/// Units that mean nothing in such a machine, cost boot time, or would fail and make it `degraded`.
const MASKED: &[&str] = &[
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "console-getty.service",
    "container-getty@.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@.service",
    "ldconfig.service",
    "systemd-firstboot.service",
    "systemd-journal-catalog-update.service",
    "systemd-networkd-wait-online.service",
    "systemd-networkd.service",
    "systemd-networkd.socket",
    "systemd-networkd-resolve-hook.socket",
    "systemd-networkd-varlink.socket",
    "systemd-remount-fs.service",
    "systemd-update-done.service",
];

/// Files of the image that no package brings: path, mode, content.
const FILES: &[(&str, u32, &str)] = &[
    (
        "etc/apt/sources.list.d/juju-local.sources",
        0o644,
        "Types: deb\nURIs: file:/var/lib/juju-local/pool\nSuites: ./\nTrusted: yes\n",
    ),
    (
        "etc/apt/apt.conf.d/90juju-local",
        0o644,
        "Acquire::Languages \"none\";\nAPT::Sandbox::User \"root\";\nDpkg::Use-Pty \"0\";\n",
    ),
    ("etc/sudoers.d/90-ubuntu", 0o440, "ubuntu ALL=(ALL) NOPASSWD:ALL\n"),
    ("etc/default/locale", 0o644, "LANG=C.UTF-8\n"),
    ("etc/locale.conf", 0o644, "LANG=C.UTF-8\n"),
    ("etc/hosts", 0o644, "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"),
    // No name server: look-ups beyond /etc/hosts fail at once instead of timing out.
    ("etc/resolv.conf", 0o644, ""),
    // A hostname and an identity are given to each machine.
    ("etc/hostname", 0o644, ""),
    ("etc/machine-id", 0o444, ""),
    ("etc/fstab", 0o644, ""),
    // A power cycle loses the journal, in exchange for a boot that does not wait for the disk.
    ("etc/systemd/journald.conf.d/90-juju-local.conf", 0o644, "[Journal]\nStorage=volatile\nRuntimeMaxUse=64M\n"),
];

/// dpkg in the image and in every machine: no waiting for the disk, no documentation.
const DPKG_OPTIONS: &[&str] = &[
    "force-unsafe-io",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/bug/*",
    "path-exclude=/usr/share/lintian/*",
];

/// All that decides what an image holds.
#[derive(Debug, Clone, Hash)]
pub(super) struct Recipe {
    revision: u32,
    pub(super) suite: &'static str,
    pub(super) installed: &'static [&'static str],
    pub(super) pooled: &'static [&'static str],
    pub(super) pooled_bare: &'static [&'static str],
    pub(super) masked: &'static [&'static str],
    pub(super) files: &'static [(&'static str, u32, &'static str)],
    pub(super) dpkg_options: &'static [&'static str],
}

impl Recipe {
    pub(super) fn new(release: SlurmRelease) -> Recipe {
        Recipe {
            revision: REVISION,
            suite: match release {
                SlurmRelease::Trixie2411 => "trixie",
                SlurmRelease::Sid2605 => "sid",
            },
            installed: INSTALLED,
            pooled: POOLED,
            pooled_bare: POOLED_BARE,
            masked: MASKED,
            files: FILES,
            dpkg_options: DPKG_OPTIONS,
        }
    }

    /// Name of the image's directory; another recipe has another name.
    pub(super) fn name(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        format!("image-{}-{:016x}", self.suite, hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_recipe_has_another_name() {
        let recipe = Recipe::new(SlurmRelease::Trixie2411);
        assert_eq!(recipe.name(), Recipe::new(SlurmRelease::Trixie2411).name());
        assert_ne!(recipe.name(), Recipe::new(SlurmRelease::Sid2605).name());
        assert_ne!(recipe.name(), Recipe { pooled: &["munge"], ..recipe.clone() }.name());
        assert_ne!(recipe.name(), Recipe { pooled_bare: &[], ..recipe }.name());
    }
}
