//! Whole dispatches of an accounting unit, on a made-up model and a made-up machine: wiring, what rests, what is
//! killed, what means no good.

use crate::Slurmdbd;
use crate::names;
use charm::runtime::Charm;
use charm::{AppName, Databag, RelationId, UnitName};
use charm_testing::{Dispatched, FakeMachine, Hook, Model};
use serde_json::json;
use slurm_unit::{View, retry};
use std::collections::BTreeMap;

const CONTROLLER: &str = "name: controller\nrequires:\n  slurmdbd:\n    interface: slurmdbd\n";
const MYSQL: &str = "name: mysql\nprovides:\n  database:\n    interface: mysql_client\n";
const SLURMDBD: &str = include_str!("../charmcraft.yaml");
const FILES: [&str; 5] = [
    "/etc/slurm/slurm.jwks",
    "/etc/slurm/jwt_hs256.key",
    "/etc/slurm/slurmdbd.conf",
    "/etc/default/slurmdbd",
    names::CLIENT_CONF,
];
const WELL: &str = "active: accounts for controller";

struct Accounting {
    model: Model,
    machine: FakeMachine,
    app: AppName,
    unit: UnitName,
    controller: AppName,
    mysql: AppName,
}

impl Accounting {
    fn new() -> Self {
        let model = Model::new();
        let app = model.deploy("slurmdbd", SLURMDBD).unwrap();
        let unit = model.add_unit(&app).unwrap();
        let [controller, mysql] = [("controller", CONTROLLER), ("mysql", MYSQL)].map(|(name, text)| {
            let app = model.deploy(name, text).unwrap();
            model.add_unit(&app).unwrap();
            app
        });
        Self { machine: FakeMachine::of(&unit).under(model.knife()), model, app, unit, controller, mysql }
    }

    /// A unit after the hooks of its start.
    fn deployed() -> Self {
        let accounting = Self::new();
        for name in ["install", "leader-elected", "config-changed", "start"] {
            accounting.hook(&Hook::named(name));
        }
        accounting
    }

    /// A unit that serves, with its relations to the controllers and the database.
    fn serving() -> (Self, [RelationId; 2]) {
        let accounting = Self::deployed();
        let relations = accounting.relate(&|hook| drop(accounting.hook(hook)));
        accounting.machine.take_calls();
        (accounting, relations)
    }

    fn relate(&self, run: &dyn Fn(&Hook)) -> [RelationId; 2] {
        let (database, _) = self.model.integrate((&self.app, "database"), (&self.mysql, "database")).unwrap();
        run(&Hook::created(&database, &self.mysql));
        self.lend(&database, "s3cret");
        run(&Hook::app_changed(&database, &self.mysql));
        let (relation, _) = self.model.integrate((&self.app, "slurmctld"), (&self.controller, "slurmdbd")).unwrap();
        run(&Hook::created(&relation, &self.controller));
        self.offer(&relation, "A");
        run(&Hook::app_changed(&relation, &self.controller));
        [relation, database]
    }

    /// The controllers share their keys.
    fn offer(&self, relation: &RelationId, letter: &str) {
        let secret = |content: &[(&str, String)]| {
            let content: BTreeMap<String, String> =
                content.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
            self.model.play_secret(&self.controller, &content, relation).unwrap()
        };
        let auth = secret(&[("key", letter.repeat(128)), ("keyid", format!("k{letter}"))]);
        let jwt = secret(&[("key", letter.repeat(64))]);
        let values = [("auth_secret_id", json!(auth)), ("jwt_secret_id", json!(jwt)), ("controllers", json!([]))];
        let version = ("slurm_version", json!("24.11.5"));
        let bag = values.into_iter().chain([version]).map(|(key, value)| (key.to_owned(), value.to_string()));
        self.model.play(&self.controller, relation, &bag.collect()).unwrap();
    }

