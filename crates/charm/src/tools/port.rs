//! `open-port`, `close-port`, `opened-ports`: what the firewall should let through once the application is exposed.

use super::{Juju, JujuWriter, ToolError};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// What a port speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// A port, or a range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    first: u16,
    last: u16,
    protocol: Protocol,
}

impl Port {
    /// Returns one TCP port.
    pub fn tcp(port: u16) -> Self {
        Self { first: port, last: port, protocol: Protocol::Tcp }
    }

    /// Returns one UDP port.
    pub fn udp(port: u16) -> Self {
        Self { first: port, last: port, protocol: Protocol::Udp }
    }

    /// Returns a range of ports, its ends included and in either order.
    pub fn range(one: u16, other: u16, protocol: Protocol) -> Self {
        Self { first: one.min(other), last: one.max(other), protocol }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        match self.first == self.last {
            true => write!(formatter, "{}/{protocol}", self.first),
            false => write!(formatter, "{}-{}/{protocol}", self.first, self.last),
        }
    }
}

/// A text that is no port, such as `icmp`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a port as in `6817/tcp` or `60001-63000/udp`")]
pub struct NoPort;

impl FromStr for Port {
    type Err = NoPort;

    fn from_str(text: &str) -> Result<Self, NoPort> {
        let (ports, protocol) = text.split_once('/').ok_or(NoPort)?;
        let protocol = match protocol {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            _ => return Err(NoPort),
        };
        let number = |digits: &str| digits.parse::<u16>().map_err(|_| NoPort);
        match ports.split_once('-') {
            None => number(ports).map(|port| Self::range(port, port, protocol)),
            Some((first, last)) => Ok(Self::range(number(first)?, number(last)?, protocol)),
        }
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
    /// Lists the ports that will be open when this dispatch has ended. `icmp`, which this crate cannot open, is left
    /// out.
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
        Ok(texts.unwrap_or_default().iter().filter_map(|text| text.parse().ok()).collect())
    }
}
