//! Login nodes: they join, follow the controllers through whatever happens to them, and leave nothing behind.

use crate::world::{CONF, End, KEY_FILE, World};
use charm_testing::{Hook, Model};

const SLURMCTLD: &str = "slurmctld.service";
const SACKD: &str = "sackd.service";
const FETCHED: &str = "/run/slurm/conf/slurm.conf";
const OPTIONS: &str = "/etc/default/sackd";
const WELL: &str = "active: login node of slurmctld";

fn both() -> [Model; 2] {
    [Model::new(), Model::new().of_juju_3()]
}

/// A cluster with a node and a login node, at rest.
fn with_login(model: Model) -> World {
    let mut world = World::on(model);
    world.add_login();
    world.integrate();
    world.integrate_logins();
    world.model.settle();
    world
}

/// What login nodes have fetched is what the controllers have.
#[track_caller]
fn assert_follows(world: &World) {
    assert_eq!(world.status("login/0"), WELL);
    assert_eq!(world.machine("login/0").read(FETCHED), world.controller().read(CONF));
    assert!(world.machine("login/0").ask_scontrol(&["show", "partition"]).is_ok());
}

#[test]
fn a_login_node_joins_in_any_order() {
    for order in [[true, false], [false, true]] {
        for model in both() {
            let mut world = World::on(model);
            world.add_login();
            world.model.settle();
            assert_eq!(world.status("login/0"), "blocked: no controller: `juju integrate login slurmctld`");
            for logins in order {
                drop(if logins { world.integrate_logins() } else { world.integrate() });
                world.model.settle();
            }
            assert_follows(&world);
            assert_eq!(world.model.ports(&"login/0".parse().unwrap()), ["6818/tcp"]);
            assert_eq!(world.machine("login/0").read(KEY_FILE), world.controller().read(KEY_FILE));
            world.assert_rest();
        }
    }
}

#[test]
fn a_changed_configuration_reaches_it_without_a_restart() {
    let world = with_login(Model::new());
    world.machine("login/0").take_calls();
    world.model.set_option(&world.computes, "partition-config", "MaxTime=60".into()).unwrap();
    world.model.settle();
    assert_follows(&world);
    assert!(!world.machine("login/0").take_calls().iter().any(|call| call.contains("start ")));
    world.assert_rest();
}

#[test]
fn a_slurmctld_that_has_forgotten_it_is_made_to_know_it_again() {
    for model in both() {
        let world = with_login(model);
        world.controller().crash(SLURMCTLD);
        world.controller().revive(SLURMCTLD);
        world.model.set_option(&world.computes, "partition-config", "MaxTime=60".into()).unwrap();
        world.model.settle();
        assert_follows(&world);
        world.assert_rest();
    }
}

#[test]
fn a_login_node_without_a_controller_waits_and_says_for_whom() {
    let world = with_login(Model::new());
    world.controller().crash(SLURMCTLD);
    world.model.run(&"login/0".parse().unwrap(), &Hook::named("update-status")).unwrap();
    assert_eq!(world.status("login/0"), "waiting: for slurmctld-0:6817 to answer");
    world.controller().revive(SLURMCTLD);
    world.model.settle();
    assert_follows(&world);
}

#[test]
fn an_ended_relation_takes_key_and_options_along_and_a_new_one_brings_them_back() {
    for model in both() {
        let world = with_login(model);
        world.model.remove_relation(&world.model.relations(&world.controllers, "sackd")[0]);
        world.model.settle();
        let machine = world.machine("login/0");
        assert_eq!(world.status("login/0"), "blocked: no controller: `juju integrate login slurmctld`");
        assert!(machine.read(KEY_FILE).is_none() && !machine.is_running(SACKD));
        assert!(!machine.read(OPTIONS).unwrap_or_default().contains("conf-server"));
        assert!(world.model.ports(&"login/0".parse().unwrap()).is_empty());
        world.assert_rest();
        world.integrate_logins();
        world.model.settle();
        assert_follows(&world);
    }
}

fn story(at: usize) -> (World, End) {
    let mut world = World::new();
    world.add_login();
    world.model.knife().kill_before(at);
    world.model.run_hooks();
    world.integrate();
    let (relation, _) = world.integrate_logins();
    world.model.settle();
    world.model.set_option(&world.computes, "partition-config", "MaxTime=60".into()).unwrap();
    world.model.settle();
    let end = world.end(&relation);
    (world, end)
}

#[test]
fn a_cluster_with_a_login_node_killed_before_any_effect_ends_the_same() {
    let (_, calm) = story(usize::MAX);
    assert!(calm.keys_agree && calm.losses.is_empty());
    for at in 0.. {
        let (world, end) = story(at);
        if world.model.knife().spare() {
            assert!(at > 100, "only {at} effects");
            return;
        }
        let effects = world.model.knife().effects();
        if let Some(difference) = end.difference(&calm) {
            panic!("killed before effect {at}, {}:\n{difference}", effects[at]);
        }
        world.assert_rest();
    }
}
