//! What can be wrong with configuration text. Each message names the place, what was found and what is expected
//! instead.

/// A file that Slurm would not read either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}, found `{found}`")]
pub struct ParseError {
    /// Number of the physical line, counted from 1.
    pub line: usize,
    /// The text that could not be read, shortened.
    pub found: String,
    /// What would have been right.
    pub expected: &'static str,
}

/// A key or value that must not enter a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The key is not a word that Slurm could read as a key.
    #[error("`{0}` is not a key: expected letters, digits, `_` and `.` only")]
    Key(String),
    /// The key begins a record or names a file, so it has its own functions.
    #[error("`{0}` cannot be set as a plain key")]
    Reserved(String),
    /// The value would change the meaning of its line.
    #[error("value `{value}` of {key}: {problem}")]
    Value {
        /// The key the value is meant for.
        key: String,
        /// The refused value, control characters escaped.
        value: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// A name that is not fit to be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a {kind}: expected {expected}")]
pub struct NameError {
    /// What the name was meant for, such as `partition name`.
    pub kind: &'static str,
    /// The refused text, control characters escaped.
    pub name: String,
    /// What would have been right.
    pub expected: &'static str,
}

/// Options of a partition or of a node that cannot be taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The text is not a list of `Key=Value`.
    #[error("expected {expected}, found `{found}`")]
    Syntax {
        /// The piece that could not be read, control characters escaped.
        found: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// The option exists but is not for the operator to set.
    #[error("option `{0}` is set by the charm")]
    Reserved(String),
    /// The option was given twice.
    #[error("option `{0}` is given twice")]
    Duplicate(String),
    /// The value does not fit the option.
    #[error("value `{value}` of {key}: expected {expected}")]
    Value {
        /// The option.
        key: String,
        /// The refused value, control characters escaped.
        value: String,
        /// What would have been right.
        expected: String,
    },
    /// The name of the record is missing or unfit.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A JSON record lacks a member or is no object.
    #[error("expected {0}")]
    Json(&'static str),
}

impl OptionError {
    pub(crate) fn syntax(found: &str, expected: &'static str) -> Self {
        Self::Syntax { found: excerpt(found), expected }
    }

    pub(crate) fn value(key: &str, value: &str, expected: String) -> Self {
        Self::Value { key: key.to_owned(), value: excerpt(value), expected }
    }
}

/// Tells whether a character could break a message out of its line or turn it round.
fn is_unshowable(character: char) -> bool {
    let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns || matches!(character, '\u{2028}' | '\u{2029}')
}

/// Returns `text` fit for a message: control characters escaped, at most `longest` characters of it.
pub fn shown(text: &str, longest: usize) -> String {
    let mut shown = String::new();
    for character in text.chars().take(longest) {
        if is_unshowable(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    if text.chars().nth(longest).is_some() { shown + "…" } else { shown }
}

pub(crate) fn excerpt(text: &str) -> String {
    shown(text, 80)
}
