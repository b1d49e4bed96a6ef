//! juju-local: how long a client command, a new unit and a hook tool take. In a model and a state directory of its own.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::table::Row;
use crate::{layout, program};

const MODEL: &str = "bench";
const PATIENCE: Duration = Duration::from_secs(120);
const STATUS_CALLS: usize = 30;
const NEW_UNITS: usize = 3;
const TOOL_ROUNDS: usize = 5;
const TOOL_CALLS: u32 = 200;

/// A charm that does nothing but become active.
const FILES: &[(&str, &str)] = &[
    ("metadata.yaml", "name: idler\nsummary: does nothing\ndescription: does nothing\n"),
    ("manifest.yaml", "bases: [{name: ubuntu, channel: '24.04', architectures: [amd64]}]\n"),
    ("dispatch", "#!/bin/sh\ncase $JUJU_HOOK_NAME in start) status-set active;; esac\n"),
];

pub(crate) fn measure() -> Result<Vec<Row>> {
    let scratch = tempfile::Builder::new().prefix("bench").tempdir_in("/var/tmp").context("no scratch directory")?;
    let bench = Bench { state: scratch.path() };
    let charm = scratch.path().join("idler.charm");
    write_charm(&charm)?;
    let measured = bench.run(&charm);
    // Whatever came of it, no machine stays behind.
    let cleaned = program::capture(&mut bench.program("juju-local", &["clean"])?, PATIENCE);
    let rows = measured?;
    cleaned?;
    Ok(rows)
}

fn write_charm(path: &Path) -> Result<()> {
    use std::io::Write as _;
    let file = std::fs::File::create(path).with_context(|| format!("could not write {}", path.display()))?;
    let mut archive = zip::ZipWriter::new(file);
    for (name, text) in FILES {
        let mode = if *name == "dispatch" { 0o755 } else { 0o644 };
        archive.start_file(*name, zip::write::SimpleFileOptions::default().unix_permissions(mode))?;
        archive.write_all(text.as_bytes())?;
    }
    archive.finish()?;
    Ok(())
}

struct Bench<'a> {
    state: &'a Path,
}

impl Bench<'_> {
    fn program(&self, name: &str, arguments: &[&str]) -> Result<Command> {
        let mut command = program::program(layout::dist_bin()?.join(name))?;
        command.args(arguments).env("JUJU_LOCAL_STATE", self.state.join("state"));
        Ok(command)
    }

    fn juju(&self, arguments: &[&str]) -> Result<String> {
        program::output(&mut self.program("juju", arguments)?)
    }

    fn run(&self, charm: &Path) -> Result<Vec<Row>> {
        self.juju(&["add-model", MODEL])?;
        self.juju(&["deploy", &charm.to_string_lossy()])?;
        self.until(|units| units.iter().all(|unit| unit["workload-status"]["current"] == "active"))?;
        let tools = self.tool_calls()?;
        let units = self.new_units()?;
        let status = self.status_calls()?;
        self.juju(&["destroy-model", MODEL, "--no-prompt", "--force"])?;
        Ok(vec![
            Row { what: "`juju status --format json`, four units", goal: "30 ms", samples: status },
            Row { what: "`juju add-unit` to its first hook", goal: "3 s", samples: units },
            Row { what: "a hook tool (`is-leader`), less an empty program", goal: "5 ms", samples: tools },
        ])
    }

    fn units(&self) -> Result<Vec<Value>> {
        let text = self.juju(&["status", "--format", "json"])?;
        let status: Value = serde_json::from_str(&text).context("`juju status` did not print JSON")?;
        let units = status["applications"]["idler"]["units"].as_object().cloned().unwrap_or_default();
        Ok(units.into_iter().map(|(_, unit)| unit).collect())
    }

    fn until(&self, reached: impl Fn(&[Value]) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let units = self.units()?;
            if !units.is_empty() && reached(&units) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the units did not come up: {units:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn status_calls(&self) -> Result<Vec<Duration>> {
        let mut samples = Vec::new();
        for _ in 0..STATUS_CALLS {
            let begun = Instant::now();
            self.units()?;
            samples.push(begun.elapsed());
        }
        Ok(samples)
    }

    /// From the command to the first sign that the charm runs, seen through `juju status`.
    fn new_units(&self) -> Result<Vec<Duration>> {
        let mut samples = Vec::new();
        for number in 1..=NEW_UNITS {
            let begun = Instant::now();
            self.juju(&["add-unit", "idler"])?;
            self.until(|units| {
                let waits = |unit: &&Value| unit["workload-status"]["current"] == "waiting";
                units.len() > number && units.iter().filter(waits).count() == 0
            })?;
            samples.push(begun.elapsed());
            self.until(|units| units.iter().all(|unit| unit["workload-status"]["current"] == "active"))?;
        }
        Ok(samples)
    }

    /// Many calls in one script, less as many of a program that does nothing: what is left is the tool.
    fn tool_calls(&self) -> Result<Vec<Duration>> {
        let script = format!(
            "a=$(date +%s%N); i=0; while [ $i -lt {TOOL_CALLS} ]; do is-leader > /dev/null; i=$((i+1)); done; b=$(date +%s%N); \
             i=0; while [ $i -lt {TOOL_CALLS} ]; do /bin/true > /dev/null; i=$((i+1)); done; c=$(date +%s%N); echo $((2*b-a-c))"
        );
        let mut samples = Vec::new();
        for _ in 0..TOOL_ROUNDS {
            let text = self.juju(&["exec", "--unit", "idler/0", &script])?;
            let nanos: u64 = text.trim().parse().with_context(|| format!("the script printed {text:?}"))?;
            samples.push(Duration::from_nanos(nanos) / TOOL_CALLS);
        }
        Ok(samples)
    }
}
