//! How units, relations and applications go, on Juju 4 and on Juju 3.6, and what happens while somebody waits.

use crate::schedule_tests::{DATABASE, WEB, World, add, of, unit, world};
use crate::{FakeJob, FakeMachine, FakeSlurm, Hook, Model};
use charm::{AppName, Tools, UnitName};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const RAIN: &str = "/rain";

/// A unit that holds in its first hook of leaving, and in `stop`, until `until` says so.
pub(crate) fn holds_with(
    model: &Model,
    app: &AppName,
    status: &charm::Status,
    until: impl Fn(&FakeMachine) -> bool + Send + Sync + 'static,
) -> UnitName {
    let unit = model.add_unit(app).unwrap();
    let machine = FakeMachine::of(&unit).under(model.knife());
    let (own, status) = (machine.clone(), status.clone());
    let charm = move |hook: &Hook, _, tools: Tools| {
        if hook.to_string().ends_with(" leaves") || hook.name() == "stop" {
            tools.writer().status_set(&status).unwrap();
            while !until(&own) {
                own.machine().writer().pause(Duration::from_secs(30));
            }
        }
        ExitCode::SUCCESS
    };
    model.host(&unit, &machine, &[], charm).unwrap();
    unit
}

/// One unit of `database` and one of `web`, which holds while it leaves until it rains on its machine.
pub(crate) fn held(model: &Model, status: &charm::Status) -> (World, FakeMachine) {
    let (database, web) = (model.deploy("database", DATABASE).unwrap(), model.deploy("web", WEB).unwrap());
    add(model, &database, |_, _| {});
    let unit = holds_with(model, &web, status, |machine| machine.read(RAIN).is_some());
    model.settle();
    model.integrate((&database, "db"), (&web, "db")).unwrap();
    model.settle();
    (World { model: model.clone(), database, web }, model.machine(&unit).unwrap())
}

/// Whatever runs while somebody waits, until at the third pause it rains.
fn listen(model: &Model, machine: &FakeMachine) -> Arc<Mutex<Vec<String>>> {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let (log, machine) = (Arc::clone(&heard), machine.clone());
    model.while_waiting(move |model, _, count| {
        log.lock().unwrap().extend(model.run_hooks().iter().map(ToString::to_string));
        if count == 2 {
            machine.write(RAIN, "");
        }
    });
    heard
}

fn members(model: &Model, of: &str, relation: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let relation = relation.parse().unwrap();
    let look = |_, tools: Tools| {
        seen = tools.relation_list(&relation).unwrap().iter().map(ToString::to_string).collect();
        ExitCode::SUCCESS
    };
    model.dispatch(&unit(of), &[], &Hook::named("update-status"), look).unwrap();
    seen
}

fn goal(model: &Model, of: &str) -> charm::tools::GoalState {
    let mut seen = None;
    let look = |_, tools: Tools| {
        seen = Some(tools.goal_state().unwrap());
        ExitCode::SUCCESS
    };
    model.dispatch(&unit(of), &[], &Hook::named("update-status"), look).unwrap();
    seen.unwrap()
}

#[test]
fn on_juju_3_the_others_hear_at_once_and_on_juju_4_when_the_leaver_has_left() {
    for (model, early) in [(Model::new().of_juju_3(), true), (Model::new(), false)] {
        let (_, machine) = held(&model, &charm::Status::waiting("for rain"));
        let heard = listen(&model, &machine);
        model.remove_unit(&unit("web/0")).unwrap();
        let ran: Vec<String> = model.run_hooks().iter().map(ToString::to_string).collect();
        let position = |wanted: &str| ran.iter().position(|one| one == wanted).unwrap();
        let (theirs, own) = ("database/0 db-relation-departed web/0", "web/0 db-relation-broken");
        assert_eq!(position(theirs) < position(own), early, "{ran:#?}");
        assert!(heard.lock().unwrap().is_empty(), "nothing more while it waited");
        assert!(!model.has_unit(&unit("web/0")) && members(&model, "database/0", "db:1").is_empty());
    }
}

#[test]
fn on_juju_3_peers_hear_of_each_other() {
    let model = Model::new().of_juju_3();
    let database = model.deploy("database", DATABASE).unwrap();
    for _ in 0..2 {
        add(&model, &database, |_, _| {});
    }
    model.settle();
    model.remove_unit(&unit("database/1")).unwrap();
    assert_eq!(of(&model.settle(), "database/0"), ["mates-relation-departed database/1"]);
    assert!(members(&model, "database/0", "mates:0").is_empty());
}

