//! Keys that are replaced while the cluster works: at no moment does a daemon that runs meet another one that does not
//! understand it, and nobody's silence retires a key.

use crate::world::{AUTH_SECRET, KEY_FILE, SLURMD, World};
use charm::{UnitName, tools::SecretAnswer};
use charm_testing::{Dispatched, FakeMachine, Hook, Model};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const NOTE: &str = "/etc/slurm/rotation.json";
const TOKEN_KEY: &str = "/etc/slurm/jwt_hs256.key";
const LEADER: &str = "slurmctld/0";

/// A cluster with one of each and two nodes, at rest.
fn stage(model: Model) -> World {
    let mut world = World::on(model);
    world.add_unit(&world.computes.clone());
    complete(world)
}

/// Adds one of each to a controller and its nodes, and brings them to rest.
pub fn complete(mut world: World) -> World {
    world.add_login();
    world.model.settle();
    world.add_rest();
    world.add_accounting();
    world.integrate();
    world.integrate_logins();
    world.model.settle();
    for unit in world.units() {
        assert!(world.status(unit.as_str()).starts_with("active: "), "{unit}: {}", world.status(unit.as_str()));
    }
    assert_eq!(world.status("slurmdbd/0"), "active: accounts for slurmctld");
    world
}

pub fn act(world: &World, name: &str, parameters: Value) -> Dispatched {
    world.model.run(&LEADER.parse().unwrap(), &Hook::action(name, parameters)).unwrap()
}

pub fn rotate(world: &World, parameters: Value) -> Dispatched {
    act(world, "rotate-auth-key", parameters)
}

