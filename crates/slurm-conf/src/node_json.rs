//! The JSON form of a node, as the other Slurm charms write it: lower-case keys, numbers as numbers, lists as arrays.

use crate::error::{OptionError, excerpt};
use crate::node::Node;
use serde_json::{Map, Value};

/// Keys that are arrays in JSON: the key here, its name there.
const LISTS: &[(&str, &str)] = &[("CpuSpecList", "cpuspeclist"), ("Feature", "features"), ("Gres", "gres")];
/// Keys with a fixed set of words, which JSON has in lower case.
const WORDS: &[&str] = &["CpuBind", "State"];
const NAME: &str = "nodename";

impl Node {
    /// Reads the JSON form. `nodename`, if there, is left to the caller: a node here has no name.
    ///
    /// ```
    /// let json = serde_json::json!({"nodename": "n1", "cpus": 4, "features": ["fast", "compute"]});
    /// let node = slurm_conf::Node::from_json(&json)?;
    /// assert_eq!(node.render(), "CPUs=4 Feature=fast,compute");
    /// assert_eq!(node.to_json(), serde_json::json!({"cpus": 4, "features": ["fast", "compute"]}));
    /// # Ok::<(), slurm_conf::OptionError>(())
    /// ```
    pub fn from_json(value: &Value) -> Result<Self, OptionError> {
        let members =
            value.as_object().ok_or(OptionError::Json { expected: "an object with the options of a node" })?;
        let mut node = Self::new();
        for (key, value) in members.iter().filter(|(key, _)| key.as_str() != NAME) {
            let text = match value {
                Value::Array(items) => {
                    items.iter().map(word).collect::<Option<Vec<String>>>().map(|words| words.join(","))
                }
                scalar => word(scalar),
            };
            let refused = || OptionError::Value {
                key: excerpt(key),
                value: excerpt(&value.to_string()),
                expected: "a text, a number or a list of them".to_owned(),
            };
            node.set(key, &text.ok_or_else(refused)?)?;
        }
        Ok(node)
    }

    /// Returns the JSON form, without a name.
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        for (key, value) in self.options() {
            let number = || Self::is_number(key).then(|| value.parse::<u64>().ok()).flatten().map(Value::from);
            let (name, json) = match LISTS.iter().find(|(list, _)| *list == key) {
                Some((_, name)) => ((*name).to_owned(), Value::from(items(key, value))),
                None if WORDS.contains(&key) => (key.to_ascii_lowercase(), Value::from(value.to_ascii_lowercase())),
                None => (key.to_ascii_lowercase(), number().unwrap_or_else(|| Value::from(value))),
            };
            members.insert(name, json);
        }
        Value::Object(members)
    }
}

/// Cuts a list at its commas. Processors are numbers there, as far as they are no ranges.
fn items(key: &str, value: &str) -> Vec<Value> {
    let words = value.split(',').filter(|word| !word.is_empty());
    words
        .map(|word| match word.parse::<u64>() {
            Ok(number) if key == "CpuSpecList" => Value::from(number),
            _ => Value::from(word),
        })
        .collect()
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_goes_both_ways() {
        let json = json!({
            "cpus": 8, "realmemory": 900, "cpuspeclist": [0, 4], "features": ["a", "b"], "gres": ["gpu:a100:2"],
            "state": "down", "reason": "to be tested", "nodeaddr": "10.0.0.1",
        });
        let node = Node::from_json(&json).unwrap();
        assert_eq!(node.to_json(), json);
        assert_eq!(Node::from_config(&node.render()).unwrap(), node);
        let written = Node::from_config("STATE=DRAIN CPUs=2").unwrap().to_json();
        assert_eq!(written, json!({"state": "drain", "cpus": 2}));
    }

    #[test]
    fn foreign_json_is_checked() {
        for value in [
            json!([]),
            json!({"cpus": -1}),
            json!({"cpus": 1.5}),
            json!({"cpus": null}),
            json!({"features": [["a"]]}),
            json!({"reason": "a\nNodeName=b"}),
            json!({"nodeaddr": "a CPUs=9"}),
            json!({"bogus": {"a": 1}}),
            json!({"bogus": "a CPUs=9"}),
            json!({"bo gus": 1}),
            json!({"partitionname": "a"}),
        ] {
            assert!(Node::from_json(&value).is_err(), "{value}");
        }
    }
}
