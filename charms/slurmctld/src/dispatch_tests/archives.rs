//! Archives that split Slurm otherwise, have an old one, or cannot be reached now.

use super::world::Cluster;
use crate::names;
use charm_testing::Hook;

#[test]
fn a_slurm_without_the_plugin_for_tokens_makes_a_cluster_without_tokens() {
    let cluster = Cluster::new();
    cluster.machine.archive_lacks("slurm-wlm-jwt-plugin");
    cluster.machine.archive_lacks("slurm-wlm-basic-plugins");
    cluster.hook(&Hook::named("install"));
    let peer = cluster.model.peer(&cluster.app).unwrap();
    cluster.hook(&Hook::created(&peer, &cluster.app));
    cluster.hook(&Hook::named("start"));
    assert!(cluster.machine.is_running(names::SERVICE));
    let conf = cluster.machine.read(names::SLURM_CONF).unwrap();
    assert!(conf.contains("AuthType=auth/slurm") && !conf.contains("AuthAlt"), "{conf}");
    // Somebody installs it later.
    cluster.machine.write("/usr/lib/x86_64-linux-gnu/slurm-wlm/auth_jwt.so", "");
    cluster.hook(&Hook::named("update-status"));
    assert!(cluster.machine.read(names::SLURM_CONF).unwrap().contains("AuthAltTypes=auth/jwt"));
}

#[test]
fn an_archive_whose_slurm_is_too_old_is_told_and_leaves_nothing_half_made() {
    let cluster = Cluster::new();
    cluster.machine.archive_offers("22.05.8-4+deb12u3");
    cluster.hook(&Hook::named("install"));
    let peer = cluster.model.peer(&cluster.app).unwrap();
    cluster.hook(&Hook::created(&peer, &cluster.app));
    cluster.hook(&Hook::named("start"));
    let status = cluster.model.status(&cluster.unit).unwrap();
    let expected =
        "slurmctld 22.05.8 is too old, 24.11 is needed: set option slurm-source, e.g. ppa:ubuntu-hpc/slurm-wlm-25.11";
    assert_eq!((status.word(), status.message()), ("blocked", expected));
    assert_eq!(cluster.machine.read(names::SLURM_CONF), None);
    assert_eq!(cluster.machine.read("/etc/slurm/slurm.jwks"), None);
    cluster.machine.archive_offers("24.11.5-4");
    cluster.hook(&Hook::named("config-changed"));
    assert!(cluster.machine.is_running(names::SERVICE));
}

#[test]
fn an_apt_that_is_busy_is_waited_for_and_no_hook_fails() {
    let cluster = Cluster::new();
    cluster
        .machine
        .apt_complains(Some("E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt)\n"));
    cluster.hook(&Hook::named("install"));
    let status = cluster.model.status(&cluster.unit).unwrap();
    let expected = "for apt: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt)";
    assert_eq!((status.word(), status.message()), ("waiting", expected));
    let timer = cluster.machine.read("/run/systemd/transient/slurmctld-0-retry.timer");
    assert!(timer.is_some());
}
