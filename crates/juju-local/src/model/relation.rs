//! Relations: who is related to whom, who is in scope, and the databags.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Life, Model};
use crate::charm::{Endpoint, Role, Scope};
use crate::clock::Moment;
use crate::names::UnitName;

/// One databag. The version counts changes of content, so that each reader knows what it has not seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bag {
    pub values: BTreeMap<String, String>,
    pub version: u64,
}

impl Bag {
    /// Applies changes (`None` deletes) and says whether the content is different now.
    pub fn apply(&mut self, changes: &BTreeMap<String, Option<String>>) -> bool {
        let before = self.values.clone();
        overlay(&mut self.values, changes);
        let changed = self.values != before;
        if changed {
            self.version += 1;
        }
        changed
    }
}

/// Lays pending changes over values.
pub fn overlay(values: &mut BTreeMap<String, String>, changes: &BTreeMap<String, Option<String>>) {
    for (key, value) in changes {
        match value {
            Some(value) => values.insert(key.clone(), value.clone()),
            None => values.remove(key),
        };
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    pub application: String,
    pub endpoint: Endpoint,
}

impl Side {
    pub fn label(&self) -> String {
        format!("{}:{}", self.application, self.endpoint.name)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Relation {
    pub id: u32,
    /// One for a peer relation, two otherwise.
    pub sides: Vec<Side>,
    pub life: Life,
    pub created: Moment,
    pub application_bags: BTreeMap<String, Bag>,
    /// Units in scope and their bags.
    pub unit_bags: BTreeMap<UnitName, Bag>,
    /// Bags of units that left; they can be read as long as the relation exists.
    pub archived_bags: BTreeMap<UnitName, Bag>,
    /// When the removal job looks next.
    pub removal_due: Moment,
    pub forced: bool,
    /// When the last unit left scope.
    pub emptied: Option<Moment>,
}

impl Relation {
    pub fn is_peer(&self) -> bool {
        self.sides.len() == 1
    }

    pub fn side_of(&self, application: &str) -> Option<&Side> {
        self.sides.iter().find(|side| side.application == application)
    }

    /// Whether one of its sides is that endpoint, whatever else the charm said of it when they were related.
    pub fn has_side(&self, side: &Side) -> bool {
        self.sides.iter().any(|own| own.application == side.application && own.endpoint.name == side.endpoint.name)
    }

    /// The other side; of a peer relation, the same one.
    pub fn other_side(&self, application: &str) -> Option<&Side> {
        self.sides.iter().find(|side| side.application != application).or_else(|| self.side_of(application))
    }

    pub fn scope(&self) -> Scope {
        match self.sides.iter().any(|side| side.endpoint.scope == Scope::Container) {
            true => Scope::Container,
            false => Scope::Global,
        }
    }

    /// A unit is no longer part of the relation.
    pub fn leave_scope(&mut self, unit: &UnitName) {
        if let Some(bag) = self.unit_bags.remove(unit) {
            self.archived_bags.insert(unit.clone(), bag);
        }
        if self.unit_bags.is_empty() {
            self.emptied = Some(Moment::now());
        }
    }

    pub fn unit_bag(&self, unit: &str) -> Option<&Bag> {
        self.unit_bags.get(unit).or_else(|| self.archived_bags.get(unit))
    }

    /// Units that `unit` is to hear of, in the order it hears of them.
    pub fn counterparts<'a>(&'a self, unit: &'a UnitName) -> impl Iterator<Item = (&'a UnitName, &'a Bag)> {
        let peer = self.is_peer();
        self.unit_bags.iter().filter(move |(other, _)| match peer {
            true => *other != unit,
            false => other.application() != unit.application(),
        })
    }

    /// `requirer.endpoint#provider.endpoint`, as secrets name the relation.
    pub fn key(&self) -> String {
        let mut sides: Vec<&Side> = self.sides.iter().collect();
        sides.sort_by_key(|side| side.endpoint.role == Role::Provider);
        let names: Vec<String> =
            sides.iter().map(|side| format!("{}.{}", side.application, side.endpoint.name)).collect();
        names.join("#")
    }
}

/// A possible pair of endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate(pub Side, pub Side);

impl Model {
    /// All pairs of endpoints that `one` and `other` (`app` or `app:endpoint`) may stand for; errors in Juju's words.
    pub fn candidates(&self, one: &str, other: &str) -> Result<Vec<Candidate>, String> {
        let left = self.sides(one)?;
        let right = self.sides(other)?;
        let fits = |a: &Side, b: &Side| {
            let roles = (a.endpoint.role, b.endpoint.role);
            let opposite = matches!(roles, (Role::Provider, Role::Requirer) | (Role::Requirer, Role::Provider));
            opposite && a.endpoint.interface == b.endpoint.interface && a.application != b.application
        };
        let mut found: Vec<Candidate> = left
            .iter()
            .flat_map(|a| right.iter().filter(|b| fits(a, b)).map(|b| Candidate(a.clone(), b.clone())))
            .collect();
        // An implicit endpoint counts only where nothing declared fits.
        if found.iter().any(|pair| !pair.0.endpoint.implicit && !pair.1.endpoint.implicit) {
            found.retain(|pair| !pair.0.endpoint.implicit && !pair.1.endpoint.implicit);
        }
        match found.is_empty() {
            true => Err("no compatible endpoints found between applications".to_owned()),
            false => Ok(found),
        }
    }

    fn sides(&self, reference: &str) -> Result<Vec<Side>, String> {
        let (application, endpoint) = match reference.split_once(':') {
            Some((application, endpoint)) => (application, Some(endpoint)),
            None => (reference, None),
        };
        let endpoints = self.charm_of(application).map(|charm| charm.endpoints()).unwrap_or_default();
        let sides: Vec<Side> = endpoints
            .into_iter()
            .filter(|candidate| endpoint.is_none_or(|name| candidate.name == name))
            .map(|endpoint| Side { application: application.to_owned(), endpoint })
            .collect();
        match sides.is_empty() {
            true => Err(format!("no candidates for {reference}: relation endpoint not found")),
            false => Ok(sides),
        }
    }

    pub fn add_relation(&mut self, sides: Vec<Side>) -> u32 {
        let id = self.counters.relation;
        self.counters.relation += 1;
        let application_bags = sides.iter().map(|side| (side.application.clone(), Bag::default())).collect();
        let relation = Relation {
            id,
            sides,
            life: Life::Alive,
            created: Moment::now(),
            application_bags,
            unit_bags: BTreeMap::new(),
            archived_bags: BTreeMap::new(),
            removal_due: Moment(0),
            forced: false,
            emptied: None,
        };
        self.relations.insert(id, relation);
        id
    }

    pub fn relations_of<'a>(&'a self, application: &'a str) -> impl Iterator<Item = &'a Relation> {
        self.relations.values().filter(move |relation| relation.side_of(application).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(pairs: &[(&str, &str)]) -> BTreeMap<String, Option<String>> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (!v.is_empty()).then(|| (*v).to_owned()))).collect()
    }

    #[test]
    fn only_a_real_change_counts() {
        let mut bag = Bag::default();
        assert!(bag.apply(&changes(&[("a", "1")])));
        assert!(!bag.apply(&changes(&[("a", "1")])));
        assert!(!bag.apply(&changes(&[("missing", "")])));
        assert!(bag.apply(&changes(&[("a", "")])));
        assert_eq!(bag.version, 2);
    }
}
