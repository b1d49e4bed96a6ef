//! The applications that this cluster has served: a note, so that a partition whose relation has ended is taken out in
//! an order that a kill, a restart of slurmctld and a takeover survive.

use crate::names;
use serde::{Deserialize, Serialize};
use slurm_conf::{NameError, PartitionName};
use slurm_ops::scontrol::PartitionState;
use slurm_unit::note::Note;
use std::collections::BTreeMap;

/// Every application that this cluster has served, by the name of its partition, which is its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub struct Applications(pub BTreeMap<PartitionName, Stage>);

/// How far an application has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "lowercase")]
pub enum Stage {
    /// Its partition is in effect, and nothing is known of an end.
    Related,
    /// Its relation has ended; its partition is closed, and waits for jobs and nodes to go.
    Leaving {
        /// The state that the partition had before.
        state: PartitionState,
    },
    /// Nothing names its partition any more, which is being taken away. This is ended before it may come again.
    Removing,
}

/// The form of the note.
#[derive(Clone, Serialize, Deserialize)]
struct Fields {
    applications: BTreeMap<String, Stage>,
}

impl TryFrom<Fields> for Applications {
    type Error = NameError;

    fn try_from(fields: Fields) -> Result<Self, NameError> {
        let stages = fields.applications.into_iter().map(|(name, stage)| Ok((PartitionName::new(name)?, stage)));
        stages.collect::<Result<_, _>>().map(Self)
    }
}

impl From<Applications> for Fields {
    fn from(Applications(stages): Applications) -> Self {
        Self { applications: stages.into_iter().map(|(name, stage)| (name.to_string(), stage)).collect() }
    }
}

impl Note for Applications {
    const PATH: &'static str = names::APPLICATIONS;
    const VERSION: u64 = 1;
    const BESIDE_SLURM: bool = true;
}

impl Applications {
    /// Says whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the partitions that are being taken away.
    pub fn removing(&self) -> impl Iterator<Item = &PartitionName> {
        self.0.iter().filter(|(_, stage)| **stage == Stage::Removing).map(|(name, _)| name)
    }

    /// Says whether this partition is being taken away.
    pub fn is_removing(&self, name: &str) -> bool {
        self.removing().any(|own| own.as_str() == name)
    }

    /// Returns the partitions whose application's relation has ended.
    pub fn leaving(&self) -> impl Iterator<Item = &PartitionName> {
        self.0.iter().filter(|(_, stage)| **stage != Stage::Related).map(|(name, _)| name)
    }

    /// Says whether the relation of this partition's application has ended.
    pub fn is_leaving(&self, name: &str) -> bool {
        self.leaving().any(|own| own.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slurm_unit::note::{Noted, parse, render};

    #[test]
    fn the_note_says_how_far_each_application_has_come() {
        let stages = [
            ("compute", Stage::Leaving { state: PartitionState::Down }),
            ("gpu", Stage::Related),
            ("old", Stage::Removing),
        ];
        let note = Applications(stages.map(|(name, stage)| (name.parse().unwrap(), stage)).into());
        let text = "{\"version\":1,\"applications\":{\"compute\":{\"stage\":\"leaving\",\"state\":\"DOWN\"},\
            \"gpu\":{\"stage\":\"related\"},\"old\":{\"stage\":\"removing\"}}}\n";
        let fields: serde_json::Value = serde_json::from_str(&render(&note)).unwrap();
        assert_eq!(fields, serde_json::from_str::<serde_json::Value>(text).unwrap());
        assert_eq!(parse::<Applications>(text), Noted::Known(note.clone()));
        assert_eq!(note.removing().map(PartitionName::as_str).collect::<Vec<_>>(), ["old"]);
    }

    #[test]
    fn a_name_that_cannot_be_one_is_not_read_as_none() {
        for text in [
            r#"{"version":1,"applications":{"a b":{"stage":"related"}}}"#,
            r#"{"version":1,"applications":{"a":{"stage":"gone"}}}"#,
            r#"{"version":1}"#,
        ] {
            assert!(parse::<Applications>(text).problem().is_some(), "{text}");
        }
    }
}
