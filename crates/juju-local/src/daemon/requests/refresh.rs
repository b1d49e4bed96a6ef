//! `juju refresh --path`: another charm for an application. Units take it up when they have nothing else to do.

use std::collections::BTreeSet;

use serde_json::json;

use super::deploy::{next_revision, parse_config};
use crate::charm::{Archive, Refusal, Role};
use crate::daemon::State;
use crate::model::{Release, Side};
use crate::wire::{Failure, Response};

pub(super) fn refresh(state: &mut State, name: &str, path: &str, config: &[(String, String)]) -> Response {
    let Some(old) = state.model.charm_of(name).cloned() else {
        return Err(Failure::new(format!("\"{name}\" deploy incomplete, please try refresh again in a little bit.")));
    };
    let bytes = std::fs::read(path).map_err(|_| Failure::new(format!("\"{path}\": file does not exist")))?;
    let archive = Archive::read(bytes).map_err(|refusal| match refusal {
        Refusal::NotAnArchive => Failure::new(format!("{path:?} is not a charm")),
        Refusal::Invalid(why) | Refusal::Unfit(why) => Failure::new(why),
    })?;
    let new_name = &archive.charm.metadata.name;
    if *new_name != old.metadata.name {
        return Err(Failure::new(format!("cannot refresh \"{name}\" to \"{new_name}\"")));
    }
    let revision = next_revision(state, new_name);
    let url = format!("local:{new_name}-{revision}");
    let added = format!("Added local charm \"{new_name}\", revision {revision}, to the model");
    let refuse = |why: String| Failure {
        progress: vec![added.clone()],
        ..Failure::new(format!("setting application \"{name}\" charm: {why}"))
    };
    let names = |endpoints: Vec<crate::charm::Endpoint>| -> BTreeSet<String> {
        endpoints.into_iter().map(|endpoint| endpoint.name).collect()
    };
    let (before, after) = (names(old.endpoints()), names(archive.charm.endpoints()));
    let used = state.model.relations_of(name).filter_map(|relation| relation.side_of(name));
    if let Some(side) = used.into_iter().find(|side| !after.contains(&side.endpoint.name)) {
        return Err(refuse(format!("charm has no corresponding relation \"{}\"", side.endpoint.name)));
    }
    let listed = after.iter().cloned().collect::<Vec<_>>().join(", ");
    if state.model.release == Release::V4 && !after.is_subset(&before) {
        return Err(refuse(format!("one or more of the provided endpoints \"{listed}\" do not exist")));
    }
    let values = parse_config(&archive.charm, config).map_err(refuse)?;
    std::fs::write(state.paths.charm(&url), &archive.bytes)
        .map_err(|error| Failure::new(format!("storing the charm: {error}")))?;
    let new_peers: Vec<Side> = archive
        .charm
        .metadata
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.role == Role::Peer && !before.contains(&endpoint.name))
        .map(|endpoint| Side { application: name.to_owned(), endpoint: endpoint.clone() })
        .collect();
    if let Some(application) = state.model.applications.get_mut(name) {
        application.config.retain(|option, _| archive.charm.options.contains_key(option));
        application.config.extend(values);
        application.charm = url.clone();
    }
    state.model.charms.insert(url, archive.charm);
    for side in new_peers {
        state.model.add_relation(vec![side]);
    }
    Ok(json!({"progress": [added, format!("no change to endpoints in space \"alpha\": {listed}")]}))
}
