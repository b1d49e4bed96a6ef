//! What a key and a value may consist of before they may be written, and how a value is quoted.
//!
//! Slurm cuts a line at `#` even between quotes, takes a backslash as an escape and at the end of a line as a
//! continuation, and knows no way to write a double quote inside a quoted value. So these never pass.

use crate::error::{ValueError, excerpt};

/// Tells what makes `value` unfit for a slurm.conf line, if anything.
pub(crate) fn value_problem(value: &str) -> Option<&'static str> {
    for character in value.chars() {
        match character {
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => return Some("a line break is not allowed"),
            '#' => return Some("`#` is not allowed, it begins a comment"),
            '"' => return Some("a double quote is not allowed inside a value"),
            '\\' => return Some("a backslash is not allowed"),
            control if control.is_control() => return Some("a control character is not allowed"),
            _ => {}
        }
    }
    None
}

/// Checks `value` for a line of `key`.
pub(crate) fn check_value(key: &str, value: &str) -> Result<(), ValueError> {
    match value_problem(value) {
        None => Ok(()),
        Some(problem) => Err(ValueError::Value { key: excerpt(key), value: excerpt(value), problem }),
    }
}

/// Checks that `key` is a word that Slurm reads as a key.
pub(crate) fn check_key(key: &str) -> Result<(), ValueError> {
    if !key.is_empty() && key.bytes().all(is_key_byte) { Ok(()) } else { Err(ValueError::Key(excerpt(key))) }
}

/// Tells whether Slurm takes `byte` for a part of a key.
pub(crate) fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.'
}

/// Returns pairs on one line of slurm.conf, each value in quotes where it needs them. Refuses whatever could leave its
/// place in the line.
pub fn checked_line<K: AsRef<str>>(pairs: &[(K, String)]) -> Result<String, ValueError> {
    for (key, value) in pairs {
        check_key(key.as_ref())?;
        check_value(key.as_ref(), value)?;
    }
    Ok(line_of(pairs))
}

/// Returns pairs on one line. All must have been checked.
pub(crate) fn line_of<K: AsRef<str>>(pairs: &[(K, String)]) -> String {
    let mut line = String::new();
    for (key, value) in pairs {
        if !line.is_empty() {
            line.push(' ');
        }
        push_pair(&mut line, key.as_ref(), value);
    }
    line
}

/// Appends `key=value` to `line`, with quotes where the value needs them. Both must have been checked.
pub(crate) fn push_pair(line: &mut String, key: &str, value: &str) {
    line.push_str(key);
    line.push('=');
    if value.is_empty() || value.contains(' ') {
        line.push('"');
        line.push_str(value);
        line.push('"');
    } else {
        line.push_str(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_made_of_what_stays_in_its_place() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let line = checked_line(&[pair("NodeSet", "a"), pair("Feature", "b c")]);
        assert_eq!(line.unwrap(), "NodeSet=a Feature=\"b c\"");
        for (key, value) in [("a b", "c"), ("", "c"), ("a", "b\nc"), ("a", "b#c"), ("a", "\""), ("a", "b\\")] {
            assert!(checked_line(&[pair(key, value)]).is_err(), "{key:?} {value:?}");
        }
    }
}
