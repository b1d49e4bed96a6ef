//! In which order units hear of what happens, and what they may never hear of.

use crate::{FakeMachine, FakeSlurm, Hook, Model, Ran};
use charm::tools::SecretContent;
use charm::{AppName, Databag, RelationId, Tools, UnitName};
use serde_json::json;
use std::process::ExitCode;

pub(crate) const DATABASE: &str = "
provides: {db: {interface: sql}}
peers: {mates: {interface: mates}}
config: {options: {size: {type: int, default: 4}}}
";
pub(crate) const WEB: &str = "requires: {db: {interface: sql}}";

pub(crate) struct World {
    pub(crate) model: Model,
    pub(crate) database: AppName,
    pub(crate) web: AppName,
}

/// Puts a unit of an application on a machine, with a charm that does nothing but `act`.
pub(crate) fn add(model: &Model, app: &AppName, act: impl Fn(&Hook, &Tools) + Send + Sync + 'static) -> UnitName {
    let unit = model.add_unit(app).unwrap();
    let machine = FakeMachine::of(&unit).under(model.knife());
    let charm = move |hook: &Hook, _, tools: Tools| {
        act(hook, &tools);
        tools.writer().send().unwrap();
        ExitCode::SUCCESS
    };
    model.host(&unit, &machine, &["look-again"], charm).unwrap();
    unit
}

pub(crate) fn world() -> World {
    let model = Model::new();
    let (database, web) = (model.deploy("database", DATABASE).unwrap(), model.deploy("web", WEB).unwrap());
    World { model, database, web }
}

impl World {
    /// One unit of each, at rest, integrated.
    pub(crate) fn integrated() -> (Self, RelationId) {
        let world = world();
        for app in [&world.database, &world.web] {
            add(&world.model, app, |_, _| {});
        }
        world.model.settle();
        let (relation, _) = world.model.integrate((&world.database, "db"), (&world.web, "db")).unwrap();
        world.model.settle();
        (world, relation)
    }
}

pub(crate) fn unit(name: &str) -> UnitName {
    name.parse().unwrap()
}

pub(crate) fn of(ran: &[Ran], unit: &str) -> Vec<String> {
    ran.iter().filter(|one| one.unit.as_str() == unit).map(|one| one.hook.to_string()).collect()
}

pub(crate) fn bag(value: &str) -> Databag {
    [("a".to_owned(), value.to_owned())].into()
}

#[test]
fn a_unit_starts_and_then_meets_its_peers() {
    let World { model, database, .. } = world();
    add(&model, &database, |_, _| {});
    let first = ["install", "mates-relation-created", "leader-elected", "config-changed", "start"];
    assert_eq!(of(&model.settle(), "database/0"), first);
    add(&model, &database, |_, _| {});
    let ran = model.settle();
    let second = ["install", "mates-relation-created", "config-changed", "start"];
    let meets = |other: &str| [format!("mates-relation-joined {other}"), format!("mates-relation-changed {other}")];
    assert_eq!(of(&ran, "database/0"), meets("database/1"));
    assert_eq!(of(&ran, "database/1")[..4], second);
    assert_eq!(of(&ran, "database/1")[4..], meets("database/0"));
    assert!(model.settle().is_empty());
}

#[test]
fn a_relation_is_created_on_both_sides_and_then_joined_and_changed() {
    let World { model, database, web } = world();
    for app in [&database, &web] {
        add(&model, app, |_, _| {});
    }
    model.settle();
    let (relation, _) = model.integrate((&database, "db"), (&web, "db")).unwrap();
    let ran = model.settle();
    for (own, other) in [("database/0", "web/0"), ("web/0", "database/0")] {
        let expected = [
            "db-relation-created".to_owned(),
            format!("db-relation-joined {other}"),
            format!("db-relation-changed {other}"),
        ];
        assert_eq!(of(&ran, own), expected);
    }
    model.play(&database, &relation, &bag("1")).unwrap();
    model.play_unit(&unit("database/0"), &relation, &bag("2")).unwrap();
    let ran = model.settle();
    assert_eq!(of(&ran, "web/0"), ["db-relation-changed", "db-relation-changed database/0"]);
    assert!(of(&ran, "database/0").is_empty());
}

