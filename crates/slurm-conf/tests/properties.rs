//! What holds for every text: nothing is lost, an edit touches its own lines only, and no input makes anything panic.

use proptest::prelude::*;
use slurm_conf::{
    CgroupConf, EffectiveConf, HostList, HostName, Node, Parameters, Partition, PartitionName, SlurmConf,
};

/// Text in which the characters that mean something to Slurm are frequent.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "=", "\"", "\\", "#", "\n", "\r\n", " ", "\t", ",", "[", "]", "-", "+=", "Include ", "NodeName=", "PartitionName=",
            "NodeSet=", "DEFAULT", "SlurmctldHost=", "KillWait=", "Nodes=", "Feature=", "State=DOWN", "a", "7", "01",
        ])
        .prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => "[a-zA-Z0-9_]{1,8}",
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Lines that can be read, of every kind.
fn file() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("\n".to_owned()),
        Just("# a comment\n".to_owned()),
        Just("Include other.conf\n".to_owned()),
        Just("SchedulerParameters=defer,\\\n  bf_window=7\n".to_owned()),
        "[A-D]=[a-z0-9]{1,4}( # [a-z ]{0,6})?\n",
        "  [A-D] = \"[a-z ]{0,6}\"\r\n",
        "SlurmctldHost=c[0-9](\\(10\\.0\\.0\\.[0-9]\\))?\n",
        "NodeName=n[0-9] CPUs=[1-9]\n",
        "NodeSet=[p-s] Feature=[p-s]\n",
        "PartitionName=[p-s] Nodes=[p-s] MaxTime=[1-9]\n",
    ];
    let end = prop::sample::select(vec!["", "E=1", "E=1 \\", "E=1 \\\n", "E=1 \\ # x\n"]);
    (prop::collection::vec(line, 0..20), end).prop_map(|(lines, end)| lines.concat() + end)
}

/// The lines of a text that are not blank and do not mention any of `words`, without their ends.
fn other_lines<'text>(text: &'text str, words: &[&str]) -> Vec<&'text str> {
    let lines = text.lines().map(|line| line.trim_end_matches('\r'));
    lines.filter(|line| !line.is_empty() && !words.iter().any(|word| line.contains(word))).collect()
}

