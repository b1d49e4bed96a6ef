//! `goal-state`: who exists, asked of the controller. Unlike `relation-list` it never names ghosts.

use super::{Juju, ToolError};
use crate::name::{AppName, UnitName};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The units of the own application and what is related, as the controller has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct GoalState {
    #[serde(default)]
    units: BTreeMap<String, Member>,
    #[serde(default)]
    relations: BTreeMap<String, BTreeMap<String, Member>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Member {
    status: String,
}

const DYING: &str = "dying";

impl GoalState {
    /// Returns the units of the own application that are to stay.
    pub fn planned_units(&self) -> Vec<UnitName> {
        staying(&self.units)
    }

    /// Returns the units of the own application, being removed or not.
    pub fn own_units(&self) -> Vec<UnitName> {
        self.units.keys().filter_map(|name| name.parse().ok()).collect()
    }

    /// Says whether a unit of the own application is being removed.
    pub fn is_dying(&self, unit: &UnitName) -> bool {
        self.units.get(unit.as_str()).is_some_and(|member| member.status == DYING)
    }

    /// Says whether an application is related at an endpoint, or will be: in `install` only this tells.
    pub fn has_relation(&self, endpoint: &str) -> bool {
        self.relations.get(endpoint).is_some_and(|members| !members.is_empty())
    }

    /// Says whether a remote unit at an endpoint is to stay.
    pub fn has_staying_unit(&self, endpoint: &str) -> bool {
        !self.remote_units(endpoint).is_empty()
    }

    /// Says whether an application is at an endpoint, by itself or by a unit of it, dying ones included.
    pub fn has_remote_app(&self, endpoint: &str, app: &AppName) -> bool {
        let members = || self.relations.get(endpoint).into_iter().flat_map(BTreeMap::keys);
        members().any(|name| name.split('/').next() == Some(app.as_str()))
    }

    /// Says whether a remote unit is at an endpoint, dying or not.
    pub fn has_remote_unit(&self, endpoint: &str, unit: &UnitName) -> bool {
        self.relations.get(endpoint).is_some_and(|members| members.contains_key(unit.as_str()))
    }

    /// Returns the remote units at an endpoint, being removed or not.
    pub fn all_remote_units(&self, endpoint: &str) -> Vec<UnitName> {
        let members = self.relations.get(endpoint).into_iter().flat_map(BTreeMap::keys);
        members.filter_map(|name| name.parse().ok()).collect()
    }

    /// Returns the remote units at an endpoint that are to stay.
    pub fn remote_units(&self, endpoint: &str) -> Vec<UnitName> {
        self.relations.get(endpoint).map(staying).unwrap_or_default()
    }
}

fn staying(members: &BTreeMap<String, Member>) -> Vec<UnitName> {
    members.iter().filter(|(_, member)| member.status != DYING).filter_map(|(name, _)| name.parse().ok()).collect()
}

impl Juju {
    /// Asks the controller who exists, once in a dispatch.
    pub fn goal_state(&self) -> Result<GoalState, ToolError> {
        self.link.ask_once("goal-state", &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dying_unit_is_still_there_and_so_is_its_application() {
        let goal = r#"{"relations": {"slurmd": {"compute/0": {"status": "dying"}, "gpu": {"status": "joined"}}}}"#;
        let goal: GoalState = serde_json::from_str(goal).unwrap();
        let app = |name: &str| goal.has_remote_app("slurmd", &name.parse().unwrap());
        assert_eq!(["compute", "gpu", "comp", "gpu2"].map(app), [true, true, false, false]);
        let unit = |name: &str| goal.has_remote_unit("slurmd", &name.parse().unwrap());
        assert_eq!(["compute/0", "compute/1", "gpu/0"].map(unit), [true, false, false]);
        assert!(!goal.has_remote_app("mount", &"gpu".parse().unwrap()));
        assert_eq!(goal.remote_units("slurmd"), []);
    }
}
