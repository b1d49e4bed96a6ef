//! `config.yaml`: options, their types, and how a text becomes a value of one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::metadata::yaml_value;
use crate::names::parse_secret_uri;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OptionType {
    String,
    Int,
    Float,
    Boolean,
    Secret,
}

impl OptionType {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "string" => OptionType::String,
            "int" | "integer" => OptionType::Int,
            "float" => OptionType::Float,
            "boolean" => OptionType::Boolean,
            "secret" => OptionType::Secret,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            OptionType::String => "string",
            OptionType::Int => "int",
            OptionType::Float => "float",
            OptionType::Boolean => "boolean",
            OptionType::Secret => "secret",
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConfigOption {
    pub kind: OptionType,
    pub default: Option<Value>,
    pub description: String,
}

impl ConfigOption {
    /// Turns the text of a command line into a value; the error is Juju's sentence.
    pub fn parse(&self, name: &str, text: &str) -> Result<Value, String> {
        let parsed = match self.kind {
            OptionType::String => Some(Value::from(text)),
            OptionType::Secret => {
                let check = if text.is_empty() { Ok(String::new()) } else { parse_secret_uri(text) };
                check.map_err(|error| format!("invalid secret URI for option \"{name}\": {error}"))?;
                Some(Value::from(text))
            }
            OptionType::Int => text.parse::<i64>().ok().map(Value::from),
            OptionType::Float => text.parse::<f64>().ok().and_then(shortest_number),
            OptionType::Boolean => match text {
                "true" | "True" | "TRUE" | "t" | "T" | "1" => Some(Value::from(true)),
                "false" | "False" | "FALSE" | "f" | "F" | "0" => Some(Value::from(false)),
                _ => None,
            },
        };
        parsed.ok_or_else(|| format!("option \"{name}\" expected {}, got {text:?}", self.kind.name()))
    }

    /// Checks a value that already has a type, as in the default or in a YAML file.
    fn check(&self, name: &str, value: &Value) -> Result<Value, String> {
        let fits = match (self.kind, value) {
            (OptionType::String | OptionType::Secret, Value::String(_)) | (OptionType::Boolean, Value::Bool(_)) => true,
            (OptionType::Int, Value::Number(number)) => number.is_i64(),
            (OptionType::Float, Value::Number(_)) => true,
            _ => false,
        };
        match fits {
            true => Ok(value.clone()),
            false => Err(format!("option \"{name}\" expected {}, got {value}", self.kind.name())),
        }
    }
}

/// Go's JSON writes 2.0 as 2.
fn shortest_number(float: f64) -> Option<Value> {
    #[expect(clippy::cast_possible_truncation, reason = "only whole numbers of modest size are cast")]
    if float.fract() == 0.0 && float.abs() < 1e15 {
        return Some(Value::from(float as i64));
    }
    Number::from_f64(float).map(Value::Number)
}

pub fn parse_options(text: &str) -> Result<BTreeMap<String, ConfigOption>, String> {
    let value = yaml_value(text)?;
    let Some(options) = value.get("options").and_then(Value::as_object) else {
        return Err("invalid config: empty configuration".to_owned());
    };
    let mut parsed = BTreeMap::new();
    for (name, body) in options {
        let type_name = body.get("type").and_then(Value::as_str).unwrap_or("string");
        let kind = OptionType::from_name(type_name)
            .ok_or_else(|| format!("invalid config: option \"{name}\" has unknown type \"{type_name}\""))?;
        let description = body.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut option = ConfigOption { kind, default: None, description };
        if let Some(default) = body.get("default").filter(|default| !default.is_null()) {
            option.default =
                Some(option.check(name, default).map_err(|error| format!("invalid config default: {error}"))?);
        }
        parsed.insert(name.clone(), option);
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(kind: OptionType) -> ConfigOption {
        ConfigOption { kind, default: None, description: String::new() }
    }

    #[test]
    fn text_becomes_a_value_of_the_options_type() {
        assert_eq!(option(OptionType::Int).parse("n", "4").unwrap(), Value::from(4));
        assert_eq!(option(OptionType::Float).parse("n", "2").unwrap(), Value::from(2));
        assert_eq!(option(OptionType::Boolean).parse("n", "True").unwrap(), Value::from(true));
    }

    #[test]
    fn a_wrong_value_is_refused_in_jujus_words() {
        assert_eq!(
            option(OptionType::Int).parse("number", "five").unwrap_err(),
            "option \"number\" expected int, got \"five\""
        );
        assert_eq!(
            option(OptionType::Boolean).parse("flag", "yes").unwrap_err(),
            "option \"flag\" expected boolean, got \"yes\""
        );
        assert_eq!(option(OptionType::Float).parse("r", "x").unwrap_err(), "option \"r\" expected float, got \"x\"");
    }

    #[test]
    fn a_secret_is_named_by_its_uri() {
        let secret = option(OptionType::Secret);
        assert!(secret.parse("key", "secret:d4u0000000000000000g").is_ok());
        assert!(secret.parse("key", "").is_ok());
        assert_eq!(
            secret.parse("key", "nonsense").unwrap_err(),
            "invalid secret URI for option \"key\": secret URI \"nonsense\" not valid"
        );
    }

    #[test]
    fn bad_files_are_refused_in_jujus_words() {
        assert_eq!(parse_options("other: 1").unwrap_err(), "invalid config: empty configuration");
        assert_eq!(
            parse_options("options: {x: {type: colour}}").unwrap_err(),
            "invalid config: option \"x\" has unknown type \"colour\""
        );
        assert_eq!(
            parse_options("options: {x: {type: int, default: many}}").unwrap_err(),
            "invalid config default: option \"x\" expected int, got \"many\""
        );
    }
}
