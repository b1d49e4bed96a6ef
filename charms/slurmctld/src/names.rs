//! Every name this charm shares with something outside: its own metadata, the machine's files and units, Juju's labels.
//! A test compares the first group with `charmcraft.yaml`.

use slurm_ops::packages::Selection;
use slurm_unit::Profile;

/// Compute applications, one relation per partition.
pub const ENDPOINT_SLURMD: &str = "slurmd";
/// Login nodes.
pub const ENDPOINT_SACKD: &str = "sackd";
/// Who keeps the accounts of the cluster.
pub const ENDPOINT_SLURMDBD: &str = "slurmdbd";
/// The REST API of the cluster.
pub const ENDPOINT_SLURMRESTD: &str = "slurmrestd";
/// Who follows the controllers without being a compute node.
pub const FOLLOWERS: [&str; 3] = [ENDPOINT_SACKD, ENDPOINT_SLURMDBD, ENDPOINT_SLURMRESTD];
/// The other units of this application.
pub const ENDPOINT_PEER: &str = "slurmctld-peer";
/// A file system client on the same machine.
pub const ENDPOINT_MOUNT: &str = "mount";
/// An agent for metrics on the same machine.
pub const ENDPOINT_AGENT: &str = "cos-agent";
/// What runs containers on the compute nodes.
pub const ENDPOINT_RUNTIME: &str = "oci-runtime";
/// A mail integrator.
pub const ENDPOINT_MAIL: &str = "smtp";

pub const OPTION_CLUSTER_NAME: &str = "cluster-name";
pub const OPTION_DEFAULT_PARTITION: &str = "default-partition";
pub const OPTION_PARAMETERS: &str = "slurm-conf-parameters";
pub const OPTION_CGROUP_PARAMETERS: &str = "cgroup-parameters";
pub const OPTION_PROCESS_TRACKING: &str = "process-tracking";
pub const OPTION_NETWORK_STATE: &str = "use-network-state";
pub const OPTION_TOKEN_LIFESPAN: &str = "max-token-lifespan";
pub const OPTION_SOURCE: &str = "slurm-source";

pub const ACTION_RESUME: &str = "resume";
pub const ACTION_DRAIN: &str = "drain";
pub const ACTION_SET_NODE_STATE: &str = "set-node-state";
pub const ACTION_SHOW_CONFIG: &str = "show-current-config";
pub const ACTION_SHOW_NODES: &str = "show-nodes";
pub const ACTION_SHOW_CONTROLLERS: &str = "show-controllers";
pub const ACTION_TAKEOVER: &str = "takeover";
pub const ACTION_ADOPT: &str = "adopt";
pub const ACTION_DESTROY_JOBS: &str = "destroy-jobs";
pub const ACTION_SMOKE_TEST: &str = "smoke-test";
pub const ACTION_REBOOT: &str = "reboot";
pub const ACTION_EXPLAIN: &str = "explain";
pub const ACTION_TOKEN: &str = "token";
pub const ACTION_ROTATE_AUTH_KEY: &str = "rotate-auth-key";
pub const ACTION_ROTATE_JWT_KEY: &str = "rotate-jwt-key";

/// Who this charm is.
pub const PROFILE: Profile =
    Profile { daemon: "slurmctld", service: SERVICE, packages: PACKAGES, source_option: OPTION_SOURCE };

/// What is installed.
const PACKAGES: Selection = Selection {
    required: &["slurmctld", "slurm-client"],
    optional: &["slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin"],
    plugin: "auth_slurm.so",
    services: &[SERVICE, "munge.service"],
};
/// The plugin that takes tokens of users. A cluster works without.
pub const TOKEN_PLUGIN: &str = "auth_jwt.so";
/// The plugin with which slurmctld serves metrics. Slurm has it since 25.11.
pub const METRICS_PLUGIN: &str = "metrics_openmetrics.so";
/// The unit that the package brings.
pub const SERVICE: &str = "slurmctld.service";
/// Where slurmdbd listens.
pub const SLURMDBD_PORT: u16 = 6819;
/// Where slurmctld listens.
pub const PORT: u16 = 6817;

