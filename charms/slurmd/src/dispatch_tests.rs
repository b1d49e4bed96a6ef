//! Whole dispatches of a compute unit, on a made-up model and a made-up machine: wiring, order of writes, what a
//! failure leaves.

mod actions;
mod archives;
mod crashes;
mod hostile;
mod machine;
mod relation;
mod upgrade;

use crate::Slurmd;
use crate::names;
use crate::node::lifecycle::NodeNote;
use charm::runtime::Charm;
use charm::{AppName, Databag, RelationId, Status, UnitName};
use charm_testing::{Dispatched, FakeMachine, Hook, Model};
use serde_json::{Value, json};
use slurm_conf::NodeName;
use slurm_ops::scontrol::{self, NodeLookup, NodeRecord};
use slurm_unit::note::Noted;
use slurm_unit::{View, retry, service};
use std::collections::BTreeMap;
use std::path::Path;

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
        model.add_unit(&controller).unwrap();
        Self { machine: FakeMachine::of(&unit).under(model.knife()), model, app, unit, controller }
    }

    /// A compute unit that is part of its cluster and at rest, and its relation.
    fn joined() -> (Self, RelationId) {
        let node = Self::deployed();
        let relation = node.integrate();
        node.offer(&relation);
        node.hook(&Hook::app_changed(&relation, &node.controller));
        node.time_passes();
        node.hook(&Hook::named(retry::EVENT));
        node.machine.take_calls();
        (node, relation)
    }

    /// Slurm has had its time to save the node.
    fn time_passes(&self) {
        if let Some(mut note) = self.json(names::BOOT_NOTE) {
            note["marked"] = 0.into();
            self.machine.write(names::BOOT_NOTE, &note.to_string());
        }
    }

    /// A note of the charm.
    fn json(&self, path: &str) -> Option<Value> {
        self.machine.read(path).map(|text| serde_json::from_str(&text).unwrap())
    }

    /// What the charm has noted about the node.
    fn note(&self) -> NodeNote {
        match slurm_unit::note::read(&self.machine.machine().host()).unwrap() {
            Noted::Known(note) => note,
            other => panic!("{other:?}"),
        }
    }

    fn act(&self, name: &str, parameters: Value) -> Dispatched {
        self.dispatch(&Hook::action(name, parameters))
    }

    fn set_option(&self, option: &str, value: impl Into<Value>) {
        self.model.set_option(&self.app, option, value.into()).unwrap();
        self.hook(&Hook::named("config-changed"));
    }

    /// What Slurm has about this node.
    #[track_caller]
    fn record(&self) -> NodeRecord {
        match scontrol::node(&self.machine.machine().host(), &NodeName::new("compute-0").unwrap()) {
            NodeLookup::Present(record) => record,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn shown(&self) -> String {
        let status = self.model.status(&self.unit).unwrap();
        format!("{}: {}", status.word(), status.message())
    }

    /// Every file of the machine but what stands for processes.
    fn files(&self) -> BTreeMap<String, String> {
        fn walk(root: &Path, directory: &Path, files: &mut BTreeMap<String, String>) {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                let path = entry.path();
                let name = path.strip_prefix(root).unwrap().display().to_string();
                if path.is_dir() && name != "proc" {
                    walk(root, &path, files);
                } else if path.is_file() {
                    files.insert(name, String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned());
                }
            }
        }
        let (root, mut files) = (self.machine.machine().path("/"), BTreeMap::new());
        walk(&root, &root, &mut files);
        // When something was done, and how often slurmd was started, is no part of the state.
        files.remove(names::BOOT_NOTE.trim_start_matches('/'));
        if let Some(note) = files.get_mut(names::NODE_NOTE.trim_start_matches('/')) {
            let mut known: Value = serde_json::from_str(note).unwrap();
            known["detection"]["invocation"] = Value::Null;
            *note = known.to_string();
        }
        files
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
        let bag = Databag::from([
            ("controllers".to_owned(), json!(["juju-c9fc6f-1:6817"]).to_string()),
            ("slurm_version".to_owned(), json!("24.11.5").to_string()),
        ]);
        self.model.play(&self.controller, relation, &bag).unwrap();
        self.share_key(relation, "A");
    }

    /// The controller has a new key.
    fn share_key(&self, relation: &RelationId, letter: &str) {
        let content = BTreeMap::from([
            (slurm_unit::key_secret::KEY.to_owned(), letter.repeat(128)),
            (slurm_unit::key_secret::KEY_ID.to_owned(), "k1".to_owned()),
        ]);
        let uri = self.model.play_secret(&self.controller, &content, relation).unwrap();
        let bag = Databag::from([("auth_secret_id".to_owned(), json!(uri).to_string())]);
        self.model.play(&self.controller, relation, &bag).unwrap();
    }

    fn dispatch(&self, hook: &Hook) -> Dispatched {
        let run = |ctx, tools: charm::Tools| {
            let begin = |ctx, tools: &charm::Tools| View::split(ctx, tools, &self.machine.machine());
            charm::runtime::dispatch::<Slurmd>(ctx, &tools, begin)
        };
        self.model.dispatch(&self.unit, Slurmd::EVENTS, hook, run).unwrap()
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
            "scontrol" => matches!(words[1], "ping" | "show" | "version") || words[1..3] == ["--oneliner", "show"],
            "slurmd" => words[1] == "-C",
            "sinfo" => true,
            _ => false,
        };
        assert!(looks, "{call}");
    }
}

