//! Parameters that an operator adds to slurm.conf through an option of the charm: several lines of plain `Key=Value`.
//!
//! Read here, laid over the file by [`Overlaid`](crate::Overlaid). What begins a record, names a file or belongs to the
//! charm is refused by name; so is a value that Slurm is sure to refuse. A key that is not known is only a doubt.

use crate::document::CONTROLLER_KEY;
use crate::error::{ParseError, excerpt};
use crate::lexer::{self, Content};
use crate::nearest::nearest;
use crate::record::RecordKind;
use crate::setting::{SLURM, Setting};
use crate::text::value_problem;

/// Longer texts are refused before they are read. Slurm's own files stay far below.
const LONGEST: usize = 1 << 20;

/// Checked parameters, each key once, in the order in which they were written.
///
/// ```
/// use slurm_conf::Parameters;
///
/// let parameters = Parameters::parse("MaxJobCount=20000\nSlurmctldTimeout=60\n", &["ClusterName"])?;
/// assert_eq!(parameters.iter().nth(1), Some(("SlurmctldTimeout", "60")));
///
/// let refused = Parameters::parse("clustername=mine", &["ClusterName"]).unwrap_err();
/// assert_eq!(refused.to_string(), "line 1: key `clustername` is set by the charm");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    entries: Vec<Entry>,
    /// The keys of the file that they are for.
    known: &'static [Setting],
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    line: usize,
    key: String,
    value: String,
}

/// A parameter that cannot be taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// The text is not lines of `Key=Value`.
    #[error(transparent)]
    Syntax(#[from] ParseError),
    /// The text is longer than any configuration.
    #[error("expected at most {LONGEST} bytes, found {0}")]
    Long(usize),
    /// One key cannot be set, or not to this value.
    #[error("line {line}: {problem}")]
    Key {
        /// Number of the line, counted from 1.
        line: usize,
        /// Key, value and what was expected.
        problem: String,
    },
}

/// A key that is in no table here. Slurm decides; if it refuses, this tells where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// Number of the line, counted from 1.
    pub line: usize,
    /// The key as it was written.
    pub key: String,
    /// A known key that may have been meant.
    pub nearest: Option<&'static str>,
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "line {}: key `{}` is not known here", self.line, self.key)?;
        self.nearest.map_or(Ok(()), |nearest| write!(formatter, ", the nearest known one is `{nearest}`"))
    }
}

impl Parameters {
    /// Reads an operator's text. `owned` are the keys that the charm sets itself, in any letter case.
    pub fn parse(text: &str, owned: &[&str]) -> Result<Self, ParameterError> {
        Self::read(text, owned, &SLURM)
    }

    /// Reads parameters of a file whose keys are `known`.
    pub(crate) fn read(text: &str, owned: &[&str], known: &'static [Setting]) -> Result<Self, ParameterError> {
        if text.len() > LONGEST {
            return Err(ParameterError::Long(text.len()));
        }
        let mut parameters = Self { entries: Vec::new(), known };
        let mut number = 1;
        for line in lexer::lines(text)? {
            if let Content::Include(path) = &line.content {
                let problem = not_plain(&format!("Include {path}"), "other files");
                return Err(ParameterError::Key { line: number, problem });
            }
            for pair in line.pairs() {
                let place = number + line.raw[..pair.key.start].matches('\n').count();
                let (key, value) = (line.key(pair), line.value(pair));
                if let Some(problem) = parameters.problem(key, value, owned) {
                    return Err(ParameterError::Key { line: place, problem });
                }
                parameters.entries.push(Entry { line: place, key: key.to_owned(), value: value.to_owned() });
            }
            number += line.raw.matches('\n').count();
        }
        Ok(parameters)
    }

