//! What Juju and machines lose, and that it comes back.

use super::world::Cluster;
use crate::names;
use charm_testing::{FakeStore, Fault, Hook};
use serde_json::json;
use slurm_unit::key_secret;

#[test]
fn a_lost_key_file_comes_back_from_the_secret() {
    let (cluster, ..) = Cluster::at_rest();
    for path in ["/etc/slurm/slurm.jwks", "/etc/slurm/jwt_hs256.key"] {
        let before = cluster.machine.read(path).unwrap();
        std::fs::remove_file(cluster.machine.machine().path(path)).unwrap();
        cluster.hook(&Hook::named("update-status"));
        assert_eq!(cluster.machine.read(path), Some(before), "{path}");
    }
    assert_eq!(cluster.status(), "active: primary - UP");
}

#[test]
fn a_damaged_key_file_is_as_good_as_a_lost_one() {
    use std::os::unix::fs::PermissionsExt;
    let (cluster, ..) = Cluster::at_rest();
    for path in ["/etc/slurm/slurm.jwks", "/etc/slurm/jwt_hs256.key"] {
        let before = cluster.machine.read(path).unwrap();
        for damage in ["", "{\"keys\":", "x"] {
            cluster.machine.write(path, damage);
            cluster.hook(&Hook::named("update-status"));
            assert_eq!(cluster.machine.read(path).as_ref(), Some(&before), "{path}");
        }
        let file = cluster.machine.machine().path(path);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        // With no secret to take it from it stays what it is.
        cluster.model.deny_secrets(true);
        cluster.hook(&Hook::named("update-status"));
        cluster.model.deny_secrets(false);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600, "{path}");
        assert_eq!(cluster.machine.read(path), Some(before), "{path}");
    }
    assert!(cluster.hook(&Hook::named("update-status")).writes().is_empty());
}

#[test]
fn a_configuration_that_others_cannot_read_is_opened() {
    use std::os::unix::fs::PermissionsExt;
    let (cluster, ..) = Cluster::at_rest();
    for (path, mode) in [("/etc/slurm/slurm.conf", 0o644), ("/etc/slurm/gres.conf", 0o644), ("/etc/slurm", 0o755)] {
        let path = cluster.machine.machine().path(path);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode & 0o700)).unwrap();
        cluster.hook(&Hook::named("update-status"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
    }
    assert_eq!(cluster.status(), "active: primary - UP");
}

#[test]
fn no_second_key_is_made_while_juju_will_not_show_the_first() {
    let (cluster, ..) = Cluster::at_rest();
    for path in ["/etc/slurm/slurm.jwks", "/etc/slurm/jwt_hs256.key"] {
        let before = cluster.machine.read(path).unwrap();
        std::fs::remove_file(cluster.machine.machine().path(path)).unwrap();
        cluster.model.deny_secrets(true);
        cluster.hook(&Hook::named("update-status"));
        assert_eq!(cluster.machine.read(path), None, "{path}");
        assert!(cluster.status().starts_with("waiting: for the "), "{}", cluster.status());
        cluster.model.deny_secrets(false);
        cluster.hook(&Hook::named("update-status"));
        assert_eq!(cluster.machine.read(path), Some(before), "{path}");
    }
}

#[test]
fn the_lost_content_of_a_secret_comes_back_from_the_file() {
    let (cluster, ..) = Cluster::at_rest();
    let before: Vec<_> =
        [key_secret::AUTH_LABEL, key_secret::JWT_LABEL].map(|label| cluster.model.secret(&cluster.app, label)).into();
    cluster.model.lose_secret_content();
    let done = cluster.hook(&Hook::named("update-status"));
    assert_eq!(done.writes().iter().filter(|call| call.starts_with("secret-set")).count(), 2, "{done:#?}");
    let after: Vec<_> =
        [key_secret::AUTH_LABEL, key_secret::JWT_LABEL].map(|label| cluster.model.secret(&cluster.app, label)).into();
    assert_eq!(before, after);
    assert!(cluster.hook(&Hook::named("update-status")).writes().is_empty());
}

