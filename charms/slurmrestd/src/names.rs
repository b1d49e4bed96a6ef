//! Every name this charm shares with something outside: its own metadata, the machine's files and units, Juju's labels.
//! A test compares the first group with `charmcraft.yaml`.

use slurm_ops::packages::Selection;
use slurm_unit::Profile;

pub const OPTION_SLURM_SOURCE: &str = "slurm-source";

pub const ACTION_EXPLAIN: &str = "explain";

/// The unit that the package brings.
pub const SERVICE: &str = "slurmrestd.service";
/// Who this charm is.
pub const PROFILE: Profile = Profile {
    daemon: "slurmrestd",
    service: SERVICE,
    packages: Selection {
        required: &["slurmrestd"],
        // Debian's slurmrestd starts with neither of them, and depends on none.
        optional: &["slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin"],
        plugin: "auth_jwt.so",
        services: &[SERVICE, "munge.service"],
    },
    source_option: OPTION_SLURM_SOURCE,
};
/// Where slurmrestd listens.
pub const PORT: u16 = slurm_ops::slurmrestd::PORT;

/// slurmrestd runs as this user, who may read what everybody may. It has no key.
pub const USER: &str = slurm_ops::slurmrestd::USER;
pub const CONF_DIRECTORY: &str = "/etc/slurm";
pub const OPTIONS_FILE: &str = slurm_ops::slurmrestd::DEFAULTS_FILE;
/// What this charm has to know until the next boot.
pub const LOADED_NOTE: &str = "/run/slurmrestd-charm/loaded.json";

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
