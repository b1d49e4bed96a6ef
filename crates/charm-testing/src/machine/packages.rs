//! apt on a made-up machine: whatever is asked for is there, in one version, and brings its service and its plugins
//! along.

use super::{Programs, State, fails, says};
use slurm_ops::command::Ended;

const STATUS: &str = "/var/lib/dpkg/status";
const PLUGINS: &str = "/usr/lib/x86_64-linux-gnu/slurm-wlm";

/// What apt has to offer.
#[derive(Debug)]
pub(super) struct Archive {
    pub(super) version: String,
    pub(super) missing: Vec<String>,
    /// What it says instead of doing anything.
    pub(super) complaint: Option<String>,
}

impl Default for Archive {
    fn default() -> Self {
        Self { version: "24.11.5-4".to_owned(), missing: Vec::new(), complaint: None }
    }
}

impl Archive {
    fn has(&self, package: &str) -> bool {
        !self.missing.iter().any(|missing| missing == package)
    }
}

impl Programs {
    pub(super) fn is_installed(&self, package: &str) -> bool {
        self.read(STATUS).unwrap_or_default().contains(&format!("Package: {package}\n"))
    }

    pub(super) fn apt_cache(&self, state: &State, words: &[&str]) -> Ended {
        let known = words.iter().skip(1).filter(|package| state.archive.has(package));
        let policy = |package: &&str| format!("{package}:\n  Candidate: {}\n", state.archive.version);
        says(known.map(policy).collect::<String>())
    }

    pub(super) fn apt_get(&self, state: &State, words: &[&str]) -> Ended {
        if let Some(complaint) = &state.archive.complaint {
            return fails(100, complaint.as_str());
        }
        let Some(verb) = words.iter().position(|word| matches!(*word, "install" | "update")) else {
            return fails(100, "E: Invalid operation\n");
        };
        let status = self.read(STATUS).unwrap_or_default();
        let mut stanzas: Vec<String> = status.split_inclusive("\n\n").map(str::to_owned).collect();
        for package in words[verb + 1..].iter().filter(|word| !word.starts_with('-')) {
            if !state.archive.has(package) {
                return fails(100, format!("E: Unable to locate package {package}\n"));
            }
            let version = &state.archive.version;
            let is_it = |stanza: &String| stanza.starts_with(&format!("Package: {package}\n"));
            if stanzas.iter().any(|stanza| is_it(stanza) && stanza.contains(&format!("\nVersion: {version}\n"))) {
                continue;
            }
            stanzas.retain(|stanza| !is_it(stanza));
            stanzas.push(format!("Package: {package}\nStatus: install ok installed\nVersion: {version}\n\n"));
            match *package {
                "slurmrestd" => {
                    self.write("/usr/lib/systemd/system/slurmrestd.service", b"[Service]\n");
                }
                "slurm-wlm-basic-plugins" => {
                    for plugin in
                        ["openapi_slurmctld", "openapi_slurmdbd", "data_parser_v0_0_41", "data_parser_v0_0_42"]
                    {
                        self.write(&format!("{PLUGINS}/{plugin}.so"), b"");
                    }
                }
                "slurmd" | "slurmctld" | "sackd" | "slurmdbd" => {
                    self.write(&format!("/usr/lib/systemd/system/{package}.service"), b"[Service]\n");
                    // They depend on whatever has the plugins that nobody can do without.
                    for plugin in
                        ["auth_slurm", "proctrack_cgroup", "proctrack_linuxproc", "task_affinity", "task_cgroup"]
                    {
                        self.write(&format!("{PLUGINS}/{plugin}.so"), b"");
                    }
                }
                "slurm-wlm-mysql-plugin" => self.write(&format!("{PLUGINS}/accounting_storage_mysql.so"), b""),
                "slurm-wlm-jwt-plugin" => self.write(&format!("{PLUGINS}/auth_jwt.so"), b""),
                _ => {}
            }
        }
        self.write(STATUS, stanzas.concat().as_bytes());
        says("")
    }

    pub(super) fn apt_mark(&self, state: &State, words: &[&str]) -> Ended {
        if let Some(complaint) = &state.archive.complaint {
            return fails(100, complaint.as_str());
        }
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
