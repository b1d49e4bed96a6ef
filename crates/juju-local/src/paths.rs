//! Where juju-local keeps things on the host, and where Juju keeps them inside a machine. Paths only; nothing is read
//! or made.

use std::path::{Path, PathBuf};

pub const STATE_VARIABLE: &str = "JUJU_LOCAL_STATE";
pub const CACHE_VARIABLE: &str = "JUJU_LOCAL_CACHE";
/// Which Slurm the machines of a new model can install.
pub const SLURM_VARIABLE: &str = "JUJU_LOCAL_SLURM";
const DEFAULT_SLURM: &str = "24.11";
const DEFAULT_STATE: &str = "/var/lib/juju-local";
const DEFAULT_CACHE: &str = "/var/cache/juju-local";

/// Directory of all models.
pub fn state() -> PathBuf {
    directory(STATE_VARIABLE, DEFAULT_STATE)
}

/// Directory of images.
pub fn cache() -> PathBuf {
    directory(CACHE_VARIABLE, DEFAULT_CACHE)
}

/// As given, but absolute and without ways up: daemons, supervisors and mounts outlive the directory somebody stood in.
fn directory(variable: &str, default: &str) -> PathBuf {
    let given = std::env::var_os(variable).filter(|text| !text.is_empty());
    let path = given.map_or_else(|| default.into(), PathBuf::from);
    path.canonicalize().or_else(|_| std::path::absolute(&path)).unwrap_or(path)
}

pub fn slurm() -> String {
    std::env::var(SLURM_VARIABLE).ok().filter(|text| !text.is_empty()).unwrap_or_else(|| DEFAULT_SLURM.to_owned())
}

pub fn models() -> PathBuf {
    state().join("models")
}

/// One model's directory on the host.
#[derive(Clone, Debug)]
pub struct ModelPaths(PathBuf);

impl ModelPaths {
    pub fn of(name: &str) -> Self {
        ModelPaths(models().join(name))
    }

    #[cfg(test)]
    pub fn at(root: PathBuf) -> Self {
        ModelPaths(root)
    }

    pub fn root(&self) -> &Path {
        &self.0
    }

    pub fn socket(&self) -> PathBuf {
        self.0.join("daemon.socket")
    }

    pub fn state_file(&self) -> PathBuf {
        self.0.join("model.json")
    }

    /// The model's UUID, written once: it leads to what the model has on the host, whatever becomes of its state.
    pub fn identity(&self) -> PathBuf {
        self.0.join("uuid")
    }

    pub fn lock(&self) -> PathBuf {
        self.0.join("daemon.lock")
    }

    pub fn daemon_log(&self) -> PathBuf {
        self.0.join("daemon.log")
    }

    pub fn log(&self) -> PathBuf {
        self.0.join("log.jsonl")
    }

    pub fn charm(&self, url: &str) -> PathBuf {
        self.0.join("charms").join(format!("{}.charm", url.replace(':', "_")))
    }

    /// Directories that machines may share.
    pub fn shared(&self) -> PathBuf {
        self.0.join("shared")
    }

    pub fn machines(&self) -> PathBuf {
        self.0.join("machines")
    }

    pub fn machine(&self, id: &str) -> PathBuf {
        self.machines().join(id)
    }
}

/// Paths inside a machine.
pub mod inside {
    use crate::names::UnitName;

    pub const AGENTS: &str = "/var/lib/juju/agents";
    pub const TOOLS: &str = "/var/lib/juju/tools";
    pub const EXEC: &str = "/usr/bin/juju-exec";
    pub const HOSTS: &str = "/etc/hosts";
    /// Where every machine sees the directories of its model; charms see only what is attached elsewhere.
    pub const SHARED: &str = "/var/lib/juju-local/shared";

    pub fn unit(unit: &UnitName) -> String {
        format!("{AGENTS}/{}", unit.tag())
    }

    pub fn charm(unit: &UnitName) -> String {
        format!("{}/charm", self::unit(unit))
    }

    pub fn agent_socket(unit: &UnitName) -> String {
        format!("{}/agent.socket", self::unit(unit))
    }

    pub fn run_socket(unit: &UnitName) -> String {
        format!("{}/run.socket", self::unit(unit))
    }

    pub fn tools(unit: &UnitName) -> String {
        format!("{TOOLS}/{}", unit.tag())
    }

    pub fn machine_agent(machine: &str) -> String {
        format!("{AGENTS}/machine-{machine}")
    }

    /// The agent program itself.
    pub fn program(machine: &str) -> String {
        format!("{TOOLS}/machine-{machine}/jujud")
    }
}
