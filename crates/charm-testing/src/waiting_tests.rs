//! What happens while a unit waits in a hook, and to it.

use crate::removal_tests::{RAIN, held, holds_with};
use crate::schedule_tests::{World, add, of, unit, world};
use crate::{FakeMachine, Hook, Model};
use charm::tools::Refusal;
use charm::{AppName, Tools, UnitName};
use serde_json::json;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn holds(model: &Model, app: &AppName, until: impl Fn(&FakeMachine) -> bool + Send + Sync + 'static) -> UnitName {
    holds_with(model, app, &charm::Status::waiting("for rain"), until)
}

#[test]
fn while_a_unit_waits_in_a_hook_the_others_go_on() {
    let World { model, database, web } = world();
    add(&model, &database, |_, _| {});
    holds(&model, &web, |machine| machine.read("/rain").is_some());
    let machine = model.machine(&unit("web/0")).unwrap();
    model.integrate((&database, "db"), (&web, "db")).unwrap();
    model.settle();
    model.remove_unit(&unit("web/0")).unwrap();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&heard);
    let outside = machine.clone();
    model.while_waiting(move |model, waits, count| {
        let database: AppName = "database".parse().unwrap();
        assert_eq!(waits.as_str(), "web/0");
        assert!(model.run(waits, &Hook::named("update-status")).is_err(), "one hook at a time");
        match count {
            0 => model.set_option(&database, "size", json!(8)).unwrap(),
            3 => outside.write("/rain", ""),
            _ => {}
        }
        log.lock().unwrap().extend(model.settle().iter().map(ToString::to_string));
    });
    let ran = model.settle();
    assert_eq!(*heard.lock().unwrap(), ["database/0 config-changed"]);
    assert_eq!(machine.waited(), Duration::from_secs(120));
    assert_eq!(of(&ran, "database/0"), ["db-relation-departed web/0"]);
    assert_eq!(model.status(&unit("web/0")), None, "it is gone");
}

#[test]
#[should_panic(
    expected = "web/0 db-relation-departed database/0, web/0 leaves still waits after 200 pauses: waiting: for rain"
)]
fn a_unit_that_waits_for_ever_is_told_with_its_status() {
    let World { model, database, web } = world();
    add(&model, &database, |_, _| {});
    holds(&model, &web, |_| false);
    model.integrate((&database, "db"), (&web, "db")).unwrap();
    model.settle();
    model.remove_unit(&unit("web/0")).unwrap();
    model.settle();
}

#[test]
fn a_hook_that_is_killed_in_a_pause_begins_again() {
    let World { model, database, web } = world();
    add(&model, &database, |_, _| {});
    holds(&model, &web, |machine| machine.waited() >= Duration::from_secs(150));
    model.integrate((&database, "db"), (&web, "db")).unwrap();
    model.settle();
    model.remove_unit(&unit("web/0")).unwrap();
    model.knife().kill_before(4);
    let ran = of(&model.settle(), "web/0");
    let first = "db-relation-departed database/0, web/0 leaves";
    assert_eq!(ran, [first, first, "db-relation-broken", "stop", "remove"]);
    let effects = model.knife().effects();
    assert_eq!(effects[..4], ["status-set -- waiting \"for rain\"", "pause 30 s", "pause 30 s", "pause 30 s"]);
}

#[test]
fn a_machine_that_boots_while_a_hook_waits_kills_it_and_it_comes_again() {
    let model = Model::new();
    let (_, machine) = held(&model, &charm::Status::waiting("for rain"));
    model.remove_unit(&unit("web/0")).unwrap();
    model.while_waiting(move |model, unit, count| {
        if machine.waited() == Duration::from_secs(60) {
            model.reboot(unit);
        }
        if count == 4 {
            machine.write(RAIN, "");
        }
    });
    let ran = model.settle();
    let first = "db-relation-departed database/0, web/0 leaves";
    assert_eq!(of(&ran, "web/0"), [first, first, "db-relation-broken", "stop", "remove"]);
    assert!(ran[0].done.killed);
}