#[test]
fn a_unit_that_was_removed_with_force_runs_no_hook_and_is_a_ghost_on_juju_4() {
    for (model, ghosts) in [(Model::new(), true), (Model::new().of_juju_3(), false)] {
        let (database, web) = (model.deploy("database", DATABASE).unwrap(), model.deploy("web", WEB).unwrap());
        for app in [&database, &database, &web] {
            add(&model, app, |_, _| {});
        }
        model.settle();
        model.integrate((&database, "db"), (&web, "db")).unwrap();
        model.settle();
        model.remove_unit_force(&unit("database/1")).unwrap();
        let ran = model.settle();
        assert!(of(&ran, "database/1").is_empty());
        let heard = [of(&ran, "database/0"), of(&ran, "web/0")].concat();
        let (peers, others) = (members(&model, "database/0", "mates:0"), members(&model, "web/0", "db:1"));
        if ghosts {
            assert_eq!((heard.len(), peers.len(), others.len()), (0, 1, 2));
            assert_eq!(goal(&model, "web/0").remote_units("db"), [unit("database/0")]);
            model.restart_agent(&unit("web/0")).unwrap();
            assert_eq!(of(&model.settle(), "web/0"), ["db-relation-departed database/1"]);
        } else {
            assert_eq!(heard, ["mates-relation-departed database/1", "db-relation-departed database/1"]);
            assert_eq!((peers.len(), others.len()), (0, 1));
        }
    }
}

#[test]
fn an_application_that_is_removed_is_left_by_the_other_side_at_once() {
    let model = Model::new();
    let (World { database, web, .. }, machine) = held(&model, &charm::Status::waiting("for rain"));
    let heard = listen(&model, &machine);
    model.remove_application(&web).unwrap();
    assert!(model.integrate((&database, "db"), (&web, "db")).is_err());
    assert!(model.add_unit(&web).is_err());
    let ran = model.settle();
    let all = [heard.lock().unwrap().clone(), ran.iter().map(ToString::to_string).collect()].concat();
    let position = |wanted: &str| all.iter().position(|one| one == wanted).unwrap();
    assert!(position("database/0 db-relation-broken") < position("web/0 db-relation-broken"), "{all:#?}");
    assert_eq!(of(&ran, "web/0")[0], "db-relation-departed database/0, web/0 leaves");
    assert!(!model.has_application(&web) && model.has_application(&database));
    assert!(!model.has_relation(&"db:1".parse().unwrap()));
}

#[test]
fn an_application_stays_in_the_goal_until_the_last_unit_has_left() {
    let model = Model::new();
    let (World { database, .. }, machine) = held(&model, &charm::Status::waiting("for rain"));
    // The unit that waits is the remote one now: its relation ends, and it stays.
    let log: Arc<Mutex<Vec<(usize, bool)>>> = Arc::default();
    let (seen, rain) = (Arc::clone(&log), machine.clone());
    let named = |model: &Model| {
        let goal = goal(model, "web/0");
        (goal.remote_units("db").len(), goal.has_relation("db"))
    };
    model.while_waiting(move |model, _, count| {
        model.run_hooks();
        let mut log = seen.lock().unwrap();
        if count == 2 {
            rain.write(RAIN, "");
        }
        log.push((model.has_unit(&unit("database/0")).into(), model.has_relation(&"db:1".parse().unwrap())));
    });
    assert_eq!(named(&model), (1, true));
    model.remove_application(&database).unwrap();
    assert_eq!(named(&model), (0, true));
    model.remove_unit(&unit("web/0")).unwrap();
    model.settle();
    assert_eq!(*log.lock().unwrap(), [(0, true), (0, true), (0, true)], "gone, while the relation is not");
    assert!(!model.has_application(&database));
}

#[test]
fn a_model_that_is_destroyed_is_empty_in_the_end() {
    let (World { model, database, web }, relation) = World::integrated();
    add(&model, &database, |_, _| {});
    model.settle();
    model.destroy();
    let ran = model.settle();
    for (own, other) in [("web/0", "database/0"), ("database/0", "web/0")] {
        assert_eq!(of(&ran, own)[0], format!("db-relation-departed {other}, {own} leaves"));
        assert_eq!(of(&ran, own).last().unwrap(), "remove");
    }
    assert!(!of(&ran, "database/1").contains(&"mates-relation-broken".to_owned()));
    assert!(!model.has_relation(&relation) && !model.has_application(&web) && !model.has_application(&database));
}

