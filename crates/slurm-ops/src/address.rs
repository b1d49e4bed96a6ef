//! Whether an address is one of this machine's, and whether a program listens on a port.

use crate::machine::Host;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::net::{IpAddr, UdpSocket};

/// Says whether a text is an address, and surely none of this machine's. The kernel knows, and tells whoever wants to
/// listen there.
pub fn is_foreign(text: &str) -> bool {
    let Ok(address) = text.parse::<IpAddr>() else { return false };
    UdpSocket::bind((address, 0)).is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
}

/// The state of a socket that listens, in the kernel's table.
const LISTENS: &str = "0A";

/// The length of a line of that table, so that the kernel looks for one at a time. It lists listeners first, and then
/// goes through every place that a connection could have, which takes some milliseconds.
const LINE: usize = 150;

/// Tells whether no program of this machine listens on a TCP port. Starts no process. What cannot be found out is no
/// silence.
pub fn is_silent(host: &Host, port: u16) -> bool {
    let listens = |path: &str| File::open(host.path(path)).and_then(|table| listens(table, port));
    match listens("/proc/net/tcp") {
        // A machine need not have the newer addresses.
        Ok(false) => !listens("/proc/net/tcp6").is_ok_and(|listens| listens),
        Ok(true) | Err(_) => false,
    }
}

/// A line is `0: 00000000:1AA1 00000000:0000 0A …`: its own address, the other end, its state.
fn listens(table: impl Read, port: u16) -> io::Result<bool> {
    let port = format!(":{port:04X}");
    for line in BufReader::with_capacity(LINE, table).lines() {
        let line = line?;
        let mut words = line.split_whitespace().skip(1);
        if words.next().is_some_and(|own| own.ends_with(&port)) && words.nth(1) == Some(LISTENS) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_listens_is_found_among_connections() {
        let head = "  sl  local_address rem_address   st tx_queue\n";
        let listener = "   0: 00000000:1AA1 00000000:0000 0A 00000000:00000000\n";
        let connection = "   1: 0AD8470A:1AA1 0AD8470A:B1CE 06 00000000:00000000\n";
        let listens = |table: String, port| listens(table.as_bytes(), port).unwrap();
        assert!(listens(format!("{head}{connection}{listener}"), 6817));
        assert!(!listens(format!("{head}{connection}"), 6817));
        assert!(!listens(format!("{head}{listener}"), 6818));
    }

    #[test]
    fn only_what_is_an_address_of_another_machine_is_foreign() {
        // Set aside for documents: nobody has it.
        assert!(is_foreign("192.0.2.7"));
        for text in ["127.0.0.1", "", "juju-c9fc6f-1", "192.0.2", "192.0.2.7:6818"] {
            assert!(!is_foreign(text), "{text}");
        }
    }
}
