//! What both charms say in Slurm about a node that leaves.

/// The reason of a drain that a charm made because a node leaves. Nobody else's drain says this.
pub const LEAVING_REASON: &str = "juju: leaving the cluster";