#[test]
fn an_option_and_a_secret_are_told_when_they_change() {
    let World { model, database, web } = world();
    let content = |value: &str| SecretContent::default().with("key", value);
    let owner = move |hook: &Hook, tools: &Tools| {
        let relation: RelationId = "db:1".parse().unwrap();
        match hook.name() {
            "start" => drop(tools.writer().secret_add("l", "d", &content("1")).unwrap()),
            "db-relation-created" => {
                let secret = tools.secret_info_get("l").unwrap().unwrap();
                tools.writer().secret_grant(&secret.id, &relation);
                let uri = [("uri".to_owned(), secret.id.to_string())].into();
                tools.writer().relation_set_app(&relation, &uri);
            }
            "config-changed" => {
                if let Some(secret) = tools.secret_info_get("l").unwrap() {
                    tools.writer().secret_set(&secret.id, &content("2"));
                }
            }
            _ => {}
        }
    };
    let reader = |hook: &Hook, tools: &Tools| {
        if hook.name() == "db-relation-changed" {
            let said = tools.relation_get_app(&"db:1".parse().unwrap(), &"database".parse().unwrap()).unwrap();
            tools.secret_get(&said["uri"], "mine").unwrap();
        }
    };
    add(&model, &database, owner);
    add(&model, &web, reader);
    model.settle();
    assert_eq!(model.integrate((&database, "db"), (&web, "db")).unwrap().0.number(), 1);
    model.settle();
    model.set_option(&database, "size", json!(8)).unwrap();
    let ran = model.settle();
    assert_eq!(of(&ran, "database/0"), ["config-changed"]);
    assert_eq!(of(&ran, "web/0"), ["secret-changed"]);
    assert!(model.settle().is_empty(), "told once, although it was not read again");
    model.set_option(&database, "size", json!(8)).unwrap();
    assert!(model.settle().is_empty());
}

#[test]
fn a_hook_that_was_killed_comes_again_before_anything_else() {
    let World { model, database, web } = world();
    add(&model, &database, |_, tools| tools.writer().application_version_set("1").unwrap());
    // Before the third hook has done anything.
    model.knife().kill_before(2);
    while !model.run_round().unwrap().iter().any(|one| one.done.killed) {}
    model.integrate((&database, "db"), (&web, "db")).unwrap();
    let ran = of(&model.settle(), "database/0");
    assert_eq!(ran, ["leader-elected", "db-relation-created", "config-changed", "start"]);
}

#[test]
#[should_panic(expected = "no rest after 400 hooks:\n  database/0 install, failed\n")]
fn a_hook_that_never_succeeds_is_told_with_all_that_ran() {
    let World { model, database, .. } = world();
    let unit = model.add_unit(&database).unwrap();
    model.host(&unit, &FakeMachine::of(&unit), &[], |_, _, _| ExitCode::FAILURE).unwrap();
    model.settle();
}

#[test]
fn a_timer_calls_until_it_is_ended() {
    const TIMER: &str = "/run/systemd/transient/web-0-look-again.timer";
    let World { model, web, .. } = world();
    let unit = model.add_unit(&web).unwrap();
    let machine = FakeMachine::of(&unit);
    let own = machine.clone();
    let charm = move |hook: &Hook, _, _| {
        let call = "JUJU_DISPATCH_PATH=hooks/look-again ./dispatch";
        let words = ["--unit=web-0-look-again", "--", "/usr/bin/juju-exec", "-u", "web/0", call];
        match hook.name() {
            "start" => assert_eq!(own.run("systemd-run", &words).unwrap().code, 0),
            "look-again" => drop(std::fs::remove_file(own.machine().path(TIMER))),
            _ => {}
        }
        ExitCode::SUCCESS
    };
    model.host(&unit, &machine, &["look-again"], charm).unwrap();
    assert_eq!(model.run_hooks().len(), 4);
    assert_eq!(model.timers(), [(unit, "look-again".to_owned())]);
    assert_eq!(of(&model.settle(), "web/0"), ["look-again"]);
    assert!(model.timers().is_empty());
}

#[test]
fn a_relation_that_is_removed_is_left_by_both_sides_and_gone() {
    let (World { model, database, .. }, relation) = World::integrated();
    model.play(&database, &relation, &bag("1")).unwrap();
    model.settle();
    model.remove_relation(&relation);
    let ran = model.settle();
    assert_eq!(of(&ran, "database/0"), ["db-relation-departed web/0", "db-relation-broken"]);
    assert_eq!(of(&ran, "web/0"), ["db-relation-departed database/0", "db-relation-broken"]);
    assert!(model.app_bag(&relation, &database).is_empty());
    assert!(model.settle().is_empty());
}

#[test]
fn a_unit_that_is_removed_leaves_its_relations_and_then_everything() {
    let (World { model, web, .. }, relation) = World::integrated();
    add(&model, &web, |_, _| {});
    model.settle();
    model.remove_unit(&unit("web/0")).unwrap();
    let ran = model.settle();
    let expected = ["db-relation-departed database/0, web/0 leaves", "db-relation-broken", "stop", "remove"];
    assert_eq!(of(&ran, "web/0"), expected);
    assert_eq!(of(&ran, "database/0"), ["db-relation-departed web/0"]);
    assert_eq!(of(&ran, "web/1"), ["leader-elected"]);
    let last = ran.iter().position(|one| one.hook.to_string() == "db-relation-departed web/0").unwrap();
    let own = ran.iter().position(|one| one.hook.name() == "db-relation-broken").unwrap();
    assert!(own < last, "the others hear when it has left");
    assert!(model.run(&unit("web/0"), &Hook::named("update-status")).is_err());
    assert!(!model.unit_bag(&relation, &unit("web/1")).contains_key("a"));
}

