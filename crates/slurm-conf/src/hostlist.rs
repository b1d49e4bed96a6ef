//! Host lists: many names in one word, such as `n[1-3,7],login`. Counted before they are expanded, so that a short text
//! cannot become more names than memory holds.

use crate::error::{NameError, excerpt};
use crate::name::NodeName;
use std::fmt;
use std::str::FromStr;

/// The most names that a list may stand for; Slurm's own limit of nodes in a cluster.
pub const MOST_HOSTS: usize = 65_536;

/// Digits that are read as a number. More would not fit, and no machine room counts that far.
const MOST_DIGITS: usize = 18;

/// A list of hosts as Slurm writes it.
///
/// ```
/// use slurm_conf::HostList;
///
/// let list: HostList = "n[08-10],login".parse()?;
/// assert_eq!(list.expand().collect::<Vec<_>>(), ["n08", "n09", "n10", "login"]);
/// # Ok::<(), slurm_conf::NameError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostList {
    items: Vec<Vec<Piece>>,
}

/// A part of one item: fixed text, or a choice of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Numbers(Vec<Range>),
}

/// Numbers from `low` to `high`, each written with at least `width` digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    low: u64,
    high: u64,
    width: usize,
}

impl Range {
    /// A width that the smallest number fills by itself says nothing.
    fn new(low: u64, high: u64, width: usize) -> Self {
        let padded = low.to_string().len() < width;
        Self { low, high, width: if padded { width } else { 1 } }
    }

    fn count(self) -> Option<usize> {
        usize::try_from(self.high - self.low).ok()?.checked_add(1)
    }

    /// Reads `7`, `1-3` or `01-10`.
    fn parse(text: &str) -> Option<Self> {
        let number = |digits: &str| -> Option<u64> {
            let plain = (1..=MOST_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse().ok()).flatten()
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (low, high) = (number(first)?, number(last)?);
        (low <= high).then(|| Self::new(low, high, first.len()))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { low, high, width } = *self;
        write!(formatter, "{low:0width$}")?;
        if high > low { write!(formatter, "-{high:0width$}") } else { Ok(()) }
    }
}

impl HostList {
    /// Reads the nodes that an operator names in the parameter of an action: one at least, and each fit to be the name
    /// of a node.
    ///
    /// Unlike in a file, `ALL` and `DEFAULT` are refused: whoever means every node has to name them.
    ///
    /// ```
    /// use slurm_conf::HostList;
    ///
    /// assert_eq!(HostList::of_nodes(" compute-[0-3],gpu-1 ")?.count(), 5);
    /// assert!(HostList::of_nodes("ALL").is_err());
    /// # Ok::<(), slurm_conf::NameError>(())
    /// ```
    pub fn of_nodes(text: &str) -> Result<Self, NameError> {
        let list: Self = text.trim().parse()?;
        if list.is_empty() {
            return Err(refused(text, "names of nodes, such as `compute-0` or `compute-[0-3],gpu-1`"));
        }
        let unfit = list.expand().find_map(|name| NodeName::new(name).err());
        unfit.map_or(Ok(list), Err)
    }

    /// Returns how many names the list stands for, repeated ones counted as often as they come.
    pub fn count(&self) -> usize {
        // Cannot fail: every way to make a list checks the same sum.
        count(&self.items).unwrap_or(MOST_HOSTS)
    }

    /// Tells whether the list names nobody.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the names one after the other, in the order of the list.
    pub fn expand(&self) -> impl Iterator<Item = String> {
        self.items.iter().flat_map(|pieces| {
            let total = item_count(pieces).unwrap_or(0);
            (0..total).map(move |index| item_name(pieces, index))
        })
    }

    /// Tells whether `name` is one of the list.
    pub fn contains(&self, name: &str) -> bool {
        self.items.iter().any(|pieces| matches(pieces, name))
    }
}

const TOO_MANY: &str = "at most 65536 names";

fn refused(text: &str, expected: &'static str) -> NameError {
    NameError { kind: "host list", name: excerpt(text), expected }
}

/// What a host name in a list may consist of; `:` for addresses.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte)
}

/// A name that begins with `-` would be an option to whatever it is handed to, one with `.` a path.
fn begins_well(name: &str) -> bool {
    name.starts_with(|first: char| !matches!(first, '-' | '.'))
}

fn count(items: &[Vec<Piece>]) -> Option<usize> {
    items.iter().try_fold(0usize, |sum, pieces| sum.checked_add(item_count(pieces)?)).filter(|sum| *sum <= MOST_HOSTS)
}

fn item_count(pieces: &[Piece]) -> Option<usize> {
    pieces.iter().try_fold(1usize, |product, piece| match piece {
        Piece::Text(_) => Some(product),
        Piece::Numbers(ranges) => {
            product.checked_mul(ranges.iter().try_fold(0usize, |sum, range| sum.checked_add(range.count()?))?)
        }
    })
}

/// Returns the name number `index` of an item: the last bracket counts fastest.
fn item_name(pieces: &[Piece], mut index: usize) -> String {
    let mut parts: Vec<String> = Vec::with_capacity(pieces.len());
    for piece in pieces.iter().rev() {
        match piece {
            Piece::Text(text) => parts.push(text.clone()),
            Piece::Numbers(ranges) => {
                let total: usize = ranges.iter().filter_map(|range| range.count()).sum();
                let mut position = index % total.max(1);
                index /= total.max(1);
                for range in ranges {
                    let here = range.count().unwrap_or(0);
                    if position < here {
                        let number = range.low + u64::try_from(position).unwrap_or(0);
                        parts.push(format!("{number:0width$}", width = range.width));
                        break;
                    }
                    position -= here;
                }
            }
        }
    }
    parts.into_iter().rev().collect()
}

