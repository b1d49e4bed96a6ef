//! What each tier runs, and with what around it: cargo for the first two, pytest on juju-local for the others.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::counts::Counts;
use super::{Tier, conformance, fuzz};
use crate::console::say;
use crate::image::{self, Building};
use crate::{bench, layout, pack, program, setup};

/// Makes pytest run the slow tests too.
const ALL_VARIABLE: &str = "RUN_ALL";

/// Names the versions of slurmutils that partitions are exchanged with.
const SLURMUTILS_VARIABLE: &str = "SLURMUTILS";

/// The tests that belong to the stand-in and not to the charms.
const JUJU_LOCAL_TESTS: &str = "tests/juju_local";

/// Those of the cluster that are about leaving it.
const LEAVING_TESTS: [&str; 2] = ["tests/test_leaving.py", "tests/test_leaving_neighbours.py"];

/// Those of the cluster that are about several controllers.
const HA_TESTS: [&str; 5] = [
    "tests/test_ha.py",
    "tests/test_ha_move.py",
    "tests/test_ha_adopt.py",
    "tests/test_ha_accounting.py",
    "tests/test_ha_rotation.py",
];

/// Some test files at a time, each with a model of its own: most of their time is spent waiting for machines.
const TWO_FILES: [&str; 2] = ["--numprocesses=2", "--dist=loadfile"];
const THREE_FILES: [&str; 2] = ["--numprocesses=3", "--dist=loadfile"];

/// How a tier ended.
pub(super) struct Outcome {
    pub(super) counts: Counts,
    pub(super) succeeded: bool,
}

/// How much of a tier is wanted.
#[derive(Clone, Copy)]
pub(super) struct Extent<'a> {
    /// No other tier runs in this call.
    pub(super) alone: bool,
    /// The slow tests too.
    pub(super) all: bool,
    /// Which Slurm the machines get, if not the usual one.
    pub(super) slurm: Option<&'a str>,
}

pub(super) fn run(tier: Tier, extent: Extent<'_>, rest: &[String], machines: &mut Machines) -> Result<Outcome> {
    match tier {
        Tier::Unit => unit(rest),
        Tier::Process => process(rest),
        Tier::Fuzz => fuzz::run(rest),
        Tier::JujuLocal => juju_local(extent, rest, machines),
        Tier::Cluster => {
            let mut command = on_slurm(&["tests"], extent, machines)?;
            pytest(command.args(["--ignore", JUJU_LOCAL_TESTS]).args(THREE_FILES).args(rest))
        }
        Tier::Leaving => pytest(pytest_of_ours(&LEAVING_TESTS, extent, machines)?.args(rest)),
        Tier::Ha => pytest(on_slurm(&HA_TESTS, extent, machines)?.args(rest)),
        Tier::Conformance => conformance::run(rest, machines),
    }
}

/// Tests beside the code, and the examples in the documents of the libraries.
fn unit(rest: &[String]) -> Result<Outcome> {
    let mut outcome = cargo_test(&["--workspace", "--lib", "--bins"], rest)?;
    let examples = cargo_test(&["--workspace", "--doc"], rest)?;
    outcome.counts += examples.counts;
    outcome.succeeded &= examples.succeeded;
    Ok(outcome)
}

fn juju_local(extent: Extent<'_>, rest: &[String], machines: &mut Machines) -> Result<Outcome> {
    // Beside other tiers they have run already.
    let mut outcome = match extent.alone {
        true => cargo_test(&["--package", "juju-local"], &[])?,
        false => Outcome { counts: Counts::default(), succeeded: true },
    };
    let mut command = pytest_of_ours(&[JUJU_LOCAL_TESTS], extent, machines)?;
    let on_machines = pytest(command.args(TWO_FILES).args(rest))?;
    outcome.counts += on_machines.counts;
    outcome.succeeded &= on_machines.succeeded;
    Ok(outcome)
}

/// Pytest on tests of this checkout, which are told where the packed charms are.
fn pytest_of_ours(tests: &[&str], extent: Extent<'_>, machines: &mut Machines) -> Result<Command> {
    let python = machines.ready()?;
    let mut command = program::program(&python)?;
    command.args(["-m", "pytest", "--verbose"]).args(tests).current_dir(layout::root()?);
    if let Some(version) = extent.slurm {
        // The charms are told nothing: the machines have this one to install, and the tests look whether it was.
        command.env(image::SLURM_VARIABLE, version).env("CLUSTER_SLURM", version);
    }
    for charm in ["sackd", "slurmctld", "slurmd", "slurmdbd", "slurmrestd"] {
        command.env(format!("{}_CHARM", charm.to_uppercase()), layout::charm_file(charm)?);
    }
    if extent.all {
        command.env(ALL_VARIABLE, "1");
        if std::env::var_os(SLURMUTILS_VARIABLE).is_none() {
            command.env(SLURMUTILS_VARIABLE, bench::SLURMUTILS.join(" "));
        }
    }
    Ok(command)
}

