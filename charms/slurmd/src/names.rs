//! Every name this charm shares with something outside: its own metadata, the machine's files and units, Juju's labels.
//! A test compares the first group with `charmcraft.yaml`.

/// The controllers of the cluster. One cluster per application.
pub const ENDPOINT_SLURMCTLD: &str = "slurmctld";
/// The other units of this application. Juju 4 lets go of a leaving unit early unless it has peers.
#[cfg_attr(not(test), expect(dead_code, reason = "the relation has to exist; nothing travels on it yet"))]
pub const ENDPOINT_PEER: &str = "slurmd-peer";

pub const OPTION_PARTITION_CONFIG: &str = "partition-config";

/// The event that this charm's own timer sends.
pub const EVENT_LOOK_AGAIN: &str = "look-again";

/// What is installed. The first one's version is the workload's version.
pub const PACKAGES: [&str; 3] = ["slurmd", "slurm-client", "slurm-wlm-basic-plugins"];
/// The unit that the package brings.
pub const SERVICE: &str = "slurmd.service";
/// Services that the packages bring and that must not run before they are configured, or at all.
pub const PACKAGED_SERVICES: [&str; 2] = [SERVICE, "munge.service"];
/// The name of our drop-in for that unit, without its suffix.
pub const DROP_IN: &str = "10-charm";
/// Where slurmd listens.
pub const PORT: u16 = 6818;

/// Who may read the authentication key on this machine.
pub const KEY_OWNER: &str = "root";
pub const OPTIONS_FILE: &str = "/etc/default/slurmd";

/// The secret that the controllers share, under the label that this unit gives it.
pub const SECRET_LABEL: &str = "slurm-auth-key";
/// The content of that secret.
pub const SECRET_KEY: &str = "key";
pub const SECRET_KEY_ID: &str = "keyid";

/// In the charm's directory, which lives as long as the unit: the version that Juju has been told.
pub const REPORTED_VERSION: &str = ".workload-version";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn declared(path: &[&str]) -> BTreeSet<String> {
        let text = include_str!("../charmcraft.yaml");
        let mut value: &serde_yaml::Value = &serde_yaml::from_str(text).unwrap();
        for key in path {
            match value.get(key) {
                Some(inner) => value = inner,
                None => return BTreeSet::new(),
            }
        }
        value.as_mapping().unwrap().keys().map(|key| key.as_str().unwrap().to_owned()).collect()
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn code_and_metadata_agree() {
        assert_eq!(declared(&["provides"]), names(&[ENDPOINT_SLURMCTLD]));
        assert_eq!(declared(&["requires"]), names(&[]));
        assert_eq!(declared(&["peers"]), names(&[ENDPOINT_PEER]));
        assert_eq!(declared(&["config", "options"]), names(&[OPTION_PARTITION_CONFIG]));
        assert_eq!(declared(&["actions"]), names(&[]));
    }
}
