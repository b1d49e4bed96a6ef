//! A machine as the model knows it.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::{Life, Model, Status, StatusInfo};
use crate::clock::Moment;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub id: String,
    pub hostname: String,
    pub address: Ipv4Addr,
    pub base: (String, String),
    pub life: Life,
    /// Made by `juju add-machine`: stays when its last unit goes.
    pub keep: bool,
    /// Since when it is leaving without a unit on it.
    pub emptied: Option<Moment>,
    /// Tells one boot from the next, as its agent reports it.
    pub boot: Option<String>,
    /// `juju-status`: the agent.
    pub agent: StatusInfo,
    /// `machine-status`: the instance.
    pub instance: StatusInfo,
    /// Since when its agent has not been heard of.
    pub lost: Option<Moment>,
    /// What its agent shows when it connects.
    pub password: String,
}

const NOT_COMMUNICATING: &str = "agent is not communicating with the server";

impl Machine {
    /// The agent's status, or that it is lost.
    pub fn agent_status(&self) -> StatusInfo {
        match self.lost {
            Some(since) if self.life == Life::Alive => {
                StatusInfo { current: Status::Down, message: NOT_COMMUNICATING.to_owned(), since }
            }
            _ => self.agent.clone(),
        }
    }
}

impl Model {
    /// Since when nothing was heard of the agent on a machine.
    pub fn lost_since(&self, machine: &str) -> Option<Moment> {
        self.machines.get(machine).and_then(|machine| machine.lost)
    }

    /// The status of a unit's agent, or that it is lost.
    pub fn unit_agent_status(&self, unit: &super::Unit) -> StatusInfo {
        match self.lost_since(&unit.machine) {
            Some(since) => StatusInfo { current: Status::Lost, message: NOT_COMMUNICATING.to_owned(), since },
            None => unit.agent.clone(),
        }
    }
}

#[cfg(test)]
impl Machine {
    /// A machine that exists only in a test's model.
    pub fn new(id: &str) -> Self {
        Machine {
            id: id.to_owned(),
            hostname: format!("test-{id}"),
            address: Ipv4Addr::LOCALHOST,
            base: ("ubuntu".to_owned(), "24.04".to_owned()),
            life: Life::Alive,
            keep: false,
            emptied: None,
            boot: None,
            agent: StatusInfo::new(Status::Started, ""),
            instance: StatusInfo::new(Status::Running, ""),
            lost: None,
            password: String::new(),
        }
    }
}
