//! Hostile values: each is refused with a message of one line, wherever it comes in, and nothing of it reaches a file.

use serde_json::{Value, json};
use slurm_conf::{
    ClusterName, ControllerAddress, HostList, HostName, Node, NodeName, NodeSet, Parameters, Partition, PartitionName,
    SlurmConf,
};
use std::fmt::Display;

/// Values that no line of a configuration file may get as part of a value.
fn unwritable() -> Vec<String> {
    let mut values: Vec<String> = [
        "x\nSlurmUser=root",
        "x\rSlurmUser=root",
        "x\r\nNodeName=evil",
        "x\n",
        "\nx",
        "x\u{2028}y",
        "x\u{2029}y",
        "x\u{85}y",
        "x\u{b}y",
        "x\u{c}y",
        "x\0y",
        "\0",
        "x\u{1b}[31my",
        "x\u{7f}",
        "x\u{9b}y",
        "x\ty",
        "x\"",
        "\"x",
        "x\" SlurmUser=\"root",
        "x\"y\"z",
        "x#y",
        "# x",
        "x\\",
        "x\\\nSlurmUser=root",
        "x\\#y",
        "\\",
        "Include /etc/shadow\n",
        "x\nInclude /etc/shadow",
        "x\u{8}\u{8}y",
        "x\u{0}\nNodeName=a",
    ]
    .map(str::to_owned)
    .to_vec();
    // What is left of bytes that are no UTF-8 after somebody replaced them is text, but not in a name.
    values.push(String::from_utf8_lossy(b"x\xff\xfe\n").into_owned());
    values.push(format!("{}\n", "x".repeat(1 << 16)));
    values
}

