//! What a model keeps.

use super::Impossible;
use crate::metadata::Metadata;
use charm::{AppName, Databag, EndpointName, RelationId, UnitName};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) apps: BTreeMap<AppName, App>,
    pub(super) relations: BTreeMap<u64, Relation>,
    pub(super) secrets: BTreeMap<String, Secret>,
    /// Nobody may look into a secret.
    pub(super) secrets_denied: bool,
    /// How many hook tools are answered before one fails.
    pub(super) until_failure: Option<usize>,
    /// The hook tool that always fails.
    pub(super) refused_tool: Option<String>,
    /// The model is one of Juju 3.6.
    pub(super) juju_3: bool,
    next_relation: u64,
    next_secret: u64,
}

#[derive(Clone, Default)]
pub(super) struct App {
    pub(super) metadata: Metadata,
    pub(super) options: BTreeMap<String, Value>,
    pub(super) units: BTreeMap<UnitName, Unit>,
    pub(super) leader: Option<UnitName>,
    pub(super) next_unit: u64,
    pub(super) dying: bool,
}

#[derive(Clone, Default)]
pub(super) struct Unit {
    /// Juju's word and the message; empty before the first.
    pub(super) status: (String, String),
    pub(super) ports: BTreeSet<String>,
    pub(super) version: String,
    pub(super) dying: bool,
    /// The unit on whose machine it is, as its subordinate.
    pub(super) principal: Option<UnitName>,
    /// Relations whose other application its agent goes on seeing as it was at first, with that bag.
    pub(super) deaf_to: BTreeMap<u64, Databag>,
    /// Relations that it has left.
    pub(super) left: BTreeSet<u64>,
    /// Units that are gone from a relation without its agent having heard.
    pub(super) ghosts: BTreeSet<(u64, UnitName)>,
    /// Units whose departure from a relation its agent has heard of.
    pub(super) departed: BTreeSet<(u64, UnitName)>,
    /// Secrets that it has read, each with the latest revision it knows of and its label for it.
    pub(super) read: BTreeMap<String, (usize, String)>,
}

#[derive(Clone)]
pub(super) struct Relation {
    /// One for a peer relation, else two.
    pub(super) ends: Vec<(AppName, EndpointName)>,
    /// By name of the application or unit.
    pub(super) bags: BTreeMap<String, Databag>,
    /// It is for units on the same machine.
    pub(super) local: bool,
}

#[derive(Clone, PartialEq)]
pub(super) struct Secret {
    pub(super) owner: AppName,
    pub(super) label: String,
    pub(super) revisions: Vec<BTreeMap<String, String>>,
    /// Revisions that the owner has removed.
    pub(super) removed: BTreeSet<usize>,
    pub(super) grants: BTreeSet<u64>,
}

impl State {
    /// Returns the revisions of a secret that nobody tracks any more, and that its owner has not removed.
    pub(super) fn obsolete(&self, id: &str) -> Vec<usize> {
        let Some(secret) = self.secrets.get(id) else { return Vec::new() };
        let readers = || self.apps.values().flat_map(|app| app.units.values()).filter_map(|unit| unit.read.get(id));
        let tracked = |revision: &usize| readers().any(|(read, _)| read == revision);
        (1..secret.revisions.len()).filter(|own| !secret.removed.contains(own) && !tracked(own)).collect()
    }

    pub(super) fn unit(&mut self, unit: &UnitName) -> Result<&mut Unit, Impossible> {
        let found = self.apps.get_mut(&unit.app()).and_then(|app| app.units.get_mut(unit));
        found.ok_or_else(|| Impossible::new(format!("there is no unit {unit}")))
    }

    pub(super) fn relate(&mut self, ends: Vec<(AppName, EndpointName)>) -> u64 {
        let number = self.next_relation;
        self.next_relation += 1;
        let is_local = |(app, endpoint): &(AppName, EndpointName)| {
            self.apps.get(app).is_some_and(|app| app.metadata.is_local(endpoint.as_str()))
        };
        let local = ends.iter().any(is_local);
        self.relations.insert(number, Relation { ends, bags: BTreeMap::new(), local });
        number
    }

    pub(super) fn principal(&self, unit: &UnitName) -> Option<&UnitName> {
        self.apps.get(&unit.app())?.units.get(unit)?.principal.as_ref()
    }

