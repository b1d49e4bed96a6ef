//! `metadata.yaml` and `manifest.yaml`: parsed and checked in Juju's words. No files.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::storage::{StorageDefinition, parse_storage};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Provider,
    Requirer,
    Peer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    Global,
    Container,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub name: String,
    pub role: Role,
    pub interface: String,
    pub scope: Scope,
    /// How many relations it may have; none: any number.
    #[serde(default)]
    pub limit: Option<u32>,
    /// `juju-info`: its side of a relation runs no hooks.
    pub implicit: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Metadata {
    pub name: String,
    pub subordinate: bool,
    pub storage: Vec<StorageDefinition>,
    pub endpoints: Vec<Endpoint>,
    /// Names beside the endpoints that `network-get` knows.
    #[serde(default)]
    pub extra_bindings: Vec<String>,
}

/// Parses YAML text into a JSON value; the error has Go's prefix.
pub fn yaml_value(text: &str) -> Result<Value, String> {
    crate::yaml::parse(text)
}

pub fn parse_metadata(text: &str) -> Result<Metadata, String> {
    let value = yaml_value(text)?;
    for key in ["name", "summary", "description"] {
        if !value.get(key).is_some_and(Value::is_string) {
            let found = if value.get(key).is_none_or(Value::is_null) { "nothing" } else { "something else" };
            return Err(format!("metadata: {key}: expected string, got {found}"));
        }
    }
    let name = value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let subordinate = value.get("subordinate").and_then(Value::as_bool).unwrap_or(false);
    let mut endpoints = Vec::new();
    for (key, role) in [("provides", Role::Provider), ("requires", Role::Requirer), ("peers", Role::Peer)] {
        for (endpoint, body) in value.get(key).and_then(Value::as_object).into_iter().flatten() {
            endpoints.push(parse_endpoint(endpoint, role, body)?);
        }
    }
    let contained = |endpoint: &Endpoint| endpoint.role == Role::Requirer && endpoint.scope == Scope::Container;
    if subordinate && !endpoints.iter().any(contained) {
        return Err(format!("subordinate charm \"{name}\" lacks \"requires\" relation with container scope"));
    }
    let storage = parse_storage(&value)?;
    let extra_bindings = value.get("extra-bindings").and_then(Value::as_object);
    let extra_bindings = extra_bindings.map(|names| names.keys().cloned().collect()).unwrap_or_default();
    Ok(Metadata { name, subordinate, storage, endpoints, extra_bindings })
}

fn parse_endpoint(name: &str, role: Role, body: &Value) -> Result<Endpoint, String> {
    let interface = body
        .as_str()
        .or_else(|| body.get("interface").and_then(Value::as_str))
        .ok_or_else(|| format!("metadata: endpoint {name}: interface: expected string, got nothing"))?;
    let scope = match body.get("scope").and_then(Value::as_str) {
        None | Some("global") => Scope::Global,
        Some("container") => Scope::Container,
        Some(other) => return Err(format!("metadata: endpoint {name}: scope: unexpected value \"{other}\"")),
    };
    let limit = body.get("limit").and_then(Value::as_u64).and_then(|limit| u32::try_from(limit).ok());
    let limit = limit.filter(|limit| *limit > 0);
    Ok(Endpoint { name: name.to_owned(), role, interface: interface.to_owned(), scope, limit, implicit: false })
}

/// The bases of `manifest.yaml` as `(name, channel)`.
pub fn parse_bases(text: &str) -> Result<Vec<(String, String)>, String> {
    let value = yaml_value(text)?;
    let bases = value.get("bases").and_then(Value::as_array).cloned().unwrap_or_default();
    Ok(bases
        .iter()
        .filter_map(|base| {
            let channel = base.get("channel").and_then(Value::as_str)?;
            let track = channel.split('/').next().unwrap_or(channel);
            Some((base.get("name").and_then(Value::as_str)?.to_owned(), track.to_owned()))
        })
        .collect())
}

/// What Juju refuses when a charm is uploaded: names it keeps for itself, and names used twice.
pub fn check_endpoints(metadata: &Metadata) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    let mut twice = Vec::new();
    for endpoint in &metadata.endpoints {
        let role = match endpoint.role {
            Role::Provider => "provides",
            Role::Requirer => "requires",
            Role::Peer => "peers",
        };
        let contained = endpoint.role == Role::Requirer && endpoint.scope == Scope::Container;
        if (endpoint.name == "juju" || endpoint.name.starts_with("juju-")) && !contained {
            return Err(format!(
                "charm relation reserved name misuse; {role} relation \"{}\" has reserved name",
                endpoint.name
            ));
        }
        if !seen.insert(&endpoint.name) {
            twice.push(endpoint.name.clone());
        }
    }
    match twice.is_empty() {
        true => Ok(()),
        false => Err(format!("charm relation name conflict {}", crate::flags::quoted_list(&twice))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name: x\nsummary: s\ndescription: d\n";

    #[test]
    fn endpoints_may_be_short_or_long() {
        let text = format!("{HEAD}provides: {{a: one}}\nrequires: {{b: {{interface: two, scope: container}}}}\n");
        let metadata = parse_metadata(&text).unwrap();
        assert_eq!(metadata.endpoints.len(), 2);
        assert_eq!(metadata.endpoints[0].interface, "one");
        assert_eq!(metadata.endpoints[1].scope, Scope::Container);
    }

    #[test]
    fn a_missing_summary_is_refused_in_jujus_words() {
        assert_eq!(
            parse_metadata("name: x\ndescription: d\n").unwrap_err(),
            "metadata: summary: expected string, got nothing"
        );
    }

    #[test]
    fn a_subordinate_needs_a_container_relation() {
        let error = parse_metadata(&format!("{HEAD}subordinate: true\n")).unwrap_err();
        assert_eq!(error, "subordinate charm \"x\" lacks \"requires\" relation with container scope");
    }

    #[test]
    fn a_base_is_known_by_its_track() {
        let text = "bases: [{name: ubuntu, channel: 24.04/stable, architectures: [amd64]}]";
        assert_eq!(parse_bases(text).unwrap(), [("ubuntu".to_owned(), "24.04".to_owned())]);
    }
}
