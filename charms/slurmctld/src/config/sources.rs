//! Where changes of the files come from. They are independent of each other, so that one that is refused costs none of
//! the others.

use crate::names;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One of several independent things that can change in the files.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConfigSource {
    /// What the charm itself or an administrator's hand wrote.
    File,
    /// The option `slurm-conf-parameters`.
    Parameters,
    /// The options `process-tracking` and `cgroup-parameters`.
    Tracking,
    /// The list of controllers.
    Controllers,
    /// The OCI runtime.
    Oci,
    /// The mail integrator.
    Mail,
    /// The partition of that name.
    Partition(String),
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => write!(formatter, "slurm.conf"),
            Self::Parameters => write!(formatter, "option {}", names::OPTION_PARAMETERS),
            Self::Tracking => write!(formatter, "option {}", names::OPTION_CGROUP_PARAMETERS),
            Self::Controllers => write!(formatter, "the list of controllers"),
            Self::Oci => write!(formatter, "endpoint {}", names::ENDPOINT_RUNTIME),
            Self::Mail => write!(formatter, "endpoint {}", names::ENDPOINT_MAIL),
            Self::Partition(name) => write!(formatter, "partition {name}"),
        }
    }
}

/// A change as it would be made now, to be recognised later. The aliases are the names of a note without a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeFingerprint {
    #[serde(alias = "change")]
    pub source: ConfigSource,
    /// What it wants, as text.
    #[serde(alias = "wish")]
    pub requested: String,
    /// What the verdict depends on besides: another Slurm or other parameters deserve another try.
    #[serde(alias = "basis")]
    pub context: String,
}
