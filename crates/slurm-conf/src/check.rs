//! Looks through a whole slurm.conf for what Slurm is going to complain about.
//!
//! This makes messages, it does not judge: the installed Slurm does. Whatever could be right in a newer version, on another machine
//! or through an `Include` is a doubt at most.

use crate::defaults::is_default;
use crate::document::{CONTROLLER_KEY, SlurmConf};
use crate::error::excerpt;
use crate::hostlist::{HostList, MOST_HOSTS};
use crate::index::plain_count;
use crate::lexer::{Line, Pair};
use crate::nearest::nearest;
use crate::node::Node;
use crate::partition_option::PartitionOption;
use crate::record::{Record, RecordKind, record_of};
use crate::setting::Setting;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Something in a file that Slurm refuses, or may refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Number of the line, counted from 1; `None` if something is missing altogether.
    pub line: Option<usize>,
    /// The key, as written.
    pub key: String,
    /// What is the matter with it.
    pub problem: Problem,
}

/// What is the matter with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The key is not known here: mistyped, or of a newer Slurm.
    Unknown {
        /// A known key that may have been meant.
        nearest: Option<&'static str>,
    },
    /// Slurm does not read the value.
    Value {
        /// The value, control characters escaped.
        value: String,
        /// What would have been right.
        expected: String,
    },
    /// The record is there already.
    Duplicate {
        /// Its name.
        name: String,
        /// Number of the line where it was before.
        first: usize,
    },
    /// Slurm does not start without the key.
    Missing,
}

impl Finding {
    /// Tells whether Slurm is sure to refuse the file for this. An unknown key may only be newer than this table.
    pub fn is_certain(&self) -> bool {
        !matches!(self.problem, Problem::Unknown { .. })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(formatter, "line {line}: ")?;
        }
        let key = &self.key;
        match &self.problem {
            Problem::Unknown { nearest: None } => write!(formatter, "key `{key}` is not known here"),
            Problem::Unknown { nearest: Some(nearest) } => {
                write!(formatter, "key `{key}` is not known here, the nearest known one is `{nearest}`")
            }
            Problem::Value { value, expected } => write!(formatter, "value `{value}` of {key}: expected {expected}"),
            Problem::Duplicate { name, first } => write!(formatter, "{key} `{name}` is already in line {first}"),
            Problem::Missing => write!(formatter, "key `{key}` is missing"),
        }
    }
}

impl SlurmConf {
    /// Returns what Slurm is going to complain about, in the order of the file.
    ///
    /// ```
    /// let conf = slurm_conf::SlurmConf::parse("ClusterName=lab\nSlurmctldHost=c1\nMaxJobCont=5\nKillWait=soon\n")?;
    /// let findings: Vec<String> = conf.check().iter().map(ToString::to_string).collect();
    /// assert_eq!(findings, [
    ///     "line 3: key `MaxJobCont` is not known here, the nearest known one is `MaxJobCount`",
    ///     "line 4: value `soon` of KillWait: expected a whole number from 0 to 65535, or UNLIMITED",
    /// ]);
    /// # Ok::<(), slurm_conf::ParseError>(())
    /// ```
    pub fn check(&self) -> Vec<Finding> {
        let mut search = Search::default();
        let mut number = 1;
        for line in self.living() {
            search.line(number, line);
            number += line.raw.matches('\n').count();
        }
        // What an included file brings is not known.
        if self.includes().next().is_none() {
            for key in ["ClusterName", CONTROLLER_KEY] {
                // Slurm's old name of the first controller still does.
                let old = key == CONTROLLER_KEY && self.get("ControlMachine").is_some();
                if self.get(key).is_none() && !old {
                    search.report(None, key, Problem::Missing);
                }
            }
            search.members();
        }
        search.findings
    }
}

#[derive(Default)]
struct Search {
    findings: Vec<Finding>,
    /// Where each record was first.
    records: HashMap<(RecordKind, String), usize>,
    /// Names of node sets, and of nodes, that partitions may consist of.
    groups: HashSet<String>,
    nodes: HashMap<String, usize>,
    /// There are more nodes than Slurm manages, so not all of them are known here.
    too_many: bool,
    /// Where each controller was first.
    controllers: HashMap<String, usize>,
    /// `Nodes` of partitions with their lines.
    wanted: Vec<(usize, String)>,
}

