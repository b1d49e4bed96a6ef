//! Whole dispatches of a controller, on a made-up model and a made-up machine: wiring, order of writes, and what a
//! failure leaves.

mod actions;
mod archives;
mod crash;
mod extras;
mod harm;
mod hostile;
mod leaving;
mod losses;
mod reboots;
mod world;

use crate::names;
use charm::Status;
use charm_testing::{FakeMachine, Hook};
use serde_json::json;
use slurm_unit::key_secret;
use std::collections::BTreeSet;
use world::{Cluster, only_looked, partition};

#[test]
fn deploy_integrate_settle_and_then_rest() {
    let cluster = Cluster::deployed();
    assert_eq!(cluster.model.status(&cluster.unit), Some(Status::active("primary - UP")));
    assert!(cluster.machine.is_running(names::SERVICE));
    let (relation, _) = cluster.integrate("compute");
    assert!(cluster.conf().contains("PartitionName=compute Nodes=compute"), "{}", cluster.conf());
    let published = cluster.model.app_bag(&relation, &cluster.app);
    assert!(published["controllers"].contains(":6817"), "{published:?}");
    assert_eq!(cluster.model.grants(&cluster.app, key_secret::AUTH_LABEL), [relation.number()]);
    assert_eq!(cluster.model.ports(&cluster.unit), ["6817/tcp"]);
    // Whether the grant took is looked at once more, and then nothing is awaited.
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    cluster.machine.take_calls();
    for _ in 0..5 {
        let done = cluster.hook(&Hook::named("update-status"));
        assert!(done.writes().is_empty(), "{done:#?}");
        only_looked(&cluster.machine.take_calls());
    }
}

#[test]
fn no_key_leaves_but_in_a_secret_and_a_private_file() {
    let cluster = Cluster::deployed();
    let (relation, _) = cluster.integrate("compute");
    let key = cluster.model.secret(&cluster.app, key_secret::AUTH_LABEL).unwrap()[key_secret::KEY].clone();
    let done = cluster.hook(&Hook::named("update-status"));
    let seen =
        format!("{:?}{:?}{:?}", cluster.model.app_bag(&relation, &cluster.app), done, cluster.machine.take_calls());
    assert!(!seen.contains(&key));
    assert!(cluster.machine.read("/etc/slurm/slurm.jwks").unwrap().contains(&key));
}

#[test]
fn a_dispatch_that_fails_publishes_nothing_and_the_next_makes_up_for_it() {
    let cluster = Cluster::deployed();
    let (relation, compute) = cluster.relate("compute");
    cluster.model.play(&compute, &relation, &partition("compute")).unwrap();
    // A directory in the place of a file is a failure of the machine.
    let path = cluster.machine.machine().path(names::REJECTIONS);
    std::fs::create_dir(&path).unwrap();
    let done = cluster.dispatch(&Hook::app_changed(&relation, &compute));
    let told_only = done.writes().iter().all(|call| call.starts_with("status-set"));
    assert!(!done.succeeded && told_only, "{done:#?}");
    assert!(cluster.model.app_bag(&relation, &cluster.app).is_empty());
    std::fs::remove_dir(path).unwrap();
    cluster.hook(&Hook::app_changed(&relation, &compute));
    assert!(!cluster.model.app_bag(&relation, &cluster.app).is_empty());
}

#[test]
fn a_refused_configuration_is_taken_back_and_said() {
    let cluster = Cluster::deployed();
    let before = cluster.conf();
    cluster.machine.refuse_next_configuration("fatal: Invalid node names in partition compute");
    cluster.integrate("compute");
    assert_eq!(cluster.conf(), before);
    let status = cluster.model.status(&cluster.unit).unwrap();
    assert!(matches!(&status, Status::Blocked(text) if text.contains("Invalid node names")), "{status:?}");
}

#[test]
fn a_unit_that_does_not_lead_writes_no_application_data() {
    let cluster = Cluster::new();
    let second = cluster.model.add_unit(&cluster.app).unwrap();
    let cluster = Cluster { machine: FakeMachine::of(&second), unit: second, ..cluster };
    let peer = cluster.model.peer(&cluster.app).unwrap();
    for hook in [Hook::named("install"), Hook::created(&peer, &cluster.app), Hook::named("config-changed")] {
        let done = cluster.hook(&hook);
        assert!(done.writes().iter().all(|call| !call.contains("--app") && !call.starts_with("secret")), "{done:#?}");
    }
    assert!(cluster.model.app_bag(&peer, &cluster.app).is_empty());
}

