//! Hostile values in every key of every bag: each is refused with a message of one line that names the sender and the
//! key, and no sender is trusted more than another. What may become of values that are accepted is a matter of
//! `slurm-conf`.

use serde_json::{Value, json};
use slurm_interface::{ComputeData, ControllerData, Databag, DecodeError, MountRequest, MountState, PeerApp, PeerUnit};

const URI: &str = "secret:d3k2v5nmp25c762q3bvg";

/// Values that nothing in a bag may be, or contain.
fn hostile() -> Vec<String> {
    let mut values: Vec<String> = [
        "x\nSlurmUser=root",
        "x\rSlurmUser=root",
        "x\r\nNodeName=evil",
        "\nx",
        "x\u{2028}y",
        "x\u{2029}y",
        "x\u{85}y",
        "x\u{b}y",
        "x\0y",
        "\0",
        "x\u{1b}[31my",
        "x\u{7f}",
        "x\ty",
        "x\" SlurmUser=\"root",
        "x#y",
        "x\\",
        "x\\\nSlurmUser=root",
        "Include /etc/shadow\n",
        "x\u{8}\u{8}y",
        "x' -x 'y",
    ]
    .map(str::to_owned)
    .to_vec();
    values.push(format!("{}\n", "x".repeat(1 << 16)));
    values
}

/// Values that are text, but no name, host, path or address.
fn unnameable() -> Vec<String> {
    let mut values: Vec<String> = [
        " ",
        ".",
        "..",
        "../../etc/passwd",
        "a/../b",
        "a b",
        "a=b",
        "a,b",
        "a;b",
        "a&b",
        "a|b",
        "$(id)",
        "`id`",
        "a'b",
        "a[1-9]",
        "a(b)",
        "a*",
        "~",
        "-a",
        "--help",
        "%s%n",
        "ä",
        "a\u{202e}b",
        "a\u{feff}",
        "\u{fffd}",
        "NodeName=x",
        "Include x",
    ]
    .map(str::to_owned)
    .to_vec();
    values.push("x".repeat(1 << 16));
    values
}

fn all() -> Vec<String> {
    hostile().into_iter().chain(unnameable()).collect()
}

#[track_caller]
fn check<Data: std::fmt::Debug>(key: &str, value: &str, read: Result<Option<Data>, DecodeError>) {
    let error = match read {
        Ok(taken) => panic!("{key} took {value:?}: {taken:?}"),
        Err(error) => error.to_string(),
    };
    assert!(error.starts_with(&format!("databag key `{key}`: ")), "{error}");
    assert!(!error.contains(char::is_control) && !error.contains(['\u{2028}', '\u{202e}']), "{error:?}");
    assert!(error.chars().count() < 600, "{error}");
}

fn with(bag: &Databag, key: &str, value: &str) -> Databag {
    let mut bag = bag.clone();
    bag.insert(key.to_owned(), value.to_owned());
    bag
}

fn bag(members: &[(&str, Value)]) -> Databag {
    members.iter().map(|(key, value)| ((*key).to_owned(), value.to_string())).collect()
}

#[test]
fn there_are_forty_of_them() {
    assert!(all().len() >= 40);
}

#[test]
fn controllers_and_their_secret() {
    let good = bag(&[("auth_secret_id", json!(URI)), ("controllers", json!(["c1:6817"]))]);
    assert!(ControllerData::decode(&good).unwrap().is_some());
    for value in all() {
        let read = |key: &str, value: &str| ControllerData::decode(&with(&good, key, value));
        check("auth_secret_id", &value, read("auth_secret_id", &json!(value).to_string()));
        check("auth_secret_id", &value, read("auth_secret_id", &json!(format!("{URI}{value}")).to_string()));
        for entry in [value.clone(), format!("{value}:6817"), format!("c2:6817{value}"), format!("c2:{value}")] {
            check("controllers", &entry, read("controllers", &json!(["c1:6817", entry]).to_string()));
        }
        check("slurm_version", &value, read("slurm_version", &json!(format!("24.11{value}")).to_string()));
        check("controllers", &value, read("controllers", &value));
    }
}

