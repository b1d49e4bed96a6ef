//! Arguments that several tools share: `key=value` lists, relation ids, YAML files.

use std::collections::BTreeMap;

use super::{Refusal, Scene, failed, usage};
use crate::flags::Parsed;

/// The relation meant by `-r`, or by the hook.
pub fn relation(scene: &Scene<'_>, parsed: &Parsed) -> Result<u32, Refusal> {
    let Some(text) = parsed.get("r") else {
        return match &scene.context.relation {
            Some(relation) => Ok(relation.id),
            None => usage("no relation id specified"),
        };
    };
    let refuse = |why: &str| usage(format!("invalid value \"{text}\" for option -r: {why}"));
    let Ok(id) = text.rsplit(':').next().unwrap_or(text).parse::<u32>() else { return refuse("invalid relation id") };
    match scene.context.members.contains_key(&id) {
        true => Ok(id),
        false => refuse("relation not found"),
    }
}

/// `key=value` arguments; an empty value stands for itself.
pub fn pairs(arguments: &[String]) -> Result<BTreeMap<String, String>, Refusal> {
    let mut pairs = BTreeMap::new();
    for argument in arguments {
        let Some((key, value)) = argument.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return usage(format!("expected \"key=value\", got \"{argument}\""));
        };
        if pairs.insert(key.to_owned(), value.to_owned()).is_some() {
            return usage(format!("key \"{key}\" specified more than once"));
        }
    }
    Ok(pairs)
}

/// A YAML (or JSON) map of text from a file on the machine.
pub fn map_from_file(scene: &Scene<'_>, path: &str) -> Result<BTreeMap<String, String>, Refusal> {
    let bytes = scene.file(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let value: serde_yaml::Value = match serde_yaml::from_str(&text) {
        Ok(value) => value,
        Err(_) => return failed("yaml: line 1: did not find expected node content"),
    };
    match value {
        serde_yaml::Value::Null => Ok(BTreeMap::new()),
        serde_yaml::Value::Mapping(map) => {
            map.into_iter().map(|(key, value)| Ok((text_of(key)?, text_of(value)?))).collect()
        }
        serde_yaml::Value::Sequence(_) => {
            failed("yaml: unmarshal errors:\n  line 1: cannot unmarshal !!seq into map[string]string")
        }
        _ => failed("yaml: unmarshal errors:\n  line 1: cannot unmarshal !!str into map[string]string"),
    }
}

/// Scalars become text, as Go's decoder does it.
fn text_of(value: serde_yaml::Value) -> Result<String, Refusal> {
    match value {
        serde_yaml::Value::String(text) => Ok(text),
        serde_yaml::Value::Null => Ok(String::new()),
        serde_yaml::Value::Bool(flag) => Ok(flag.to_string()),
        serde_yaml::Value::Number(number) => Ok(number.to_string()),
        _ => failed("yaml: unmarshal errors:\n  line 1: cannot unmarshal !!map into string"),
    }
}
