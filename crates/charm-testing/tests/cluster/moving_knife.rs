//! A cluster that moves, killed before each of its effects in turn; with a machine that boots then, and with a store
//! that goes silent in that moment. It ends on one side, with all jobs.

use crate::store::Side;
use crate::world::World;
use charm_testing::{Fault, Model};

const UNIT: &str = "slurmctld/0";

fn to_store() -> World {
    World::on_disk(Model::new(), 1)
}

fn to_disk() -> World {
    World::moved(Model::new(), 1)
}

/// Runs hooks until an effect has been reached. Tells whether it was.
fn reached(world: &World, at: usize) -> bool {
    while world.model.knife().effects().len() <= at {
        if world.model.run_round().is_none() {
            return false;
        }
    }
    true
}

/// Tells a move once for each of its effects, which then does not happen.
#[track_caller]
fn killed(stage: impl Fn() -> World, side: Side, meanwhile: impl Fn(&World), least: usize) {
    for at in 0.. {
        let world = stage();
        let job = world.job("compute-0");
        world.want_store(side == Side::Store);
        world.model.knife().kill_before(at);
        if !reached(&world, at) {
            assert!(world.model.knife().spare() && at > least, "only {at} effects");
            return;
        }
        println!("killed before effect {at}, {}", world.model.knife().effects()[at]);
        meanwhile(&world);
        world.model.settle();
        world.assert_on(side);
        assert_eq!(world.slurm.jobs(), [job]);
    }
}

/// A boot: what systemd starts by itself is what serves until the charm is called.
fn boots(world: &World) {
    world.model.reboot(&UNIT.parse().unwrap());
    world.assert_nothing_lost();
}

/// The store does not answer for a while.
fn is_silent(world: &World) {
    world.fake_store().fails(Some(Fault::Silent));
    world.model.run_hooks();
    world.model.tick();
    world.model.tick();
    world.assert_nothing_lost();
    world.fake_store().fails(None);
    // A fence looks once a second.
    world.machine(UNIT).fence_looks();
}

#[test]
fn a_move_to_the_store() {
    killed(to_store, Side::Store, |_| (), 40);
}

#[test]
fn a_move_to_the_disk() {
    killed(to_disk, Side::Disk, |_| (), 30);
}

#[test]
fn a_move_to_the_store_by_a_machine_that_boots() {
    killed(to_store, Side::Store, boots, 40);
}

#[test]
fn a_move_to_the_disk_by_a_machine_that_boots() {
    killed(to_disk, Side::Disk, boots, 30);
}

#[test]
fn a_move_to_a_store_that_goes_silent_then() {
    killed(to_store, Side::Store, is_silent, 40);
}

#[test]
fn a_move_from_a_store_that_goes_silent_then() {
    killed(to_disk, Side::Disk, is_silent, 30);
}

/// The option is taken back where the move was killed.
#[test]
fn a_move_that_is_taken_back_half_way_ends_on_one_side() {
    for at in 0.. {
        let world = to_store();
        let job = world.job("compute-0");
        world.want_store(true);
        world.model.knife().kill_before(at);
        if !reached(&world, at) {
            return assert!(world.model.knife().spare() && at > 40, "only {at} effects");
        }
        println!("killed before effect {at}, {}", world.model.knife().effects()[at]);
        world.want_store(false);
        world.model.settle();
        match world.machine(UNIT).link_target("/etc/slurm") {
            // It had made way, or not even that.
            None if world.machine(UNIT).read("/var/lib/slurm/local/state/.cluster").is_none() => world.assert_whole(),
            None => world.assert_on(Side::Aside),
            // It had been on the store, and is back.
            Some(_) => world.assert_on(Side::Disk),
        }
        assert_eq!(world.slurm.jobs(), [job]);
    }
}

/// Nobody is killed: the store stops to answer in the middle of a move. Where the state is on the local disk slurmctld
/// serves again when the hook has ended.
#[test]
fn a_store_that_goes_silent_in_the_middle_ends_the_move_and_nothing_else() {
    for (stage, side) in [(to_store as fn() -> World, Side::Store), (to_disk, Side::Disk)] {
        for at in 0.. {
            let world = stage();
            let job = world.job("compute-0");
            world.want_store(side == Side::Store);
            let store = world.fake_store().clone();
            world.model.knife().surprise_before(at, move || store.fails(Some(Fault::Silent)));
            if !reached(&world, at) {
                assert!(world.model.knife().spare() && at > 30, "only {at} effects");
                break;
            }
            println!("{side:?}: silent before effect {at}, {}", world.model.knife().effects()[at]);
            world.model.run_hooks();
            let machine = world.machine(UNIT);
            if machine.read("/var/lib/slurm/local/state/.cluster").is_some() {
                assert!(machine.is_running("slurmctld.service"), "{}", world.status(UNIT));
            }
            world.model.tick();
            world.assert_nothing_lost();
            world.fake_store().fails(None);
            machine.fence_looks();
            world.model.settle();
            world.assert_on(side);
            assert_eq!(world.slurm.jobs(), [job]);
        }
    }
}
