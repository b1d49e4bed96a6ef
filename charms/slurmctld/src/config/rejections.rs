//! What slurmctld, or Slurm's parser, did not take: a note, so that it is not tried again and again, and so that a
//! dispatch that is killed while it puts the old files back is continued by the next.

use super::files::Files;
use super::sources::{ChangeFingerprint, ConfigSource};
use crate::names;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use slurm_unit::note::Note;
use std::collections::BTreeMap;

/// How many seconds an administrator is told that a file was put back.
const TOLD: u64 = 15 * 60;

/// What was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejections {
    /// The last files that were refused as a whole.
    pub last: Option<RejectedConfig>,
    /// Changes that were refused for themselves, each with the reason.
    pub changes: BTreeMap<String, (ChangeFingerprint, String)>,
    /// When a file was put back that somebody had changed by hand, in seconds since 1970, and why. Only the status
    /// tells.
    #[serde(default)]
    pub taken_back: Option<(u64, String)>,
}

/// Files that were refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedConfig {
    pub files: Files,
    /// The Slurm that refused them.
    pub version: String,
    pub reason: String,
}

impl Note for Rejections {
    const PATH: &'static str = names::REJECTIONS;
    const VERSION: u64 = 1;
    const BESIDE_SLURM: bool = true;

    fn upgrade(version: u64, fields: Map<String, Value>) -> Option<Self> {
        // The first notes had no version, and other names for the fields of a change.
        (version == 0).then(|| serde_json::from_value(Value::Object(fields)).ok()).flatten()
    }
}

impl Rejections {
    /// Says whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these and one more: `rejected`, which differ from the accepted files by `changes`. Of one change it is
    /// known that it is to blame.
    #[must_use]
    pub fn with(&self, rejected: RejectedConfig, changes: &[ChangeFingerprint]) -> Self {
        let kept = match changes {
            [only] => self.blaming(only.clone(), rejected.reason.clone()),
            _ => self.clone(),
        };
        Self { last: Some(rejected), ..kept }
    }

    /// Does the same for files that are taken out of their place: whoever wrote them by hand is told.
    #[must_use]
    pub fn with_taken_back(&self, rejected: RejectedConfig, changes: &[ChangeFingerprint], now: u64) -> Self {
        let by_hand = changes.iter().any(|change| change.source == ConfigSource::File);
        let taken_back = if by_hand { Some((now, rejected.reason.clone())) } else { self.taken_back.clone() };
        Self { taken_back, ..self.with(rejected, changes) }
    }

    /// Returns these, and that a change was refused for itself.
    #[must_use]
    pub fn blaming(&self, change: ChangeFingerprint, reason: String) -> Self {
        let mut blaming = self.clone();
        blaming.changes.insert(change.source.to_string(), (change, reason));
        blaming
    }

    /// Returns why a change, exactly as it would be made now, was refused.
    pub fn reason(&self, change: &ChangeFingerprint) -> Option<&str> {
        let (known, reason) = self.changes.get(&change.source.to_string())?;
        (known == change).then_some(reason.as_str())
    }

    /// Returns why a file was put back, as long as that is news.
    pub fn news(&self, now: u64) -> Option<&str> {
        self.taken_back.as_ref().filter(|(at, _)| now < at + TOLD).map(|(_, why)| why.as_str())
    }
}
