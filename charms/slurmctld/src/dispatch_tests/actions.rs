//! Requests of the operator and their answers, on a made-up Slurm with nodes and jobs.

use super::world::Cluster;
use charm_testing::{Dispatched, FakeJob, FakeMachine, Hook};
use serde_json::{Value, json};

/// A controller with three nodes.
fn cluster() -> Cluster {
    let (cluster, ..) = Cluster::at_rest();
    for node in ["compute-0", "compute-1", "compute-2"] {
        cluster.machine.add_node(node, "compute");
    }
    cluster
}

fn run(cluster: &Cluster, action: &str, parameters: Value) -> Dispatched {
    cluster.hook(&Hook::action(action, parameters))
}

#[track_caller]
fn answers(cluster: &Cluster, action: &str, parameters: Value) -> charm::Databag {
    let done = run(cluster, action, parameters);
    assert_eq!(done.failure, None, "{action}");
    done.results
}

#[track_caller]
fn refuses(cluster: &Cluster, action: &str, parameters: Value) -> String {
    let done = run(cluster, action, parameters);
    assert!(done.results.is_empty(), "{done:#?}");
    done.failure.unwrap_or_else(|| panic!("{action} is not refused"))
}

#[test]
fn nodes_are_drained_shown_and_resumed() {
    let cluster = cluster();
    let done = answers(&cluster, "drain", json!({"nodename": "compute-[0-1]", "reason": "new disks"}));
    assert_eq!((done["status"].as_str(), done["nodes"].as_str()), ("draining", "compute-[0-1]"));
    let shown = answers(&cluster, "show-nodes", json!({}));
    assert_eq!(shown["count"], "3");
    let list: Vec<Value> = serde_json::from_str(&shown["nodes"]).unwrap();
    assert_eq!(
        list[0],
        json!({"node": "compute-0", "state": "IDLE+DRAIN+DYNAMIC_NORM", "partitions": "compute",
               "unit": "compute/0", "reason": "new disks"})
    );
    assert_eq!(list[2]["reason"], "");
    let lines: Vec<&str> = shown["table"].lines().collect();
    assert_eq!(lines[1], "compute-0  IDLE+DRAIN+DYNAMIC_NORM  compute     compute/0  new disks");
    let why = answers(&cluster, "explain", json!({"node": "compute-0"}));
    assert_eq!(why["why"], "it is drained, with the reason \"new disks\"");
    assert_eq!(why["subject"], "node compute-0 (unit compute/0)");
    assert!(why["advice"].contains("`juju run slurmctld/leader resume nodename=compute-0`"));
    answers(&cluster, "resume", json!({"nodename": "compute-[0-1]"}));
    // A node that is in service already is what was wanted.
    let done = answers(&cluster, "resume", json!({"nodename": "compute-0"}));
    assert_eq!(done["status"], "resuming");
    assert_eq!(
        refuses(&cluster, "resume", json!({"nodename": "compute-9"})),
        "Error resuming compute-9: Slurm knows no node compute-9"
    );
    assert!(
        refuses(&cluster, "drain", json!({"nodename": "compute-0", "reason": " "})).starts_with("parameter `reason`")
    );
    assert_eq!(refuses(&cluster, "show-nodes", json!({"nodes": "compute-[0-9]"})).matches("compute-").count(), 7);
}

#[test]
fn a_state_is_set_as_the_python_charm_does() {
    let cluster = cluster();
    let done = answers(&cluster, "set-node-state", json!({"nodes": "compute-0", "state": "down"}));
    assert_eq!(done["state"], "down");
    let why = answers(&cluster, "explain", json!({"node": "compute-0"}));
    assert_eq!(why["why"], "it was set down, with the reason \"n/a\"");
    let done = run(&cluster, "set-node-state", json!({"nodes": "compute-0", "state": "idle", "reason": "fixed"}));
    assert_eq!(done.failure, None);
    let warned = done.calls.iter().any(|call| {
        call.contains("Warning: The 'idle' state does not require a reason to be set. Not updating to node(s) compute-0 'reason' field to 'fixed'.")
    });
    assert!(warned, "{:#?}", done.calls);
    let why = refuses(&cluster, "set-node-state", json!({"nodes": "nosuch", "state": "drain"}));
    let expected = "Failed to set state of node(s) nosuch to state 'drain'. reason:\nSlurm knows no node nosuch";
    assert_eq!(why, expected);
}

