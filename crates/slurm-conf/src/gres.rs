//! gres.conf: devices of nodes beyond processors and memory. Every byte that is not edited stays.

use crate::error::{OptionError, ParseError, excerpt};
use crate::lexer::{self, Line};
use crate::partition::option_pairs;
use crate::text::{line_of, value_problem};
use crate::unknown::{UnknownKey, unknown_key, unknown_value};
use std::borrow::Cow;
use std::fmt;

const AUTODETECT: &str = "AutoDetect";

/// Every key of gres.conf in Slurm 24.11 and 26.05.
const KEYS: &[&str] =
    &["Name", "Type", "NodeName", AUTODETECT, "Count", "Cores", "CPUs", "File", "Flags", "Links", "MultipleFiles"];

/// One line of gres.conf.
///
/// ```
/// let gres = slurm_conf::Gres::from_config("name=gpu type=a100 file=/dev/nvidia[0-3]")?;
/// assert_eq!(gres.to_string(), "Name=gpu Type=a100 File=/dev/nvidia[0-3]");
/// # Ok::<(), slurm_conf::OptionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gres {
    options: Vec<(Cow<'static, str>, String)>,
}

impl Gres {
    /// Reads `Key=Value …`. No key may come twice, and `Name` or `AutoDetect` has to be there. A key that this crate does not know
    /// is taken as free text, since the installed Slurm may know it: see [`Gres::unknown`].
    pub fn from_config(text: &str) -> Result<Self, OptionError> {
        let mut options: Vec<(Cow<'static, str>, String)> = Vec::new();
        for (key, value) in option_pairs(text)? {
            let name = match canonical(&key) {
                Some(known) => {
                    check(known, &value)?;
                    Cow::Borrowed(known)
                }
                None => {
                    let name = unknown_key(&key)?;
                    unknown_value(&name, &value, false)?;
                    Cow::Owned(name)
                }
            };
            if options.iter().any(|(other, _)| *other == name) {
                return Err(OptionError::Duplicate { key });
            }
            options.push((name, value));
        }
        let named = options.iter().any(|(key, _)| matches!(&**key, "Name" | AUTODETECT));
        let expected = "`Name=…` or `AutoDetect=…`";
        if named { Ok(Self { options }) } else { Err(OptionError::Syntax { found: excerpt(text), expected }) }
    }

    /// Returns the value of a key, in any letter case.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known.eq_ignore_ascii_case(key)).map(|(_, value)| value.as_str())
    }

    /// Returns keys and values in order.
    pub fn options(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options.iter().map(|(key, value)| (&**key, value.as_str()))
    }

    /// Returns the keys that are not known here, each with the known one that is nearest to it.
    pub fn unknown(&self) -> impl Iterator<Item = UnknownKey<'_>> {
        let unknown = self.options.iter().filter(|(key, _)| canonical(key).is_none());
        unknown.map(|(key, value)| UnknownKey::new(key, value, KEYS.iter().copied()))
    }
}

impl fmt::Display for Gres {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&line_of(&self.options))
    }
}

fn canonical(key: &str) -> Option<&'static str> {
    KEYS.iter().copied().find(|known| known.eq_ignore_ascii_case(key))
}

fn check(key: &str, value: &str) -> Result<(), OptionError> {
    let refused = |expected: &str| {
        Err(OptionError::Value { key: key.to_owned(), value: excerpt(value), expected: expected.to_owned() })
    };
    if value.is_empty() || value.contains(char::is_whitespace) || value_problem(value).is_some() {
        return refused("one word");
    }
    let number = value.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T', 'p', 'P']);
    let counted = !number.is_empty() && value.len() - number.len() <= 1 && number.bytes().all(|b| b.is_ascii_digit());
    match key {
        "Count" if !counted => refused("a number, with or without one of K, M, G, T, P behind it"),
        "File" | "MultipleFiles" if !value.starts_with('/') => refused("a path from the root"),
        _ => Ok(()),
    }
}

/// A gres.conf. Rendering what was parsed gives the same bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GresConf {
    lines: Vec<Line>,
}

