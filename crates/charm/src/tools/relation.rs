//! `relation-ids`, `relation-list`, `relation-get`, `relation-set`: who is related, and the bags.

use super::{Databag, ToolError, Tools};
use crate::name::{AppName, EndpointName, RelationId, UnitName};

impl Tools {
    /// Lists the relations of an endpoint. In `-broken` Juju may or may not list the relation that ends.
    pub fn relation_ids(&self, endpoint: &EndpointName) -> Result<Vec<RelationId>, ToolError> {
        let texts: Option<Vec<String>> = self.ask("relation-ids", &[endpoint.as_str()])?;
        texts.unwrap_or_default().iter().map(|text| parsed("relation-ids", text)).collect()
    }

    /// Lists the remote units the agent knows of. It may name units that are gone; `goal_state` does not.
    pub fn relation_list(&self, relation: &RelationId) -> Result<Vec<UnitName>, ToolError> {
        let texts: Option<Vec<String>> = self.ask("relation-list", &["-r", relation.as_str()])?;
        texts.unwrap_or_default().iter().map(|text| parsed("relation-list", text)).collect()
    }

    /// Names the application at the other end. None while Juju does not know it.
    pub fn relation_list_app(&self, relation: &RelationId) -> Result<Option<AppName>, ToolError> {
        let text: Option<String> = self.ask("relation-list", &["-r", relation.as_str(), "--app"])?;
        text.filter(|text| !text.is_empty()).map(|text| parsed("relation-list", &text)).transpose()
    }

    /// Reads the bag of an application: the remote one, or on the leader its own.
    ///
    /// Juju may print an unset bag as `null` and an empty one as `{}`; both are an empty map here.
    pub fn relation_get_app(&self, relation: &RelationId, app: &AppName) -> Result<Databag, ToolError> {
        let bag: Option<Databag> = self.ask("relation-get", &["-r", relation.as_str(), "--app", "-", app.as_str()])?;
        Ok(bag.unwrap_or_default())
    }

    /// Reads the bag of a unit, its own included. Juju's own keys, such as `ingress-address`, are in it.
    pub fn relation_get_unit(&self, relation: &RelationId, unit: &UnitName) -> Result<Databag, ToolError> {
        let bag: Option<Databag> = self.ask("relation-get", &["-r", relation.as_str(), "-", unit.as_str()])?;
        Ok(bag.unwrap_or_default())
    }

    /// Writes keys of the own application's bag; only the leader may. An empty value deletes its key.
    pub fn relation_set_app(&self, relation: &RelationId, values: &Databag) -> Result<(), ToolError> {
        self.tell_map("relation-set", &["-r", relation.as_str(), "--app", "--file", "-"], values)
    }

    /// Writes keys of the own unit's bag. An empty value deletes its key.
    pub fn relation_set_unit(&self, relation: &RelationId, values: &Databag) -> Result<(), ToolError> {
        self.tell_map("relation-set", &["-r", relation.as_str(), "--file", "-"], values)
    }
}

/// Takes a name out of Juju's answer; one that is malformed is Juju's mistake and not the charm's to guess at.
pub(super) fn parsed<T>(tool: &'static str, text: &str) -> Result<T, ToolError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    use serde::de::Error;
    text.parse().map_err(|error| ToolError::Decode {
        command: tool.to_owned(),
        source: serde_json::Error::custom(format_args!("{error}")),
    })
}