#[test]
fn a_settled_hook_starts_no_more_than_its_reads_need() {
    let (cluster, _, compute) = Cluster::at_rest();
    cluster.model.add_unit(&compute).unwrap();
    let done = cluster.hook(&Hook::named("update-status"));
    let tools: Vec<&str> = done.calls.iter().filter_map(|call| call.split(' ').next()).collect();
    let expected = [
        ("is-leader", 1),
        // Compute applications and peers.
        ("relation-ids", 2),
        ("relation-list", 1),
        // The application's bag and ours in the one, both of ours in the other.
        ("relation-get", 4),
        ("config-get", 1),
        // Who of the compute units exists.
        ("goal-state", 1),
        // Two secrets, and whether their content is still there; of the one that others read also who may.
        ("secret-info-get", 1),
        ("secret-get", 2),
        ("opened-ports", 1),
        ("status-get", 1),
    ];
    assert_eq!(counted(&tools), expected.into());
    assert_eq!(cluster.machine.take_calls().len(), 3, "systemctl show, scontrol show partition and journalctl");
}

/// How often each of several programs was started.
fn counted<'a>(programs: &[&'a str]) -> BTreeSet<(&'a str, usize)> {
    let times = |program: &str| programs.iter().filter(|other| **other == program).count();
    programs.iter().map(|program| (*program, times(program))).collect()
}

#[test]
fn a_unit_that_joins_costs_a_controller_no_more_than_any_settled_hook() {
    let (cluster, relation, compute) = Cluster::at_rest();
    let unit = cluster.model.add_unit(&compute).unwrap();
    let done = cluster.hook(&Hook::joined(&relation, &unit));
    assert!(done.writes().is_empty(), "{done:#?}");
    assert!(done.calls.len() <= 15, "{:#?}", done.calls);
    let calls = cluster.machine.take_calls();
    only_looked(&calls);
    assert!(calls.len() <= 3, "{calls:#?}");
}

#[test]
fn the_timer_of_an_earlier_version_is_ended() {
    const TIMER: &str = "/run/systemd/transient/slurmctld-0-look-again.timer";
    let (cluster, ..) = Cluster::at_rest();
    cluster.machine.write(TIMER, "[Timer]\n");
    cluster.hook(&Hook::named("look-again"));
    assert_eq!(cluster.machine.read(TIMER), None);
}

#[test]
fn a_changed_partition_costs_few_processes() {
    let (cluster, relation, compute) = Cluster::at_rest();
    let mut bag = partition("compute");
    bag.insert(
        "partition".to_owned(),
        json!({"partitionname": "compute", "nodes": ["compute"], "maxtime": 60}).to_string(),
    );
    cluster.model.play(&compute, &relation, &bag).unwrap();
    let done = cluster.hook(&Hook::app_changed(&relation, &compute));
    assert!(cluster.conf().contains("MaxTime=60"));
    let expected = [
        // Does it answer, and what did administrators set? The second one is asked through the candidate, which is
        // read first.
        "scontrol --oneliner show partition",
        "scontrol --oneliner show node",
        "scontrol reconfigure",
        // What has it forgotten? And what it has is saved.
        "scontrol --oneliner show partition",
        "scontrol update partitionname=compute LLN=NO",
    ];
    assert_eq!(cluster.machine.take_calls(), expected);
    let tools: Vec<&str> = done.calls.iter().filter_map(|call| call.split(' ').next()).collect();
    // Looks run side by side, in any order.
    let tools: BTreeSet<(&str, usize)> = counted(&tools);
    let expected = [("config-get", 1), ("is-leader", 1), ("relation-ids", 1), ("relation-get", 2)];
    let expected = expected.into_iter().chain([("status-get", 1), ("juju-log", 1)]).collect();
    assert_eq!(tools, expected, "{:#?}", done.calls);
}

#[test]
fn no_file_of_the_configuration_is_read_twice() {
    let (cluster, relation, compute) = Cluster::at_rest();
    let mut bag = partition("compute");
    let changed = json!({"partitionname": "compute", "nodes": ["compute"], "maxtime": 60});
    bag.insert("partition".to_owned(), changed.to_string());
    cluster.model.play(&compute, &relation, &bag).unwrap();
    cluster.machine.take_reads();
    cluster.hook(&Hook::app_changed(&relation, &compute));
    let reads = cluster.machine.take_reads();
    let reads: Vec<&str> = reads.iter().filter(|path| path.starts_with("/etc/slurm/")).map(String::as_str).collect();
    assert!(reads.contains(&names::SLURM_CONF), "{reads:?}");
    assert!(counted(&reads).iter().all(|(_, times)| *times == 1), "{reads:?}");
}

