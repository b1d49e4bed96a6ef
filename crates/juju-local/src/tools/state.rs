//! State of the unit, addresses, storage, and the tools for things that juju-local has none of (resources,
//! credentials).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::arguments::{map_from_file, pairs, relation};
use super::{Answer, Definition, Refusal, Scene, failed, usage};
use crate::charm::parse_additions;
use crate::flags::{Flag, Parsed, switch, value};
use crate::model::{Hook, Release, Running, Storage};

const FORMAT: &[Flag] = &[value(&["format"]), value(&["o", "output"])];
const LONGEST_VALUE: usize = 65_536;
const LONGEST_KEY: usize = 256;

pub fn definition(tool: &str) -> Option<Definition> {
    Some(match tool {
        "state-get" => {
            Definition::new(const { &[value(&["format"]), value(&["o", "output"]), switch(&["strict"])] }, state_get)
        }
        "state-set" => Definition::new(const { &[value(&["file"])] }, state_set),
        "state-delete" => Definition::new(&[], state_delete),
        "unit-get" => Definition::new(FORMAT, unit_get),
        "network-get" => Definition::new(
            const {
                &[
                    value(&["format"]),
                    value(&["o", "output"]),
                    value(&["r", "relation"]),
                    switch(&["bind-address"]),
                    switch(&["ingress-address"]),
                    switch(&["egress-subnets"]),
                    switch(&["primary-address"]),
                ]
            },
            network_get,
        ),
        "resource-get" => Definition::new(&[], resource_get),
        "credential-get" => Definition::new(FORMAT, credential_get),
        "storage-list" => Definition::new(FORMAT, storage_list),
        "storage-get" => {
            Definition::new(const { &[value(&["format"]), value(&["o", "output"]), value(&["s"])] }, storage_get)
        }
        "storage-add" => Definition::new(&[], storage_add),
        _ => return None,
    })
}

fn state_get(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    parsed.at_most(1)?;
    let state = scene.context.state(scene.model);
    let Some(key) = parsed.arguments.first().filter(|key| *key != "-") else {
        // No state at all is null in JSON, and an empty map for people.
        let json_wanted = parsed.get("format") == Some("json");
        return Ok(Answer::Value(if state.is_empty() && json_wanted { Value::Null } else { json!(state) }));
    };
    match state.get(key) {
        Some(value) => Ok(Answer::Value(json!(value))),
        None if parsed.has("strict") => failed(format!("\"{key}\" not found")),
        None => Ok(Answer::Nothing),
    }
}

fn state_set(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let given = pairs(&parsed.arguments)?;
    let mut values: BTreeMap<String, String> = match parsed.get("file") {
        Some(path) => map_from_file(scene, path)?,
        None => BTreeMap::new(),
    };
    values.extend(given);
    for (key, value) in &values {
        if value.len() > LONGEST_VALUE {
            return failed(format!("max allowed value length ({LONGEST_VALUE}) exceeded quota limit exceeded"));
        }
        if key.len() > LONGEST_KEY {
            return failed(format!("max allowed key length ({LONGEST_KEY}) exceeded quota limit exceeded"));
        }
    }
    scene.context.state_changes.extend(values.into_iter().map(|(key, value)| (key, Some(value))));
    Ok(Answer::Nothing)
}

fn state_delete(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    parsed.at_most(1)?;
    if let Some(key) = parsed.arguments.first() {
        scene.context.state_changes.insert(key.clone(), None);
    }
    Ok(Answer::Nothing)
}

fn own_address(scene: &Scene<'_>) -> Result<String, Refusal> {
    match scene.model.address_of(&scene.context.unit) {
        Some(address) => Ok(address),
        None => failed("no address"),
    }
}

fn unit_get(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let Some(setting) = parsed.arguments.first() else { return usage("no setting specified") };
    parsed.at_most(1)?;
    match setting.as_str() {
        "private-address" | "public-address" => Ok(Answer::Value(json!(own_address(scene)?))),
        other => usage(format!("unknown setting \"{other}\"")),
    }
}