/// Tells whether `name` is one of the names of an item. Tries every count of digits for a bracket, so `n[1-20][1-3]`
/// works.
fn matches(pieces: &[Piece], name: &str) -> bool {
    match pieces.split_first() {
        None => name.is_empty(),
        Some((Piece::Text(text), rest)) => name.strip_prefix(text.as_str()).is_some_and(|name| matches(rest, name)),
        Some((Piece::Numbers(ranges), rest)) => {
            let digits = name.bytes().take(MOST_DIGITS).take_while(u8::is_ascii_digit).count();
            (1..=digits).any(|length| {
                let (number, behind) = name.split_at(length);
                let value: Option<u64> = number.parse().ok();
                let member = value.is_some_and(|value| {
                    ranges.iter().any(|range| {
                        (range.low..=range.high).contains(&value)
                            && format!("{value:0width$}", width = range.width) == number
                    })
                });
                member && matches(rest, behind)
            })
        }
    }
}

impl FromStr for HostList {
    type Err = NameError;

    /// Reads names and brackets joined by commas. An empty text is an empty list.
    fn from_str(text: &str) -> Result<Self, NameError> {
        /// More brackets in one name are refused: telling whether a name is a member takes time for each.
        const MOST_BRACKETS: usize = 4;
        let mut items: Vec<Vec<Piece>> = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if !begins_well(rest) {
                return Err(refused(text, "names that begin with a letter or digit"));
            }
            let mut pieces = Vec::with_capacity(2);
            loop {
                let plain = rest.bytes().take_while(|byte| is_name_byte(*byte)).count();
                if plain > 0 {
                    pieces.push(Piece::Text(rest[..plain].to_owned()));
                    rest = &rest[plain..];
                }
                let Some(inner) = rest.strip_prefix('[') else { break };
                let (ranges, behind) =
                    inner.split_once(']').ok_or_else(|| refused(text, "a `]` for every `[`, such as `n[1-3]`"))?;
                let ranges: Option<Vec<Range>> = ranges.split(',').map(Range::parse).collect();
                let ranges =
                    ranges.ok_or_else(|| refused(text, "numbers and ranges in brackets, such as `n[1-3,7]`"))?;
                pieces.push(Piece::Numbers(ranges));
                rest = behind;
            }
            let brackets = pieces.iter().filter(|piece| matches!(piece, Piece::Numbers(_))).count();
            if pieces.is_empty() || brackets > MOST_BRACKETS {
                return Err(refused(
                    text,
                    "names joined by commas, such as `n[1-3],login`, with at most 4 brackets each",
                ));
            }
            items.push(pieces);
            rest = match rest.strip_prefix(',') {
                Some("") => return Err(refused(text, "a name behind every comma")),
                Some(next) => next,
                None if rest.is_empty() => "",
                None => return Err(refused(text, "letters, digits, `-`, `_`, `.`, `:`, brackets and commas")),
            };
        }
        count(&items).ok_or_else(|| refused(text, TOO_MANY))?;
        Ok(Self { items })
    }
}

impl fmt::Display for HostList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, pieces) in self.items.iter().enumerate() {
            if position > 0 {
                formatter.write_str(",")?;
            }
            for piece in pieces {
                match piece {
                    Piece::Text(text) => formatter.write_str(text)?,
                    Piece::Numbers(ranges) => {
                        let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
                        write!(formatter, "[{}]", ranges.join(","))?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &str, names: &[&str]) {
        let parsed: HostList = list.parse().unwrap();
        assert_eq!(parsed.expand().collect::<Vec<_>>(), names);
        assert_eq!(parsed.count(), names.len());
        assert_eq!(parsed.to_string(), list);
        assert!(names.iter().all(|name| parsed.contains(name)), "{list}");
    }

    #[test]
    fn lists_are_expanded_in_their_order() {
        check("", &[]);
        check("n1", &["n1"]);
        check("n[1-3,7]", &["n1", "n2", "n3", "n7"]);
        check("n[08-10],login", &["n08", "n09", "n10", "login"]);
        check("r[1-2]n[1-2].lan", &["r1n1.lan", "r1n2.lan", "r2n1.lan", "r2n2.lan"]);
        check("[7-8]", &["7", "8"]);
    }

    #[test]
    fn membership_is_exact() {
        let list: HostList = "n[01-20],r[1-12][1-3]x".parse().unwrap();
        for name in ["n1", "n001", "n21", "n", "r13x", "r1x", "r114x"] {
            assert_eq!(list.contains(name), list.expand().any(|other| other == name), "{name}");
        }
        assert!(list.contains("r121x") && list.contains("n07"));
    }

    #[test]
    fn no_text_becomes_more_than_can_be_held() {
        for list in [
            "n[1-65537]",
            "n[0-999999999999999999]",
            "n[1-60000],m[1-60000]",
            "a[1-999][1-999]",
            "a[0-999999999999999999][0-999999999999999999]",
            "a[1][1][1][1][1]",
        ] {
            assert!(list.parse::<HostList>().is_err(), "{list}");
        }
        assert_eq!("n[1-65536]".parse::<HostList>().unwrap().count(), MOST_HOSTS);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for list in [
            "n[1-3", "n1-3]", "n[3-1]", "n[]", "n[a-b]", "n[1,,2]", ",", "a,", "a,,b", "a b", "a\nb", "a/b",
            "n[1-2-3]", "n[[1]]", "ä", "-a", "a,--help", ".", "../a",
        ] {
            let error = list.parse::<HostList>().unwrap_err();
            assert!(error.to_string().contains("is not a host list: expected"), "{error}");
        }
    }
}
