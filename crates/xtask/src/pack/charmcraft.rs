//! `charmcraft.yaml` and the files that charmcraft makes of it: metadata.yaml, manifest.yaml, config.yaml,
//! actions.yaml.
//!
//! Only what Juju reads is carried over. The manifest names neither a charmcraft version nor a time of build, since no
//! charmcraft ran and the bytes must not depend on when.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_yaml::{Mapping, Value};

use super::archive::Entry;

/// Keys that go into metadata.yaml under their own name, in this order.
const METADATA_KEYS: &[&str] = &[
    "name",
    "summary",
    "description",
    "subordinate",
    "assumes",
    "charm-user",
    "containers",
    "devices",
    "extra-bindings",
    "peers",
    "provides",
    "requires",
    "resources",
    "storage",
    "terms",
];

/// Keys of `links`, and what metadata.yaml calls them.
pub(crate) const LINKS: &[(&str, &str)] = &[
    ("documentation", "docs"),
    ("issues", "issues"),
    ("source", "source"),
    ("website", "website"),
    ("contact", "maintainers"),
];

/// The content of one charmcraft.yaml.
pub(crate) struct Charmcraft(Mapping);

impl Charmcraft {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        match serde_yaml::from_str(text)? {
            Value::Mapping(mapping) => Ok(Self(mapping)),
            _ => bail!("the top level is not a mapping"),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    /// Returns a mapping, empty when the key is absent.
    pub(crate) fn mapping(&self, key: &str) -> Mapping {
        self.get(key).and_then(Value::as_mapping).cloned().unwrap_or_default()
    }

    /// Returns the YAML files of the charm.
    pub(super) fn files(&self) -> Result<Vec<Entry>> {
        let mut files = vec![
            Entry::file("metadata.yaml", serde_yaml::to_string(&self.metadata()?)?),
            Entry::file("manifest.yaml", serde_yaml::to_string(&self.manifest()?)?),
        ];
        for (key, name) in [("config", "config.yaml"), ("actions", "actions.yaml")] {
            if let Some(content) = self.get(key) {
                files.push(Entry::file(name, serde_yaml::to_string(content)?));
            }
        }
        Ok(files)
    }

    fn metadata(&self) -> Result<Mapping> {
        let mut metadata = Mapping::new();
        for required in ["name", "summary", "description"] {
            self.text(required).with_context(|| format!("`{required}` is missing or no text"))?;
        }
        for key in METADATA_KEYS {
            if let Some(value) = self.get(key) {
                metadata.insert((*key).into(), value.clone());
            }
        }
        if let Some(title) = self.get("title") {
            metadata.insert("display-name".into(), title.clone());
        }
        let links = self.mapping("links");
        for (link, name) in LINKS {
            match links.get(*link) {
                // Juju's metadata knows a list of maintainers only.
                Some(Value::String(one)) if *link == "contact" => {
                    metadata.insert((*name).into(), vec![Value::from(one.as_str())].into());
                }
                Some(value) => {
                    metadata.insert((*name).into(), value.clone());
                }
                None => {}
            }
        }
        Ok(metadata)
    }

    /// Returns the manifest: on which base and architecture the charm runs. Juju 4 refuses a charm without it.
    fn manifest(&self) -> Result<Mapping> {
        let base = self.text("base").context("`base` is missing (for example `base: ubuntu@24.04`)")?;
        let (name, channel) = base.split_once('@').with_context(|| format!("`base: {base}` is not NAME@CHANNEL"))?;
        let platforms = self.mapping("platforms");
        if !platforms.contains_key("amd64") {
            bail!("`platforms` does not name amd64, the only architecture that is built");
        }
        let mut entry = Mapping::new();
        entry.insert("name".into(), name.into());
        entry.insert("channel".into(), channel.into());
        entry.insert("architectures".into(), vec![Value::from("amd64")].into());
        let mut manifest = Mapping::new();
        manifest.insert("bases".into(), vec![Value::Mapping(entry)].into());
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "\
type: charm
name: pond
title: Pond
summary: Water in a hole.
description: |
  Water.
links:
  documentation: https://example.com/docs
  issues: https://example.com/issues
  source: [https://example.com/source]
  contact: someone@example.com
base: ubuntu@24.04
platforms:
  amd64:
parts:
  pond: {plugin: nil}
requires:
  river: {interface: river, optional: true}
config:
  options:
    depth: {type: int, default: 3, description: How deep.}
actions:
  drain: {description: Empties it., additionalProperties: false}
";

    fn file(charm: &str, name: &str) -> Option<String> {
        let files = Charmcraft::parse(charm).unwrap().files().unwrap();
        files.into_iter().find(|entry| entry.name == name).map(|entry| String::from_utf8(entry.content).unwrap())
    }

    #[test]
    fn metadata_carries_what_juju_reads_and_nothing_of_the_build() {
        let metadata: Value = serde_yaml::from_str(&file(EXAMPLE, "metadata.yaml").unwrap()).unwrap();
        assert_eq!(metadata["name"], "pond");
        assert_eq!(metadata["display-name"], "Pond");
        assert_eq!(metadata["docs"], "https://example.com/docs");
        assert_eq!(metadata["source"][0], "https://example.com/source");
        assert_eq!(metadata["maintainers"][0], "someone@example.com");
        assert_eq!(metadata["requires"]["river"]["interface"], "river");
        for absent in ["title", "links", "parts", "type", "platforms", "base", "config", "actions", "website"] {
            assert!(metadata.get(absent).is_none(), "{absent}");
        }
    }

    #[test]
    fn the_manifest_names_base_and_architecture() {
        assert_eq!(
            file(EXAMPLE, "manifest.yaml").unwrap(),
            "bases:\n- name: ubuntu\n  channel: '24.04'\n  architectures:\n  - amd64\n"
        );
    }

    #[test]
    fn options_and_actions_get_their_own_files() {
        let config: Value = serde_yaml::from_str(&file(EXAMPLE, "config.yaml").unwrap()).unwrap();
        assert_eq!(config["options"]["depth"]["default"], 3);
        let actions: Value = serde_yaml::from_str(&file(EXAMPLE, "actions.yaml").unwrap()).unwrap();
        assert_eq!(actions["drain"]["additionalProperties"], false);
    }

    #[test]
    fn a_charm_without_options_has_no_config_file() {
        // Juju takes a config.yaml without `options` for an error.
        let without = EXAMPLE.split("config:").next().unwrap();
        assert_eq!(file(without, "config.yaml"), None);
        assert_eq!(file(without, "actions.yaml"), None);
    }

    #[test]
    fn a_charm_without_base_or_architecture_is_refused() {
        let refused = |text: &str| Charmcraft::parse(text).unwrap().files().unwrap_err().to_string();
        assert!(refused(&EXAMPLE.replace("base: ubuntu@24.04\n", "")).contains("`base` is missing"));
        assert!(refused(&EXAMPLE.replace("  amd64:\n", "  arm64:\n")).contains("does not name amd64"));
        assert!(refused(&EXAMPLE.replace("summary: Water in a hole.\n", "")).contains("`summary`"));
    }
}