/// slurmctld runs with the key on disk. Nodes that took another one would be lost with their jobs at their next
/// restart.
#[test]
fn a_secret_with_another_key_than_slurmctlds_gets_that_one_back() {
    for label in [key_secret::AUTH_LABEL, key_secret::JWT_LABEL] {
        let (cluster, ..) = Cluster::at_rest();
        let before = cluster.model.secret(&cluster.app, label).expect("a settled cluster has it");
        let mut other = before.clone();
        other.insert(key_secret::KEY.to_owned(), "b3RoZXIta2V5LW90aGVyLWtleS1vdGhlci1rZXkh".to_owned());
        cluster.model.revise_secret(&cluster.app, label, other);
        cluster.hook(&Hook::named("update-status"));
        assert_eq!(cluster.model.secret(&cluster.app, label), Some(before), "{label}");
        assert!(cluster.hook(&Hook::named("update-status")).writes().is_empty());
    }
}

#[test]
fn a_slurmctld_that_serves_nobody_after_a_refusal_is_restarted() {
    let (cluster, ..) = Cluster::at_rest();
    let before = cluster.conf();
    cluster.machine.slurmctld_sulks();
    cluster.machine.slurmctld_refuses("KillWait=7", "fatal: no such wait");
    cluster.configure("slurm-conf-parameters", serde_json::json!("KillWait=7"));
    assert_eq!(cluster.conf(), before);
    assert!(cluster.status().contains("no such wait"), "{}", cluster.status());
    cluster.configure("slurm-conf-parameters", serde_json::json!(""));
    assert_eq!(cluster.status(), "active: primary - UP");
}

#[test]
fn a_grant_that_did_not_take_is_made_again_by_the_timer() {
    let cluster = Cluster::deployed();
    let (relation, _) = cluster.integrate("compute");
    cluster.model.lose_grants(&cluster.app, key_secret::AUTH_LABEL);
    let timer = "/run/systemd/transient/slurmctld-0-retry.timer";
    assert!(cluster.machine.read(timer).is_some());
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert_eq!(cluster.model.grants(&cluster.app, key_secret::AUTH_LABEL), [relation.number()]);
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert!(cluster.machine.read(timer).is_none());
}

#[test]
fn a_relation_made_again_that_tells_nothing_is_looked_at_by_the_timer() {
    let cluster = Cluster::deployed();
    let (relation, compute) = cluster.relate("compute");
    cluster.hook(&Hook::created(&relation, &compute));
    cluster.model.play(&compute, &relation, &super::partition("compute")).unwrap();
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert!(!cluster.model.app_bag(&relation, &cluster.app).is_empty());
}

#[test]
fn a_deaf_agent_does_not_keep_a_later_change_from_being_seen() {
    let cluster = Cluster::deployed();
    let (relation, compute) = cluster.relate("compute");
    let leader = cluster.model.add_unit(&compute).unwrap();
    cluster.model.deafen(&cluster.unit, &relation, true).unwrap();
    let says = |limit: u64| {
        let mut bag = super::partition("compute");
        let changed = json!({"partitionname": "compute", "nodes": ["compute"], "maxtime": limit});
        bag.insert("partition".to_owned(), changed.to_string());
        cluster.model.play(&compute, &relation, &super::partition("compute")).unwrap();
        cluster.model.play_unit(&leader, &relation, &bag).unwrap();
    };
    let timer = || cluster.machine.read("/run/systemd/transient/slurmctld-0-retry.timer").is_some();
    says(60);
    cluster.hook(&Hook::created(&relation, &compute));
    assert!(cluster.conf().contains("MaxTime=60"), "{}", cluster.conf());
    // Nobody will call, so the timer goes on as long as this lasts; but there is nothing to do, and nothing is done.
    for _ in 0..3 {
        assert!(timer());
        cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    }
    assert!(cluster.hook(&Hook::named(slurm_unit::retry::EVENT)).writes().is_empty());
    assert_eq!(cluster.status(), "active: primary - UP");
    says(90);
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert!(cluster.conf().contains("MaxTime=90"), "{}", cluster.conf());
    // The agent starts anew, and hears again.
    cluster.model.deafen(&cluster.unit, &relation, false).unwrap();
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert!(!timer());
}

