//! What is shown of the model: `juju status`, `show-unit`, `show-model`, `actions`. JSON with Juju's own keys.

use serde_json::{Map, Value, json};

use crate::charm::{Role, Scope};
use crate::clock::Moment;
use crate::daemon::{State, network_of};
use crate::model::{Application, CLOUD, CONTROLLER, Machine, Model, Side, StatusInfo, USER, Unit};
use crate::names::UnitName;
use crate::tools;
use crate::wire::{Failure, Response};

fn info(status: &StatusInfo) -> Map<String, Value> {
    let mut shown = Map::new();
    shown.insert("current".to_owned(), json!(status.current.name()));
    if !status.message.is_empty() {
        shown.insert("message".to_owned(), json!(status.message));
    }
    shown.insert("since".to_owned(), json!(status.since.status()));
    shown
}

pub(super) fn status(state: &State) -> Value {
    let model = &state.model;
    let machines: Map<String, Value> = sorted_machines(model)
        .into_iter()
        .map(|machine| (machine.id.clone(), machine_document(state, machine)))
        .collect();
    let applications: Map<String, Value> =
        model.applications.values().map(|app| (app.name.clone(), application_document(model, app))).collect();
    json!({
        "model": {
            "name": model.name,
            "type": "iaas",
            "controller": CONTROLLER,
            "cloud": CLOUD,
            "region": CLOUD,
            "version": model.version,
            "model-status": {"current": condition(model), "since": model.created.status()},
        },
        "machines": machines,
        "applications": applications,
        "storage": super::storage::document(model, &state.paths),
        "controller": {"timestamp": Moment::now().clock() + "Z"},
    })
}

fn condition(model: &Model) -> &'static str {
    if model.dying { "destroying" } else { "available" }
}

fn sorted_machines(model: &Model) -> Vec<&Machine> {
    let mut machines: Vec<&Machine> = model.machines.values().collect();
    machines.sort_by_key(|machine| machine.id.parse::<u32>().unwrap_or(u32::MAX));
    machines
}

fn machine_document(state: &State, machine: &Machine) -> Value {
    let life = |status: &StatusInfo| {
        let mut shown = info(status);
        shown.insert("life".to_owned(), json!(machine.life.name()));
        shown
    };
    let mut shown = Map::new();
    shown.insert("juju-status".to_owned(), Value::Object(life(&machine.agent_status())));
    shown.insert("hostname".to_owned(), json!(machine.hostname));
    let address = machine.address.to_string();
    shown.insert("dns-name".to_owned(), json!(address));
    shown.insert("ip-addresses".to_owned(), json!([address]));
    shown.insert("instance-id".to_owned(), json!(machine.hostname));
    shown.insert("machine-status".to_owned(), Value::Object(life(&machine.instance)));
    shown.insert("modification-status".to_owned(), json!({}));
    shown.insert("base".to_owned(), json!({"name": machine.base.0, "channel": machine.base.1}));
    let [_, a, b, c] = machine.address.octets();
    let gateway = network_of(&state.model).map(|(_, gateway)| gateway.to_string()).unwrap_or_default();
    shown.insert(
        "network-interfaces".to_owned(),
        json!({"eth0": {
            "ip-addresses": [format!("{address}/24")],
            "mac-address": format!("00:16:3e:{a:02x}:{b:02x}:{c:02x}"),
            "gateway": gateway,
            "space": "alpha",
            "is-up": true,
        }}),
    );
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    shown.insert("hardware".to_owned(), json!(format!("arch=amd64 cores={cores}")));
    Value::Object(shown)
}

