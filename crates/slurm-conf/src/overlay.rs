//! Parameters laid over a file: they stand in a marked block, and a line that one of them outweighs stays in the file
//! as a marked comment. So the file itself says what was there before, and taking a parameter away brings that back,
//! byte for byte.

use crate::document::SlurmConf;
use crate::error::ParseError;
use crate::index::plain_count;
use crate::lexer::Line;
use crate::text::push_pair;

const BEGIN: &str = "# >>> option slurm-conf-parameters: change these lines there, not here";
const END: &str = "# <<< option slurm-conf-parameters";
/// In front of each line that a parameter outweighs.
const ASIDE: &str = "# outweighed by slurm-conf-parameters: ";

/// A file, and the parameters that were laid over it.
///
/// ```
/// use slurm_conf::{Overlaid, SlurmConf};
///
/// let conf = SlurmConf::parse("ClusterName=lab\nKillWait=30 # ours\nNodeSet=n Feature=n\n")?;
/// let text = Overlaid::render(&conf, &[("killwait".to_owned(), "60".to_owned())]);
/// assert_eq!(text, "\
/// ClusterName=lab
/// ## outweighed by slurm-conf-parameters: KillWait=30 # ours
/// ## >>> option slurm-conf-parameters: change these lines there, not here
/// killwait=60
/// ## <<< option slurm-conf-parameters
/// NodeSet=n Feature=n
/// ");
/// assert_eq!(Overlaid::parse(&text)?.below, conf);
/// # Ok::<(), slurm_conf::ParseError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overlaid {
    /// The file without them.
    pub below: SlurmConf,
    /// Keys and values, in order.
    pub parameters: Vec<(String, String)>,
}

/// Which part of a file a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// The file itself.
    Below,
    /// The marked block of parameters, with its marks.
    Parameter,
    /// A line that a parameter outweighs.
    Outweighed,
}

impl Overlaid {
    /// Tells of every line of a file which part it belongs to, in order.
    pub fn lines(text: &str) -> Vec<(LineKind, &str)> {
        let mut inside = false;
        let kind = |line: &str| {
            let mark = line.trim_end_matches('\r');
            inside = (inside && mark != END) || mark == BEGIN;
            if inside || mark == END {
                LineKind::Parameter
            } else if line.starts_with(ASIDE) {
                LineKind::Outweighed
            } else {
                LineKind::Below
            }
        };
        let kinds: Vec<LineKind> = text.lines().map(kind).collect();
        kinds.into_iter().zip(text.lines()).collect()
    }

    /// Takes the parameters off a file. A block without its end, or an end alone, is not one of ours any more: its
    /// lines stay.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let at = |mark: &str, from: usize| {
            (from..lines.len()).find(|position| lines[*position].trim_end_matches(['\n', '\r']) == mark)
        };
        let begin = at(BEGIN, 0);
        let block = begin.and_then(|begin| at(END, begin).map(|end| begin..end + 1)).unwrap_or(0..0);
        let mut below = String::with_capacity(text.len());
        for (position, line) in lines.iter().enumerate().filter(|(position, _)| !block.contains(position)) {
            let stray = position != block.start && [BEGIN, END].contains(&line.trim_end_matches(['\n', '\r']));
            if !stray {
                below.push_str(line.strip_prefix(ASIDE).unwrap_or(line));
            }
        }
        let block = SlurmConf::parse(&lines[block].concat())?;
        let parameters = block.settings().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Ok(Self { below: SlurmConf::parse(&below)?, parameters })
    }

    /// Returns the text of `below` with parameters laid over it. Keys and values must come from checked
    /// [`Parameters`](crate::Parameters).
    ///
    /// The block stands behind the last plain key, since Slurm takes the last of several; what begins nodes and
    /// partitions follows.
    pub fn render(below: &SlurmConf, parameters: &[(String, String)]) -> String {
        if parameters.is_empty() {
            return below.render();
        }
        let lines: Vec<&Line> = below.living().collect();
        let last = lines.iter().rposition(|line| plain_count(line) > 0).map_or(lines.len(), |last| last + 1);
        let mut text = String::new();
        for (position, line) in lines.iter().enumerate() {
            if position == last {
                push_block(&mut text, parameters);
            }
            let outweighed = |key: &str| parameters.iter().any(|(own, _)| own.eq_ignore_ascii_case(key));
            let pairs = line.pairs();
            let aside = !pairs.is_empty()
                && plain_count(line) == pairs.len()
                && pairs.iter().all(|pair| outweighed(line.key(pair)));
            let mut line = (*line).clone();
            line.end();
            if aside {
                for physical in line.raw.split_inclusive('\n') {
                    text.push_str(ASIDE);
                    text.push_str(physical);
                }
            } else {
                text.push_str(&line.raw);
            }
        }
        if last >= lines.len() {
            push_block(&mut text, parameters);
        }
        text
    }
}

