//! Whole dispatches of a login unit, on a made-up model and a made-up machine: wiring, what rests, what means no good.

use crate::Sackd;
use crate::names;
use charm::runtime::Charm;
use charm::{AppName, Databag, RelationId, UnitName};
use charm_testing::{Dispatched, FakeMachine, Hook, Model};
use serde_json::json;
use slurm_interface::digest;
use slurm_unit::View;
use std::collections::BTreeMap;

const SLURMCTLD: &str = include_str!("../../slurmctld/charmcraft.yaml");
const SACKD: &str = include_str!("../charmcraft.yaml");
const KEY_FILE: &str = "/etc/slurm/slurm.jwks";

struct Login {
    model: Model,
    machine: FakeMachine,
    app: AppName,
    unit: UnitName,
    controller: AppName,
}

impl Login {
    /// A unit after the hooks of its start, and a controller that the test plays.
    fn deployed() -> Self {
        let model = Model::new();
        let app = model.deploy("login", SACKD).unwrap();
        let unit = model.add_unit(&app).unwrap();
        let controller = model.deploy("slurmctld", SLURMCTLD).unwrap();
        model.add_unit(&controller).unwrap();
        let login = Self { machine: FakeMachine::of(&unit).under(model.knife()), model, app, unit, controller };
        for name in ["install", "leader-elected", "config-changed", "start"] {
            login.hook(&Hook::named(name));
        }
        login
    }

    /// A unit that is a login node.
    fn joined() -> (Self, RelationId) {
        let login = Self::deployed();
        let ends = ((&login.app, "slurmctld"), (&login.controller, "sackd"));
        let (relation, _) = login.model.integrate(ends.0, ends.1).unwrap();
        login.hook(&Hook::created(&relation, &login.controller));
        login.offer(&relation, "A");
        login.hook(&Hook::app_changed(&relation, &login.controller));
        login.machine.take_calls();
        (login, relation)
    }

    /// The controller publishes where it is, which configuration it has, and where its key is.
    fn offer(&self, relation: &RelationId, letter: &str) {
        let content = BTreeMap::from([
            (slurm_unit::key_secret::KEY.to_owned(), letter.repeat(128)),
            (slurm_unit::key_secret::KEY_ID.to_owned(), format!("k{letter}")),
        ]);
        let uri = self.model.play_secret(&self.controller, &content, relation).unwrap();
        let digest = digest("ClusterName=played\nSlurmctldHost=played\n");
        let values = [
            ("controllers", json!(["juju-c9fc6f-1:6817"])),
            ("slurm_version", json!("24.11.5")),
            ("auth_secret_id", json!(uri)),
            ("slurm_conf_digest", json!(digest)),
        ];
        let bag: Databag = values.into_iter().map(|(key, value)| (key.to_owned(), value.to_string())).collect();
        self.model.play(&self.controller, relation, &bag).unwrap();
    }

    fn dispatch(&self, hook: &Hook) -> Dispatched {
        let run = |ctx, tools: charm::Tools| {
            let begin = |ctx, tools: &charm::Tools| View::split(ctx, tools, &self.machine.machine());
            charm::runtime::dispatch::<Sackd>(ctx, &tools, begin)
        };
        self.model.dispatch(&self.unit, Sackd::EVENTS, hook, run).unwrap()
    }

    #[track_caller]
    fn hook(&self, hook: &Hook) -> Dispatched {
        let done = self.dispatch(hook);
        assert!(done.succeeded, "{hook:?}: {done:#?} {:#?}", self.machine.take_calls());
        done
    }

    fn shown(&self) -> String {
        let status = self.model.status(&self.unit).unwrap();
        format!("{}: {}", status.word(), status.message())
    }

    fn files(&self) -> [Option<String>; 2] {
        [names::OPTIONS_FILE, KEY_FILE].map(|path| self.machine.read(path))
    }
}

#[test]
fn a_settled_login_node_only_looks() {
    let (login, _) = Login::joined();
    assert_eq!(login.shown(), "active: login node of slurmctld");
    assert!(login.machine.is_running(names::SERVICE));
    let files = login.files();
    for _ in 0..10 {
        let done = login.hook(&Hook::named("update-status"));
        assert!(done.writes().is_empty(), "{done:#?}");
        let calls = login.machine.take_calls();
        assert!(calls.iter().all(|call| call.contains("show") || call.contains("ping")), "{calls:?}");
        assert!(calls.len() <= 2, "no more processes than the reads need: {calls:?}");
    }
    assert_eq!(login.files(), files);
}

#[test]
fn a_new_key_is_written_and_loaded_by_one_reload() {
    let (login, relation) = Login::joined();
    // Files are dated by the clock, in seconds.
    login.machine.set_started(names::SERVICE, 1000);
    login.offer(&relation, "B");
    login.hook(&Hook::app_changed(&relation, &login.controller));
    assert!(login.machine.read(KEY_FILE).unwrap().contains(&"B".repeat(128)));
    let reloads = |calls: &[String]| calls.iter().filter(|call| call.contains("reload --")).count();
    assert_eq!(reloads(&login.machine.take_calls()), 1);
    login.hook(&Hook::named("update-status"));
    assert_eq!(reloads(&login.machine.take_calls()), 0);
}