pub const SLURM_USER: &str = "slurm";
pub const CONFIGURATION_DIRECTORY: &str = "/etc/slurm";
pub const SLURM_CONF: &str = "/etc/slurm/slurm.conf";
pub const CGROUP_CONF: &str = "/etc/slurm/cgroup.conf";
pub const GRES_CONF: &str = "/etc/slurm/gres.conf";
pub const OCI_CONF: &str = "/etc/slurm/oci.conf";
/// The program that slurmctld sends mail with, and its configuration.
pub const MAIL_PROGRAM: &str = "/usr/bin/bsd-mailx";
pub const MAIL_CONF: &str = "/etc/msmtprc";
/// A configuration on its way to Slurm's parser.
pub const CANDIDATE_CONF: &str = "/etc/slurm/slurm.conf.candidate";
/// Behind the name of a file: the last content that slurmctld is known to have accepted.
pub const ACCEPTED: &str = ".accepted";
/// A note: what slurmctld refused, and why.
pub const REJECTIONS: &str = "/etc/slurm/refused.json";
/// A note: what was set with scontrol before the reconfigure that is under way.
pub const OVERRIDES: &str = "/etc/slurm/by-hand.json";
/// A note: the applications that this cluster has served, and how far each has come.
pub const APPLICATIONS: &str = "/etc/slurm/applications.json";
/// A note: the nodes that are to be rebooted, and those that are away for it.
pub const REBOOTS: &str = "/etc/slurm/reboots.json";
/// A note: the endpoints with applications that hear of every change of the configuration.
pub const NEIGHBOURS: &str = "/etc/slurm/neighbours.json";
/// A note: how far a key that is being replaced has come.
pub const ROTATION: &str = "/etc/slurm/rotation.json";
/// A note of this machine: the list of controllers that its slurmctld was started with.
pub const STARTED: &str = "/var/lib/slurmctld-charm/started.json";
/// What a shared file system is mounted on in a cluster that keeps its state on the network.
pub const CHECKPOINT_DIRECTORY: &str = "/var/lib/slurm/checkpoint";
/// What is mounted there, for systemd.
pub const CHECKPOINT_UNIT: &str = "var-lib-slurm-checkpoint.mount";
/// What `/etc/slurm` of every controller is a link to in such a cluster.
pub const SHARED_CONFIGURATION: &str = "/var/lib/slurm/checkpoint/etc-slurm";
pub const STATE_DIRECTORY: &str = "/var/lib/slurm/checkpoint/state";
/// A copy of the state on its way to the store.
pub const STATE_INCOMING: &str = "/var/lib/slurm/checkpoint/state-incoming";
/// A copy of the configuration on its way to the store.
pub const SHARED_CONFIGURATION_INCOMING: &str = "/var/lib/slurm/checkpoint/etc-slurm-incoming";
/// Where state and configuration are on the local disk in a cluster that has made way for a mount.
pub const ASIDE_DIRECTORY: &str = "/var/lib/slurm/local";
pub const ASIDE_STATE: &str = "/var/lib/slurm/local/state";
pub const ASIDE_CONFIGURATION: &str = "/var/lib/slurm/local/etc-slurm";
/// Before the time in the name of a copy of the state on its way to the local disk.
pub const INCOMING: &str = "incoming-";
/// Behind the name of what has moved elsewhere, before the time at which it did.
pub const MOVED: &str = "-moved-";
/// The name of the state directory, wherever it is.
pub const STATE: &str = "state";
/// The file in it in which slurmctld keeps partitions between its lives.
pub const PARTITION_STATE: &str = "part_state";

pub const AUTH_SECRET_DESCRIPTION: &str = "key of Slurm's own authentication between the machines of this cluster";
pub const JWT_SECRET_DESCRIPTION: &str = "key that signs the tokens of this cluster's users";
/// What this application calls the secret with the password of a mail relay, which is another's.
pub const MAIL_SECRET: &str = "mail-relay-password";
/// Before the name of a user: the secret with the token that was handed out last.
pub const TOKEN_SECRET: &str = "slurm-token-";
/// The content of such a secret.
pub const SECRET_TOKEN: &str = "token";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn value(path: &[&str]) -> Option<serde_yaml::Value> {
        let text = include_str!("../charmcraft.yaml");
        let mut value: serde_yaml::Value = serde_yaml::from_str(text).unwrap();
        for key in path {
            value = value.get(key)?.clone();
        }
        Some(value)
    }

    fn declared(path: &[&str]) -> BTreeSet<String> {
        let keys = |value: serde_yaml::Value| -> BTreeSet<String> {
            value.as_mapping().unwrap().keys().map(|key| key.as_str().unwrap().to_owned()).collect()
        };
        value(path).map(keys).unwrap_or_default()
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn code_and_metadata_agree() {
        assert_eq!(declared(&["provides"]), names(&[ENDPOINT_MOUNT, ENDPOINT_AGENT]));
        let others = [ENDPOINT_SLURMD, ENDPOINT_RUNTIME, ENDPOINT_MAIL];
        assert_eq!(declared(&["requires"]), names(&[&others[..], &FOLLOWERS].concat()));
        assert_eq!(declared(&["peers"]), names(&[ENDPOINT_PEER]));
        let options = [
            OPTION_CLUSTER_NAME,
            OPTION_DEFAULT_PARTITION,
            OPTION_PARAMETERS,
            OPTION_CGROUP_PARAMETERS,
            OPTION_PROCESS_TRACKING,
            OPTION_NETWORK_STATE,
            OPTION_TOKEN_LIFESPAN,
            OPTION_SOURCE,
        ];
        assert_eq!(declared(&["config", "options"]), names(&options));
        let actions: [(&str, &[&str], bool); 15] = [
            (ACTION_RESUME, &["nodename"], false),
            (ACTION_DRAIN, &["nodename", "reason"], false),
            (ACTION_SET_NODE_STATE, &["nodes", "state", "reason"], false),
            (ACTION_SHOW_CONFIG, &[], true),
            (ACTION_SHOW_NODES, &["nodes"], true),
            (ACTION_SHOW_CONTROLLERS, &[], true),
            (ACTION_TAKEOVER, &["controller"], false),
            (ACTION_ADOPT, &["cluster", "force"], false),
            (ACTION_DESTROY_JOBS, &["nodes", "dry-run"], false),
            (ACTION_SMOKE_TEST, &["nodes", "timeout"], false),
            (ACTION_REBOOT, &["nodes", "asap", "max-unavailable", "reason", "cancel"], false),
            (ACTION_EXPLAIN, &["node", "job"], true),
            (ACTION_TOKEN, &["user", "lifespan"], false),
            (ACTION_ROTATE_AUTH_KEY, &["force", "units", "cancel"], false),
            (ACTION_ROTATE_JWT_KEY, &[], false),
        ];
        assert_eq!(declared(&["actions"]), actions.iter().map(|(name, ..)| (*name).to_owned()).collect());
        for (name, parameters, parallel) in actions {
            assert_eq!(declared(&["actions", name, "params"]), names(parameters), "{name}");
            let says = |key| value(&["actions", name, key]).and_then(|value| value.as_bool());
            assert_eq!(says("additionalProperties"), Some(false), "{name}");
            assert_eq!(says("parallel").unwrap_or(false), parallel, "{name}");
        }
    }
}
