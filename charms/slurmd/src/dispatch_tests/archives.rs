//! Archives that split Slurm otherwise, have an old one, or cannot be reached now.

use super::Node;
use crate::names;
use charm_testing::Hook;
use slurm_unit::retry;

const OLD: &str = "23.11.4-1.2ubuntu5";
const NEW: &str = "24.11.7-1";
const SOURCE: &str = "Types: deb\nURIs: file:/srv/slurm\nSuites: ./\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDME\n -----END PGP PUBLIC KEY BLOCK-----\n";

impl Node {
    /// A unit on which nothing is installed, and an archive with an old Slurm.
    fn behind() -> Self {
        let node = Self::new();
        node.machine.write("/etc/apt/sources.list.d/keep", "");
        node.machine.archive_offers(OLD);
        node
    }

    fn timer_is_set(&self) -> bool {
        self.machine.read("/run/systemd/transient/compute-0-retry.timer").is_some()
    }

    fn dpkg(&self) -> String {
        self.machine.read("/var/lib/dpkg/status").unwrap_or_default()
    }
}

#[test]
fn a_part_that_is_no_package_of_its_own_is_no_obstacle() {
    let node = Node::new();
    node.machine.archive_lacks("slurm-wlm-basic-plugins");
    node.hook(&Hook::named("install"));
    assert_eq!(node.shown(), "blocked: no controller: `juju integrate compute slurmctld`");
    assert_eq!(node.dpkg().matches("Status: hold ok installed").count(), 2, "{}", node.dpkg());
}

#[test]
fn an_archive_whose_slurm_is_too_old_is_told_and_another_source_heals_it() {
    let node = Node::behind();
    node.hook(&Hook::named("install"));
    let expected = "blocked: slurmd 23.11.4 is too old, 24.11 is needed: set option slurm-source, e.g. ppa:ubuntu-hpc/slurm-wlm-25.11";
    assert_eq!(node.shown(), expected);
    assert!(node.dpkg().is_empty() && !node.timer_is_set(), "{}", node.dpkg());
    // Hooks that follow leave it at that; nobody sees the unit flicker.
    let done = node.hook(&Hook::named("update-status"));
    assert!(done.writes().is_empty(), "{done:#?}");
    let relation = node.integrate();
    node.offer(&relation);
    node.hook(&Hook::app_changed(&relation, &node.controller));
    assert_eq!(node.shown(), expected);
    node.machine.archive_offers(NEW);
    node.set_option(names::OPTION_SLURM_SOURCE, SOURCE);
    assert!(node.machine.is_running(names::SERVICE), "{}", node.shown());
}

#[test]
fn a_slurm_that_somebody_installed_and_that_is_too_old_is_replaced_from_a_newer_source() {
    let node = Node::behind();
    let installed = |name: &str| format!("Package: {name}\nStatus: hold ok installed\nVersion: {OLD}\n\n");
    node.machine.write("/var/lib/dpkg/status", &[installed("slurmd"), installed("slurm-client")].concat());
    node.machine.write("/usr/lib/systemd/system/slurmd.service", "[Service]\n");
    node.hook(&Hook::named("install"));
    assert!(node.shown().starts_with("blocked: slurmd 23.11.4 is too old"), "{}", node.shown());
    node.machine.archive_offers(NEW);
    node.set_option(names::OPTION_SLURM_SOURCE, SOURCE);
    assert_eq!(node.shown(), "blocked: no controller: `juju integrate compute slurmctld`");
    assert!(!node.dpkg().contains(OLD), "{}", node.dpkg());
    let reported = node.machine.read("/var/lib/juju/agents/unit-compute-0/charm/.workload-version");
    assert_eq!(reported.as_deref(), Some("24.11.7"));
}

#[test]
fn an_apt_that_is_busy_is_waited_for_and_no_hook_fails() {
    let node = Node::new();
    node.machine
        .apt_complains(Some("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (dpkg)\n"));
    node.hook(&Hook::named("install"));
    let relation = node.integrate();
    let expected = "waiting: for apt: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (dpkg)";
    assert_eq!(node.shown(), expected);
    assert!(node.timer_is_set());
    node.machine.apt_complains(None);
    node.offer(&relation);
    node.hook(&Hook::named(retry::EVENT));
    assert!(node.machine.is_running(names::SERVICE), "{}", node.shown());
}

#[test]
fn packages_that_cannot_be_held_at_once_are_held_by_a_later_look() {
    let (node, _) = Node::joined();
    node.machine.write("/var/lib/dpkg/status", &node.dpkg().replace("Status: hold ", "Status: install "));
    node.machine.apt_complains(Some("dpkg: error: dpkg frontend lock was locked by another process with pid 7\n"));
    node.hook(&Hook::named("update-status"));
    assert_eq!(node.shown(), "active: idle, partition compute");
    assert!(node.timer_is_set());
    node.machine.apt_complains(None);
    node.hook(&Hook::named(retry::EVENT));
    assert_eq!(node.dpkg().matches("Status: hold ok installed").count(), 3, "{}", node.dpkg());
    assert!(!node.timer_is_set());
}
