//! Units on the machine of another unit: whom they see, and how they go.

use crate::schedule_tests::{of, unit};
use crate::{FakeMachine, FakeSlurm, Hook, Model};
use charm::{AppName, RelationId, UnitName};
use std::process::ExitCode;

const HOST: &str = "
provides: {mount: {interface: mount_info, scope: container}}
peers: {mates: {interface: mates}}
";
const GUEST: &str = "requires: {mount: {interface: mount_info, scope: container}}";

struct World {
    model: Model,
    host: AppName,
    guest: AppName,
    relation: RelationId,
}

fn add(world: &World) -> (UnitName, FakeMachine) {
    let principal = world.model.add_unit(&world.host).unwrap();
    let machine = FakeMachine::of(&principal).in_cluster(&FakeSlurm::new());
    let guest = world.model.add_subordinate(&world.guest, &principal).unwrap();
    for unit in [&principal, &guest] {
        world.model.host(unit, &machine, &[], |_, _, _| ExitCode::SUCCESS).unwrap();
    }
    (principal, machine)
}

/// Two machines with a guest each, at rest.
fn world(model: Model) -> World {
    let (host, guest) = (model.deploy("host", HOST).unwrap(), model.deploy("guest", GUEST).unwrap());
    let (relation, _) = model.integrate((&host, "mount"), (&guest, "mount")).unwrap();
    let world = World { model, host, guest, relation };
    add(&world);
    add(&world);
    world.model.settle();
    world
}

fn members(world: &World, of: &str) -> usize {
    let mut count = 0;
    let look = |_, tools: charm::Tools| {
        count = tools.relation_list(&world.relation).unwrap().len();
        ExitCode::SUCCESS
    };
    world.model.dispatch(&unit(of), &[], &Hook::named("update-status"), look).unwrap();
    count
}

#[test]
fn a_guest_sees_its_own_host_and_on_juju_4_every_other_one() {
    for (model, seen) in [(Model::new().of_juju_3(), 1), (Model::new(), 2)] {
        let world = world(model);
        assert_eq!((members(&world, "host/1"), members(&world, "guest/0")), (seen, seen));
    }
}

#[test]
fn a_unit_that_is_removed_takes_its_guest_along_and_goes_last() {
    for model in [Model::new().of_juju_3(), Model::new()] {
        let world = world(model);
        world.model.remove_unit(&unit("host/1")).unwrap();
        let ran: Vec<String> = world.model.settle().iter().map(ToString::to_string).collect();
        let position = |wanted: &str| ran.iter().position(|one| one == wanted).unwrap();
        assert!(position("guest/1 mount-relation-broken") < position("host/1 stop"), "{ran:#?}");
        assert!(position("guest/1 remove") < position("host/1 remove"), "{ran:#?}");
        assert!(!world.model.has_unit(&unit("host/1")) && !world.model.has_unit(&unit("guest/1")));
        assert!(world.model.has_unit(&unit("guest/0")));
        assert!(world.model.settle().is_empty());
    }
}

#[test]
fn force_takes_host_and_guest_at_once() {
    let world = world(Model::new());
    world.model.remove_unit_force(&unit("host/0")).unwrap();
    assert!(!world.model.has_unit(&unit("guest/0")));
    let ran = world.model.settle();
    assert!(of(&ran, "guest/0").is_empty() && of(&ran, "host/0").is_empty());
}

#[test]
fn a_guest_whose_relation_has_ended_goes_and_leaves_the_machine() {
    for model in [Model::new().of_juju_3(), Model::new()] {
        let world = world(model);
        world.model.remove_relation(&world.relation);
        world.model.settle();
        // Some seconds pass.
        world.model.tick();
        assert!(!world.model.has_unit(&unit("guest/0")) && world.model.has_unit(&unit("host/0")));
        assert!(world.model.run(&unit("host/0"), &Hook::named("update-status")).unwrap().succeeded);
    }
}

#[test]
fn a_boot_is_told_to_host_and_guest() {
    let world = world(Model::new());
    world.model.reboot(&unit("host/1"));
    let ran = world.model.settle();
    assert_eq!((of(&ran, "host/1"), of(&ran, "guest/1")), (vec!["start".into()], vec!["start".into()]));
}