#[test]
fn what_others_wrote_while_a_hook_waited_stays_and_so_does_what_it_wrote() {
    let World { model, database, web } = world();
    add(&model, &database, |hook, tools| {
        if hook.name() == "config-changed" && !tools.relation_ids(&"db".parse().unwrap()).unwrap().is_empty() {
            let bag = [("a".to_owned(), "theirs".to_owned())].into();
            tools.writer().relation_set_app(&"db:1".parse().unwrap(), &bag);
        }
    });
    let waits = model.add_unit(&web).unwrap();
    let machine = FakeMachine::of(&waits).under(model.knife());
    let own = machine.clone();
    let charm = move |hook: &Hook, _, tools: Tools| {
        if hook.name() == "db-relation-joined" {
            let relation = "db:1".parse().unwrap();
            tools.writer().relation_set_unit(&relation, &[("b".to_owned(), "ours".to_owned())].into());
            own.machine().writer().pause(Duration::from_secs(30));
            let seen = tools.relation_get_app(&relation, &"database".parse().unwrap()).unwrap();
            assert!(seen.is_empty(), "bags are as they were when the hook began");
            tools.writer().send().unwrap();
        }
        ExitCode::SUCCESS
    };
    model.host(&waits, &machine, &[], charm).unwrap();
    model.settle();
    let (relation, _) = model.integrate((&database, "db"), (&web, "db")).unwrap();
    model.while_waiting(|model, _, _| {
        model.set_option(&"database".parse().unwrap(), "size", json!(8)).unwrap();
        model.run_hooks();
    });
    model.settle();
    assert_eq!(model.app_bag(&relation, &database)["a"], "theirs");
    assert_eq!(model.unit_bag(&relation, &waits)["b"], "ours");
}

#[test]
fn force_under_a_waiting_hook_leaves_it_without_juju_and_then_without_a_machine() {
    let World { model, database, web } = world();
    add(&model, &database, |_, _| {});
    let waits = model.add_unit(&web).unwrap();
    let machine = FakeMachine::of(&waits).under(model.knife());
    let own = machine.clone();
    let charm = move |hook: &Hook, _, tools: Tools| {
        if hook.to_string().ends_with(" leaves") {
            let pause = || own.machine().writer().pause(Duration::from_secs(30));
            pause();
            assert_eq!(tools.goal_state().unwrap_err().refusal(), Some(Refusal::AgentGone));
            assert!(!tools.is_leader().unwrap());
            own.write("/after", "");
            pause();
            own.write("/never", "");
        }
        ExitCode::SUCCESS
    };
    model.host(&waits, &machine, &[], charm).unwrap();
    model.integrate((&database, "db"), (&web, "db")).unwrap();
    model.settle();
    model.while_waiting(|model, unit, _| model.remove_unit_force(unit).unwrap());
    model.remove_unit(&waits).unwrap();
    let ran = model.settle();
    assert_eq!(of(&ran, "web/0"), ["db-relation-departed database/0, web/0 leaves"]);
    assert!(!ran[0].done.succeeded && machine.read("/after").is_some() && machine.read("/never").is_none());
    assert!(of(&ran, "database/0").is_empty());
}

#[test]
fn two_units_that_wait_at_once_both_get_on() {
    let World { model, database, web } = world();
    add(&model, &database, |_, _| {});
    let rain = |machine: &FakeMachine| machine.read(RAIN).is_some();
    let both = [holds(&model, &web, rain), holds(&model, &web, rain)];
    model.settle();
    model.integrate((&database, "db"), (&web, "db")).unwrap();
    model.settle();
    let waited: Arc<Mutex<Vec<(String, usize)>>> = Arc::default();
    let log = Arc::clone(&waited);
    model.while_waiting(move |model, unit, count| {
        log.lock().unwrap().push((unit.to_string(), count));
        model.run_round();
        if count == 1 {
            model.machine(unit).unwrap().write(RAIN, "");
        }
    });
    model.remove_application(&web).unwrap();
    model.settle();
    assert!(both.iter().all(|unit| !model.has_unit(unit)) && !model.has_application(&web));
    let seen = |unit: &str, count| waited.lock().unwrap().contains(&(unit.to_owned(), count));
    assert!(seen("web/0", 1) && seen("web/1", 1), "{waited:?}");
    // The second began while the first one waited.
    assert_eq!(waited.lock().unwrap()[..2], [("web/0".to_owned(), 0), ("web/1".to_owned(), 0)]);
}