fn application_document(model: &Model, application: &Application) -> Value {
    let name = &application.name;
    let mut shown = Map::new();
    let charm_name = model.charm_of(name).map(|charm| charm.metadata.name.clone()).unwrap_or_default();
    let revision: u32 = application.charm.rsplit('-').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    shown.insert("charm".to_owned(), json!(application.charm));
    shown.insert("base".to_owned(), json!({"name": application.base.0, "channel": application.base.1}));
    shown.insert("charm-origin".to_owned(), json!("local"));
    shown.insert("charm-name".to_owned(), json!(charm_name));
    shown.insert("charm-rev".to_owned(), json!(revision));
    shown.insert("exposed".to_owned(), json!(application.exposed));
    shown.insert("life".to_owned(), json!(application.life.name()));
    shown.insert("application-status".to_owned(), Value::Object(info(&model.application_status(name))));
    let relations = relations(model, name);
    if !relations.is_empty() {
        shown.insert("relations".to_owned(), Value::Object(relations));
    }
    let units: Map<String, Value> = sorted_units(model, name)
        .into_iter()
        .filter(|unit| unit.principal.is_none())
        .map(|unit| (unit.name.to_string(), unit_document(model, unit)))
        .collect();
    if !units.is_empty() {
        shown.insert("units".to_owned(), Value::Object(units));
    }
    let principals = principals_of(model, name);
    if !principals.is_empty() {
        shown.insert("subordinate-to".to_owned(), json!(principals));
    }
    if !application.version.is_empty() {
        shown.insert("version".to_owned(), json!(application.version));
    }
    let bindings = super::applications::bindings(model, name);
    shown.insert("endpoint-bindings".to_owned(), Value::Object(bindings));
    Value::Object(shown)
}

/// Applications that a subordinate's units live with.
fn principals_of(model: &Model, application: &str) -> Vec<String> {
    if !model.charm_of(application).is_some_and(|charm| charm.metadata.subordinate) {
        return Vec::new();
    }
    let contained = model.relations_of(application).filter(|relation| relation.scope() == Scope::Container);
    let mut names: Vec<String> = contained
        .filter_map(|relation| relation.other_side(application))
        .map(|side| side.application.clone())
        .collect();
    names.sort();
    names
}

fn sorted_units<'a>(model: &'a Model, application: &'a str) -> Vec<&'a Unit> {
    let mut units: Vec<&Unit> = model.units_of(application).collect();
    units.sort_by_key(|unit| unit.name.number());
    units
}

fn relations(model: &Model, application: &str) -> Map<String, Value> {
    let mut shown: Map<String, Value> = Map::new();
    for relation in model.relations_of(application) {
        let (Some(here), Some(there)) = (relation.side_of(application), relation.other_side(application)) else {
            continue;
        };
        let entry = json!({
            "related-application": there.application,
            "interface": here.endpoint.interface,
            "scope": if relation.scope() == Scope::Container { "container" } else { "global" },
        });
        if let Value::Array(list) = shown.entry(here.endpoint.name.clone()).or_insert_with(|| json!([])) {
            list.push(entry);
        }
    }
    shown.sort_keys();
    shown
}

/// Each relation once, provider first.
pub(super) fn integrations(model: &Model) -> Value {
    let shown = model.relations.values().filter_map(|relation| {
        let mut sides: Vec<&Side> = relation.sides.iter().collect();
        sides.sort_by_key(|side| side.endpoint.role == Role::Requirer);
        let (provider, requirer) = (sides.first()?, sides.last()?);
        let kind = match (relation.is_peer(), relation.scope()) {
            (true, _) => "peer",
            (false, Scope::Container) => "subordinate",
            (false, Scope::Global) => "regular",
        };
        Some(json!({
            "provider": provider.label(),
            "requirer": requirer.label(),
            "interface": provider.endpoint.interface,
            "type": kind,
            "message": "",
        }))
    });
    let mut shown: Vec<Value> = shown.collect();
    shown.sort_by_key(|one| format!("{} {}", one["provider"], one["requirer"]));
    Value::Array(shown)
}

fn unit_document(model: &Model, unit: &Unit) -> Value {
    let mut shown = Map::new();
    shown.insert("workload-status".to_owned(), Value::Object(info(&model.workload_status(unit))));
    let mut agent = info(&model.unit_agent_status(unit));
    if unit.uniter.charm.is_some() {
        agent.insert("version".to_owned(), json!(model.version));
    }
    shown.insert("juju-status".to_owned(), Value::Object(agent));
    if model.is_leader(&unit.name) {
        shown.insert("leader".to_owned(), json!(true));
    }
    if unit.principal.is_none() {
        shown.insert("machine".to_owned(), json!(unit.machine));
    }
    let ports = port_labels(unit);
    if !ports.is_empty() {
        shown.insert("open-ports".to_owned(), json!(ports));
    }
    if let Some(address) = model.address_of(&unit.name) {
        shown.insert("public-address".to_owned(), json!(address));
    }
    let subordinates: Map<String, Value> = model
        .units
        .values()
        .filter(|other| other.principal.as_ref() == Some(&unit.name))
        .map(|other| (other.name.to_string(), unit_document(model, other)))
        .collect();
    if !subordinates.is_empty() {
        shown.insert("subordinates".to_owned(), Value::Object(subordinates));
    }
    Value::Object(shown)
}

