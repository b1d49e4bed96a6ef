//! The settings of a partition that a reconfigure can undo, and the words that set them again.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// One thing that can be set about a partition.
pub(super) struct Aspect {
    /// How `scontrol show` calls it: it prints one of these, or none. `scontrol update` takes it back in the same
    /// words.
    shown: Vec<&'static str>,
    /// Keys of slurm.conf that decide about it, beside those.
    also: Vec<&'static str>,
}

pub(super) static ASPECTS: LazyLock<Vec<Aspect>> = LazyLock::new(|| {
    let lines = include_str!("aspects.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(Aspect::read).collect()
});

/// Key and value, in Slurm's words.
type Value<'s> = (&'static str, &'s str);

impl Aspect {
    fn read(line: &'static str) -> Self {
        let (shown, also) = line.split_once('+').unwrap_or((line, ""));
        Self { shown: shown.split_whitespace().collect(), also: also.split_whitespace().collect() }
    }

    /// Returns the keys of slurm.conf that decide about it.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.shown.iter().chain(&self.also).copied()
    }

    /// Returns the setting that makes of `is` again what it was.
    pub(super) fn undo(
        &self,
        was: &BTreeMap<String, String>,
        is: &BTreeMap<String, String>,
    ) -> Option<(&'static str, String)> {
        let (was, is) = (self.value(was), self.value(is));
        if was == is {
            return None;
        }
        let (key, value) = match (was, is) {
            (Some(was), _) => was,
            (None, is) => is.and_then(|(key, _)| Some((key, nothing(key)?)))?,
        };
        Some((if key == "NodeSets" { "Nodes" } else { key }, value.to_owned()))
    }

    /// Returns what is set. None: nothing, in whatever words.
    fn value<'s>(&self, settings: &'s BTreeMap<String, String>) -> Option<Value<'s>> {
        let shown = |key: &'static str| Some((key, settings.get(&key.to_ascii_lowercase())?.as_str()));
        self.shown.iter().find_map(|key| shown(key)).filter(|(key, value)| match *value {
            "" | "(null)" | "N/A" => false,
            "ALL" => !key.starts_with("Allow"),
            "UNLIMITED" => !key.contains("MemPer"),
            _ => true,
        })
    }
}

/// The word for nothing. None: better left alone. Nodes may have come just now, and without accounting slurmctld dies
/// of a QoS.
fn nothing(key: &str) -> Option<&'static str> {
    match key {
        "NodeSets" | "Nodes" | "QoS" => None,
        "CpuBind" => Some("off"),
        key if key.starts_with("Allow") => Some("ALL"),
        key if key.contains("MemPer") => Some("0"),
        _ => Some(""),
    }
}
