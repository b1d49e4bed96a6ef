//! Values that want to be a new line, a new key, a path or a command: in options, in bags, in requests. Each is
//! refused in words, and nothing is written.

use super::world::{Cluster, only_looked, partition};
use crate::names;
use charm_testing::{FakeJob, Hook};
use serde_json::{Value, json};

/// None of these is a name, a list of nodes, a state or lines of `Key=Value`.
fn hostile() -> Vec<String> {
    let mut values: Vec<String> = [
        "a\nSlurmctldHost=evil",
        "a\r\nSlurmUser=root",
        "\n",
        "a\tb",
        "a b",
        "a=b=c d",
        "a\u{0}b",
        "a\u{1b}[31mred",
        "a\u{7f}",
        "a\u{85}b",
        "a\u{2028}PartitionName=x",
        "a\u{2029}b",
        "a\"b",
        "\"",
        "a'b",
        "a`reboot`",
        "$(reboot)",
        "${HOME}",
        "a;reboot",
        "a|b",
        "a&&b",
        "a>b",
        "a\\",
        "a\\nb",
        "Include /etc/passwd",
        "include=/etc/passwd",
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        ".",
        "-rf",
        "--help",
        "a,,b [",
        "[",
        "a[0-",
        "a[9-1]",
        "a[0-99999999999]",
        "%s%n",
        "ä",
        "😀",
        "\u{202e}evil",
        "ClusterName=evil",
        "PartitionName=x Nodes=ALL Default=YES",
        "NodeName=x State=UNKNOWN",
        "AuthType=auth/none",
    ]
    .iter()
    .map(|value| (*value).to_owned())
    .collect();
    values.push("x".repeat(100_000));
    values
}

#[test]
fn there_are_enough_of_them() {
    assert!(hostile().len() >= 40);
}

/// Everything that a refused value must leave as it is.
fn world(cluster: &Cluster) -> (std::collections::BTreeMap<String, String>, Vec<charm::Databag>) {
    let mut files = cluster.files("/etc");
    files.extend(cluster.files("/var/lib"));
    let peer = cluster.model.peer(&cluster.app).unwrap();
    (files, vec![cluster.model.app_bag(&peer, &cluster.app)])
}

#[test]
fn in_options() {
    let (cluster, ..) = Cluster::at_rest();
    let before = world(&cluster);
    let options: [(&str, &str); 7] = [
        (names::OPTION_CLUSTER_NAME, ""),
        (names::OPTION_DEFAULT_PARTITION, ""),
        (names::OPTION_PROCESS_TRACKING, ""),
        (names::OPTION_PARAMETERS, ""),
        (names::OPTION_PARAMETERS, "KillWait="),
        (names::OPTION_CGROUP_PARAMETERS, ""),
        (names::OPTION_CGROUP_PARAMETERS, "ConstrainCores="),
    ];
    for (option, prefix) in options {
        // A plain key that is not known in cgroup.conf is for Slurm to judge.
        let plain = |value: &str| matches!(value, "ClusterName=evil" | "AuthType=auth/none");
        let judged = |value: &str| option == names::OPTION_CGROUP_PARAMETERS && plain(value);
        let fits = |value: &&String| !value.trim().is_empty() && !judged(value);
        for value in hostile().iter().filter(fits) {
            cluster.configure(option, json!(format!("{prefix}{value}")));
            let status = cluster.status();
            assert!(status.starts_with(&format!("blocked: option {option}")), "{option} {value:?}: {status}");
            assert!(!status.contains(char::is_control) && status.chars().count() < 140, "{status:?}");
            only_looked(&cluster.machine.take_calls());
            assert_eq!(world(&cluster), before, "{option} {value:?}");
        }
        cluster.option(option, json!(if option == names::OPTION_PROCESS_TRACKING { "auto" } else { "" }));
    }
    cluster.hook(&Hook::named("config-changed"));
    assert_eq!(cluster.status(), "active: primary - UP");
}