    /// The database answers.
    fn lend(&self, relation: &RelationId, password: &str) {
        let content = [("username", "relation-1"), ("password", password)];
        let content = content.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let uri = self.model.play_secret(&self.mysql, &BTreeMap::from(content), relation).unwrap();
        let bag = [("endpoints", "10.0.0.7:3306"), ("secret-user", uri.as_str()), ("database", "slurm_acct_db")];
        let bag: Databag = bag.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        self.model.play(&self.mysql, relation, &bag).unwrap();
    }

    fn dispatch(&self, hook: &Hook) -> Dispatched {
        self.dispatch_on(&self.unit, &self.machine, hook)
    }

    fn dispatch_on(&self, unit: &UnitName, machine: &FakeMachine, hook: &Hook) -> Dispatched {
        let run = |ctx, tools: charm::Tools| {
            let begin = |ctx, tools: &charm::Tools| View::split(ctx, tools, &machine.machine());
            charm::runtime::dispatch::<Slurmdbd>(ctx, &tools, begin)
        };
        self.model.dispatch(unit, Slurmdbd::EVENTS, hook, run).unwrap()
    }

    #[track_caller]
    fn hook(&self, hook: &Hook) -> Dispatched {
        let done = self.dispatch(hook);
        assert!(done.succeeded, "{hook:?}: {done:#?} {:#?}", self.machine.take_calls());
        done
    }

    fn set(&self, text: &str) {
        self.model.set_option(&self.app, names::OPTION_PARAMETERS, text.into()).unwrap();
        self.hook(&Hook::named("config-changed"));
    }

    fn shown(&self) -> String {
        let status = self.model.status(&self.unit).unwrap();
        format!("{}: {}", status.word(), status.message())
    }

    fn conf(&self) -> String {
        self.machine.read("/etc/slurm/slurmdbd.conf").unwrap_or_default()
    }

    fn files(&self) -> [Option<String>; 5] {
        FILES.map(|path| self.machine.read(path))
    }

    fn runs(&self) -> bool {
        self.machine.is_running(names::SERVICE)
    }

    /// How often slurmdbd was told this since the last question.
    fn told(&self, verb: &str) -> usize {
        let told = |call: &&String| call.contains(&format!(" {verb} ")) && call.contains(names::SERVICE);
        self.machine.take_calls().iter().filter(told).count()
    }
}

#[test]
fn nothing_is_published_before_slurmdbd_serves() {
    let accounting = Accounting::deployed();
    assert_eq!(accounting.shown(), "blocked: no controller: `juju integrate slurmdbd slurmctld`");
    accounting.machine.database_answers(false);
    let [relation, database] = accounting.relate(&|hook| drop(accounting.hook(hook)));
    let asked = accounting.model.app_bag(&database, &accounting.app);
    assert_eq!(asked["database"], "slurm_acct_db");
    assert!(asked["requested-secrets"].starts_with("[\"username\", \"password\""), "{asked:?}");
    assert!(accounting.runs() && accounting.model.app_bag(&relation, &accounting.app).is_empty());
    assert_eq!(accounting.shown(), "waiting: for slurmdbd to answer");
    accounting.machine.database_answers(true);
    accounting.hook(&Hook::named(retry::EVENT));
    let told = accounting.model.app_bag(&relation, &accounting.app);
    assert_eq!(told["hostname"], format!("\"{}\"", accounting.unit.dashed()));
    assert_eq!(accounting.model.unit_bag(&relation, &accounting.unit)["hostname"], told["hostname"], "a copy");
    assert_eq!(
        (accounting.shown().as_str(), accounting.model.ports(&accounting.unit)),
        (WELL, vec!["6819/tcp".to_owned()])
    );
}

#[test]
fn a_settled_unit_only_looks() {
    let (accounting, _) = Accounting::serving();
    assert_eq!(accounting.shown(), WELL);
    let files = accounting.files();
    for _ in 0..10 {
        let done = accounting.hook(&Hook::named("update-status"));
        assert!(done.writes().is_empty(), "{done:#?}");
        let calls = accounting.machine.take_calls();
        assert!(calls.iter().all(|call| call.contains("show") || call.contains("ping")), "{calls:?}");
        assert!(calls.len() <= 2, "no more processes than the reads need: {calls:?}");
    }
    assert_eq!(accounting.files(), files);
}

