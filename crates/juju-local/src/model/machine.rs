//! A machine as the model knows it.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::{Life, StatusInfo};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub id: String,
    pub hostname: String,
    pub address: Ipv4Addr,
    pub base: (String, String),
    pub life: Life,
    /// Made by `juju add-machine`: stays when its last unit goes.
    pub keep: bool,
    /// Tells one boot from the next, as its agent reports it.
    pub boot: Option<String>,
    /// `juju-status`: the agent.
    pub agent: StatusInfo,
    /// `machine-status`: the instance.
    pub instance: StatusInfo,
    /// What its agent shows when it connects.
    pub password: String,
}

#[cfg(test)]
impl Machine {
    /// A machine that exists only in a test's model.
    pub fn new(id: &str) -> Self {
        use super::Status;
        Machine {
            id: id.to_owned(),
            hostname: format!("test-{id}"),
            address: Ipv4Addr::LOCALHOST,
            base: ("ubuntu".to_owned(), "24.04".to_owned()),
            life: Life::Alive,
            keep: false,
            boot: None,
            agent: StatusInfo::new(Status::Started, ""),
            instance: StatusInfo::new(Status::Running, ""),
            password: String::new(),
        }
    }
}