fn push_block(text: &mut String, parameters: &[(String, String)]) {
    text.push_str(BEGIN);
    text.push('\n');
    for (key, value) in parameters {
        push_pair(text, key, value);
        text.push('\n');
    }
    text.push_str(END);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[track_caller]
    fn there_and_back(text: &str, parameters: &[(&str, &str)]) -> String {
        let conf = SlurmConf::parse(text).unwrap();
        let parameters = pairs(parameters);
        let laid = Overlaid::render(&conf, &parameters);
        let back = Overlaid::parse(&laid).unwrap();
        assert_eq!(back.parameters, parameters);
        assert_eq!(back.below.render(), text);
        assert_eq!(Overlaid::render(&back.below, &back.parameters), laid);
        for (key, value) in &parameters {
            assert_eq!(SlurmConf::parse(&laid).unwrap().get(key), Some(value.as_str()));
        }
        laid
    }

    #[test]
    fn what_was_there_comes_back_byte_for_byte() {
        let text = "# head\nClusterName=lab\nSchedulerParameters=defer,\\\n  bf_max_job_test=7 # long\nKillWait=30\n\nPartitionName=p Nodes=ALL\n# foot\n";
        let laid = there_and_back(text, &[("schedulerparameters", "defer"), ("MailProg", "/bin/true -x")]);
        assert!(laid.contains("MailProg=\"/bin/true -x\"\n"), "{laid}");
        assert_eq!(SlurmConf::parse(&laid).unwrap().get("KillWait"), Some("30"));
        there_and_back(text, &[]);
        there_and_back("", &[("KillWait", "1")]);
        there_and_back("PartitionName=p Nodes=ALL\n", &[("KillWait", "1")]);
        // A line that sets something else as well cannot go; the block stands behind it, so it has the last word.
        there_and_back("KillWait=3 MinJobAge=4\nA=1\nPartitionName=p KillWait=9\n", &[("KillWait", "1")]);
    }

    #[test]
    fn every_line_tells_where_it_belongs() {
        let conf = SlurmConf::parse("A=1\nKillWait=3\nPartitionName=p\n").unwrap();
        let text = Overlaid::render(&conf, &pairs(&[("KillWait", "1")]));
        let kinds: Vec<LineKind> = Overlaid::lines(&text).into_iter().map(|(kind, _)| kind).collect();
        use LineKind::{Below, Outweighed, Parameter};
        assert_eq!(kinds, [Below, Outweighed, Parameter, Parameter, Parameter, Below]);
    }

    #[test]
    fn a_block_that_lost_its_end_is_plain_text() {
        let text = format!("A=1\n{BEGIN}\nB=2\n");
        let read = Overlaid::parse(&text).unwrap();
        assert!(read.parameters.is_empty());
        assert_eq!(read.below.render(), "A=1\nB=2\n");
        let read = Overlaid::parse(&format!("A=1\nB=2\n{END}\n")).unwrap();
        assert_eq!(read.below.render(), "A=1\nB=2\n");
    }
}
