//! Whole dispatches of a unit of slurmrestd, on a made-up model and a made-up machine: wiring, what rests, kills, what
//! means no good.

use crate::Slurmrestd;
use crate::names;
use charm::runtime::Charm;
use charm::{AppName, Databag, RelationId, UnitName};
use charm_testing::{Dispatched, FakeMachine, Hook, Model};
use serde_json::{Value, json};
use slurm_unit::View;
use std::collections::BTreeMap;

/// The other end, as far as this relation goes.
const SLURMCTLD: &str = "name: slurmctld\nrequires:\n  slurmrestd:\n    interface: slurmrestd\n";
const SLURMRESTD: &str = include_str!("../charmcraft.yaml");
const CONF: &str = "/etc/slurm/slurm.conf";
const WELL: &str = "active: REST API of slurmctld, v0.0.42";

struct Rest {
    model: Model,
    machine: FakeMachine,
    app: AppName,
    unit: UnitName,
    controller: AppName,
}

impl Rest {
    /// A unit before its first hook, and a controller that the test plays.
    fn new() -> Self {
        let model = Model::new();
        let app = model.deploy("rest", SLURMRESTD).unwrap();
        let unit = model.add_unit(&app).unwrap();
        let controller = model.deploy("slurmctld", SLURMCTLD).unwrap();
        model.add_unit(&controller).unwrap();
        Self { machine: FakeMachine::of(&unit).under(model.knife()), model, app, unit, controller }
    }

    fn deployed() -> Self {
        let rest = Self::new();
        for name in ["install", "leader-elected", "config-changed", "start"] {
            rest.hook(&Hook::named(name));
        }
        rest
    }

    fn integrate(&self) -> RelationId {
        self.model.integrate((&self.app, "slurmctld"), (&self.controller, "slurmrestd")).unwrap().0
    }

    /// A unit that serves.
    fn joined() -> (Self, RelationId) {
        let rest = Self::deployed();
        let relation = rest.integrate();
        rest.hook(&Hook::created(&relation, &rest.controller));
        rest.offer(&relation, &config(&["c1"]));
        rest.hook(&Hook::app_changed(&relation, &rest.controller));
        rest.machine.take_calls();
        (rest, relation)
    }

    /// The controller publishes its configuration.
    fn offer(&self, relation: &RelationId, config: &Value) {
        let values = [
            ("auth_secret_id", json!("secret:d3k2v5nmp25c762q3bvg")),
            ("controllers", json!([])),
            ("slurm_version", json!("24.11.5")),
            ("slurmconfig", config.clone()),
        ];
        let bag: Databag = values.into_iter().map(|(key, value)| (key.to_owned(), value.to_string())).collect();
        self.model.play(&self.controller, relation, &bag).unwrap();
    }

    fn dispatch(&self, hook: &Hook) -> Dispatched {
        let run = |ctx, tools: charm::Tools| {
            let begin = |ctx, tools: &charm::Tools| View::split(ctx, tools, &self.machine.machine());
            charm::runtime::dispatch::<Slurmrestd>(ctx, &tools, begin)
        };
        self.model.dispatch(&self.unit, Slurmrestd::EVENTS, hook, run).unwrap()
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

    /// What is on the disk after all is said and done.
    fn files(&self) -> BTreeMap<&'static str, Option<String>> {
        let drop_in = "/etc/systemd/system/slurmrestd.service.d/10-charm.conf";
        [names::OPTIONS_FILE, CONF, "/etc/slurm/slurm.conf.compute", "/etc/slurm/slurm.jwks", drop_in]
            .into_iter()
            .map(|path| (path, self.machine.read(path)))
            .collect()
    }

    fn restarts(&self) -> usize {
        self.machine.take_calls().iter().filter(|call| call.contains(" restart ")).count()
    }
}

fn config(hosts: &[&str]) -> Value {
    json!({
        "slurm.conf": {
            "clustername": "lab", "slurmctldhost": hosts, "authtype": "auth/slurm", "include": ["slurm.conf.compute"],
        },
        "slurm.conf.compute": {"partitions": {"compute": {"partitionname": "compute", "nodes": ["compute"]}}},
    })
}

