//! Controllers on a store that come and go, killed before each of their effects in turn. Juju runs the hook again, and
//! all end the same.

use crate::world::World;
use charm_testing::Model;

/// Tells a story on a stage once for each of its effects, which then does not happen. Nothing may be lost, and whoever is
/// lost next costs nothing.
#[track_caller]
fn tell(stage: impl Fn() -> World, story: impl Fn(&mut World), least: usize) {
    for at in 0.. {
        let mut world = stage();
        world.model.knife().kill_before(at);
        story(&mut world);
        if world.model.knife().spare() {
            assert!(at > least, "only {at} effects");
            return;
        }
        // Shown if what follows fails.
        println!("killed before effect {at}, {}", world.model.knife().effects()[at]);
        world.assert_controllers_agree();
        world.assert_takeovers_work();
        world.assert_rest();
    }
}

#[test]
fn two_controllers_that_are_deployed() {
    let stage = || World::to_be_on_store(Model::new(), 2, 1);
    let story = |world: &mut World| {
        world.model.run_hooks();
        world.integrate();
        world.model.settle();
    };
    tell(stage, story, 60);
}

#[test]
fn a_third_controller_that_joins() {
    let story = |world: &mut World| {
        world.add_unit(&world.controllers.clone());
        world.model.settle();
    };
    tell(|| World::on_store(2, 1), story, 20);
}

#[test]
fn a_controller_that_serves_and_leaves() {
    let story = |world: &mut World| {
        world.model.remove_unit(&"slurmctld/0".parse().unwrap()).unwrap();
        world.model.settle();
    };
    tell(|| World::on_store(3, 1), story, 10);
}

#[test]
fn a_partition_that_changes_while_a_backup_serves() {
    let stage = || {
        let world = World::on_store(2, 1);
        world.machine("slurmctld/0").crash("slurmctld.service");
        world.slurm.fail_over();
        world
    };
    let story = |world: &mut World| {
        world.model.set_option(&world.computes, "partition-config", "MaxTime=60".into()).unwrap();
        world.model.settle();
        assert!(world.serving().partitions()[0].contains("maxtime=60"));
    };
    tell(stage, story, 5);
}
