//! What comes from outside and means no good: in options, bags, secrets and parameters. Each is refused in words, and
//! nothing is written.

use super::{Node, only_looked};
use crate::names;
use charm::Databag;
use charm_testing::{Dispatched, Hook};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Texts that can be no list of `Key=Value`, neither for a partition nor for a node.
fn lists() -> Vec<String> {
    let plain = [
        "MaxTime=1\nNodeName=evil",
        "Weight=1\rState=UP",
        "Weight=1\r\nInclude /etc/passwd",
        "Include /etc/passwd",
        "Weight=1 # and no more",
        "Weight=1 \\",
        "Weight=\\\nNodeName=evil",
        "QOS=\"a",
        "QOS=a\"b",
        "QOS='a b'",
        "Weight=1' -x '",
        "Weight=1\u{7}",
        "Weight=\u{0}1",
        "Weight=\u{1b}[2J",
        "Weight",
        "=1",
        "Weight=",
        "Weight==",
        "Weight=1 Weight=2",
        "PartitionName=other",
        "NodeName=other",
        "nodename=other Weight=1",
        "../../etc/passwd",
        "; reboot",
        "$(reboot)",
        "`reboot`",
        "-Z --conf x",
        "We ight=1",
        "Wéight=1",
        "Weight\u{202e}=1",
        "Weight\u{2028}State=UP",
        "\u{feff}Weight=1",
        "{\"partitionname\": \"x\"}",
        "%s%n",
        "a b c",
    ];
    let mut texts: Vec<String> = plain.iter().map(|text| (*text).to_owned()).collect();
    texts.push("x".repeat(1_000_000));
    texts.push("Weight=1 ".repeat(50_000));
    texts
}

/// Everything that must not change.
type World = (BTreeMap<String, String>, Databag, String);

struct Target {
    node: Node,
    relation: charm::RelationId,
    before: World,
}

impl Target {
    fn new() -> Self {
        let (node, relation) = Node::joined();
        let before = (node.files(), node.model.app_bag(&relation, &node.app), format!("{:?}", node.record()));
        Self { node, relation, before }
    }

    #[track_caller]
    fn is_unharmed(&self, what: &str) {
        let node = &self.node;
        // That something is awaited may be noted.
        let mut files = node.files();
        files.retain(|path, _| !path.starts_with("run/systemd/transient"));
        let now = (files, node.model.app_bag(&self.relation, &node.app), format!("{:?}", node.record()));
        assert_eq!(now, self.before, "{what:.200}");
        assert!(node.machine.is_running(names::SERVICE), "{what:.200}");
    }

