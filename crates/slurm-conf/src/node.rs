//! A node as slurmd's `--conf` describes it: an ordered list of `Key=Value` without the name.

use crate::error::OptionError;
use crate::name::PartitionName;
use crate::partition::option_pairs;
use crate::setting::{NODE, Setting};
use crate::text::{line_of, value_problem};
use crate::unknown::{UnknownKey, unknown_key, unknown_value};
use std::borrow::Cow;
use std::fmt;

/// Two names of one thing: the second is what this crate writes.
const ALIASES: &[(&str, &str)] = &[("Features", "Feature"), ("Procs", "CPUs")];

/// Description of a node, fit for slurmd's `--conf`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// Keys as this crate writes them; one that no table has is in lower case.
    options: Vec<(Cow<'static, str>, String)>,
}

impl Node {
    /// Returns a node about which nothing is said; slurmd then fills in what it detects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads what `slurmd -C` printed. Only the first line counts; the name, and keys that `--conf` does not know, are
    /// left out.
    pub fn from_detected(output: &str) -> Result<Self, OptionError> {
        let mut node = Self::new();
        for (key, value) in option_pairs(output.lines().next().unwrap_or_default())? {
            if canonical(&key).is_some() {
                node.set(&key, &value)?;
            }
        }
        if node.get("CPUs").is_none() {
            return Err(OptionError::syntax(output, "`NodeName=… CPUs=…` as slurmd -C prints it"));
        }
        Ok(node)
    }

    /// Reads `Key=Value …` as an operator writes it. `NodeName` is refused, and a key that comes twice. A key that this
    /// crate does not know is taken as free text, since the installed slurmd may know it: see [`Node::unknown`].
    pub fn from_config(text: &str) -> Result<Self, OptionError> {
        let mut node = Self::new();
        for (key, value) in option_pairs(text)? {
            if node.get(&key).is_some() {
                return Err(OptionError::Duplicate(key));
            }
            node.set(&key, &value)?;
        }
        Ok(node)
    }

    /// Returns the value of a key, in any letter case.
    pub fn get(&self, key: &str) -> Option<&str> {
        let wanted = canonical(key).map_or(key, |setting| setting.name);
        self.options.iter().find(|(known, _)| known.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.as_str())
    }

    /// Returns keys and values in order.
    pub fn options(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options.iter().map(|(key, value)| (&**key, value.as_str()))
    }

    /// Returns the keys that are not known here, each with the known one that is nearest to it.
    pub fn unknown(&self) -> impl Iterator<Item = UnknownKey<'_>> {
        let unknown = self.options.iter().filter(|(key, _)| canonical(key).is_none());
        unknown.map(|(key, value)| UnknownKey::new(key, value, NODE.iter().map(|setting| setting.name)))
    }

    /// Sets one key, in place if it is there already.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), OptionError> {
        let Some(setting) = canonical(key) else {
            let key = unknown_key(key)?;
            unknown_value(&key, value, false)?;
            self.put(Cow::Owned(key), value);
            return Ok(());
        };
        let key = setting.name;
        let expected = if value_problem(value).is_some() || value.contains('\'') {
            Some("one line without quotes, `#` and backslash".to_owned())
        } else if value.is_empty() {
            Some("a value".to_owned())
        } else if key != "Reason" && value.contains(char::is_whitespace) {
            // Only free text may hold blanks: anywhere else they would begin the next key.
            Some("a value without blanks".to_owned())
        } else if key == "Port" && !value.parse::<u16>().is_ok_and(|port| port > 0) {
            Some(format!("a whole number from 1 to {}", u16::MAX))
        } else {
            setting.expected(value)
        };
        if let Some(expected) = expected {
            return Err(OptionError::value(key, value, expected));
        }
        // Slurm wants the sockets either in all or per board.
        match key {
            "Sockets" => self.options.retain(|(known, _)| !matches!(&**known, "SocketsPerBoard" | "Boards")),
            "SocketsPerBoard" => self.options.retain(|(known, _)| *known != "Sockets"),
            _ => {}
        }
        self.put(Cow::Borrowed(key), value);
        Ok(())
    }

    fn put(&mut self, key: Cow<'static, str>, value: &str) {
        match self.options.iter_mut().find(|(known, _)| *known == key) {
            Some((_, slot)) => *slot = value.to_owned(),
            None => self.options.push((key, value.to_owned())),
        }
    }

    /// Takes a key away.
    pub fn unset(&mut self, key: &str) {
        let unwanted = canonical(key).map_or(key, |setting| setting.name);
        self.options.retain(|(known, _)| !known.eq_ignore_ascii_case(unwanted));
    }

    /// Takes over every key of `other`.
    pub fn merge(&mut self, other: &Node) {
        for (key, value) in &other.options {
            let taken = self.set(key, value);
            debug_assert!(taken.is_ok(), "invariant: what is in a node was checked when it came in");
        }
    }

    /// Makes sure that `feature` is among the node's features: without it the node is in no partition.
    pub fn add_feature(&mut self, feature: &PartitionName) {
        let present = self.get("Feature").unwrap_or_default();
        if present.split(',').any(|known| known == feature.as_str()) {
            return;
        }
        let features = if present.is_empty() { feature.to_string() } else { format!("{present},{feature}") };
        self.put(Cow::Borrowed("Feature"), &features);
    }

    /// Returns the text for `--conf`.
    pub fn render(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&line_of(&self.options))
    }
}