#[test]
fn a_database_that_is_away_takes_nothing_back() {
    let (accounting, [relation, _]) = Accounting::serving();
    accounting.machine.database_answers(false);
    accounting.machine.journal("slurmdbd: error: mysql_real_connect failed: 2002 Can't connect to server\n");
    accounting.hook(&Hook::named("update-status"));
    assert_eq!(accounting.shown(), "waiting: for mysql to answer slurmdbd");
    assert!(accounting.runs() && accounting.model.app_bag(&relation, &accounting.app).contains_key("hostname"));
    assert_eq!(accounting.told("restart") + accounting.told("stop"), 0);
}

#[test]
fn a_rotated_password_and_a_rotated_key_are_loaded_by_one_restart_each() {
    let (accounting, [relation, database]) = Accounting::serving();
    accounting.machine.set_started(names::SERVICE, 1000);
    accounting.lend(&database, "an0ther");
    accounting.hook(&Hook::app_changed(&database, &accounting.mysql));
    assert!(accounting.conf().contains("StoragePass=an0ther\n"));
    assert_eq!(accounting.told("restart"), 1);
    accounting.machine.set_started(names::SERVICE, 1000);
    accounting.offer(&relation, "B");
    accounting.hook(&Hook::app_changed(&relation, &accounting.controller));
    assert!(accounting.machine.read(FILES[0]).unwrap().contains(&"B".repeat(128)));
    assert_eq!(accounting.machine.read(FILES[1]).unwrap(), "B".repeat(64));
    assert_eq!(accounting.told("restart"), 1);
    accounting.hook(&Hook::named("update-status"));
    assert_eq!(accounting.told("restart"), 0);
}

#[test]
fn parameters_that_slurmdbd_refuses_are_not_used() {
    let (accounting, _) = Accounting::serving();
    accounting.machine.set_started(names::SERVICE, 1000);
    accounting.set("PurgeJobAfter=12months");
    assert!(accounting.conf().ends_with("PurgeJobAfter=12months\n"));
    let calls = accounting.machine.take_calls();
    assert!(calls.iter().any(|call| call.contains("reload --")), "{calls:?}");
    assert!(!calls.iter().any(|call| call.contains("restart")), "{calls:?}");
    let accepted = accounting.conf();
    // Noticed while it is read, and without any harm.
    accounting.machine.slurmdbd_refuses("hello", true);
    accounting.set("PurgeJobAfter=hello");
    assert_eq!(accounting.shown(), "blocked: option slurmdbd-conf-parameters: no hello, please");
    assert_eq!((accounting.conf(), accounting.told("restart")), (accepted.clone(), 0));
    // Noticed by nobody but a slurmdbd that starts.
    accounting.machine.slurmdbd_refuses("nowhere", false);
    accounting.set("StorageParameters=nowhere");
    accounting.machine.journal("slurmdbd: fatal: nowhere is no place\n");
    accounting.hook(&Hook::named("daemon-failed"));
    accounting.hook(&Hook::named(retry::EVENT));
    assert_eq!(accounting.conf(), accepted);
    assert!(accounting.runs(), "{}", accounting.shown());
    assert!(accounting.shown().starts_with("blocked: option slurmdbd-conf-parameters: "), "{}", accounting.shown());
    // What belongs to the charm.
    accounting.set("StoragePass=mine");
    let refusal = "blocked: option slurmdbd-conf-parameters: line 1: key `StoragePass` is set by the charm";
    assert_eq!((accounting.shown().as_str(), accounting.conf()), (refusal, accepted));
    accounting.set("");
    assert_eq!(accounting.shown(), WELL);
    assert!(!accounting.conf().contains("Purge"));
}

