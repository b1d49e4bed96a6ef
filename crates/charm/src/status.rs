//! The workload status of a unit, and which of several is the one to show.

/// A status that a charm can set. The text tells the operator what is, or what has to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    Active(String),
    Waiting(String),
    Maintenance(String),
    /// Only where an operator has to act, and never on a unit that is leaving: Juju 4 drops a blocked leaver.
    Blocked(String),
}

impl Status {
    /// All is well.
    pub fn active(text: impl AsRef<str>) -> Self {
        Self::Active(one_line(text.as_ref()))
    }

    /// Something is missing that will come by itself.
    pub fn waiting(text: impl AsRef<str>) -> Self {
        Self::Waiting(one_line(text.as_ref()))
    }

    /// Work is going on.
    pub fn maintenance(text: impl AsRef<str>) -> Self {
        Self::Maintenance(one_line(text.as_ref()))
    }

    /// An operator has to act.
    pub fn blocked(text: impl AsRef<str>) -> Self {
        Self::Blocked(one_line(text.as_ref()))
    }

    /// Returns the status a Juju word and message stand for.
    pub fn from_words(word: &str, message: &str) -> Option<Self> {
        match word {
            "active" => Some(Self::Active(message.to_owned())),
            "waiting" => Some(Self::Waiting(message.to_owned())),
            "maintenance" => Some(Self::Maintenance(message.to_owned())),
            "blocked" => Some(Self::Blocked(message.to_owned())),
            _ => None,
        }
    }

    /// Returns Juju's word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Active(_) => "active",
            Self::Waiting(_) => "waiting",
            Self::Maintenance(_) => "maintenance",
            Self::Blocked(_) => "blocked",
        }
    }

    /// Returns the text beside the word.
    pub fn message(&self) -> &str {
        match self {
            Self::Active(text) | Self::Waiting(text) | Self::Maintenance(text) | Self::Blocked(text) => text,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Active(_) => 0,
            Self::Waiting(_) => 1,
            Self::Maintenance(_) => 2,
            Self::Blocked(_) => 3,
        }
    }

    /// Returns the worst of several, and of equals the first. None if there are none.
    pub fn worst(several: impl IntoIterator<Item = Self>) -> Option<Self> {
        several.into_iter().reduce(|worst, next| if next.rank() > worst.rank() { next } else { worst })
    }
}

/// How much of a foreign text a status shows. Juju's table has room for about this much.
const LIMIT: usize = 120;

/// Texts from outside become part of statuses.
fn one_line(text: &str) -> String {
    crate::text::one_line(text, LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_wins_and_the_first_of_equals() {
        let several = [
            Status::active("primary - UP"),
            Status::waiting("for one"),
            Status::blocked("first"),
            Status::blocked("second"),
            Status::maintenance("installing"),
        ];
        assert_eq!(Status::worst(several), Some(Status::blocked("first")));
        assert_eq!(Status::worst([]), None);
    }

    #[test]
    fn a_foreign_text_cannot_break_the_line_nor_fill_the_screen() {
        assert_eq!(Status::blocked("a\nb\u{1b}[31m  c").message(), "a b [31m c");
        let long = Status::blocked("x".repeat(500));
        assert_eq!(long.message().chars().count(), LIMIT);
        assert!(long.message().ends_with('…'));
    }

    #[test]
    fn a_status_survives_the_way_through_juju() {
        let status = Status::maintenance("installing slurmd");
        assert_eq!(Status::from_words(status.word(), status.message()), Some(status));
        assert_eq!(Status::from_words("unknown", ""), None);
    }
}
