//! What this charm has to know about its node in a later dispatch: one versioned note, and what earlier versions kept
//! in six files.

use super::departure::Departure;
use super::reregistration::Reregistration;
use crate::names;
use serde::{Deserialize, Serialize};
use slurm_conf::Node;
use slurm_ops::{HostWriter, files};
use slurm_unit::acknowledgement::Acknowledged;
use slurm_unit::note::Note;
use slurm_unit::{Error, View};
use std::collections::BTreeMap;

/// Where the node is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lifecycle {
    /// The controllers have not known this node yet.
    #[default]
    Joining,
    Member,
    /// Its record is being replaced, and this is what the new one has to get back.
    Reregistering(Box<Reregistration>),
    /// The unit is being removed, or its relation with the controllers has ended.
    Leaving(Departure),
    /// It has left. The unit may join again.
    Gone,
}

/// What this charm knows about its node, beyond a crash, a refresh and a reboot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NodeNote {
    pub lifecycle: Lifecycle,
    /// What the operator asked for with `node-config`.
    #[serde(with = "text", default)]
    pub requested: Node,
    /// What the operator asked for when the node was last registered as wanted.
    #[serde(with = "text", default)]
    pub last_working: Node,
    /// What the operator asked for and slurmd did not start with.
    #[serde(default)]
    pub rejected: Option<RejectedConfig>,
    #[serde(default)]
    pub detection: Option<Detection>,
    /// The weight that this charm set on the record ahead of a new registration, to tell it from an administrator's.
    #[serde(default)]
    pub set_weight: Option<u64>,
}

impl Note for NodeNote {
    const PATH: &'static str = names::NODE_NOTE;
    const VERSION: u64 = 1;
}

impl NodeNote {
    /// Returns the new registration under way.
    pub fn reregistration(&self) -> Option<&Reregistration> {
        match &self.lifecycle {
            Lifecycle::Reregistering(change) => Some(change),
            Lifecycle::Joining | Lifecycle::Member | Lifecycle::Leaving(_) | Lifecycle::Gone => None,
        }
    }

    /// Returns the departure under way.
    pub fn departure(&self) -> Option<&Departure> {
        match &self.lifecycle {
            Lifecycle::Leaving(departure) => Some(departure),
            _ => None,
        }
    }
}

/// A request that slurmd did not start with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedConfig {
    #[serde(with = "text")]
    pub requested: Node,
    pub reason: String,
}

/// What slurmd found in this machine. It is looked for once for each start of slurmd, whoever started it: what a
/// machine is made of may have changed by then, and looking costs a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detection {
    /// The start.
    pub invocation: String,
    /// What the machine is taken to have.
    #[serde(with = "text")]
    pub baseline: Node,
    #[serde(with = "text")]
    pub found: Node,
}

/// What this charm knows until the next boot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct BootNote {
    /// When slurmctld was last asked to save this node, in seconds since 1970.
    pub marked: Option<u64>,
    /// The address of another machine under which this node was registered when slurmd was last made to register again
    /// for that. Behind a translation of addresses it stays so for good, and counts once.
    pub address: Option<String>,
    /// When the key was written for which slurmd was last reloaded, in nanoseconds since 1970.
    pub key: Option<u64>,
    /// A key was about to be written that slurmd has not loaded.
    pub key_is_due: bool,
    /// The keys that the controllers know this unit to have.
    pub acknowledged: Option<Acknowledged>,
}

impl Note for BootNote {
    const PATH: &'static str = names::BOOT_NOTE;
    const VERSION: u64 = 1;
}