#[test]
fn a_deaf_agent_that_has_read_something_sees_a_later_change_too() {
    let cluster = Cluster::deployed();
    let (relation, compute) = cluster.relate("compute");
    let leader = cluster.model.add_unit(&compute).unwrap();
    let says = |limit: u64| {
        let mut bag = super::partition("compute");
        let changed = json!({"partitionname": "compute", "nodes": ["compute"], "maxtime": limit});
        bag.insert("partition".to_owned(), changed.to_string());
        cluster.model.play(&compute, &relation, &bag).unwrap();
        cluster.model.play_unit(&leader, &relation, &bag).unwrap();
    };
    says(60);
    // What the agent reads now, it goes on reading.
    cluster.model.deafen(&cluster.unit, &relation, true).unwrap();
    cluster.hook(&Hook::created(&relation, &compute));
    assert!(cluster.conf().contains("MaxTime=60"), "{}", cluster.conf());
    says(90);
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert!(cluster.conf().contains("MaxTime=90"), "{}", cluster.conf());
}

#[test]
fn a_store_of_another_machine_that_does_not_answer_is_told() {
    let (cluster, ..) = Cluster::at_rest();
    cluster.machine.mount(&FakeStore::new());
    cluster.machine.store_fails(Some(Fault::Silent));
    cluster.hook(&Hook::named("update-status"));
    let expected = "blocked: /var/lib/slurm/checkpoint/state cannot be read: no answer within 10 s from";
    assert!(cluster.status().starts_with(expected), "{}", cluster.status());
}

#[test]
fn a_state_directory_that_is_gone_is_never_made_anew() {
    let (cluster, ..) = Cluster::at_rest();
    cluster.machine.crash(names::SERVICE);
    let state = cluster.machine.machine().path(names::STATE_DIRECTORY);
    let away = state.with_file_name("away");
    std::fs::rename(&state, &away).unwrap();
    for _ in 0..3 {
        cluster.hook(&Hook::named("update-status"));
        assert!(
            cluster.status().starts_with("blocked: /var/lib/slurm/checkpoint/state is not this cluster's"),
            "{}",
            cluster.status()
        );
        assert!(!state.exists() && !cluster.machine.is_running(names::SERVICE));
    }
    std::fs::create_dir(&state).unwrap();
    cluster.hook(&Hook::named("update-status"));
    assert!(!cluster.machine.is_running(names::SERVICE));
    std::fs::remove_dir(&state).unwrap();
    std::fs::rename(&away, &state).unwrap();
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert_eq!(cluster.status(), "active: primary - UP");
}

#[test]
fn whoever_is_refused_is_looked_for_until_it_is_over() {
    let (cluster, ..) = Cluster::at_rest();
    let timer = || cluster.machine.read("/run/systemd/transient/slurmctld-0-retry.timer").is_some();
    let refusal = "slurmctld: error: slurm_receive_msg [10.0.0.5:41234]: x: Protocol authentication error\n";
    cluster.machine.journal(refusal);
    cluster.hook(&Hook::named("update-status"));
    assert_eq!(cluster.status(), "active: primary - UP; refuses 10.0.0.5: its key or clock differs");
    assert!(timer());
    cluster.machine.journal(refusal);
    cluster.hook(&Hook::named("config-changed"));
    assert!(timer() && cluster.status().contains("refuses 10.0.0.5"), "{}", cluster.status());
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert!(!timer());
    assert_eq!(cluster.status(), "active: primary - UP");
}

#[test]
fn a_daemon_that_died_is_started_and_one_that_cannot_is_told_about() {
    let (cluster, ..) = Cluster::at_rest();
    cluster.machine.crash(names::SERVICE);
    // Whoever is called because of the failure only tells of it: a start that fails would call again at once, without
    // end.
    for _ in 0..3 {
        cluster.hook(&Hook::named(slurm_unit::service::FAILURE_EVENT));
        assert!(cluster.status().starts_with("waiting: for slurmctld, which fails: "), "{}", cluster.status());
        assert!(!cluster.machine.is_running(names::SERVICE));
    }
    assert!(cluster.machine.read("/run/systemd/transient/slurmctld-0-retry.timer").is_some());
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert_eq!(cluster.status(), "active: primary - UP");
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert!(cluster.machine.read("/run/systemd/transient/slurmctld-0-retry.timer").is_none());
}

