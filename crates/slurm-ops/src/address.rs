//! Whether an address is one of this machine's.

use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};

/// Says whether a text is an address, and surely none of this machine's. The kernel knows, and tells whoever wants to
/// listen there.
pub fn is_foreign(text: &str) -> bool {
    let Ok(address) = text.parse::<IpAddr>() else { return false };
    UdpSocket::bind((address, 0)).is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_an_address_of_another_machine_is_foreign() {
        // Set aside for documents: nobody has it.
        assert!(is_foreign("192.0.2.7"));
        for text in ["127.0.0.1", "", "juju-c9fc6f-1", "192.0.2", "192.0.2.7:6818"] {
            assert!(!is_foreign(text), "{text}");
        }
    }
}
