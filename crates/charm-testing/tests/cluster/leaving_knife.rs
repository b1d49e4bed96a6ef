//! Stories of leaving, killed before each of their effects in turn, in hooks and in calls of timers. All end the same.

use crate::departures::busy;
use crate::world::{End, World};
use charm_testing::Model;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Says where a story was cut that fails.
struct Cut<'w> {
    world: &'w World,
    at: usize,
    effects: Option<Vec<String>>,
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let effects = self.effects.take().unwrap_or_else(|| self.world.model.knife().effects());
            eprintln!("killed before effect {} of {effects:#?}", self.at);
        }
    }
}

/// Tells a story as often as it has effects, each time killed before another one, and looks at each end: `check` may
/// still add to it, under no knife.
#[track_caller]
fn at_every_effect(least: usize, begin: impl Fn() -> World, tell: impl Fn(&World), check: impl Fn(&World)) {
    let mut calm: Option<End> = None;
    for at in (0..).map(|at: usize| at.checked_sub(1).unwrap_or(usize::MAX)) {
        let world = begin();
        world.model.knife().kill_before(at);
        let mut cut = Cut { world: &world, at, effects: None };
        tell(&world);
        cut.effects = Some(world.model.knife().effects());
        let over = at != usize::MAX && world.model.knife().spare();
        world.model.knife().spare();
        check(&world);
        let end = world.units().iter().any(|unit| unit.app() == world.controllers).then(|| world.end(&any(&world)));
        match (&calm, end) {
            (None, Some(end)) => calm = Some(end),
            (Some(calm), Some(end)) => assert_eq!(end.difference(calm), None),
            _ => {}
        }
        drop(cut);
        if over {
            assert!(at > least, "only {at} effects");
            return;
        }
    }
}

/// A relation to look at. After some stories none is left.
fn any(world: &World) -> charm::RelationId {
    world.relation("compute").unwrap_or_else(|| "slurmd:99".parse().unwrap())
}

/// A job ends when its unit has waited so often, however many hooks that took.
fn end_in_time(world: &World, job: u64) {
    let (slurm, pauses) = (world.slurm.clone(), AtomicUsize::new(0));
    world.model.while_waiting(move |model, _, _| {
        model.run_round();
        model.tick();
        if pauses.fetch_add(1, Ordering::SeqCst) >= 2 {
            slurm.end_job(job);
        }
    });
}

#[test]
fn a_unit_that_is_removed() {
    at_every_effect(
        12,
        || World::of_apps(Model::new(), &[("compute", 2)]),
        |world| {
            end_in_time(world, world.job("compute-1"));
            world.see_off("compute/1");
        },
        |world| {
            world.slurm.age_out();
            world.assert_well();
        },
    );
}

#[test]
fn a_relation_that_is_removed() {
    at_every_effect(
        25,
        || World::of_apps(Model::new(), &[("compute", 1)]),
        |world| {
            let job = world.job("compute-0");
            world.separate();
            world.ticks(2);
            world.slurm.end_job(job);
            world.ticks(2);
            world.slurm.age_out();
            world.model.settle();
        },
        |world| {
            world.assert_left("compute/0");
            world.assert_gone("compute");
            assert!(world.has("compute/0"));
            world.assert_well();
        },
    );
}

#[test]
fn an_application_that_is_removed() {
    at_every_effect(
        25,
        || World::of_apps(Model::new(), &[("compute", 1)]),
        |world| {
            end_in_time(world, world.job("compute-0"));
            world.model.remove_application(&world.computes).unwrap();
            world.fade();
        },
        |world| {
            world.assert_removed("compute/0");
            world.assert_gone("compute");
            assert!(!world.model.has_application(&world.computes));
            world.assert_well();
        },
    );
}

#[test]
fn a_relation_that_is_made_again_while_a_job_runs() {
    at_every_effect(
        15,
        || World::of_apps(Model::new(), &[("compute", 1)]),
        |world| {
            world.job("compute-0");
            world.part_for(1);
        },
        |world| {
            assert_eq!(world.slurm.nodes()["compute-0"], "MIXED+DYNAMIC_NORM");
            assert_eq!(world.slurm.partitions()["compute"], "UP");
            assert_eq!(world.slurm.jobs(), [1]);
            world.assert_well();
        },
    );
}

#[test]
fn a_relation_that_is_made_again_while_its_node_and_its_partition_are_being_taken_away() {
    at_every_effect(
        15,
        || {
            let (world, job) = busy(Model::new(), 1, "compute-0");
            world.separate();
            world.slurm.end_job(job);
            world.slurm.age_out();
            world
        },
        // A call that was killed is not repeated before the relation is there.
        |world| drop(world.model.tick()),
        |world| {
            world.integrate();
            world.model.settle();
            assert_eq!(world.slurm.nodes()["compute-0"], "IDLE+DYNAMIC_NORM");
            assert_eq!(world.slurm.partitions()["compute"], "UP");
            world.assert_well();
        },
    );
}

#[test]
fn controllers_that_go_first() {
    at_every_effect(
        8,
        || World::of_apps(Model::new(), &[("compute", 1)]),
        |world| {
            let job = world.job("compute-0");
            world.model.remove_application(&world.controllers).unwrap();
            world.ticks(2);
            world.slurm.pass(Duration::from_secs(30));
            world.ticks(2);
            world.slurm.end_job(job);
            world.model.settle();
        },
        |world| {
            assert!(!world.has("slurmctld/0"));
            world.assert_bare("compute/0");
            world.assert_nothing_lost();
            world.assert_rest();
        },
    );
}

#[test]
fn everything_at_once() {
    at_every_effect(
        8,
        || World::of_apps(Model::new().of_juju_3(), &[("compute", 1)]),
        |world| {
            end_in_time(world, world.job("compute-0"));
            world.model.destroy();
            world.model.settle();
        },
        |world| {
            assert!(world.units().is_empty(), "{:?}", world.units());
            world.assert_bare("compute/0");
            world.assert_nothing_lost();
        },
    );
}
