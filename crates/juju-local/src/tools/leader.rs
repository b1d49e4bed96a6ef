//! `leader-get` and `leader-set`, which only 3.6 has: settings that the leader writes at once and its fellows are told
//! of.

use serde_json::{Value, json};

use super::arguments::pairs;
use super::{Answer, Definition, Refusal, Scene, failed, usage};
use crate::flags::{Flag, Parsed, value};

const FORMAT: &[Flag] = &[value(&["format"]), value(&["o", "output"])];

pub fn definition(tool: &str) -> Option<Definition> {
    Some(match tool {
        "leader-get" => Definition::new(FORMAT, leader_get),
        "leader-set" => Definition::new(&[], leader_set),
        _ => return None,
    })
}

fn leader_get(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let key = parsed.arguments.first().filter(|key| *key != "-");
    if let Some(key) = key.filter(|key| key.contains('=')) {
        return usage(format!("invalid key \"{key}\""));
    }
    parsed.at_most(1)?;
    let application = scene.model.applications.get(scene.context.unit.application());
    let current = application.map(|application| application.leader_settings.clone()).unwrap_or_default();
    let settings = scene.context.leader_settings.get_or_insert(current);
    Ok(Answer::Value(match key {
        Some(key) => settings.get(key).map_or(Value::Null, |value| json!(value)),
        None => json!(settings),
    }))
}

/// Written at once, whatever becomes of the hook. An empty value deletes.
fn leader_set(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let given = pairs(&parsed.arguments)?;
    if !scene.context.leads(scene.model) {
        return failed("cannot write leadership settings: cannot write settings: not the leader");
    }
    scene.context.leader_settings = None;
    let Some(application) = scene.model.applications.get_mut(scene.context.unit.application()) else {
        return failed("cannot write leadership settings: cannot write settings: application not found");
    };
    let mut settings = application.leader_settings.clone();
    for (key, value) in given {
        match value.is_empty() {
            true => settings.remove(&key),
            false => settings.insert(key, value),
        };
    }
    if settings != application.leader_settings {
        application.leader_settings = settings;
        application.leader_settings_version += 1;
    }
    Ok(Answer::Nothing)
}
