//! What a charm declares about itself, as far as the made-up model has to hold it to it.

use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the names that a `charmcraft.yaml` has below a path of keys.
pub fn declared(charmcraft: &str, path: &[&str]) -> BTreeSet<String> {
    let mut value: &serde_yaml::Value = &serde_yaml::from_str(charmcraft).expect("YAML");
    for key in path {
        match value.get(key) {
            Some(inner) => value = inner,
            None => return BTreeSet::new(),
        }
    }
    let names = value.as_mapping().into_iter().flat_map(serde_yaml::Mapping::keys);
    names.map(|name| name.as_str().expect("a name").to_owned()).collect()
}

/// The parts of a `charmcraft.yaml` that a model knows.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Metadata {
    #[serde(default)]
    pub(crate) provides: BTreeMap<String, Endpoint>,
    #[serde(default)]
    pub(crate) requires: BTreeMap<String, Endpoint>,
    #[serde(default)]
    pub(crate) peers: BTreeMap<String, Endpoint>,
    #[serde(default)]
    config: Config,
    #[serde(default)]
    pub(crate) actions: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Endpoint {
    pub(crate) interface: String,
    #[serde(default)]
    scope: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Config {
    #[serde(default)]
    options: BTreeMap<String, ConfigOption>,
}

#[derive(Debug, Clone, Deserialize)]
struct ConfigOption {
    #[serde(rename = "type", default)]
    kind: String,
    default: Option<Value>,
}

impl Metadata {
    pub(crate) fn parse(text: &str) -> Result<Self, serde_yaml::Error> {
        serde_yaml::from_str(text)
    }

    /// The options that have a value before anybody sets one.
    pub(crate) fn defaults(&self) -> BTreeMap<String, Value> {
        let options = self.config.options.iter();
        options.filter_map(|(name, option)| Some((name.clone(), option.default.clone()?))).collect()
    }

    /// Returns what Juju would say about setting an option, if it would refuse.
    pub(crate) fn objection(&self, option: &str, value: &Value) -> Option<String> {
        let Some(declared) = self.config.options.get(option) else {
            return Some(format!("unknown option \"{option}\""));
        };
        let fits = match declared.kind.as_str() {
            "boolean" => value.is_boolean(),
            "int" | "integer" => value.is_i64(),
            "float" => value.is_number(),
            _ => value.is_string(),
        };
        (!fits).then(|| format!("option \"{option}\" expected {}, got {value}", declared.kind))
    }

    /// Says whether an endpoint is for units on the same machine.
    pub(crate) fn is_local(&self, endpoint: &str) -> bool {
        let found = self.provides.get(endpoint).or_else(|| self.requires.get(endpoint));
        found.is_some_and(|end| end.scope == "container")
    }

    /// Returns the interface of an endpoint and whether it provides it.
    pub(crate) fn interface(&self, endpoint: &str) -> Option<(&str, bool)> {
        let provided = self.provides.get(endpoint).map(|end| (end.interface.as_str(), true));
        provided.or_else(|| self.requires.get(endpoint).map(|end| (end.interface.as_str(), false)))
    }
}
