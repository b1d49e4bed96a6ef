//! The slurmrestd charm: the REST API of a Slurm cluster. Only wiring is here; the program itself is `main.rs`.

mod actions;
mod apply;
mod condition;
#[cfg(test)]
mod dispatch_tests;
mod facts;
mod names;
mod plan;
#[cfg(test)]
mod reference_tests;
mod step;

use slurm_ops::Machine;

slurm_unit::wire_charm!(Slurmrestd, Machine::new());
