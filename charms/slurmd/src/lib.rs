//! The slurmd charm: the compute nodes of a Slurm cluster. Only wiring is here; the program itself is `main.rs`.

mod actions;
mod apply;
mod condition;
#[cfg(test)]
mod dispatch_tests;
mod facts;
mod names;
mod node;
mod options;
mod plan;
#[cfg(test)]
mod reference_tests;
mod step;
#[cfg(test)]
mod world;

use slurm_ops::Machine;

slurm_unit::wire_charm!(
    Slurmd,
    Machine::new().with_fetched_conf(names::FETCHED_CONF),
    announce: apply::announce,
    is_wait: step::Step::is_wait
);
