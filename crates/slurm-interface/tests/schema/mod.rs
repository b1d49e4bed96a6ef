//! Holds a value against a JSON schema: as much of the standard as the schemas in `interfaces/` use. A word that is not known here
//! fails, so that no rule of a schema is passed over in silence.

use regex::Regex;
use serde_json::Value;

/// Returns what a value has against it, each with the place in the value.
pub fn complaints(root: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(root, schema, value, "", &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let rules = schema.as_object().unwrap_or_else(|| panic!("{place}: a schema is an object"));
    for (word, rule) in rules {
        let fits = match word.as_str() {
            "$schema" | "$defs" | "title" | "description" => true,
            "$ref" => {
                let pointer =
                    rule.as_str().and_then(|text| text.strip_prefix('#')).expect("a reference into this file");
                let target = root.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is nowhere"));
                check(root, target, value, place, found);
                true
            }
            "type" => match rule {
                Value::Array(kinds) => kinds.iter().any(|kind| is_of(kind, value)),
                kind => is_of(kind, value),
            },
            "const" => rule == value,
            "enum" => rule.as_array().expect("a list of words").contains(value),
            "anyOf" => {
                let ways = rule.as_array().expect("a list of schemas");
                ways.iter().any(|way| complaints(root, way, value).is_empty())
            }
            "pattern" => {
                let pattern = Regex::new(rule.as_str().expect("a pattern")).expect("a pattern");
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().expect("a number")),
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().expect("a number")),
            "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= rule.as_u64().expect("a number")),
            "uniqueItems" => value
                .as_array()
                .is_none_or(|items| items.iter().enumerate().all(|(position, item)| !items[..position].contains(item))),
            "items" => {
                for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{place}/{number}"), found);
                }
                true
            }
            "required" => {
                let names = rule.as_array().expect("a list of names").iter().filter_map(Value::as_str);
                names.into_iter().all(|name| value.as_object().is_none_or(|members| members.contains_key(name)))
            }
            "properties" => {
                let described = rule.as_object().expect("schemas by name");
                for (name, member) in value.as_object().into_iter().flatten() {
                    if let Some(schema) = described.get(name) {
                        check(root, schema, member, &format!("{place}/{name}"), found);
                    }
                }
                true
            }
            "additionalProperties" => {
                let described = rules.get("properties").and_then(Value::as_object);
                for (name, member) in value.as_object().into_iter().flatten() {
                    match rule {
                        _ if described.is_some_and(|described| described.contains_key(name)) => {}
                        Value::Bool(true) => {}
                        Value::Bool(false) => found.push(format!("{place}/{name} has no place here")),
                        schema => check(root, schema, member, &format!("{place}/{name}"), found),
                    }
                }
                true
            }
            unknown => panic!("{place}: the word `{unknown}` is not known here"),
        };
        if !fits {
            found.push(format!("{place}: {value} does not fit {word} {rule}"));
        }
    }
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str() {
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        other => panic!("the type {other:?} is not known here"),
    }
}