#[test]
fn in_the_source_of_packages() {
    let cluster = Cluster::new();
    for value in hostile().iter().filter(|value| !value.trim().is_empty()) {
        for prefix in ["", "ppa:owner/", "Types: deb\nURIs: http://x\nSuites: "] {
            cluster.option(names::OPTION_SOURCE, json!(format!("{prefix}{value}")));
            let before = cluster.files("/etc");
            cluster.hook(&Hook::named("install"));
            assert!(cluster.status().starts_with("blocked: option slurm-source: "), "{value:?}: {}", cluster.status());
            only_looked(&cluster.machine.take_calls());
            assert_eq!(cluster.files("/etc"), before);
        }
    }
}

#[test]
fn in_bags() {
    let (cluster, ..) = Cluster::at_rest();
    let (relation, other) = cluster.relate("other");
    let before = world(&cluster);
    for value in hostile() {
        let mut bags: Vec<Value> = vec![
            json!({"partitionname": value, "nodes": [value]}),
            json!({"partitionname": "other", "nodes": ["other"], "maxtime": value}),
            json!({"partitionname": "other", "nodes": ["other"], "state": value}),
            json!(value),
        ];
        // A word that could be a key is for Slurm to judge.
        if !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte)) {
            bags.push(json!({"partitionname": "other", "nodes": ["other"], value.as_str(): "x"}));
        }
        for bag in bags {
            let mut whole = partition("other");
            whole.insert("partition".to_owned(), bag.to_string());
            cluster.model.play(&other, &relation, &whole).unwrap();
            cluster.hook(&Hook::app_changed(&relation, &other));
            let status = cluster.status();
            assert!(status.starts_with("blocked: other: "), "{bag}: {status}");
            assert!(!status.contains(char::is_control) && status.chars().count() < 140, "{status:?}");
            only_looked(&cluster.machine.take_calls());
            assert_eq!(world(&cluster), before, "{bag}");
            assert!(cluster.model.app_bag(&relation, &cluster.app).is_empty());
        }
    }
    cluster.model.play(&other, &relation, &partition("other")).unwrap();
    cluster.hook(&Hook::app_changed(&relation, &other));
    assert_eq!(cluster.status(), "active: primary - UP");
}

#[test]
fn in_requests() {
    let (cluster, ..) = Cluster::at_rest();
    cluster.machine.add_node("compute-0", "compute");
    let job = cluster.machine.submit(FakeJob::running("compute", "compute-0"));
    let before = world(&cluster);
    for value in hostile() {
        let mut requests = vec![
            ("resume", json!({ "nodename": value })),
            ("drain", json!({"nodename": value, "reason": "x"})),
            ("set-node-state", json!({"nodes": value, "state": "down"})),
            ("set-node-state", json!({"nodes": "compute-0", "state": value})),
            ("destroy-jobs", json!({ "nodes": value })),
            ("explain", json!({ "node": value })),
            ("explain", json!({ "job": value })),
            ("smoke-test", json!({ "timeout": value })),
            ("destroy-jobs", json!({"nodes": "compute-0", "dry-run": value})),
        ];
        if !value.trim().is_empty() {
            requests.push(("show-nodes", json!({ "nodes": value })));
            requests.push(("smoke-test", json!({ "nodes": value })));
        }
        if value.chars().any(char::is_control) && !value.trim().is_empty() || value.len() > 200 {
            requests.push(("drain", json!({"nodename": "compute-0", "reason": value})));
            requests.push(("set-node-state", json!({"nodes": "compute-0", "state": "drain", "reason": value})));
        }
        for (action, parameters) in requests {
            let done = cluster.hook(&Hook::action(action, parameters.clone()));
            let shown: String = parameters.to_string().chars().take(100).collect();
            let why = done.failure.clone().unwrap_or_else(|| panic!("{action} {shown}: {:?}", done.results));
            assert!(done.results.is_empty() && why.chars().count() < 600, "{action} {shown}: {why}");
            assert!(!why.chars().any(|c| c.is_control() && c != '\n'), "{action} {shown}: {why:?}");
            let calls = cluster.machine.take_calls();
            only_looked(&calls);
            assert!(calls.iter().all(|call| !call.contains(&value) || value.trim().is_empty()), "{calls:?}");
        }
    }
    assert_eq!(world(&cluster), before);
    assert_eq!(cluster.machine.jobs(), [job]);
}
