//! `config-get`: the options of the charm as the operator set them.

use super::{Juju, ToolError};
use serde_json::Value;
use std::collections::BTreeMap;

/// All options that have a value. The view is that of the hook's start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config(BTreeMap<String, Value>);

impl Config {
    /// Returns an option of type string; an unset one is the empty string, which is how an operator unsets it.
    pub fn string(&self, option: &str) -> &str {
        self.0.get(option).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns an option of type boolean; an unset one is false.
    pub fn boolean(&self, option: &str) -> bool {
        self.0.get(option).and_then(Value::as_bool).unwrap_or_default()
    }
}

impl FromIterator<(String, Value)> for Config {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl Juju {
    /// Reads all options.
    pub fn config_get(&self) -> Result<Config, ToolError> {
        let options: Option<BTreeMap<String, Value>> = self.link.ask_once("config-get", &[])?;
        Ok(Config(options.unwrap_or_default()))
    }
}