#[test]
fn partitions_and_node_sets() {
    let good = bag(&[("partition", json!({"partitionname": "compute", "nodes": ["compute"]}))]);
    assert!(ComputeData::decode(&good).unwrap().is_some());
    let read = |partition: Value| ComputeData::decode(&with(&good, "partition", &partition.to_string()));
    for value in all() {
        check("partition", &value, read(json!({"partitionname": value})));
        check("partition", &value, read(json!({"partitionname": "compute", "nodes": [value]})));
        check("partition", &value, ComputeData::decode(&with(&good, "partition", &value)));
        for member in ["nodeset", "feature"] {
            let mut nodeset = json!({"nodeset": "compute", "feature": "compute"});
            nodeset[member] = json!(value);
            check("nodeset", &value, ComputeData::decode(&with(&good, "nodeset", &nodeset.to_string())));
        }
    }
    for value in hostile() {
        // A single quote is fair in free text of slurm.conf, and so it is in an option that is known to hold text.
        let text = !value.contains('\'');
        for key in ["qos", "allowgroups", "maxtime", "state", "tresbillingweights", "default", "newkey"] {
            let known_text = matches!(key, "qos" | "allowgroups");
            if text || !known_text {
                check("partition", &value, read(json!({"partitionname": "compute", key: value})));
            }
            if text && key == "allowgroups" {
                check("partition", &value, read(json!({"partitionname": "compute", key: ["a", value]})));
            }
        }
        check("partition", &value, read(json!({"partitionname": "compute", value.as_str(): "x"})));
    }
    for key in ["PartitionName", "Nodes", "nodename", "include", "NodeSet", "a b", "a=b", ""] {
        check("partition", key, read(json!({"partitionname": "compute", key: "x"})));
    }
}

#[test]
fn peers() {
    for value in all() {
        let quoted = json!(value).to_string();
        check("hostname", &value, PeerUnit::decode(&with(&Databag::new(), "hostname", &quoted)));
        check("cluster_name", &value, PeerApp::decode(&with(&Databag::new(), "cluster_name", &quoted)));
        // Older writers left the quotes away.
        check("hostname", &value, PeerUnit::decode(&with(&Databag::new(), "hostname", &value)));
        check("cluster_name", &value, PeerApp::decode(&with(&Databag::new(), "cluster_name", &value)));
        if !matches!(value.as_str(), "." | ".." | "-a" | "--help") {
            let named = bag(&[("cluster_name", json!("lab"))]);
            check("restart_signal", &value, PeerApp::decode(&with(&named, "restart_signal", &quoted)));
            let host = bag(&[("hostname", json!("c1"))]);
            check("started_with", &value, PeerUnit::decode(&with(&host, "started_with", &quoted)));
        }
    }
}

#[test]
fn mounts() {
    for value in all() {
        let (empty, quoted) = (Databag::new(), json!(value).to_string());
        check("mountpoint", &value, MountRequest::decode(&with(&empty, "mountpoint", &quoted)));
        check("mounted", &value, MountState::decode(&with(&empty, "mounted", &quoted)));
        check("mounted", &value, MountState::decode(&with(&empty, "mounted", &value)));
        let request = bag(&[("mountpoint", json!("/srv/state"))]);
        check("nodev", &value, MountRequest::decode(&with(&request, "nodev", &quoted)));
        // A part of a path may begin with a hyphen; an option it is not, behind a slash.
        if !matches!(value.as_str(), "-a" | "--help") && !value.chars().all(|letter| letter == 'x') {
            let below = json!(format!("/srv/{value}")).to_string();
            check("mountpoint", &value, MountRequest::decode(&with(&empty, "mountpoint", &below)));
        }
    }
}

#[test]
fn what_is_no_json_costs_its_key_alone() {
    for value in ["{", "[1", "\"a", "\"\\ud800\"", "nul", "{\"a\": 1e999}", &"[".repeat(10_000), "\u{feff}\"x\""] {
        check(
            "controllers",
            value,
            ControllerData::decode(&with(&bag(&[("auth_secret_id", json!(URI))]), "controllers", value)),
        );
        check("partition", value, ComputeData::decode(&with(&Databag::new(), "partition", value)));
        check("mountpoint", value, MountRequest::decode(&with(&Databag::new(), "mountpoint", value)));
    }
}
