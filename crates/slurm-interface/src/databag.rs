//! What all bags share: the map, the error, and JSON as the Python charms write it.

use serde_json::Value;
use serde_json::ser::Formatter;
use slurm_conf::shown;
use std::collections::BTreeMap;
use std::io;

/// Keys and values of one side of a relation.
pub type Databag = BTreeMap<String, String>;

/// Of a value that is shown.
const LONGEST: usize = 60;

/// A bag that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The value is not what the key is for.
    #[error("databag key `{key}`: {problem}, found `{found}`")]
    Malformed {
        /// The key.
        key: &'static str,
        /// The value, shortened; never one of a key that could hold a secret.
        found: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The remote speaks a form that is no longer spoken.
    #[error("databag key `{key}`: the remote charm is too old, {expected}")]
    Obsolete {
        /// The key that gave it away.
        key: &'static str,
        /// What the remote would have to be.
        expected: &'static str,
    },
}

impl DecodeError {
    pub(crate) fn malformed(key: &'static str, found: &str, problem: impl Into<String>) -> Self {
        Self::Malformed { key, found: shown(found, LONGEST), problem: problem.into() }
    }
}

/// Returns the bag with these members.
pub(crate) fn written<const COUNT: usize>(members: [(&str, Value); COUNT]) -> Databag {
    members.into_iter().map(|(key, value)| (key.to_owned(), dumps(&value))).collect()
}

/// Reads the JSON of a key, if the key is there and not `null`.
pub(crate) fn json(bag: &Databag, key: &'static str) -> Result<Option<Value>, DecodeError> {
    let Some(text) = bag.get(key).filter(|text| !text.is_empty()) else { return Ok(None) };
    serde_json::from_str(text).map_err(|error| DecodeError::malformed(key, text, format!("not JSON ({error})")))
}

/// Reads a JSON string; `""` counts as not there.
pub(crate) fn string(bag: &Databag, key: &'static str) -> Result<Option<String>, DecodeError> {
    match json(bag, key)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
        Some(other) => Err(DecodeError::malformed(key, &other.to_string(), "not a string")),
    }
}

/// Reads a string that older writers left without quotes.
pub(crate) fn loose_string(bag: &Databag, key: &'static str) -> Result<Option<String>, DecodeError> {
    match bag.get(key) {
        Some(text) if !text.is_empty() && !text.starts_with('"') => Ok(Some(text.clone())),
        _ => string(bag, key),
    }
}

/// Returns JSON text as Python's `json.dumps` writes it: a blank behind `,` and `:`, nothing beyond ASCII.
pub(crate) fn dumps(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, PythonFormatter);
    let written = serde::Serialize::serialize(value, &mut serializer);
    debug_assert!(written.is_ok(), "invariant: a JSON value can be written to memory");
    String::from_utf8(bytes).unwrap_or_else(|_| value.to_string())
}

struct PythonFormatter;

impl Formatter for PythonFormatter {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        for character in fragment.chars() {
            if character.is_ascii() {
                write!(writer, "{character}")?;
            } else {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_is_written_as_python_writes_it() {
        let value = json!({"a": [1, "x", true], "b": {}, "ü😀": "\n"});
        assert_eq!(dumps(&value), "{\"a\": [1, \"x\", true], \"b\": {}, \"\\u00fc\\ud83d\\ude00\": \"\\n\"}");
        assert_eq!(serde_json::from_str::<Value>(&dumps(&value)).unwrap(), value);
    }

    #[test]
    fn a_long_value_is_cut_in_the_error() {
        let error = DecodeError::malformed("controllers", &format!("\n{}", "x".repeat(100)), "not JSON");
        assert!(error.to_string().len() < 140);
        assert!(!error.to_string().contains('\n'));
    }
}
