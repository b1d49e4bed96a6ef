//! Tokens of users, signed by slurmctld's own machine.

use super::{ScontrolError, refusal, scontrol, unreachable};
use crate::machine::HostWriter;
use std::fmt;
use std::str::FromStr;

/// The name of a user, as it may stand in a command and in a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserName(String);

impl UserName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for UserName {
    type Err = ();

    /// Letters, digits, `_`, `-` and `.`, and none of the last two in front.
    fn from_str(text: &str) -> Result<Self, ()> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let fits = matches!(text.len(), 1..=32) && text.bytes().all(plain) && !text.starts_with(['-', '.']);
        fits.then(|| Self(text.to_owned())).ok_or(())
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A token. Prints nothing of itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(..)")
    }
}

impl Token {
    /// Returns the token, for the content of a Juju secret and nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Has slurmctld make a token for a user that is good for so many seconds.
pub fn token(writer: &HostWriter, user: &UserName, lifespan: u64) -> Result<Token, ScontrolError> {
    let words = ["token".to_owned(), format!("username={user}"), format!("lifespan={lifespan}")];
    let command = scontrol(writer.host()).args(words);
    let output = command.output().map_err(|error| unreachable(&error))?;
    if !output.success() {
        return Err(refusal(&command, &output));
    }
    let made = output.stdout.lines().find_map(|line| line.trim().strip_prefix("SLURM_JWT="));
    let unknown = || ScontrolError::Unreachable { why: "it answered without a token".to_owned() };
    made.filter(|token| !token.is_empty()).map(|token| Token(token.to_owned())).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_something_else_are_refused() {
        for name in ["alice", "a.b-c_d", "_svc", "u1000"] {
            assert_eq!(name.parse::<UserName>().unwrap().as_str(), name);
        }
        for name in ["", "-x", ".x", "a b", "a=b", "a,b", "a\nb", "ünal", "a/b", "a\"b", &"a".repeat(33)] {
            assert_eq!(name.parse::<UserName>(), Err(()), "{name:?}");
        }
    }

    #[test]
    fn a_token_prints_nothing_of_itself() {
        assert_eq!(format!("{:?}", Token("eyJ".to_owned())), "Token(..)");
    }
}
