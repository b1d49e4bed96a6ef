//! `open-port`, `opened-ports`: what the firewall should let through once the application is exposed.

use super::{ToolError, Tools};
use std::fmt;

/// A TCP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port(pub u16);

impl fmt::Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/tcp", self.0)
    }
}

impl Tools {
    /// Opens a port.
    pub fn open_port(&self, port: Port) -> Result<(), ToolError> {
        self.tell("open-port", &[&port.to_string()])
    }

    /// Lists the single TCP ports that are open, those opened in this hook included. Ranges and other protocols, which
    /// this crate cannot open, are left out.
    pub fn opened_ports(&self) -> Result<Vec<Port>, ToolError> {
        let texts: Option<Vec<String>> = self.ask("opened-ports", &[])?;
        let single = |text: &String| text.strip_suffix("/tcp").and_then(|port| port.parse().ok()).map(Port);
        Ok(texts.unwrap_or_default().iter().filter_map(single).collect())
    }
}