#[test]
fn a_settled_unit_only_looks() {
    let (rest, _) = Rest::joined();
    assert_eq!(rest.shown(), WELL);
    assert!(rest.machine.is_running(names::SERVICE));
    let text = rest.machine.read(CONF).unwrap();
    assert_eq!(text, "clustername=lab\nslurmctldhost=c1\nauthtype=auth/slurm\ninclude slurm.conf.compute\n");
    let options = rest.machine.read(names::OPTIONS_FILE).unwrap();
    assert_eq!(options, "SLURMRESTD_OPTIONS=-a rest_auth/jwt -s slurmctld\n");
    let files = rest.files();
    for _ in 0..3 {
        let done = rest.hook(&Hook::named("update-status"));
        assert!(done.writes().is_empty(), "{done:#?}");
        let calls = rest.machine.take_calls();
        assert!(calls.len() <= 1 && calls.iter().all(|call| call.contains("show")), "{calls:?}");
    }
    assert_eq!(rest.files(), files);
}

#[test]
fn another_controller_is_one_restart() {
    let (rest, relation) = Rest::joined();
    rest.offer(&relation, &config(&["c2", "c1"]));
    rest.hook(&Hook::app_changed(&relation, &rest.controller));
    assert!(rest.machine.read(CONF).unwrap().contains("slurmctldhost=c2\nslurmctldhost=c1\n"));
    assert_eq!(rest.restarts(), 1);
    rest.hook(&Hook::named("update-status"));
    assert_eq!(rest.restarts(), 0);
    assert_eq!(rest.shown(), WELL);
}

#[test]
fn accounting_brings_its_part_of_the_api() {
    let (rest, relation) = Rest::joined();
    let mut with = config(&["c1"]);
    with["slurm.conf"]["accountingstoragetype"] = json!("accounting_storage/slurmdbd");
    rest.offer(&relation, &with);
    rest.hook(&Hook::app_changed(&relation, &rest.controller));
    let options = rest.machine.read(names::OPTIONS_FILE).unwrap();
    assert_eq!(options, "SLURMRESTD_OPTIONS=-a rest_auth/jwt -s slurmctld,slurmdbd\n");
    assert_eq!(rest.restarts(), 1);
}

#[test]
fn a_file_that_is_published_no_more_is_removed() {
    let (rest, relation) = Rest::joined();
    let mut less = config(&["c1"]);
    less.as_object_mut().unwrap().remove("slurm.conf.compute");
    rest.offer(&relation, &less);
    rest.hook(&Hook::app_changed(&relation, &rest.controller));
    assert_eq!(rest.machine.read("/etc/slurm/slurm.conf.compute"), None);
    assert!(!rest.machine.read(CONF).unwrap().contains("include"));
}

#[test]
fn a_relation_that_ends_leaves_nothing_behind() {
    let (rest, relation) = Rest::joined();
    rest.hook(&Hook::broken(&relation, Some(&rest.controller)));
    rest.model.remove_relation(&relation);
    assert!(!rest.machine.is_running(names::SERVICE) && rest.model.ports(&rest.unit).is_empty());
    assert_eq!(rest.machine.read(CONF), None);
    assert_eq!(rest.shown(), "blocked: no controller: `juju integrate rest slurmctld`");
}

#[test]
fn a_key_that_an_earlier_charm_has_left_goes_and_another_daemons_stays() {
    use std::os::unix::fs::PermissionsExt;
    let (rest, _) = Rest::joined();
    rest.machine.write("/etc/slurm/slurm.jwks", "key");
    let path = rest.machine.machine().path("/etc/slurm/slurm.jwks");
    rest.hook(&Hook::named("update-status"));
    assert!(path.exists(), "it is not private, so no daemon's of ours");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    rest.hook(&Hook::named("update-status"));
    assert!(!path.exists());
    assert_eq!(rest.restarts(), 0);
}

