//! The stage with several controllers: what a story may rely on at its end.

use crate::world::World;
use charm_testing::Model;

#[test]
fn a_client_mounts_the_store_once_the_leader_has_asked_for_it() {
    for model in [Model::new(), Model::new().of_juju_3()] {
        let world = World::to_be_on_store(model, 2, 0);
        world.model.settle();
        for unit in ["slurmctld/0", "slurmctld/1"] {
            assert!(world.machine(unit).has_mounted(), "{unit}: {}", world.status(unit));
        }
    }
}

#[test]
fn a_store_goes_with_the_unit_that_mounted_it() {
    for model in [Model::new(), Model::new().of_juju_3()] {
        let world = World::to_be_on_store(model, 2, 0);
        world.model.settle();
        let machine = world.machine("slurmctld/1").clone();
        world.model.remove_unit(&"slurmctld/1".parse().unwrap()).unwrap();
        world.model.settle();
        assert!(!machine.has_mounted() && world.machine("slurmctld/0").has_mounted());
        assert_eq!(world.controller_units().len(), 1);
    }
}

#[test]
fn several_controllers_on_a_store_become_a_cluster() {
    for count in [1, 2, 3] {
        let world = World::on_store(count, 2);
        let statuses: Vec<String> = world.units().iter().map(|unit| world.status(unit.as_str())).collect();
        assert_eq!(world.listed_hosts().len(), count, "{statuses:#?}");
        world.assert_rest();
        world.job("compute-1");
        world.assert_controllers_agree();
        world.assert_takeovers_work();
        world.assert_controllers_agree();
    }
}
