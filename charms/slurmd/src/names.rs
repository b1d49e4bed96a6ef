//! Every name this charm shares with something outside: its own metadata, the machine's files and units, Juju's labels.
//! A test compares the first group with `charmcraft.yaml`.

use slurm_ops::packages::Selection;
use slurm_unit::Profile;

/// The other units of this application. Juju 4 lets go of a unit early that is in no relation any more: see
/// `interfaces/slurmd-peer`.
#[cfg_attr(not(test), expect(dead_code, reason = "the relation has to exist; nothing travels on it"))]
pub const ENDPOINT_PEER: &str = "slurmd-peer";

pub const OPTION_PARTITION_CONFIG: &str = "partition-config";
pub const OPTION_DEFAULT_NODE_STATE: &str = "default-node-state";
pub const OPTION_DEFAULT_NODE_REASON: &str = "default-node-reason";
pub const OPTION_DRAIN_TIMEOUT: &str = "drain-timeout";
pub const OPTION_DRAIN_POLICY: &str = "drain-policy";
pub const OPTION_SLURM_SOURCE: &str = "slurm-source";

pub const ACTION_NODE_CONFIG: &str = "node-config";
pub const ACTION_SET_NODE_CONFIG: &str = "set-node-config";
pub const ACTION_RESUME: &str = "resume";
pub const ACTION_DRAIN: &str = "drain";
pub const ACTION_DESTROY_JOBS: &str = "destroy-jobs";
pub const ACTION_SHOW_NODE: &str = "show-node";

/// The unit that the package brings.
pub const SERVICE: &str = "slurmd.service";
/// Who this charm is.
pub const PROFILE: Profile = Profile {
    daemon: "slurmd",
    service: SERVICE,
    packages: Selection {
        required: &["slurmd", "slurm-client"],
        optional: &["slurm-wlm-basic-plugins"],
        plugin: "auth_slurm.so",
        services: &[SERVICE, "munge.service"],
    },
    source_option: OPTION_SLURM_SOURCE,
};
/// Where slurmd listens.
pub const PORT: u16 = 6818;

/// Who may read the authentication key on this machine, and where a controller runs beside slurmd.
pub const KEY_OWNER: &str = "root";
pub const SLURM_USER: &str = "slurm";
/// A controller has one of its own; compute nodes fetch theirs.
pub const SLURM_CONF: &str = "/etc/slurm/slurm.conf";
/// What slurmd fetched, as long as it runs.
pub const FETCHED_CONF: &str = "/run/slurm/conf/slurm.conf";
/// Where slurmd keeps the configuration that it fetched, also when it does not run.
pub const CONF_CACHE: &str = "/var/lib/slurm/slurmd/conf-cache";
pub const OPTIONS_FILE: &str = slurm_ops::slurmd::DEFAULTS_FILE;

/// What this charm has to know about its node beyond a refresh and a reboot.
pub const NODE_NOTE: &str = "/var/lib/slurmd-charm/node.json";
/// What it has to know until the next boot.
pub const BOOT_NOTE: &str = "/run/slurmd-charm/boot.json";

/// What this charm says in Slurm when it closes a node. Nobody else's drain begins like this.
pub const CHANGE_REASON: &str = "juju: node-config is being applied";
/// The comment of a node's record that is to be deleted for another one.
pub const CHANGE_COMMENT: &str = "juju: being replaced";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn declared(path: &[&str]) -> BTreeSet<String> {
        charm_testing::declared(include_str!("../charmcraft.yaml"), path)
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn code_and_metadata_agree() {
        assert_eq!(declared(&["provides"]), names(&[slurm_unit::follower::ENDPOINT]));
        assert_eq!(declared(&["requires"]), names(&[]));
        assert_eq!(declared(&["peers"]), names(&[ENDPOINT_PEER]));
        let options = [
            OPTION_PARTITION_CONFIG,
            OPTION_DEFAULT_NODE_STATE,
            OPTION_DEFAULT_NODE_REASON,
            OPTION_DRAIN_TIMEOUT,
            OPTION_DRAIN_POLICY,
            OPTION_SLURM_SOURCE,
        ];
        assert_eq!(declared(&["config", "options"]), names(&options));
        let actions = [
            ACTION_NODE_CONFIG,
            ACTION_SET_NODE_CONFIG,
            ACTION_RESUME,
            ACTION_DRAIN,
            ACTION_DESTROY_JOBS,
            ACTION_SHOW_NODE,
        ];
        assert_eq!(declared(&["actions"]), names(&actions));
    }
}
