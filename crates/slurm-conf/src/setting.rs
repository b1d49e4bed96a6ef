//! The plain keys of slurm.conf, cgroup.conf, slurmdbd.conf and of a node that are known here, and what each holds.
//!
//! The table serves messages: a known key can be told from a mistyped one, and a value from one that Slurm is sure to
//! refuse. It is not the judge of what is valid. A key that is not in it may belong to a newer Slurm, so it is a doubt,
//! never an error.

use std::sync::LazyLock;

/// A table: one key and its kind in a line.
pub(crate) type Table = LazyLock<Vec<Setting>>;

/// The plain keys of slurm.conf.
pub(crate) static SLURM: Table = LazyLock::new(|| Setting::table(include_str!("setting/keys.txt")));
/// The keys of cgroup.conf.
pub(crate) static CGROUP: Table = LazyLock::new(|| Setting::table(include_str!("setting/cgroup.txt")));
/// The keys of slurmdbd.conf.
pub(crate) static DBD: Table = LazyLock::new(|| Setting::table(include_str!("setting/dbd.txt")));
/// The keys of a node.
pub(crate) static NODE: Table = LazyLock::new(|| Setting::table(include_str!("setting/node.txt")));

/// What a plain key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// Text that is not looked into.
    Text,
    /// A whole number from 0 to the given one, or `UNLIMITED`.
    Number(u64),
    /// A share in percent, with or without a fraction.
    Percent,
    /// Yes or no.
    Boolean,
    /// How much a daemon writes into its log.
    Level,
    /// A key of earlier versions that Slurm now refuses to start with.
    Removed,
}

/// One plain key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The key as Slurm's manual writes it.
    pub name: &'static str,
    /// What it holds.
    pub kind: SettingKind,
}

/// Names of log levels; their place in this list may be written instead.
const LEVELS: [&str; 10] =
    ["quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5"];

impl Setting {
    fn table(text: &'static str) -> Vec<Self> {
        text.lines().filter_map(Self::read).collect()
    }

    /// Reads a line of the table. None: a comment.
    fn read(line: &'static str) -> Option<Self> {
        let (name, kind) = line.split_once(' ').filter(|(name, _)| *name != "#")?;
        let kind = match (kind, kind.parse()) {
            ("percent", _) => SettingKind::Percent,
            ("boolean", _) => SettingKind::Boolean,
            ("level", _) => SettingKind::Level,
            ("removed", _) => SettingKind::Removed,
            (_, Ok(largest)) => SettingKind::Number(largest),
            _ => SettingKind::Text,
        };
        Some(Self { name, kind })
    }

    /// Tells what Slurm would expect instead of `value`, if it is sure to refuse it.
    pub fn expected(&self, value: &str) -> Option<String> {
        match self.kind {
            SettingKind::Text => None,
            SettingKind::Number(largest) => {
                (!is_number(value, largest)).then(|| format!("a whole number from 0 to {largest}, or UNLIMITED"))
            }
            SettingKind::Percent => {
                let shaped = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                (!(shaped && value.parse::<f32>().is_ok())).then(|| "a number such as 98.5".to_owned())
            }
            SettingKind::Boolean => (!is_boolean(value)).then(|| "YES or NO".to_owned()),
            SettingKind::Level => {
                let named = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(value));
                let fits = named || (!value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()));
                (!fits).then(|| format!("one of {}", LEVELS.join(", ")))
            }
            SettingKind::Removed => Some("no such key: Slurm has removed it".to_owned()),
        }
    }
}

/// Tells whether Slurm reads `value` as a number of at most `largest`.
pub(crate) fn is_number(value: &str, largest: u64) -> bool {
    is_unlimited(value) || number(value).is_some_and(|number| number <= largest)
}

fn is_unlimited(value: &str) -> bool {
    ["UNLIMITED", "INFINITE"].iter().any(|word| word.eq_ignore_ascii_case(value))
}

/// Returns the number that Slurm takes a value for. No limit is the largest one.
pub(crate) fn number(value: &str) -> Option<u64> {
    if is_unlimited(value) {
        return Some(u64::MAX);
    }
    // Slurm reads numbers the way C does: with a sign, and to the base that the prefix tells.
    let unsigned = value.strip_prefix('+').unwrap_or(value);
    let (digits, base) = match unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if unsigned.starts_with('0') => (unsigned, 8),
        None => (unsigned, 10),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, base).ok()).flatten()
}

/// Tells whether Slurm reads `value` as yes or no.
pub(crate) fn is_boolean(value: &str) -> bool {
    ["yes", "no", "true", "false", "1", "0", "up", "down"].iter().any(|word| word.eq_ignore_ascii_case(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_each_key_once() {
        let names: Vec<String> = SLURM.iter().map(|setting| setting.name.to_ascii_lowercase()).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
        assert!(names.len() > 200);
    }

    #[test]
    fn a_value_that_slurm_refuses_is_known_beforehand() {
        for (key, value, fits) in [
            ("SlurmctldTimeout", "120", true),
            ("slurmctldtimeout", "65535", true),
            ("SlurmctldTimeout", "unlimited", true),
            ("SlurmctldTimeout", "65536", false),
            ("SlurmctldTimeout", "+0x7f", true),
            ("SlurmctldTimeout", "0x", false),
            ("SlurmctldTimeout", "++1", false),
            ("SlurmctldTimeout", "", false),
            ("SlurmctldTimeout", "-1", false),
            ("SlurmctldTimeout", "soon", false),
            ("DisableRootJobs", "Yes", true),
            ("DisableRootJobs", "maybe", false),
            ("SlurmctldDebug", "debug2", true),
            ("SlurmctldDebug", "3", true),
            ("SlurmctldDebug", "loud", false),
            ("SallocDefaultCommand", "srun", false),
            ("SchedulerParameters", "anything,at=all", true),
        ] {
            let mut known = SLURM.iter();
            let setting = known.find(|setting| setting.name.eq_ignore_ascii_case(key)).unwrap();
            assert_eq!(setting.expected(value).is_none(), fits, "{key}={value}");
        }
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        let cases = [("10000", Some(10_000)), ("+0x10", Some(16)), ("010", Some(8)), ("many", None)];
        for (text, expected) in cases.into_iter().chain([("unlimited", Some(u64::MAX))]) {
            assert_eq!(number(text), expected, "{text}");
        }
    }
}
