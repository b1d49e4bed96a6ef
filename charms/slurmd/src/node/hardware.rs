//! What this machine is taken to have. More than before is good news; less is kept as it was, so that Slurm refuses
//! the node and somebody looks, instead of a node that quietly goes on without its cards.

use slurm_conf::Node;

/// Memory may shrink by one part in this many: another kernel takes more for itself.
const MEMORY_SLACK: u64 = 20;

/// What slurmd found in this machine, and what the machine is known to have had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hardware {
    pub found: Node,
    pub baseline: Option<Node>,
}

/// Something that the machine had, and has no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    key: &'static str,
    expected: String,
    found: Option<String>,
}

impl Loss {
    /// Says what is missing.
    pub fn text(&self) -> String {
        let what = match self.key {
            "RealMemory" => "memory",
            _ if self.expected.starts_with("gpu") => "GPU",
            key => key,
        };
        let found = self.found.as_deref().unwrap_or("none");
        format!("{what} missing: expected {}, found {found}", self.expected)
    }
}

impl Hardware {
    /// Returns what this machine has, or should have.
    pub fn expected(&self) -> Node {
        let mut node = self.found.clone();
        for loss in self.losses() {
            node.set(loss.key, &loss.expected).expect("invariant: it was a value before");
        }
        node
    }

    /// Lists what has become less.
    pub fn losses(&self) -> Vec<Loss> {
        let Some(baseline) = &self.baseline else { return Vec::new() };
        let memory = |node: &Node| number(node, "RealMemory").unwrap_or(0);
        let cards = |node: &Node| node.get("Gres").map_or(0, count);
        let less = [
            ("RealMemory", memory(&self.found) < memory(baseline) - memory(baseline) / MEMORY_SLACK),
            ("Gres", cards(&self.found) < cards(baseline)),
        ];
        let loss = |(key, _): (&'static str, bool)| Loss {
            key,
            expected: baseline.get(key).unwrap_or_default().to_owned(),
            found: self.found.get(key).map(str::to_owned),
        };
        less.into_iter().filter(|(_, less)| *less).map(loss).collect()
    }
}

/// Returns a value that is a number.
pub fn number(node: &Node, key: &str) -> Option<u64> {
    node.get(key).and_then(|text| text.parse().ok())
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

    #[test]
    fn a_loss_names_what_was_expected_and_what_is_there() {
        let node = |text: &str| Node::from_config(text).unwrap();
        let hardware =
            Hardware { found: node("RealMemory=12000"), baseline: Some(node("RealMemory=24103 Gres=gpu:2")) };
        let losses: Vec<String> = hardware.losses().iter().map(Loss::text).collect();
        let expected = ["memory missing: expected 24103, found 12000", "GPU missing: expected gpu:2, found none"];
        assert_eq!(losses, expected);
    }
}
