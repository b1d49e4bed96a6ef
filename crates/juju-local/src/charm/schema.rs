//! `actions.yaml`: action definitions, and the part of JSON Schema that Juju checks parameters with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::metadata::yaml_value;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Action {
    pub description: String,
    pub parallel: bool,
    pub execution_group: String,
    /// The whole schema, as `juju actions --schema` shows it.
    pub schema: Value,
}

/// Keys of an action that are not part of its schema.
const OWN_KEYS: &[&str] = &["description", "parallel", "execution-group", "params"];
const TYPES: &[&str] = &["array", "boolean", "integer", "number", "null", "object", "string"];

pub fn parse_actions(text: &str) -> Result<BTreeMap<String, Action>, String> {
    let value = yaml_value(text)?;
    let mut actions = BTreeMap::new();
    for (name, body) in value.as_object().into_iter().flatten() {
        check_name(name)?;
        actions.insert(name.clone(), parse_action(name, body)?);
    }
    Ok(actions)
}

fn check_name(name: &str) -> Result<(), String> {
    if name == "juju" {
        return Err("cannot use action name juju: \"juju\" is a reserved name".to_owned());
    }
    if name.starts_with("juju-") {
        return Err(format!("cannot use action name {name}: the \"juju-\" prefix is reserved"));
    }
    if !is_key(name) {
        return Err(format!("bad action name {name}"));
    }
    Ok(())
}

/// The pattern of action names, and of each part of a result's key.
pub fn is_key(text: &str) -> bool {
    let edge = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|letter| edge(letter) || letter == '-')
}

fn parse_action(name: &str, body: &Value) -> Result<Action, String> {
    let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let description = match body.get("description").and_then(Value::as_str) {
        Some(given) => given.to_owned(),
        None => "No description".to_owned(),
    };
    let properties = match body.get("params") {
        None | Some(Value::Null) => json!({}),
        Some(map @ Value::Object(_)) => map.clone(),
        Some(_) => return Err("params failed to parse as a map".to_owned()),
    };
    let mut schema = Map::new();
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema.insert("description".to_owned(), json!(description));
    for (key, value) in body.as_object().into_iter().flatten() {
        if !OWN_KEYS.contains(&key.as_str()) {
            schema.insert(key.clone(), value.clone());
        }
    }
    schema.insert("properties".to_owned(), properties);
    schema.insert("title".to_owned(), json!(name));
    schema.insert("type".to_owned(), json!("object"));
    let schema = Value::Object(schema);
    check_schema(&schema).map_err(|error| format!("invalid params schema for action schema {name}: {error}"))?;
    Ok(Action {
        description,
        parallel: body.get("parallel").and_then(Value::as_bool).unwrap_or(false),
        execution_group: text("execution-group"),
        schema,
    })
}

fn check_schema(schema: &Value) -> Result<(), String> {
    if let Some(kind) = schema.get("type").and_then(Value::as_str)
        && !TYPES.contains(&kind)
    {
        return Err(format!("{kind} is not a valid type"));
    }
    for inner in schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::values) {
        check_schema(inner)?;
    }
    Ok(())
}

/// Fills in the defaults of the schema, also those of nested objects.
pub fn insert_defaults(schema: &Value, parameters: &mut Map<String, Value>) {
    for (name, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some(default) = inner.get("default")
            && !parameters.contains_key(name)
        {
            parameters.insert(name.clone(), default.clone());
        }
        let nested_default = inner
            .get("properties")
            .and_then(Value::as_object)
            .is_some_and(|nested| nested.values().any(|value| value.get("default").is_some()));
        if nested_default {
            let entry = parameters.entry(name.clone()).or_insert_with(|| json!({}));
            if let Value::Object(map) = entry {
                insert_defaults(inner, map);
            }
        }
    }
}

/// Checks parameters; the error lists all violations in Juju's words.
pub fn validate(schema: &Value, parameters: &Value) -> Result<(), String> {
    let mut faults = Vec::new();
    check_value(schema, parameters, "(root)", &mut faults);
    match faults.is_empty() {
        true => Ok(()),
        false => Err(format!("validation failed: {}", faults.join("; "))),
    }
}

