//! The files that slurmctld reads and hands to the compute nodes, what can change in them, and what was refused of that. Values only.

use crate::names;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The texts of the files; None if a file is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    pub slurm: Option<String>,
    pub cgroup: Option<String>,
    pub gres: Option<String>,
}

impl Files {
    /// Where each of them is.
    pub const PATHS: [&'static str; 3] = [names::SLURM_CONF, names::CGROUP_CONF, names::GRES_CONF];

    /// Returns each file with its path. slurm.conf comes last: it names nothing that is not there by then.
    pub fn entries(&self) -> [(&'static str, Option<&str>); 3] {
        let [slurm, cgroup, gres] = Self::PATHS;
        [(cgroup, self.cgroup.as_deref()), (gres, self.gres.as_deref()), (slurm, self.slurm.as_deref())]
    }
}

/// One of several independent things that can change in the files, so that one that is refused costs none of the others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Change {
    /// What the charm itself or an administrator's hand wrote.
    File,
    /// The option `slurm-conf-parameters`.
    Parameters,
    /// The options `process-tracking` and `cgroup-parameters`.
    Tracking,
    /// The partition of that name.
    Partition(String),
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => write!(formatter, "slurm.conf"),
            Self::Parameters => write!(formatter, "option {}", names::OPTION_PARAMETERS),
            Self::Tracking => write!(formatter, "option {}", names::OPTION_CGROUP_PARAMETERS),
            Self::Partition(name) => write!(formatter, "partition {name}"),
        }
    }
}

/// A change as it would be made now, to be recognised later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    pub change: Change,
    /// What it wants, as text.
    pub wish: String,
    /// What the verdict depends on besides: another Slurm or other parameters deserve another try.
    pub basis: String,
}

/// What slurmctld, or Slurm's parser, did not take.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// The last files that were refused as a whole.
    pub last: Option<Refused>,
    /// Changes that were refused for themselves, each with the reason.
    pub changes: BTreeMap<String, (Suspect, String)>,
    /// When a file was put back that somebody had changed by hand, in seconds since 1970, and why. Nobody else tells them.
    #[serde(default)]
    pub taken_back: Option<(u64, String)>,
}

/// Files that were refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub files: Files,
    /// The Slurm that refused them.
    pub version: String,
    pub reason: String,
}

impl Refusals {
    /// Notes that `files` were refused. If they contained one change only, that is the culprit.
    pub fn note(&mut self, refused: Refused, suspects: &[Suspect]) {
        if let [only] = suspects {
            self.blame(only.clone(), refused.reason.clone());
        }
        self.last = Some(refused);
    }

    /// Notes that a change was refused for itself.
    pub fn blame(&mut self, suspect: Suspect, reason: String) {
        self.changes.insert(suspect.change.to_string(), (suspect, reason));
    }

    /// Returns why a change, exactly as it would be made now, was refused.
    pub fn reason(&self, suspect: &Suspect) -> Option<&str> {
        self.changes
            .get(&suspect.change.to_string())
            .filter(|(refused, _)| refused == suspect)
            .map(|(_, reason)| reason.as_str())
    }
}
