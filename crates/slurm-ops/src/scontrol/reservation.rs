//! Reservations: a node that one of them names must not be deleted under it.

use super::{ScontrolError, ask, scontrol};
use crate::machine::Host;
use serde::Deserialize;
use slurm_conf::{HostList, NodeName};

/// What slurmctld knows about a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ReservationRecord {
    /// Its name.
    pub name: String,
    /// Its nodes, as a host list.
    #[serde(rename = "node_list")]
    pub nodes: String,
}

impl ReservationRecord {
    /// Tells whether a node is in it. A list that cannot be read may name it.
    pub fn names(&self, node: &NodeName) -> bool {
        self.nodes.parse().map_or(true, |list: HostList| list.contains(node.as_str()))
    }
}

/// Lists every reservation, those to come included.
pub fn reservations(host: &Host) -> Result<Vec<ReservationRecord>, ScontrolError> {
    #[derive(Deserialize)]
    struct Answer {
        reservations: Vec<ReservationRecord>,
    }
    ask::<Answer>(|json| scontrol(host).args(["show", "reservation", json])).map(|answer| answer.reservations)
}

/// Lists the reservations that name a node.
pub fn reservations_naming(host: &Host, node: &NodeName) -> Result<Vec<ReservationRecord>, ScontrolError> {
    Ok(reservations(host)?.into_iter().filter(|reservation| reservation.names(node)).collect())
}
