//! `open-port`, `close-port`, `opened-ports`: what the firewall should let through once the application is exposed.

use super::{Juju, JujuWriter, ToolError};
use std::collections::BTreeSet;
use std::fmt;

/// A TCP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port(u16);

impl Port {
    /// Returns a TCP port.
    pub fn tcp(port: u16) -> Self {
        Self(port)
    }

    /// Reads a port as Juju shows it. None: a range, or another protocol, which no charm here opens.
    fn read(text: &str) -> Option<Self> {
        text.strip_suffix("/tcp")?.parse().ok().map(Self)
    }
}

impl fmt::Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/tcp", self.0)
    }
}

impl JujuWriter {
    /// Has a port opened at the end, unless it is open.
    pub fn open_port(&self, port: Port) {
        self.link.session().ports.insert(port, true);
    }

    /// Has a port closed at the end, unless it is closed.
    pub fn close_port(&self, port: Port) {
        self.link.session().ports.insert(port, false);
    }
}

impl Juju {
    /// Lists the TCP ports that will be open when this dispatch has ended.
    pub fn opened_ports(&self) -> Result<BTreeSet<Port>, ToolError> {
        let mut open = self.open_now()?;
        for (port, wanted) in &self.link.session().ports {
            match wanted {
                true => open.insert(*port),
                false => open.remove(port),
            };
        }
        Ok(open)
    }

    pub(super) fn open_now(&self) -> Result<BTreeSet<Port>, ToolError> {
        let texts: Option<Vec<String>> = self.link.ask_once("opened-ports", &[])?;
        Ok(texts.unwrap_or_default().iter().filter_map(|text| Port::read(text)).collect())
    }
}
