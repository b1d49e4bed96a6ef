//! A key that is replaced by units that are killed before each of their effects in turn. Juju runs the hook again, an
//! operator the action, and all end with the new key alone.

use crate::rotation::{assert_one_key, complete, ids, rotate, work};
use crate::world::World;
use serde_json::json;

/// Rotates until it is done. An action that was killed is run again by its operator.
fn story(world: &World) {
    let mut killed = rotate(world, json!({})).killed;
    while killed {
        killed = rotate(world, json!({})).killed;
    }
    work(world, 60);
}

#[track_caller]
fn tell(stage: impl Fn() -> World, least: usize) {
    for at in 0.. {
        let world = stage();
        let before = ids(world.controller());
        world.model.knife().kill_before(at);
        story(&world);
        if world.model.knife().spare() {
            assert!(at > least, "only {at} effects");
            return;
        }
        // Shown if what follows fails.
        println!("killed before effect {at}, {}", world.model.knife().effects()[at]);
        assert_one_key(&world, &before[0]);
        world.assert_rest();
    }
}

#[test]
fn a_rotation_killed_before_any_effect_ends_the_same() {
    tell(|| complete(World::new()), 60);
}

#[test]
fn a_rotation_of_several_controllers_killed_before_any_effect_ends_the_same() {
    tell(|| World::on_store(2, 1), 60);
}
