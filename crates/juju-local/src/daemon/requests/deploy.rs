//! `juju deploy` and `juju add-unit`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::charm::{Archive, Charm, ConfigOption, Directives, Refusal, Role, check_endpoints, unmet};
use crate::clock::Moment;
use crate::daemon::State;
use crate::daemon::provision::add_machine;
use crate::model::{Application, Life, Side, Unit};
use crate::names::{UnitName, check_application};
use crate::wire::{Deploy, Failure, Response};

const SUPPORTED_BASES: &[(&str, &str)] =
    &[("ubuntu", "20.04"), ("ubuntu", "22.04"), ("ubuntu", "24.04"), ("ubuntu", "26.04")];

pub(super) fn deploy(state: &mut State, request: Deploy) -> Response {
    if state.model.dying {
        return Err(Failure::new("model is no longer alive"));
    }
    let attempt = |why: String| Failure::new(format!("attempting to deploy \"{}\": {why}", request.shown));
    let bytes = std::fs::read(&request.path)
        .map_err(|_| Failure::new(format!("no charm was found at \"{}\"", request.shown)))?;
    let archive = match Archive::read(bytes) {
        Ok(archive) => archive,
        Err(Refusal::NotAnArchive) => {
            return Err(Failure::new(
                "cannot deploy bundle: the provided bundle has the following errors:\nat least one application must \
                 be specified",
            ));
        }
        Err(Refusal::Invalid(why)) => return Err(attempt(why)),
        Err(Refusal::Unfit(why)) => return Err(Failure::new(why)),
    };
    let charm = &archive.charm;
    let name = request.application.clone().unwrap_or_else(|| charm.metadata.name.clone());
    let upload = |why: String| Failure::new(format!("Put https://controller/model/charms: uploading charm: {why}"));
    let charm_name = &charm.metadata.name;
    if check_application(charm_name).is_err() {
        return Err(upload(format!("\"local:{charm_name}-0\" is not a valid charm url")));
    }
    check_endpoints(&charm.metadata).map_err(|why| {
        upload(format!("setting charm: encoding charm: encoding metadata: verifying charm relations: {why}"))
    })?;
    let base = choose_base(charm, request.base.as_deref())?;

    let revision = next_revision(state, charm_name);
    let url = format!("local:{charm_name}-{revision}");
    let located = format!("Located local charm \"{charm_name}\", revision {revision}");
    if charm.metadata.subordinate && (request.count != 1 || !request.to.is_empty()) {
        let why = "cannot use --num-units or --to with subordinate application";
        return Err(Failure { progress: vec![located], ..Failure::new(why) });
    }
    check_resources(charm, &request.resources)
        .map_err(|failure| Failure { progress: vec![located.clone()], ..failure })?;
    let progress = vec![
        located,
        format!(
            "Deploying \"{name}\" from local charm \"{charm_name}\", revision {revision} on {}@{}/stable",
            base.0, base.1
        ),
    ];
    let refuse = |why: String| Failure {
        progress: progress.clone(),
        ..Failure::new(format!("cannot deploy \"{name}\": {why}"))
    };
    if let Some(unmet) = unmet(&charm.assumes, &state.model.version) {
        return Err(refuse(format!("not supported {unmet}")));
    }
    let validating = "preparing application args: validating create application args: ";
    let config = parse_config(charm, &request.config)
        .map_err(|why| refuse(format!("{validating}validating application config: {why}")))?;
    let storage = storage_counts(charm, &request.storage)
        .map_err(|why| refuse(format!("{validating}invalid storage directive overrides: {why}")))?;
    if state.model.applications.contains_key(&name) {
        return Err(refuse(format!(
            "creating application \"{name}\": creating IAAS application \"{name}\": inserting IAAS application \
             \"{name}\": checking if application \"{name}\" exists: application already exists"
        )));
    }
    check_placement(state, &request.to)
        .map_err(|why| refuse(format!("preparing application args: making unit args: {why}")))?;
    std::fs::write(state.paths.charm(&url), &archive.bytes)
        .map_err(|error| refuse(format!("storing the charm: {error}")))?;

    let application = Application {
        name: name.clone(),
        charm: url.clone(),
        base,
        life: Life::Alive,
        exposed: false,
        trusted: request.trust,
        config,
        config_version: 0,
        leader: None,
        lease_until: Moment(0),
        status: None,
        version: String::new(),
        constraints: request.constraints.clone(),
        storage,
        leader_settings: BTreeMap::new(),
        leader_settings_version: 0,
        created: Moment::now(),
    };
    let peers: Vec<Side> = charm
        .metadata
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.role == Role::Peer)
        .map(|endpoint| Side { application: name.clone(), endpoint: endpoint.clone() })
        .collect();
    let subordinate = charm.metadata.subordinate;
    state.model.charms.insert(url, archive.charm);
    state.model.applications.insert(name.clone(), application);
    for side in peers {
        state.model.add_relation(vec![side]);
    }
    if !subordinate {
        place_units(state, &name, request.count, &request.to)?;
    }
    Ok(json!({"progress": progress}))
}