#[test]
fn a_relation_that_ends_takes_along_what_it_brought() {
    let (accounting, [relation, database]) = Accounting::serving();
    accounting.hook(&Hook::broken(&relation, Some(&accounting.controller)));
    accounting.model.end(&relation);
    assert!(!accounting.runs() && accounting.files()[..2] == [None, None] && accounting.files()[2].is_some());
    assert_eq!(accounting.shown(), "blocked: no controller: `juju integrate slurmdbd slurmctld`");
    accounting.hook(&Hook::broken(&database, Some(&accounting.mysql)));
    accounting.model.end(&database);
    assert_eq!(accounting.files()[2], None, "the password is in it");
    assert!(accounting.hook(&Hook::named("update-status")).writes().is_empty());
    let again = accounting.relate(&|hook| drop(accounting.hook(hook)));
    assert_eq!((accounting.shown().as_str(), accounting.runs()), (WELL, true), "{again:?}");
}

#[test]
fn a_second_unit_is_refused_and_speaks_for_the_first() {
    let (accounting, [relation, _]) = Accounting::serving();
    let second = accounting.model.add_unit(&accounting.app).unwrap();
    let machine = FakeMachine::of(&second).under(accounting.model.knife());
    accounting.model.elect(&second).unwrap();
    // The unit that serves does not lead any more, and says where it is.
    accounting.hook(&Hook::named("update-status"));
    let peer = accounting.model.peer(&accounting.app).unwrap();
    let host = format!("\"{}\"", accounting.unit.dashed());
    assert_eq!(accounting.model.unit_bag(&peer, &accounting.unit)["hostname"], host);
    for hook in ["install", "config-changed", "start", "update-status"] {
        let done = accounting.dispatch_on(&second, &machine, &Hook::named(hook));
        assert!(done.succeeded, "{done:#?}");
    }
    let status = accounting.model.status(&second).unwrap();
    let refusal = "only one unit can run slurmdbd, and slurmdbd/0 does: remove slurmdbd/1";
    assert_eq!((status.word(), status.message()), ("blocked", refusal));
    assert!(!machine.is_running(names::SERVICE) && accounting.runs());
    assert_eq!(accounting.model.app_bag(&relation, &accounting.app)["hostname"], host);
}

#[test]
fn nothing_that_means_no_good_reaches_a_file() {
    let hostile = ["", "null", "{}", "[]", "\"\"", "\"secret:`reboot`\"", "\"\\u0000\"", "{\"a\":", "\u{202e}"];
    let texts = ["db:3306\nSlurmUser=root", "db 3306", "file:///../x", "$(reboot)", ",", "db:0x1", "-x"];
    let (accounting, [relation, database]) = Accounting::serving();
    let files = accounting.files();
    let long = "x".repeat(100_000);
    let ends = [
        (&relation, &accounting.controller, &["auth_secret_id", "jwt_secret_id", "slurm_version"][..]),
        (&database, &accounting.mysql, &["endpoints", "secret-user", "database"][..]),
    ];
    for (relation, app, keys) in ends {
        let good = accounting.model.app_bag(relation, app);
        for key in keys {
            for value in hostile.iter().chain(&texts).copied().chain([long.as_str()]) {
                let bag = Databag::from([((*key).to_owned(), value.to_owned())]);
                accounting.model.play(app, relation, &bag).unwrap();
                accounting.hook(&Hook::app_changed(relation, app));
                let kept = accounting.files();
                // Without a key of tokens slurmdbd goes on without tokens; and a database may have another name.
                let same = kept[0] == files[0] && kept[3] == files[3] && accounting.runs();
                assert!(same, "{key}={value:.80}");
                assert!(!kept[2].as_ref().is_some_and(|text| text.contains("root")), "{key}={value:.80}");
                accounting.model.play(app, relation, &good.clone().into_iter().collect()).unwrap();
            }
        }
    }
    accounting.hook(&Hook::app_changed(&relation, &accounting.controller));
    for password in ["a\nSlurmUser=root", "a#b", "", "\"", &long] {
        accounting.lend(&database, password);
        accounting.hook(&Hook::app_changed(&database, &accounting.mysql));
        assert_eq!(accounting.conf(), files[2].clone().unwrap(), "{password:.80}");
    }
    assert!(accounting.runs());
}

