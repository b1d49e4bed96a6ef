//! Secret tools. Reading is recorded at once; every change waits for the commit.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::arguments::relation;
use super::{Answer, Definition, Refusal, Scene, failed, usage};
use crate::clock::Moment;
use crate::flags::{Flag, Parsed, switch, value};
use crate::hooks::PendingSecret;
use crate::model::{Owner, Release, new_secret_id, parse_secret_uri};

const CHANGE: &[Flag] = &[
    value(&["label"]),
    value(&["description"]),
    value(&["owner"]),
    value(&["rotate"]),
    value(&["expire"]),
    value(&["file"]),
];
const ACCESS: &[Flag] =
    &[value(&["r", "relation"]), value(&["unit"]), value(&["app", "application"]), value(&["revision"])];
const ROTATE: &[&str] = &["never", "hourly", "daily", "weekly", "monthly", "quarterly", "yearly"];

pub fn definition(tool: &str) -> Option<Definition> {
    Some(match tool {
        "secret-add" => Definition::new(CHANGE, secret_add),
        "secret-set" => Definition::new(CHANGE, secret_set),
        "secret-get" => Definition::yaml(
            const {
                &[
                    value(&["format"]),
                    value(&["o", "output"]),
                    value(&["label"]),
                    switch(&["peek"]),
                    switch(&["refresh"]),
                ]
            },
            secret_get,
        ),
        "secret-info-get" => Definition::yaml(
            const { &[value(&["format"]), value(&["o", "output"]), value(&["label"])] },
            secret_info_get,
        ),
        "secret-ids" => Definition::new(const { &[value(&["format"]), value(&["o", "output"])] }, secret_ids),
        "secret-grant" => Definition::new(ACCESS, secret_grant),
        "secret-revoke" => Definition::new(ACCESS, secret_revoke),
        "secret-remove" => Definition::new(ACCESS, secret_remove),
        _ => return None,
    })
}

/// Whether a key may stand in the content of a secret.
pub fn is_content_key(key: &str) -> bool {
    let well_formed = key.starts_with(|letter: char| letter.is_ascii_lowercase())
        && !key.ends_with('-')
        && !key.contains("--")
        && key.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-');
    well_formed && key.chars().filter(|letter| *letter != '-').count() >= 3
}

/// Content from `key=value`, `key#base64=`, `key#file=` and `--file`, as base64.
fn content(scene: &Scene<'_>, parsed: &Parsed, arguments: &[String]) -> Result<BTreeMap<String, String>, Refusal> {
    let mut content = BTreeMap::new();
    let mut put = |key: &str, value: Vec<u8>, encoded: bool| {
        if !is_content_key(key) {
            return usage(format!("key \"{key}\" not valid"));
        }
        let text = if encoded { String::from_utf8_lossy(&value).into_owned() } else { STANDARD.encode(value) };
        content.insert(key.to_owned(), text);
        Ok(())
    };
    for argument in arguments {
        let Some((key, value)) = argument.split_once('=').filter(|(_, value)| !value.is_empty()) else {
            return usage(format!("key value \"{argument}\" not valid"));
        };
        match key.split_once('#') {
            Some((key, "file")) => put(key, scene.file(value)?, false)?,
            Some((key, "base64")) => put(key, value.as_bytes().to_vec(), true)?,
            _ => put(key, value.as_bytes().to_vec(), false)?,
        }
    }
    if let Some(path) = parsed.get("file") {
        for (key, value) in super::arguments::map_from_file(scene, path)? {
            match key.split_once('#') {
                Some((key, "base64")) => put(key, value.into_bytes(), true)?,
                _ => put(&key, value.into_bytes(), false)?,
            }
        }
    }
    Ok(content)
}

/// A point in time, or a duration from now.
fn expiry(text: &str) -> Option<Moment> {
    if let Some(millis) = crate::settings::duration(text) {
        return Some(Moment::now().plus_millis(millis));
    }
    Moment::parse(text)
}

fn check_policies(parsed: &Parsed) -> Result<(), Refusal> {
    if let Some(policy) = parsed.get("rotate").filter(|policy| !ROTATE.contains(policy)) {
        return usage(format!("rotate policy \"{policy}\" not valid"));
    }
    if let Some(expire) = parsed.get("expire").filter(|text| expiry(text).is_none()) {
        return usage(format!("expire time or duration \"{expire}\" not valid"));
    }
    Ok(())
}