/// The same on machines with another Slurm, if one is named: then only what has to work with every one of them.
fn on_slurm(tests: &[&str], extent: Extent<'_>, machines: &mut Machines) -> Result<Command> {
    let mut command = pytest_of_ours(tests, extent, machines)?;
    if extent.slurm.is_some() && !extent.all {
        command.args(["-m", "core"]);
    }
    Ok(command)
}

fn cargo_test(targets: &[&str], rest: &[String]) -> Result<Outcome> {
    let mut command = program::cargo()?;
    // `--no-fail-fast`: one failing program must not hide what the others have to say.
    command.args(["test", "--locked", "--no-fail-fast"]).args(targets).arg("--").args(rest);
    let finished = program::tee(&mut command)?;
    Ok(Outcome { counts: Counts::of_cargo(&finished.stdout), succeeded: finished.status.success() })
}

fn process(rest: &[String]) -> Result<Outcome> {
    let metadata = crate::tidy::cargo_metadata()?;
    let kinds = metadata["packages"].as_array().into_iter().flatten().flat_map(|package| {
        package["targets"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|target| target["kind"].as_array().into_iter().flatten())
    });
    // Cargo takes a pattern that fits nothing for an error.
    if !kinds.into_iter().any(|kind| kind == &Value::from("test")) {
        say("there are no process tests yet");
        return Ok(Outcome { counts: Counts::default(), succeeded: true });
    }
    cargo_test(&["--workspace", "--test", "*"], rest)
}

/// Runs pytest to its end.
pub(super) fn pytest(command: &mut Command) -> Result<Outcome> {
    Ok(outcome_of_pytest(&program::tee(with_our_juju(command)?)?))
}

pub(super) fn outcome_of_pytest(finished: &program::Finished) -> Outcome {
    Outcome { counts: Counts::of_pytest(&finished.stdout), succeeded: finished.status.success() }
}

/// Puts our `juju` first on the PATH of a pytest.
pub(super) fn with_our_juju(command: &mut Command) -> Result<&mut Command> {
    let mut path = vec![layout::dist_bin()?];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    command.env("PATH", std::env::join_paths(path).context("PATH cannot be extended")?);
    // Lines appear when they are printed, and no cache is written into a tree that may not be ours.
    Ok(command.env("PYTHONUNBUFFERED", "1").env("PYTHONDONTWRITEBYTECODE", "1").args(["-p", "no:cacheprovider"]))
}

/// What the tiers on machines stand on: host packages, Python, packed charms, the image. Prepared once.
pub(super) enum Machines {
    /// No tier asks for machines.
    Unused,
    /// The image is being built while other tiers run.
    Coming(Box<Building>),
    /// All is there; this is the Python to use.
    Ready(PathBuf),
    /// Why there can be none.
    Impossible(String),
}

impl Machines {
    /// Begins what takes long, if a tier that runs later will need it.
    pub(super) fn prepare(wanted: &[Tier], slurm: Option<&str>) -> Self {
        let on_machines = |tier: &Tier| !matches!(tier, Tier::Unit | Tier::Process | Tier::Fuzz);
        if !wanted.iter().any(on_machines) {
            return Machines::Unused;
        }
        if !program::is_root() {
            return Machines::Impossible("it boots machines, which only root may: run it with `sudo -E`".to_owned());
        }
        match setup::machines().and_then(|()| pack::juju_local()).and_then(|()| Building::start(slurm)) {
            Ok(building) => Machines::Coming(Box::new(building)),
            Err(error) => Machines::Impossible(format!("{error:#}")),
        }
    }

    /// Waits for all of it, and returns the Python interpreter with the tests' packages.
    pub(super) fn ready(&mut self) -> Result<PathBuf> {
        let before = std::mem::replace(self, Machines::Impossible("its preparation failed before".to_owned()));
        let python = match before {
            Machines::Ready(python) => python,
            Machines::Coming(building) => {
                pack::all_charms()?;
                let python = setup::python()?;
                building.finish()?;
                python
            }
            Machines::Impossible(why) => {
                *self = Machines::Impossible(why.clone());
                bail!(why)
            }
            Machines::Unused => bail!("nothing was prepared for this tier"),
        };
        *self = Machines::Ready(python.clone());
        Ok(python)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_prepared_says_why_each_time() {
        let mut machines = Machines::Impossible("no root".to_owned());
        assert_eq!(machines.ready().unwrap_err().to_string(), "no root");
        assert_eq!(machines.ready().unwrap_err().to_string(), "no root");
    }
}