fn check_value(schema: &Value, value: &Value, path: &str, faults: &mut Vec<String>) {
    let mut fault = |text: String| faults.push(format!("{path} : {text}, given {value}"));
    if let Some(kind) = schema.get("type").and_then(Value::as_str)
        && !has_type(value, kind)
    {
        fault(format!("must be of type {kind}"));
        return;
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let listed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        fault(format!("must match one of the enum values [{}]", listed.join(",")));
    }
    check_bounds(schema, value, &mut fault);
    let Value::Object(map) = value else { return };
    let properties = schema.get("properties").and_then(Value::as_object);
    for required in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(required) {
            fault(format!("\"{required}\" property is missing and required"));
        }
    }
    if schema.get("additionalProperties") == Some(&json!(false)) {
        for name in map.keys().filter(|name| !properties.is_some_and(|known| known.contains_key(*name))) {
            fault(format!("additional property \"{name}\" is not allowed"));
        }
    }
    let mut properties: Vec<(&String, &Value)> = properties.into_iter().flatten().collect();
    properties.sort_by_key(|(name, _)| *name);
    for (name, inner) in properties {
        if let Some(value) = map.get(name) {
            check_value(inner, value, &format!("{path}.{name}"), faults);
        }
    }
}

fn check_bounds(schema: &Value, value: &Value, fault: &mut impl FnMut(String)) {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    if let Some(number) = value.as_f64() {
        if bound("minimum").is_some_and(|least| number < least) {
            fault(format!("must be greater than or equal to {}", schema["minimum"]));
        }
        if bound("maximum").is_some_and(|most| number > most) {
            fault(format!("must be less than or equal to {}", schema["maximum"]));
        }
    }
}

fn has_type(value: &Value, kind: &str) -> bool {
    match kind {
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "null" => value.is_null(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> Action {
        let text = "params:\n  description: d\n  params:\n    size: {type: integer, default: 4}\n    mode: {type: \
            string, enum: [a, b]}\n    \
                    deep: {type: object, properties: {inner: {type: string, default: filled}}}\n  required: [mode]\n";
        parse_actions(text).unwrap().remove("params").unwrap()
    }

    #[track_caller]
    fn check(given: Value, expected: &str) {
        assert_eq!(validate(&params().schema, &given).unwrap_err(), format!("validation failed: {expected}"));
    }

    #[test]
    fn wrong_parameters_are_refused_in_jujus_words() {
        check(json!({}), "(root) : \"mode\" property is missing and required, given {}");
        check(json!({"mode": "c"}), "(root).mode : must match one of the enum values [\"a\",\"b\"], given \"c\"");
        check(json!({"mode": "a", "size": "large"}), "(root).size : must be of type integer, given \"large\"");
        check(
            json!({"mode": "a", "size": "5", "deep": "map[inner:x]"}),
            "(root).deep : must be of type object, given \"map[inner:x]\"; (root).size : must be of type integer, \
             given \"5\"",
        );
        check(json!({"mode": "a", "size": 1.5}), "(root).size : must be of type integer, given 1.5");
        check(
            json!({"mode": "a", "nosuch": 1}),
            "(root) : additional property \"nosuch\" is not allowed, given {\"mode\":\"a\",\"nosuch\":1}",
        );
    }

    #[test]
    fn defaults_are_filled_in_also_inside() {
        let mut given = Map::from_iter([("mode".to_owned(), json!("a"))]);
        insert_defaults(&params().schema, &mut given);
        assert_eq!(Value::Object(given), json!({"mode": "a", "size": 4, "deep": {"inner": "filled"}}));
    }

    #[test]
    fn bad_definitions_are_refused_in_jujus_words() {
        assert_eq!(parse_actions("Bad_Name: {}").unwrap_err(), "bad action name Bad_Name");
        assert_eq!(
            parse_actions("juju-x: {}").unwrap_err(),
            "cannot use action name juju-x: the \"juju-\" prefix is reserved"
        );
        assert_eq!(parse_actions("x: {params: [a]}").unwrap_err(), "params failed to parse as a map");
        assert_eq!(
            parse_actions("x: {params: {y: {type: colour}}}").unwrap_err(),
            "invalid params schema for action schema x: colour is not a valid type"
        );
    }
}