/// A client of Slurm would try for nine seconds, and the hook would hold Juju's lock all that time.
#[test]
fn a_slurmctld_that_does_not_run_is_not_asked() {
    let (cluster, ..) = Cluster::at_rest();
    cluster.machine.crash(names::SERVICE);
    cluster.machine.write("/proc/net/tcp", "  sl  local_address rem_address   st\n");
    cluster.hook(&Hook::named(slurm_unit::service::FAILURE_EVENT));
    let calls = cluster.machine.take_calls();
    assert!(!calls.iter().any(|call| call.starts_with("scontrol")), "{calls:#?}");
    assert!(cluster.status().starts_with("waiting: for slurmctld, which fails: "), "{}", cluster.status());
}

#[test]
fn a_daemon_that_fails_on_a_file_changed_by_hand_is_back_at_once() {
    let (cluster, ..) = Cluster::at_rest();
    let good = cluster.conf();
    cluster.machine.write(names::SLURM_CONF, &format!("{good}BogusKey=1\n"));
    cluster.machine.crash(names::SERVICE);
    cluster.hook(&Hook::named(slurm_unit::service::FAILURE_EVENT));
    assert_eq!(cluster.conf(), good);
    assert!(cluster.machine.is_running(names::SERVICE));
}

#[test]
fn a_file_broken_by_hand_is_put_back_and_the_hand_is_told() {
    let (cluster, ..) = Cluster::at_rest();
    let good = cluster.conf();
    cluster.machine.slurmctld_refuses("BogusKey", "fatal: Unable to process configuration file");
    cluster.machine.write(names::SLURM_CONF, &format!("{good}BogusKey=1\n"));
    cluster.hook(&Hook::named("update-status"));
    assert_eq!(cluster.conf(), good);
    assert!(
        cluster.status().starts_with("blocked: /etc/slurm/slurm.conf was refused and put back: "),
        "{}",
        cluster.status()
    );
    // Nobody else tells them, so it stays to be read until they have found a better file.
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert!(cluster.status().contains("was refused and put back"), "{}", cluster.status());
    cluster.machine.write(names::SLURM_CONF, &format!("{good}KillWait=33\n"));
    cluster.hook(&Hook::named("update-status"));
    assert!(cluster.conf().contains("KillWait=33"));
    assert_eq!(cluster.status(), "active: primary - UP");
}

#[test]
fn a_partition_written_by_hand_that_is_refused_is_told_to_the_hand() {
    let (cluster, ..) = Cluster::at_rest();
    let good = cluster.conf();
    cluster.machine.slurmctld_refuses("nosuchset", "fatal: Invalid node names in partition oops");
    cluster.machine.write(names::SLURM_CONF, &format!("{good}PartitionName=oops Nodes=nosuchset\n"));
    cluster.hook(&Hook::named("update-status"));
    assert_eq!(cluster.conf(), good);
    let told = "blocked: /etc/slurm/slurm.conf was refused and put back: fatal: Invalid node names in partition oops";
    assert_eq!(cluster.status(), told);
}

#[test]
fn the_name_of_the_cluster_outlives_its_files() {
    let (cluster, ..) = Cluster::at_rest();
    let good = cluster.conf();
    for name in ["slurm.conf", "slurm.conf.accepted", "cgroup.conf", "gres.conf"] {
        std::fs::remove_file(cluster.machine.machine().path(format!("/etc/slurm/{name}"))).unwrap();
    }
    cluster.hook(&Hook::named("update-status"));
    assert_eq!(cluster.conf(), good);
    cluster.configure("cluster-name", json!("other"));
    assert_eq!(cluster.conf(), good);
    assert!(
        cluster.status().starts_with("blocked: option cluster-name `other`: the cluster is "),
        "{}",
        cluster.status()
    );
}
