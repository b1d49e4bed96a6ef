//! The time of this machine.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time in seconds since 1970, as notes and the journal have it.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
