//! This node and its jobs: `resume`, `drain`, `destroy-jobs`, `show-node`.

use super::{Act, record, settle, this_node};
use crate::facts::node_name;
use charm::{ActionFailure, ActionResults};
use slurm_ops::scontrol;
use slurm_unit::actions::{self, Nothing};
use std::time::Duration;

pub(super) fn resume(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let Nothing {} = act.tools.action_get()?;
    record(act)?;
    let results = actions::resume(&act.hands.host, &this_node(act))?;
    scontrol::await_contact(&act.hands.host, &node_name(&act.view.ctx.unit), Duration::from_secs(3));
    settle(act)?;
    Ok(results)
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Drain {
    reason: String,
    #[serde(default)]
    wait: bool,
}

pub(super) fn drain(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: Drain = act.tools.action_get()?;
    let reason = actions::needed_reason(&request.reason)?;
    record(act)?;
    let nodes = this_node(act);
    let results = actions::drain(&act.hands.host, &nodes, reason)?;
    settle(act)?;
    if !request.wait {
        return Ok(results);
    }
    let here = node_name(&act.view.ctx.unit);
    actions::await_no_jobs((&act.view.host, &act.hands.juju), &nodes, Some(&here), None)?;
    settle(act)?;
    Ok(ActionResults::default().with("status", "drained").with("nodes", nodes.to_string()))
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Destroy {
    #[serde(default)]
    dry_run: bool,
}

pub(super) fn destroy_jobs(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let Destroy { dry_run } = act.tools.action_get()?;
    record(act)?;
    let (world, here) = ((&act.view.host, &act.hands.host, &act.hands.juju), node_name(&act.view.ctx.unit));
    let results = actions::destroy_jobs(world, &this_node(act), Some(&here), dry_run)?;
    if !dry_run {
        settle(act)?;
    }
    Ok(results)
}

pub(super) fn show(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let Nothing {} = act.tools.action_get()?;
    let record = record(act)?;
    let here = node_name(&act.view.ctx.unit);
    let jobs = actions::jobs_on(&act.view.host, &this_node(act), Some(&here))?;
    Ok(ActionResults::default()
        .with("node", record.name.as_str())
        .with("unit", act.view.ctx.unit.as_str())
        .with("state", record.state_text())
        .with("reason", record.reason.as_str())
        .with("partitions", record.partitions.join(","))
        .with("features", record.features.join(","))
        .with("cpus", record.cpus.to_string())
        .with("memory", record.real_memory.to_string())
        .with("gres", record.gres.as_str())
        .with("weight", record.weight.to_string())
        .with("version", record.version.as_str())
        .with("jobs", actions::names(&jobs)))
}
