//! Tools of a running action.

use serde_json::{Map, Value, json};

use super::{Answer, Definition, Refusal, Scene, failed, usage};
use crate::charm::is_key;
use crate::clock::Moment;
use crate::flags::{Parsed, value};

const RESERVED: &[&str] = &["stdout", "stdout-encoding", "stderr", "stderr-encoding"];

pub fn definition(tool: &str) -> Option<Definition> {
    Some(match tool {
        "action-get" => Definition::new(const { &[value(&["format"]), value(&["o", "output"])] }, action_get),
        "action-set" => Definition::new(&[], action_set),
        "action-fail" => Definition::new(&[], action_fail),
        "action-log" => Definition::new(&[], action_log),
        _ => return None,
    })
}

fn task(scene: &Scene<'_>) -> Result<u64, Refusal> {
    match scene.context.task {
        Some(id) => Ok(id),
        None => failed("not running an action"),
    }
}

fn action_get(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    parsed.at_most(1)?;
    task(scene)?;
    let parameters = &scene.context.action.parameters;
    let Some(path) = parsed.arguments.first() else {
        return Ok(Answer::Value(if parameters.is_null() { json!({}) } else { parameters.clone() }));
    };
    let found = path.split('.').try_fold(parameters, |value, key| value.get(key));
    Ok(Answer::Value(found.cloned().unwrap_or(Value::Null)))
}

fn action_set(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let mut changes = Vec::new();
    for argument in &parsed.arguments {
        let Some((path, value)) = argument.split_once('=') else {
            return usage(format!("argument \"{argument}\" must be of the form key...=value"));
        };
        let keys: Vec<&str> = path.split('.').collect();
        for key in &keys {
            if RESERVED.contains(key) {
                return usage(format!("cannot set reserved action key \"{key}\""));
            }
            if !is_key(key) {
                return usage(format!(
                    "key \"{key}\" must start and end with lowercase alphanumeric, and contain only lowercase \
                     alphanumeric and hyphens"
                ));
            }
        }
        changes.push((keys, value));
    }
    task(scene)?;
    for (keys, value) in changes {
        insert(&mut scene.context.action.results, &keys, value);
    }
    Ok(Answer::Nothing)
}

/// Sets a nested value; whatever stands in its way is replaced.
fn insert(map: &mut Map<String, Value>, keys: &[&str], value: &str) {
    match keys {
        [] => {}
        [last] => {
            map.insert((*last).to_owned(), json!(value));
        }
        [first, rest @ ..] => {
            let inner = map.entry((*first).to_owned()).or_insert_with(|| json!({}));
            if !inner.is_object() {
                *inner = json!({});
            }
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

fn action_fail(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    const DEFAULT: &str = "action failed without reason given, check action for errors";
    parsed.at_most(1)?;
    task(scene)?;
    scene.context.action.failure = Some(parsed.arguments.first().cloned().unwrap_or_else(|| DEFAULT.to_owned()));
    Ok(Answer::Nothing)
}

fn action_log(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    if parsed.arguments.is_empty() {
        return usage("no message specified");
    }
    let id = task(scene)?;
    if let Some(task) = scene.model.tasks.get_mut(&id) {
        task.log.push((Moment::now(), parsed.arguments.join(" ")));
    }
    Ok(Answer::Nothing)
}