fn port_labels(unit: &Unit) -> Vec<String> {
    let mut labels: Vec<String> =
        tools::sorted_ports(unit.ports.clone()).iter().map(crate::model::OpenPort::label).collect();
    labels.dedup();
    labels
}

pub(super) fn unit(state: &State, text: &str) -> Response {
    let model = &state.model;
    let found = UnitName::parse(text).and_then(|name| model.units.get(&name));
    let Some(unit) = found else { return Err(Failure::new(format!("unit {text} not found"))) };
    let own = unit.name.application();
    let mut entries = Vec::new();
    for relation in model.relations_of(own) {
        let (Some(here), Some(there)) = (relation.side_of(own), relation.other_side(own)) else { continue };
        let mut entry = Map::new();
        entry.insert("relation-id".to_owned(), json!(relation.id));
        entry.insert("endpoint".to_owned(), json!(here.endpoint.name));
        entry.insert("related-endpoint".to_owned(), json!(there.endpoint.name));
        let application_data = relation.application_bags.get(&there.application).map(|bag| bag.values.clone());
        entry.insert("application-data".to_owned(), json!(application_data.unwrap_or_default()));
        let bag = |name: &UnitName| {
            let values = relation.unit_bags.get(name).map(|bag| bag.values.clone());
            json!({"in-scope": values.is_some(), "data": values.unwrap_or_default()})
        };
        entry.insert("local-unit".to_owned(), bag(&unit.name));
        // 4.0.9 lists the remote units of peer relations only.
        let others: Map<String, Value> = match relation.is_peer() {
            true => relation.counterparts(&unit.name).map(|(name, _)| (name.to_string(), bag(name))).collect(),
            false => Map::new(),
        };
        if !others.is_empty() {
            entry.insert("related-units".to_owned(), Value::Object(others));
        }
        entries.push(Value::Object(entry));
    }
    let ports = port_labels(unit);
    let mut shown = Map::new();
    shown.insert("charm".to_owned(), json!(unit.uniter.charm.clone().unwrap_or_default()));
    shown.insert("leader".to_owned(), json!(model.is_leader(&unit.name)));
    shown.insert("life".to_owned(), json!(unit.life.name()));
    shown.insert("machine".to_owned(), json!(unit.machine));
    shown.insert("opened-ports".to_owned(), if ports.is_empty() { Value::Null } else { json!(ports) });
    shown.insert("public-address".to_owned(), json!(model.address_of(&unit.name)));
    if !entries.is_empty() {
        shown.insert("relation-info".to_owned(), json!(entries));
    }
    if !unit.workload_version.is_empty() {
        shown.insert("workload-version".to_owned(), json!(unit.workload_version));
    }
    Ok(json!({unit.name.to_string(): shown}))
}

pub(super) fn model(state: &State) -> Value {
    let model = &state.model;
    let machines: Map<String, Value> =
        sorted_machines(model).into_iter().map(|machine| (machine.id.clone(), json!({"cores": 0}))).collect();
    json!({model.name.clone(): {
        "name": format!("{USER}/{}", model.name),
        "short-name": model.name,
        "model-uuid": model.uuid,
        "model-type": "iaas",
        "controller-uuid": model.controller_uuid,
        "controller-name": CONTROLLER,
        "is-controller": false,
        "cloud": CLOUD,
        "region": CLOUD,
        "type": "unmanaged",
        "life": if model.dying { "dying" } else { "alive" },
        "status": {"current": condition(model), "since": model.created.status()},
        "users": {USER: {"display-name": USER, "access": "admin", "last-connection": "just now"}},
        "machines": machines,
        "secret-backends": {"internal": {"num-secrets": 0, "status": "active"}},
        "agent-version": model.version,
        "credential": {"name": "default", "owner": USER, "cloud": CLOUD, "validity-check": "valid"},
        "supported-features": [
            {"name": "juju", "description": "the version of Juju used by the model", "version": model.version},
        ],
    }})
}

pub(super) fn actions(state: &State, application: &str, schema: bool) -> Response {
    let Some(charm) = state.model.charm_of(application) else {
        return Err(Failure::new(format!("application \"{application}\" not found")));
    };
    let shown = charm
        .actions
        .iter()
        .map(|(name, action)| (name.clone(), if schema { action.schema.clone() } else { json!(action.description) }));
    Ok(Value::Object(shown.collect()))
}
