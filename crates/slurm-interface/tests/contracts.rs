//! Holds the contracts in `interfaces/` to the code: every example is decoded, and schemas name the keys that are
//! written.

use serde_json::Value;
use slurm_interface::{
    AccountingHost, AccountingKeys, AgentData, ComputeData, ControllerData, CredentialSource, Databag, DatabaseAnswer,
    DatabaseRequest, DecodeError, KeyAcknowledgement, MailPassword, MailRelay, MountRequest, MountState, OciRuntime,
    PeerApp, PeerUnit, RestData,
};
use std::collections::BTreeSet;

macro_rules! contract {
    ($path:literal) => {
        include_str!(concat!("../../../interfaces/", $path))
    };
}

fn bag(text: &str) -> Databag {
    serde_json::from_str(text).expect("an example is a map of strings")
}

/// Decodes an example that our own writer wrote, and checks that it writes the same again.
macro_rules! check_own {
    ($type:ty, $path:literal) => {{
        let example = bag(contract!($path));
        let decoded = <$type>::decode(&example).expect($path).expect("the example is complete");
        for (key, value) in decoded.encode() {
            assert_eq!(example.get(&key), Some(&value), "{}: {key}", $path);
        }
    }};
}

#[test]
fn our_own_examples_are_written_as_they_are_read() {
    check_own!(ControllerData, "slurmd/examples/controller.json");
    check_own!(ControllerData, "sackd/examples/controller.json");
    check_own!(RestData, "slurmrestd/examples/controller.json");
    check_own!(ComputeData, "slurmd/examples/compute.json");
    check_own!(ComputeData, "slurmd/examples/compute-minimal.json");
    check_own!(ComputeData, "slurmd/examples/compute-every-kind-of-option.json");
    check_own!(KeyAcknowledgement, "slurmd/examples/unit.json");
    check_own!(KeyAcknowledgement, "slurmd/examples/unit-rotating.json");
    check_own!(KeyAcknowledgement, "sackd/examples/unit.json");
    check_own!(KeyAcknowledgement, "slurmdbd/examples/unit.json");
    check_own!(KeyAcknowledgement, "slurmrestd/examples/unit.json");
    check_own!(PeerApp, "slurmctld-peer/examples/application.json");
    check_own!(PeerUnit, "slurmctld-peer/examples/unit.json");
    check_own!(PeerUnit, "slurmctld-peer/examples/unit-left.json");
    check_own!(AccountingKeys, "slurmdbd/examples/controller.json");
    check_own!(AccountingHost, "slurmdbd/examples/slurmdbd.json");
    check_own!(AccountingHost, "slurmdbd-peer/examples/unit.json");
    let request = bag(contract!("mysql_client/examples/request.json"));
    assert_eq!(DatabaseRequest { database: "slurm_acct_db" }.encode(), request);
    check_own!(MountRequest, "mount_info/examples/request.json");
    check_own!(MountState, "mount_info/examples/client-mounted.json");
}

