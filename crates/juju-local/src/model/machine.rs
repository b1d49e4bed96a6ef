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
    /// `juju-status`: the agent.
    pub agent: StatusInfo,
    /// `machine-status`: the instance.
    pub instance: StatusInfo,
    /// What its agent shows when it connects.
    pub password: String,
}