#[test]
fn slurmdbd_is_never_started_without_a_key() {
    let accounting = Accounting::deployed();
    accounting.model.deny_secrets(true);
    accounting.relate(&|hook| drop(accounting.hook(hook)));
    assert!(!accounting.runs());
    assert_eq!(accounting.shown(), "waiting: for controller to share its key");
    accounting.model.deny_secrets(false);
    accounting.hook(&Hook::named(retry::EVENT));
    assert_eq!(accounting.shown(), WELL);
}

#[test]
fn a_unit_that_leaves_keeps_no_secret() {
    let (accounting, [relation, _]) = Accounting::serving();
    let controller = "controller/0".parse().unwrap();
    accounting.hook(&Hook::departed(&relation, &controller, &accounting.unit));
    assert!(!accounting.runs() && accounting.files()[..3] == [None, None, None]);
    assert_eq!(accounting.shown(), "maintenance: leaving");
}

#[test]
fn an_action_that_explains_changes_nothing() {
    let (accounting, _) = Accounting::serving();
    let done = accounting.dispatch(&Hook::action(names::ACTION_EXPLAIN, json!({})));
    assert!(done.succeeded && done.failure.is_none(), "{done:#?}");
    let said = format!("{done:?}");
    // What this unit says to the controllers is not noted yet, which is no news for an operator.
    assert!(said.contains("lab at 10.0.0.5") && said.contains(WELL), "{done:#?}");
    accounting.machine.crash(names::SERVICE);
    let done = accounting.dispatch(&Hook::action(names::ACTION_EXPLAIN, json!({})));
    assert!(done.succeeded && done.failure.is_none() && !accounting.runs(), "{done:#?}");
    assert!(format!("{done:?}").contains("the next hook will start slurmdbd"), "{done:#?}");
}

/// What is there in the end.
#[derive(Debug, PartialEq)]
struct End {
    status: String,
    files: [Option<String>; 5],
    told: Databag,
    runs: bool,
}

/// Tells the story of a unit that comes to serve and gets another password, key and parameter, and is killed before
/// its effect number `at`. Returns what is there in the end, and whether it was killed.
fn tell(at: usize) -> (End, bool) {
    let accounting = Accounting::new();
    let persist = |hook: &Hook| {
        let done = accounting.dispatch(hook);
        let done = if done.killed { accounting.dispatch(hook) } else { done };
        assert!(done.succeeded, "{hook:?}: {done:#?}");
    };
    accounting.model.knife().kill_before(at);
    for name in ["install", "leader-elected", "config-changed", "start"] {
        persist(&Hook::named(name));
    }
    let [relation, database] = accounting.relate(&persist);
    accounting.machine.set_started(names::SERVICE, 1000);
    accounting.lend(&database, "an0ther");
    accounting.offer(&relation, "B");
    accounting.model.set_option(&accounting.app, names::OPTION_PARAMETERS, "MessageTimeout=20".into()).unwrap();
    persist(&Hook::app_changed(&database, &accounting.mysql));
    persist(&Hook::named(retry::EVENT));
    let killed = !accounting.model.knife().spare();
    let rest = accounting.dispatch(&Hook::named("update-status"));
    assert!(rest.writes().is_empty(), "killed before {at}, and not at rest: {rest:#?}");
    let told = accounting.model.app_bag(&relation, &accounting.app);
    (End { status: accounting.shown(), files: accounting.files(), told, runs: accounting.runs() }, killed)
}

#[test]
fn a_story_that_is_killed_anywhere_ends_the_same() {
    let (calm, killed) = tell(usize::MAX);
    assert!(!killed && calm.runs && calm.status == WELL, "{calm:?}");
    for at in 0.. {
        let (end, killed) = tell(at);
        if !killed {
            assert!(at > 25, "only {at} effects");
            return;
        }
        assert_eq!(end, calm, "killed before {at}");
    }
}