#[test]
fn examples_of_other_writers_are_read() {
    for text in [
        contract!("slurmd/examples/controller-python.json"),
        contract!("slurmd/examples/controller-python-before-2026-04.json"),
        contract!("sackd/examples/controller-python.json"),
        contract!("sackd/examples/controller-python-before-2026-04.json"),
        contract!("slurmd/examples/controller-specification.json"),
    ] {
        let data = ControllerData::decode(&bag(text)).unwrap().unwrap();
        assert!(data.auth_secret.as_str().ends_with("d3k2v5nmp25c762q3bvg"), "{data:?}");
        assert_eq!(data.controllers[0].to_string(), "juju-c9fc6f-1:6817");
    }
    for text in [
        contract!("slurmdbd/examples/controller-python.json"),
        contract!("slurmdbd/examples/controller-python-before-2026-04.json"),
    ] {
        let keys = AccountingKeys::decode(&bag(text)).unwrap().unwrap();
        assert!(keys.auth_secret.as_str().ends_with("d3k2v5nmp25c762q3bvg"), "{keys:?}");
        assert!(keys.jwt_secret.unwrap().as_str().ends_with("d3k2v5nmp25c762q3bw0"));
    }
    let database = |text| DatabaseAnswer::decode(&bag(text)).unwrap().unwrap();
    let answer = database(contract!("mysql_client/examples/answer.json"));
    assert_eq!(answer.endpoints[0].to_string(), "10.134.123.14:3306");
    let old = database(contract!("mysql_client/examples/answer-without-secrets.json"));
    assert_eq!((old.credentials, old.endpoints.len()), (CredentialSource::Bag, 2));
    let rest = RestData::decode(&bag(contract!("slurmrestd/examples/controller-python.json"))).unwrap().unwrap();
    assert_eq!((rest.files.len(), rest.controllers()), (5, vec!["juju-c9fc6f-1"]));
    assert_eq!(rest.get("AccountingStorageType"), Some("accounting_storage/slurmdbd"));
    let python = ComputeData::decode(&bag(contract!("slurmd/examples/compute-python.json"))).unwrap().unwrap();
    assert_eq!(python.nodeset, slurm_conf::NodeSet::new("compute", "compute").unwrap());
    let unquoted = PeerUnit::decode(&bag(contract!("slurmctld-peer/examples/unit-unquoted.json"))).unwrap().unwrap();
    assert_eq!(unquoted.hostname.as_str(), "juju-c9fc6f-1");
}

#[test]
fn an_agent_is_told_as_its_example_says() {
    let [full, empty] =
        [contract!("cos_agent/examples/unit.json"), contract!("cos_agent/examples/unit-without-metrics.json")].map(bag);
    let config: Value = serde_json::from_str(&full["config"]).unwrap();
    let data = AgentData {
        alert_rules: config["metrics_alert_rules"].clone(),
        dashboards: vec!["{}".to_owned()],
        scrape_jobs: config["metrics_scrape_jobs"].as_array().unwrap().clone(),
    };
    assert_eq!(data.encode(), full);
    let data = AgentData { alert_rules: serde_json::json!({}), dashboards: Vec::new(), scrape_jobs: Vec::new() };
    assert_eq!(data.encode(), empty);
    check_schema(contract!("cos_agent/schema.json"), "provider", &full);
}

#[test]
fn a_runtime_and_a_relay_are_read() {
    for text in [
        contract!("slurm-oci-runtime/examples/runtime.json"),
        contract!("slurm-oci-runtime/examples/runtime-before-2026-08.json"),
    ] {
        let runtime = OciRuntime::decode(&bag(text)).unwrap().unwrap();
        assert!(runtime.conf().contains("apptainer exec --userns %r %@"), "{runtime:?}");
    }
    let relay = MailRelay::decode(&bag(contract!("smtp/examples/relay.json"))).unwrap().unwrap();
    assert!(matches!(relay.login.unwrap().password, MailPassword::InSecret(_)));
    let relay = MailRelay::decode(&bag(contract!("smtp/examples/relay-without-login.json"))).unwrap().unwrap();
    assert_eq!((relay.port, relay.login), (25, None));
}

#[test]
fn examples_of_what_is_not_ready_are_no_error() {
    let not_ready = bag(contract!("slurmd/examples/controller-not-ready.json"));
    assert_eq!(ControllerData::decode(&not_ready), Ok(None));
    assert_eq!(RestData::decode(&bag(contract!("slurmrestd/examples/controller-not-ready.json"))), Ok(None));
    assert_eq!(MountState::decode(&bag(contract!("mount_info/examples/client-not-ready.json"))), Ok(None));
}

#[test]
fn examples_of_what_is_too_old_are_told_by_name() {
    let old_controller = bag(contract!("slurmd/examples/controller-static-nodes.json"));
    assert!(matches!(ControllerData::decode(&old_controller), Err(DecodeError::Obsolete { key: "cluster_info", .. })));
    let old_compute = bag(contract!("slurmd/examples/compute-static-nodes.json"));
    assert!(matches!(ComputeData::decode(&old_compute), Err(DecodeError::Obsolete { key: "partition", .. })));
}

#[track_caller]
fn check_schema(schema: &str, side: &str, bag: &Databag) {
    check_optional(schema, side, bag, &[]);
}

