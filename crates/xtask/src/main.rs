//! `cargo xtask`: the project's tool box. This file only reads the command line and hands on; each command has a
//! module.
//!
//! Nothing of the product lives in this crate, and it uses none of the product's crates: it starts programs, reads what
//! they print, and checks the tree. Exit code 0: done; 1: it failed and said why; 2: the command line was not
//! understood.

mod bench;
mod console;
mod demo;
mod image;
mod juju;
mod layout;
mod pack;
mod program;
mod setup;
mod soak;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds, shows, tests and checks the Slurm charms and juju-local.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Installs what the other commands need on this machine, and says what and why
    Setup,
    /// Builds the charms and juju-local into dist/
    Pack(pack::Arguments),
    /// Deploys slurmctld and two compute units on juju-local and runs a job on them, or has a controller fail
    Demo(demo::Arguments),
    /// Runs the tests: every tier, or the one that is named
    Test(test::Arguments),
    /// Lets random events loose on a cluster under a stream of jobs, and counts the jobs
    Soak(soak::Arguments),
    /// Checks formatting, lints and the rules of the source tree
    Tidy,
    /// Measures each part beside its goals and its peers, and writes docs/bench/
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let done = |()| ExitCode::SUCCESS;
    let outcome = match Arguments::parse().command {
        Task::Setup => setup::run().map(done),
        Task::Pack(arguments) => pack::run(&arguments).map(done),
        Task::Demo(arguments) => demo::run(&arguments).map(done),
        Task::Test(arguments) => test::run(&arguments),
        Task::Soak(arguments) => soak::run(&arguments),
        Task::Tidy => tidy::run().map(done),
        Task::Bench(arguments) => bench::run(&arguments).map(done),
    };
    outcome.unwrap_or_else(|error| {
        console::say(&format!("error: {error:#}"));
        ExitCode::FAILURE
    })
}
