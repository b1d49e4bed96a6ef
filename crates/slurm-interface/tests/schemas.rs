//! Holds what is written to the schemas in `interfaces/`: our own examples, and every partition that an operator may ask for. That
//! examples are decoded is in `contracts.rs`.

mod schema;

use schema::complaints;
use serde_json::{Map, Value, json};
use slurm_conf::Partition;
use slurm_interface::{ComputeData, Databag};
use std::path::{Path, PathBuf};

/// The examples that a writer of ours wrote, by interface and side. All others are of older or foreign writers.
const OWN: &[(&str, &str, &[&str])] = &[
    ("slurmd", "requirer", &["controller.json"]),
    ("slurmd", "provider", &["compute.json", "compute-minimal.json", "compute-every-kind-of-option.json"]),
    ("slurmctld-peer", "application", &["application.json"]),
    ("slurmctld-peer", "unit", &["unit.json"]),
    ("mount_info", "provider", &["request.json"]),
    ("mount_info", "requirer", &["client-mounted.json"]),
];
/// Examples that must not fit: they are read, or refused by name, all the same.
const OTHERS: &[(&str, &str, &[&str])] = &[
    (
        "slurmd",
        "requirer",
        &[
            "controller-not-ready.json",
            "controller-python.json",
            "controller-python-before-2026-04.json",
            "controller-specification.json",
            "controller-static-nodes.json",
        ],
    ),
    ("slurmd", "provider", &["compute-python.json", "compute-static-nodes.json"]),
    ("slurmctld-peer", "unit", &["unit-unquoted.json"]),
    ("mount_info", "requirer", &["client-not-ready.json"]),
];
const TABLE: &str = include_str!("../../slurm-conf/tests/verdicts/table.jsonl");

fn interfaces() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interfaces")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn schema_of(interface: &str) -> Value {
    serde_json::from_str(&read(&interfaces().join(interface).join("schema.json"))).expect("a schema is JSON")
}

/// Decodes the values of a bag, as the schemas describe them. What is no JSON fits nothing; Juju's own keys are not described.
fn decoded(bag: &Databag) -> Value {
    let values = bag.iter().map(|(key, text)| (key.clone(), serde_json::from_str(text).unwrap_or(Value::Null)));
    Value::Object(values.collect::<Map<_, _>>())
}

fn against(interface: &str, side: &str, bag: &Databag) -> Vec<String> {
    let root = schema_of(interface);
    complaints(&root, &root["properties"][side], &decoded(bag))
}

fn example(interface: &str, name: &str) -> Databag {
    let path = interfaces().join(interface).join("examples").join(name);
    serde_json::from_str(&read(&path)).expect("an example is a map of strings")
}

#[test]
fn our_own_examples_fit_their_schema() {
    for (interface, side, names) in OWN {
        for name in *names {
            assert_eq!(against(interface, side, &example(interface, name)), Vec::<String>::new(), "{interface}/{name}");
        }
    }
}

#[test]
fn what_other_generations_wrote_does_not() {
    for (interface, side, names) in OTHERS {
        for name in *names {
            assert!(!against(interface, side, &example(interface, name)).is_empty(), "{interface}/{name}");
        }
    }
}

#[test]
fn every_interface_has_its_parts_and_no_example_is_forgotten() {
    for entry in std::fs::read_dir(interfaces()).unwrap() {
        let directory = entry.unwrap().path();
        let interface = directory.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(read(&directory.join("README.md")).starts_with(&format!("# {interface}\n")), "{interface}");
        let known: Vec<&str> = OWN
            .iter()
            .chain(OTHERS)
            .filter(|(of, ..)| *of == interface)
            .flat_map(|(.., names)| *names)
            .copied()
            .collect();
        for example in std::fs::read_dir(directory.join("examples")).unwrap() {
            let name = example.unwrap().file_name().into_string().unwrap();
            assert!(known.contains(&name.as_str()), "{interface}/examples/{name} is in no list");
        }
    }
}

#[test]
fn every_partition_that_is_accepted_fits_the_schema() {
    let mut count = 0;
    for line in TABLE.lines() {
        let case: Value = serde_json::from_str(line).expect("a line of the table is JSON");
        let text = case["text"].as_str().expect("text");
        if case["file"] != "partition" {
            continue;
        }
        if let Ok(partition) = Partition::from_config("compute", text) {
            count += 1;
            let bag = ComputeData::new(partition).encode();
            assert_eq!(against("slurmd", "provider", &bag), Vec::<String>::new(), "{text}");
        }
    }
    assert!(count >= 40, "{count} partitions");
}

#[test]
fn the_schema_refuses_what_it_should() {
    for partition in [
        json!({"partitionname": "a b", "nodes": ["a b"]}),
        json!({"partitionname": "a"}),
        json!({"partitionname": "a", "nodes": ["a", "b"]}),
        json!({"partitionname": "a", "nodes": ["a"], "default": "yes"}),
        json!({"partitionname": "a", "nodes": ["a"], "state": "open"}),
        json!({"partitionname": "a", "nodes": ["a"], "newkey": 7}),
    ] {
        let bag = Databag::from([
            ("partition".to_owned(), partition.to_string()),
            ("nodeset".to_owned(), r#"{"nodeset": "a", "feature": "a"}"#.to_owned()),
        ]);
        assert!(!against("slurmd", "provider", &bag).is_empty(), "{partition}");
    }
}
