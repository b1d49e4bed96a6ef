//! `cargo xtask test`: runs the tiers, adds up what they counted, names those that failed. What a tier runs is in
//! `tiers.rs`.

mod conformance;
mod counts;
mod fuzz;
mod tiers;

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;

use self::counts::Counts;
use crate::console::{Phases, say};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The tier to run; when none is named all of them, fuzz only with --all
    tier: Option<Tier>,
    /// Runs the slow tests too: fuzzing, and those that wait for a time limit of Juju's to run out
    #[arg(long)]
    all: bool,
    /// Runs what has to work with every Slurm on this version of it: 24.11 or 26.05 (cluster, ha); with --all, all of
    /// it. Stories of leaving all have to work
    #[arg(long, value_name = "VERSION", requires = "tier")]
    slurm: Option<String>,
    /// Handed to the test programs (unit, process), to libFuzzer (fuzz) or to pytest (juju-local, cluster, conformance)
    #[arg(last = true, value_name = "ARGUMENTS", requires = "tier")]
    rest: Vec<String>,
}

/// The tiers, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tier {
    /// Decisions: tests beside the code
    Unit,
    /// The boundary: tests that start real programs
    Process,
    /// Nothing from outside breaks a parser: libFuzzer on each target for some seconds
    Fuzz,
    /// The stand-in holds: its own tests, then pytest and jubilant on booted machines, faults included
    JujuLocal,
    /// It works: pytest and jubilant on booted machines with real Slurm
    Cluster,
    /// Nothing is lost on the way out: the part of cluster about nodes, relations and applications that leave
    Leaving,
    /// Nothing is lost when a controller or the store fails: the part of cluster about several controllers
    Ha,
    /// The stand-in tells no lies: recordings of a real Juju, replayed
    Conformance,
}

impl Tier {
    fn name(self) -> &'static str {
        match self {
            Tier::Unit => "unit",
            Tier::Process => "process",
            Tier::Fuzz => "fuzz",
            Tier::JujuLocal => "juju-local",
            Tier::Cluster => "cluster",
            Tier::Leaving => "leaving",
            Tier::Ha => "ha",
            Tier::Conformance => "conformance",
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    // Building the fuzz targets takes longer than all the tests that cost no machines. What is part of another tier is
    // not run twice.
    let usual = Tier::value_variants().iter().copied();
    let part_of_another = |tier: &Tier| matches!(tier, Tier::Leaving | Tier::Ha);
    let usual = usual.filter(|tier| (arguments.all || *tier != Tier::Fuzz) && !part_of_another(tier));
    let wanted: Vec<Tier> = arguments.tier.map_or_else(|| usual.collect(), |tier| vec![tier]);
    let mut phases = Phases::begin();
    let mut total = Counts::default();
    let mut failed = Vec::new();
    let slurm = arguments.slurm.as_deref();
    let mut machines = tiers::Machines::prepare(&wanted, slurm);
    let extent = tiers::Extent { alone: arguments.tier.is_some(), all: arguments.all, slurm };
    let mut beside = None;
    for &tier in &wanted {
        let name = tier.name();
        let outcome = phases.phase(name, || {
            if tier == Tier::JujuLocal && wanted.contains(&Tier::Conformance) {
                beside = conformance::begin(&mut machines)?;
            }
            match beside.take_if(|_| tier == Tier::Conformance) {
                Some(begun) => begun.finish(),
                None => tiers::run(tier, extent, &arguments.rest, &mut machines),
            }
        });
        match outcome {
            Ok(outcome) => {
                total += outcome.counts;
                if !outcome.succeeded {
                    failed.push(name);
                    // It broke before it could count: that is a failure all the same.
                    total.failed += usize::from(outcome.counts.failed == 0);
                }
            }
            Err(error) => {
                say(&format!("error: {name}: {error:#}"));
                failed.push(name);
                total.failed += 1;
            }
        }
    }
    // Whatever is still under way ends before the closing line, which is the last one.
    drop(machines);
    say(&format!("== {}", phases.summary()));
    if !failed.is_empty() {
        say(&format!("failed: {}", failed.join(", ")));
    }
    println!("{total}");
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
