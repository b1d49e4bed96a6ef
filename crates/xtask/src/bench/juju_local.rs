//! juju-local: how long a client command, a new unit and a hook tool take.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::lab::{self, Lab, is_active};
use super::table::Row;

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

pub(super) fn measure() -> Result<Vec<Row>> {
    lab::with(|lab, scratch| {
        let charm = scratch.join("idler.charm");
        lab::write_charm(&charm, FILES.iter().map(|(name, text)| (*name, text.as_bytes().to_vec())))?;
        lab.juju(&["deploy", &charm.to_string_lossy()])?;
        lab.until(PATIENCE, |units| units.iter().all(is_active))?;
        let tools = tool_calls(lab)?;
        let units = new_units(lab)?;
        let status = status_calls(lab)?;
        Ok(vec![
            Row { what: "`juju status --format json`, four units", goal: "30 ms", samples: status },
            Row { what: "`juju add-unit` to its first hook", goal: "3 s", samples: units },
            Row { what: "a hook tool (`is-leader`), less an empty program", goal: "5 ms", samples: tools },
        ])
    })
}

fn status_calls(lab: &Lab<'_>) -> Result<Vec<Duration>> {
    let mut samples = Vec::new();
    for _ in 0..STATUS_CALLS {
        let begun = Instant::now();
        lab.units()?;
        samples.push(begun.elapsed());
    }
    Ok(samples)
}

/// From the command to the first sign that the charm runs, seen through `juju status`.
fn new_units(lab: &Lab<'_>) -> Result<Vec<Duration>> {
    let mut samples = Vec::new();
    for number in 1..=NEW_UNITS {
        let begun = Instant::now();
        lab.juju(&["add-unit", "idler"])?;
        lab.until(PATIENCE, |units| {
            let waiting = units.iter().filter(|(_, unit)| unit["workload-status"]["current"] == "waiting").count();
            units.len() > number && waiting == 0
        })?;
        samples.push(begun.elapsed());
        lab.until(PATIENCE, |units| units.iter().all(is_active))?;
    }
    Ok(samples)
}

/// Many calls in one script, less as many of a program that does nothing: what is left is the tool.
fn tool_calls(lab: &Lab<'_>) -> Result<Vec<Duration>> {
    let script = format!(
        "a=$(date +%s%N); i=0; while [ $i -lt {TOOL_CALLS} ]; do is-leader > /dev/null; i=$((i+1)); done; b=$(date \
         +%s%N); \
         i=0; while [ $i -lt {TOOL_CALLS} ]; do /bin/true > /dev/null; i=$((i+1)); done; c=$(date +%s%N); echo \
         $((2*b-a-c))"
    );
    let mut samples = Vec::new();
    for _ in 0..TOOL_ROUNDS {
        let text = lab.juju(&["exec", "--unit", "idler/0", &script])?;
        let nanos: u64 = text.trim().parse().with_context(|| format!("the script printed {text:?}"))?;
        samples.push(Duration::from_nanos(nanos) / TOOL_CALLS);
    }
    Ok(samples)
}
