//! A model on juju-local for a measurement: a state directory of its own, and a charm file made of a few texts. What is
//! measured in it is elsewhere.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{layout, program};

const MODEL: &str = "bench";
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Lab<'a> {
    state: &'a Path,
}

/// Runs `measurement` in a new model, and ends the model whatever came of it.
pub(super) fn with<T>(measurement: impl FnOnce(&Lab<'_>, &Path) -> Result<T>) -> Result<T> {
    let scratch = tempfile::Builder::new().prefix("bench").tempdir_in("/var/tmp").context("no scratch directory")?;
    let lab = Lab { state: scratch.path() };
    let measured = lab.juju(&["add-model", MODEL]).and_then(|_| measurement(&lab, scratch.path()));
    let cleaned = program::capture(&mut lab.program("juju-local", &["clean"])?, PATIENCE);
    let measured = measured?;
    cleaned?;
    Ok(measured)
}

impl Lab<'_> {
    fn program(&self, name: &str, arguments: &[&str]) -> Result<Command> {
        let mut command = program::program(layout::dist_bin()?.join(name))?;
        command.args(arguments).env("JUJU_LOCAL_STATE", self.state.join("state"));
        Ok(command)
    }

    pub(super) fn juju(&self, arguments: &[&str]) -> Result<String> {
        program::output(&mut self.program("juju", arguments)?)
    }

    /// Returns all units by name.
    pub(super) fn units(&self) -> Result<Vec<(String, Value)>> {
        let text = self.juju(&["status", "--format", "json"])?;
        let status: Value = serde_json::from_str(&text).context("`juju status` did not print JSON")?;
        let applications = status["applications"].as_object().into_iter().flatten();
        let units = applications.flat_map(|(_, application)| application["units"].as_object().cloned());
        Ok(units.flatten().collect())
    }

    pub(super) fn until(&self, patience: Duration, reached: impl Fn(&[(String, Value)]) -> bool) -> Result<()> {
        self.eventually(patience, || {
            let units = self.units()?;
            Ok(!units.is_empty() && reached(&units))
        })
    }

    /// Waits until something is so.
    pub(super) fn eventually(&self, patience: Duration, reached: impl Fn() -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + patience;
        while !reached()? {
            if Instant::now() > deadline {
                bail!("the units did not come up: {:?}", self.units()?);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Tells whether a unit is active.
pub(super) fn is_active((_, unit): &(String, Value)) -> bool {
    unit["workload-status"]["current"] == "active"
}

/// Writes a charm file of these files; `dispatch` is a program.
pub(super) fn write_charm<'f>(path: &Path, files: impl IntoIterator<Item = (&'f str, Vec<u8>)>) -> Result<()> {
    use std::io::Write as _;
    let file = std::fs::File::create(path).with_context(|| format!("could not write {}", path.display()))?;
    let mut archive = zip::ZipWriter::new(file);
    for (name, bytes) in files {
        let mode = if name == "dispatch" { 0o755 } else { 0o644 };
        archive.start_file(name, zip::write::SimpleFileOptions::default().unix_permissions(mode))?;
        archive.write_all(&bytes)?;
    }
    archive.finish()?;
    Ok(())
}