#[test]
fn deploy_integrate_settle_and_then_rest() {
    let node = Node::new();
    node.model.set_option(&node.app, names::OPTION_SLURM_SOURCE, "ppa:".into()).unwrap();
    node.hook(&Hook::named("install"));
    assert!(node.shown().starts_with("blocked: option slurm-source `ppa:`"), "{}", node.shown());
    let node = Node::deployed();
    assert_eq!(node.shown(), "blocked: no controller: `juju integrate compute slurmctld`");
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
    node.time_passes();
    node.hook(&Hook::named(retry::EVENT));
    node.machine.take_calls();
    let files = node.files();
    for _ in 0..20 {
        let done = node.hook(&Hook::named("update-status"));
        assert!(done.writes().is_empty(), "{done:#?}");
        let calls = node.machine.take_calls();
        only_looked(&calls);
        assert_eq!(calls.len(), 2, "no more processes than the reads need: {calls:?}");
        // Which relation with whom, their bag and ours, the options, the key, the port, the status, one line of the
        // log.
        assert!(done.calls.len() <= 9, "{:#?}", done.calls);
    }
    assert_eq!(node.files(), files);
}

#[test]
fn a_machine_that_is_the_node_of_another_unit_is_left_to_it() {
    const AGENT: &str = "/var/lib/juju/agents/unit-gpu-0/agent.conf";
    let node = Node::deployed();
    node.machine.write(
        names::OPTIONS_FILE,
        "SLURMD_OPTIONS=\"-Z -N gpu-0 --conf 'CPUs=1 Feature=gpu' --conf-server c1:6817\"\n",
    );
    node.machine.write(AGENT, "");
    let relation = node.integrate();
    node.offer(&relation);
    let files = node.files();
    node.machine.take_calls();
    node.hook(&Hook::app_changed(&relation, &node.controller));
    assert_eq!(node.shown(), "blocked: this machine is node gpu-0 already: put compute/0 on another one");
    assert_eq!(node.files(), files);
    only_looked(&node.machine.take_calls());
    let refused = node.act(names::ACTION_NODE_CONFIG, json!({"parameters": "Weight=3"}));
    assert!(refused.failure.is_some_and(|why| why.contains("is node gpu-0")));
    assert_eq!(node.files(), files);
    // The other unit goes, and its agent with it.
    std::fs::remove_dir_all(node.machine.machine().path("/var/lib/juju/agents/unit-gpu-0")).unwrap();
    node.hook(&Hook::named("update-status"));
    assert!(node.machine.read(names::OPTIONS_FILE).unwrap().contains("-N compute-0"));
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
    // Whoever calls because it failed does not start it: it would fail and call again.
    node.hook(&Hook::named(service::FAILURE_EVENT));
    assert!(!node.machine.is_running(names::SERVICE));
    assert!(node.shown().starts_with("blocked: slurmd fails"), "{}", node.shown());
    node.hook(&Hook::named(retry::EVENT));
    assert!(node.machine.is_running(names::SERVICE));
}

/// Makes up a process of slurmd's unit.
fn process(node: &Node, pid: u32, program: &str) -> std::path::PathBuf {
    node.machine.write(&format!("/proc/{pid}/cgroup"), "0::/system.slice/slurmd.service\n");
    let directory = node.machine.machine().path(format!("/proc/{pid}"));
    std::os::unix::fs::symlink(program, directory.join("exe")).unwrap();
    directory
}

