//! Options that cannot be used, in one form for every charm: option, value, what is wrong with it.

use charm::text::shown;
use slurm_conf::UnknownKey;
use std::fmt;

/// An option that cannot be used. Everything else goes on with the last good value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionProblem {
    pub option: &'static str,
    /// The value, fit to be shown.
    pub value: String,
    /// What is wrong, or what was expected.
    pub problem: String,
}

impl OptionProblem {
    /// Describes a problem with a value as the operator wrote it.
    pub fn new(option: &'static str, value: &str, problem: impl Into<String>) -> Self {
        Self { option, value: shown(value), problem: problem.into() }
    }
}

/// `option partition-config MaxTime=x: Bad value "x" for MaxTime`
impl fmt::Display for OptionProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value.as_str() {
            "" => write!(formatter, "option {}: {}", self.option, self.problem),
            value => write!(formatter, "option {} `{value}`: {}", self.option, self.problem),
        }
    }
}

/// Returns what Slurm has against a text, in few words. A key that neither Slurm nor our tables know is named with the
/// key that was probably meant.
pub fn objection<'a>(reason: &str, mut unknown: impl Iterator<Item = UnknownKey<'a>>) -> String {
    let reason_lower = reason.to_ascii_lowercase();
    match unknown.find(|unknown| reason_lower.contains(&format!("key: {}", unknown.key))) {
        Some(UnknownKey { key, nearest: Some(nearest), .. }) => format!("unknown key `{key}`, did you mean {nearest}?"),
        Some(UnknownKey { key, nearest: None, .. }) => format!("unknown key `{key}`"),
        None => reason.to_owned(),
    }
}
