//! What holds for every bag, whoever filled it: nothing panics, and what was accepted can be written and read again.

use proptest::prelude::*;
use slurm_interface::{ComputeData, ControllerData, Databag, MountRequest, MountState, PeerApp, PeerUnit};

/// Values as they come from charms, from other programs, and from somebody who tries things out.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        "\"[a-z0-9.:/-]{0,12}\"",
        "\\[(\"[a-z0-9:]{0,8}\"(, )?){0,3}\\]?",
        "\"secret:[a-z0-9]{20}\"",
        "\\{\"partitionname\": \"[a-z/ ]{1,5}\"(, \"(maxtime|state|qos|nodes|default)\": \
         (\"[a-z\\\\n#]{0,5}\"|[0-9]{1,4}|true|\\[\\]))?\\}",
        Just("\"/srv/x\"".to_owned()),
        Just("true".to_owned()),
        Just("null".to_owned()),
    ]
}

fn bag() -> impl Strategy<Value = Databag> {
    let key = prop::sample::select(vec![
        "auth_secret_id",
        "auth_key_id",
        "controllers",
        "cluster_info",
        "partition",
        "partitionconfig",
        "nodeset",
        "cluster_name",
        "restart_signal",
        "hostname",
        "started_with",
        "unit_auth_key_ids",
        "mountpoint",
        "nodev",
        "mounted",
        "other",
    ]);
    prop::collection::btree_map(key.prop_map(str::to_owned), value(), 0..8)
}

macro_rules! check {
    ($type:ty, $bag:expr) => {
        match <$type>::decode($bag) {
            Ok(Some(data)) => {
                prop_assert_eq!(<$type>::decode(&data.encode()), Ok(Some(data)));
            }
            Ok(None) => {}
            Err(error) => {
                let text = error.to_string();
                prop_assert!(text.starts_with("databag key `"), "{}", text);
                prop_assert!(!text.contains('\n') && text.chars().count() < 400, "{}", text);
            }
        }
    };
}

proptest! {
    // PROPTEST_CASES in the environment asks for more.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_reader_accepts_comes_back(bag in bag()) {
        check!(ControllerData, &bag);
        check!(ComputeData, &bag);
        check!(PeerApp, &bag);
        check!(PeerUnit, &bag);
        check!(MountRequest, &bag);
        check!(MountState, &bag);
    }
}
