//! A cluster that moves to a store and back while its jobs run, and what may come in between.

use crate::store::Side;
use crate::world::World;
use charm::UnitName;
use charm_testing::{FakeJob, Fault, Hook, Model};

const UNIT: &str = "slurmctld/0";

fn models() -> [Model; 2] {
    [Model::new(), Model::new().of_juju_3()]
}

fn unit() -> UnitName {
    UNIT.parse().unwrap()
}

/// A cluster on the local disk with a job that runs and one that waits.
fn busy(model: Model) -> (World, Vec<u64>) {
    let world = World::on_disk(model, 2);
    let jobs = vec![world.job("compute-1"), world.slurm.submit(FakeJob::waiting("compute", "Priority"))];
    (world, jobs)
}

/// Runs hooks, and lets the retry timer call some times, of a cluster that waits for something.
fn wait(world: &World) {
    world.model.run_hooks();
    for _ in 0..3 {
        world.model.tick();
    }
}

#[test]
fn a_cluster_moves_to_a_store_and_back_and_there_again() {
    for model in models() {
        let (world, jobs) = busy(model);
        for _ in 0..2 {
            for (wanted, side) in [(true, Side::Store), (false, Side::Disk)] {
                world.want_store(wanted);
                world.model.settle();
                world.assert_on(side);
                assert_eq!(world.slurm.jobs(), jobs);
                assert_eq!(world.machine(UNIT).has_mounted(), wanted);
            }
        }
    }
}

#[test]
fn others_join_after_the_move_and_go_before_the_way_back() {
    let mut world = World::moved(Model::new(), 1);
    world.job("compute-0");
    world.add_unit(&world.controllers.clone());
    world.model.settle();
    world.assert_controllers_agree();
    world.assert_takeovers_work();
    world.want_store(false);
    world.model.settle();
    assert!(world.status(UNIT).starts_with("blocked: option use-network-state `false`"), "{}", world.status(UNIT));
    world.assert_controllers_agree();
    world.model.remove_unit(&"slurmctld/1".parse().unwrap()).unwrap();
    world.model.settle();
    world.assert_on(Side::Disk);
}

#[test]
fn a_store_that_belongs_to_somebody_is_left_alone() {
    for (file, text) in [("state/.cluster", "other x/y\n"), ("state/job_state", "{}")] {
        let (world, jobs) = busy(Model::new());
        world.fake_store().write(file, text);
        world.want_store(true);
        wait(&world);
        assert!(world.status(UNIT).starts_with("blocked: cannot move to the store: "), "{}", world.status(UNIT));
        assert_eq!(world.fake_store().read(file).as_deref(), Some(text));
        assert!(world.machine(UNIT).is_running("slurmctld.service"));
        world.assert_whole();
        world.want_store(false);
        world.model.settle();
        world.assert_on(Side::Aside);
        assert_eq!(world.slurm.jobs(), jobs);
    }
}

#[test]
fn the_option_taken_back_while_the_mount_is_awaited_costs_nothing() {
    let (world, jobs) = busy(Model::new());
    world.want_store(true);
    world.model.run(&unit(), &Hook::named("config-changed")).unwrap();
    assert!(world.status(UNIT).starts_with("waiting: to move to the store"), "{}", world.status(UNIT));
    world.want_store(false);
    world.model.settle();
    world.assert_on(Side::Aside);
    assert_eq!(world.slurm.jobs(), jobs);
    world.want_store(true);
    world.model.settle();
    world.assert_on(Side::Store);
}

#[test]
fn a_store_that_fails_leaves_the_cluster_on_the_local_disk_and_is_moved_to_when_it_works() {
    for fault in [Fault::Silent, Fault::ReadOnly, Fault::Full, Fault::Gone] {
        let (world, jobs) = busy(Model::new());
        world.fake_store().fails(Some(fault));
        world.want_store(true);
        wait(&world);
        assert!(!world.status(UNIT).starts_with("active"), "{fault:?}: {}", world.status(UNIT));
        assert!(world.machine(UNIT).is_running("slurmctld.service"), "{fault:?}");
        world.assert_whole();
        world.fake_store().fails(None);
        world.model.settle();
        world.assert_on(Side::Store);
        assert_eq!(world.slurm.jobs(), jobs);
    }
}
