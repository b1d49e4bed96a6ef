//! Every controller is lost, and the store is there: a unit of the same application takes it up, and another
//! application adopts it.

use crate::world::{AUTH_SECRET, World};
use charm::UnitName;
use charm_testing::{Dispatched, FakeJob, FakeStore, Hook, Model};
use serde_json::json;
use std::time::Duration;

const SLURMCTLD: &str = "slurmctld.service";

fn leader() -> UnitName {
    "slurmctld/0".parse().unwrap()
}

/// What a cluster of another model has left: hosts that nobody here has, a job that runs and one that waits. Signs of
/// life are as old as `alive` says.
fn left_behind(alive: bool) -> FakeStore {
    let world = World::on_store(2, 1);
    world.job("compute-0");
    world.slurm.submit(FakeJob::waiting("compute", "Resources"));
    for unit in world.controller_units() {
        world.machines[&unit].crash(SLURMCTLD);
    }
    let store = world.fake_store().clone();
    for file in ["etc-slurm/slurm.conf", "etc-slurm/slurm.conf.accepted"] {
        store.write(file, &store.read(file).unwrap().replace("slurmctld-", "old-"));
    }
    store.write("state/.cluster", "lab other-model/slurmctld\n");
    if !alive {
        let _ = std::fs::remove_file(store.path("state/heartbeat"));
    }
    store
}

/// A unit that is blocked by its store, and one whose partition is closed, looks again for ever.
fn go_on(world: &World) {
    for _ in 0..8 {
        world.model.run_hooks();
        world.model.tick();
    }
}

/// A new model, whose controllers have come as far as they can by themselves.
fn newcomers(store: &FakeStore, controllers: usize) -> World {
    let world = World::to_be_on(store, Model::new(), controllers, 1);
    go_on(&world);
    world
}

fn adopt(world: &World, parameters: serde_json::Value) -> Dispatched {
    world.model.run(&leader(), &Hook::action("adopt", parameters)).unwrap()
}

/// The cluster goes on with this application's hosts alone, with the jobs and the key of before.
#[track_caller]
fn assert_adopted(world: &World, key: &str) {
    go_on(world);
    assert_eq!(world.fake_store().read("state/.cluster").unwrap().split(' ').next(), Some("lab"));
    let hosts: Vec<String> = world.controller_units().iter().map(|unit| world.machines[unit].host_name()).collect();
    assert_eq!(world.listed_hosts(), hosts, "{}", world.status("slurmctld/0"));
    assert_eq!(world.slurm.serving().as_deref(), Some("slurmctld-0"));
    assert_eq!(world.slurm.job_records().len(), 2, "{}", world.status("slurmctld/0"));
    let statuses: Vec<String> = world.units().iter().map(|unit| world.status(unit.as_str())).collect();
    let secret = world.model.secret(&world.controllers, AUTH_SECRET).unwrap_or_else(|| panic!("{statuses:#?}"));
    assert!(key.contains(&secret["key"]), "the key of the file counts");
    assert_eq!(world.fake_store().read("etc-slurm/slurm.jwks").as_deref(), Some(key));
    world.assert_nothing_lost();
}

#[test]
fn a_new_unit_takes_up_what_lost_controllers_of_its_application_left() {
    for model in [Model::new(), Model::new().of_juju_3()] {
        let mut world = World::on_store_of(model, 2, 1);
        let job = world.job("compute-0");
        for unit in world.controller_units() {
            world.machines[&unit].crash(SLURMCTLD);
            world.model.remove_unit_force(&unit).unwrap();
        }
        world.add_unit(&world.controllers.clone());
        world.model.settle();
        world.slurm.fail_over();
        world.model.settle();
        assert_eq!(world.listed_hosts(), ["slurmctld-2"], "{}", world.status("slurmctld/2"));
        assert!(world.slurm.jobs().contains(&job));
        world.assert_controllers_agree();
        world.assert_takeovers_work();
        world.assert_rest();
    }
}