/// Resources would have to be kept and handed out; a charm that declares one can still be deployed without.
fn check_resources(charm: &Charm, given: &[String]) -> Result<(), Failure> {
    let names: Vec<&str> = given.iter().map(|pair| pair.split('=').next().unwrap_or(pair)).collect();
    if let Some(unknown) = names.iter().find(|name| !charm.resources.iter().any(|known| known == *name)) {
        return Err(Failure::new(format!("unrecognized resource \"{unknown}\"")));
    }
    match names.first() {
        Some(name) => {
            Err(Failure { code: 2, ..Failure::new(format!("juju-local has no resources, such as \"{name}\"")) })
        }
        None => Ok(()),
    }
}

/// Numbers that were asked for of the charm's storage.
fn storage_counts(charm: &Charm, given: &Directives) -> Result<BTreeMap<String, u32>, String> {
    let mut counts = BTreeMap::new();
    for (name, count) in given {
        let Some(definition) = charm.metadata.storage.iter().find(|known| known.name == *name) else {
            return Err(format!("storage directive \"{name}\" does not exist in the charm"));
        };
        if let Some(count) = count {
            definition.check_count(*count)?;
            counts.insert(name.clone(), *count);
        }
    }
    Ok(counts)
}

/// The revision is used up even if the deployment is refused later.
pub(super) fn next_revision(state: &mut State, charm: &str) -> u32 {
    let counter = state.model.counters.revision.entry(charm.to_owned()).or_insert(0);
    let revision = *counter;
    *counter += 1;
    revision
}

/// `ubuntu@24.04` or `ubuntu@24.04/stable`.
pub(super) fn parse_base(text: &str) -> Result<(String, String), Failure> {
    let Some((name, channel)) = text.split_once('@') else {
        return Err(Failure::new("expected base string to contain os and channel separated by '@'"));
    };
    let track = channel.split('/').next().unwrap_or(channel);
    Ok((name.to_owned(), track.to_owned()))
}

fn choose_base(charm: &Charm, wanted: Option<&str>) -> Result<(String, String), Failure> {
    if let Some(text) = wanted {
        let base = parse_base(text)?;
        return match charm.bases.contains(&base) {
            true => Ok(base),
            false => Err(Failure::new(format!(
                "{} is not available on the following base: {}@{}/stable not supported",
                charm.metadata.name, base.0, base.1
            ))),
        };
    }
    let supported =
        |base: &&(String, String)| SUPPORTED_BASES.iter().any(|(name, track)| base.0 == *name && base.1 == *track);
    charm.bases.iter().rev().find(supported).cloned().ok_or_else(|| {
        let listed: Vec<String> = charm.bases.iter().map(|(name, track)| format!("{name}@{track}")).collect();
        Failure::new(format!("the charm defined bases \"{}\" not supported", listed.join(", ")))
    })
}

pub(super) fn parse_config(charm: &Charm, given: &[(String, String)]) -> Result<BTreeMap<String, Value>, String> {
    let mut config = BTreeMap::new();
    for (name, text) in given {
        let option: &ConfigOption = charm.options.get(name).ok_or_else(|| format!("unknown option \"{name}\""))?;
        config.insert(name.clone(), option.parse(name, text)?);
    }
    Ok(config)
}

fn check_placement(state: &State, to: &[String]) -> Result<(), String> {
    match to.iter().find(|machine| !state.model.machines.contains_key(*machine)) {
        Some(machine) => Err(format!(
            "getting machine \"{machine}\" for unit placement directive: machine with name \"{machine}\" does not exist"
        )),
        None => Ok(()),
    }
}

pub(super) fn add_units(state: &mut State, application: &str, count: u32, to: &[String]) -> Response {
    if state.model.dying {
        return Err(Failure::new("model is no longer alive"));
    }
    if !state.model.applications.contains_key(application) {
        return Err(Failure::new(format!("application \"{application}\" not found (not found)")));
    }
    check_placement(state, to).map_err(|why| {
        Failure::new(format!("adding {count} units to application \"{application}\": making unit args: {why}"))
    })?;
    if state.model.charm_of(application).is_some_and(|charm| charm.metadata.subordinate) {
        return Err(Failure::new("cannot add units to a subordinate application: they come with their principals"));
    }
    place_units(state, application, count, to)?;
    Ok(Value::Null)
}

/// Machines named by `to` first, then new ones.
fn place_units(state: &mut State, application: &str, count: u32, to: &[String]) -> Result<(), Failure> {
    let mut named = to.iter();
    let base = state.model.applications.get(application).map(|app| app.base.clone()).unwrap_or_default();
    for _ in 0..count {
        let machine = match named.next() {
            Some(machine) => machine.clone(),
            None => add_machine(&mut state.model, &base).map_err(|error| Failure::new(format!("{error:#}")))?,
        };
        let counter = state.model.counters.unit.entry(application.to_owned()).or_insert(0);
        let name = UnitName::new(application, *counter);
        *counter += 1;
        state.model.units.insert(name.clone(), Unit::new(name.clone(), &machine));
        state.model.attach_storage(&name);
    }
    Ok(())
}