#[test]
fn what_is_left_of_a_slurmd_is_ended_before_the_next_one_starts_and_jobs_are_not() {
    let (node, _) = Node::joined();
    let (left, job) = (process(&node, 77, "/usr/sbin/slurmd-wlm"), process(&node, 78, "/usr/sbin/slurmstepd"));
    node.hook(&Hook::named("update-status"));
    assert!(left.exists(), "a slurmd that runs is left alone");
    node.machine.crash(names::SERVICE);
    node.hook(&Hook::named("update-status"));
    assert!(node.machine.is_running(names::SERVICE));
    assert!(!left.exists());
    assert!(job.exists());
}

#[test]
fn packages_are_held_and_left_alone_by_whatever_upgrades_the_machine() {
    let (node, _) = Node::joined();
    let status = node.machine.read("/var/lib/dpkg/status").unwrap();
    assert_eq!(status.matches("Status: hold ok installed").count(), 3, "{status}");
    let needrestart = node.machine.read("/etc/needrestart/conf.d/slurmd-charm.conf").unwrap();
    assert!(needrestart.contains(r"qr(^slurmd\.service$)"), "{needrestart}");
    let drop_in = node.machine.read("/etc/systemd/system/slurmd.service.d/10-charm.conf").unwrap();
    assert!(drop_in.contains("KillMode=process") && drop_in.contains("slurmd-charm-failed.service"), "{drop_in}");
    let alarm = node.machine.read("/etc/systemd/system/slurmd-charm-failed.service").unwrap();
    assert!(alarm.contains("JUJU_DISPATCH_PATH=hooks/daemon-failed ./dispatch"), "{alarm}");
}

#[test]
fn a_slurmd_newer_than_its_controllers_is_refused_by_name() {
    let node = Node::deployed();
    let relation = node.integrate();
    node.offer(&relation);
    let bag = Databag::from([("slurm_version".to_owned(), json!("23.02.1").to_string())]);
    node.model.play(&node.controller, &relation, &bag).unwrap();
    node.hook(&Hook::app_changed(&relation, &node.controller));
    assert!(!node.machine.is_running(names::SERVICE));
    assert_eq!(node.shown(), "blocked: slurmd 24.11.5 is newer than slurmctld 23.02.1: upgrade slurmctld first");
    let bag = Databag::from([("slurm_version".to_owned(), json!("24.11.0").to_string())]);
    node.model.play(&node.controller, &relation, &bag).unwrap();
    node.hook(&Hook::app_changed(&relation, &node.controller));
    assert!(node.machine.is_running(names::SERVICE));
}

#[test]
fn a_new_node_comes_up_down_if_the_operator_wants_to_look_first() {
    let node = Node::deployed();
    node.model.set_option(&node.app, names::OPTION_DEFAULT_NODE_STATE, "down".into()).unwrap();
    node.model.set_option(&node.app, names::OPTION_DEFAULT_NODE_REASON, "look first".into()).unwrap();
    let relation = node.integrate();
    node.offer(&relation);
    node.hook(&Hook::app_changed(&relation, &node.controller));
    assert_eq!(node.shown(), "blocked: down, partition compute: look first: run action resume");
    assert!(!node.machine.read(names::OPTIONS_FILE).unwrap().contains("State"), "that was for the first start");
    assert!(node.act("resume", json!({})).succeeded);
    assert_eq!(node.shown(), "active: idle, partition compute");
}

/// Tells the whole story, with whatever `harm` does to it at its start, and returns what is there in the end. A hook
/// that fails is run again, as Juju does.
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
        persist(&Hook::named(retry::EVENT));
    }
    let options = node.machine.read(names::OPTIONS_FILE);
    let bag = node.model.app_bag(&relation, &node.app);
    (node, options, bag)
}

/// Tells the story again and again with one failure in it, each time a little later, until none comes any more. All
/// end the same.
fn always_ends_the_same(harm: impl Fn(&Node, usize), spared: impl Fn(&Node) -> bool) {
    let (calm, options, bag) = story(|_| {});
    for at in 0.. {
        let (node, options_after, bag_after) = story(|node| harm(node, at));
        if spared(&node) {
            assert!(at > 15, "only {at} failures");
            return;
        }
        assert_eq!((&options_after, &bag_after), (&options, &bag), "failure {at}");
        // The failure may have been in the last look; there is always another one.
        node.time_passes();
        node.hook(&Hook::named(retry::EVENT));
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