/// The ids of a key file in its order.
pub fn ids(machine: &FakeMachine) -> Vec<String> {
    let file: Value = serde_json::from_str(&machine.read(KEY_FILE).unwrap()).unwrap();
    file["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

/// Runs hooks one round after the other, and timers, until nothing is left to do, or for so many calls of timers.
/// Everybody understands everybody all the while.
#[track_caller]
pub fn work(world: &World, ticks: usize) {
    let watch = || assert_eq!(world.slurm.misunderstandings(), Vec::<String>::new());
    for _ in 0..=ticks {
        watch();
        while world.model.run_round().is_some() {
            watch();
        }
        if world.model.timers().is_empty() {
            return;
        }
        world.model.tick();
        watch();
    }
}

/// Everybody has the same single key, nobody any other.
#[track_caller]
pub fn assert_one_key(world: &World, before: &str) {
    let secret = world.model.secret(&world.controllers, AUTH_SECRET).unwrap();
    assert_eq!(secret.keys().collect::<Vec<_>>(), ["key", "keyid"]);
    assert_ne!(secret["keyid"], before);
    for unit in world.units() {
        let machine = &world.machines[&unit];
        match unit.app().as_str() {
            "rest" | "filesystem-client" => assert!(machine.read(KEY_FILE).is_none()),
            _ => assert_eq!(ids(machine), [secret["keyid"].clone()], "{unit}"),
        }
        assert!(!world.status(unit.as_str()).contains("key"), "{unit}: {}", world.status(unit.as_str()));
    }
    assert!(world.controller().read(NOTE).is_none());
    world.assert_nothing_lost();
}

#[test]
fn a_key_is_replaced_and_nobody_is_cut_off() {
    for model in [Model::new(), Model::new().of_juju_3()] {
        let world = stage(model);
        world.job("compute-1");
        let before = ids(world.controller());
        let done = rotate(&world, json!({}));
        assert_eq!(done.failure, None);
        assert_eq!(done.results["rotation"], "begun");
        assert_eq!(done.results["phase"], "1 of 3");
        assert_eq!(ids(world.controller()).len(), 2);
        work(&world, 30);
        assert_one_key(&world, &before[0]);
        world.assert_rest();
        world.assert_whole();
    }
}

#[test]
fn a_machine_that_is_off_holds_the_phase_and_is_named() {
    let world = stage(Model::new());
    let unit: UnitName = "compute/1".parse().unwrap();
    for _ in 0..2 {
        let before = ids(world.controller());
        world.machine("compute/1").crash("slurmd.service");
        world.model.switch(&unit, false);
        rotate(&world, json!({}));
        work(&world, 10);
        assert_eq!(ids(world.controller())[0], before[0], "the old key is still good");
        assert_eq!(world.status(LEADER), "waiting: for compute/1 to load the new key (phase 1 of 3)");
        let again = rotate(&world, json!({}));
        assert_eq!(
            (again.results["rotation"].as_str(), again.results["waits-for"].as_str()),
            ("in progress", "compute/1")
        );
        world.model.switch(&unit, true);
        world.model.reboot(&unit);
        work(&world, 30);
        assert_one_key(&world, &before[0]);
        world.assert_rest();
    }
}

#[test]
fn a_machine_that_will_not_come_back_is_left_out_by_name() {
    let world = stage(Model::new());
    let before = ids(world.controller());
    world.machine("compute/1").crash("slurmd.service");
    world.model.switch(&"compute/1".parse().unwrap(), false);
    assert!(rotate(&world, json!({"force": true})).failure.unwrap().contains("no key is being rotated"));
    rotate(&world, json!({}));
    work(&world, 10);
    let hasty = rotate(&world, json!({"force": true})).failure.unwrap();
    assert!(hasty.starts_with("compute/1 had ") && hasty.contains("`units`"), "{hasty}");
    let stranger = rotate(&world, json!({"force": true, "units": "compute/0"})).failure.unwrap();
    assert_eq!(stranger, "parameter `units`: `compute/0` is not waited for; waited for: compute/1");
    let done = rotate(&world, json!({"force": true, "units": "compute/1"}));
    assert_eq!((done.failure, done.results["left-out"].as_str()), (None, "compute/1"));
    work(&world, 30);
    assert!(world.controller().read(NOTE).is_none(), "{}", world.status(LEADER));
    assert_ne!(ids(world.controller()), before);
    assert_eq!(ids(world.machine("compute/1")), before);
}

#[test]
fn a_rotation_is_taken_back_in_either_phase() {
    for phase in ["1 of 3", "2 of 3"] {
        let world = stage(Model::new());
        let before = ids(world.controller());
        rotate(&world, json!({}));
        if phase == "2 of 3" {
            // Until the new key signs, and no further.
            while !world.controller().read(KEY_FILE).unwrap().contains(r#""use":"default"}]"#) {
                if world.model.run_round().is_none() {
                    world.model.tick();
                }
            }
        }
        let done = rotate(&world, json!({"cancel": true}));
        assert_eq!((done.failure, done.results["rotation"].as_str()), (None, "cancelled"));
        work(&world, 30);
        assert_eq!(ids(world.controller()), before);
        assert_one_key(&world, "another");
        let none = rotate(&world, json!({"cancel": true})).failure.unwrap();
        assert!(none.starts_with("no rotation can be cancelled"), "{none}");
        rotate(&world, json!({}));
        work(&world, 30);
        assert_one_key(&world, &before[0]);
        world.assert_rest();
    }
}

#[test]
fn nodes_that_leave_with_their_jobs_keep_the_key_that_they_have() {
    let world = stage(Model::new());
    let job = world.job("compute-1");
    let before = ids(world.controller());
    world.model.remove_relation(&world.model.relations(&world.controllers, "slurmd")[0]);
    world.model.run_hooks();
    rotate(&world, json!({}));
    work(&world, 10);
    assert_eq!(ids(world.controller())[0], before[0]);
    assert!(world.status(LEADER).contains("for compute to load the new key"), "{}", world.status(LEADER));
    world.slurm.end_job(job);
    for _ in 0..6 {
        world.slurm.age_out();
        world.model.tick();
    }
    world.model.settle();
    assert!(!world.controller().read(KEY_FILE).unwrap().contains(&before[0]), "{}", world.status(LEADER));
    world.assert_nothing_lost();
}

/// A compute application as the Python charms have it: it reads the key that signs, and says nothing.
fn add_python(world: &World, asleep: &Arc<AtomicBool>) -> UnitName {
    let app = world.model.deploy("python", SLURMD).unwrap();
    let unit = world.model.add_unit(&app).unwrap();
    let machine = FakeMachine::of(&unit);
    let asleep = Arc::clone(asleep);
    let charm = move |_: &Hook, ctx: charm::Context, tools: charm::Tools| {
        if asleep.load(Ordering::SeqCst) {
            return ExitCode::SUCCESS;
        }
        let juju = tools.juju();
        for relation in juju.relations(&ctx, "slurmctld").unwrap() {
            let bag = juju.relation_get_app(&relation, &"slurmctld".parse().unwrap()).unwrap();
            if let Some(uri) = bag.get("auth_secret_id") {
                let uri: String = serde_json::from_str(uri).unwrap();
                assert!(matches!(juju.secret_get(&uri, "slurm-auth-key").unwrap(), SecretAnswer::Content(_)));
            }
        }
        ExitCode::SUCCESS
    };
    world.model.host(&unit, &machine, &[], charm).unwrap();
    let (theirs, _) = world.integrate_app("python");
    let partition = json!({"partitionname": "python", "nodes": ["python"]}).to_string();
    let bag = [("partition".to_owned(), partition)].into();
    world.model.play(&app, &theirs, &bag).unwrap();
    unit
}

#[test]
fn a_charm_that_knows_a_single_key_is_followed_by_what_juju_says() {
    let world = stage(Model::new());
    let asleep = Arc::new(AtomicBool::new(false));
    add_python(&world, &asleep);
    world.model.settle();
    let before = ids(world.controller());
    asleep.store(true, Ordering::SeqCst);
    rotate(&world, json!({}));
    work(&world, 10);
    assert_eq!(ids(world.controller())[0], before[0], "somebody tracks a revision with the old key");
    assert_eq!(world.status(LEADER), "waiting: for python/0 to load the new key (phase 2 of 3)");
    asleep.store(false, Ordering::SeqCst);
    world.model.run(&"python/0".parse().unwrap(), &Hook::named("update-status")).unwrap();
    work(&world, 20);
    assert!(!world.controller().read(KEY_FILE).unwrap().contains(&before[0]), "{}", world.status(LEADER));
    assert!(world.controller().read(NOTE).is_none(), "{}", world.status(LEADER));
}

#[test]
fn the_key_of_tokens_is_replaced_at_once() {
    let world = stage(Model::new());
    let before = world.controller().read(TOKEN_KEY).unwrap();
    let auth = ids(world.controller());
    let done = act(&world, "rotate-jwt-key", json!({}));
    assert_eq!((done.failure, done.results["token-key"].as_str()), (None, "replaced"));
    work(&world, 10);
    let after = world.controller().read(TOKEN_KEY).unwrap();
    assert_ne!(after, before);
    assert_eq!(world.model.secret(&world.controllers, "slurm-jwt-key").unwrap()["key"], after);
    assert_eq!(ids(world.controller()), auth);
    assert!(world.controller().read(NOTE).is_none());
    world.assert_rest();
}

#[test]
fn standbys_are_restarted_with_every_phase() {
    for killed in [false, true] {
        let world = World::on_store(3, 2);
        let before = ids(world.controller());
        rotate(&world, json!({}));
        if killed {
            // The one that serves is lost in the middle, and comes back.
            world.model.run_round();
            let serving = world.slurm.serving().unwrap();
            let machine = world.machine_called(&serving).clone();
            machine.crash("slurmctld.service");
            world.slurm.fail_over();
            work(&world, 3);
            machine.revive("slurmctld.service");
        }
        work(&world, 40);
        assert_one_key(&world, &before[0]);
        world.assert_controllers_agree();
        world.assert_takeovers_work();
        world.model.settle();
        world.assert_rest();
    }
}

#[test]
fn only_the_leader_rotates() {
    let world = World::on_store(2, 1);
    for (action, key) in [("rotate-auth-key", "auth"), ("rotate-jwt-key", "JWT")] {
        let done = world.model.run(&"slurmctld/1".parse().unwrap(), &Hook::action(action, json!({}))).unwrap();
        assert_eq!(done.failure.unwrap(), format!("Only the leader unit can rotate the {key} key."));
    }
}
