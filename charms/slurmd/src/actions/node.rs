//! This node's state: `resume`, `drain`, `show-node`.

use super::{Nothing, jobs, one_line, refused};
use crate::Slurmd;
use charm::{ActionFailure, ActionResults};
use slurm_conf::NodeName;
use slurm_ops::scontrol::{self, NodeLookup};
use std::time::{Duration, Instant};

pub(super) fn resume(charm: &mut Slurmd) -> Result<ActionResults, ActionFailure> {
    let Nothing {} = charm.tools.action_get()?;
    let name = charm.node_name();
    charm.record()?;
    // A node that is in service already is what was wanted.
    scontrol::resume_node(&charm.machine.writer(), &name)
        .map_err(|error| refused(&format!("Error resuming {name}"), &error))?;
    await_contact(charm, &name);
    charm.look_again()?;
    Ok(ActionResults::default().with("status", "resuming").with("nodes", name.to_string()))
}

/// A node that was down counts as silent until slurmctld has asked it, which takes a moment. That it does not is for the status to tell.
fn await_contact(charm: &Slurmd, name: &NodeName) {
    const PATIENCE: Duration = Duration::from_secs(3);
    const PAUSE: Duration = Duration::from_millis(200);
    let end = Instant::now() + PATIENCE;
    let silent = || match scontrol::node(&charm.machine.host(), name) {
        NodeLookup::Present(record) => record.has("NOT_RESPONDING"),
        _ => false,
    };
    while Instant::now() < end && silent() {
        std::thread::sleep(PAUSE);
    }
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Drain {
    reason: String,
    #[serde(default)]
    wait: bool,
}

pub(super) fn drain(charm: &mut Slurmd) -> Result<ActionResults, ActionFailure> {
    let request: Drain = charm.tools.action_get()?;
    let reason = one_line("reason", &request.reason)?;
    let name = charm.node_name();
    charm.record()?;
    scontrol::drain_node(&charm.machine.writer(), &name, &reason)
        .map_err(|error| refused(&format!("Error draining {name}"), &error))?;
    let results = ActionResults::default().with("status", "draining").with("nodes", name.to_string());
    charm.look_again()?;
    if !request.wait {
        return Ok(results);
    }
    jobs::await_empty(charm, None)?;
    charm.look_again()?;
    Ok(ActionResults::default().with("status", "drained").with("nodes", name.to_string()))
}

pub(super) fn show(charm: &Slurmd) -> Result<ActionResults, ActionFailure> {
    let Nothing {} = charm.tools.action_get()?;
    let record = charm.record()?;
    let jobs = jobs::on_this_node(charm)?;
    Ok(ActionResults::default()
        .with("node", record.name.as_str())
        .with("unit", charm.ctx.unit.as_str())
        .with("state", record.state_text())
        .with("reason", record.reason.as_str())
        .with("partitions", record.partitions.join(","))
        .with("features", record.features.join(","))
        .with("cpus", record.cpus.to_string())
        .with("memory", record.real_memory.to_string())
        .with("gres", record.gres.as_str())
        .with("weight", record.weight.to_string())
        .with("version", record.version.as_str())
        .with("jobs", jobs::text(&jobs)))
}
