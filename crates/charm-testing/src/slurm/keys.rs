//! The keys of `auth/slurm` as a daemon has them in memory: all of them verify, the default one signs.

use crate::store::within;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Keys {
    /// By their id.
    all: BTreeMap<String, String>,
    signs: String,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Keys(..)")
    }
}

impl Keys {
    /// Reads the keys of a machine. `slurm.jwks` wins over `slurm.key`. None: there are none, or they cannot be read.
    pub(super) fn read(root: &Path) -> Option<Self> {
        let text = match fs::read_to_string(within(root, "/etc/slurm/slurm.jwks")) {
            Ok(text) => text,
            Err(_) => {
                let key = fs::read(within(root, "/etc/slurm/slurm.key")).ok()?;
                let key = String::from_utf8_lossy(&key).into_owned();
                return Some(Self { all: [(String::new(), key)].into(), signs: String::new() });
            }
        };
        let document: Value = serde_json::from_str(&text).ok()?;
        let word = |entry: &Value, key: &str| entry[key].as_str().map(str::to_owned);
        let entries = document["keys"].as_array()?;
        let all: BTreeMap<String, String> =
            entries.iter().filter_map(|entry| Some((word(entry, "kid")?, word(entry, "k")?))).collect();
        let default = entries.iter().find(|entry| entry["use"] == "default").or_else(|| entries.first())?;
        Some(Self { signs: word(default, "kid")?, all })
    }

    /// Says whether whoever has `other` understands what these keys sign.
    pub(super) fn convince(&self, other: &Self) -> bool {
        self.all.get(&self.signs).is_some_and(|key| other.all.get(&self.signs) == Some(key))
    }
}
