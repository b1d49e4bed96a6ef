//! `--force`: at once in 4.x, in two steps of a minute in 3.6.

use crate::clock::Moment;
use crate::hooks::world::{World, unit};
use crate::model::{Force, Life, Release, Running};

const MINUTE: u64 = 60_000;

/// What the jobs of the model do when so much time has passed since now.
fn after(world: &mut World, millis: u64) {
    world.model.run_removal_jobs(Moment::now().plus_millis(millis));
}

#[test]
fn in_3_a_forced_unit_that_hangs_is_dead_after_a_minute_and_gone_after_another() {
    let mut world = World::related(Release::V3, 1);
    let name = unit("client/0");
    world.model.remove_unit(&name, Force::Yes);
    world.hold("client/0");
    world.model.units.get_mut(&name).unwrap().uniter.running = Some(Running::Commands);
    after(&mut world, MINUTE - 1000);
    assert_eq!(world.model.units[&name].life, Life::Dying);
    assert!(world.model.relations.values().any(|relation| relation.unit_bags.contains_key(&name)));
    after(&mut world, MINUTE + 1000);
    assert_eq!(world.model.units[&name].life, Life::Dead);
    assert!(!world.model.relations.values().any(|relation| relation.unit_bags.contains_key(&name)));
    after(&mut world, 2 * MINUTE + 2000);
    assert!(!world.model.units.contains_key(&name));
}

#[test]
fn in_3_a_forced_unit_with_nothing_to_wait_for_is_gone_after_a_minute() {
    let mut world = World::related(Release::V3, 1);
    world.model.remove_unit(&unit("client/0"), Force::Yes);
    world.hold("client/0");
    after(&mut world, MINUTE + 1000);
    assert!(!world.model.units.contains_key(&unit("client/0")));
}

#[test]
fn a_second_order_without_wait_overtakes_the_first() {
    let mut world = World::related(Release::V3, 1);
    let name = unit("client/0");
    world.model.remove_unit(&name, Force::Yes);
    world.model.units.get_mut(&name).unwrap().uniter.running = Some(Running::Commands);
    world.model.remove_unit(&name, Force::AtOnce);
    after(&mut world, 1000);
    after(&mut world, 2000);
    assert!(!world.model.units.contains_key(&name));
}

#[test]
fn a_forced_machine_leaves_its_units_a_minute_in_both_lines() {
    for release in [Release::V3, Release::V4] {
        let mut world = World::related(release, 1);
        let machine = world.model.units[&unit("client/0")].machine.clone();
        world.model.remove_machine(&machine, Force::Yes);
        world.hold("client/0");
        after(&mut world, MINUTE - 1000);
        assert!(world.model.units.contains_key(&unit("client/0")), "{release:?}");
        after(&mut world, MINUTE + 1000);
        after(&mut world, 2 * MINUTE);
        assert!(!world.model.units.contains_key(&unit("client/0")), "{release:?}");
        assert!(!world.model.machines.contains_key(&machine), "{release:?}");
    }
}

#[test]
fn subordinates_of_a_forced_unit_go_with_it() {
    for release in [Release::V3, Release::V4] {
        let mut world = World::related(release, 1);
        let machine = world.model.units[&unit("client/0")].machine.clone();
        let follower = world.model.units.get_mut(&unit("server/0")).unwrap();
        follower.principal = Some(unit("client/0"));
        follower.machine = machine.clone();
        world.hold("client/0");
        world.hold("server/0");
        world.model.remove_unit(&unit("client/0"), Force::AtOnce);
        (1..5).for_each(|second| after(&mut world, second * 1000));
        assert!(world.model.units.is_empty(), "{release:?}");
        after(&mut world, MINUTE);
        assert!(!world.model.machines.contains_key(&machine), "{release:?}");
    }
}