fn secret_add(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let unit_owned = match parsed.get("owner").unwrap_or("application") {
        "application" => false,
        "unit" => true,
        other => return usage(format!("secret owner \"{other}\" not valid")),
    };
    check_policies(parsed)?;
    if parsed.arguments.is_empty() && parsed.get("file").is_none() {
        return usage("missing secret value or filename");
    }
    let content = content(scene, parsed, &parsed.arguments)?;
    if !unit_owned && !scene.context.leads(scene.model) {
        return failed("this unit is not the leader");
    }
    let label = parsed.get("label").unwrap_or_default().to_owned();
    let same = |other: &PendingSecret| matches!(other, PendingSecret::Add { label: taken, .. } if *taken == label);
    if !label.is_empty() && scene.context.secrets.iter().any(same) {
        return failed(format!("secret with label \"{label}\" already exists"));
    }
    let id = new_secret_id().map_err(|error| Refusal::Failed(error.to_string()))?;
    let description = parsed.get("description").unwrap_or_default().to_owned();
    let expires = parsed.get("expire").and_then(expiry);
    let rotate = parsed.get("rotate").unwrap_or("never").to_owned();
    let fresh = PendingSecret::Add { id: id.clone(), unit_owned, label, description, content, expires, rotate };
    scene.context.secrets.push(fresh);
    Ok(Answer::Text(format!("{}\n", scene.model.secret_uri(&id))))
}

/// The id named by the first argument.
fn named(parsed: &Parsed) -> Result<String, Refusal> {
    match parsed.arguments.first() {
        Some(text) => Ok(parse_secret_uri(text)?),
        None => usage("missing secret URI"),
    }
}

/// 3.6 refuses at once what 4.x refuses only at the commit.
fn check_manager(scene: &Scene<'_>, id: &str) -> Result<(), Refusal> {
    match scene.model.release == Release::V3 && !manages(scene, id) {
        true => failed("this unit is not the leader"),
        false => Ok(()),
    }
}

fn secret_set(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let id = named(parsed)?;
    check_manager(scene, &id)?;
    check_policies(parsed)?;
    let arguments = &parsed.arguments[1..];
    let given = !arguments.is_empty() || parsed.get("file").is_some();
    let content = if given { Some(content(scene, parsed, arguments)?) } else { None };
    let label = parsed.get("label").map(str::to_owned);
    let description = parsed.get("description").map(str::to_owned);
    let expires = parsed.get("expire").and_then(expiry);
    let rotate = parsed.get("rotate").map(str::to_owned);
    scene.context.secrets.push(PendingSecret::Set { id, label, description, content, expires, rotate });
    Ok(Answer::Nothing)
}

/// Content of a secret that this hook adds, changes of this hook included.
fn pending_content(scene: &Scene<'_>, id: &str) -> Option<BTreeMap<String, String>> {
    let mut found = None;
    for change in &scene.context.secrets {
        match change {
            PendingSecret::Add { id: added, content, .. } if added == id => found = Some(content.clone()),
            PendingSecret::Set { id: changed, content: Some(content), .. } if changed == id && found.is_some() => {
                found = Some(content.clone());
            }
            _ => {}
        }
    }
    found
}

fn pending_by_label(scene: &Scene<'_>, label: &str) -> Option<String> {
    scene.context.secrets.iter().find_map(|change| match change {
        PendingSecret::Add { id, label: own, .. } if own == label => Some(id.clone()),
        _ => None,
    })
}

fn secret_get(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let (peek, refresh) = (parsed.has("peek"), parsed.has("refresh"));
    if parsed.arguments.is_empty() && parsed.get("label").is_none() {
        return usage("require either a secret URI or label");
    }
    if peek && refresh {
        return usage("specify one of --peek or --refresh but not both");
    }
    let uri = parsed.arguments.first().map(|text| parse_secret_uri(text)).transpose()?;
    parsed.at_most(2)?;
    let label = parsed.get("label");
    let unit = scene.context.unit.clone();
    let id = match (&uri, label) {
        (Some(id), _) => id.clone(),
        (None, Some(label)) => {
            let known = scene.model.secret_by_label(&unit, label).map(|secret| secret.id.clone());
            match pending_by_label(scene, label).or(known) {
                Some(id) => id,
                None => return failed(format!("secret URI for consumer label \"{label}\" not found")),
            }
        }
        (None, None) => return usage("require either a secret URI or label"),
    };
    let content = match pending_content(scene, &id) {
        Some(content) => content,
        None => read(scene, &id, uri.as_ref().and(label), peek, refresh)?,
    };
    let Some(key) = parsed.arguments.get(1) else {
        let decoded: Map<String, Value> =
            content.iter().map(|(key, value)| (key.clone(), json!(decode(value)))).collect();
        return Ok(Answer::Value(Value::Object(decoded)));
    };
    let (name, encoded) = match key.strip_suffix("#base64") {
        Some(name) => (name, true),
        None => (key.as_str(), false),
    };
    match content.get(name) {
        Some(value) if encoded => Ok(Answer::Text(format!("{value}\n"))),
        Some(value) => Ok(Answer::Text(format!("{}\n", decode(value)))),
        None => failed(format!("secret key value \"{name}\" not found")),
    }
}

