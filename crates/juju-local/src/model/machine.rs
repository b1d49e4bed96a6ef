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