#[test]
fn a_unit_that_is_killed_before_any_effect_ends_the_same() {
    let (whole, _) = Rest::joined();
    let expected = (whole.files(), whole.shown());
    let mut cuts = 0;
    for cut in 0.. {
        let rest = Rest::new();
        let relation = rest.integrate();
        rest.offer(&relation, &config(&["c1"]));
        rest.model.knife().kill_before(cut);
        rest.dispatch(&Hook::app_changed(&relation, &rest.controller));
        let killed = !rest.model.knife().spare();
        rest.hook(&Hook::app_changed(&relation, &rest.controller));
        rest.hook(&Hook::named("update-status"));
        assert_eq!((rest.files(), rest.shown()), expected, "killed before effect {cut}");
        assert!(rest.machine.is_running(names::SERVICE));
        if !killed {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 10, "{cuts}");
}

#[test]
fn nothing_that_means_no_good_reaches_a_file() {
    let hostile = [
        "[]",
        "[1]",
        "\"\"",
        "slurm.conf",
        "{\"slurm.conf\":",
        "{\"/etc/passwd\": {}}",
        "{\"slurm.conf\": {}, \"slurm.conf/../../passwd\": {\"a\": \"b\"}}",
        "{\"slurm.conf\": {}, \"../x\": {}}",
        "{\"slurm.conf\": {\"clustername\": \"a\\nPluginDir=/tmp\"}}",
        "{\"slurm.conf\": {\"include\": [\"/etc/shadow\"]}}",
        "{\"slurm.conf\": {\"clustername\": \"$(reboot)\\u0000\"}}",
        "{\"slurm.conf\": []}",
        "\u{202e}",
    ];
    let (rest, relation) = Rest::joined();
    let (files, good) = (rest.files(), rest.model.app_bag(&relation, &rest.controller));
    let long = "x".repeat(100_000);
    for key in ["slurmconfig", "auth_secret_id", "slurm_version"] {
        for value in hostile.iter().copied().chain([long.as_str()]) {
            let bag = Databag::from([(key.to_owned(), value.to_owned())]);
            rest.model.play(&rest.controller, &relation, &bag).unwrap();
            rest.hook(&Hook::app_changed(&relation, &rest.controller));
            assert_eq!(rest.files(), files, "{key}={value:.80}");
            assert!(rest.machine.is_running(names::SERVICE), "{key}={value:.80}");
            let restored: Databag = good.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            rest.model.play(&rest.controller, &relation, &restored).unwrap();
        }
    }
    rest.hook(&Hook::app_changed(&relation, &rest.controller));
    assert_eq!(rest.shown(), WELL);
}

#[test]
fn a_machine_with_another_daemon_of_slurm_is_left_to_it() {
    for (path, text, daemon) in [
        ("/etc/default/slurmd", "SLURMD_OPTIONS=-Z -N c-0 --conf 'CPUs=1' --conf-server c1:6817\n", "slurmd"),
        ("/etc/default/sackd", "SACKD_OPTIONS=--conf-server c1:6817\n", "sackd"),
        (CONF, "ClusterName=lab\n", "slurmctld"),
    ] {
        let rest = Rest::deployed();
        rest.machine.write(path, text);
        rest.hook(&Hook::named("update-status"));
        let expected = format!("blocked: {daemon} has /etc/slurm on this machine: remove rest/0, add one elsewhere");
        assert_eq!(rest.shown(), expected);
        for hook in ["stop", "remove"] {
            rest.hook(&Hook::named(hook));
        }
        assert_eq!(rest.machine.read(path).as_deref(), Some(text));
    }
}

#[test]
fn a_slurmrestd_that_died_is_started_and_an_action_that_explains_changes_nothing() {
    let (rest, _) = Rest::joined();
    rest.machine.crash(names::SERVICE);
    let done = rest.dispatch(&Hook::action(names::ACTION_EXPLAIN, json!({})));
    assert!(done.succeeded && done.failure.is_none(), "{done:#?}");
    assert!(!rest.machine.is_running(names::SERVICE), "{done:#?}");
    rest.hook(&Hook::named("update-status"));
    assert!(rest.machine.is_running(names::SERVICE));
    assert_eq!(rest.shown(), WELL);
}