#[test]
fn a_list_with_one_unknown_node_changes_none_of_the_others() {
    let cluster = cluster();
    for (action, parameters) in [
        ("drain", json!({"nodename": "compute-0,nosuch-[0-1]", "reason": "x"})),
        ("set-node-state", json!({"nodes": "compute-0,nosuch-[0-1]", "state": "down"})),
        ("resume", json!({"nodename": "compute-0,nosuch-[0-1]"})),
    ] {
        let why = refuses(&cluster, action, parameters);
        assert!(why.ends_with("Slurm knows no node nosuch-0, nosuch-1"), "{action}: {why}");
        let state = answers(&cluster, "explain", json!({"node": "compute-0"}))["state"].clone();
        assert_eq!(state, "IDLE+DYNAMIC_NORM", "{action}");
        answers(&cluster, "drain", json!({"nodename": "compute-1", "reason": "stays"}));
    }
    assert!(answers(&cluster, "explain", json!({"node": "compute-1"}))["state"].contains("DRAIN"));
}

#[test]
fn quotes_in_a_reason_stay() {
    let cluster = cluster();
    for reason in ["it's \"q\"", "\"q\"", "\"begins", "ends\"", "plain"] {
        answers(&cluster, "drain", json!({"nodename": "compute-0", "reason": reason}));
        let shown = answers(&cluster, "show-nodes", json!({"nodes": "compute-0"}));
        let list: Vec<Value> = serde_json::from_str(&shown["nodes"]).unwrap();
        assert_eq!(list[0]["reason"], reason);
    }
}

#[test]
fn jobs_are_destroyed_on_the_nodes_named_and_nowhere_else() {
    let cluster = cluster();
    let one = cluster.machine.submit(FakeJob::running("compute", "compute-[0-1]"));
    let two = cluster.machine.submit(FakeJob::running("compute", "compute-2"));
    let waiting = cluster.machine.submit(FakeJob::waiting("compute", "Resources"));
    let dry = answers(&cluster, "destroy-jobs", json!({"nodes": "compute-1", "dry-run": true}));
    assert_eq!((dry["status"].as_str(), dry["jobs"].as_str()), ("dry run", "1"));
    assert_eq!(cluster.machine.jobs(), [one, two, waiting]);
    let done = answers(&cluster, "destroy-jobs", json!({"nodes": "compute-1"}));
    assert_eq!((done["status"].as_str(), done["jobs"].as_str()), ("cancelled", "1"));
    assert_eq!(cluster.machine.jobs(), [two, waiting]);
    let none = answers(&cluster, "destroy-jobs", json!({"nodes": "compute-1"}));
    assert_eq!((none["status"].as_str(), none["jobs"].as_str()), ("no jobs", ""));
    assert_eq!(refuses(&cluster, "destroy-jobs", json!({"nodes": "nosuch"})), "Slurm knows no node nosuch");
}

#[test]
fn jobs_are_explained() {
    let cluster = cluster();
    let waiting = cluster.machine.submit(FakeJob::waiting("compute", "PartitionTimeLimit"));
    let odd = cluster.machine.submit(FakeJob::waiting("compute", "SomethingNew"));
    let runs = cluster.machine.submit(FakeJob::running("compute", "compute-0"));
    let told = |job: u64| answers(&cluster, "explain", json!({ "job": job }));
    assert_eq!(told(waiting)["why"], "it asks for more time than its partition gives (PartitionTimeLimit)");
    assert_eq!(told(odd)["why"], "Slurm says SomethingNew");
    assert_eq!(told(runs)["why"], "it runs on compute-0");
    assert!(refuses(&cluster, "explain", json!({"job": 99})).starts_with("no job 99"));
    assert!(refuses(&cluster, "explain", json!({})).starts_with("give a node or a job"));
    assert!(refuses(&cluster, "explain", json!({"job": 1, "node": "compute-0"})).starts_with("give either"));
    assert!(refuses(&cluster, "explain", json!({"node": "compute-9"})).starts_with("Slurm knows no node compute-9"));
}