fn decode(value: &str) -> String {
    String::from_utf8_lossy(&STANDARD.decode(value).unwrap_or_default()).into_owned()
}

/// Reads a committed secret and records who reads which revision; a label is kept even if reading is refused.
fn read(
    scene: &mut Scene<'_>,
    id: &str,
    label: Option<&str>,
    peek: bool,
    refresh: bool,
) -> Result<BTreeMap<String, String>, Refusal> {
    let unit = scene.context.unit.clone();
    let Some(secret) = scene.model.secrets.get(id) else {
        return failed("getting latest secret revision: secret not found");
    };
    let (allowed, manages) = (scene.model.may_read(&unit, secret), scene.model.may_manage(&unit, secret));
    let own = match &secret.owner {
        Owner::Application(application) => unit.application() == application,
        Owner::Unit(owner) => *owner == unit,
        Owner::Model => false,
    };
    let updated = scene.context.secrets.iter().rev().find_map(|change| match change {
        PendingSecret::Set { id: changed, content: Some(content), .. } if changed == id && (peek || refresh) => {
            Some(content.clone())
        }
        _ => None,
    });
    let Some(secret) = scene.model.secrets.get_mut(id) else { return failed("secret not found") };
    if let Some(label) = label {
        if own && manages {
            secret.label = label.to_owned();
        } else if !own {
            secret.consumers.entry(unit.clone()).or_default().label = label.to_owned();
        }
    }
    if !allowed {
        return match scene.model.release {
            Release::V3 => failed("permission denied"),
            Release::V4 => failed(format!("\"{unit}\" is not allowed to read this secret")),
        };
    }
    if let Some(content) = updated {
        return Ok(content);
    }
    let latest = secret.latest;
    let revision = if peek {
        latest
    } else {
        let consumer = secret.consumers.entry(unit).or_default();
        if consumer.tracked == 0 || refresh {
            consumer.tracked = latest;
            consumer.notified = latest;
        }
        consumer.tracked
    };
    // A secret is never without a key: one that is has lost its content.
    match secret.content(revision).filter(|content| !content.is_empty()) {
        Some(content) => Ok(content.clone()),
        None => failed(format!("secret value ref for \"secret:{id}\" revision {revision} not found")),
    }
}

fn secret_info_get(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let unit = scene.context.unit.clone();
    let id = match (parsed.arguments.first(), parsed.get("label")) {
        (Some(text), None) => parse_secret_uri(text)?,
        (None, Some(label)) => {
            let known = scene.model.secret_by_label(&unit, label).map(|secret| secret.id.clone());
            match pending_by_label(scene, label).or(known) {
                Some(id) => id,
                None => return failed(format!("secret \"{label}\" not found")),
            }
        }
        _ => return usage("require either a secret URI or label"),
    };
    let mut info = Map::new();
    let fresh = scene.context.secrets.iter().find_map(|change| match change {
        PendingSecret::Add { id: added, label, description, unit_owned, .. } if *added == id => {
            Some((label.clone(), description.clone(), *unit_owned))
        }
        _ => None,
    });
    if let Some((label, description, unit_owned)) = fresh {
        info.insert("revision".to_owned(), json!(1));
        put_text(&mut info, "label", &label);
        info.insert("owner".to_owned(), json!(if unit_owned { "unit" } else { "application" }));
        put_text(&mut info, "description", &description);
    } else {
        let secret = scene.model.secrets.get(&id).filter(|secret| scene.model.may_manage(&unit, secret));
        let Some(secret) = secret else { return failed(format!("secret \"{id}\" not found")) };
        info.insert("revision".to_owned(), json!(secret.latest));
        put_text(&mut info, "label", &secret.label);
        info.insert(
            "owner".to_owned(),
            json!(if matches!(secret.owner, Owner::Unit(_)) { "unit" } else { "application" }),
        );
        put_text(&mut info, "description", &secret.description);
        info.insert("rotation".to_owned(), json!(secret.rotate));
        if let Some(at) = secret.expires {
            info.insert("expiry".to_owned(), json!(at.rfc3339()));
        }
        if let Some(at) = secret.rotates {
            info.insert("rotates".to_owned(), json!(at.rfc3339()));
        }
        let access: Vec<Value> = secret
            .grants
            .iter()
            .map(|(target, relation)| {
                let key = scene.model.relations.get(relation).map(|relation| relation.key()).unwrap_or_default();
                json!({"target": target, "scope": format!("relation-{key}"), "role": "view"})
            })
            .collect();
        if !access.is_empty() {
            info.insert("access".to_owned(), json!(access));
        }
    }
    Ok(Answer::Value(json!({id: info})))
}

