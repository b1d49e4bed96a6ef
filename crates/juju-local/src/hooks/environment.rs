//! The environment a charm's process gets. It is built from scratch: nothing of the agent's own comes along but `PATH`,
//! which the agent adds on the machine.

use std::collections::BTreeMap;

use super::context::Context;
use crate::model::{Hook, Model, RelationHook, RelationKind, Release, Running, SecretHook};
use crate::paths::inside;

pub fn environment(model: &Model, context: &Context, api_address: &str) -> BTreeMap<String, String> {
    let unit = &context.unit;
    let mut variables = BTreeMap::new();
    let mut set = |name: &str, value: &str| {
        variables.insert(name.to_owned(), value.to_owned());
    };
    let record = model.units.get(unit);
    let charm = inside::charm(unit);
    set("APT_LISTCHANGES_FRONTEND", "none");
    set("CHARM_DIR", &charm);
    set("CLOUD_API_VERSION", "");
    set("DEBIAN_FRONTEND", "noninteractive");
    set("JUJU_AGENT_SOCKET_ADDRESS", &inside::agent_socket(unit));
    set("JUJU_AGENT_SOCKET_NETWORK", "unix");
    set("JUJU_API_ADDRESSES", api_address);
    set("JUJU_AVAILABILITY_ZONE", "");
    set("JUJU_CHARM_DIR", &charm);
    for (name, key) in
        [("FTP", "juju-ftp-proxy"), ("HTTPS", "juju-https-proxy"), ("HTTP", "juju-http-proxy"), ("NO", "juju-no-proxy")]
    {
        let value = model.setting(key).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
        set(&format!("JUJU_CHARM_{name}_PROXY"), &value);
    }
    match model.release {
        Release::V4 => {
            for name in ["CA_CERT", "GRPC", "HTTP"] {
                set(&format!("JUJU_CHARM_TRACE_CONFIG_{name}"), "");
            }
        }
        Release::V3 => set("JUJU_SLA", ""),
    }
    set("JUJU_CONTEXT_ID", &context.id);
    set("JUJU_HOOK_NAME", &context.hook_name());
    set("JUJU_MACHINE_ID", record.map_or("", |record| record.machine.as_str()));
    set("JUJU_MODEL_NAME", &model.name);
    set("JUJU_MODEL_UUID", &model.uuid);
    let principal = record.and_then(|record| record.principal.as_ref());
    set("JUJU_PRINCIPAL_UNIT", principal.map_or("", |principal| principal.as_str()));
    set("JUJU_UNIT_NAME", unit.as_str());
    set("JUJU_VERSION", &model.version);
    set("LANG", "C.UTF-8");
    set("TERM", "tmux-256color");
    if let Some(relation) = &context.relation {
        set("JUJU_RELATION", &relation.endpoint);
        set("JUJU_RELATION_ID", &format!("{}:{}", relation.endpoint, relation.id));
        set("JUJU_REMOTE_APP", &relation.remote_application);
        set("JUJU_REMOTE_UNIT", relation.remote_unit.as_ref().map_or("", |remote| remote.as_str()));
    }
    match &context.running {
        Running::Hook(hook) => {
            if let Hook::Relation(RelationHook { kind: RelationKind::Departed, departing, .. }) = hook {
                set("JUJU_DEPARTING_UNIT", departing.as_ref().map_or("", |unit| unit.as_str()));
            }
            set("JUJU_DISPATCH_PATH", &format!("hooks/{}", hook.name()));
            match hook {
                Hook::Secret(SecretHook::Changed { id, label }) => {
                    set("JUJU_SECRET_ID", &format!("secret:{id}"));
                    set("JUJU_SECRET_LABEL", label);
                }
                Hook::Secret(SecretHook::Rotate { id, label }) => {
                    set("JUJU_SECRET_ID", &format!("secret:{id}"));
                    set("JUJU_SECRET_LABEL", label);
                }
                Hook::StorageAttached(id) | Hook::StorageDetaching(id) => {
                    set("JUJU_STORAGE_ID", id);
                    let location = model.storage.get(id).map(|storage| storage.location.clone()).unwrap_or_default();
                    set("JUJU_STORAGE_LOCATION", &location);
                    set("JUJU_STORAGE_KIND", "filesystem");
                }
                Hook::Secret(
                    SecretHook::Remove { id, label, revision } | SecretHook::Expired { id, label, revision },
                ) => {
                    set("JUJU_SECRET_ID", id);
                    set("JUJU_SECRET_LABEL", label);
                    set("JUJU_SECRET_REVISION", &revision.to_string());
                }
                _ => {}
            }
        }
        Running::Task(id) => {
            let action = model.tasks.get(id).map(|task| task.action.clone()).unwrap_or_default();
            set("JUJU_ACTION_NAME", &action);
            set("JUJU_ACTION_UUID", &id.to_string());
            set("JUJU_ACTION_TAG", &format!("action-{id}"));
            if action != "juju-exec" {
                set("JUJU_DISPATCH_PATH", &format!("actions/{action}"));
            }
        }
        Running::Commands => {}
    }
    variables
}