impl Search {
    fn report(&mut self, line: Option<usize>, key: &str, problem: Problem) {
        self.findings.push(Finding { line, key: excerpt(key), problem });
    }

    fn line(&mut self, number: usize, line: &Line) {
        if let (Some(second), 1..) = (line.pairs().get(1), plain_count(line)) {
            // Slurm takes one plain key from a line and does not read what is behind it.
            let problem = Problem::Value {
                value: excerpt(line.raw[second.key.start..].trim_end()),
                expected: "a line of its own".to_owned(),
            };
            self.report(Some(number), line.key(second), problem);
        }
        let place = |pair: &Pair| number + line.raw[..pair.key.start].matches('\n').count();
        for pair in &line.pairs()[..plain_count(line)] {
            let (key, value) = (line.key(pair), line.value(pair));
            match Setting::find(key) {
                None => self.report(Some(place(pair)), key, Problem::Unknown { nearest: Setting::nearest(key) }),
                Some(setting) => {
                    if let Some(expected) = setting.expected(value) {
                        self.report(Some(place(pair)), key, Problem::Value { value: excerpt(value), expected });
                    }
                    if setting.name == CONTROLLER_KEY {
                        self.controller(place(pair), value);
                    }
                }
            }
        }
        if let Some(record) = record_of(line) {
            self.record(record.pairs.first().map_or(number, place), &record);
            for pair in record.pairs.iter().skip(1) {
                self.option(place(pair), record.kind(), line.key(pair), line.value(pair));
            }
        }
    }

    fn controller(&mut self, line: usize, value: &str) {
        let host = value.split('(').next().unwrap_or(value);
        let first = *self.controllers.entry(host.to_owned()).or_insert(line);
        if first != line {
            self.report(Some(line), CONTROLLER_KEY, Problem::Duplicate { name: excerpt(host), first });
        }
    }

    /// Takes in the nodes of a line, and tells if one was there before.
    fn nodes(&mut self, line: usize, list: &HostList) {
        if self.nodes.len() + list.count() > MOST_HOSTS {
            self.too_many = true;
            return;
        }
        let mut repeated = None;
        for name in list.expand() {
            let first = *self.nodes.entry(name.clone()).or_insert(line);
            if first != line {
                repeated = repeated.or(Some(Problem::Duplicate { name: excerpt(&name), first }));
            }
        }
        if let Some(problem) = repeated {
            self.report(Some(line), RecordKind::Node.key(), problem);
        }
    }

    fn record(&mut self, line: usize, record: &Record<'_>) {
        let (kind, name) = (record.kind(), record.name());
        if is_default(record) {
            return;
        }
        let first = *self.records.entry((kind, name.to_owned())).or_insert(line);
        if first != line && kind == RecordKind::Partition {
            self.report(Some(line), kind.key(), Problem::Duplicate { name: excerpt(name), first });
        }
        match kind {
            RecordKind::NodeSet => {
                self.groups.insert(name.to_owned());
            }
            RecordKind::Node => match name.parse() {
                Ok(list) => self.nodes(line, &list),
                Err(error) => {
                    let problem = Problem::Value { value: excerpt(name), expected: error.expected.to_owned() };
                    self.report(Some(line), kind.key(), problem);
                }
            },
            RecordKind::Partition => {
                if let Some(nodes) = record.get("Nodes") {
                    self.wanted.push((line, nodes.to_owned()));
                }
            }
            RecordKind::DownNodes | RecordKind::Frontend => {}
        }
    }

    fn option(&mut self, line: usize, kind: RecordKind, key: &str, value: &str) {
        let is = |known: &str| known.eq_ignore_ascii_case(key);
        let (nearest, expected) = match kind {
            RecordKind::Partition if is("Nodes") => return,
            RecordKind::Partition => match PartitionOption::find(key) {
                Some(option) => (None, option.refusal(value)),
                None => (Some(nearest(key, PartitionOption::all().iter().map(|option| option.name))), None),
            },
            RecordKind::Node => match Node::known(key) {
                Some(known) => (None, Node::refusal(known, value)),
                None => (Some(Node::nearest(key)), None),
            },
            RecordKind::NodeSet if is("Feature") || is("Nodes") => return,
            RecordKind::NodeSet => (Some(nearest(key, ["Feature", "Nodes"])), None),
            RecordKind::DownNodes | RecordKind::Frontend => return,
        };
        if let Some(nearest) = nearest {
            self.report(Some(line), key, Problem::Unknown { nearest });
        }
        if let Some(expected) = expected {
            self.report(Some(line), key, Problem::Value { value: excerpt(value), expected });
        }
    }

