//! The stage itself: what a story may rely on at its end.

use crate::world::World;
use charm_testing::{FakeJob, Model};

#[test]
fn a_cluster_of_several_applications_is_whole() {
    for model in [Model::new(), Model::new().of_juju_3()] {
        let world = World::of_apps(model, &[("compute", 2), ("gpu", 1)]);
        let nodes = world.slurm.nodes();
        assert_eq!(nodes.keys().collect::<Vec<_>>(), ["compute-0", "compute-1", "gpu-0"]);
        let jobs = [world.job("compute-1"), world.job("gpu-0")];
        world.slurm.submit(FakeJob::insisting("gpu", "gpu-0"));
        world.slurm.end_job(jobs[0]);
        world.assert_whole();
        assert_eq!(world.slurm.jobs(), [2, 3]);
        assert_eq!(world.units().len(), 4);
    }
}

#[test]
#[should_panic(expected = "[\"compute-0\"] are still there")]
fn an_application_with_a_node_is_not_gone() {
    World::at_rest().0.assert_gone("compute");
}

#[test]
fn an_application_that_never_came_is_gone() {
    World::at_rest().0.assert_gone("gpu");
}

#[test]
#[should_panic(expected = "job 1: machine of compute-1 was given back")]
fn a_cluster_that_lost_a_job_is_not_whole() {
    let world = World::of_apps(Model::new(), &[("compute", 2)]);
    world.job("compute-1");
    world.model.remove_unit_force(&"compute/1".parse().unwrap()).unwrap();
    world.assert_whole();
}
