//! Relation tools: ids, members, databags.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::arguments::{map_from_file, pairs, relation};
use super::{Answer, Definition, Refusal, Scene, failed, usage};
use crate::flags::{Flag, Parsed, switch, value};
use crate::model::{Life, Relation, Release};
use crate::names::UnitName;

const RELATION: &[Flag] = &[value(&["format"]), value(&["o", "output"]), value(&["r", "relation"]), switch(&["app"])];

pub fn definition(tool: &str) -> Option<Definition> {
    Some(match tool {
        "relation-ids" => Definition::new(const { &[value(&["format"]), value(&["o", "output"])] }, relation_ids),
        "relation-list" => Definition::new(RELATION, relation_list),
        "relation-get" => Definition::new(RELATION, relation_get),
        "relation-set" => Definition::new(
            const { &[value(&["r", "relation"]), switch(&["app"]), value(&["file"]), value(&["format"])] },
            relation_set,
        ),
        "relation-model-get" => Definition::new(RELATION, relation_model_get),
        _ => return None,
    })
}

fn relation_ids(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let endpoint = match (parsed.arguments.first(), &scene.context.relation) {
        (Some(name), _) => name.clone(),
        (None, Some(relation)) => relation.endpoint.clone(),
        (None, None) => return usage("no endpoint name specified"),
    };
    parsed.at_most(1)?;
    let mut labels: Vec<String> = scene
        .context
        .endpoints
        .iter()
        .filter(|(id, name)| {
            **name == endpoint && !scene.model.relations.get(id).is_some_and(|one| is_hidden(scene, one))
        })
        .map(|(id, name)| format!("{name}:{id}"))
        .collect();
    labels.sort();
    Ok(Answer::Value(json!(labels)))
}

/// 3.6 leaves out a relation that is itself removed and has no members left.
fn is_hidden(scene: &Scene<'_>, relation: &Relation) -> bool {
    let empty = scene.context.members.get(&relation.id).is_none_or(Vec::is_empty);
    scene.model.release == Release::V3 && relation.life != Life::Alive && !relation.is_peer() && empty
}

fn relation_list(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let id = relation(scene, parsed)?;
    parsed.at_most(0)?;
    if parsed.has("app") {
        let other =
            scene.model.relations.get(&id).and_then(|relation| relation.other_side(scene.context.unit.application()));
        return Ok(Answer::Value(json!(other.map(|side| side.application.clone()))));
    }
    Ok(Answer::Value(json!(scene.context.members.get(&id).cloned().unwrap_or_default())))
}

/// Whose bag is meant.
fn target(scene: &Scene<'_>, parsed: &Parsed) -> Result<(String, bool), Refusal> {
    let hook = scene.context.relation.as_ref();
    if let Some(name) = parsed.arguments.get(1) {
        if parsed.has("app") {
            let application = name.split('/').next().unwrap_or(name);
            return Ok((application.to_owned(), true));
        }
        if !name.contains('/') {
            return usage(format!("expected unit name, got application name \"{name}\""));
        }
        return match UnitName::parse(name) {
            Some(unit) => Ok((unit.to_string(), false)),
            None => usage(format!("invalid unit name \"{name}\"")),
        };
    }
    let remote_application = hook.map(|relation| relation.remote_application.clone()).filter(|name| !name.is_empty());
    let remote_unit = hook.and_then(|relation| relation.remote_unit.clone());
    match (parsed.has("app"), remote_unit, remote_application) {
        (true, _, Some(application)) | (false, None, Some(application)) => Ok((application, true)),
        (false, Some(unit), _) => Ok((unit.to_string(), false)),
        _ => usage("no unit or application specified"),
    }
}

fn relation_get(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let id = relation(scene, parsed)?;
    let (entity, is_application) = target(scene, parsed)?;
    parsed.at_most(2)?;
    let denied = scene.model.release == Release::V3 && is_denied(scene, id, &entity);
    let Some(bag) = scene.context.bag(scene.model, id, &entity).filter(|_| !denied) else {
        return match is_application {
            _ if scene.model.release == Release::V3 => failed("permission denied"),
            true => failed(format!("getting application \"{entity}\" not found")),
            false => failed("relation unit not found"),
        };
    };
    Ok(Answer::Value(match parsed.arguments.first().filter(|key| *key != "-") {
        Some(key) => json!(bag.get(key)),
        None => json!(bag),
    }))
}

/// What 3.6 keeps from a unit on a relation with others: the bags of its own side, but its own.
fn is_denied(scene: &mut Scene<'_>, relation: u32, entity: &str) -> bool {
    let own = scene.context.unit.clone();
    let peer = scene.model.relations.get(&relation).is_some_and(|record| record.is_peer());
    let sibling = entity != own.as_str() && entity.split('/').next() == Some(own.application()) && entity.contains('/');
    let own_application = entity == own.application() && !scene.context.leads(scene.model);
    !peer && (sibling || own_application)
}

fn relation_set(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let id = relation(scene, parsed)?;
    let given = pairs(&parsed.arguments)?;
    let mut values: BTreeMap<String, String> = match parsed.get("file") {
        Some(path) => map_from_file(scene, path)?,
        None => BTreeMap::new(),
    };
    values.extend(given);
    let changes = values.into_iter().map(|(key, value)| (key, (!value.is_empty()).then_some(value)));
    if parsed.has("app") {
        if !scene.context.leads(scene.model) {
            return failed("cannot write relation settings");
        }
        scene.context.application_changes.entry(id).or_default().extend(changes);
    } else {
        scene.context.unit_changes.entry(id).or_default().extend(changes);
    }
    Ok(Answer::Nothing)
}

fn relation_model_get(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    relation(scene, parsed)?;
    Ok(Answer::Value(Value::Object([("uuid".to_owned(), json!(scene.model.uuid))].into_iter().collect())))
}