#[track_caller]
fn check_optional(schema: &str, side: &str, bag: &Databag, optional: &[&str]) {
    let schema: Value = serde_json::from_str(schema).expect("a schema is JSON");
    let described = &schema["properties"][side];
    let properties: BTreeSet<&str> =
        described["properties"].as_object().expect("properties").keys().map(String::as_str).collect();
    let required: BTreeSet<&str> =
        described["required"].as_array().expect("required").iter().filter_map(Value::as_str).collect();
    let written: BTreeSet<&str> = bag.keys().map(String::as_str).collect();
    let always = written.iter().copied().filter(|key| !optional.contains(key)).collect();
    assert_eq!((properties, required), (written, always), "{side}");
}

#[test]
fn schemas_name_exactly_the_keys_that_are_written() {
    macro_rules! written {
        ($type:ty, $path:literal) => {
            &<$type>::decode(&bag(contract!($path))).unwrap().unwrap().encode()
        };
    }
    let [slurmd, peer, mount] =
        [contract!("slurmd/schema.json"), contract!("slurmctld-peer/schema.json"), contract!("mount_info/schema.json")];
    check_schema(slurmd, "requirer", written!(ControllerData, "slurmd/examples/controller.json"));
    let login = written!(ControllerData, "sackd/examples/controller.json");
    check_schema(contract!("sackd/schema.json"), "requirer", login);
    let rest = written!(RestData, "slurmrestd/examples/controller.json");
    check_schema(contract!("slurmrestd/schema.json"), "requirer", rest);
    check_schema(slurmd, "provider", written!(ComputeData, "slurmd/examples/compute.json"));
    check_schema(peer, "application", written!(PeerApp, "slurmctld-peer/examples/application.json"));
    let [unit, left] = [
        written!(PeerUnit, "slurmctld-peer/examples/unit.json"),
        written!(PeerUnit, "slurmctld-peer/examples/unit-left.json"),
    ];
    let both = unit.clone().into_iter().chain(left.clone()).collect();
    check_optional(peer, "unit", &both, &["left", "started_with", "unit_auth_key_ids"]);
    for (schema, unit) in [
        (slurmd, written!(KeyAcknowledgement, "slurmd/examples/unit.json")),
        (contract!("sackd/schema.json"), written!(KeyAcknowledgement, "sackd/examples/unit.json")),
        (contract!("slurmdbd/schema.json"), written!(KeyAcknowledgement, "slurmdbd/examples/unit.json")),
        (contract!("slurmrestd/schema.json"), written!(KeyAcknowledgement, "slurmrestd/examples/unit.json")),
    ] {
        check_schema(schema, "unit", unit);
    }
    let accounting = contract!("slurmdbd/schema.json");
    check_schema(accounting, "requirer", written!(AccountingKeys, "slurmdbd/examples/controller.json"));
    check_schema(accounting, "provider", written!(AccountingHost, "slurmdbd/examples/slurmdbd.json"));
    let unit = written!(AccountingHost, "slurmdbd-peer/examples/unit.json");
    check_schema(contract!("slurmdbd-peer/schema.json"), "unit", unit);
    let request = DatabaseRequest { database: "slurm_acct_db" }.encode();
    check_schema(contract!("mysql_client/schema.json"), "requirer", &request);
    check_schema(mount, "provider", written!(MountRequest, "mount_info/examples/request.json"));
    check_schema(mount, "requirer", written!(MountState, "mount_info/examples/client-mounted.json"));
}

#[test]
fn the_schema_names_every_partition_option() {
    let schema: Value = serde_json::from_str(contract!("slurmd/schema.json")).unwrap();
    let partition = &schema["properties"]["provider"]["properties"]["partition"]["properties"];
    let described: BTreeSet<String> = partition.as_object().unwrap().keys().cloned().collect();
    let mut known: BTreeSet<String> =
        slurm_conf::PartitionOption::all().iter().map(|option| option.name.to_ascii_lowercase()).collect();
    known.extend(["partitionname".to_owned(), "nodes".to_owned()]);
    assert_eq!(described, known);
}