#[test]
fn a_partition_is_closed_and_opened_by_its_configuration_and_otherwise_by_hand_alone() {
    let (cluster, relation, compute) = Cluster::at_rest();
    let offer = |more: serde_json::Value| {
        let mut partition = json!({"partitionname": "compute", "nodes": ["compute"]});
        partition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let bag = [("partition".to_owned(), partition.to_string())].into();
        cluster.model.play(&compute, &relation, &bag).unwrap();
        cluster.hook(&Hook::app_changed(&relation, &compute));
        cluster.machine.partitions()[0].rsplit_once("state=").unwrap().1.to_uppercase()
    };
    assert_eq!(offer(json!({"state": "drain"})), "DRAIN");
    assert_eq!(offer(json!({"state": "drain", "maxtime": 5})), "DRAIN");
    assert_eq!(offer(json!({"maxtime": 5})), "UP");
    cluster.machine.set_by_hand(&["partitionname=compute", "state=DOWN"]);
    assert_eq!(offer(json!({"maxtime": 6})), "DOWN");
}

#[test]
fn a_partition_made_with_scontrol_outlives_every_change() {
    let (cluster, relation, compute) = Cluster::at_rest();
    let before = cluster.files("/etc/slurm");
    cluster.machine.scontrol(&["create", "partitionname=byhand"]);
    for _ in 0..2 {
        cluster.configure("slurm-conf-parameters", json!("KillWait=60"));
        let blocked = "blocked: config changes on hold: partition byhand exists only at runtime: add it to slurm.conf or delete it";
        assert_eq!(cluster.status(), blocked);
    }
    let mut bag = partition("compute");
    bag.insert(
        "partition".to_owned(),
        json!({"partitionname": "compute", "nodes": ["compute"], "maxtime": 60}).to_string(),
    );
    cluster.model.play(&compute, &relation, &bag).unwrap();
    cluster.hook(&Hook::app_changed(&relation, &compute));
    assert_eq!(cluster.files("/etc/slurm"), before);
    assert_eq!(cluster.machine.partitions().len(), 2);
    // Nothing wakes the charm when it is gone, or in the file, but the timer.
    assert!(cluster.machine.read("/run/systemd/transient/slurmctld-0-retry.timer").is_some());
    cluster.machine.scontrol(&["delete", "partitionname=byhand"]);
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert!(cluster.conf().contains("KillWait=60") && cluster.conf().contains("MaxTime=60"));
    assert_eq!(cluster.status(), "active: primary - UP");
}

#[test]
fn a_partition_made_with_scontrol_may_be_written_into_the_file() {
    let (cluster, ..) = Cluster::at_rest();
    cluster.machine.scontrol(&["create", "partitionname=byhand"]);
    cluster.configure("slurm-conf-parameters", json!("KillWait=60"));
    let line = "PartitionName=byhand Nodes=ALL\n";
    cluster.machine.write(names::SLURM_CONF, &format!("{}{line}", cluster.conf()));
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert!(cluster.conf().contains(line) && cluster.conf().contains("KillWait=60"), "{}", cluster.conf());
    assert_eq!(cluster.machine.partitions().len(), 2);
    // What somebody takes out again goes, if no job is in it.
    let job = cluster.machine.submit(charm_testing::FakeJob::running("byhand", "compute-0"));
    cluster.machine.write(names::SLURM_CONF, &cluster.conf().replace(line, ""));
    cluster.hook(&Hook::named("update-status"));
    assert_eq!(cluster.machine.partitions().len(), 2);
    assert!(cluster.status().starts_with("blocked: config changes on hold: partition byhand"), "{}", cluster.status());
    cluster.machine.end_job(job);
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert_eq!(cluster.machine.partitions().len(), 2, "slurmctld would not survive the record");
    cluster.machine.slurm().age_out();
    cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert_eq!(cluster.machine.partitions().len(), 1);
    assert_eq!(cluster.status(), "active: primary - UP");
}

