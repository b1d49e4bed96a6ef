//! From text to logical lines and their `key=value` pairs, the way Slurm's own reader does it.
//!
//! A logical line keeps its raw bytes; pairs are ranges into them. Order of work, as in Slurm: a comment is cut off
//! each physical line, then a backslash at the end of what is left joins the next line, then escapes are removed, then
//! pairs are read. Knows nothing of what a key means.

use crate::error::{ParseError, excerpt};
use crate::text::is_key_byte;
use std::borrow::Cow;
use std::ops::Range;

/// One logical line: a physical one, or several joined by continuation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Every byte of it, with its line ends.
    pub(crate) raw: String,
    pub(crate) content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nothing but blanks and comments.
    Blank,
    /// `Include path`.
    Include(Box<str>),
    /// One or more pairs.
    Pairs(Vec<Pair>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    /// Where the key is in the raw line.
    pub(crate) key: Range<usize>,
    /// Where the value is in the raw line, with its quotes.
    pub(crate) value: Range<usize>,
    /// Key and value as Slurm sees them, where escapes or continuation lines make that differ from the raw text.
    cooked: Option<Box<(String, String)>>,
}

impl Line {
    /// Gives the line an end, so that another one can follow it.
    ///
    /// The last line of a file may lack its line end. It may also end in a backslash that continues nothing yet and
    /// would swallow the line that follows; it gets an empty one to continue with.
    pub(crate) fn end(&mut self) {
        if !self.raw.ends_with('\n') {
            self.raw.push('\n');
        }
        if is_continued(&self.raw) {
            self.raw.push('\n');
        }
    }

    pub(crate) fn pairs(&self) -> &[Pair] {
        match &self.content {
            Content::Pairs(pairs) => pairs,
            Content::Blank | Content::Include(_) => &[],
        }
    }

    pub(crate) fn key<'line>(&'line self, pair: &'line Pair) -> &'line str {
        match &pair.cooked {
            Some(cooked) => &cooked.0,
            None => &self.raw[pair.key.clone()],
        }
    }

    pub(crate) fn value<'line>(&'line self, pair: &'line Pair) -> &'line str {
        match &pair.cooked {
            Some(cooked) => &cooked.1,
            None => unquote(&self.raw[pair.value.clone()]),
        }
    }
}

fn unquote(value: &str) -> &str {
    value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .filter(|inner| !inner.contains('"'))
        .unwrap_or(value)
}

/// Reads a whole file.
pub(crate) fn lines(source: &str) -> Result<Vec<Line>, ParseError> {
    let mut lines = Vec::new();
    let mut rest = source;
    let mut number = 1;
    while !rest.is_empty() {
        let (line, physical) = next_line(rest, number)?;
        rest = &rest[line.raw.len()..];
        number += physical;
        lines.push(line);
    }
    Ok(lines)
}

/// Reads the first logical line of `rest`, which begins at line `number`. Returns it and of how many physical lines it
/// consists.
pub(crate) fn next_line(rest: &str, number: usize) -> Result<(Line, usize), ParseError> {
    let mut pieces: Vec<Range<usize>> = Vec::with_capacity(1);
    let mut physical = 0;
    let mut end = 0;
    loop {
        let start = end;
        end = rest[start..].find('\n').map_or(rest.len(), |position| start + position + 1);
        physical += 1;
        let effective = without_comment(&rest[start..end]);
        match without_continuation(effective) {
            Some(kept) => pieces.push(start..start + kept.len()),
            None => {
                pieces.push(start..start + effective.len());
                break;
            }
        }
        if end == rest.len() {
            break;
        }
    }
    let raw = &rest[..end];
    if let Some(position) = raw.find('\0') {
        let line = number + raw[..position].matches('\n').count();
        return Err(ParseError { line, found: excerpt(raw), expected: "text without NUL characters" });
    }
    let text = Joined::new(raw, &pieces);
    let content = text.content().map_err(|(position, expected)| {
        let line = number + raw[..text.raw_position(position)].matches('\n').count();
        ParseError { line, found: excerpt(text.text[position..].trim_end()), expected }
    })?;
    Ok((Line { raw: raw.to_owned(), content }, physical))
}

/// Cuts a line at the first `#` that no backslash protects. Quotes do not protect it.
fn without_comment(line: &str) -> &str {
    let mut backslashes = 0;
    for (position, byte) in line.bytes().enumerate() {
        match byte {
            b'#' if backslashes % 2 == 0 => return &line[..position],
            b'\\' => backslashes += 1,
            _ => backslashes = 0,
        }
    }
    line
}

