//! A dispatch that ends too early, at any point and for any reason: the next ones bring it to the same end.

use super::world::{Cluster, partition};
use crate::names;
use charm::Databag;
use charm_testing::Hook;
use serde_json::json;
use slurm_unit::key_secret;
use std::collections::BTreeMap;

/// What is there in the end. Keys are random, so of them only that file and secret agree.
#[derive(Debug, PartialEq)]
struct End {
    files: BTreeMap<String, String>,
    bags: Vec<Databag>,
    grants: usize,
    secrets: [bool; 2],
    ports: Vec<String>,
    status: String,
    runs: bool,
    /// What Slurm has in memory, what an administrator set included.
    partitions: Vec<String>,
}

/// Runs a hook as Juju does: again if it failed. What the timer calls is called again anyway.
fn persist(cluster: &Cluster, hook: &Hook) {
    let done = (0..3).any(|_| cluster.dispatch(hook).succeeded);
    assert!(done, "{hook:?} never succeeds");
}

/// The timer calls until nothing is awaited, and not for ever.
pub(super) fn settle(cluster: &Cluster) {
    let awaited = || cluster.machine.read("/run/systemd/transient/slurmctld-0-retry.timer").is_some();
    for _ in 0..5 {
        if awaited() {
            persist(cluster, &Hook::named(slurm_unit::retry::EVENT));
        }
    }
}

/// Tells the whole story (deploy, integrate, change), with whatever `harm` does to it at its start.
fn story(named: bool, harm: impl Fn(&Cluster)) -> (Cluster, End) {
    let cluster = Cluster::new();
    if named {
        cluster.option("cluster-name", json!("lab"));
    }
    harm(&cluster);
    persist(&cluster, &Hook::named("install"));
    let peer = cluster.model.peer(&cluster.app).unwrap();
    persist(&cluster, &Hook::created(&peer, &cluster.app));
    persist(&cluster, &Hook::named("config-changed"));
    let (relation, compute) = cluster.relate("compute");
    cluster.model.play(&compute, &relation, &partition("compute")).unwrap();
    persist(&cluster, &Hook::app_changed(&relation, &compute));
    settle(&cluster);
    cluster.machine.set_by_hand(&["partitionname=compute", "prioritytier=7"]);
    cluster.option("slurm-conf-parameters", json!("KillWait=60\nReturnToService=2"));
    persist(&cluster, &Hook::named("config-changed"));
    let changed = json!({"partitionname": "compute", "nodes": ["compute"], "maxtime": 60}).to_string();
    let changed = Databag::from([("partition".to_owned(), changed)]);
    cluster.model.play(&compute, &relation, &changed).unwrap();
    persist(&cluster, &Hook::app_changed(&relation, &compute));
    persist(&cluster, &Hook::named("update-status"));
    settle(&cluster);
    let secret = |label: &str, path: &str| {
        let content = cluster.model.secret(&cluster.app, label).unwrap_or_default();
        let file = cluster.machine.read(path).unwrap_or_default();
        content.get(key_secret::KEY).is_some_and(|key| file.contains(key.as_str()))
    };
    let mut files = cluster.files("/etc");
    files.extend(cluster.files("/run"));
    files.extend(cluster.files("/var/lib/slurm"));
    // A draft of the note may stay; it says nothing.
    let varies = |name: &str| ["slurm.jwks", "jwt_hs256.key", ".cluster.draft"].iter().any(|end| name.ends_with(end));
    files.retain(|name, _| !varies(name));
    let own = |relation| cluster.model.app_bag(relation, &cluster.app);
    let end = End {
        files,
        bags: vec![own(&relation), own(&peer), cluster.model.unit_bag(&peer, &cluster.unit)],
        grants: cluster.model.grants(&cluster.app, key_secret::AUTH_LABEL).len(),
        secrets: [
            secret(key_secret::AUTH_LABEL, "/etc/slurm/slurm.jwks"),
            secret(key_secret::JWT_LABEL, "/etc/slurm/jwt_hs256.key"),
        ],
        ports: cluster.model.ports(&cluster.unit),
        status: cluster.status(),
        runs: cluster.machine.is_running(names::SERVICE),
        partitions: cluster.machine.partitions(),
    };
    (cluster, end)
}

fn rests(cluster: &Cluster, at: usize) {
    let done = cluster.hook(&Hook::named("update-status"));
    assert!(done.writes().is_empty(), "{at}: {done:#?}");
}

#[test]
fn a_dispatch_killed_before_any_effect_and_run_again_ends_the_same() {
    let (_, calm) = story(true, |_| {});
    assert_eq!(calm.status, "active: primary - UP");
    let memory = calm.partitions[0].to_lowercase();
    assert!(memory.contains("maxtime=60") && memory.contains("prioritytier=7"), "{memory}");
    for at in 0.. {
        let (cluster, end) = story(true, |cluster| cluster.model.knife().kill_before(at));
        if cluster.model.knife().spare() {
            assert!(at > 60, "only {at} effects");
            return;
        }
        let effects = cluster.model.knife().effects();
        assert_eq!(end, calm, "killed before effect {at}, {}", effects[at]);
        rests(&cluster, at);
    }
}

#[test]
fn a_name_made_up_by_chance_survives_a_kill_as_well() {
    // The first hooks are those in which it is made up.
    for at in 0..40 {
        let (cluster, end) = story(false, |cluster| cluster.model.knife().kill_before(at));
        assert_eq!(end.status, "active: primary - UP", "{at}");
        rests(&cluster, at);
    }
}

/// Tells the story again and again with one failure in it, each time a little later, until none comes any more. All
/// end the same.
fn always_ends_the_same(stride: usize, harm: impl Fn(&Cluster, usize), spared: impl Fn(&Cluster) -> bool) {
    let (_, calm) = story(true, |_| {});
    for at in (0..).step_by(stride) {
        let (cluster, end) = story(true, |cluster| harm(cluster, at));
        if spared(&cluster) {
            assert!(at > 40, "only {at} failures");
            return;
        }
        assert_eq!(end, calm, "failure {at}");
        rests(&cluster, at);
    }
}

#[test]
fn a_program_that_fails_anywhere_changes_nothing_about_the_end() {
    always_ends_the_same(1, |cluster, at| cluster.machine.fail_after(at), |cluster| cluster.machine.spare());
}

#[test]
fn a_hook_tool_that_fails_anywhere_changes_nothing_about_the_end() {
    // Most of them are looks, which fail alike; those that write are gone through one by one above.
    always_ends_the_same(3, |cluster, at| cluster.model.fail_after(at), |cluster| cluster.model.spare());
}
