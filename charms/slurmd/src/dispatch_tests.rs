//! Whole dispatches of a compute unit, on a made-up model and a made-up machine: wiring, order of writes, what a failure leaves.

use crate::Slurmd;
use crate::names;
use charm::{AppName, Charm, Databag, RelationId, Status, UnitName};
use charm_testing::{Dispatched, FakeMachine, Hook, Model};
use serde_json::json;
use std::collections::BTreeMap;

const SLURMCTLD: &str = include_str!("../../slurmctld/charmcraft.yaml");
const SLURMD: &str = include_str!("../charmcraft.yaml");

struct Node {
    model: Model,
    machine: FakeMachine,
    app: AppName,
    unit: UnitName,
    controller: AppName,
}

impl Node {
    fn new() -> Self {
        let model = Model::new();
        let app = model.deploy("compute", SLURMD).unwrap();
        let unit = model.add_unit(&app).unwrap();
        let controller = model.deploy("slurmctld", SLURMCTLD).unwrap();
        Self { machine: FakeMachine::of(&unit), model, app, unit, controller }
    }

    /// A compute unit after the hooks of its start, and a controller that the test plays.
    fn deployed() -> Self {
        let node = Self::new();
        node.hook(&Hook::named("install"));
        let peer = node.model.peer(&node.app).unwrap();
        node.hook(&Hook::created(&peer, &node.app));
        for name in ["leader-elected", "config-changed", "start"] {
            node.hook(&Hook::named(name));
        }
        node
    }

    fn integrate(&self) -> RelationId {
        let ends = ((&self.app, "slurmctld"), (&self.controller, "slurmd"));
        let (relation, _) = self.model.integrate(ends.0, ends.1).unwrap();
        self.hook(&Hook::created(&relation, &self.controller));
        relation
    }

    /// The controller publishes where it is and where its key is.
    fn offer(&self, relation: &RelationId) {
        let content = BTreeMap::from([
            (names::SECRET_KEY.to_owned(), "A".repeat(128)),
            (names::SECRET_KEY_ID.to_owned(), "k1".to_owned()),
        ]);
        let uri = self.model.play_secret(&self.controller, &content, relation).unwrap();
        let bag = Databag::from([
            ("auth_secret_id".to_owned(), json!(uri).to_string()),
            ("controllers".to_owned(), json!(["juju-c9fc6f-1:6817"]).to_string()),
        ]);
        self.model.play(&self.controller, relation, &bag).unwrap();
    }

    fn dispatch(&self, hook: &Hook) -> Dispatched {
        let run = |ctx, tools: charm::Tools| {
            let make = |ctx, tools| Slurmd::on(self.machine.machine(), ctx, tools);
            charm::dispatch::dispatch(ctx, &tools, make)
        };
        self.model.dispatch(&self.unit, Slurmd::TIMERS, hook, run).unwrap()
    }

    #[track_caller]
    fn hook(&self, hook: &Hook) -> Dispatched {
        let done = self.dispatch(hook);
        assert!(done.succeeded, "{hook:?}: {done:#?} {:#?}", self.machine.take_calls());
        done
    }
}

/// Fails if a program among these did more than look.
#[track_caller]
fn only_looked(calls: &[String]) {
    for call in calls {
        let words: Vec<&str> = call.split(' ').collect();
        let looks = match words[0] {
            "systemctl" => words.contains(&"show"),
            "scontrol" => matches!(words[1], "ping" | "show"),
            "slurmd" => words[1] == "-C",
            _ => false,
        };
        assert!(looks, "{call}");
    }
}

#[test]
fn deploy_integrate_settle_and_then_rest() {
    let node = Node::deployed();
    assert!(!node.machine.is_running(names::SERVICE));
    let relation = node.integrate();
    assert!(node.model.app_bag(&relation, &node.app)["partition"].contains("\"compute\""));
    node.offer(&relation);
    node.hook(&Hook::app_changed(&relation, &node.controller));
    assert!(node.machine.is_running(names::SERVICE));
    assert!(node.machine.read(names::OPTIONS_FILE).unwrap().contains("-N compute-0"));
    assert_eq!(node.model.ports(&node.unit), ["6818/tcp"]);
    let status = node.model.status(&node.unit);
    assert!(matches!(&status, Some(Status::Active(text)) if text.contains("compute")), "{status:?}");
    node.machine.take_calls();
    for _ in 0..5 {
        let done = node.hook(&Hook::named("update-status"));
        assert!(done.writes().is_empty(), "{done:#?}");
        only_looked(&node.machine.take_calls());
    }
}

