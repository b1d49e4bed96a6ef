//! What this machine is called, and whether it is a container.

use crate::files::{self, FileError};
use crate::machine::Host;
use slurm_conf::{HostName, NameError};

/// A host name that cannot serve as `SlurmctldHost`.
#[derive(Debug, thiserror::Error)]
pub enum HostNameError {
    /// The system would not say.
    #[error("could not ask for the host name")]
    Ask(#[source] nix::errno::Errno),
    /// It is not a host name.
    #[error("the machine's own name is unfit")]
    Unfit(#[source] NameError),
}

/// Returns the host name up to its first dot: what Slurm compares `SlurmctldHost` with.
pub fn short(host: &Host) -> Result<HostName, HostNameError> {
    let name = match host.made_up_name() {
        Some(name) => name,
        None => nix::unistd::gethostname().map_err(HostNameError::Ask)?.to_string_lossy().into_owned(),
    };
    HostName::new(name).map(|name| name.short()).map_err(HostNameError::Unfit)
}

/// Returns the container manager's name (`lxc`, `systemd-nspawn` …), or `None` on a machine of its own.
///
/// systemd writes it down when it boots in a container; a container without systemd is not what a charm runs in.
pub fn container(host: &Host) -> Result<Option<String>, FileError> {
    let found = files::read_text(host, "/run/systemd/container")?;
    Ok(found.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn this_machine_has_a_short_name() {
        assert!(!short(&Machine::new().host()).unwrap().as_str().contains('.'));
    }

    #[test]
    fn systemds_note_tells_a_container() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::at(directory.path());
        assert_eq!(container(&machine.host()).unwrap(), None);
        std::fs::create_dir_all(directory.path().join("run/systemd")).unwrap();
        std::fs::write(directory.path().join("run/systemd/container"), "lxc\n").unwrap();
        assert_eq!(container(&machine.host()).unwrap().as_deref(), Some("lxc"));
    }
}