/// Descriptions are kept as the text that Slurm reads.
mod text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use slurm_conf::Node;

    pub fn serialize<S: Serializer>(node: &Node, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&node.render())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        Node::from_config(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Where earlier versions of this charm kept what they had to know.
pub mod old {
    pub const REQUESTED: &str = "/var/lib/slurmd-charm/node-config";
    pub const LAST_WORKING: &str = "/var/lib/slurmd-charm/node-config.proven";
    pub const REJECTED: &str = "/var/lib/slurmd-charm/node-config.refused";
    pub const DETECTION: &str = "/var/lib/slurmd-charm/detected";
    pub const REREGISTRATION: &str = "/var/lib/slurmd-charm/change";
    pub const WEIGHT: &str = "/var/lib/slurmd-charm/weight";
    /// Not needed any more.
    pub const MARKED: &str = "/run/slurmd-charm-marked";
    pub const ADDRESS: &str = "/run/slurmd-charm-address";

    pub const ALL: [&str; 8] = [REQUESTED, LAST_WORKING, REJECTED, DETECTION, REREGISTRATION, WEIGHT, MARKED, ADDRESS];
}

/// Reads the notes of earlier versions of this charm. None: there are none. Starts no process.
pub fn read_old(view: &View) -> Result<Option<Result<NodeNote, String>>, Error> {
    let mut texts = BTreeMap::new();
    for path in old::ALL {
        texts.extend(files::read_text(&view.host, path)?.map(|text| (path, text)));
    }
    Ok((!texts.is_empty()).then(|| understand_old(&texts)))
}

/// Understands them. Err: work that they are about must not go on as if they were not there.
fn understand_old(texts: &BTreeMap<&'static str, String>) -> Result<NodeNote, String> {
    let text = |path| texts.get(path).map_or("", String::as_str);
    let unreadable = |path: &str, why: &dyn std::error::Error| format!("{path}: {why}");
    let requested = Node::from_config(text(old::REQUESTED)).map_err(|error| unreadable(old::REQUESTED, &error))?;
    let detection = old_detection(text(old::DETECTION));
    let lifecycle = match texts.get(old::REREGISTRATION) {
        Some(text) => Lifecycle::Reregistering(
            serde_json::from_str(text).map_err(|error| unreadable(old::REREGISTRATION, &error))?,
        ),
        None if detection.is_some() => Lifecycle::Member,
        None => Lifecycle::Joining,
    };
    Ok(NodeNote {
        lifecycle,
        requested,
        last_working: Node::from_config(text(old::LAST_WORKING)).unwrap_or_default(),
        rejected: old_rejected(text(old::REJECTED)),
        detection,
        set_weight: text(old::WEIGHT).trim().parse().ok(),
    })
}

/// The request is in the first line, and the reason in the second.
fn old_rejected(text: &str) -> Option<RejectedConfig> {
    let (requested, reason) = text.split_once('\n')?;
    Some(RejectedConfig { requested: Node::from_config(requested).ok()?, reason: reason.trim().to_owned() })
}

fn old_detection(text: &str) -> Option<Detection> {
    let [invocation, baseline, found] = text.lines().collect::<Vec<_>>()[..] else { return None };
    let (baseline, found) = Node::from_config(baseline).ok().zip(Node::from_config(found).ok())?;
    Some(Detection { invocation: invocation.to_owned(), baseline, found })
}

/// Removes them.
pub fn remove_old(writer: &HostWriter) -> Result<(), Error> {
    for path in old::ALL {
        files::remove(writer, path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use slurm_unit::note::{Noted, parse, render};

    fn node(text: &str) -> Node {
        Node::from_config(text).unwrap()
    }

    fn old_note<const N: usize>(texts: [(&'static str, &str); N]) -> Result<NodeNote, String> {
        understand_old(&texts.map(|(path, text)| (path, text.to_owned())).into())
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let note = NodeNote {
            lifecycle: Lifecycle::Member,
            requested: node("RealMemory=900"),
            rejected: Some(RejectedConfig { requested: node("CPUs=99"), reason: "too many".to_owned() }),
            detection: Some(Detection {
                invocation: "a1".to_owned(),
                baseline: node("CPUs=2"),
                found: node("CPUs=2 Gres=gpu:2"),
            }),
            set_weight: Some(7),
            ..NodeNote::default()
        };
        assert_eq!(parse::<NodeNote>(&render(&note)), Noted::Known(note));
    }

    #[test]
    fn a_description_that_cannot_be_read_is_an_unreadable_note() {
        let text = r#"{"version":1,"lifecycle":"member","requested":"Weight"}"#;
        assert!(matches!(parse::<NodeNote>(text), Noted::Unreadable { .. }));
    }

    #[test]
    fn notes_of_the_version_before_are_taken_over() {
        let change = r#"{"from":"CPUs=2","closed":null,"weight":5,"features":["hot"],"comment":"mine"}"#;
        let note = old_note([
            (old::REQUESTED, "RealMemory=900\n"),
            (old::LAST_WORKING, "Weight=3\n"),
            (old::REJECTED, "CPUs=99\nfatal: too many\n"),
            (old::DETECTION, "a1\nCPUs=2\nCPUs=2\n"),
            (old::REREGISTRATION, change),
            (old::WEIGHT, "7\n"),
        ]);
        let note = note.unwrap();
        assert_eq!(note.reregistration().unwrap().comment, "mine");
        assert_eq!((note.requested.render(), note.last_working.render()), ("RealMemory=900".into(), "Weight=3".into()));
        assert_eq!(note.rejected.unwrap().reason, "fatal: too many");
        assert_eq!((note.detection.unwrap().invocation.as_str(), note.set_weight), ("a1", Some(7)));
    }

    #[test]
    fn a_change_of_the_version_before_that_cannot_be_read_is_not_none() {
        for (path, text) in [(old::REREGISTRATION, "{"), (old::REQUESTED, "Weight")] {
            assert!(old_note([(path, text)]).unwrap_err().starts_with(path));
        }
    }
}