    #[track_caller]
    fn refuses(&self, done: &Dispatched, what: &str) {
        assert!(done.succeeded, "{what:.200}: {done:#?}");
        let said = done.failure.as_deref().unwrap_or_else(|| panic!("taken: {what:.200}"));
        assert!(said.len() < 1000 && !said.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");
        self.is_unharmed(what);
    }
}

/// Sets an option to each text. All but it goes on, and the status says which it is.
#[track_caller]
fn bad_option(option: &str, beside: &[(&str, &str)], texts: &[String]) {
    let target = Target::new();
    // A key of a node is none of a partition; the real parser knows.
    target.node.machine.parser_refuses("weight");
    for (option, value) in beside {
        target.node.model.set_option(&target.node.app, option, (*value).into()).unwrap();
    }
    for text in texts {
        target.node.machine.take_calls();
        target.node.set_option(option, text.as_str());
        let shown = target.node.shown();
        assert!(shown.starts_with(&format!("blocked: option {option} `")), "{text:.200}: {shown}");
        assert!(shown.chars().count() < 200 && !shown.chars().any(char::is_control), "{shown:?}");
        only_looked(&target.node.machine.take_calls());
        target.is_unharmed(text);
    }
}

#[test]
fn options() {
    bad_option(names::OPTION_PARTITION_CONFIG, &[], &lists());
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let states = ["up", "down;", "down\nidle", "idle down", "drain", "\u{0}", "DOWN Reason=x", "../down"];
    bad_option(names::OPTION_DEFAULT_NODE_STATE, &[], &texts(&states));
    let reasons = ["a\nState=IDLE", "a\" State=IDLE", "a' -x '", "a # b", "a\\b", "\u{1b}[2J", "a\rb"];
    bad_option(names::OPTION_DEFAULT_NODE_REASON, &[(names::OPTION_DEFAULT_NODE_STATE, "down")], &texts(&reasons));
    let sources = [
        "ppa:x/y; reboot",
        "ppa:../x",
        "deb https://x.example noble main",
        "Types: deb\nURIs: https://x.example\nSuites: noble\nTrusted: yes",
        "Types: deb\nURIs: https://x.example\nSuites: noble",
        "Types: deb\n\nTypes: deb",
        "/etc/passwd",
        "\u{0}",
    ];
    bad_option(names::OPTION_SLURM_SOURCE, &[], &texts(&sources));
}

#[test]
fn parameters_of_node_config() {
    let target = Target::new();
    let owned = ["NodeAddr=1.2.3.4", "nodehostname=x", "STATE=DOWN", "Reason=x", "Port=1", "Weight=1 state=idle"];
    for text in lists().into_iter().chain(owned.map(str::to_owned)) {
        for action in ["node-config", "set-node-config"] {
            let done = target.node.act(action, json!({ "parameters": text }));
            target.refuses(&done, &text);
        }
    }
    for (text, expected) in
        [("RealMemory=999999999", "this machine has 24103 MiB"), ("Weight=many", "expected a whole number")]
    {
        let done = target.node.act("node-config", json!({ "parameters": text }));
        assert!(done.failure.as_deref().is_some_and(|said| said.contains(expected)), "{done:#?}");
        target.is_unharmed(text);
    }
}

#[test]
fn other_parameters() {
    let target = Target::new();
    let long = "x".repeat(300);
    for reason in ["", "  ", "a\nb", "a\u{0}b", "\u{1b}[2J", long.as_str()] {
        target.refuses(&target.node.act("drain", json!({ "reason": reason })), reason);
    }
    for (action, parameters) in [
        ("drain", json!({"reason": 7})),
        ("drain", json!({"reason": ["a"]})),
        ("drain", json!({"reason": "x", "wait": "yes"})),
        ("drain", json!({"reason": "x", "nodename": "other"})),
        ("drain", json!({})),
        ("resume", json!({"nodename": "other"})),
        ("destroy-jobs", json!({"dry-run": "no"})),
        ("destroy-jobs", json!({"nodes": "other"})),
        ("node-config", json!({"parameters": {"Weight": 1}})),
        ("node-config", json!({"reset": "yes"})),
        ("show-node", json!({"x": null})),
    ] {
        target.refuses(&target.node.act(action, parameters.clone()), &format!("{action} {parameters}"));
    }
}

#[test]
fn bags_of_the_controllers() {
    let target = Target::new();
    let controllers = [
        json!(["c1:6817\nSlurmctldHost=x"]),
        json!(["c1:6817,c2:6817"]),
        json!(["$(reboot):6817"]),
        json!(["'c1':6817"]),
        json!(["-x:6817"]),
        json!(["../c1:6817"]),
        json!(["c1:99999"]),
        json!(["c1:-1"]),
        json!([" "]),
        json!(["c1", "c1"]),
        json!([["c1"]]),
        json!({"c1": 6817}),
        json!(7),
    ];
    let secrets = [json!("secret:../../x"), json!("secret:a b"), json!("; reboot"), json!(7), json!(["secret:x"])];
    let keyed = |key: &'static str, values: Vec<Value>| values.into_iter().map(move |value| (key, value.to_string()));
    let raw = [
        ("controllers", "not json".to_owned()),
        ("controllers", "[".repeat(10_000)),
        ("auth_secret_id", "{".to_owned()),
    ];
    let all = keyed("controllers", controllers.to_vec()).chain(keyed("auth_secret_id", secrets.to_vec())).chain(raw);
    for (key, value) in all {
        let good = target.node.model.app_bag(&target.relation, &target.node.controller);
        let bag = Databag::from([(key.to_owned(), value.clone())]);
        target.node.model.play(&target.node.controller, &target.relation, &bag).unwrap();
        target.node.hook(&Hook::app_changed(&target.relation, &target.node.controller));
        let shown = target.node.shown();
        assert!(shown.starts_with("blocked: slurmctld: ") && shown.contains(key), "{value:.100}: {shown}");
        assert!(shown.chars().count() < 200 && !shown.chars().any(char::is_control), "{shown:?}");
        target.is_unharmed(&value);
        target.node.model.play(&target.node.controller, &target.relation, &good).unwrap();
    }
    target.node.hook(&Hook::app_changed(&target.relation, &target.node.controller));
    assert_eq!(target.node.shown(), "active: idle, partition compute");
}

#[test]
fn keys_in_the_secret() {
    let target = Target::new();
    let good = "A".repeat(128);
    for (id, key) in [
        ("../../etc/passwd", good.as_str()),
        ("k1\n", good.as_str()),
        ("", good.as_str()),
        ("k1\",\"use\":\"default", good.as_str()),
        ("k1", "short"),
        ("k1", "A\nA"),
        ("k1", "\"}],\"keys\":[{"),
    ] {
        let content = BTreeMap::from([
            (slurm_unit::key_secret::KEY.to_owned(), key.to_owned()),
            (slurm_unit::key_secret::KEY_ID.to_owned(), id.to_owned()),
        ]);
        let uri = target.node.model.play_secret(&target.node.controller, &content, &target.relation).unwrap();
        let bag = Databag::from([("auth_secret_id".to_owned(), json!(uri).to_string())]);
        target.node.model.play(&target.node.controller, &target.relation, &bag).unwrap();
        target.node.hook(&Hook::app_changed(&target.relation, &target.node.controller));
        assert_eq!(target.node.shown(), "active: idle, partition compute", "the key on the disk goes on serving");
        target.is_unharmed(id);
    }
}
