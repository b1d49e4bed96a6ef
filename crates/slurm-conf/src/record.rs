//! Records: lines of slurm.conf that describe one thing under one name, such as a partition. Reading only; edits are in
//! `document`.

use crate::lexer::{Line, Pair};

/// The kinds of line that begin with a name and carry options of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// `NodeName=…`
    Node,
    /// `PartitionName=…`
    Partition,
    /// `NodeSet=…`
    NodeSet,
    /// `DownNodes=…`
    DownNodes,
    /// `FrontendName=…`
    Frontend,
}

impl RecordKind {
    /// Returns the key that begins such a record.
    pub fn key(self) -> &'static str {
        match self {
            Self::Node => "NodeName",
            Self::Partition => "PartitionName",
            Self::NodeSet => "NodeSet",
            Self::DownNodes => "DownNodes",
            Self::Frontend => "FrontendName",
        }
    }

    /// Returns the kind of record that `key` begins, in any letter case.
    pub fn from_key(key: &str) -> Option<Self> {
        [Self::Node, Self::Partition, Self::NodeSet, Self::DownNodes, Self::Frontend]
            .into_iter()
            .find(|kind| kind.key().eq_ignore_ascii_case(key))
    }
}

/// One record as it stands in the file.
#[derive(Debug, Clone, Copy)]
pub struct Record<'conf> {
    pub(crate) kind: RecordKind,
    pub(crate) line: &'conf Line,
    /// The name first, then its options.
    pub(crate) pairs: &'conf [Pair],
}

impl<'conf> Record<'conf> {
    /// Returns what kind of record this is.
    pub fn kind(&self) -> RecordKind {
        self.kind
    }

    /// Returns the name, as written.
    pub fn name(&self) -> &'conf str {
        self.pairs.first().map_or("", |pair| self.line.value(pair))
    }

    /// Returns the value of `key`, in any letter case; of several, the last.
    pub fn get(&self, key: &str) -> Option<&'conf str> {
        self.options().filter(|(found, _)| found.eq_ignore_ascii_case(key)).last().map(|(_, value)| value)
    }

    /// Returns every option behind the name, as written.
    pub fn options(&self) -> impl Iterator<Item = (&'conf str, &'conf str)> + use<'conf> {
        let line = self.line;
        self.pairs.iter().skip(1).map(move |pair| (line.key(pair), line.value(pair)))
    }

    /// Tells whether the record says exactly `wanted` (name first), whatever the order of its options.
    pub(crate) fn says(&self, wanted: &[(&str, String)]) -> bool {
        self.pairs.len() == wanted.len()
            && wanted.iter().skip(1).all(|(key, value)| self.get(key) == Some(value.as_str()))
            && wanted.first().is_some_and(|(_, name)| self.name() == name)
    }
}

/// Returns the record in `line`, if there is one: it begins at the first key that begins a record and ends with the
/// line.
pub(crate) fn record_of(line: &Line) -> Option<Record<'_>> {
    let pairs = line.pairs();
    pairs.iter().enumerate().find_map(|(position, pair)| {
        RecordKind::from_key(line.key(pair)).map(|kind| Record { kind, line, pairs: &pairs[position..] })
    })
}
