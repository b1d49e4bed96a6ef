//! What operators, machines and networks do to controllers that share a store.

use crate::world::World;
use charm::UnitName;
use charm_testing::{Fault, Hook, Model};

fn unit(name: &str) -> UnitName {
    name.parse().unwrap()
}

fn models() -> [Model; 2] {
    [Model::new(), Model::new().of_juju_3()]
}

/// All is as it should be, and stays so whoever is lost next.
#[track_caller]
fn assert_sound(world: &World, hosts: &[&str]) {
    for unit in world.units() {
        world.model.run(&unit, &Hook::named("update-status")).unwrap();
    }
    world.model.settle();
    let statuses: Vec<String> = world.units().iter().map(|unit| world.status(unit.as_str())).collect();
    assert_eq!(world.listed_hosts(), hosts, "{statuses:#?} {:?}", world.slurm.controllers());
    world.assert_controllers_agree();
    world.assert_rest();
    world.assert_takeovers_work();
}

#[test]
fn a_controller_that_joins_costs_nobody_anything() {
    for model in models() {
        let mut world = World::on_store_of(model, 2, 2);
        world.job("compute-1");
        world.add_unit(&world.controllers.clone());
        world.model.settle();
        assert_sound(&world, &["slurmctld-0", "slurmctld-1", "slurmctld-2"]);
    }
}

#[test]
fn a_controller_that_serves_and_is_removed_hands_over() {
    for model in models() {
        let world = World::on_store_of(model, 3, 2);
        world.job("compute-1");
        world.model.remove_unit(&unit("slurmctld/0")).unwrap();
        world.model.settle();
        assert_sound(&world, &["slurmctld-1", "slurmctld-2"]);
    }
}

#[test]
fn a_standby_that_is_removed_leaves_the_list() {
    for model in models() {
        let world = World::on_store_of(model, 3, 2);
        world.job("compute-1");
        world.model.remove_unit(&unit("slurmctld/1")).unwrap();
        world.model.settle();
        assert_sound(&world, &["slurmctld-0", "slurmctld-2"]);
    }
}

#[test]
fn a_controller_that_is_removed_by_force_leaves_the_list() {
    for model in models() {
        let world = World::on_store_of(model, 3, 2);
        world.job("compute-1");
        world.model.remove_unit_force(&unit("slurmctld/0")).unwrap();
        // Somebody takes over while the others wait for that.
        world.model.settle();
        assert_sound(&world, &["slurmctld-1", "slurmctld-2"]);
    }
}

#[test]
fn a_leader_that_is_cut_off_is_fenced_and_joins_again() {
    for model in models() {
        let world = World::on_store_of(model, 2, 1);
        world.job("compute-0");
        world.machine("slurmctld/0").cut_network();
        assert_eq!(world.slurm.fail_over().as_deref(), Some("slurmctld-1"));
        assert!(world.machine("slurmctld/0").is_fenced());
        world.model.elect(&unit("slurmctld/1")).unwrap();
        world.model.set_option(&world.computes, "partition-config", "MaxTime=60".into()).unwrap();
        world.model.run_hooks();
        world.model.tick();
        assert!(world.machine("slurmctld/1").partitions()[0].contains("maxtime=60"));
        world.machine("slurmctld/0").heal_network();
        world.model.settle();
        assert!(world.machine("slurmctld/0").partitions()[0].contains("maxtime=60"));
        assert_sound(&world, &["slurmctld-0", "slurmctld-1"]);
    }
}

#[test]
fn a_store_that_was_away_for_all_comes_back_with_everything() {
    for fault in [Fault::Silent, Fault::ReadOnly, Fault::Full, Fault::Gone] {
        let world = World::on_store(2, 1);
        world.job("compute-0");
        world.fake_store().fails(Some(fault));
        world.slurm.fail_over();
        for unit in world.controller_units() {
            let done = world.model.run(&unit, &Hook::named("update-status")).unwrap();
            assert!(done.succeeded, "{fault:?} {unit}: {done:#?}");
            let status = world.status(unit.as_str());
            assert!(!status.starts_with("active"), "{fault:?} {unit} {status}");
        }
        world.fake_store().fails(None);
        world.model.settle();
        assert_sound(&world, &["slurmctld-0", "slurmctld-1"]);
    }
}

#[test]
fn a_machine_that_boots_joins_again() {
    let world = World::on_store(2, 1);
    world.job("compute-0");
    world.model.reboot(&unit("slurmctld/0"));
    world.model.settle();
    assert_sound(&world, &["slurmctld-0", "slurmctld-1"]);
}

#[test]
fn each_controller_tells_how_the_store_does() {
    let world = World::on_store(2, 1);
    for unit in world.controller_units() {
        let done = world.model.run(&unit, &Hook::action("show-controllers", serde_json::json!({}))).unwrap();
        assert_eq!(done.failure, None, "{unit}");
        let (latency, free) = (&done.results["store-latency"], &done.results["store-free"]);
        assert!(latency.contains(" ms, at worst ") && free.ends_with(" MiB"), "{unit}: {latency} {free}");
    }
}

#[test]
fn a_standby_that_would_end_instead_of_serving_takes_over_once_it_was_restarted() {
    const STARTED: &str = "/var/lib/slurmctld-charm/started.json";
    let world = World::on_store(2, 1);
    let machine = world.machine("slurmctld/1");
    let note = machine.read(STARTED).unwrap();
    let old: serde_json::Value = serde_json::from_str(&note).unwrap();
    let mut old = old.as_object().unwrap().clone();
    old.insert("hosts".to_owned(), serde_json::json!(["gone", "slurmctld-0", "slurmctld-1"]));
    machine.write(STARTED, &serde_json::to_string(&old).unwrap());
    machine.take_calls();
    let takeover = Hook::action("takeover", serde_json::json!({"controller": "slurmctld/1"}));
    let done = world.model.run(&"slurmctld/1".parse().unwrap(), &takeover).unwrap();
    let calls = machine.take_calls();
    let at = |what: &str| calls.iter().position(|call| call.contains(what)).unwrap_or_else(|| panic!("{calls:#?}"));
    assert!(at("restart") < at("takeover"), "{calls:#?}");
    assert_eq!(done.failure, None);
    assert_eq!(world.slurm.serving().as_deref(), Some("slurmctld-1"));
}

#[test]
fn control_is_not_handed_to_a_standby_that_has_not_heard_of_the_new_list() {
    let takeover = Hook::action("takeover", serde_json::json!({}));
    let (world, leader) = (World::on_store(3, 1), unit("slurmctld/0"));
    world.job("compute-0");
    world.machine("slurmctld/1").crash("slurmctld");
    world.model.remove_unit_force(&unit("slurmctld/1")).unwrap();
    // The leader takes the line out. No hook of the other unit has run since.
    world.model.run(&leader, &Hook::named("update-status")).unwrap();
    assert_eq!(world.listed_hosts(), ["slurmctld-0", "slurmctld-2"]);
    let answer = world.model.run(&leader, &takeover).unwrap();
    assert_eq!(world.slurm.serving().as_deref(), Some("slurmctld-0"), "{answer:#?}");
    let why = answer.failure.unwrap();
    assert!(why.starts_with("slurmctld of slurmctld-2 was started with another list"), "{why}");
    world.model.settle();
    assert_eq!(world.model.run(&leader, &takeover).unwrap().failure, None);
    assert_eq!(world.slurm.serving().as_deref(), Some("slurmctld-2"));
    world.model.settle();
    assert_sound(&world, &["slurmctld-0", "slurmctld-2"]);
}