proptest! {
    // PROPTEST_CASES in the environment asks for more.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_read_is_rendered_byte_for_byte(text in text()) {
        if let Ok(conf) = SlurmConf::parse(&text) {
            prop_assert_eq!(conf.render(), text.as_str());
        }
        if let Ok(conf) = CgroupConf::parse(&text) {
            prop_assert_eq!(conf.render(), text);
        }
    }

    #[test]
    fn no_text_makes_anything_panic(text in text(), other in text()) {
        if let Ok(mut conf) = SlurmConf::parse(&text) {
            let effective = EffectiveConf::read(&conf, |_| Some(other.clone()));
            for name in conf.partitions().map(|partition| partition.name()) {
                prop_assert!(name.eq_ignore_ascii_case("DEFAULT") || effective.has_partition(name));
            }
            let _ = conf.set(&other, "x");
            let _ = conf.set("KillWait", &other);
            conf.remove(&other);
            conf.remove_partition(&other);
            prop_assert!(SlurmConf::parse(&conf.render()).is_ok(), "{:?}", conf.render());
        }
        let _ = Parameters::parse(&text, &["ClusterName"]).map(|parameters| parameters.doubts());
        let _ = (Partition::from_config("p", &text), Node::from_config(&text), Node::from_detected(&text));
        let _ = (text.parse::<HostList>(), PartitionName::new(text));
    }

    #[test]
    fn setting_a_key_changes_its_own_lines_only(text in file(), value in "[a-z0-9 ]{0,6}") {
        let before = SlurmConf::parse(&text).unwrap();
        let mut after = before.clone();
        after.set("B", &value).unwrap();
        let rendered = after.render();
        prop_assert_eq!(other_lines(&rendered, &["B"]), other_lines(&text, &["B"]));
        let read = SlurmConf::parse(&rendered).unwrap();
        prop_assert_eq!(read.get("b"), Some(value.as_str()));
        for key in ["A", "C", "D", "SchedulerParameters"] {
            prop_assert_eq!(read.get(key), before.get(key));
        }
        prop_assert!(!after.set("B", &value).unwrap(), "a second time changes nothing");
        after.remove("B");
        prop_assert!(SlurmConf::parse(&after.render()).unwrap().get("B").is_none());
    }

    #[test]
    fn a_partition_comes_and_goes_without_touching_others(text in file()) {
        let words = ["PartitionName=q", "NodeSet=q"];
        let mut conf = SlurmConf::parse(&text).unwrap();
        let partition = Partition::from_config("q", "MaxTime=77").unwrap();
        conf.set_partition(&partition, &partition.nodeset());
        let rendered = conf.render();
        prop_assert_eq!(other_lines(&rendered, &words), other_lines(&text, &words));
        let read = SlurmConf::parse(&rendered).unwrap();
        prop_assert_eq!(read.partition("q").and_then(|record| record.get("MaxTime")), Some("77"));
        prop_assert_eq!(read.partitions().filter(|record| record.name() == "q").count(), 1);
        prop_assert!(!conf.set_partition(&partition, &partition.nodeset()), "a second time changes nothing");
        prop_assert!(conf.remove_partition("q"));
        let rendered = conf.render();
        prop_assert_eq!(other_lines(&rendered, &words), other_lines(&text, &words));
        prop_assert!(conf.partition("q").is_none());
    }

    #[test]
    fn whatever_keys_a_partition_has_it_is_one_line_and_comes_back(
        keys in prop::collection::btree_map("[A-Za-z][A-Za-z0-9_.]{0,12}|MaxTime|QOS|NodeName|Nodes", "[ -~]{1,20}|[0-9]{1,4}|.{1,6}", 0..5),
    ) {
        let mut partition = Partition::from_config("compute", "").unwrap();
        let taken = keys.iter().filter(|(key, value)| partition.set(key, value).is_ok()).count();
        let mut conf = SlurmConf::new();
        conf.set_partition(&partition, &partition.nodeset());
        let rendered = conf.render();
        prop_assert_eq!(rendered.lines().count(), 2, "{}", rendered);
        let read = SlurmConf::parse(&rendered).unwrap();
        let record = read.partition("compute").unwrap();
        prop_assert_eq!(record.get("Nodes"), Some("compute"));
        prop_assert!(record.options().count() <= taken + 1, "{}", rendered);
        prop_assert_eq!(&Partition::try_from(record).unwrap(), &partition);
        prop_assert_eq!(&Partition::from_json(&partition.to_json()).unwrap(), &partition);
    }

    #[test]
    fn controllers_are_exactly_those_wanted_in_order(text in file(), wanted in prop::collection::btree_set(0u8..10, 0..4)) {
        let hosts: Vec<HostName> = wanted.iter().rev().map(|host| HostName::new(format!("c{host}")).unwrap()).collect();
        let mut conf = SlurmConf::parse(&text).unwrap();
        conf.set_controllers(&hosts);
        let read = SlurmConf::parse(&conf.render()).unwrap();
        let found: Vec<&str> = read.controllers().iter().filter_map(|host| host.split('(').next()).collect();
        prop_assert_eq!(found, hosts.iter().map(HostName::as_str).collect::<Vec<_>>());
        let rendered = conf.render();
        prop_assert_eq!(other_lines(&rendered, &["SlurmctldHost"]), other_lines(&text, &["SlurmctldHost"]));
    }

    #[test]
    fn a_list_is_as_long_as_it_says(text in "[a-c]{0,2}(\\[[0-9]{1,6}(-[0-9]{1,6})?(,[0-9]{1,3})?\\]){1,3}(,[a-c]{1,2})?") {
        if let Ok(list) = text.parse::<HostList>() {
            prop_assert!(list.count() <= slurm_conf::MOST_HOSTS);
            if list.count() < 2_000 {
                prop_assert_eq!(list.expand().count(), list.count());
                prop_assert!(list.expand().all(|name| list.contains(&name)));
            }
        }
    }
}
