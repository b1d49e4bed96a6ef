//! The time of this machine.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time in seconds since 1970, as notes and the journal have it.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Returns a time as it stands in the name of a file that is kept: `20261117_180512`, in UTC.
pub fn stamp(seconds: u64) -> String {
    const DAY: u64 = 24 * 60 * 60;
    let (mut days, rest) = (seconds / DAY, seconds % DAY);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{:02}_{hour:02}{minute:02}{second:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_names_day_and_second() {
        for (seconds, expected) in [
            (0, "19700101_000000"),
            (951_782_399, "20000228_235959"),
            (951_782_400, "20000229_000000"),
            (951_868_800, "20000301_000000"),
            (1_798_761_599, "20261231_235959"),
            (1_794_938_712, "20261117_180512"),
        ] {
            assert_eq!(stamp(seconds), expected);
        }
    }
}
