//! What this machine is taken to have. More than before is good news; less is kept as it was, so that Slurm refuses the node and somebody
//! looks, instead of a node that quietly goes on without its cards.

use crate::observe::Observed;
use slurm_conf::Node;

/// Memory may shrink by one part in this many: another kernel takes more for itself.
const MEMORY_SLACK: u64 = 20;

/// Returns what this machine has, or should have. None until somebody has looked.
pub(super) fn known(seen: &Observed) -> Option<Node> {
    let mut node = seen.machine.detected.clone()?;
    for (key, before, _) in losses(seen) {
        node.set(key, &before).expect("invariant: it was a value before");
    }
    Some(node)
}

/// Says what is missing, if anything is.
pub(crate) fn lost(seen: &Observed) -> Option<String> {
    let losses: Vec<String> = losses(seen)
        .into_iter()
        .map(|(key, before, now)| match now {
            Some(now) => format!("{key}={now} of {before}"),
            None => format!("no {key} of {before}"),
        })
        .collect();
    (!losses.is_empty()).then(|| losses.join(", "))
}

/// Lists the keys whose value has become less: key, before, now.
fn losses(seen: &Observed) -> Vec<(&'static str, String, Option<String>)> {
    let (Some(detected), Some(remembered)) = (&seen.machine.detected, &seen.machine.remembered) else {
        return Vec::new();
    };
    let memory = |node: &Node| node.get("RealMemory").and_then(|memory| memory.parse::<u64>().ok()).unwrap_or(0);
    let cards = |node: &Node| node.get("Gres").map_or(0, count);
    let less = [
        ("RealMemory", memory(detected) < memory(remembered) - memory(remembered) / MEMORY_SLACK),
        ("Gres", cards(detected) < cards(remembered)),
    ];
    less.into_iter()
        .filter(|(_, less)| *less)
        .map(|(key, _)| (key, remembered.get(key).unwrap_or_default().to_owned(), detected.get(key).map(str::to_owned)))
        .collect()
}

/// Counts the resources in a list such as `gpu:tesla_t4:2,gpu:a100`.
fn count(list: &str) -> u64 {
    let entry = |entry: &str| entry.rsplit(':').next().and_then(|number| number.parse().ok()).unwrap_or(1);
    list.split(',').filter(|text| !text.is_empty()).map(entry).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_counted() {
        assert_eq!(count("gpu:tesla_t4:2,gpu:a100"), 3);
        assert_eq!(count(""), 0);
    }
}
