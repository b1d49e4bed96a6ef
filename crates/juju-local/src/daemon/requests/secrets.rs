//! Secrets as users see them: `juju secrets`, and what they do with the secrets of the model.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::checksum::sha256;
use crate::clock::Moment;
use crate::daemon::State;
use crate::model::{Model, Owner, Revision, Secret, UserSecret, new_secret_id};
use crate::wire::{Failure, Response, SecretRequest};

pub(super) fn answer(state: &mut State, request: SecretRequest) -> Response {
    let model = &mut state.model;
    model.prune_user_secrets();
    let answer = match request {
        SecretRequest::List { owner, revisions } => list(model, owner.as_deref(), revisions),
        SecretRequest::Show { secret, reveal, revisions, revision } => {
            show(model, &secret, reveal, revisions, revision)
        }
        SecretRequest::Add { name, description, content } => add(model, &name, &description, content),
        SecretRequest::Update { secret, name, description, auto_prune, content } => {
            update(model, &secret, name, description, auto_prune, content)
        }
        SecretRequest::Grant { secret, applications } => grant(model, &secret, &applications, true),
        SecretRequest::Revoke { secret, applications } => grant(model, &secret, &applications, false),
        SecretRequest::Remove { secret, revision } => remove(model, &secret, revision),
    };
    model.prune_user_secrets();
    answer
}

fn not_found(secret: &str) -> Failure {
    Failure::new(format!("secret \"{secret}\" not found"))
}

/// The id of one of the user's own secrets: the others are their charms' business.
fn own(model: &Model, secret: &str) -> Result<String, Failure> {
    let found = model.secret_named(secret).filter(|found| found.owner == Owner::Model);
    found.map(|found| found.id.clone()).ok_or_else(|| not_found(secret))
}

fn list(model: &Model, owner: Option<&str>, revisions: bool) -> Response {
    let wanted = |secret: &&Secret| match (owner, &secret.owner) {
        (None, _) => true,
        (Some(tag), Owner::Application(name)) => tag == format!("application-{name}"),
        (Some(tag), Owner::Unit(unit)) => tag == unit.tag(),
        (Some(_), Owner::Model) => false,
    };
    if let Some(tag) = owner.filter(|tag| !tag.starts_with("application-") && !tag.starts_with("unit-")) {
        return Err(Failure::new(format!("invalid owner \"{tag}\"")));
    }
    let shown = model.secrets.values().filter(wanted).map(|secret| (secret.id.clone(), document(secret, revisions)));
    Ok(shown.map(|(id, shown)| (id, Value::Object(shown))).collect())
}

fn document(secret: &Secret, revisions: bool) -> Map<String, Value> {
    let mut shown = Map::new();
    let mut put = |key: &str, value: Value| shown.insert(key.to_owned(), value);
    put("revision", json!(secret.latest));
    if let Some(expires) = secret.expires {
        put("expires", json!(expires.rfc3339()));
    }
    put("rotation", json!(secret.rotate));
    if let Some(rotates) = secret.rotates {
        put("rotates", json!(rotates.rfc3339()));
    }
    put("owner", json!(owner_name(&secret.owner)));
    if !secret.description.is_empty() {
        put("description", json!(secret.description));
    }
    if !secret.label.is_empty() {
        put(if secret.owner == Owner::Model { "name" } else { "label" }, json!(secret.label));
    }
    put("created", json!(secret.created.rfc3339()));
    put("updated", json!(secret.updated.rfc3339()));
    if revisions {
        let entry = |(number, revision): (&u32, &Revision)| {
            let time = revision.created.rfc3339();
            json!({"revision": number, "backend": "internal", "created": time, "updated": time})
        };
        put("revisions", secret.revisions.iter().map(entry).collect());
    }
    shown
}

fn owner_name(owner: &Owner) -> String {
    match owner {
        Owner::Application(name) => name.clone(),
        Owner::Unit(unit) => unit.to_string(),
        Owner::Model => "<model>".to_owned(),
    }
}

fn show(model: &Model, secret: &str, reveal: bool, revisions: bool, revision: Option<u32>) -> Response {
    let found = model.secret_named(secret).ok_or_else(|| not_found(secret))?;
    let mut shown = document(found, revisions);
    if reveal {
        let content = found.content(revision.unwrap_or(found.latest)).ok_or_else(|| not_found(secret))?;
        let encoded = crate::output::json(&json!(content));
        shown.insert("checksum".to_owned(), json!(sha256(encoded.as_bytes())));
        shown.insert("content".to_owned(), json!({"Data": decoded(content)}));
    }
    let access = access(model, found);
    if !access.is_empty() {
        shown.insert("access".to_owned(), json!(access));
    }
    Ok(json!({found.id.clone(): shown}))
}