#[test]
fn a_secret_that_is_not_granted_yet_is_waited_for() {
    let node = Node::deployed();
    let relation = node.integrate();
    let bag = Databag::from([
        ("auth_secret_id".to_owned(), json!("secret:d3k2v5nmp25c762q9999").to_string()),
        ("controllers".to_owned(), json!(["juju-c9fc6f-1:6817"]).to_string()),
    ]);
    node.model.play(&node.controller, &relation, &bag).unwrap();
    node.hook(&Hook::app_changed(&relation, &node.controller));
    assert!(!node.machine.is_running(names::SERVICE));
    assert!(matches!(node.model.status(&node.unit), Some(Status::Waiting(_))));
    node.offer(&relation);
    node.hook(&Hook::named(names::EVENT_LOOK_AGAIN));
    assert!(node.machine.is_running(names::SERVICE));
}

#[test]
fn the_end_of_the_relation_stops_no_daemon() {
    let node = Node::deployed();
    let relation = node.integrate();
    node.offer(&relation);
    node.hook(&Hook::app_changed(&relation, &node.controller));
    node.hook(&Hook::broken(&relation, None));
    assert!(node.machine.is_running(names::SERVICE));
    assert!(node.machine.read("/etc/slurm/slurm.jwks").is_some());
}

#[test]
fn controllers_that_do_not_answer_stop_no_daemon_and_are_named() {
    let node = Node::deployed();
    let relation = node.integrate();
    node.offer(&relation);
    node.hook(&Hook::app_changed(&relation, &node.controller));
    node.machine.controllers_answer(false);
    node.hook(&Hook::named("update-status"));
    assert!(node.machine.is_running(names::SERVICE));
    assert!(matches!(node.model.status(&node.unit), Some(Status::Waiting(_))), "{:?}", node.model.status(&node.unit));
}

#[test]
fn a_daemon_that_crashed_is_started_again() {
    let node = Node::deployed();
    let relation = node.integrate();
    node.offer(&relation);
    node.hook(&Hook::app_changed(&relation, &node.controller));
    node.machine.crash(names::SERVICE);
    node.hook(&Hook::named("update-status"));
    assert!(node.machine.is_running(names::SERVICE));
}

/// Tells the whole story, with whatever `harm` does to it at its start, and returns what is there in the end. A hook that fails is run
/// again, as Juju does.
fn story(harm: impl Fn(&Node)) -> (Node, Option<String>, Databag) {
    let node = Node::new();
    let persist = |hook: &Hook| {
        let done = (0..3).any(|_| node.dispatch(hook).succeeded);
        assert!(done, "{hook:?} never succeeds");
    };
    harm(&node);
    persist(&Hook::named("install"));
    persist(&Hook::named("config-changed"));
    let (relation, _) = node.model.integrate((&node.app, "slurmctld"), (&node.controller, "slurmd")).unwrap();
    persist(&Hook::created(&relation, &node.controller));
    node.offer(&relation);
    persist(&Hook::app_changed(&relation, &node.controller));
    for _ in 0..2 {
        persist(&Hook::named(names::EVENT_LOOK_AGAIN));
    }
    let options = node.machine.read(names::OPTIONS_FILE);
    let bag = node.model.app_bag(&relation, &node.app);
    (node, options, bag)
}

/// Tells the story again and again with one failure in it, each time a little later, until none comes any more. All end the same.
fn always_ends_the_same(harm: impl Fn(&Node, usize), spared: impl Fn(&Node) -> bool) {
    let (calm, options, bag) = story(|_| {});
    for at in 0.. {
        let (node, options_after, bag_after) = story(|node| harm(node, at));
        if spared(&node) {
            assert!(at > 15, "only {at} failures");
            return;
        }
        assert_eq!((&options_after, &bag_after), (&options, &bag), "failure {at}");
        assert_eq!(node.model.status(&node.unit), calm.model.status(&calm.unit), "failure {at}");
        assert!(node.machine.is_running(names::SERVICE), "failure {at}");
        let done = node.hook(&Hook::named("update-status"));
        assert!(done.writes().is_empty(), "failure {at}: {done:#?}");
    }
}

#[test]
fn a_program_that_fails_anywhere_changes_nothing_about_the_end() {
    always_ends_the_same(|node, at| node.machine.fail_after(at), |node| node.machine.spare());
}

#[test]
fn a_hook_tool_that_fails_anywhere_changes_nothing_about_the_end() {
    always_ends_the_same(|node, at| node.model.fail_after(at), |node| node.model.spare());
}
