//! Reservations. One whose last node is deleted is destroyed.

use super::Slurm;
use crate::machine::{fails, says};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slurm_conf::HostList;
use slurm_ops::command::Ended;

/// A reservation, by its name in Slurm's memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Reservation {
    /// A host list.
    nodes: String,
    start: u64,
    end: u64,
}

impl Slurm {
    /// Makes a reservation over nodes that begins in an hour and lasts another.
    pub(super) fn reserve(&mut self, name: &str, nodes: &str) {
        const HOUR: u64 = 3600;
        let start = self.now() + HOUR;
        let reservation = Reservation { nodes: nodes.to_owned(), start, end: start + HOUR };
        self.memory.reservations.insert(name.to_owned(), reservation);
        self.save_reservations();
    }

    pub(super) fn shown_reservations(&self) -> Value {
        let number = |number: u64| json!({"set": true, "infinite": false, "number": number});
        let shown = self.memory.reservations.iter().map(|(name, own)| {
            json!({
                "name": name, "node_list": own.nodes, "partition": "", "flags": ["SPEC_NODES"],
                "start_time": number(own.start), "end_time": number(own.end),
            })
        });
        json!({ "reservations": shown.collect::<Vec<_>>() })
    }

    pub(super) fn delete_reservation(&mut self, name: &str) -> Ended {
        let gone = self.memory.reservations.remove(name).is_some();
        self.save_reservations();
        if gone { says("") } else { fails(1, "slurm_delete_reservation error: Requested reservation is invalid\n") }
    }

    /// A node was deleted. A reservation over others keeps its name.
    pub(super) fn node_leaves_reservations(&mut self, node: &str) {
        self.memory.reservations.retain(|name, own| {
            let list: HostList = own.nodes.parse().unwrap_or_default();
            let destroyed = list.expand().all(|other| other == node);
            if destroyed {
                self.losses.push(format!("reservation {name}: destroyed with {node}"));
            }
            !destroyed
        });
        self.save_reservations();
    }
}
