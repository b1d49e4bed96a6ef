//! `assumes:` of `metadata.yaml`: what a charm asks of the Juju it runs on, and what is said if that is not there.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A version such as `3.6` or `4.0.9`: major, minor, patch.
type Version = [u32; 3];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Assumption {
    Feature { name: String, at_least: Option<Version>, below: Option<Version> },
    AnyOf(Vec<Assumption>),
    AllOf(Vec<Assumption>),
}

/// The list below `assumes:`; all of it has to hold.
pub fn parse_assumes(value: &Value) -> Result<Vec<Assumption>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.iter().map(parse_one).collect(),
        _ => Err("parsing \"assumes\" block: malformed expression".to_owned()),
    }
}

fn parse_one(value: &Value) -> Result<Assumption, String> {
    let malformed = || format!("parsing \"assumes\" block: malformed expression {value}");
    match value {
        Value::String(text) => parse_feature(text).ok_or_else(malformed),
        Value::Object(map) => match map.iter().next() {
            Some((key, inner)) if key == "any-of" => Ok(Assumption::AnyOf(parse_assumes(inner)?)),
            Some((key, inner)) if key == "all-of" => Ok(Assumption::AllOf(parse_assumes(inner)?)),
            _ => Err(malformed()),
        },
        _ => Err(malformed()),
    }
}

/// `feature`, `feature >= 1.2` or `feature < 1.2`.
fn parse_feature(text: &str) -> Option<Assumption> {
    let (name, at_least, below) = if let Some((name, version)) = text.split_once(">=") {
        (name, Some(parse_version(version)?), None)
    } else if let Some((name, version)) = text.split_once('<') {
        (name, None, Some(parse_version(version)?))
    } else {
        (text, None, None)
    };
    let name = name.trim();
    let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let valid = name.starts_with(|letter: char| letter.is_ascii_lowercase()) && name.chars().all(allowed);
    valid.then(|| Assumption::Feature { name: name.to_owned(), at_least, below })
}

fn parse_version(text: &str) -> Option<Version> {
    let mut version = [0; 3];
    let parts: Vec<&str> = text.trim().split('.').collect();
    if parts.len() > version.len() {
        return None;
    }
    for (place, part) in version.iter_mut().zip(parts) {
        *place = part.parse().ok()?;
    }
    Some(version)
}

/// What keeps a charm from a model of this version, as Juju lists it; nothing if all is there.
pub fn unmet(assumptions: &[Assumption], juju: &str) -> Option<String> {
    let faults: Vec<String> = assumptions.iter().filter_map(|one| fault(one, juju, 1)).collect();
    (!faults.is_empty()).then(|| format!("Charm cannot be deployed because:\n{}", faults.concat()))
}

/// A line, or several one step further in, each ended.
fn fault(assumption: &Assumption, juju: &str, depth: usize) -> Option<String> {
    let indent = "  ".repeat(depth);
    let (inner, title) = match assumption {
        Assumption::Feature { name, at_least, below } => {
            let text = feature_fault(name, *at_least, *below, juju)?;
            return Some(format!("{indent}- {text}\n"));
        }
        Assumption::AnyOf(inner) => (inner, "charm requires at least one of the following:"),
        Assumption::AllOf(inner) => (inner, "charm requires all of the following:"),
    };
    let faults: Vec<String> = inner.iter().filter_map(|one| fault(one, juju, depth + 1)).collect();
    let enough = matches!(assumption, Assumption::AnyOf(_)) && faults.len() < inner.len();
    (!faults.is_empty() && !enough).then(|| format!("{indent}- {title}\n{}", faults.concat()))
}

/// The only feature of a machine model is Juju itself.
fn feature_fault(name: &str, at_least: Option<Version>, below: Option<Version>, juju: &str) -> Option<String> {
    if name != "juju" {
        return Some(format!("charm requires feature \"{name}\" but model does not support it"));
    }
    let own = parse_version(juju).unwrap_or_default();
    let shown = |[major, minor, patch]: Version| format!("{major}.{minor}.{patch}");
    let wanted = match (at_least, below) {
        (Some(least), _) if own < least => format!(">= {}", shown(least)),
        (_, Some(limit)) if own >= limit => format!("< {}", shown(limit)),
        _ => return None,
    };
    Some(format!("charm requires Juju version {wanted}, model has version {juju}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(assumes: Value, expected: Option<&str>) {
        assert_eq!(unmet(&parse_assumes(&assumes).unwrap(), "4.0.9").as_deref(), expected);
    }

    #[test]
    fn what_is_there_is_not_mentioned() {
        check(json!(["juju >= 3.6", "juju < 5"]), None);
        check(json!([{"any-of": ["nosuch", "juju"]}]), None);
        check(Value::Null, None);
    }

    #[test]
    fn what_is_missing_is_listed_in_jujus_words() {
        check(
            json!(["juju >= 99.0", "nosuch"]),
            Some(
                "Charm cannot be deployed because:\n  - charm requires Juju version >= 99.0.0, model has version \
                 4.0.9\n  \
                 - charm requires feature \"nosuch\" but model does not support it\n",
            ),
        );
        check(
            json!([{"any-of": ["juju < 4", {"all-of": ["juju", "k8s-api"]}]}]),
            Some(
                "Charm cannot be deployed because:\n  - charm requires at least one of the following:\n    \
                 - charm requires Juju version < 4.0.0, model has version 4.0.9\n    - charm requires all of the \
                 following:\n      \
                 - charm requires feature \"k8s-api\" but model does not support it\n",
            ),
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for assumes in [json!("juju"), json!(["juju >= x"]), json!([{"none-of": []}]), json!([1]), json!(["Juju"])] {
            assert!(parse_assumes(&assumes).is_err(), "{assumes}");
        }
    }
}