#[test]
fn peers_never_hear_that_a_unit_has_gone() {
    let (World { model, database, .. }, _) = World::integrated();
    add(&model, &database, |_, _| {});
    model.settle();
    model.remove_unit(&unit("database/1")).unwrap();
    let ran = model.settle();
    let expected = ["db-relation-departed web/0, database/1 leaves", "db-relation-broken"];
    assert_eq!(of(&ran, "database/1")[..2], expected);
    assert_eq!(
        of(&ran, "database/1")[2..],
        ["mates-relation-departed database/0, database/1 leaves", "stop", "remove"]
    );
    assert!(of(&ran, "database/0").is_empty(), "{:?}", of(&ran, "database/0"));
}

#[test]
fn a_departure_that_got_lost_leaves_a_ghost_until_the_agent_starts_anew() {
    let (World { model, web, .. }, relation) = World::integrated();
    add(&model, &web, |_, _| {});
    model.settle();
    let members = |expected: usize| {
        let done = model.dispatch(&unit("database/0"), &[], &Hook::named("update-status"), |_, tools| {
            assert_eq!(tools.relation_list(&relation).unwrap().len(), expected);
            ExitCode::SUCCESS
        });
        assert!(done.unwrap().succeeded);
    };
    model.lose_departed(&unit("database/0"));
    model.remove_unit(&unit("web/1")).unwrap();
    assert!(of(&model.settle(), "database/0").is_empty());
    members(2);
    model.restart_agent(&unit("database/0")).unwrap();
    assert_eq!(of(&model.settle(), "database/0"), ["db-relation-departed web/1"]);
    members(1);
}

#[test]
fn a_relation_made_again_may_tell_nothing_but_that_it_is_there() {
    let (World { model, database, web }, relation) = World::integrated();
    model.remove_relation(&relation);
    model.settle();
    let (relation, theirs) = model.integrate((&database, "db"), (&web, "db")).unwrap();
    model.lose_news(&unit("web/0"), &theirs).unwrap();
    model.play(&database, &relation, &bag("1")).unwrap();
    assert_eq!(of(&model.settle(), "web/0"), ["db-relation-created"]);
    model.restart_agent(&unit("web/0")).unwrap();
    let expected = ["db-relation-changed", "db-relation-joined database/0", "db-relation-changed database/0"];
    assert_eq!(of(&model.settle(), "web/0"), expected);
}

#[test]
fn a_machine_that_booted_is_told_so() {
    let (World { model, .. }, _) = World::integrated();
    model.reboot(&unit("web/0"));
    assert_eq!(of(&model.settle(), "web/0"), ["start"]);
}

#[test]
fn looks_may_come_from_several_threads() {
    let (World { model, .. }, relation) = World::integrated();
    let slurm = FakeSlurm::new();
    let machine = FakeMachine::of(&unit("database/0")).in_cluster(&slurm);
    let look = |_, tools: Tools| {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        assert_eq!(tools.relation_list(&relation).unwrap().len(), 1);
                        assert!(tools.config_get().is_ok());
                        let show = ["show", "--property", "LoadState", "--", "slurmd.service"];
                        assert_eq!(machine.run("systemctl", &show).unwrap().code, 0);
                        assert!(slurm.nodes().is_empty() && !machine.is_running("slurmd.service"));
                    }
                });
            }
        });
        ExitCode::SUCCESS
    };
    assert!(model.dispatch(&unit("database/0"), &[], &Hook::named("update-status"), look).unwrap().succeeded);
}

#[test]
fn leadership_that_moves_is_told_each_time_to_whom_it_comes() {
    let (World { model, database, .. }, _) = World::integrated();
    add(&model, &database, |_, _| {});
    model.settle();
    for leader in ["database/1", "database/0", "database/1"] {
        model.elect(&unit(leader)).unwrap();
        let ran = model.settle();
        assert_eq!(of(&ran, leader), ["leader-elected"]);
        assert_eq!(ran.len(), 1, "nobody is told that it leads no more: {ran:?}");
    }
}

#[test]
fn what_a_leader_tells_its_peers_it_is_told_as_well() {
    let (World { model, database, .. }, _) = World::integrated();
    add(&model, &database, |_, _| {});
    model.settle();
    model.play(&database, &model.peer(&database).unwrap(), &bag("1")).unwrap();
    let ran = model.settle();
    for unit in ["database/0", "database/1"] {
        assert_eq!(of(&ran, unit), ["mates-relation-changed"]);
    }
}
