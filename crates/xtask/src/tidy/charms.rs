//! What a charm's `charmcraft.yaml` must say before the store lists it, and so before it is merged.

use std::path::Path;

use anyhow::Result;
use serde_yaml::Value;

use super::Findings;
use crate::layout;
use crate::pack::{Charmcraft, LINKS};

const LONGEST_SUMMARY: usize = 78;

pub(super) fn check() -> Result<Findings> {
    let root = layout::root()?;
    let mut findings = Vec::new();
    let mut interfaces: Vec<(String, &str)> = Vec::new();
    let mut parts: Vec<String> = Vec::new();
    for directory in layout::charm_directories()? {
        let name = layout::file_name(&directory);
        let charm = match Charmcraft::read(&directory.join("charmcraft.yaml")) {
            Ok(charm) => charm,
            Err(error) => {
                findings.push(format!("{error:#}"));
                continue;
            }
        };
        let mut complaints = complaints(&charm, &name);
        complaints.extend(icon_complaint(&[directory.join("icon.svg"), root.join("charmcraft/icon.svg")]));
        findings.extend(complaints.into_iter().map(|complaint| format!("charms/{name}: {complaint}")));
        parts.push(serde_yaml::to_string(&charm.mapping("parts"))?.replace(&name, "NAME"));
        for role in ["provides", "requires"] {
            interfaces.extend(charm.mapping(role).values().filter_map(interface).map(|interface| (interface, role)));
        }
    }
    if parts.windows(2).any(|pair| pair[0] != pair[1]) {
        findings.push("the charms' `parts` differ in more than the charm's name".to_owned());
    }
    // An interface with both ends in this tree is ours, and so is its contract.
    for (interface, _) in interfaces.iter().filter(|(_, role)| *role == "provides") {
        let both = interfaces.contains(&(interface.clone(), "requires"));
        if both && !root.join("interfaces").join(interface).join("README.md").is_file() {
            findings.push(format!("interfaces/{interface}/README.md is missing: both ends of it are in this tree"));
        }
    }
    Ok(findings)
}

fn interface(endpoint: &Value) -> Option<String> {
    endpoint.get("interface").and_then(Value::as_str).map(str::to_owned)
}

fn complaints(charm: &Charmcraft, directory: &str) -> Findings {
    let mut found = Vec::new();
    for key in ["name", "title", "summary", "description"] {
        if charm.text(key).is_none_or(|text| text.trim().is_empty()) {
            found.push(format!("`{key}` is missing"));
        }
    }
    if charm.text("name").is_some_and(|name| name != directory) {
        found.push("`name` differs from the directory's".to_owned());
    }
    if charm.text("summary").is_some_and(|summary| summary.chars().count() > LONGEST_SUMMARY) {
        found.push(format!("`summary` is longer than {LONGEST_SUMMARY} characters"));
    }
    let links = charm.mapping("links");
    let absent = LINKS.iter().filter(|(link, _)| !links.contains_key(*link));
    found.extend(absent.map(|(link, _)| format!("`links` has no `{link}`")));
    for role in ["provides", "requires", "peers"] {
        for (endpoint, value) in named(&charm.mapping(role)) {
            found.extend(name_complaint("endpoint", &endpoint));
            if interface(value).is_none() {
                found.push(format!("endpoint `{endpoint}` names no `interface`"));
            }
            // Peers are there or not by themselves; nobody integrates them.
            if role != "peers" && value.get("optional").and_then(Value::as_bool).is_none() {
                found.push(format!("endpoint `{endpoint}` does not say whether it is `optional`"));
            }
        }
    }
    let options = charm.get("config").and_then(|config| config.get("options")).and_then(Value::as_mapping);
    for (option, value) in named(&options.cloned().unwrap_or_default()) {
        found.extend(name_complaint("option", &option));
        let absent = ["type", "description"].into_iter().filter(|key| value.get(*key).is_none());
        found.extend(absent.map(|key| format!("option `{option}` has no `{key}`")));
    }
    for (action, value) in named(&charm.mapping("actions")) {
        found.extend(name_complaint("action", &action));
        if value.get("description").is_none() {
            found.push(format!("action `{action}` has no `description`"));
        }
        if value.get("additionalProperties").and_then(Value::as_bool).is_none() {
            found.push(format!("action `{action}` does not say `additionalProperties`"));
        }
    }
    found
}

fn named(mapping: &serde_yaml::Mapping) -> impl Iterator<Item = (String, &Value)> {
    mapping.iter().map(|(name, value)| (name.as_str().unwrap_or_default().to_owned(), value))
}

fn name_complaint(kind: &str, name: &str) -> Option<String> {
    let fits = name.starts_with(|sign: char| sign.is_ascii_lowercase())
        && name.chars().all(|sign| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '-');
    (!fits).then(|| format!("{kind} `{name}` is not in lower case with hyphens"))
}

fn icon_complaint(candidates: &[impl AsRef<Path>]) -> Option<String> {
    let Some(icon) = candidates.iter().find_map(|path| std::fs::read_to_string(path).ok()) else {
        return Some("no icon.svg, neither its own nor charmcraft/icon.svg".to_owned());
    };
    let square = icon.contains("width=\"100\"") && icon.contains("height=\"100\"");
    (!square).then(|| "icon.svg is not 100 by 100".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
name: pond
title: Pond
summary: Water in a hole.
description: Water.
links: {documentation: a, issues: b, source: c, website: d, contact: e}
requires:
  river-bed: {interface: river, optional: true}
peers:
  pond: {interface: pond-peers}
config:
  options:
    how-deep: {type: int, description: How deep.}
actions:
  drain: {description: Empties it., additionalProperties: false}
";

    fn check(text: &str) -> Findings {
        complaints(&Charmcraft::parse(text).unwrap(), "pond")
    }

    #[test]
    fn a_complete_description_passes() {
        assert_eq!(check(GOOD), Findings::new());
    }

    #[test]
    fn each_gap_is_named() {
        let without = |gap: &str, by: &str, expected: &str| assert_eq!(check(&GOOD.replace(gap, by)), [expected]);
        without("title: Pond\n", "", "`title` is missing");
        without("name: pond\n", "name: lake\n", "`name` differs from the directory's");
        without(", contact: e", "", "`links` has no `contact`");
        without(", optional: true", "", "endpoint `river-bed` does not say whether it is `optional`");
        without("how-deep", "how_deep", "option `how_deep` is not in lower case with hyphens");
        without("type: int, ", "", "option `how-deep` has no `type`");
        without(", additionalProperties: false", "", "action `drain` does not say `additionalProperties`");
    }
}