fn put_text(map: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        map.insert(key.to_owned(), json!(text));
    }
}

fn secret_ids(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    parsed.at_most(0)?;
    let mut ids: Vec<String> =
        scene.model.managed_secrets(&scene.context.unit).map(|secret| secret.id.clone()).collect();
    for change in &scene.context.secrets {
        match change {
            PendingSecret::Add { id, .. } => ids.push(id.clone()),
            PendingSecret::Remove { id, revision: None } => ids.retain(|kept| kept != id),
            _ => {}
        }
    }
    ids.sort();
    Ok(Answer::Value(if ids.is_empty() { Value::Null } else { json!(ids) }))
}

/// Whether this unit may pass the secret on: it manages it, or adds it in this very hook.
fn manages(scene: &Scene<'_>, id: &str) -> bool {
    let committed =
        scene.model.secrets.get(id).is_some_and(|secret| scene.model.may_manage(&scene.context.unit, secret));
    committed || pending_content(scene, id).is_some()
}

fn secret_grant(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let id = named(parsed)?;
    let relation = relation(scene, parsed)?;
    if !manages(scene, &id) {
        return failed(format!("secret \"{id}\" not found"));
    }
    let remote =
        scene.model.relations.get(&relation).and_then(|record| record.other_side(scene.context.unit.application()));
    let Some(remote) = remote else { return failed("relation not found") };
    let target = match parsed.get("unit") {
        Some(unit) => format!("unit-{}", unit.replace('/', "-")),
        None => format!("application-{}", remote.application),
    };
    let granted_to_unit = scene.model.secrets.get(&id).is_some_and(|secret| {
        let prefix = format!("unit-{}-", remote.application);
        parsed.get("unit").is_none() && secret.grants.keys().any(|tag| tag.starts_with(&prefix))
    });
    if granted_to_unit {
        return failed(
            "any unit level grants need to be revoked before granting access to the corresponding application",
        );
    }
    scene.context.secrets.push(PendingSecret::Grant { id, relation, target });
    Ok(Answer::Nothing)
}

fn secret_revoke(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let id = named(parsed)?;
    let target = if let Some(unit) = parsed.get("unit") {
        format!("unit-{}", unit.replace('/', "-"))
    } else if let Some(application) = parsed.get("app") {
        format!("application-{application}")
    } else if parsed.get("r").is_some() || scene.context.relation.is_some() {
        let relation = relation(scene, parsed)?;
        let own = scene.context.unit.application();
        let remote = scene.model.relations.get(&relation).and_then(|record| record.other_side(own));
        format!("application-{}", remote.map(|side| side.application.clone()).unwrap_or_default())
    } else {
        return usage("missing relation or application or unit");
    };
    check_manager(scene, &id)?;
    scene.context.secrets.push(PendingSecret::Revoke { id, target });
    Ok(Answer::Nothing)
}

fn secret_remove(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let id = named(parsed)?;
    let revision = match parsed.get("revision").map(str::parse::<u32>) {
        None => None,
        Some(Ok(revision)) => Some(revision),
        Some(Err(_)) => return usage(format!("revision \"{}\" not valid", parsed.get("revision").unwrap_or_default())),
    };
    check_manager(scene, &id)?;
    scene.context.secrets.push(PendingSecret::Remove { id, revision });
    Ok(Answer::Nothing)
}
