//! Applications one by one: `show-application`, `expose`, `trust`, and constraints, which the model has too.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::daemon::State;
use crate::model::Model;
use crate::wire::{Failure, Response};

const ARCHITECTURE: &str = "amd64";

fn not_found(name: &str) -> Failure {
    Failure::new(format!("application \"{name}\" not found"))
}

/// Endpoint → space, for all endpoints and for those not named.
pub(super) fn bindings(model: &Model, name: &str) -> Map<String, Value> {
    let mut bindings = Map::from_iter([(String::new(), json!("alpha"))]);
    let endpoints = model.charm_of(name).map(|charm| charm.endpoints()).unwrap_or_default();
    bindings.extend(endpoints.into_iter().map(|endpoint| (endpoint.name, json!("alpha"))));
    bindings.sort_keys();
    bindings
}

pub(super) fn show(state: &State, name: &str) -> Response {
    let model = &state.model;
    let (Some(application), Some(charm)) = (model.applications.get(name), model.charm_of(name)) else {
        return Err(Failure::new(format!("application {name} not found")));
    };
    let principal = !charm.metadata.subordinate;
    let mut shown = Map::new();
    shown.insert("charm".to_owned(), json!(charm.metadata.name));
    shown.insert("base".to_owned(), json!(format!("{}@{}", application.base.0, application.base.1)));
    if principal {
        let constraints = with_architecture(&application.constraints);
        shown.insert("constraints".to_owned(), crate::constraints::document(&constraints));
    }
    shown.insert("principal".to_owned(), json!(principal));
    shown.insert("exposed".to_owned(), json!(application.exposed));
    shown.insert("remote".to_owned(), json!(false));
    shown.insert("life".to_owned(), json!(application.life.name()));
    shown.insert("endpoint-bindings".to_owned(), Value::Object(bindings(model, name)));
    Ok(json!({name: shown}))
}

pub(super) fn expose(state: &mut State, name: &str, exposed: bool) -> Response {
    let Some(application) = state.model.applications.get_mut(name) else {
        return Err(Failure::new(format!("getting application \"{name}\" not found")));
    };
    application.exposed = exposed;
    Ok(Value::Null)
}

/// A change of trust is told by config-changed, like an option's.
pub(super) fn trust(state: &mut State, name: &str, trusted: bool) -> Response {
    let Some(application) = state.model.applications.get_mut(name) else { return Err(not_found(name)) };
    if application.trusted != trusted {
        application.trusted = trusted;
        application.config_version += 1;
    }
    Ok(Value::Null)
}

fn with_architecture(constraints: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut constraints = constraints.clone();
    constraints.entry("arch".to_owned()).or_insert_with(|| ARCHITECTURE.to_owned());
    constraints
}

pub(super) fn constraints(state: &State, name: Option<&str>) -> Response {
    match name {
        None => Ok(json!(state.model.constraints)),
        Some(name) => match state.model.applications.get(name) {
            Some(application) => Ok(json!(with_architecture(&application.constraints))),
            None => Err(not_found(name)),
        },
    }
}

pub(super) fn set_constraints(state: &mut State, name: Option<&str>, new: BTreeMap<String, String>) -> Response {
    match name {
        None => state.model.constraints = new,
        Some(name) => match state.model.applications.get_mut(name) {
            Some(application) => application.constraints = new,
            None => return Err(not_found(name)),
        },
    }
    Ok(Value::Null)
}