    /// Every word in the `Nodes` of a partition has to be a node or a node set of the file, or `ALL`.
    fn members(&mut self) {
        let mut findings = Vec::new();
        for (line, nodes) in &self.wanted {
            let refused = |expected: String| Finding {
                line: Some(*line),
                key: "Nodes".to_owned(),
                problem: Problem::Value { value: excerpt(nodes), expected },
            };
            match nodes.parse::<HostList>() {
                Err(error) => findings.push(refused(error.expected.to_owned())),
                Ok(list) => {
                    let known = |name: &str| {
                        self.too_many
                            || name.eq_ignore_ascii_case("ALL")
                            || self.groups.contains(name)
                            || self.nodes.contains_key(name)
                    };
                    if let Some(stranger) = list.expand().find(|name| !known(name)) {
                        findings.push(refused(format!("nodes and node sets of this file, and `{stranger}` is none")));
                    }
                }
            }
        }
        self.findings.extend(findings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "ClusterName=lab\nSlurmctldHost=c1\n";

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let conf = SlurmConf::parse(&format!("{GOOD}{text}")).unwrap();
        let findings: Vec<String> = conf.check().iter().map(ToString::to_string).collect();
        assert_eq!(findings, expected);
    }

    #[test]
    fn a_good_file_has_no_findings() {
        check(
            "NodeName=n[1-3] CPUs=2\nNodeSet=s Feature=f\nPartitionName=p Nodes=n[1-2],s State=UP\nPartitionName=DEFAULT MaxTime=1\n",
            &[],
        );
        check("PartitionName=p Nodes=ALL\n", &[]);
    }

    #[test]
    fn each_kind_of_problem_has_its_message() {
        check("Nonsense=1\n", &["line 3: key `Nonsense` is not known here"]);
        check("NodeName=n1 CPU=2\n", &["line 3: key `CPU` is not known here, the nearest known one is `CPUs`"]);
        check(
            "NodeName=n1 CPUs=x\n",
            &["line 3: value `x` of CPUs: expected a whole number from 0 to 65535, or UNLIMITED"],
        );
        check(
            "PartitionName=p State=open\n",
            &["line 3: value `open` of State: expected one of up, down, drain, inactive"],
        );
        check("NodeName=n[1-3]\nNodeName=n2\n", &["line 4: NodeName `n2` is already in line 3"]);
        check("SlurmctldHost=c1(10.0.0.1)\n", &["line 3: SlurmctldHost `c1` is already in line 2"]);
        check("KillWait=3 MinJobAge=4\n", &["line 3: value `MinJobAge=4` of MinJobAge: expected a line of its own"]);
        check("PartitionName=p\n\nPartitionName=p\n", &["line 5: PartitionName `p` is already in line 3"]);
        check(
            "PartitionName=p \\\n Nodes=x\n",
            &["line 3: value `x` of Nodes: expected nodes and node sets of this file, and `x` is none"],
        );
        let missing: Vec<String> = SlurmConf::new().check().iter().map(ToString::to_string).collect();
        assert_eq!(missing, ["key `ClusterName` is missing", "key `SlurmctldHost` is missing"]);
    }

    #[test]
    fn what_an_included_file_may_hold_is_not_missed() {
        assert_eq!(SlurmConf::parse("Include rest.conf\nPartitionName=p Nodes=x\n").unwrap().check(), []);
    }

    #[test]
    fn only_unknown_keys_are_uncertain() {
        let findings = SlurmConf::parse("Nonsense=1\nKillWait=x\n").unwrap().check();
        assert_eq!(findings.iter().map(Finding::is_certain).collect::<Vec<_>>(), [false, true, true, true]);
    }
}
