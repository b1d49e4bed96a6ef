//! `cargo xtask demo`: from a checkout to a job on two dynamic nodes, and back again with `--rm`. With `--ha` there are
//! two controllers, and one fails: that is in `failover.rs`. With `--full` there is one of each: `whole.rs`.
//!
//! A demo that is already there is destroyed first, not reused: the charms may have changed, and a demo that begins
//! with nothing is the one worth seeing.

mod client;
mod failover;
mod readiness;
mod whole;

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::console::{Phases, ProgressLine, say};
use crate::image::Building;
use crate::juju::Juju;
use crate::{layout, pack, program, setup};

const MODEL: &str = "demo";
const NODES: usize = 2;
const SETTLE_WITHIN: Duration = Duration::from_secs(600);
/// Juju runs a failed hook again by itself, so an error is only believed when it stays.
const ERROR_STAYS: Duration = Duration::from_secs(60);
const JOB_WITHIN: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Shows how a second controller takes over from one whose machine loses power, while a job runs
    #[arg(long)]
    ha: bool,
    /// Shows one of each charm: a login node, accounting and the REST API beside the cluster
    #[arg(long, conflicts_with = "ha")]
    full: bool,
    /// Takes the demo down again, this one or that one, and leaves nothing of it on this machine
    #[arg(long)]
    rm: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if !program::is_root() {
        bail!("the demo boots machines, which only root may: run `sudo -E cargo xtask demo`");
    }
    if arguments.rm {
        return remove();
    }
    let juju = Juju::model(MODEL);
    let mut phases = Phases::begin();
    phases.phase("setup", setup::machines)?;
    phases.phase("build juju-local", pack::juju_local)?;
    let image = Building::start(None)?;
    phases.phase("pack charms", pack::all_charms)?;
    phases.phase("image", || image.finish())?;
    if juju.exists() {
        say("there is a demo already: destroying it, to begin with nothing");
        phases.phase("destroy the old demo", || juju.destroy())?;
    }
    let (shown, going_on) = match (arguments.ha, arguments.full) {
        (true, _) => (failover::show(juju, &mut phases), failover::GOING_ON),
        (_, true) => (whole::show(juju, &mut phases), whole::GOING_ON),
        _ => (show(juju, &mut phases), GOING_ON),
    };
    if let Err(error) = shown {
        juju.show_trouble();
        return Err(error);
    }
    say(&format!("== {}", phases.summary()));
    say(going_on);
    Ok(())
}

fn show(juju: Juju, phases: &mut Phases) -> Result<()> {
    phases.phase("deploy", || deploy(juju))?;
    phases.phase("settle", || settle(juju, &[("slurmctld", 1), ("compute", NODES)]))?;
    let output = phases.phase("job", || job(juju))?;
    print!("{output}");
    juju.run("status", &[])
}

const GOING_ON: &str = "
The cluster stays up. To look around:

  export PATH=\"$PWD/dist/bin:$PATH\"
  juju status --watch 1s
  juju ssh slurmctld/0 sinfo
  juju add-unit compute && juju status --watch 1s      # one more node; slurm.conf stays as it is
  juju ssh slurmctld/0 srun -p compute -N3 hostname
  juju debug-log --limit 50
  cargo xtask demo --rm                                # takes it all down
";

fn deploy(juju: Juju) -> Result<()> {
    add_model(juju)?;
    juju.run("deploy", &[&packed("slurmctld")?])?;
    juju.run("deploy", &[&packed("slurmd")?, "compute", "-n", &NODES.to_string()])?;
    juju.run("integrate", &["slurmctld", "compute"])
}

/// Returns a charm file of `dist/` as one would type it.
fn packed(name: &str) -> Result<String> {
    let (root, file) = (layout::root()?, layout::charm_file(name)?);
    Ok(format!("./{}", file.strip_prefix(&root).unwrap_or(&file).display()))
}

fn add_model(juju: Juju) -> Result<()> {
    if let Err(error) = juju.add() {
        // A model whose daemon was killed does not answer, and yet its name is taken.
        say(&format!("{error:#}: destroying what is left of an earlier demo"));
        juju.destroy()?;
        juju.add()?;
    }
    Ok(())
}

/// Waits until every unit is active and idle, and shows what is awaited meanwhile.
fn settle(juju: Juju, expected: &[(&str, usize)]) -> Result<()> {
    let begun = Instant::now();
    let mut line = ProgressLine::new();
    let mut failing_since: Option<Instant> = None;
    loop {
        let status = juju.status()?;
        let awaited = readiness::awaited(&status, expected);
        if awaited.is_empty() {
            line.end();
            return Ok(());
        }
        line.show(begun.elapsed(), &format!("waiting for {}", awaited.join(", ")));
        let errors = readiness::errors(&status);
        failing_since = if errors.is_empty() { None } else { failing_since.or_else(|| Some(Instant::now())) };
        let hopeless = failing_since.is_some_and(|since| since.elapsed() > ERROR_STAYS);
        if hopeless || begun.elapsed() > SETTLE_WITHIN {
            line.end();
            bail!("the cluster did not become active: still waiting for {}", awaited.join(", "));
        }
        thread::sleep(Duration::from_secs(1));
    }
}

/// Runs one job over all nodes as an ordinary user and returns what it printed.
fn job(juju: Juju) -> Result<String> {
    let nodes = format!("-N{NODES}");
    let output = juju.ask("ssh", &["slurmctld/0", "srun", "-p", "compute", &nodes, "hostname"], JOB_WITHIN)?;
    let hosts: BTreeSet<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    ensure!(hosts.len() == NODES, "the job should print {NODES} host names and printed {output:?}");
    Ok(output)
}

fn remove() -> Result<()> {
    let juju = Juju::model(MODEL);
    if !layout::dist_bin()?.join("juju-local").exists() {
        pack::juju_local()?;
    }
    if juju.exists() {
        juju.destroy()?;
    } else if juju.destroy().is_err() {
        say("there was no demo");
    }
    let others = juju.other_models();
    if !others.is_empty() {
        say(&format!("other models run here ({}): leaving their machines alone", others.join(", ")));
        return Ok(());
    }
    let mut clean = program::program(layout::dist_bin()?.join("juju-local"))?;
    clean.arg("clean");
    say(&format!("$ {}", program::describe(&clean)));
    program::run(&mut clean)
}
