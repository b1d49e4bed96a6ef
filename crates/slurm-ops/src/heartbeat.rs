//! Who serves: what the active slurmctld writes into the state directory while it does.
//!
//! `scontrol ping` tells who answers; only this tells who is active. A cluster with one controller has no such file.

use crate::files::{self, FileError};
use crate::machine::Host;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The file, below the state directory.
pub(crate) const FILE: &str = "heartbeat";

/// The last sign of life of the active controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// When, in seconds since 1970.
    pub at: u64,
    /// Whose, by position among the `SlurmctldHost` lines that it runs with.
    pub controller: u64,
}

/// Reads the heartbeat, with a deadline. `None`: there is none, as for a moment during a hand-over, or it is just
/// being written.
pub fn heartbeat(host: &Host, state_directory: impl AsRef<Path>) -> Result<Option<Heartbeat>, FileError> {
    Ok(files::read(host, state_directory.as_ref().join(FILE))?.as_deref().and_then(parse))
}

/// Two numbers of eight bytes, the most significant first.
pub(crate) fn parse(content: &[u8]) -> Option<Heartbeat> {
    let (at, controller) = content.split_at_checked(8)?;
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).ok();
    Some(Heartbeat { at: number(at)?, controller: number(controller)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn time_and_rank_are_read() {
        let mut content = 1_794_830_922_u64.to_be_bytes().to_vec();
        content.extend([0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(parse(&content), Some(Heartbeat { at: 1_794_830_922, controller: 1 }));
    }

    #[test]
    fn half_a_heartbeat_is_none() {
        for length in [0, 1, 8, 15, 17, 32] {
            assert_eq!(parse(&vec![0; length]), None, "{length}");
        }
    }

    #[test]
    fn a_single_controller_has_none() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(heartbeat(&Machine::at(directory.path()).host(), "/state").unwrap(), None);
    }
}
