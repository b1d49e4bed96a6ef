//! Charms as Juju reads them: the archive, its metadata, options and actions. Nothing here knows a model or a machine.

mod archive;
mod assumes;
mod config;
mod metadata;
mod schema;
mod storage;

pub use archive::{Archive, Refusal, unpack};
pub use assumes::{Assumption, unmet};
pub use config::ConfigOption;
pub use metadata::{Endpoint, Metadata, Role, Scope, check_endpoints};
pub use schema::{Action, insert_defaults, is_key, validate};
pub use storage::{Directives, StorageDefinition, parse_additions, parse_directives};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Everything of a charm but its files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Charm {
    pub metadata: Metadata,
    pub options: BTreeMap<String, ConfigOption>,
    pub actions: BTreeMap<String, Action>,
    /// `(name, channel)` of each base, such as `("ubuntu", "24.04")`.
    pub bases: Vec<(String, String)>,
    /// What it asks of Juju.
    #[serde(default)]
    pub assumes: Vec<Assumption>,
    /// Names of its resources.
    #[serde(default)]
    pub resources: Vec<String>,
}

impl Charm {
    /// The endpoint that every application provides without declaring it.
    pub fn juju_info() -> Endpoint {
        Endpoint {
            name: "juju-info".to_owned(),
            role: Role::Provider,
            interface: "juju-info".to_owned(),
            scope: Scope::Global,
            limit: None,
            implicit: true,
        }
    }

    /// Declared endpoints, and the implicit one.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let mut endpoints = self.metadata.endpoints.clone();
        endpoints.push(Charm::juju_info());
        endpoints
    }
}
