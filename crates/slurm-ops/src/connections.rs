//! Who listens on this machine and to whom it is connected, from the kernel's own tables. Starts no process.

use crate::files::{self, FileError};
use crate::machine::Host;

const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// States of a connection, as the tables have them.
const ESTABLISHED: &str = "01";
const LISTENING: &str = "0A";

/// Tells whether somebody listens on a port.
pub fn is_listening(host: &Host, port: u16) -> Result<bool, FileError> {
    any(host, |local, _, state| state == LISTENING && local == Some(port))
}

/// Tells whether somebody on this machine is connected to a port, of whatever machine.
pub fn is_connected_to(host: &Host, port: u16) -> Result<bool, FileError> {
    any(host, |_, remote, state| state == ESTABLISHED && remote == Some(port))
}

fn any(host: &Host, is_meant: impl Fn(Option<u16>, Option<u16>, &str) -> bool) -> Result<bool, FileError> {
    for table in TABLES {
        let text = files::read_text(host, table)?.unwrap_or_default();
        if text.lines().skip(1).any(|line| matches(line, &is_meant)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The columns are a number, the local address, the remote one and the state; ports are hexadecimal.
fn matches(line: &str, is_meant: impl Fn(Option<u16>, Option<u16>, &str) -> bool) -> bool {
    let port = |address: Option<&str>| u16::from_str_radix(address?.rsplit_once(':')?.1, 16).ok();
    let mut columns = line.split_whitespace().skip(1);
    let (local, remote) = (port(columns.next()), port(columns.next()));
    columns.next().is_some_and(|state| is_meant(local, remote, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTENER: &str = "   0: 00000000:1AA4 00000000:0000 0A 00000000:00000000 00:00000000 00000000 64030 0 4711 1";
    const CLIENT: &str = "   1: 0A0A0001:C350 0A0A0003:1AA3 01 00000000:00000000 00:00000000 00000000 64030 0 4712 1";

    #[test]
    fn ports_are_hexadecimal_and_the_state_counts() {
        let listens = |line: &str, port| matches(line, |local, _, state| state == LISTENING && local == Some(port));
        let connected =
            |line: &str, port| matches(line, |_, remote, state| state == ESTABLISHED && remote == Some(port));
        assert!(listens(LISTENER, 6820) && !listens(LISTENER, 6819) && !listens(CLIENT, 50000));
        assert!(connected(CLIENT, 6819) && !connected(CLIENT, 6820) && !connected(LISTENER, 0));
        assert!(!listens("", 0) && !connected("0: nonsense", 0));
    }
}
