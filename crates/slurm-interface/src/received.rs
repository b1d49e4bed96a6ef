//! What came from a remote, with who sent it and which generation of charm wrote it.

use crate::databag::DecodeError;
use std::fmt;

/// Which wire form a bag has. The data that comes out is the same; this is for logs and for knowing whom one talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// Partitions of nodes that slurm.conf lists, and keys in clear text. Refused.
    Static,
    /// Early builds of the charms with dynamic nodes: `partitionconfig`.
    Early,
    /// The charms up to April 2026: the secret is named in `auth_key_id`.
    Previous,
    /// The names of the written specification: a bare `auth_key_id`, or `nodeset` beside `partition`.
    Specification,
    /// The charms of today.
    Current,
}

impl fmt::Display for Generation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Static => "static nodes",
            Self::Early => "early dynamic nodes",
            Self::Previous => "before April 2026",
            Self::Specification => "specification",
            Self::Current => "current",
        })
    }
}

/// A bag that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Received<Data> {
    /// The content; `None` if the remote has not published it yet.
    pub data: Option<Data>,
    /// Which wire form it has; `None` if it has nothing that tells.
    pub generation: Option<Generation>,
}

/// A bag that cannot be used, with who sent it. It costs that sender its place, and nobody else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sender}: {error}")]
pub struct BagError {
    /// The application or unit that wrote the bag.
    pub sender: String,
    /// What is wrong with the bag, and in which key.
    pub error: DecodeError,
}

impl DecodeError {
    /// Adds who sent the bag.
    pub fn sent_by(self, sender: &str) -> BagError {
        BagError { sender: sender.to_owned(), error: self }
    }
}