    /// The subordinates of a unit.
    pub(super) fn subordinates(&self, unit: &UnitName) -> Vec<UnitName> {
        let units = self.apps.values().flat_map(|app| &app.units);
        units.filter(|(_, own)| own.principal.as_ref() == Some(unit)).map(|(name, _)| name.clone()).collect()
    }

    /// Says whether a unit may see another one in a relation that both are in. Juju 4 does not keep units of other
    /// machines out of a relation that is for one machine.
    pub(super) fn shows(&self, relation: &Relation, unit: &UnitName, other: &UnitName) -> bool {
        let of = |one, other| self.principal(one) == Some(other);
        !self.juju_3 || !relation.local || of(unit, other) || of(other, unit)
    }

    /// Ends a relation; its bags and grants are gone.
    pub(super) fn end(&mut self, number: u64) {
        self.relations.remove(&number);
        for secret in self.secrets.values_mut() {
            secret.grants.remove(&number);
        }
    }

    /// Takes over what a dispatch of a unit made of a state, and nothing else: others have gone on meanwhile.
    pub(super) fn take_over(&mut self, unit: &UnitName, base: &Self, draft: &Self) {
        let app = unit.app();
        for (number, relation) in &mut self.relations {
            for owner in [app.as_str(), unit.as_str()] {
                let bag = |state: &Self| state.relations.get(number).and_then(|found| found.bags.get(owner)).cloned();
                if let Some(changed) = bag(draft).filter(|changed| Some(changed) != bag(base).as_ref()) {
                    relation.bags.insert(owner.to_owned(), changed);
                }
            }
        }
        for id in base.secrets.keys().chain(draft.secrets.keys()) {
            match draft.secrets.get(id) {
                changed if changed == base.secrets.get(id) => {}
                Some(changed) => drop(self.secrets.insert(id.clone(), changed.clone())),
                None => drop(self.secrets.remove(id)),
            }
        }
        self.next_secret = self.next_secret.max(draft.next_secret);
        let own = |state: &Self| state.apps.get(&app).and_then(|found| found.units.get(unit)).cloned();
        if let (Ok(shared), Some(draft)) = (self.unit(unit), own(draft)) {
            (shared.ports, shared.read) = (draft.ports, draft.read);
        }
    }

    /// Shows a dispatch the secrets as they are, those that it changed itself excepted.
    pub(super) fn renew_secrets(&self, base: &mut Self, draft: &mut Self) {
        let ids: BTreeSet<&String> = self.secrets.keys().chain(base.secrets.keys()).collect::<BTreeSet<_>>();
        let ids: Vec<String> =
            ids.into_iter().filter(|id| base.secrets.get(*id) == draft.secrets.get(*id)).cloned().collect();
        for id in ids {
            for state in [&mut *base, &mut *draft] {
                match self.secrets.get(&id) {
                    Some(secret) => drop(state.secrets.insert(id.clone(), secret.clone())),
                    None => drop(state.secrets.remove(&id)),
                }
            }
        }
        draft.secrets_denied = self.secrets_denied;
    }

    /// Twenty letters and digits, as Juju makes them.
    pub(super) fn new_secret_id(&mut self) -> String {
        self.next_secret += 1;
        format!("d3k2v5nmp25c762q{:04}", self.next_secret)
    }
}

impl Relation {
    pub(super) fn id(endpoint: &EndpointName, number: u64) -> RelationId {
        format!("{endpoint}:{number}").parse().expect("invariant: an endpoint and a number")
    }

    pub(super) fn has(&self, app: &AppName) -> bool {
        self.ends.iter().any(|(own, _)| own == app)
    }

    /// The relation as an application sees it.
    pub(super) fn id_for(&self, app: &AppName, number: u64) -> Option<RelationId> {
        self.ends.iter().find(|(own, _)| own == app).map(|(_, endpoint)| Self::id(endpoint, number))
    }

    /// The other application; in a peer relation the own one.
    pub(super) fn remote(&self, app: &AppName) -> AppName {
        self.ends.iter().map(|(other, _)| other).find(|other| *other != app).unwrap_or(app).clone()
    }

    pub(super) fn is_peer(&self) -> bool {
        self.ends.len() == 1
    }
}

/// Writes keys into a bag; an empty value deletes its key.
pub(super) fn merge(bag: &mut Databag, values: &Databag) {
    for (key, value) in values {
        match value.is_empty() {
            true => bag.remove(key),
            false => bag.insert(key.clone(), value.clone()),
        };
    }
}
