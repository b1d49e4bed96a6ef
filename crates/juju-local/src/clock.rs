//! Points in time as the model stores them, and the ways Juju writes them.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

const LOCAL: &[BorrowedFormatItem<'_>] =
    format_description!("[day] [month repr:short] [year] [hour]:[minute]:[second]Z");
const GOAL: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]Z");
const TASK: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day] [hour]:[minute]:[second] +0000 UTC");
const RFC3339: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
const PLAIN: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
const CLOCK: &[BorrowedFormatItem<'_>] = format_description!("[hour]:[minute]:[second]");

/// Milliseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// RFC 3339, or the same without a zone.
    pub fn parse(text: &str) -> Option<Self> {
        let parsed = OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).ok();
        let parsed =
            parsed.or_else(|| time::PrimitiveDateTime::parse(text, PLAIN).ok().map(|moment| moment.assume_utc()));
        u64::try_from(parsed?.unix_timestamp()).ok().map(|seconds| Moment(seconds * 1000))
    }

    pub fn plus_millis(self, millis: u64) -> Self {
        Moment(self.0.saturating_add(millis))
    }

    fn format(self, format: &[BorrowedFormatItem<'_>]) -> String {
        let seconds = i64::try_from(self.0 / 1000).unwrap_or(i64::MAX);
        OffsetDateTime::from_unix_timestamp(seconds)
            .ok()
            .and_then(|moment| moment.format(format).ok())
            .unwrap_or_default()
    }

    /// `02 Jan 2006 15:04:05Z`: in `juju status`.
    pub fn status(self) -> String {
        self.format(LOCAL)
    }

    /// `2006-01-02 15:04:05Z`: in `goal-state` and `juju status --utc`.
    pub fn goal(self) -> String {
        self.format(GOAL)
    }

    /// `2006-01-02 15:04:05 +0000 UTC`: in tasks.
    pub fn task(self) -> String {
        self.format(TASK)
    }

    /// `2006-01-02T15:04:05Z`: in secrets.
    pub fn rfc3339(self) -> String {
        self.format(RFC3339)
    }

    /// `15:04:05`: in the debug log.
    pub fn clock(self) -> String {
        self.format(CLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_in_each_of_jujus_ways() {
        let moment = Moment(1_740_823_445_123);
        assert_eq!(moment.status(), "01 Mar 2025 10:04:05Z");
        assert_eq!(moment.goal(), "2025-03-01 10:04:05Z");
        assert_eq!(moment.task(), "2025-03-01 10:04:05 +0000 UTC");
        assert_eq!(moment.clock(), "10:04:05");
    }
}
