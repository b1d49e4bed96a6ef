//! `cargo xtask bench`: how fast the parts are, beside the goals they have and beside what a site would use otherwise.
//! Prints tables and writes them to `docs/bench/`; a figure is never asserted, because machines differ and are busy.
//! What is measured is in a module for each part.

mod conf;
mod dispatch;
mod ha;
mod hello;
mod juju_local;
mod lab;
mod plot;
mod prose;
mod table;

use std::fs;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::{layout, pack, setup};

/// The library of the Python charms: the oldest that they still use, and the newest.
pub(crate) const SLURMUTILS: &[&str] = &["1.2.0", "1.3.2"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The part to measure; when none is named all of them but ha, which takes hours
    part: Option<Part>,
    /// How often each story is told (ha)
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    rounds: usize,
}

/// The parts, in the order in which they are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Editing a slurm.conf, beside slurmutils
    Conf,
    /// One dispatch of each charm, beside one written with ops
    Dispatch,
    /// The stand-in's own commands
    JujuLocal,
    /// Controllers that fail, beside bare Slurm
    Ha,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let usual = || Part::value_variants().iter().copied().filter(|part| *part != Part::Ha).collect();
    let wanted: Vec<Part> = arguments.part.map_or_else(usual, |part| vec![part]);
    for part in wanted {
        match part {
            Part::Conf => {
                let (text, drawing) = conf::measure()?;
                write("conf.svg", &drawing)?;
                report("conf", "slurm.conf, measured", &text)?;
            }
            Part::Dispatch => {
                let (text, drawing) = dispatch::measure()?;
                write("dispatch.svg", &drawing)?;
                report("dispatch", "A dispatch, measured", &text)?;
            }
            Part::JujuLocal => {
                setup::run()?;
                pack::juju_local()?;
                report("juju-local", "juju-local, measured", &table::render(&juju_local::measure()?))?;
            }
            Part::Ha => report("ha", "Controllers that fail, measured", &ha::measure(arguments.rounds)?)?,
        }
    }
    Ok(())
}

fn report(name: &str, title: &str, text: &str) -> Result<()> {
    print!("{text}");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let head = format!("# {title}\n\nWritten by `cargo xtask bench` on a machine with {cores} cores.\n\n");
    write(&format!("{name}.md"), &prose::wrap(&format!("{head}{text}")))
}

fn write(name: &str, text: &str) -> Result<()> {
    let directory = layout::root()?.join("docs/bench");
    fs::create_dir_all(&directory).with_context(|| format!("could not make {}", directory.display()))?;
    let file = directory.join(name);
    fs::write(&file, text).with_context(|| format!("could not write {}", file.display()))
}
