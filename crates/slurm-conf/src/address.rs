//! Where a controller listens, as slurmd's `--conf-server` and the databags write it.

use crate::error::{NameError, excerpt};
use crate::name::HostName;
use std::fmt;
use std::str::FromStr;

/// Slurm's default port of slurmctld.
pub const SLURMCTLD_PORT: u16 = 6817;

/// `host:port` of a controller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerAddress {
    /// Host name of the controller.
    pub host: HostName,
    /// Port of slurmctld.
    pub port: u16,
}

impl ControllerAddress {
    /// Returns the address of a controller on Slurm's default port.
    pub fn new(host: HostName) -> Self {
        Self { host, port: SLURMCTLD_PORT }
    }
}

impl fmt::Display for ControllerAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

impl FromStr for ControllerAddress {
    type Err = NameError;

    /// Reads `host` or `host:port`.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let refused = || NameError {
            kind: "controller address",
            name: excerpt(text),
            expected: "`host:port`, such as `head-0:6817`",
        };
        let (host, port) = match text.split_once(':') {
            // `u16::from_str` would also take a sign.
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                (host, port.parse().ok().filter(|port| *port != 0).ok_or_else(refused)?)
            }
            Some(_) => return Err(refused()),
            None => (text, SLURMCTLD_PORT),
        };
        Ok(Self { host: HostName::new(host).map_err(|_| refused())?, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_written() {
        let address: ControllerAddress = "c1:6000".parse().unwrap();
        assert_eq!(address.to_string(), "c1:6000");
        assert_eq!("c1".parse::<ControllerAddress>().unwrap().to_string(), "c1:6817");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", ":6817", "c1:", "c1:0", "c1:+1", "c1:65536", "c1:1:2", "c1 :1", "a,b:1", "c1:6817\n"] {
            assert!(text.parse::<ControllerAddress>().is_err(), "{text:?}");
        }
    }
}
