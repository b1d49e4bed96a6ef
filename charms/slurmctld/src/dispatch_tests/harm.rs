//! Configurations that slurmctld would take, and that would cost nodes or jobs: refused by name before anything is
//! tried, whoever wrote them.

use super::world::Cluster;
use crate::names;
use charm_testing::{FakeJob, Hook};
use serde_json::json;

/// Two nodes, with a job each.
fn cluster() -> Cluster {
    let (cluster, _, compute) = Cluster::at_rest();
    for node in ["compute-0", "compute-1"] {
        cluster.model.add_unit(&compute).unwrap();
        cluster.machine.add_node(node, "compute");
        cluster.machine.submit(FakeJob::running("compute", node));
    }
    cluster
}

fn reconfigured(cluster: &Cluster) -> bool {
    cluster.machine.take_calls().iter().any(|call| call == "scontrol reconfigure")
}

#[test]
fn an_option_that_would_lose_jobs_is_refused_by_name() {
    let cluster = cluster();
    let before = cluster.conf();
    for (line, told) in [
        ("MaxNodeCount=1", "MaxNodeCount=1: at least 2, or slurmctld forgets nodes and their jobs"),
        ("MaxJobCount=1", "MaxJobCount=1: at least 12, or slurmctld forgets jobs (it has 2)"),
        ("MaxJobId=2", "MaxJobId=2: at least 12, or slurmctld forgets jobs (it has 2)"),
        ("SlurmdTimeout=1", "SlurmdTimeout=1: at least 10, or 0 for never: healthy nodes would be set down"),
        ("MpiDefault=bogus", "MpiDefault: there is no plugin mpi/bogus on this machine"),
    ] {
        cluster.configure("slurm-conf-parameters", json!(line));
        let status = cluster.status();
        assert_eq!(status, format!("blocked: option slurm-conf-parameters refused: {told}"));
        assert_eq!(cluster.conf(), before);
        assert!(!reconfigured(&cluster), "{line}");
    }
    cluster.configure("slurm-conf-parameters", json!("MaxNodeCount=2\nMaxJobCount=12\nSlurmdTimeout=10"));
    assert_eq!(cluster.status(), "active: primary - UP");
    assert!(cluster.conf().contains("\nMaxNodeCount=2\n") && reconfigured(&cluster));
    cluster.configure("slurm-conf-parameters", json!(""));
    assert_eq!(cluster.conf(), before);
}

#[test]
fn a_hand_that_would_lose_jobs_is_stopped_as_well() {
    for (line, instead) in [("MaxNodeCount=65533", "MaxNodeCount=1"), ("MpiDefault=none", "MaxJobCount=1")] {
        let cluster = cluster();
        let before = cluster.conf();
        cluster.machine.write(names::SLURM_CONF, &before.replace(line, instead));
        cluster.hook(&Hook::named("update-status"));
        assert_eq!(cluster.conf(), before, "{instead}");
        let status = cluster.status();
        assert!(status.starts_with("blocked: ") && status.contains(instead), "{status}");
        assert!(!reconfigured(&cluster), "{instead}");
    }
}

#[test]
fn an_option_that_jobs_depend_on_by_now_is_not_taken_back() {
    let cluster = cluster();
    cluster.configure("slurm-conf-parameters", json!("MaxJobCount=20000"));
    let before = cluster.conf();
    for _ in 0..10_000 {
        cluster.machine.submit(FakeJob::waiting("compute", "Resources"));
    }
    cluster.configure("slurm-conf-parameters", json!(""));
    assert_eq!(cluster.conf(), before);
    let status = cluster.status();
    assert!(status.contains("MaxJobCount=10000, the default: at least 11002, "), "{status}");
}

#[test]
fn a_new_cluster_comes_up_whatever_the_option_says() {
    for (option, value, plugin, told) in [
        ("process-tracking", "cgroup", "task_cgroup", "active: primary - UP"),
        (
            "slurm-conf-parameters",
            "MpiDefault=bogus",
            "mpi_bogus",
            "blocked: option slurm-conf-parameters refused: MpiDefault: there is no plugin mpi/bogus on this machine",
        ),
        (
            "slurm-conf-parameters",
            "SlurmdTimeout=1\nMaxJobCount=5000",
            "none",
            "blocked: option slurm-conf-parameters refused: SlurmdTimeout=1: at least 10, or 0 for never: healthy nodes would be set down",
        ),
        ("slurm-conf-parameters", "MaxNodeCount=100\nMaxJobCount=5000", "none", "active: primary - UP"),
    ] {
        let cluster = Cluster::new();
        cluster.option(option, json!(value));
        cluster.hook(&Hook::named("install"));
        let path = format!("/usr/lib/x86_64-linux-gnu/slurm-wlm/{plugin}.so");
        let _ = std::fs::remove_file(cluster.machine.machine().path(path));
        let peer = cluster.model.peer(&cluster.app).unwrap();
        cluster.hook(&Hook::created(&peer, &cluster.app));
        for name in ["leader-elected", "config-changed", "start", "update-status"] {
            cluster.hook(&Hook::named(name));
        }
        assert!(cluster.machine.is_running("slurmctld.service"));
        assert_eq!(cluster.status(), told);
    }
}

#[test]
fn nothing_is_reconfigured_on_a_full_disk() {
    let cluster = cluster();
    let before = cluster.conf();
    // The successor of slurmctld would read what was last saved, and that is not what is. No disk has room for this
    // file once more.
    let state = cluster.machine.machine().path(names::STATE_DIRECTORY).join("job_state");
    std::fs::File::create(&state).unwrap().set_len(1 << 42).unwrap();
    cluster.configure("slurm-conf-parameters", json!("KillWait=44"));
    let told =
        format!("blocked: {} is full: slurmctld cannot save jobs, config changes on hold", names::STATE_DIRECTORY);
    assert_eq!(cluster.status(), told);
    assert_eq!(cluster.conf(), before);
    assert!(!reconfigured(&cluster));
    std::fs::remove_file(&state).unwrap();
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert_eq!(cluster.status(), "active: primary - UP");
    assert!(cluster.conf().contains("KillWait=44") && reconfigured(&cluster));
}

#[test]
fn an_option_that_needs_a_file_waits_for_it() {
    let cluster = cluster();
    let before = cluster.conf();
    cluster.configure("slurm-conf-parameters", json!("TopologyPlugin=topology/tree"));
    let told = "blocked: option slurm-conf-parameters: TopologyPlugin: tree needs topology.conf, which is not there";
    assert_eq!(cluster.status(), told);
    assert_eq!(cluster.conf(), before);
    assert!(!reconfigured(&cluster));
    cluster.machine.write("/etc/slurm/topology.conf", "SwitchName=s1 Nodes=compute-[0-1]\n");
    cluster.hook(&Hook::named("update-status"));
    assert_eq!(cluster.status(), "active: primary - UP");
    assert!(cluster.conf().contains("TopologyPlugin=topology/tree"));
}

#[test]
fn a_hand_that_includes_what_is_not_there_is_put_right_without_asking_anybody() {
    for line in ["Include gone.conf", "Include /etc/slurm/slurm.jwks"] {
        let cluster = cluster();
        let before = cluster.conf();
        cluster.machine.write(names::SLURM_CONF, &format!("{before}{line}\n"));
        cluster.hook(&Hook::named("update-status"));
        assert_eq!(cluster.conf(), before, "{line}");
        assert!(cluster.status().contains(line), "{}", cluster.status());
        assert!(!reconfigured(&cluster), "{line}");
    }
}