fn network_get(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let Some(binding) = parsed.arguments.first() else { return usage("no arguments specified") };
    if parsed.get("r").is_some() {
        relation(scene, parsed)?;
    }
    parsed.at_most(1)?;
    let charm = scene.model.charm_of(scene.context.unit.application());
    let known = charm.is_some_and(|charm| {
        charm.endpoints().iter().any(|endpoint| endpoint.name == *binding)
            || charm.metadata.extra_bindings.contains(binding)
    });
    if !known {
        return failed(format!("no network config found for binding \"{binding}\""));
    }
    let address = own_address(scene)?;
    // 4.0.9 knows none.
    let egress = match scene.model.release {
        Release::V3 => json!([format!("{address}/32")]),
        Release::V4 => Value::Null,
    };
    let mut chosen = Map::new();
    if parsed.has("bind-address") || parsed.has("primary-address") {
        chosen.insert("bind-address".to_owned(), json!(address));
    }
    if parsed.has("egress-subnets") {
        chosen.insert("egress-subnets".to_owned(), egress.clone());
    }
    if parsed.has("ingress-address") {
        chosen.insert("ingress-address".to_owned(), json!(address));
    }
    Ok(Answer::Value(match chosen.len() {
        0 => whole_network(&address, egress),
        1 => chosen.values().next().cloned().unwrap_or_default(),
        _ => Value::Object(chosen),
    }))
}

/// What is empty is left out here, while it is null to those who ask for it alone.
fn whole_network(address: &str, egress: Value) -> Value {
    let network = address.rsplit_once('.').map_or(address, |(network, _)| network);
    let mut document = json!({
        "bind-addresses": [{
            "mac-address": "",
            "interface-name": "eth0",
            "addresses": [{"hostname": "", "value": address, "cidr": format!("{network}.0/24")}],
        }],
        "egress-subnets": egress,
        "ingress-addresses": [address],
    });
    if let Some(entries) = document.as_object_mut() {
        entries.retain(|_, value| !value.is_null());
    }
    document
}

fn resource_get(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let Some(name) = parsed.arguments.first() else { return usage("missing required resource name") };
    let uuid = &scene.model.uuid;
    let application = scene.model.entity_uuid(scene.context.unit.application());
    failed(format!(
        "could not download resource: HTTP request failed: Get https://controller/model/{uuid}/resources/{name}: \
         getting UUID of resource {name} for application {application}: resource not found"
    ))
}

fn credential_get(_: &mut Scene<'_>, _: &Parsed) -> Result<Answer, Refusal> {
    failed("cannot access cloud credentials: permission denied")
}

/// Storage of this unit.
fn own_storage<'a>(scene: &'a Scene<'_>) -> impl Iterator<Item = &'a Storage> {
    scene.model.storage.values().filter(|storage| storage.unit == scene.context.unit)
}

fn storage_list(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    parsed.at_most(1)?;
    let wanted = parsed.arguments.first().map(|name| format!("{name}/"));
    let fits = |id: &&String| wanted.as_ref().is_none_or(|prefix| id.starts_with(prefix));
    let ids: Vec<String> = own_storage(scene).map(|storage| &storage.id).filter(fits).cloned().collect();
    Ok(Answer::Value(json!(ids)))
}

fn storage_get(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let of_hook = match &scene.context.running {
        Running::Hook(Hook::StorageAttached(id) | Hook::StorageDetaching(id)) => Some(id.clone()),
        _ => None,
    };
    let Some(id) = parsed.get("s").map(str::to_owned).or(of_hook) else {
        return usage("no storage instance specified");
    };
    let Some(storage) = own_storage(scene).find(|storage| storage.id == id) else {
        return usage(format!("invalid value \"{id}\" for option -s: storage instance \"{id}\" not found"));
    };
    parsed.at_most(1)?;
    match parsed.arguments.first().map(String::as_str) {
        None => Ok(Answer::Value(json!({"kind": "filesystem", "location": storage.location}))),
        Some("kind") => Ok(Answer::Value(json!("filesystem"))),
        Some("location") => Ok(Answer::Value(json!(storage.location))),
        Some(other) => failed(format!("invalid storage attribute \"{other}\"")),
    }
}

fn storage_add(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    if parsed.arguments.is_empty() {
        return usage("storage add requires a storage directive");
    }
    for (name, count) in parse_additions(&parsed.arguments)? {
        let wanted = scene.context.storage_adds.entry(name).or_insert(0);
        *wanted = wanted.saturating_add(count);
    }
    Ok(Answer::Nothing)
}
