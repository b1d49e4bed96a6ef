//! What slurmd should be started with.

use crate::observe::{Daemon, Launch, Observed};
use slurm_conf::Node;
use slurm_interface::ControllerData;

/// The most memory that is kept back for the system, in MiB.
const LARGEST_RESERVE: u64 = 1024;
/// The part of the memory that is kept back on small machines.
const RESERVE_PART: u64 = 8;

/// Returns the wanted start options. None until the machine has been looked at.
pub(super) fn wanted(seen: &Observed, data: &ControllerData) -> Option<Launch> {
    Some(Launch { node_name: seen.node_name.clone(), conf: conf(seen)?, controllers: data.controllers.clone() })
}

/// A node that runs keeps its description: Slurm ignores another one until the node is deleted.
fn conf(seen: &Observed) -> Option<Node> {
    let running = matches!(seen.machine.daemon, Daemon::Running { .. } | Daemon::Starting);
    match &seen.machine.written {
        Some(written) if running => Some(written.conf.clone()),
        _ => Some(described(seen.machine.detected.as_ref()?, seen)),
    }
}

/// What was detected, less what the system needs, with the feature that puts the node into its partition.
fn described(detected: &Node, seen: &Observed) -> Node {
    let mut node = detected.clone();
    let memory = node.get("RealMemory").and_then(|memory| memory.parse::<u64>().ok());
    if let Some(memory) = memory
        && node.get("MemSpecLimit").is_none()
    {
        let reserve = (memory / RESERVE_PART).clamp(1, LARGEST_RESERVE).to_string();
        node.set("MemSpecLimit", &reserve).expect("invariant: a number is a value of MemSpecLimit");
    }
    if let Ok(feature) = seen.unit.app().as_str().parse() {
        node.add_feature(&feature);
    }
    node
}
