//! `cargo xtask bench`: how fast the parts are, beside the goals they have. Prints a table and writes it to `docs/bench/`; a
//! figure is never asserted, because machines differ and are busy. What is measured is in a module for each part.

mod juju_local;
mod table;

use std::fs;

use anyhow::{Context, Result};

use crate::{layout, pack, setup};

pub(crate) fn run() -> Result<()> {
    setup::run()?;
    pack::juju_local()?;
    let rows = juju_local::measure()?;
    let text = table::render(&rows);
    print!("{text}");
    let directory = layout::root()?.join("docs/bench");
    fs::create_dir_all(&directory).with_context(|| format!("could not make {}", directory.display()))?;
    let file = directory.join("juju-local.md");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let head = format!("# juju-local, measured\n\nWritten by `cargo xtask bench` on a machine with {cores} cores.\n\n");
    fs::write(&file, format!("{head}{text}")).with_context(|| format!("could not write {}", file.display()))
}