    /// Says why a key cannot be taken over.
    fn problem(&self, key: &str, value: &str, owned: &[&str]) -> Option<String> {
        let shown = excerpt(key);
        if RecordKind::from_key(key).is_some() {
            return Some(not_plain(key, "nodes and partitions"));
        }
        if key.eq_ignore_ascii_case("Include") {
            return Some(not_plain(key, "other files"));
        }
        if key.eq_ignore_ascii_case(CONTROLLER_KEY) || owned.iter().any(|own| own.eq_ignore_ascii_case(key)) {
            return Some(format!("key `{shown}` is set by the charm"));
        }
        if let Some(first) = self.entries.iter().find(|entry| entry.key.eq_ignore_ascii_case(key)) {
            return Some(format!("key `{shown}` is already in line {}", first.line));
        }
        let expected = match value_problem(value) {
            Some(problem) => format!("text in which {problem}"),
            None => self.setting(key)?.expected(value)?,
        };
        Some(format!("value `{}` of {shown}: expected {expected}", excerpt(value)))
    }

    /// Returns keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str()))
    }

    /// Returns the keys that are in no table here, with the nearest that is.
    pub fn doubts(&self) -> Vec<Doubt> {
        let unknown = self.entries.iter().filter(|entry| self.setting(&entry.key).is_none());
        unknown
            .map(|entry| {
                let nearest = nearest(&entry.key, self.known.iter().map(|setting| setting.name));
                Doubt { line: entry.line, key: excerpt(&entry.key), nearest }
            })
            .collect()
    }

    fn setting(&self, key: &str) -> Option<&'static Setting> {
        self.known.iter().find(|setting| setting.name.eq_ignore_ascii_case(key))
    }
}

/// A line that does more than set a plain key: `what` is what it would bring in.
fn not_plain(key: &str, what: &str) -> String {
    format!("`{}` is not a plain key, expected `Key=Value` lines without {what}", excerpt(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNED: &[&str] = &["ClusterName", "AuthType"];

    #[track_caller]
    fn refusal(text: &str) -> String {
        Parameters::parse(text, OWNED).unwrap_err().to_string()
    }

    #[test]
    fn several_lines_with_comments_and_continuations_are_read() {
        let text = "# mine\nMaxJobCount=20000 # many\nSchedulerParameters=defer,\\\nbf_max_job_test=7\nRebootProgram=\"/sbin/reboot -f\"\n";
        let parameters = Parameters::parse(text, OWNED).unwrap();
        let expected = [
            ("MaxJobCount", "20000"),
            ("SchedulerParameters", "defer,bf_max_job_test=7"),
            ("RebootProgram", "/sbin/reboot -f"),
        ];
        assert_eq!(parameters.iter().collect::<Vec<_>>(), expected);
        assert_eq!(Parameters::parse("", OWNED).unwrap().iter().count(), 0);
    }

    #[test]
    fn a_refusal_names_line_key_value_and_form() {
        assert_eq!(refusal("\nAUTHTYPE=auth/munge"), "line 2: key `AUTHTYPE` is set by the charm");
        assert_eq!(refusal("SlurmctldHost=evil"), "line 1: key `SlurmctldHost` is set by the charm");
        assert!(refusal("A=1 \\\nPartitionName=x").starts_with("line 2: `PartitionName` is not a plain key"));
        assert!(refusal("Include /etc/passwd").starts_with("line 1: `Include /etc/passwd` is not a plain key"));
        assert!(refusal("include=/etc/passwd").starts_with("line 1: `include` is not a plain key"));
        assert_eq!(refusal("KillWait=1\n\nkillwait=2"), "line 3: key `killwait` is already in line 1");
        assert_eq!(
            refusal("KillWait=soon"),
            "line 1: value `soon` of KillWait: expected a whole number from 0 to 65535, or UNLIMITED"
        );
        assert_eq!(refusal("nonsense"), "line 1: expected `Key=Value`, found `nonsense`");
        assert!(refusal("MailProg=/bin/a\\#b").contains("begins a comment"));
        assert!(refusal(&"#".repeat(LONGEST + 1)).contains("at most"));
    }

    #[test]
    fn an_unknown_key_is_a_doubt_and_no_obstacle() {
        let parameters = Parameters::parse("MaxJobCont=5\nQuantumType=quantum/none\nKillWait=3", OWNED).unwrap();
        let doubts: Vec<String> = parameters.doubts().iter().map(ToString::to_string).collect();
        assert_eq!(
            doubts,
            [
                "line 1: key `MaxJobCont` is not known here, the nearest known one is `MaxJobCount`",
                "line 2: key `QuantumType` is not known here"
            ]
        );
    }
}