#[test]
fn options_take_effect_and_go_again() {
    let (cluster, ..) = Cluster::at_rest();
    let before = cluster.files("/etc/slurm");
    cluster.configure("slurm-conf-parameters", json!("KillWait=60\nReturnToService=2"));
    assert!(cluster.conf().contains("\nKillWait=60\n"), "{}", cluster.conf());
    assert_eq!(cluster.status(), "active: primary - UP");
    cluster.configure("process-tracking", json!("cgroup"));
    assert!(cluster.machine.read(names::CGROUP_CONF).unwrap().contains("ConstrainCores=yes"));
    cluster.configure("cgroup-parameters", json!("ConstrainCores=no"));
    assert!(cluster.machine.read(names::CGROUP_CONF).unwrap().contains("ConstrainCores=no"));
    cluster.machine.take_calls();
    for (option, value) in [("slurm-conf-parameters", ""), ("process-tracking", "auto"), ("cgroup-parameters", "")] {
        cluster.option(option, json!(value));
    }
    cluster.hook(&Hook::named("config-changed"));
    let reconfigures = cluster.machine.take_calls().iter().filter(|call| *call == "scontrol reconfigure").count();
    assert_eq!(reconfigures, 1, "one for all of them");
    let after = cluster.files("/etc/slurm");
    assert_eq!(before, after);
}

#[test]
fn a_wrong_partition_costs_its_own_application_only() {
    for by_parser in [true, false] {
        let cluster = Cluster::deployed();
        match by_parser {
            true => cluster.machine.parser_refuses("bogus"),
            false => cluster.machine.slurmctld_refuses("bogus", "fatal: no such QOS bogus"),
        }
        cluster.integrate("first");
        let mut bag = partition("wrong");
        bag.insert(
            "partition".to_owned(),
            json!({"partitionname": "wrong", "nodes": ["wrong"], "qos": "bogus"}).to_string(),
        );
        let (wrong, _) = cluster.integrate_with("wrong", &bag);
        let (last, _) = cluster.integrate("last");
        assert!(cluster.status().starts_with("blocked: wrong: partition refused: "), "{}", cluster.status());
        assert!(cluster.conf().contains("PartitionName=last") && !cluster.conf().contains("bogus"));
        assert!(cluster.model.app_bag(&wrong, &cluster.app).is_empty());
        assert!(!cluster.model.app_bag(&last, &cluster.app).is_empty());
    }
}

#[test]
fn an_application_has_the_partition_of_its_own_name_and_no_other() {
    let (cluster, ..) = Cluster::at_rest();
    let (relation, _) = cluster.integrate_with("greedy", &partition("other"));
    assert_eq!(cluster.status(), "blocked: greedy: partition other: expected greedy");
    assert!(!cluster.conf().contains("PartitionName=other"));
    assert!(cluster.model.app_bag(&relation, &cluster.app).is_empty());
}

#[test]
fn a_default_partition_that_is_not_there_leaves_the_one_before_in_its_place() {
    let (cluster, ..) = Cluster::at_rest();
    cluster.integrate("gpu");
    let default = |name: &str| {
        let line = cluster.conf().lines().find(|line| line.contains("Default=YES")).map(str::to_owned);
        assert!(line.as_ref().is_some_and(|line| line.starts_with(&format!("PartitionName={name} "))), "{line:?}");
    };
    cluster.configure("default-partition", json!("compute"));
    default("compute");
    cluster.configure("default-partition", json!("nosuch"));
    default("compute");
    assert!(cluster.status().starts_with("waiting: for partition nosuch"), "{}", cluster.status());
    cluster.configure("default-partition", json!("gpu"));
    default("gpu");
    // Nobody chooses any more, so the first application has it again.
    cluster.configure("default-partition", json!(""));
    default("compute");
}

#[test]
fn an_application_with_a_name_that_slurm_reserves_is_told_so() {
    let (cluster, ..) = Cluster::at_rest();
    let (relation, _) = cluster.integrate("default");
    assert_eq!(
        cluster.status(),
        "blocked: default: Slurm reserves this name, so no partition can have it: deploy under another"
    );
    assert!(cluster.model.app_bag(&relation, &cluster.app).is_empty());
}

#[test]
fn the_workload_is_held_and_left_alone() {
    let (cluster, ..) = Cluster::at_rest();
    assert_eq!(cluster.machine.read("/var/lib/dpkg/status").unwrap().matches("Status: hold").count(), 4);
    assert!(cluster.machine.read("/etc/needrestart/conf.d/slurmctld-charm.conf").unwrap().contains("slurmctld"));
    let drop_in = cluster.machine.read("/etc/systemd/system/slurmctld.service.d/10-charm.conf").unwrap();
    let lines =
        ["OnFailure=slurmctld-charm-failed.service", "Restart=on-failure", "RestartMode=direct", "StartLimitBurst=4"];
    for line in lines {
        assert!(drop_in.contains(line), "{drop_in}");
    }
    let service = cluster.machine.read("/etc/systemd/system/slurmctld-charm-failed.service").unwrap();
    assert!(service.contains("\"slurmctld/0\" \"JUJU_DISPATCH_PATH=hooks/daemon-failed ./dispatch\""), "{service}");
}
