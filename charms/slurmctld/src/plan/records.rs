//! When the record of a node may be deleted by somebody else than its unit. Pure.

use crate::condition::NodeHeld;
use charm::UnitName;
use slurm_conf::{NodeName, PartitionName};
use slurm_ops::scontrol::{JobRecord, NodeRecord, ReservationRecord};

/// What slurmctld knows that decides about records.
#[derive(Clone, Copy)]
pub(super) struct Records<'f> {
    pub(super) nodes: &'f [NodeRecord],
    pub(super) jobs: &'f [JobRecord],
    pub(super) reservations: &'f [ReservationRecord],
}

/// What may become of a record without a unit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It takes jobs: first it is drained.
    InService,
    Held(NodeHeld),
    Delete,
}

impl Records<'_> {
    /// Judges the record of a node whose unit is gone.
    pub(super) fn judge(&self, node: &NodeRecord, name: &NodeName) -> Verdict {
        if !node.is_set_aside() && !node.has("NOT_RESPONDING") {
            return Verdict::InService;
        }
        let on = self.jobs.iter().find(|job| job.is_on(name)).map(|job| NodeHeld::Job(job.handle()));
        let waits = || self.jobs.iter().find(|job| job.waits_for(name)).map(|job| NodeHeld::Pending(job.handle()));
        let reserved = || self.reservations.iter().find(|reservation| reservation.names(name));
        let reserved = || reserved().map(|reservation| NodeHeld::Reservation(reservation.name.clone()));
        on.or_else(waits).or_else(reserved).map_or(Verdict::Delete, Verdict::Held)
    }
}

/// Says whether a node counts as one of an application's partition.
pub(super) fn has_feature(node: &NodeRecord, app: &PartitionName) -> bool {
    node.features.iter().any(|feature| feature == app.as_str())
}

/// Returns the node and its unit, if it is one that a unit of this application made: it registered by itself, with the
/// feature of the application, and is called like a unit of it.
pub(super) fn unit_node(node: &NodeRecord, app: &PartitionName) -> Option<(NodeName, UnitName)> {
    let unit = unit(&node.name, app).filter(|_| node.is_dynamic() && has_feature(node, app))?;
    Some((NodeName::new(node.name.as_str()).ok()?, unit))
}

/// Returns the unit that has a node of this name: `compute-1` is that of `compute/1`, and `compute-gpu-1` and
/// `compute-01` are of no unit of `compute`.
pub(super) fn unit(name: &str, app: &PartitionName) -> Option<UnitName> {
    let digits = name.strip_prefix(app.as_str())?.strip_prefix('-')?;
    let plain = digits == "0" || !digits.starts_with('0');
    format!("{app}/{digits}").parse().ok().filter(|_| plain)
}