fn decoded(content: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let decode = |text: &String| {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    content.iter().map(|(key, text)| (key.clone(), decode(text))).collect()
}

fn access(model: &Model, secret: &Secret) -> Vec<Value> {
    let entry = |target: &str, scope: String| json!({"target": target, "scope": scope, "role": "view"});
    let mut shown: Vec<Value> = Vec::new();
    for (target, relation) in &secret.grants {
        let key = model.relations.get(relation).map(|relation| relation.key()).unwrap_or_default();
        shown.push(entry(target, format!("relation-{key}")));
    }
    for application in model.user_secrets.get(&secret.id).into_iter().flat_map(|own| &own.granted) {
        shown.push(entry(&format!("application-{application}"), format!("model-{}", model.uuid)));
    }
    shown
}

fn add(model: &mut Model, name: &str, description: &str, content: BTreeMap<String, String>) -> Response {
    if model.secrets.values().any(|secret| secret.owner == Owner::Model && secret.label == name) {
        return Err(Failure::new(format!("secret with name \"{name}\" already exists")));
    }
    let id = new_secret_id().map_err(|error| Failure::new(error.to_string()))?;
    let secret = Secret::of_user(&id, name, description, content, Moment::now());
    model.secrets.insert(id.clone(), secret);
    model.user_secrets.insert(id.clone(), UserSecret::default());
    Ok(json!(format!("secret:{id}")))
}

fn update(
    model: &mut Model,
    secret: &str,
    name: Option<String>,
    description: Option<String>,
    auto_prune: bool,
    content: Option<BTreeMap<String, String>>,
) -> Response {
    let id = own(model, secret)?;
    let taken = |name: &String| {
        model.secrets.values().any(|other| other.owner == Owner::Model && other.label == *name && other.id != id)
    };
    if let Some(name) = name.as_ref().filter(|name| taken(name)) {
        return Err(Failure::new(format!("secret with name \"{name}\" already exists")));
    }
    let Some(found) = model.secrets.get_mut(&id) else { return Err(not_found(secret)) };
    let now = Moment::now();
    found.updated = now;
    if let Some(name) = name {
        found.label = name;
    }
    if let Some(description) = description {
        found.description = description;
    }
    // The same content again is no new revision.
    if let Some(content) = content.filter(|content| found.content(found.latest) != Some(content)) {
        found.latest += 1;
        found.revisions.insert(found.latest, Revision { content, created: now });
    }
    model.user_secrets.entry(id).or_default().auto_prune |= auto_prune;
    Ok(Value::Null)
}

fn grant(model: &mut Model, secret: &str, applications: &[String], granted: bool) -> Response {
    let id = own(model, secret)?;
    let unknown: Vec<String> = applications
        .iter()
        .filter(|name| !model.applications.contains_key(*name))
        .map(|name| format!("application \"{name}\" not found"))
        .collect();
    let own = model.user_secrets.entry(id).or_default();
    for name in applications.iter().filter(|name| model.applications.contains_key(*name)) {
        match granted {
            true => own.granted.insert(name.clone()),
            false => own.granted.remove(name),
        };
    }
    match unknown.is_empty() {
        true => Ok(Value::Null),
        false => Err(Failure::new(format!("failed to grant/revoke secret: {}", unknown.join(", ")))),
    }
}

fn remove(model: &mut Model, secret: &str, revision: Option<u32>) -> Response {
    let id = own(model, secret)?;
    let Some(found) = model.secrets.get_mut(&id) else { return Err(not_found(secret)) };
    if let Some(revision) = revision {
        if found.revisions.remove(&revision).is_none() {
            return Err(Failure::new(format!("secret \"{secret}\" revision {revision} not found")));
        }
        if !found.revisions.is_empty() {
            return Ok(Value::Null);
        }
    }
    model.secrets.remove(&id);
    model.user_secrets.remove(&id);
    Ok(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::UnitName;

    fn content(text: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("token".to_owned(), base64::engine::general_purpose::STANDARD.encode(text))])
    }

    fn model_with_secret() -> Model {
        let mut model = Model::new("m", "00000000-0000-4000-8000-000000000001", "c", "24.11");
        add(&mut model, "mine", "", content("one")).unwrap();
        model
    }

    fn only(model: &Model) -> &Secret {
        model.secrets.values().next().unwrap()
    }

    #[test]
    fn a_name_is_taken_once() {
        let mut model = model_with_secret();
        let refused = add(&mut model, "mine", "", content("two")).unwrap_err();
        assert_eq!(refused.message, "secret with name \"mine\" already exists");
    }

    #[test]
    fn only_other_content_makes_a_revision() {
        let mut model = model_with_secret();
        update(&mut model, "mine", None, Some("text".to_owned()), false, Some(content("one"))).unwrap();
        assert_eq!(only(&model).latest, 1);
        update(&mut model, "mine", Some("other".to_owned()), None, true, Some(content("two"))).unwrap();
        assert_eq!((only(&model).latest, only(&model).label.as_str()), (2, "other"));
        model.prune_user_secrets();
        assert_eq!(only(&model).revisions.keys().copied().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_revealed_secret_has_its_text_and_sum() {
        let model = model_with_secret();
        let shown = show(&model, "mine", true, true, None).unwrap();
        let shown = shown.as_object().unwrap().values().next().unwrap();
        assert_eq!(shown["content"], json!({"Data": {"token": "one"}}));
        assert_eq!(shown["owner"], "<model>");
        assert_eq!(shown["checksum"], sha256(br#"{"token":"b25l"}"#));
        assert_eq!(shown["revisions"][0]["backend"], "internal");
        assert!(shown.get("access").is_none());
    }

    #[test]
    fn only_a_granted_application_may_read() {
        let mut model = model_with_secret();
        let unit = UnitName::parse("server/0").unwrap();
        let refused = grant(&mut model, "mine", &["server".to_owned()], true).unwrap_err();
        assert_eq!(refused.message, "failed to grant/revoke secret: application \"server\" not found");
        assert!(!model.may_read(&unit, only(&model)));
        let id = only(&model).id.clone();
        model.user_secrets.get_mut(&id).unwrap().granted.insert("server".to_owned());
        assert!(model.may_read(&unit, only(&model)));
    }

    #[test]
    fn what_is_removed_is_gone() {
        let mut model = model_with_secret();
        assert_eq!(remove(&mut model, "mine", Some(7)).unwrap_err().message, "secret \"mine\" revision 7 not found");
        remove(&mut model, "mine", None).unwrap();
        assert_eq!(show(&model, "mine", false, false, None).unwrap_err().message, "secret \"mine\" not found");
        assert!(model.user_secrets.is_empty());
    }
}
