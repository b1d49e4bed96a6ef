//! `juju config` and `juju model-config`.

use serde_json::{Map, Value, json};

use super::deploy::parse_config;
use crate::daemon::State;
use crate::settings;
use crate::wire::{Failure, Response};

pub(super) fn show(state: &State, name: &str) -> Response {
    let (Some(application), Some(charm)) = (state.model.applications.get(name), state.model.charm_of(name)) else {
        return Err(Failure::new(format!("application {name} not found (not found)")));
    };
    let mut shown = Map::new();
    for (option, definition) in &charm.options {
        let mut entry = Map::new();
        if let Some(default) = &definition.default {
            entry.insert("default".to_owned(), default.clone());
        }
        entry.insert("description".to_owned(), json!(definition.description));
        let set = application.config.get(option);
        let source = match (set, &definition.default) {
            (Some(value), Some(default)) if value == default => "default",
            (Some(_), _) => "user",
            (None, Some(_)) => "default",
            (None, None) => "unset",
        };
        entry.insert("source".to_owned(), json!(source));
        entry.insert("type".to_owned(), json!(definition.kind.name()));
        if let Some(value) = set.or(definition.default.as_ref()) {
            entry.insert("value".to_owned(), value.clone());
        }
        shown.insert(option.clone(), Value::Object(entry));
    }
    let trust = json!({
        "default": false,
        "description": "Does this application have access to trusted credentials",
        "source": if application.trusted { "user" } else { "default" },
        "type": "bool",
        "value": application.trusted,
    });
    Ok(json!({
        "application": name,
        "application-config": {"trust": trust},
        "charm": charm.metadata.name,
        "settings": shown,
    }))
}

pub(super) fn set(state: &mut State, name: &str, set: &[(String, String)], reset: &[String]) -> Response {
    let Some(charm) = state.model.charm_of(name) else {
        return Err(Failure::new(format!("application {name} not found (not found)")));
    };
    let (trust, options): (Vec<_>, Vec<_>) = set.iter().cloned().partition(|(key, _)| key == "trust");
    let values = parse_config(charm, &options).map_err(|why| match why.starts_with("unknown option") {
        true => Failure::new(format!("invalid application config: {why}")),
        false => Failure::new(why),
    })?;
    let defaults = charm.options.clone();
    let Some(application) = state.model.applications.get_mut(name) else { return Ok(Value::Null) };
    let mut changed = false;
    for (_, text) in trust {
        let wanted = text == "true" || text == "True";
        changed |= application.trusted != wanted;
        application.trusted = wanted;
    }
    for (option, value) in values {
        let default = defaults.get(&option).and_then(|definition| definition.default.clone());
        let before = application.config.insert(option, value.clone()).or(default);
        changed |= before.as_ref() != Some(&value);
    }
    // A reset alone tells no unit; the next change brings it along.
    for option in reset {
        application.config.remove(option);
        if option == "trust" {
            application.trusted = false;
        }
    }
    if changed {
        application.config_version += 1;
    }
    Ok(Value::Null)
}

pub(super) fn show_model(state: &State) -> Value {
    let mut shown = Map::new();
    for (key, default) in settings::all() {
        let (value, source) = match state.model.config.get(key) {
            Some(value) => (value.clone(), "model"),
            None => (default, "default"),
        };
        shown.insert(key.to_owned(), json!({"Value": value, "Source": source}));
    }
    shown.insert("agent-version".to_owned(), json!({"Value": state.model.version, "Source": "model"}));
    for (key, value) in state.model.config.iter().filter(|(key, _)| settings::default(key).is_none()) {
        shown.insert(key.clone(), json!({"Value": value, "Source": "model"}));
    }
    shown.sort_keys();
    Value::Object(shown)
}

pub(super) fn set_model(state: &mut State, set: &[(String, String)], reset: &[String]) -> Response {
    let mut warnings = Vec::new();
    let mut values = Vec::new();
    for (key, text) in set {
        values.push((key.clone(), settings::parse(key, text).map_err(Failure::new)?));
        if settings::default(key).is_none() && key != "name" {
            warnings.push(format!(
                "WARNING key \"{key}\" is not defined in the current model configuration: possible misspelling"
            ));
        }
    }
    state.model.config.extend(values.into_iter().filter(|(key, _)| key != "name"));
    for key in reset {
        state.model.config.remove(key);
    }
    Ok(json!({"warnings": warnings}))
}
