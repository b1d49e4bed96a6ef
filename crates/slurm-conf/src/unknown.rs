//! Keys of records that this crate does not know: mistyped, or of a newer Slurm. The installed Slurm decides which, so
//! here they are free text of a shape that cannot leave its place in a line. Plain keys of a file are not here: see
//! `parameters`.

use crate::error::OptionError;
use crate::nearest::nearest;
use crate::record::RecordKind;
use crate::text::{is_key_byte, value_problem};

const LONGEST_KEY: usize = 64;
const LONGEST_VALUE: usize = 4096;

/// A key that is not known here, with what may help if Slurm does not know it either.
///
/// ```
/// let partition = slurm_conf::Partition::from_config("compute", "MaxTim=60 State=UP")?;
/// assert_eq!(partition.unknown().next().and_then(|unknown| unknown.nearest), Some("MaxTime"));
/// # Ok::<(), slurm_conf::OptionError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownKey<'record> {
    /// The key, in lower case.
    pub key: &'record str,
    /// Its value, without quotes.
    pub value: &'record str,
    /// The known key that may have been meant.
    pub nearest: Option<&'static str>,
}

impl<'record> UnknownKey<'record> {
    pub(crate) fn new(key: &'record str, value: &'record str, known: impl IntoIterator<Item = &'static str>) -> Self {
        Self { key, value, nearest: nearest(key, known) }
    }
}

/// Checks a key that no table has, and returns it as it is kept: in lower case, so that equal settings are equal
/// values.
///
/// A key that begins a record of its own is refused wherever it comes: behind another name it could only be a trick.
pub(crate) fn unknown_key(key: &str) -> Result<String, OptionError> {
    if key.is_empty() || key.len() > LONGEST_KEY || !key.bytes().all(is_key_byte) {
        return Err(OptionError::syntax(key, "a key of at most 64 letters, digits, `_` and `.`"));
    }
    if RecordKind::from_key(key).is_some() || key.eq_ignore_ascii_case("Include") {
        return Err(OptionError::Reserved(key.to_owned()));
    }
    Ok(key.to_ascii_lowercase())
}

/// Checks the value of a key that no table has. Only a partition's may hold blanks: the line of a node goes through
/// more hands.
pub(crate) fn unknown_value(key: &str, value: &str, blanks: bool) -> Result<(), OptionError> {
    let foreign = |character: char| character.is_whitespace() && !(blanks && character == ' ');
    let expected = if let Some(problem) = value_problem(value) {
        format!("text in which {problem}")
    } else if value.contains('\'') {
        "text without single quotes".to_owned()
    } else if value.contains(foreign) {
        "a value without blanks".to_owned()
    } else if value.trim().is_empty() || value.len() > LONGEST_VALUE {
        format!("a value of 1 to {LONGEST_VALUE} characters")
    } else {
        return Ok(());
    };
    Err(OptionError::value(key, value, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_in_lower_case() {
        assert_eq!(unknown_key("New.Key_2").as_deref(), Ok("new.key_2"));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for key in ["", "a b", "a=b", "a\nb", "ä", "a#", "nodename", "NodeSet", "include", &"x".repeat(65)] {
            assert!(unknown_key(key).is_err(), "{key:?}");
        }
    }

    #[test]
    fn what_could_leave_its_place_is_refused() {
        for value in ["", " ", "a\nb", "a\tb", "a\u{a0}b", "a'b", "a\"b", "a#b", "a\\", &"x".repeat(4097)] {
            assert!(unknown_value("key", value, true).is_err(), "{value:?}");
        }
        assert_eq!(unknown_value("key", "a b", true), Ok(()));
        assert!(unknown_value("key", "a b", false).is_err());
        assert_eq!(unknown_value("key", "cpu=1,mem=2:/x@y+z", false), Ok(()));
    }
}
