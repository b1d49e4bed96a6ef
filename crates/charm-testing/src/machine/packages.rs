//! apt on a made-up machine: whatever is asked for is there, in one version, and brings its service along.

use super::{Programs, fails, says};
use slurm_ops::command::Ended;

const VERSION: &str = "24.11.5-4";
const STATUS: &str = "/var/lib/dpkg/status";

impl Programs {
    pub(super) fn is_installed(&self, package: &str) -> bool {
        self.read(STATUS).unwrap_or_default().contains(&format!("Package: {package}\n"))
    }

    pub(super) fn apt_get(&self, words: &[&str]) -> Ended {
        let Some(verb) = words.iter().position(|word| matches!(*word, "install" | "update")) else {
            return fails(100, "E: Invalid operation\n");
        };
        let mut status = self.read(STATUS).unwrap_or_default();
        for package in words[verb + 1..].iter().filter(|word| !word.starts_with('-')) {
            if self.is_installed(package) {
                continue;
            }
            status += &format!("Package: {package}\nStatus: install ok installed\nVersion: {VERSION}\n\n");
            if matches!(*package, "slurmd" | "slurmctld") {
                self.write(&format!("/usr/lib/systemd/system/{package}.service"), b"[Service]\n");
            }
        }
        self.write(STATUS, status.as_bytes());
        says("")
    }

    pub(super) fn apt_mark(&self, words: &[&str]) -> Ended {
        let mut status = self.read(STATUS).unwrap_or_default();
        for package in words.iter().skip(1) {
            let (free, held) =
                (format!("Package: {package}\nStatus: install "), format!("Package: {package}\nStatus: hold "));
            status = status.replace(&free, &held);
        }
        self.write(STATUS, status.as_bytes());
        says("")
    }
}
