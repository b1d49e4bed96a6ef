//! Every name this charm shares with something outside: its own metadata, the machine's files and units, Juju's labels.
//! A test compares the first group with `charmcraft.yaml`.

/// Compute applications, one relation per partition.
pub const ENDPOINT_SLURMD: &str = "slurmd";
/// The other units of this application.
pub const ENDPOINT_PEER: &str = "slurmctld-peer";

pub const OPTION_CLUSTER_NAME: &str = "cluster-name";
pub const OPTION_DEFAULT_PARTITION: &str = "default-partition";

pub const ACTION_RESUME: &str = "resume";

/// The event that this charm's own timer sends.
pub const EVENT_LOOK_AGAIN: &str = "look-again";

/// What is installed. The first one's version is the workload's version.
pub const PACKAGES: [&str; 4] = ["slurmctld", "slurm-client", "slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin"];
/// The unit that the package brings.
pub const SERVICE: &str = "slurmctld.service";
/// Services that the packages bring and that must not run before they are configured, or at all.
pub const PACKAGED_SERVICES: [&str; 2] = [SERVICE, "munge.service"];
/// The name of our drop-in for that unit, without its suffix.
pub const DROP_IN: &str = "10-charm";
/// Where slurmctld listens.
pub const PORT: u16 = 6817;

pub const SLURM_USER: &str = "slurm";
pub const SLURM_CONF: &str = "/etc/slurm/slurm.conf";
/// A configuration on its way to Slurm's parser.
pub const CANDIDATE_CONF: &str = "/etc/slurm/slurm.conf.candidate";
/// The last configuration that slurmctld is known to have accepted.
pub const ACCEPTED_CONF: &str = "/etc/slurm/slurm.conf.accepted";
/// The last configuration that slurmctld refused, and why.
pub const REFUSED_CONF: &str = "/etc/slurm/slurm.conf.refused";
pub const CGROUP_CONF: &str = "/etc/slurm/cgroup.conf";
/// What a shared file system is mounted on in a cluster with several controllers.
pub const CHECKPOINT_DIRECTORY: &str = "/var/lib/slurm/checkpoint";
pub const STATE_DIRECTORY: &str = "/var/lib/slurm/checkpoint/state";
/// Where slurmctld keeps partitions between its lives.
pub const PARTITION_STATE: &str = "/var/lib/slurm/checkpoint/state/part_state";

/// The secret that compute units read, by its owner and by its readers.
pub const SECRET_LABEL: &str = "slurm-auth-key";
pub const SECRET_DESCRIPTION: &str = "key of Slurm's own authentication between the machines of this cluster";
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
        assert_eq!(declared(&["provides"]), names(&[]));
        assert_eq!(declared(&["requires"]), names(&[ENDPOINT_SLURMD]));
        assert_eq!(declared(&["peers"]), names(&[ENDPOINT_PEER]));
        assert_eq!(declared(&["config", "options"]), names(&[OPTION_CLUSTER_NAME, OPTION_DEFAULT_PARTITION]));
        assert_eq!(declared(&["actions"]), names(&[ACTION_RESUME]));
        assert_eq!(declared(&["actions", ACTION_RESUME, "params"]), names(&["nodename"]));
    }
}