#[test]
fn the_smoke_test_tries_every_node_that_takes_jobs() {
    let cluster = cluster();
    answers(&cluster, "drain", json!({"nodename": "compute-1", "reason": "x"}));
    let done = answers(&cluster, "smoke-test", json!({}));
    assert_eq!((done["passed"].as_str(), done["skipped"].as_str()), ("2", "1"));
    assert_eq!(
        done["table"],
        "compute-0: passed on host-of-compute-0\ncompute-1: skipped, it is IDLE+DRAIN+DYNAMIC_NORM\ncompute-2: passed on host-of-compute-2"
    );
    let (none, ..) = Cluster::at_rest();
    assert!(refuses(&none, "smoke-test", json!({})).contains("there is no node"));
}

#[test]
fn the_smoke_test_runs_beside_other_jobs() {
    let cluster = cluster();
    cluster.machine.submit(FakeJob::running("compute", "compute-0"));
    let done = answers(&cluster, "smoke-test", json!({"nodes": "compute-0"}));
    assert_eq!(done["table"], "compute-0: passed on host-of-compute-0");
}

#[test]
fn the_smoke_test_blames_no_node_for_its_partition() {
    let cluster = cluster();
    for (setting, told) in [
        ("state=DOWN", "skipped, partition compute is DOWN"),
        ("state=DRAIN", "skipped, partition compute is DRAIN"),
        ("state=INACTIVE", "skipped, partition compute is INACTIVE"),
        ("minnodes=2", "skipped, partition compute takes no job of fewer than 2 nodes"),
    ] {
        cluster.machine.set_by_hand(&["partitionname=compute", setting]);
        let done = answers(&cluster, "smoke-test", json!({"nodes": "compute-0"}));
        assert_eq!(done["table"], format!("compute-0: {told}"));
        cluster.machine.set_by_hand(&["partitionname=compute", "state=UP"]);
    }
}

#[test]
fn a_smoke_test_that_fails_still_has_the_results() {
    let cluster = cluster();
    cluster.machine.break_node("compute-1");
    let done = run(&cluster, "smoke-test", json!({}));
    assert!(done.failure.is_some_and(|why| why.starts_with("2 of 3 passed\n")));
    assert_eq!((done.results["passed"].as_str(), done.results["failed"].as_str()), ("2", "1"));
    assert!(done.results["table"].contains("compute-1: failed: "), "{}", done.results["table"]);
    let list: Vec<Value> = serde_json::from_str(&done.results["nodes"]).unwrap();
    assert_eq!((list.len(), &list[0]["node"]), (3, &json!("compute-0")));
}

#[test]
fn the_configuration_is_shown_with_where_each_line_comes_from() {
    let cluster = cluster();
    cluster.configure("slurm-conf-parameters", json!("ReturnToService=2"));
    cluster.machine.write("/etc/slurm/slurm.conf", &(cluster.conf() + "SlurmdTimeout=77\n"));
    let shown = answers(&cluster, "show-current-config", json!({}));
    assert_eq!(shown["slurm.conf"], cluster.conf());
    assert!(shown["cgroup.conf"].contains("CgroupPlugin") && shown["gres.conf"].contains("AutoDetect"));
    let origin = |line: &str| {
        let found = shown["annotated"].lines().find(|annotated| annotated.ends_with(&format!("| {line}")));
        found.and_then(|annotated| annotated.split(" | ").next()).map(|origin| origin.trim().to_owned())
    };
    let expected = [
        ("# applications. Everything else may be changed by hand.", "charm"),
        ("AuthType=auth/slurm", "charm"),
        ("TreeWidth=65533", "charm"),
        ("ReturnToService=2", "option slurm-conf-parameters"),
        ("# outweighed by slurm-conf-parameters: ReturnToService=1", "outweighed"),
        ("PartitionName=compute Nodes=compute Default=YES", "application compute"),
        ("SlurmdTimeout=77", "by hand"),
    ];
    for (line, whose) in expected {
        assert_eq!(origin(line).as_deref(), Some(whose), "{line}: {}", shown["annotated"]);
    }
}

