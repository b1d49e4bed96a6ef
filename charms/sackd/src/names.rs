//! Every name this charm shares with something outside: its own metadata, the machine's files and units, Juju's labels.
//! A test compares the first group with `charmcraft.yaml`.

use slurm_ops::packages::Selection;
use slurm_unit::Profile;

pub const OPTION_SLURM_SOURCE: &str = "slurm-source";

pub const ACTION_EXPLAIN: &str = "explain";

/// The unit that the package brings.
pub const SERVICE: &str = "sackd.service";
/// Who this charm is.
pub const PROFILE: Profile = Profile {
    daemon: "sackd",
    service: SERVICE,
    packages: Selection {
        required: &["sackd", "slurm-client"],
        // The second one is for users who have a token.
        optional: &["slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin"],
        plugin: "auth_slurm.so",
        services: &[SERVICE, "munge.service"],
    },
    source_option: OPTION_SLURM_SOURCE,
};
/// Where sackd listens for slurmctld, which sends it the configuration.
pub const PORT: u16 = 6818;

/// sackd runs as this user, who alone may read the key.
pub const SLURM_USER: &str = "slurm";
/// A controller has one of its own; login nodes fetch theirs.
pub const SLURM_CONF: &str = "/etc/slurm/slurm.conf";
/// What sackd fetched, as long as it runs.
pub const FETCHED_CONF: &str = "/run/slurm/conf/slurm.conf";
pub const OPTIONS_FILE: &str = slurm_ops::sackd::DEFAULTS_FILE;
/// What this charm has to know until the next boot.
pub const LOADED_NOTE: &str = "/run/sackd-charm/loaded.json";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn declared(path: &[&str]) -> BTreeSet<String> {
        charm_testing::declared(include_str!("../charmcraft.yaml"), path)
    }

    #[test]
    fn code_and_metadata_agree() {
        let names = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        assert_eq!(declared(&["provides"]), names(&[slurm_unit::follower::ENDPOINT]));
        assert_eq!(declared(&["requires"]), names(&[]));
        assert_eq!(declared(&["peers"]), names(&[]));
        assert_eq!(declared(&["config", "options"]), names(&[OPTION_SLURM_SOURCE]));
        assert_eq!(declared(&["actions"]), names(&[ACTION_EXPLAIN]));
    }
}