impl GresConf {
    /// Returns an empty file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file. Fails where Slurm would not get through the syntax; whether a key exists is not asked.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        Ok(Self { lines: lexer::lines(source)? })
    }

    /// Returns the text of the file.
    pub fn render(&self) -> String {
        self.lines.iter().map(|line| line.raw.as_str()).collect()
    }

    /// Returns the keys and values of each line that has any, as written.
    pub fn entries(&self) -> impl Iterator<Item = Vec<(&str, &str)>> {
        let filled = self.lines.iter().filter(|line| !line.pairs().is_empty());
        filled.map(|line| line.pairs().iter().map(|pair| (line.key(pair), line.value(pair))).collect())
    }

    /// Returns how devices are found on nodes for which no line says otherwise.
    pub fn autodetect(&self) -> Option<&str> {
        let line = self.lines.iter().rfind(|line| is_autodetect(line))?;
        line.pairs().first().map(|pair| line.value(pair))
    }

    /// Sets how devices are found on nodes for which no line says otherwise. Tells whether that changed anything.
    pub fn set_autodetect(&mut self, method: &str) -> Result<bool, OptionError> {
        if self.autodetect() == Some(method) {
            return Ok(false);
        }
        let wanted = Gres { options: vec![(Cow::Borrowed(AUTODETECT), method.to_owned())] };
        check(AUTODETECT, method)?;
        match self.lines.iter().rposition(is_autodetect) {
            Some(position) => {
                let line = &self.lines[position];
                let (start, end) = line.pairs().first().map_or((0, 0), |pair| (pair.key.start, pair.value.end));
                let text = format!("{}{wanted}{}", &line.raw[..start], &line.raw[end..]);
                self.put(Some(position), &text);
            }
            None => self.put(None, &format!("{wanted}\n")),
        }
        Ok(true)
    }

    /// Adds a line unless the file has one that says the same. Tells whether it did.
    pub fn add(&mut self, gres: &Gres) -> bool {
        let present = self.entries().any(|entry| {
            entry.len() == gres.options.len() && entry.iter().all(|(key, value)| gres.get(key) == Some(*value))
        });
        if !present {
            self.put(None, &format!("{gres}\n"));
        }
        !present
    }

    /// Replaces a line, or adds one at the end. The text is made of checked pairs and of what was read before.
    fn put(&mut self, position: Option<usize>, text: &str) {
        let read = lexer::next_line(text, 1);
        debug_assert!(read.is_ok(), "invariant: an edited line can be read: {:?}", excerpt(text));
        let Ok((line, _)) = read else { return };
        match position {
            Some(position) => self.lines[position] = line,
            None => {
                if let Some(last) = self.lines.last_mut() {
                    last.end();
                }
                self.lines.push(line);
            }
        }
    }
}

impl fmt::Display for GresConf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| formatter.write_str(&line.raw))
    }
}

/// A line that holds for every node: `AutoDetect=…` and nothing else.
fn is_autodetect(line: &Line) -> bool {
    matches!(line.pairs(), [only] if line.key(only).eq_ignore_ascii_case(AUTODETECT))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str =
        "# devices\nautodetect=nvidia # all\nNodeName=n[1-2] AutoDetect=off\nName=gpu File=/dev/nvidia0";

    #[test]
    fn only_the_line_for_every_node_is_edited() {
        let mut conf = GresConf::parse(SAMPLE).unwrap();
        assert_eq!(conf.autodetect(), Some("nvidia"));
        assert_eq!(conf.set_autodetect("nvml"), Ok(true));
        assert_eq!(conf.set_autodetect("nvml"), Ok(false));
        assert_eq!(conf.render(), SAMPLE.replace("autodetect=nvidia", "AutoDetect=nvml"));
        let mut empty = GresConf::new();
        assert_eq!(empty.set_autodetect("nvidia"), Ok(true));
        assert_eq!(empty.to_string(), "AutoDetect=nvidia\n");
    }

    #[test]
    fn a_line_is_added_once() {
        let mut conf = GresConf::parse(SAMPLE).unwrap();
        let gres = Gres::from_config("file=/dev/nvidia1 name=gpu").unwrap();
        assert!(conf.add(&gres) && !conf.add(&gres));
        assert!(!conf.add(&Gres::from_config("Name=gpu File=/dev/nvidia0").unwrap()));
        assert_eq!(conf.render(), format!("{SAMPLE}\nFile=/dev/nvidia1 Name=gpu\n"));
        assert_eq!(conf.entries().count(), 4);
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for text in [
            "File=/dev/nvidia0",
            "Name=gpu Name=gpu",
            "Name=gpu PartitionName=x",
            "Name=gpu New=\"a b\"",
            "Name=gpu New=1 new=2",
            "Name=gpu File=dev/x",
            "Name=gpu Count=x",
            "Name=gpu Count=2KK",
            "Name=\"g pu\"",
            "Name=gpu\nName=x",
            "Include /etc/passwd",
            "",
        ] {
            assert!(Gres::from_config(text).is_err(), "{text:?}");
        }
        assert!(GresConf::new().set_autodetect("nvml\nName=x").is_err());
    }

    #[test]
    fn a_key_of_a_newer_slurm_is_kept() {
        let gres = Gres::from_config("Name=gpu Typ=x").unwrap();
        assert_eq!(gres.to_string(), "Name=gpu typ=x");
        let found: Vec<_> = gres.unknown().map(|unknown| (unknown.key, unknown.nearest)).collect();
        assert_eq!(found, [("typ", Some("Type"))]);
    }
}
