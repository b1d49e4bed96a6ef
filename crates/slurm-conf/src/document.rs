//! A whole slurm.conf that can be edited: plain keys, controllers, partitions with their node sets.
//!
//! Lines live in a slab and keep their number for life; `order` says how they follow each other. So the index that
//! finds a key or a partition stays valid through edits, and n edits of a file with n partitions cost n, not n².

use crate::error::{ParseError, ValueError, excerpt};
use crate::index::{Index, LineId, plain_count};
use crate::lexer::{self, Content, Line};
use crate::name::HostName;
use crate::nodeset::NodeSet;
use crate::partition::Partition;
use crate::record::{Record, RecordKind, record_of};
use crate::text::{check_key, check_value, line_of, push_pair};
use std::fmt;

pub(crate) const CONTROLLER_KEY: &str = "SlurmctldHost";

/// A slurm.conf. Rendering what was parsed gives the same bytes.
#[derive(Debug, Clone, Default)]
pub struct SlurmConf {
    /// Every line that ever was; a removed one leaves a gap.
    lines: Vec<Option<Line>>,
    /// Living and removed lines in the order of the file.
    order: Vec<LineId>,
    index: Index,
}

impl SlurmConf {
    /// Returns an empty file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file. Fails where Slurm would not get through the syntax; whether a key exists is not asked.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let mut conf = Self::default();
        for line in lexer::lines(source)? {
            let id = conf.lines.len();
            conf.lines.push(Some(line));
            conf.order.push(id);
            conf.add_to_index(id);
        }
        Ok(conf)
    }

    /// Returns the text of the file.
    pub fn render(&self) -> String {
        self.living().map(|line| line.raw.as_str()).collect()
    }

    /// Returns the value of a plain key, in any letter case. Of several, the last: that is the one that Slurm takes.
    pub fn get(&self, key: &str) -> Option<&str> {
        let line = self.line(*self.index.setting(key).last()?)?;
        plain_values(line, key).last()
    }

    /// Sets a plain key: in place if the file has it, else in a new line behind the last plain key. Tells whether that
    /// changed anything.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, ValueError> {
        check_key(key)?;
        check_value(key, value)?;
        let reserved = RecordKind::from_key(key).is_some()
            || key.eq_ignore_ascii_case("Include")
            || key.eq_ignore_ascii_case(CONTROLLER_KEY);
        if reserved {
            return Err(ValueError::Reserved(key.to_owned()));
        }
        if self.get(key) == Some(value) {
            return Ok(false);
        }
        match self.index.setting(key).last().copied() {
            Some(id) => self.replace_value(id, key, value),
            None => {
                let mut text = String::new();
                push_pair(&mut text, key, value);
                let position = self.behind_last_setting();
                self.insert(position, &text);
            }
        }
        Ok(true)
    }

    /// Removes a plain key wherever it stands. Tells whether it was there.
    pub fn remove(&mut self, key: &str) -> bool {
        let ids = self.index.setting(key).to_vec();
        for id in &ids {
            self.remove_key_from_line(*id, key);
        }
        !ids.is_empty()
    }

    /// Returns every plain key with its value, as written, in the order of the file.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.living().flat_map(|line| {
            let plain = plain_count(line);
            line.pairs()[..plain].iter().map(|pair| (line.key(pair), line.value(pair)))
        })
    }

    /// Returns the file names of the `Include` lines.
    pub fn includes(&self) -> impl Iterator<Item = &str> {
        self.living().filter_map(|line| match &line.content {
            Content::Include(path) => Some(&**path),
            Content::Blank | Content::Pairs(_) => None,
        })
    }

    /// Returns the values of the `SlurmctldHost` lines: the first is the primary.
    pub fn controllers(&self) -> Vec<&str> {
        let ids = self.index.setting(CONTROLLER_KEY);
        ids.iter().filter_map(|id| self.line(*id)).flat_map(|line| plain_values(line, CONTROLLER_KEY)).collect()
    }

    /// Makes the `SlurmctldHost` lines say exactly `hosts`, in this order. Tells whether that changed anything.
    ///
    /// A host that stays keeps its line, so an address that an administrator wrote behind it (`c1(10.0.0.1)`) stays
    /// too.
    pub fn set_controllers(&mut self, hosts: &[HostName]) -> bool {
        let present: Vec<String> = self.controllers().into_iter().map(str::to_owned).collect();
        let wanted: Vec<String> = hosts
            .iter()
            .map(|host| {
                let kept = present.iter().find(|line| line.split('(').next() == Some(host.as_str()));
                kept.cloned().unwrap_or_else(|| host.to_string())
            })
            .collect();
        if wanted == present {
            return false;
        }
        let old = self.index.setting(CONTROLLER_KEY).to_vec();
        let simple = old.iter().all(|id| self.line(*id).is_some_and(|line| line.pairs().len() == 1));
        let keep = if simple { old.len().min(wanted.len()) } else { 0 };
        let mut position = match old.first() {
            Some(first) => self.position(*first),
            None => self.behind_last_setting(),
        };
        for (id, host) in old.iter().zip(&wanted).take(keep) {
            self.replace_value(*id, CONTROLLER_KEY, host);
            position = self.position(*id) + 1;
        }
        for id in old.iter().skip(keep) {
            self.remove_key_from_line(*id, CONTROLLER_KEY);
        }
        for host in wanted.iter().skip(keep) {
            let mut text = String::new();
            push_pair(&mut text, CONTROLLER_KEY, host);
            self.insert(position, &text);
            position += 1;
        }
        true
    }

    /// Returns every record of one kind, in the order of the file.
    pub fn records(&self, kind: RecordKind) -> impl Iterator<Item = Record<'_>> {
        self.living().filter_map(record_of).filter(move |record| record.kind() == kind)
    }

    /// Returns every partition line, in the order of the file.
    pub fn partitions(&self) -> impl Iterator<Item = Record<'_>> {
        self.records(RecordKind::Partition)
    }

    /// Returns the line of one partition.
    pub fn partition(&self, name: &str) -> Option<Record<'_>> {
        self.record(RecordKind::Partition, name)
    }

    /// Returns the line of one node set.
    pub fn nodeset(&self, name: &str) -> Option<Record<'_>> {
        self.record(RecordKind::NodeSet, name)
    }

    /// Writes a partition and its node set: in place if the file has them, else at the end. Tells whether that changed
    /// anything.
    pub fn set_partition(&mut self, partition: &Partition, nodeset: &NodeSet) -> bool {
        // A node set that has to be added stands before its partition. Looked for only then: it takes a walk through
        // the file.
        let present = self.index.record(RecordKind::Partition, partition.name().as_str()).first();
        let lacks_nodeset = self.index.record(RecordKind::NodeSet, nodeset.name().as_str()).is_empty();
        let position = present.filter(|_| lacks_nodeset).map(|id| self.position(*id));
        let nodeset_changed = self.set_record(RecordKind::NodeSet, &nodeset.pairs(), position);
        let partition_changed = self.set_record(RecordKind::Partition, &partition.pairs(nodeset), None);
        nodeset_changed || partition_changed
    }

    /// Removes a partition, and its node set unless another partition uses it. Tells whether the partition was there.
    pub fn remove_partition(&mut self, name: &str) -> bool {
        let removed = self.remove_records(RecordKind::Partition, name);
        let uses =
            |record: Record<'_>| record.get("Nodes").is_some_and(|nodes| nodes.split(',').any(|word| word == name));
        if removed && !self.partitions().any(uses) {
            self.remove_records(RecordKind::NodeSet, name);
        }
        removed
    }

    fn record(&self, kind: RecordKind, name: &str) -> Option<Record<'_>> {
        self.index.record(kind, name).first().and_then(|id| self.line(*id)).and_then(record_of)
    }

    /// Writes one record, name first in `pairs`. Slurm refuses a name that comes twice, so further lines of it go.
    fn set_record(&mut self, kind: RecordKind, pairs: &[(&str, String)], position: Option<usize>) -> bool {
        let name = pairs.first().map_or("", |(_, name)| name.as_str());
        let ids = self.index.record(kind, name).to_vec();
        let Some((first, further)) = ids.split_first() else {
            self.insert(position.unwrap_or(self.order.len()), &line_of(pairs));
            return true;
        };
        for id in further {
            self.remove_record_from_line(*id);
        }
        let Some(record) = self.line(*first).and_then(record_of).filter(|record| !record.says(pairs)) else {
            return !further.is_empty();
        };
        let (start, end) = record_span(record);
        let text = format!("{}{}{}", &record.line.raw[..start], line_of(pairs), &record.line.raw[end..]);
        self.replace_line(*first, &text);
        true
    }

    fn remove_records(&mut self, kind: RecordKind, name: &str) -> bool {
        let ids = self.index.record(kind, name).to_vec();
        for id in &ids {
            self.remove_record_from_line(*id);
        }
        !ids.is_empty()
    }

    /// Takes the record out of a line, and the whole line if there was nothing else in it.
    fn remove_record_from_line(&mut self, id: LineId) {
        let Some(line) = self.line(id) else { return };
        let Some(record) = record_of(line) else { return };
        let (start, end) = record_span(record);
        let text = (plain_count(line) > 0).then(|| format!("{}{}", line.raw[..start].trim_end(), &line.raw[end..]));
        match text {
            Some(text) => self.replace_line(id, &text),
            None => self.remove_line(id),
        }
    }

    /// Takes every plain `key` out of a line, and the whole line if there was nothing else in it.
    fn remove_key_from_line(&mut self, id: LineId, key: &str) {
        let Some(line) = self.line(id) else { return };
        let pairs = line.pairs();
        let doomed =
            |position: usize| position < plain_count(line) && line.key(&pairs[position]).eq_ignore_ascii_case(key);
        if (0..pairs.len()).all(doomed) {
            self.remove_line(id);
            return;
        }
        let mut text = line.raw.clone();
        for position in (0..pairs.len()).rev().filter(|position| doomed(*position)) {
            match pairs.get(position + 1) {
                Some(next) => text.replace_range(pairs[position].key.start..next.key.start, ""),
                None => {
                    let start =
                        position.checked_sub(1).map_or(pairs[position].key.start, |before| pairs[before].value.end);
                    text.replace_range(start..pairs[position].value.end, "");
                }
            }
        }
        self.replace_line(id, &text);
    }

    /// Replaces the last value of a plain key in one line. Key, blanks and comment of the line stay.
    fn replace_value(&mut self, id: LineId, key: &str, value: &str) {
        let Some(line) = self.line(id) else { return };
        let plain = &line.pairs()[..plain_count(line)];
        let Some(pair) = plain.iter().rev().find(|pair| line.key(pair).eq_ignore_ascii_case(key)) else { return };
        if line.value(pair) == value {
            return;
        }
        // The whole of `key = value` goes, so that an operator such as `+=` does not stay behind.
        let mut text = line.raw[..pair.key.start].to_owned();
        push_pair(&mut text, line.key(pair), value);
        text.push_str(&line.raw[pair.value.end..]);
        self.replace_line(id, &text);
    }

    pub(crate) fn living(&self) -> impl Iterator<Item = &Line> {
        self.order.iter().filter_map(|id| self.line(*id))
    }

    fn line(&self, id: LineId) -> Option<&Line> {
        self.lines.get(id).and_then(Option::as_ref)
    }

    fn position(&self, id: LineId) -> usize {
        self.order.iter().position(|other| *other == id).unwrap_or(self.order.len())
    }

    fn behind_last_setting(&self) -> usize {
        let last = self.order.iter().rposition(|id| self.line(*id).is_some_and(|line| plain_count(line) > 0));
        last.map_or(self.order.len(), |position| position + 1)
    }

    /// Puts a new line at `position` of the order.
    fn insert(&mut self, position: usize, text: &str) {
        self.end_line_before(position);
        let id = self.lines.len();
        self.lines.push(None);
        self.order.insert(position.min(self.order.len()), id);
        self.replace_line(id, &format!("{text}\n"));
    }

    /// The last line of a file may lack its line end.
    fn end_line_before(&mut self, position: usize) {
        let before =
            self.order[..position.min(self.order.len())].iter().rev().copied().find(|id| self.line(*id).is_some());
        if let Some(line) = before.and_then(|id| self.lines[id].as_mut()) {
            line.end();
        }
    }

    /// Gives a line new text. The text is made of checked pairs and of what was read before, so it can be read.
    fn replace_line(&mut self, id: LineId, text: &str) {
        self.remove_from_index(id);
        let read = lexer::next_line(text, 1);
        debug_assert!(read.is_ok(), "invariant: an edited line can be read: {:?}", excerpt(text));
        if let Ok((line, _)) = read {
            self.lines[id] = Some(line);
        }
        self.add_to_index(id);
    }

    fn remove_line(&mut self, id: LineId) {
        self.remove_from_index(id);
        self.lines[id] = None;
    }

    fn add_to_index(&mut self, id: LineId) {
        if let Some(line) = self.lines.get(id).and_then(Option::as_ref) {
            self.index.add(id, line, &self.order);
        }
    }

    fn remove_from_index(&mut self, id: LineId) {
        if let Some(line) = self.lines.get(id).and_then(Option::as_ref) {
            self.index.remove(id, line);
        }
    }
}

impl fmt::Display for SlurmConf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.living().try_for_each(|line| formatter.write_str(&line.raw))
    }
}

impl PartialEq for SlurmConf {
    /// Two files are equal if their text is.
    fn eq(&self, other: &Self) -> bool {
        self.render() == other.render()
    }
}

impl Eq for SlurmConf {}

/// Returns the values of a plain key in one line.
fn plain_values<'line>(line: &'line Line, key: &str) -> impl Iterator<Item = &'line str> {
    let plain = &line.pairs()[..plain_count(line)];
    plain.iter().filter(move |pair| line.key(pair).eq_ignore_ascii_case(key)).map(move |pair| line.value(pair))
}

/// Returns where a record begins and ends in its raw line.
fn record_span(record: Record<'_>) -> (usize, usize) {
    let start = record.pairs.first().map_or(0, |pair| pair.key.start);
    (start, record.pairs.last().map_or(start, |pair| pair.value.end))
}

#[cfg(test)]
mod tests;
