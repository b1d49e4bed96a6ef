//! `config-get`: the options of the charm as the operator set them.

use super::{ToolError, Tools};
use crate::name::SecretId;
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

    /// Returns an option of type float. Juju prints a whole one without its point.
    pub fn float(&self, option: &str) -> Option<f64> {
        self.0.get(option).and_then(Value::as_f64)
    }

    /// Returns an option of type secret. None if it is unset.
    pub fn secret(&self, option: &str) -> Option<SecretId> {
        self.string(option).parse().ok()
    }

    /// Returns an option of type int.
    pub fn integer(&self, option: &str) -> Option<i64> {
        self.0.get(option).and_then(Value::as_i64)
    }
}

impl FromIterator<(String, Value)> for Config {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl Tools {
    /// Reads all options.
    pub fn config_get(&self) -> Result<Config, ToolError> {
        let options: Option<BTreeMap<String, Value>> = self.ask_once("config-get", &[])?;
        Ok(Config(options.unwrap_or_default()))
    }
}
