//! How a node describes itself: what slurmd is started with in `--conf`.

use super::hardware::number;
use charm::AppName;
use slurm_conf::Node;

/// The most memory that is kept back for the system, in MiB.
const LARGEST_RESERVE: u64 = 1024;
/// The part of the memory that is kept back on small machines.
const RESERVE_PART: u64 = 8;
/// A machine whose memory has grown by less than this part of it is described as before: another kernel leaves a
/// little more or less, and that is not worth a new registration. Less is: Slurm would refuse the node.
const MEMORY_SLACK: u64 = 50;
/// The weight of a node about which nothing is said.
const DEFAULT_WEIGHT: u64 = 1;

/// Returns how a node of `app` should describe itself: what its machine has, what the operator asked for, less what
/// the system needs, with the feature that puts the node into its partition.
pub fn desired(app: &AppName, hardware: Node, requested: &Node, on_disk: Option<&Node>) -> Node {
    let mut node = hardware;
    if let Some(on_disk) = on_disk {
        steady_memory(&mut node, on_disk, requested);
    }
    node.merge(requested);
    if let (Some(memory), None) = (number(&node, "RealMemory"), node.get("MemSpecLimit")) {
        let reserve = (memory / RESERVE_PART).clamp(1, LARGEST_RESERVE).to_string();
        node.set("MemSpecLimit", &reserve).expect("invariant: a number is a value of MemSpecLimit");
    }
    if let Ok(feature) = app.as_str().parse() {
        node.add_feature(&feature);
    }
    node
}

fn steady_memory(detected: &mut Node, on_disk: &Node, requested: &Node) {
    let (Some(now), Some(before)) = (number(detected, "RealMemory"), number(on_disk, "RealMemory")) else { return };
    if requested.get("RealMemory").is_none() && before < now && now - before < now / MEMORY_SLACK {
        detected.set("RealMemory", &before.to_string()).expect("invariant: a number is a value of RealMemory");
    }
}

/// Returns the features that a description names.
pub fn features(node: &Node) -> Vec<String> {
    let list = node.get("Feature").unwrap_or_default();
    list.split(',').filter(|feature| !feature.is_empty()).map(str::to_owned).collect()
}

/// Returns the weight that a description gives.
pub fn weight(node: &Node) -> u64 {
    number(node, "Weight").unwrap_or(DEFAULT_WEIGHT)
}

/// Says whether two descriptions differ, and in nothing but features.
pub fn only_features_differ(one: &Node, other: &Node) -> bool {
    let rest = |node: &Node| {
        let mut node = node.clone();
        node.unset("Feature");
        node
    };
    one != other && rest(one) == rest(other)
}

/// Returns a description with which a node comes up closed.
pub fn closed(node: &Node, state: &str, reason: &str) -> Node {
    let mut node = node.clone();
    // Some characters cannot travel here; the exact text is put back after the registration.
    let plain = |character: char| match character {
        '"' | '\'' | '#' | '\\' => ' ',
        control if control.is_control() => ' ',
        other => other,
    };
    let reason: String = reason.chars().map(plain).collect();
    let reason = if reason.trim().is_empty() { "unspecified" } else { reason.trim() };
    for (key, value) in [("State", state), ("Reason", reason)] {
        node.set(key, value).expect("invariant: a plain text is a value of State and Reason");
    }
    node
}

/// Returns a description without the state of a first registration.
pub fn open(node: &Node) -> Node {
    let mut node = node.clone();
    node.unset("State");
    node.unset("Reason");
    node
}