#[test]
fn a_unit_without_slurmctld_says_which_has_it() {
    let (cluster, ..) = Cluster::at_rest();
    let second = cluster.model.add_unit(&cluster.app).unwrap();
    let other = Cluster { machine: FakeMachine::of(&second), unit: second, model: cluster.model, app: cluster.app };
    let expected = "slurmctld does not run on slurmctld/1: run this action on slurmctld/0";
    for (action, parameters) in [
        ("resume", json!({"nodename": "compute-0"})),
        ("drain", json!({"nodename": "compute-0", "reason": "x"})),
        ("set-node-state", json!({"nodes": "compute-0", "state": "down"})),
        ("show-nodes", json!({})),
        ("destroy-jobs", json!({"nodes": "compute-0"})),
        ("smoke-test", json!({})),
        ("explain", json!({"node": "compute-0"})),
    ] {
        assert_eq!(refuses(&other, action, parameters), expected, "{action}");
    }
    let expected = "there is no /etc/slurm/slurm.conf on slurmctld/1: ask slurmctld/0";
    assert_eq!(refuses(&other, "show-current-config", json!({})), expected);
}

/// Juju's agent takes no value of an answer above 128 KiB.
#[test]
fn a_list_that_is_too_long_leaves_nodes_out_by_name_and_stays_json() {
    let (cluster, ..) = Cluster::at_rest();
    for number in 0..400 {
        cluster.machine.add_node(&format!("compute-{number:03}"), "compute");
    }
    let reason = "x".repeat(250);
    answers(&cluster, "drain", json!({"nodename": "compute-[000-399]", "reason": reason}));
    let shown = answers(&cluster, "show-nodes", json!({}));
    let list: Vec<Value> = serde_json::from_str(&shown["nodes"]).unwrap();
    assert!(list.len() > 200 && list.len() < 400, "{}", list.len());
    assert_eq!(shown["count"], "400");
    assert_eq!(shown["table"].lines().count(), list.len() + 1);
    let (left, first) = (400 - list.len(), list.len());
    let expected = format!("{left} nodes, from compute-{first:03} to compute-399: name them in parameter `nodes`");
    assert_eq!(shown["left-out"], expected);
    assert!(!answers(&cluster, "show-nodes", json!({"nodes": "compute-399"})).contains_key("left-out"));
}

#[test]
fn an_action_that_breaks_says_why() {
    let (cluster, ..) = Cluster::at_rest();
    let path = cluster.machine.machine().path("/etc/slurm/slurm.conf");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let why = refuses(&cluster, "show-current-config", json!({}));
    assert!(why.starts_with("could not read ") && why.contains("slurm.conf"), "{why}");
}