/// Returns the line without its closing backslash, or `None` if the line is not continued.
fn without_continuation(line: &str) -> Option<&str> {
    let trimmed = line.trim_end_matches(is_space);
    let backslashes = trimmed.bytes().rev().take_while(|byte| *byte == b'\\').count();
    (backslashes % 2 == 1).then(|| &trimmed[..trimmed.len() - 1])
}

/// Tells whether the last physical line of `raw` asks for another one.
fn is_continued(raw: &str) -> bool {
    raw.split_inclusive('\n').next_back().is_some_and(|line| without_continuation(without_comment(line)).is_some())
}

/// The blanks of the C locale.
fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

fn is_space_byte(byte: u8) -> bool {
    is_space(char::from(byte))
}

/// A logical line as Slurm sees it, and where each byte of it came from.
struct Joined<'raw> {
    text: Cow<'raw, str>,
    /// Raw position of each byte of `text`; `None` if the two are the same.
    positions: Option<Vec<usize>>,
    raw_end: usize,
}

impl<'raw> Joined<'raw> {
    fn new(raw: &'raw str, pieces: &[Range<usize>]) -> Self {
        let raw_end = pieces.last().map_or(0, |piece| piece.end);
        if let [only] = pieces
            && only.start == 0
            && !raw[only.clone()].contains('\\')
        {
            return Self { text: Cow::Borrowed(&raw[only.clone()]), positions: None, raw_end };
        }
        let mut text = String::with_capacity(raw.len());
        let mut positions = Vec::with_capacity(raw.len());
        let mut escaped = false;
        for piece in pieces {
            for (offset, character) in raw[piece.clone()].char_indices() {
                if character == '\\' && !escaped {
                    escaped = true;
                    continue;
                }
                escaped = false;
                text.push(character);
                let start = piece.start + offset;
                positions.extend(start..start + character.len_utf8());
            }
        }
        Self { text: Cow::Owned(text), positions: Some(positions), raw_end }
    }

    fn raw_position(&self, position: usize) -> usize {
        match &self.positions {
            None => position,
            Some(positions) => positions.get(position).copied().unwrap_or(self.raw_end),
        }
    }

    fn raw_range(&self, range: &Range<usize>) -> Range<usize> {
        // The end is taken from the last byte inside, so that a continuation behind it stays outside.
        let last = range.end.saturating_sub(1).max(range.start);
        self.raw_position(range.start)..(self.raw_position(last) + 1).min(self.raw_end)
    }

    fn content(&self) -> Result<Content, (usize, &'static str)> {
        let trimmed = self.text.trim_start_matches(is_space);
        if trimmed.is_empty() {
            return Ok(Content::Blank);
        }
        if let Some(path) = include_path(trimmed) {
            let start = self.text.len() - trimmed.len();
            return if path.is_empty() || path.contains(is_space) {
                Err((start, "`Include` and one file name"))
            } else {
                Ok(Content::Include(path.into()))
            };
        }
        self.pairs().map(Content::Pairs)
    }

    fn pairs(&self) -> Result<Vec<Pair>, (usize, &'static str)> {
        let bytes = self.text.as_bytes();
        let skip =
            |from: usize, wanted: fn(u8) -> bool| from + bytes[from..].iter().take_while(|byte| wanted(**byte)).count();
        let mut pairs = Vec::with_capacity(4);
        let mut position = skip(0, is_space_byte);
        while position < bytes.len() {
            let failure = Err((position, "`Key=Value`"));
            let key = position..skip(position, is_key_byte);
            let mut next = skip(key.end, is_space_byte);
            if key.is_empty() {
                return failure;
            }
            if matches!(bytes.get(next), Some(b'-' | b'*' | b'+' | b'/')) {
                next += 1;
            }
            if bytes.get(next) != Some(&b'=') {
                return failure;
            }
            let start = skip(next + 1, is_space_byte);
            let value = start..self.value_end(start);
            if value.is_empty() {
                return failure;
            }
            let cooked = self
                .positions
                .is_some()
                .then(|| Box::new((self.text[key.clone()].to_owned(), unquote(&self.text[value.clone()]).to_owned())));
            position = skip(value.end, is_space_byte);
            pairs.push(Pair { key: self.raw_range(&key), value: self.raw_range(&value), cooked });
        }
        Ok(pairs)
    }

