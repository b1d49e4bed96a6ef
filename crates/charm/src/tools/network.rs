//! `network-get`: addresses of the unit, by endpoint.

use super::{ToolError, Tools};
use crate::name::EndpointName;
use serde::Deserialize;

/// The addresses that belong to one endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Network {
    /// Addresses to listen on.
    pub bind: Vec<String>,
    /// Addresses others should use.
    pub ingress: Vec<String>,
    /// Where connections of this unit come from. Empty under Juju 4.0.9.
    pub egress: Vec<String>,
}

impl Tools {
    /// Reads the addresses of an endpoint.
    pub fn network_get(&self, endpoint: &EndpointName) -> Result<Network, ToolError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        struct Answer {
            #[serde(default)]
            bind_addresses: Option<Vec<Interface>>,
            #[serde(default)]
            ingress_addresses: Option<Vec<String>>,
            #[serde(default)]
            egress_subnets: Option<Vec<String>>,
        }
        #[derive(Deserialize)]
        struct Interface {
            #[serde(default)]
            addresses: Option<Vec<Address>>,
        }
        #[derive(Deserialize)]
        struct Address {
            value: String,
        }
        let answer: Answer = self.ask_once("network-get", &[endpoint.as_str()])?;
        let interfaces = answer.bind_addresses.unwrap_or_default().into_iter();
        Ok(Network {
            bind: interfaces.flat_map(|interface| interface.addresses.unwrap_or_default()).map(|a| a.value).collect(),
            ingress: answer.ingress_addresses.unwrap_or_default(),
            egress: answer.egress_subnets.unwrap_or_default(),
        })
    }
}
