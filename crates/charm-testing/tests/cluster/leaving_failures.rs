//! A relation ends, and meanwhile a tool of Juju or a program of a machine fails once, now here, now there. All end the
//! same.

use crate::world::World;
use charm_testing::Model;

/// Tells the story with a failure at every so many calls. `order` has the call after so many others fail, and `spare`
/// tells whether it did not come.
fn here_and_there(order: impl Fn(&World, usize), spare: impl Fn(&World) -> bool) {
    /// All of them take minutes. No period of the charms' own is a multiple of it.
    const STRIDE: usize = 17;
    for at in (0..).step_by(STRIDE) {
        let world = World::of_apps(Model::new(), &[("compute", 1)]);
        order(&world, at);
        let job = world.job("compute-0");
        world.separate();
        world.ticks(2);
        assert_eq!(world.slurm.jobs(), [job], "failure {at}");
        world.slurm.end_job(job);
        world.ticks(3);
        world.slurm.age_out();
        world.model.settle();
        let over = spare(&world);
        world.assert_left("compute/0");
        world.assert_gone("compute");
        world.assert_well();
        if over {
            assert!(at > 2 * STRIDE, "only {at} calls");
            return;
        }
    }
}

#[test]
fn a_tool_of_juju() {
    here_and_there(|world, at| world.model.fail_after(at), |world| world.model.spare());
}

#[test]
fn a_program_of_the_node() {
    here_and_there(|world, at| world.machine("compute/0").fail_after(at), |world| world.machine("compute/0").spare());
}

#[test]
fn a_program_of_the_controller() {
    let unit = "slurmctld/0";
    here_and_there(|world, at| world.machine(unit).fail_after(at), |world| world.machine(unit).spare());
}