    /// Returns where the value that begins at `start` ends: after its closing quote, or before the next blank.
    fn value_end(&self, start: usize) -> usize {
        let bytes = self.text.as_bytes();
        if bytes.get(start) == Some(&b'"')
            && let Some(length) = bytes[start + 1..].iter().position(|byte| *byte == b'"')
        {
            let end = start + length + 2;
            if bytes.get(end).is_none_or(|byte| is_space_byte(*byte)) {
                return end;
            }
        }
        start + bytes[start..].iter().take_while(|byte| !is_space_byte(**byte)).count()
    }
}

/// Returns what follows the word `Include`, if the line begins with it.
fn include_path(line: &str) -> Option<&str> {
    const WORD: &str = "include";
    let word = line.get(..WORD.len())?;
    let rest = &line[WORD.len()..];
    (word.eq_ignore_ascii_case(WORD) && (rest.is_empty() || rest.starts_with(is_space)))
        .then(|| rest.trim_matches(is_space))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn pairs(source: &str) -> Vec<(String, String)> {
        let read = lines(source).unwrap();
        let rendered: String = read.iter().map(|line| line.raw.as_str()).collect();
        assert_eq!(rendered, source, "every byte is kept");
        read.iter()
            .flat_map(|line| line.pairs().iter().map(|pair| (line.key(pair).to_owned(), line.value(pair).to_owned())))
            .collect()
    }

    #[track_caller]
    fn check(source: &str, expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        assert_eq!(pairs(source), expected);
    }

    #[test]
    fn pairs_are_read_with_blanks_quotes_and_operators() {
        check("A=1 b = 2\tC=\"x y\" D+=z\r\n", &[("A", "1"), ("b", "2"), ("C", "x y"), ("D", "z")]);
        check("A=\"\"", &[("A", "")]);
        check("A=k=v,w=\"x\"", &[("A", "k=v,w=\"x\"")]);
    }

    #[test]
    fn a_comment_ends_a_line_even_inside_quotes() {
        check("# A=1\nB=2 # C=3\n", &[("B", "2")]);
        check("A=x\\#y # z\n", &[("A", "x#y")]);
        check("A=\"x\" #\"\n", &[("A", "x")]);
    }

    #[test]
    fn continuation_lines_are_joined() {
        check("A=1,\\\n2,\\\n3 B=4\nC=5\n", &[("A", "1,2,3"), ("B", "4"), ("C", "5")]);
        check("A=1 \\   \n  B=2\n", &[("A", "1"), ("B", "2")]);
        check("A=1 \\ # why\nB=2\n", &[("A", "1"), ("B", "2")]);
        check("A=1 \\", &[("A", "1")]);
        check("A\\\nB=1\n", &[("AB", "1")]);
        check("# no continuation \\\nB=2\n", &[("B", "2")]);
    }

    #[test]
    fn an_include_is_a_line_of_its_own() {
        let read = lines("  INCLUDE\tpartitions.conf # x\n").unwrap();
        assert_eq!(read[0].content, Content::Include("partitions.conf".into()));
    }

    #[test]
    fn an_error_names_its_line() {
        let error = lines("A=1 \\\nB=2\n\nnonsense here\n").unwrap_err();
        assert_eq!(error.to_string(), "line 4: expected `Key=Value`, found `nonsense here`");
        let error = lines("A=1 \\\n  ?\n").unwrap_err();
        assert_eq!(error.line, 2);
        assert!(lines("A=\n").is_err());
        assert!(lines("Include\n").is_err());
        assert!(lines("Include a b\n").is_err());
        assert!(lines("A=\"x y\n").is_err());
        assert!(lines("A=x\0\n").is_err());
    }

    #[test]
    fn no_short_text_makes_it_panic() {
        let alphabet = ["A", "=", "\"", "\\", "#", "\n", " ", "ä", "include", "\r", "\0", "+"];
        let count = alphabet.len();
        for seed in 0..count.pow(5) {
            let mut rest = seed;
            let mut text = String::new();
            for _ in 0..5 {
                text.push_str(alphabet[rest % count]);
                rest /= count;
            }
            if let Ok(read) = lines(&text) {
                let rendered: String = read.iter().map(|line| line.raw.as_str()).collect();
                assert_eq!(rendered, text);
                for line in &read {
                    for pair in line.pairs() {
                        assert!(!line.key(pair).is_empty(), "{text:?}");
                        assert!(line.raw.get(pair.value.clone()).is_some(), "{text:?}");
                        let _ = line.value(pair);
                    }
                }
            }
        }
    }
}
