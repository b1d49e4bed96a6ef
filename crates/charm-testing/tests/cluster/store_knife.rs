//! Controllers on a store that come, killed before each of their effects in turn. Juju runs the hook again, and all end
//! the same.

use crate::world::World;
use charm_testing::Model;

fn story(at: usize) -> World {
    let world = World::to_be_on_store(Model::new(), 2, 1);
    world.model.knife().kill_before(at);
    world.model.run_hooks();
    world.integrate();
    world.model.settle();
    world
}

#[test]
fn controllers_on_a_store_killed_before_any_effect_end_the_same() {
    for at in 0.. {
        let world = story(at);
        if world.model.knife().spare() {
            assert!(at > 60, "only {at} effects");
            return;
        }
        // Shown if what follows fails.
        println!("killed before effect {at}, {}", world.model.knife().effects()[at]);
        world.assert_controllers_agree();
        world.assert_takeovers_work();
        world.assert_rest();
    }
}
