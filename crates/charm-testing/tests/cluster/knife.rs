//! The whole story of a deployment, killed before each of its effects in turn. Juju runs the hook again, and all end
//! the same.

use crate::world::{End, World};

fn story(at: usize) -> (World, End) {
    let world = World::new();
    world.model.knife().kill_before(at);
    world.model.run_hooks();
    let (relation, _) = world.integrate();
    world.model.settle();
    let end = world.end(&relation);
    (world, end)
}

#[test]
fn a_deployment_killed_before_any_effect_ends_the_same() {
    let (_, calm) = story(usize::MAX);
    assert!(calm.keys_agree && calm.losses.is_empty());
    for at in 0.. {
        let (world, end) = story(at);
        if world.model.knife().spare() {
            assert!(at > 60, "only {at} effects");
            return;
        }
        let effects = world.model.knife().effects();
        if let Some(difference) = end.difference(&calm) {
            panic!("killed before effect {at}, {}:\n{difference}", effects[at]);
        }
        world.assert_rest();
    }
}