#[test]
fn a_configuration_that_does_not_come_is_asked_for_once() {
    let (login, relation) = Login::joined();
    let bag = Databag::from([("slurm_conf_digest".to_owned(), json!("0123456789abcdef").to_string())]);
    login.model.play(&login.controller, &relation, &bag).unwrap();
    login.hook(&Hook::app_changed(&relation, &login.controller));
    let restarts = |calls: &[String]| calls.iter().filter(|call| call.contains(" restart ")).count();
    assert_eq!(restarts(&login.machine.take_calls()), 1);
    login.hook(&Hook::named("update-status"));
    assert_eq!(restarts(&login.machine.take_calls()), 0);
    assert_eq!(login.shown(), "active: login node of slurmctld", "jobs can be submitted all the same");
}

#[test]
fn nothing_that_means_no_good_reaches_a_file() {
    let hostile = [
        "",
        "null",
        "{}",
        "[]",
        "[1]",
        "\"\"",
        "c1:6817",
        "[\"c1:6817\\nSACKD_OPTIONS=-x\"]",
        "[\"c1:6817 --dump\"]",
        "[\"$(reboot)\"]",
        "[\"../../etc\"]",
        "\"secret:`reboot`\"",
        "\"\\u0000\"",
        "{\"a\":",
        "\"24.11.5; rm\"",
        "\u{202e}",
    ];
    let (login, relation) = Login::joined();
    let (files, good) = (login.files(), login.model.app_bag(&relation, &login.controller));
    let long = "x".repeat(100_000);
    for key in ["controllers", "auth_secret_id", "auth_key_id", "slurm_version", "slurm_conf_digest", "cluster_info"] {
        for value in hostile.iter().copied().chain([long.as_str()]) {
            let bag = Databag::from([(key.to_owned(), value.to_owned())]);
            login.model.play(&login.controller, &relation, &bag).unwrap();
            login.hook(&Hook::app_changed(&relation, &login.controller));
            assert_eq!(login.files(), files, "{key}={value:.80}");
            assert!(login.machine.is_running(names::SERVICE), "{key}={value:.80}");
            let restored: Databag = good.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            login.model.play(&login.controller, &relation, &restored).unwrap();
            if !good.contains_key(key) {
                let bag = Databag::from([(key.to_owned(), String::new())]);
                login.model.play(&login.controller, &relation, &bag).unwrap();
            }
        }
    }
    login.hook(&Hook::app_changed(&relation, &login.controller));
    assert_eq!(login.shown(), "active: login node of slurmctld");
}

#[test]
fn a_machine_with_another_daemon_of_slurm_is_left_to_it() {
    for (path, text, daemon) in [
        ("/etc/default/slurmd", "SLURMD_OPTIONS=-Z -N c-0 --conf 'CPUs=1' --conf-server c1:6817\n", "slurmd"),
        ("/etc/slurm/slurm.conf", "ClusterName=lab\n", "slurmctld"),
    ] {
        let login = Login::deployed();
        login.machine.write(path, text);
        login.machine.write(KEY_FILE, "theirs");
        login.hook(&Hook::named("update-status"));
        let expected = format!("blocked: {daemon} is on this machine, so jobs can be submitted here: remove login/0");
        assert_eq!(login.shown(), expected);
        for hook in ["stop", "remove"] {
            login.hook(&Hook::named(hook));
        }
        assert_eq!(login.machine.read(KEY_FILE).as_deref(), Some("theirs"));
    }
}

#[test]
fn a_login_node_whose_machine_becomes_a_compute_node_makes_way() {
    let (login, _) = Login::joined();
    let key = login.machine.read(KEY_FILE);
    let slurmd = "SLURMD_OPTIONS=-Z -N c-0 --conf 'CPUs=1' --conf-server c1:6817\n";
    login.machine.write("/etc/default/slurmd", slurmd);
    login.hook(&Hook::named("update-status"));
    assert!(!login.machine.is_running(names::SERVICE) && login.model.ports(&login.unit).is_empty());
    assert_eq!(login.machine.read(KEY_FILE), key, "slurmd has the same one");
    assert!(login.shown().starts_with("blocked: slurmd is on this machine"), "{}", login.shown());
    assert!(login.hook(&Hook::named("update-status")).writes().is_empty());
}

#[test]
fn an_action_that_explains_changes_nothing() {
    let (login, _) = Login::joined();
    login.machine.crash(names::SERVICE);
    let done = login.dispatch(&Hook::action(names::ACTION_EXPLAIN, json!({})));
    assert!(done.succeeded && done.failure.is_none(), "{done:#?}");
    assert!(!login.machine.is_running(names::SERVICE), "{done:#?}");
}
