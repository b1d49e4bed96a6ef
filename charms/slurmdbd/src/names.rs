//! Every name this charm shares with something outside: its own metadata, the machine's files and units, Juju's labels.
//! A test compares the first group with `charmcraft.yaml`.

use slurm_ops::packages::Selection;
use slurm_unit::Profile;

pub const ENDPOINT_DATABASE: &str = "database";
pub const ENDPOINT_PEER: &str = "slurmdbd-peer";

pub const OPTION_PARAMETERS: &str = "slurmdbd-conf-parameters";
pub const OPTION_SLURM_SOURCE: &str = "slurm-source";

pub const ACTION_EXPLAIN: &str = "explain";

/// The unit that the package brings.
pub const SERVICE: &str = "slurmdbd.service";
/// Who this charm is.
pub const PROFILE: Profile = Profile {
    daemon: "slurmdbd",
    service: SERVICE,
    packages: Selection {
        // The second one has sacctmgr.
        required: &["slurmdbd", "slurm-client"],
        optional: &["slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin", "slurm-wlm-mysql-plugin"],
        plugin: "accounting_storage_mysql.so",
        services: &[SERVICE, "munge.service"],
    },
    source_option: OPTION_SLURM_SOURCE,
};
/// The plugin for tokens of users. A Slurm without it works without them.
pub const JWT_PLUGIN: &str = "auth_jwt.so";
/// Where slurmdbd listens.
pub const PORT: u16 = 6819;

/// slurmdbd runs as this user, who alone may read its files.
pub const SLURM_USER: &str = "slurm";
/// The database that is asked for, by the name that the Python charms use.
pub const DATABASE: &str = "slurm_acct_db";

/// What this charm has to know beyond a boot.
pub const PARAMETERS_NOTE: &str = "/var/lib/slurmdbd-charm/parameters.json";
/// Where a changed file is tried out.
pub const TRIAL_DIRECTORY: &str = "/var/lib/slurmdbd-charm/trial";
/// With this slurm.conf clients on this machine find slurmdbd. There is no other one.
pub const CLIENT_CONF: &str = "/var/lib/slurmdbd-charm/slurm.conf";
/// What this charm has to know until the next boot.
pub const LOADED_NOTE: &str = "/run/slurmdbd-charm/loaded.json";

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
        assert_eq!(declared(&["requires"]), names(&[ENDPOINT_DATABASE]));
        assert_eq!(declared(&["peers"]), names(&[ENDPOINT_PEER]));
        assert_eq!(declared(&["config", "options"]), names(&[OPTION_PARAMETERS, OPTION_SLURM_SOURCE]));
        assert_eq!(declared(&["actions"]), names(&[ACTION_EXPLAIN]));
    }
}
