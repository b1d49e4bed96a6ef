//! Reservations: a node that one of them names must not be deleted under it.

use super::{MaybeNumber, ScontrolError, ask, scontrol};
use crate::machine::Host;
use serde::Deserialize;
use slurm_conf::{HostList, NodeName};

/// What slurmctld knows about a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationRecord {
    /// Its name.
    pub name: String,
    /// Its nodes, as a host list.
    pub nodes: String,
    /// When it begins, in seconds since 1970.
    pub start: Option<u64>,
    /// When it ends, in seconds since 1970.
    pub end: Option<u64>,
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
        reservations: Vec<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        name: String,
        node_list: String,
        start_time: MaybeNumber,
        end_time: MaybeNumber,
    }
    let answer: Answer = ask(|json| scontrol(host).args(["show", "reservation", json]))?;
    let record = |entry: Entry| ReservationRecord {
        name: entry.name,
        nodes: entry.node_list,
        start: entry.start_time.finite(),
        end: entry.end_time.finite(),
    };
    Ok(answer.reservations.into_iter().map(record).collect())
}

/// Lists the reservations that name a node.
pub fn reservations_naming(host: &Host, node: &NodeName) -> Result<Vec<ReservationRecord>, ScontrolError> {
    Ok(reservations(host)?.into_iter().filter(|reservation| reservation.names(node)).collect())
}