fn canonical(key: &str) -> Option<&'static Setting> {
    let key = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(key)).map_or(key, |(_, name)| *name);
    NODE.iter().find(|known| known.name.eq_ignore_ascii_case(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DETECTED: &str = "NodeName=n1 CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=24103\nUpTime=0-00:12:04\n";

    #[test]
    fn the_first_line_of_slurmd_c_is_taken_without_the_name() {
        let node = Node::from_detected(DETECTED).unwrap();
        assert_eq!(
            node.render(),
            "CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=24103"
        );
    }

    #[test]
    fn output_that_is_no_node_is_refused() {
        for output in ["", "slurmd: error", "UpTime=0-00:12:04\n", "NodeName=n1\n", "CPUs=x"] {
            assert!(Node::from_detected(output).is_err(), "{output:?}");
        }
    }

    #[test]
    fn the_operators_keys_replace_detected_ones_in_place() {
        let mut node = Node::from_detected(DETECTED).unwrap();
        node.merge(&Node::from_config("realmemory=900 weight=7 Reason=\"not ready yet\" features=fast").unwrap());
        node.add_feature(&PartitionName::new("compute").unwrap());
        node.add_feature(&PartitionName::new("compute").unwrap());
        let expected = "CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=900 Weight=7 Reason=\"not ready yet\" Feature=fast,compute";
        assert_eq!(node.render(), expected);
        assert_eq!(Node::from_config(expected).unwrap(), node, "the text is read back");
    }

    #[test]
    fn a_key_of_a_newer_slurm_goes_all_the_way() {
        let node = Node::from_config("Wieght=3 CPUs=2 NewKey=a:1").unwrap();
        assert_eq!(node.render(), "wieght=3 CPUs=2 newkey=a:1");
        assert_eq!(Node::from_config(&node.render()).unwrap(), node);
        let found: Vec<_> = node.unknown().map(|unknown| (unknown.key, unknown.nearest)).collect();
        assert_eq!(found, [("wieght", Some("Weight")), ("newkey", None)]);
        let mut merged = Node::from_detected(DETECTED).unwrap();
        merged.merge(&node);
        assert_eq!(merged.get("NEWKEY"), Some("a:1"));
        merged.unset("NewKey");
        assert_eq!(merged.get("newkey"), None);
    }

    #[test]
    fn sockets_replace_boards_and_back() {
        let mut node = Node::from_detected(DETECTED).unwrap();
        node.set("Sockets", "2").unwrap();
        assert_eq!((node.get("SocketsPerBoard"), node.get("Boards")), (None, None));
        node.set("SocketsPerBoard", "2").unwrap();
        assert_eq!(node.get("Sockets"), None);
    }

    #[test]
    fn the_operators_text_cannot_leave_its_argument() {
        for text in [
            "Weight=1' -x '",
            "Weight=1 \\",
            "Reason=\"a",
            "Reason=a\nWeight=1",
            "Weight=1 # x",
            "NodeName=x",
            "PartitionName=x",
            "New=\"a b\"",
            "New=1 NEW=2",
            "Weight=1 weight=2",
            "Weight=-1",
            "Weight",
            "Gres=\"a b\"",
        ] {
            assert!(Node::from_config(text).is_err(), "{text:?}");
        }
    }
}