#[test]
fn a_unit_in_no_relation_is_gone_without_a_hook_on_juju_4() {
    for (model, expected) in [(Model::new(), 0), (Model::new().of_juju_3(), 2)] {
        let web = model.deploy("web", WEB).unwrap();
        add(&model, &web, |_, _| {});
        model.settle();
        model.remove_unit(&unit("web/0")).unwrap();
        assert_eq!(model.settle().len(), expected);
        assert!(!model.has_unit(&unit("web/0")));
    }
}

#[test]
fn a_unit_that_was_never_installed_runs_no_hook() {
    let World { model, database, .. } = world();
    add(&model, &database, |_, _| {});
    model.remove_unit(&unit("database/0")).unwrap();
    assert!(model.settle().is_empty() && !model.has_unit(&unit("database/0")));
}

#[test]
fn a_leaver_that_is_blocked_is_dropped_under_its_hook_when_it_is_the_last_in_its_relation() {
    for (status, dropped) in [(charm::Status::blocked("no"), true), (charm::Status::maintenance("draining"), false)] {
        let model = Model::new();
        let (World { database, .. }, machine) = held(&model, &status);
        listen(&model, &machine);
        // It waits alone: the other side has left.
        model.remove_application(&"web".parse().unwrap()).unwrap();
        let ran = of(&model.settle(), "web/0");
        assert_eq!(ran.len(), if dropped { 1 } else { 4 }, "{ran:?}");
        assert!(!model.has_unit(&unit("web/0")) && model.has_application(&database));
    }
}

#[test]
fn a_unit_without_peers_is_dropped_while_it_waits_in_stop() {
    let World { model, database, web } = world();
    add(&model, &database, |_, _| {});
    let waits = model.add_unit(&web).unwrap();
    let machine = FakeMachine::of(&waits).under(model.knife());
    let own = machine.clone();
    let charm = move |hook: &Hook, _, _| {
        if hook.name() == "stop" {
            (0..3).for_each(|_| own.machine().writer().pause(Duration::from_secs(30)));
        }
        ExitCode::SUCCESS
    };
    model.host(&waits, &machine, &[], charm).unwrap();
    model.integrate((&database, "db"), (&web, "db")).unwrap();
    model.settle();
    model.remove_unit(&waits).unwrap();
    let ran = model.settle();
    assert_eq!(of(&ran, "web/0").last().unwrap(), "stop");
    assert!(!ran.iter().any(|one| one.hook.name() == "stop" && one.done.succeeded) && !model.has_unit(&waits));
}

#[test]
fn after_a_restart_of_its_agent_a_leaver_breaks_with_its_peers_first_and_they_hear() {
    let (World { model, database, .. }, _) = World::integrated();
    add(&model, &database, |_, _| {});
    model.settle();
    model.restart_agent(&unit("database/1")).unwrap();
    model.remove_unit(&unit("database/1")).unwrap();
    let ran = model.settle();
    let expected = [
        "mates-relation-departed database/0, database/1 leaves",
        "mates-relation-broken",
        "db-relation-departed web/0, database/1 leaves",
        "db-relation-broken",
    ];
    assert_eq!(of(&ran, "database/1")[..4], expected);
    assert_eq!(of(&ran, "database/0"), ["mates-relation-departed database/1"]);
    let broken = ran.iter().find(|one| one.hook.name() == "db-relation-broken").unwrap();
    assert_eq!(broken.hook.variables["JUJU_REMOTE_APP"], "");
}

#[test]
fn a_job_whose_machine_is_given_back_is_lost() {
    let World { model, web, .. } = world();
    let slurm = FakeSlurm::new();
    let waits = model.add_unit(&web).unwrap();
    let machine = FakeMachine::of(&waits).in_cluster(&slurm);
    model.host(&waits, &machine, &[], |_, _, _| ExitCode::SUCCESS).unwrap();
    model.settle();
    crate::slurm_tests::join(&slurm, &machine);
    let (here, elsewhere) = (slurm.submit(FakeJob::running("a", "n-0")), slurm.submit(FakeJob::running("a", "n-1")));
    model.remove_unit(&waits).unwrap();
    model.settle();
    assert_eq!(slurm.losses(), [format!("job {here}: machine of n-0 was given back")]);
    assert_eq!(slurm.jobs(), [here, elsewhere], "nobody has told slurmctld yet");
}