#[test]
fn a_job_that_slurm_takes_for_running_and_no_node_knows_is_named() {
    let cluster = cluster();
    let slurm = cluster.machine.slurm();
    let (lost, sound) = (FakeJob::running("compute", "compute-[0-1]"), FakeJob::running("compute", "compute-1"));
    let (lost, sound) = (cluster.machine.submit(lost), cluster.machine.submit(sound));
    slurm.lose_processes(lost);
    let told = |job: u64| answers(&cluster, "explain", json!({ "job": job }));
    let remarks = || {
        let shown = answers(&cluster, "show-nodes", json!({}));
        let list: Vec<Value> = serde_json::from_str(&shown["nodes"]).unwrap();
        list.iter().map(|node| node["remarks"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    // It may be in its Prolog.
    assert_eq!((told(lost)["why"].as_str(), remarks().concat().as_str()), ("it runs on compute-[0-1]", ""));
    slurm.pass(std::time::Duration::from_secs(90));
    let why = told(lost);
    // Its script is what counts.
    assert!(why["why"].contains("it has no process on compute-0:"), "{why:?}");
    assert!(why["advice"].contains("`scontrol requeue 1`") && why["advice"].contains("`systemctl reload slurmd`"));
    assert_eq!(told(sound)["why"], "it runs on compute-1");
    assert_eq!(remarks(), ["job 1 has no process here", "", ""]);
    assert_eq!(slurm.jobs(), [lost, sound], "nothing is done about it");
    // Whoever cannot be asked is not accused.
    cluster.machine.break_node("compute-0");
    assert_eq!((told(lost)["why"].as_str(), remarks().concat().as_str()), ("it runs on compute-[0-1]", ""));
}

#[test]
fn a_job_without_a_script_whose_tasks_have_ended_on_one_of_its_nodes_is_not_named() {
    let cluster = cluster();
    let slurm = cluster.machine.slurm();
    let job = cluster.machine.submit(FakeJob { interactive: true, ..FakeJob::running("compute", "compute-[0-1]") });
    slurm.lose_processes(job);
    slurm.pass(std::time::Duration::from_secs(90));
    assert_eq!(answers(&cluster, "explain", json!({ "job": job }))["why"], "it runs on compute-[0-1]");
}

#[test]
fn a_job_may_be_without_processes_as_long_as_a_prolog_may_take() {
    let cluster = cluster();
    cluster.configure("slurm-conf-parameters", json!("Prolog=/etc/slurm/prolog.sh"));
    let slurm = cluster.machine.slurm();
    let job = cluster.machine.submit(FakeJob::running("compute", "compute-0"));
    slurm.lose_processes(job);
    let why = || answers(&cluster, "explain", json!({ "job": job }))["why"].clone();
    slurm.pass(std::time::Duration::from_secs(29 * 60));
    assert_eq!(why(), "it runs on compute-0");
    slurm.pass(std::time::Duration::from_secs(2 * 60));
    assert!(why().contains("no process"), "{}", why());
}

#[test]
fn a_controller_on_its_own_disk_adopts_nothing() {
    let (cluster, ..) = Cluster::at_rest();
    let marker = cluster.machine.read("/var/lib/slurm/checkpoint/state/.cluster");
    let refused = refuses(&cluster, "adopt", json!({"cluster": "lab"}));
    assert!(
        refused.starts_with("there is no store to adopt a cluster from: set option use-network-state"),
        "{refused}"
    );
    assert_eq!(cluster.machine.read("/var/lib/slurm/checkpoint/state/.cluster"), marker);
}

#[test]
fn a_token_is_in_a_secret_and_nowhere_else() {
    let cluster = cluster();
    let done = run(&cluster, "token", json!({"user": "alice", "lifespan": 600}));
    assert_eq!(done.failure, None);
    let secret = || cluster.model.secret(&cluster.app, "slurm-token-alice").unwrap();
    assert_eq!(secret()["token"], "header.username=alice.lifespan=600");
    assert_eq!((done.results["user"].as_str(), done.results["lifespan"].as_str()), ("alice", "600"));
    assert_eq!(done.results["read"], format!("juju show-secret --reveal {}", done.results["secret"]));
    assert!(!format!("{done:?}").contains("header."), "{done:#?}");
    assert!(!cluster.machine.take_calls().iter().any(|call| call.contains("header.")));
    // The next one is in the same secret.
    let again = answers(&cluster, "token", json!({"user": "alice", "lifespan": 700}));
    assert_eq!(again["secret"], done.results["secret"]);
    assert_eq!(secret()["token"], "header.username=alice.lifespan=700");
}

#[test]
fn a_token_that_the_operator_does_not_want_is_refused_by_name() {
    let cluster = cluster();
    let asks = |user: &str, lifespan: u64| refuses(&cluster, "token", json!({"user": user, "lifespan": lifespan}));
    let longest = "lifespan 86401: the option max-token-lifespan allows at most 86400 seconds";
    assert_eq!(asks("alice", 86401), longest);
    for user in ["", "-x", "a b", "a\nlifespan=1", "a=b", "alice,bob"] {
        assert!(asks(user, 60).contains("expected the name of a user"), "{user:?}");
    }
    cluster.model.set_option(&cluster.app, "max-token-lifespan", 0.into()).unwrap();
    assert_eq!(asks("alice", 60), "lifespan 60: the option max-token-lifespan allows at most 0 seconds");
}
