//! The slurmdbd charm: the accounting daemon of a Slurm cluster. Only wiring is here; the program itself is `main.rs`.

mod actions;
mod apply;
mod condition;
mod conf;
#[cfg(test)]
mod dispatch_tests;
mod facts;
mod names;
mod plan;
#[cfg(test)]
mod reference_tests;
mod step;

use slurm_ops::Machine;

slurm_unit::wire_charm!(Slurmdbd, Machine::new());