#[test]
fn a_store_of_another_model_is_left_alone_until_the_operator_names_the_cluster() {
    let store = left_behind(false);
    let world = newcomers(&store, 1);
    let blocked = "blocked: the store is cluster lab's: check the mount, or run `adopt cluster=lab`; it is of \
        other-model/slurmctld";
    assert_eq!(world.status("slurmctld/0"), blocked);
    let refused = adopt(&world, json!({"cluster": "prod"})).failure.unwrap();
    assert_eq!(refused, "the cluster on the store is `lab`, and not `prod`");
    assert_eq!(world.status("slurmctld/0"), blocked);
    assert_eq!(store.read("state/.cluster").unwrap(), "lab other-model/slurmctld\n");
    assert_eq!(world.slurm.serving(), None);
}

#[test]
fn an_adopted_cluster_keeps_jobs_keys_and_partitions() {
    for controllers in [1, 2] {
        let store = left_behind(false);
        let key = store.read("etc-slurm/slurm.jwks").unwrap();
        let world = newcomers(&store, controllers);
        let done = adopt(&world, json!({"cluster": "lab"}));
        assert_eq!((done.failure, done.results["adopted-from"].as_str()), (None, "other-model/slurmctld"));
        assert_eq!(world.slurm.list_of("slurmctld-0"), Some(world.listed_hosts()), "no other list, from the start");
        assert_adopted(&world, &key);
        // Nobody has integrated the application of that name: its partition takes no job, and loses none.
        assert_eq!(world.slurm.partitions()["compute"], "INACTIVE");
        world.integrate();
        go_on(&world);
        assert_eq!(world.slurm.partitions()["compute"], "UP");
        assert_adopted(&world, &key);
        let again = adopt(&world, json!({"cluster": "lab"}));
        assert_eq!(again.failure, None);
        assert_adopted(&world, &key);
        if controllers == 2 {
            let other = "slurmctld/1".parse().unwrap();
            let refused = world.model.run(&other, &Hook::action("adopt", json!({"cluster": "lab"}))).unwrap().failure;
            assert!(refused.unwrap().starts_with("only the leader adopts a cluster"));
        }
        // Another model takes it away: this application is a cluster already, and gets no other one.
        store.write("state/.cluster", "prod elsewhere/slurmctld\n");
        let refused = adopt(&world, json!({"cluster": "prod"})).failure.unwrap();
        assert!(refused.starts_with("this application is cluster lab"), "{refused}");
    }
}

#[test]
fn a_cluster_that_is_alive_is_adopted_by_force_only_and_its_controllers_are_waited_for() {
    let store = left_behind(true);
    let key = store.read("etc-slurm/slurm.jwks").unwrap();
    let world = newcomers(&store, 1);
    let refused = adopt(&world, json!({"cluster": "lab"})).failure.unwrap();
    assert!(refused.starts_with("the cluster is alive: slurmctld of old-0 serves."), "{refused}");
    assert_eq!(store.read("state/.cluster").unwrap(), "lab other-model/slurmctld\n");
    assert_eq!(adopt(&world, json!({"cluster": "lab", "force": true})).failure, None);
    let status = world.status("slurmctld/0");
    assert_eq!(status, "waiting: for slurmctld of old-0 to end: the cluster was adopted");
    assert_eq!(world.slurm.serving(), None);
    world.slurm.pass(Duration::from_secs(3600));
    assert_adopted(&world, &key);
}

#[test]
fn an_adoption_that_is_killed_anywhere_ends_the_same() {
    for at in 0.. {
        let store = left_behind(false);
        let key = store.read("etc-slurm/slurm.jwks").unwrap();
        let world = newcomers(&store, 1);
        world.model.knife().kill_before(at);
        let killed = adopt(&world, json!({"cluster": "lab"})).killed;
        go_on(&world);
        if world.model.knife().spare() {
            assert!(at > 10, "only {at} effects");
            return;
        }
        println!("killed before effect {at}, {}", world.model.knife().effects()[at]);
        // Only before the marker is replaced the operator has to ask again.
        if killed && store.read("state/.cluster").unwrap().contains("other-model") {
            assert_eq!(adopt(&world, json!({"cluster": "lab"})).failure, None);
        }
        assert_adopted(&world, &key);
    }
}
