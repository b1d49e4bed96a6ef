//! Machines without units, the network they are in, keys for them, and what things were before.

use serde_json::{Map, Value, json};

use super::deploy::parse_base;
use crate::daemon::provision::add_machine;
use crate::daemon::{State, network_of};
use crate::model::Past;
use crate::names::UnitName;
use crate::wire::{Failure, Response};

const DEFAULT_BASE: (&str, &str) = ("ubuntu", "24.04");
/// The id that the space every machine is in has in each model.
const ALPHA: &str = "656b4a82-e28c-53d6-a014-f0dd53417eb6";

/// Ids of the new machines.
pub(super) fn add(state: &mut State, count: u32, base: Option<&str>) -> Response {
    if state.model.dying {
        return Err(Failure::new("model is no longer alive"));
    }
    let setting = state.model.setting("default-base");
    let setting = setting.as_ref().and_then(Value::as_str).filter(|text| !text.is_empty());
    let base = match base.or(setting) {
        Some(text) => parse_base(text)?,
        None => (DEFAULT_BASE.0.to_owned(), DEFAULT_BASE.1.to_owned()),
    };
    let mut ids = Vec::new();
    for _ in 0..count {
        let id = add_machine(&mut state.model, &base).map_err(|error| Failure::new(format!("{error:#}")))?;
        if let Some(machine) = state.model.machines.get_mut(&id) {
            machine.keep = true;
        }
        ids.push(id);
    }
    Ok(json!(ids))
}

pub(super) fn spaces(state: &State) -> Response {
    let (_, gateway) = network_of(&state.model).map_err(|error| Failure::new(format!("{error:#}")))?;
    let [a, b, c, _] = gateway.octets();
    let mut subnets = Map::new();
    for (subnet, kind) in
        [("127.0.0.0/8".to_owned(), "ipv4"), (format!("{a}.{b}.{c}.0/24"), "ipv4"), ("::1/128".to_owned(), "ipv6")]
    {
        subnets.insert(subnet, json!({"type": kind, "zones": [""]}));
    }
    Ok(json!({"spaces": [{"id": ALPHA, "name": "alpha", "subnets": subnets}]}))
}

/// The name of a key is what stands behind it.
fn comment(key: &str) -> &str {
    key.split_whitespace().nth(2).unwrap_or(key)
}

pub(super) fn keys(state: &State) -> Value {
    json!(state.model.ssh_keys)
}

pub(super) fn add_keys(state: &mut State, keys: Vec<String>) -> Response {
    let mut faults = Vec::new();
    for key in keys {
        let words = key.split_whitespace().count();
        if words < 2 {
            faults.push(format!("cannot add key \"{key}\": invalid ssh key: {key}"));
        } else if state.model.ssh_keys.contains(&key) {
            faults.push(format!("cannot add key \"{key}\": duplicate ssh key: {key}"));
        } else {
            state.model.ssh_keys.push(key);
        }
    }
    Ok(json!(faults))
}

pub(super) fn remove_keys(state: &mut State, ids: &[String]) -> Response {
    let mut faults = Vec::new();
    for id in ids {
        let before = state.model.ssh_keys.len();
        state.model.ssh_keys.retain(|key| comment(key) != id && key != id);
        if state.model.ssh_keys.len() == before {
            faults.push(format!("cannot remove key id \"{id}\": invalid ssh key: {id}"));
        }
    }
    Ok(json!(faults))
}

/// Earlier statuses of a unit, an application or a machine, oldest first.
pub(super) fn history(state: &State, entity: &str, kind: &str) -> Response {
    let unfit = |what: &str| Err(Failure::new(format!("\"{entity}\" is not a valid name for {what}")));
    let (kinds, known): (&[&str], bool) = match kind {
        "unit" | "workload" | "juju-unit" => {
            let Some(unit) = UnitName::parse(entity) else { return unfit(&format!("a {kind}")) };
            let kinds: &[&str] = match kind {
                "unit" => &["workload", "juju-unit"],
                "workload" => &["workload"],
                _ => &["juju-unit"],
            };
            (kinds, state.model.units.contains_key(&unit))
        }
        "application" => (&["application"], state.model.applications.contains_key(entity)),
        "machine" => (&["machine"], state.model.machines.contains_key(entity)),
        "juju-machine" => (&["juju-machine"], state.model.machines.contains_key(entity)),
        other => return Err(Failure { code: 2, ..Failure::new(format!("unexpected status type \"{other}\"")) }),
    };
    let past: Vec<&Past> = state
        .model
        .history
        .get(entity)
        .into_iter()
        .flatten()
        .filter(|past| known && kinds.contains(&past.kind.name()))
        .collect();
    if past.is_empty() {
        return Err(Failure::new("no status history available"));
    }
    Ok(past.into_iter().map(entry).collect())
}

fn entry(past: &Past) -> Value {
    let mut shown = Map::new();
    shown.insert("status".to_owned(), json!(past.status.name()));
    if !past.message.is_empty() {
        shown.insert("message".to_owned(), json!(past.message));
    }
    shown.insert("since".to_owned(), json!(past.since.rfc3339()));
    shown.insert("type".to_owned(), json!(past.kind.name()));
    Value::Object(shown)
}
