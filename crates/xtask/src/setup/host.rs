//! Programs that the host must have: which package brings each, why it is needed, and installing it with apt-get.
//! What goes into a machine's image is juju-local's business, not this file's.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::console::say;
use crate::program;

/// How one can tell that something is there.
pub(crate) enum Sign {
    /// An executable of this name.
    Program(&'static str),
    /// A file at one of these paths.
    File(&'static [&'static str]),
    /// A Python module that `python3` can load.
    PythonModule(&'static str),
}

/// One thing the host must have.
pub(crate) struct Need {
    sign: Sign,
    package: &'static str,
    why: &'static str,
}

/// What juju-local needs to make an image and to boot machines from it.
pub(crate) const FOR_MACHINES: &[Need] = &[
    Need { sign: Sign::Program("mmdebstrap"), package: "mmdebstrap", why: "builds the image that machines boot from" },
    Need { sign: Sign::Program("systemd-nspawn"), package: "systemd-container", why: "boots the machines" },
    Need { sign: Sign::Program("ip"), package: "iproute2", why: "makes the machines' network" },
    Need { sign: Sign::Program("nsenter"), package: "util-linux", why: "runs commands in the machines" },
    Need {
        sign: Sign::File(&[
            "/usr/share/keyrings/debian-archive-keyring.gpg",
            "/usr/share/keyrings/debian-archive-keyring.pgp",
        ]),
        package: "debian-archive-keyring",
        why: "verifies the packages that go into the image",
    },
];

/// What the tests' Python environment needs.
pub(crate) const FOR_PYTHON: &[Need] = &[
    Need { sign: Sign::Program("python3"), package: "python3", why: "runs the cluster tests" },
    Need { sign: Sign::PythonModule("ensurepip"), package: "python3-venv", why: "keeps the tests' packages apart" },
];

/// What the fuzz targets need beyond Rust.
pub(crate) const FOR_FUZZING: &[Need] =
    &[Need { sign: Sign::Program("c++"), package: "g++", why: "compiles libFuzzer" }];

impl Need {
    fn is_met(&self) -> bool {
        match self.sign {
            Sign::Program(name) => program::find_on_path(name).is_some(),
            Sign::File(paths) => paths.iter().any(|path| std::path::Path::new(path).exists()),
            Sign::PythonModule(module) => {
                let found = program::program("python3").and_then(|mut python| {
                    python.args(["-c", &format!("import {module}")]);
                    program::capture(&mut python, Duration::from_secs(30))
                });
                found.is_ok()
            }
        }
    }
}

/// Installs the packages of all unmet needs, or says in one sentence what a person has to install.
pub(crate) fn ensure(needs: &[Need]) -> Result<()> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !need.is_met()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    if program::find_on_path("apt-get").is_none() {
        bail!("this is no Debian or Ubuntu system: install {} yourself, and run this again", list(&missing));
    }
    if !program::is_root() {
        bail!("not running as root: run `sudo apt-get install {}` first ({})", packages.join(" "), list(&missing));
    }
    for need in &missing {
        say(&format!("installing {}: {}", need.package, need.why));
    }
    // Package lists of a fresh machine are empty or old, and an old list names files that are gone.
    apt_get(&["update"])?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(&packages);
    apt_get(&arguments)?;
    match missing.iter().find(|need| !need.is_met()) {
        Some(need) => bail!("{} was installed, yet what it should bring ({}) is not there", need.package, need.why),
        None => Ok(()),
    }
}

fn list(needs: &[&Need]) -> String {
    needs.iter().map(|need| format!("{} ({})", need.package, need.why)).collect::<Vec<_>>().join(", ")
}

/// Runs apt-get quietly; its whole output is shown only when it fails.
fn apt_get(arguments: &[&str]) -> Result<()> {
    let mut command = program::program("apt-get")?;
    command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet").args(arguments);
    program::capture(&mut command, Duration::from_secs(600)).map(drop).context("could not install packages")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_missing() {
        let shell = Need { sign: Sign::Program("sh"), package: "dash", why: "test" };
        let file = Need { sign: Sign::File(&["/no", "/proc/self/status"]), package: "kernel", why: "test" };
        assert!(shell.is_met() && file.is_met());
        assert!(ensure(&[shell, file]).is_ok());
    }

    #[test]
    fn what_is_not_there_is_missing() {
        assert!(!Need { sign: Sign::Program("no-such-program-anywhere"), package: "none", why: "test" }.is_met());
        assert!(!Need { sign: Sign::File(&["/no/such/file"]), package: "none", why: "test" }.is_met());
    }

    #[test]
    fn the_list_says_what_each_package_is_for() {
        let need = Need { sign: Sign::File(&["/no"]), package: "mmdebstrap", why: "builds the image" };
        assert_eq!(list(&[&need, &need]), "mmdebstrap (builds the image), mmdebstrap (builds the image)");
    }
}
