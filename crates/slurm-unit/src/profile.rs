//! Who a charm is: the names in which one charm of a Slurm daemon differs from another.

use slurm_ops::packages::Selection;

/// The names of one charm.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// The daemon, such as `slurmd`. Our own files on the machine are named after it.
    pub daemon: &'static str,
    /// Its unit of systemd, such as `slurmd.service`.
    pub service: &'static str,
    /// What is installed for it.
    pub packages: Selection,
    /// The option that names where packages come from.
    pub source_option: &'static str,
}

impl Profile {
    /// The name of our drop-in for the unit, without its suffix.
    pub const DROP_IN: &'static str = "10-charm";

    /// Returns the name of our file for needrestart, without its suffix.
    pub fn needrestart_file(&self) -> String {
        format!("{}-charm", self.daemon)
    }

    /// Returns the unit that calls the charm when the daemon has failed.
    pub fn failure_service(&self) -> String {
        format!("{}-charm-failed.service", self.daemon)
    }
}