/// Texts that may be a value somewhere, but never a name.
fn unnameable() -> Vec<String> {
    let mut values: Vec<String> = [
        "",
        " ",
        ".",
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
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
        "a]",
        "a(b)",
        "a*",
        "a?",
        "~",
        "-a",
        "--help",
        "%s%n",
        "DEFAULT",
        "default",
        "ALL",
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

#[track_caller]
fn check<Made, Problem: Display>(value: &str, made: Result<Made, Problem>) {
    match made {
        Ok(_) => panic!("{value:?} was taken"),
        Err(problem) => {
            let text = problem.to_string();
            assert!(!text.chars().any(char::is_control), "{text:?}");
            assert!(!text.is_empty() && text.chars().count() < 1_000, "{text:?}");
        }
    }
}

#[test]
fn names_are_words_only() {
    for value in unwritable().iter().chain(&unnameable()) {
        check(value, PartitionName::new(value.as_str()));
        check(value, NodeName::new(value.as_str()));
        check(value, NodeSet::new(value, "compute"));
        check(value, NodeSet::new("compute", value));
        check(value, Partition::from_config(value, ""));
        check(value, Partition::from_json(&json!({"partitionname": value})));
        check(value, NodeSet::from_json(&json!({"nodeset": value, "feature": value})));
        // `default` is a fair name of a host, a cluster or an application: it means something only among nodes and
        // partitions.
        if !value.eq_ignore_ascii_case("DEFAULT") && value != "ALL" {
            check(value, NodeName::from_unit(&format!("{value}/0")));
            check(value, ClusterName::new(value.as_str()));
            check(value, HostName::new(value.as_str()));
            check(value, value.parse::<ControllerAddress>());
            check(value, format!("{value}:6817").parse::<ControllerAddress>());
        }
    }
}

#[test]
fn setters_take_no_value_that_leaves_its_line() {
    for value in unwritable() {
        let mut conf = SlurmConf::parse("ClusterName=lab\n").unwrap();
        check(&value, conf.set("MailProg", &value));
        check(&value, conf.set(&value, "x"));
        assert_eq!(conf.render(), "ClusterName=lab\n");

        let mut partition = Partition::from_config("compute", "").unwrap();
        let mut node = Node::new();
        for key in ["QOS", "AllowGroups", "MaxTime", "State", "TRESBillingWeights", "Default", "MaxNodes", "Alternate"]
        {
            check(&value, partition.set(key, &value));
            let mut record = json!({"partitionname": "compute"});
            record[key.to_ascii_lowercase()] = Value::from(value.as_str());
            check(&value, Partition::from_json(&record));
        }
        for key in ["Reason", "Feature", "Gres", "CPUs", "NodeAddr", "State"] {
            check(&value, node.set(key, &value));
        }
        assert_eq!((Partition::new(partition.name().clone()), Node::new()), (partition, node));
    }
}

#[test]
fn an_operators_line_cannot_bring_a_second_one() {
    for value in unwritable() {
        // A line end, a tab or a comment behind everything is trimmed or harmless in text of several lines; the rest
        // has to go.
        let partition = Partition::from_config("compute", &format!("QOS={value} State=UP"));
        if let Ok(partition) = partition {
            let mut conf = SlurmConf::new();
            conf.set_partition(&partition, &partition.nodeset());
            assert_eq!(conf.render().lines().count(), 2, "{value:?} gave {:?}", conf.render());
            let json = partition.to_json();
            let known = ["qos", "state", "partitionname", "nodes"];
            assert!(json.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{value:?}");
        }
        if let Ok(node) = Node::from_config(&format!("Reason={value} Weight=1")) {
            assert_eq!(node.render().lines().count(), 1, "{value:?}");
        }
    }
}

#[test]
fn parameters_bring_only_plain_keys_that_are_not_owned() {
    for text in [
        "SlurmUser=root",
        "slurmuser=root",
        "\"SlurmUser\"=root",
        "KillWait=3\nSlurmUser=root",
        "KillWait=3 SlurmUser=root",
        "KillWait=3 \\\nSlurmUser=root",
        "Slurm\\User=root",
        "Slurm\\\nUser=root",
        "KillWait=3\r\nSlurmUser=root",
        "SLURMUSER = root",
        "SlurmUser+=root",
        "Include /etc/shadow",
        "include\t/etc/shadow",
        "Incl\\ude /etc/shadow",
        "Include=/etc/shadow",
        "NodeName=evil",
        "PartitionName=evil",
        "NodeSet=evil Feature=x",
        "DownNodes=x",
        "FrontendName=x",
        "SlurmctldHost=evil",
        "KillWait=3\0",
        "MailProg=a\u{7}",
        "MailProg=\"a",
        "MailProg=a\"b",
        "MailProg=a\\#b",
    ] {
        check(text, Parameters::parse(text, &["SlurmUser"]));
    }
}

#[test]
fn host_lists_hold_names_only() {
    for value in unwritable() {
        check(&value, value.parse::<HostList>());
    }
    for value in
        ["../x", "a/b", "a b", "$(id)", "a;b", "n[1-2", "n[1-99999999999]", "n[1-9][1-9][1-9][1-9][1-9]", "[[1]]"]
    {
        check(value, value.parse::<HostList>());
    }
}

#[test]
fn nodes_in_the_parameters_of_actions_are_names_only() {
    for value in unwritable().iter().chain(&unnameable()) {
        // A list is what these parameters are for, and a line end around it is cut off.
        if matches!(value.as_str(), "a,b" | "a[1-9]" | "x\n" | "\nx") {
            assert!(HostList::of_nodes(value).is_ok_and(|list| !list.to_string().contains(char::is_control)));
            continue;
        }
        check(value, HostList::of_nodes(value));
        check(value, HostList::of_nodes(&format!("compute-0,{value}")));
        check(value, HostList::of_nodes(&format!("{value}[1-2] x")));
    }
    for value in ["compute-0,ALL", "compute-0,default", "compute-[0-3] state=down", "a,,b", "-1", "n[1-2],--all"] {
        check(value, HostList::of_nodes(value));
    }
}
