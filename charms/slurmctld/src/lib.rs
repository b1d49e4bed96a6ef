//! The slurmctld charm: the controller of a Slurm cluster. Only wiring is here; the program itself is `main.rs`.

mod actions;
mod applications;
mod apply;
mod condition;
mod config;
mod controllers;
mod daemon;
#[cfg(test)]
mod dispatch_tests;
mod extras;
mod facts;
mod fence;
mod identity;
mod keys;
mod mail;
mod metrics;
mod names;
mod neighbours;
mod options;
mod place;
mod plan;
mod reboots;
mod rotation;
mod step;

use slurm_ops::Machine;

slurm_unit::wire_charm!(Slurmctld, Machine::new(), announce: apply::announce);
