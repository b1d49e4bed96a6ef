//! Why a dispatch runs, and the variables that Juju sets for it.

use charm::{AppName, RelationId, UnitName};
use serde_json::Value;
use std::collections::BTreeMap;

/// A hook or an action to dispatch.
#[derive(Debug, Clone)]
pub struct Hook {
    pub(crate) path: String,
    pub(crate) variables: BTreeMap<&'static str, String>,
    pub(crate) relation: Option<RelationId>,
    pub(crate) parameters: Option<Value>,
}

impl std::fmt::Display for Hook {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())?;
        let about = ["JUJU_REMOTE_UNIT", "JUJU_DEPARTING_UNIT"].map(|key| self.variables.get(key));
        match about {
            [Some(unit), _] if unit.is_empty() => Ok(()),
            [Some(unit), Some(leaving)] if unit != leaving => write!(formatter, " {unit}, {leaving} leaves"),
            [Some(unit), _] => write!(formatter, " {unit}"),
            _ => Ok(()),
        }
    }
}

impl Hook {
    /// A hook that has a name and nothing more: `install`, `config-changed`, `update-status`, a timer of the charm's
    /// own.
    pub fn named(name: &str) -> Self {
        Self { path: format!("hooks/{name}"), variables: BTreeMap::new(), relation: None, parameters: None }
    }

    /// An action with its parameters.
    pub fn action(name: &str, parameters: Value) -> Self {
        let mut hook = Self::named("");
        hook.path = format!("actions/{name}");
        hook.variables.insert("JUJU_ACTION_NAME", name.to_owned());
        hook.parameters = Some(parameters);
        hook
    }

    /// A secret that the unit has read has another revision.
    pub fn secret_changed(id: &str, label: &str) -> Self {
        let mut hook = Self::named("secret-changed");
        hook.variables.insert("JUJU_SECRET_ID", format!("secret:{id}"));
        hook.variables.insert("JUJU_SECRET_LABEL", label.to_owned());
        hook
    }

    /// Nobody tracks a revision of a secret of the unit's application any more.
    pub fn secret_obsolete(id: &str, label: &str, revision: usize) -> Self {
        let mut hook = Self::named("secret-remove");
        hook.variables.insert("JUJU_SECRET_ID", id.to_owned());
        hook.variables.insert("JUJU_SECRET_LABEL", label.to_owned());
        hook.variables.insert("JUJU_SECRET_REVISION", revision.to_string());
        hook
    }

    /// Returns its name: `config-changed`, `slurmd-relation-joined`.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// A relation begins.
    pub fn created(relation: &RelationId, remote: &AppName) -> Self {
        Self::of_relation(relation, "created", Some(remote), None)
    }

    /// A remote unit is there.
    pub fn joined(relation: &RelationId, remote: &UnitName) -> Self {
        Self::of_relation(relation, "joined", Some(&remote.app()), Some(remote))
    }

    /// The bag of the remote application changed.
    pub fn app_changed(relation: &RelationId, remote: &AppName) -> Self {
        Self::of_relation(relation, "changed", Some(remote), None)
    }

    /// The bag of a remote unit changed.
    pub fn unit_changed(relation: &RelationId, remote: &UnitName) -> Self {
        Self::of_relation(relation, "changed", Some(&remote.app()), Some(remote))
    }

    /// A unit leaves: `leaving` is the remote one, or the own one if that is being removed.
    pub fn departed(relation: &RelationId, remote: &UnitName, leaving: &UnitName) -> Self {
        let mut hook = Self::of_relation(relation, "departed", Some(&remote.app()), Some(remote));
        hook.variables.insert("JUJU_DEPARTING_UNIT", leaving.to_string());
        hook
    }

    /// A relation ends. After a restart of the agent Juju does not say with whom.
    pub fn broken(relation: &RelationId, remote: Option<&AppName>) -> Self {
        Self::of_relation(relation, "broken", remote, None)
    }

    fn of_relation(relation: &RelationId, kind: &str, app: Option<&AppName>, unit: Option<&UnitName>) -> Self {
        let endpoint = relation.as_str().rsplit_once(':').map_or("", |(endpoint, _)| endpoint);
        let mut hook = Self::named(&format!("{endpoint}-relation-{kind}"));
        // Juju sets all of them in every hook of a relation, and leaves empty what does not apply.
        hook.variables.insert("JUJU_RELATION", endpoint.to_owned());
        hook.variables.insert("JUJU_RELATION_ID", relation.to_string());
        hook.variables.insert("JUJU_REMOTE_APP", app.map(ToString::to_string).unwrap_or_default());
        hook.variables.insert("JUJU_REMOTE_UNIT", unit.map(ToString::to_string).unwrap_or_default());
        hook.relation = Some(relation.clone());
        hook
    }
}
