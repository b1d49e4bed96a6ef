//! `goal-state`: who exists, asked of the controller at every call. Unlike `relation-list` it never names ghosts.

use super::{ToolError, Tools};
use crate::name::UnitName;
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
        self.units
            .iter()
            .filter(|(_, member)| member.status != DYING)
            .filter_map(|(name, _)| name.parse().ok())
            .collect()
    }

    /// Says whether a unit of the own application is being removed.
    pub fn is_dying(&self, unit: &UnitName) -> bool {
        self.units.get(unit.as_str()).is_some_and(|member| member.status == DYING)
    }

    /// Returns the remote units at an endpoint that are to stay.
    pub fn remote_units(&self, endpoint: &str) -> Vec<UnitName> {
        let members = self.relations.get(endpoint).into_iter().flatten();
        members.filter(|(_, member)| member.status != DYING).filter_map(|(name, _)| name.parse().ok()).collect()
    }
}

impl Tools {
    /// Asks the controller who exists.
    pub fn goal_state(&self) -> Result<GoalState, ToolError> {
        self.ask("goal-state", &[])
    }
}
