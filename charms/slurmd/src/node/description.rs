//! What slurmd should be started with.

use super::hardware;
use super::registration::{self, Phase};
use crate::change::{closed_conf, open_conf};
use crate::observe::{Daemon, Launch, Observed, Registration};
use crate::options::FirstState;
use slurm_conf::Node;
use slurm_interface::ControllerData;
use slurm_ops::journal;

/// The most memory that is kept back for the system, in MiB.
const LARGEST_RESERVE: u64 = 1024;
/// The part of the memory that is kept back on small machines.
const RESERVE_PART: u64 = 8;
/// A machine whose memory has grown by less than this part of it is described as before: another kernel leaves a little more or less,
/// and that is not worth a new registration. Less is: Slurm would refuse the node.
const MEMORY_SLACK: u64 = 50;

/// Returns the wanted start options. None until the machine has been looked at.
pub(super) fn wanted(seen: &Observed, data: &ControllerData) -> Option<Launch> {
    Some(Launch { node_name: seen.node_name.clone(), conf: conf(seen)?, controllers: data.controllers.clone() })
}

/// A node that is registered keeps its description: Slurm ignores another one until the record is deleted.
fn conf(seen: &Observed) -> Option<Node> {
    let described = described(seen);
    let Some(written) = seen.machine.written.as_ref().map(|launch| &launch.conf) else {
        return first(seen, &described?);
    };
    let change = seen.machine.change.as_ref();
    let (Some(described), Some(change)) = (&described, change) else {
        return Some(unchanged(seen, written, described.as_ref()));
    };
    Some(match registration::phase(seen) {
        Phase::Describe | Phase::Delete | Phase::Register => change.first_conf(described),
        Phase::Restore | Phase::Forget => described.clone(),
        Phase::Abort { .. } => Node::from_config(&change.from).unwrap_or_else(|_| written.clone()),
        _ if is_illegible(seen) => change.first_conf(described),
        _ => written.clone(),
    })
}

/// The first start of a new node. What its state has to be must be known, or jobs could slip in.
fn first(seen: &Observed, described: &Node) -> Option<Node> {
    if let Some(change) = &seen.machine.change {
        return Some(change.first_conf(described));
    }
    match seen.options.first_state.as_ref().ok()? {
        FirstState::Idle => Some(described.clone()),
        FirstState::Down { reason } => Some(closed_conf(described, "DOWN", reason)),
    }
}

/// Without a change under way: what is written, unless nobody is there to be confused by another description.
fn unchanged(seen: &Observed, written: &Node, described: Option<&Node>) -> Node {
    let running = matches!(seen.machine.daemon, Daemon::Running { .. });
    match (&seen.machine.registration, described) {
        // The state of a first registration has done its work.
        (Registration::Present(record), Some(described)) if registration::is_in_place(written, described, record) => {
            described.clone()
        }
        (Registration::Present(_), _) => open_conf(written),
        (Registration::Absent, Some(described)) if running => {
            let mut conf = described.clone();
            for key in ["State", "Reason"] {
                if let Some(value) = written.get(key) {
                    conf.set(key, value).expect("invariant: it was a value before");
                }
            }
            conf
        }
        (_, Some(described)) if is_illegible(seen) => described.clone(),
        _ => written.clone(),
    }
}

/// Says whether slurmd does not start because of its own description: it says so itself, or may mean it and never ran with this one.
/// Somebody was at the file, or the operator asked for what has been taken back since.
fn is_illegible(seen: &Observed) -> bool {
    let (Daemon::Failing { .. }, Some(complaint)) = (&seen.machine.daemon, &seen.machine.complaint) else {
        return false;
    };
    let unproven = || !is_written(seen, &seen.machine.proven);
    journal::blames_description(complaint) || (journal::may_blame_description(complaint) && unproven())
}

/// Says whether the description on the disk is what a wish of the operator's makes of this machine.
pub(super) fn is_written(seen: &Observed, wish: &Node) -> bool {
    let Some(written) = &seen.machine.written else { return false };
    let mut other = seen.clone();
    other.machine.wish = Ok(wish.clone());
    described(&other).is_some_and(|described| described == open_conf(&written.conf))
}

/// Returns how this node should describe itself: what was detected, what the operator asked for, less what the system needs, with the
/// feature that puts the node into its partition. None if one of these is not known.
pub(crate) fn described(seen: &Observed) -> Option<Node> {
    let wish = seen.machine.wish.as_ref().ok()?;
    let mut node = hardware::known(seen)?;
    if let Some(written) = &seen.machine.written {
        steady_memory(&mut node, &written.conf, wish);
    }
    node.merge(wish);
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
    Some(node)
}

fn steady_memory(detected: &mut Node, written: &Node, wish: &Node) {
    let memory = |node: &Node| node.get("RealMemory").and_then(|memory| memory.parse::<u64>().ok());
    let (Some(now), Some(before)) = (memory(detected), memory(written)) else { return };
    if wish.get("RealMemory").is_none() && before < now && now - before < now / MEMORY_SLACK {
        detected.set("RealMemory", &before.to_string()).expect("invariant: a number is a value of RealMemory");
    }
}
