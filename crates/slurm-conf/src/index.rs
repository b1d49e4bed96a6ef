//! Finds keys and records of a file by name. Holds line numbers only; the lines themselves are in `document`.

use crate::lexer::Line;
use crate::record::{RecordKind, record_of};
use std::collections::HashMap;

/// A line's number for life.
pub(crate) type LineId = usize;

#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    /// Lines that hold a plain key, by the key in lower case.
    settings: HashMap<String, Vec<LineId>>,
    /// Lines that hold a record.
    records: HashMap<(RecordKind, String), Vec<LineId>>,
}

impl Index {
    /// Returns the lines that hold a plain key, in the order of the file.
    pub(crate) fn setting(&self, key: &str) -> &[LineId] {
        self.settings.get(&key.to_ascii_lowercase()).map_or(&[], Vec::as_slice)
    }

    /// Returns the lines of a record, in the order of the file.
    pub(crate) fn record(&self, kind: RecordKind, name: &str) -> &[LineId] {
        self.records.get(&(kind, name.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// Takes in a line. `order` is looked at only if something in it stands in another line too.
    pub(crate) fn add(&mut self, id: LineId, line: &Line, order: &[LineId]) {
        for pair in &line.pairs()[..plain_count(line)] {
            put(self.settings.entry(line.key(pair).to_ascii_lowercase()).or_default(), id, order);
        }
        if let Some(record) = record_of(line) {
            put(self.records.entry((record.kind(), record.name().to_owned())).or_default(), id, order);
        }
    }

    /// Forgets a line.
    pub(crate) fn remove(&mut self, id: LineId, line: &Line) {
        for pair in &line.pairs()[..plain_count(line)] {
            let key = line.key(pair).to_ascii_lowercase();
            if self.settings.get_mut(&key).is_some_and(|ids| take(ids, id)) {
                self.settings.remove(&key);
            }
        }
        if let Some(record) = record_of(line) {
            let key = (record.kind(), record.name().to_owned());
            if self.records.get_mut(&key).is_some_and(|ids| take(ids, id)) {
                self.records.remove(&key);
            }
        }
    }
}

/// Returns how many pairs of a line are plain keys: those before its record.
pub(crate) fn plain_count(line: &Line) -> usize {
    let pairs = line.pairs();
    pairs.iter().position(|pair| RecordKind::from_key(line.key(pair)).is_some()).unwrap_or(pairs.len())
}

/// Adds a line where the order of the file wants it. While a file is read, that is the end.
fn put(ids: &mut Vec<LineId>, id: LineId, order: &[LineId]) {
    match ids.last() {
        Some(last) if *last == id => {}
        None => ids.push(id),
        Some(_) if order.last() == Some(&id) => ids.push(id),
        Some(_) => {
            ids.push(id);
            let positions: HashMap<LineId, usize> =
                order.iter().enumerate().map(|(position, id)| (*id, position)).collect();
            ids.sort_by_key(|id| positions.get(id).copied());
        }
    }
}

/// Takes a line out, and tells whether none is left.
fn take(ids: &mut Vec<LineId>, id: LineId) -> bool {
    ids.retain(|other| *other != id);
    ids.is_empty()
}
