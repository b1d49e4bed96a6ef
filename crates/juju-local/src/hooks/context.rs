//! What one run of the charm sees and has written so far: a stable view of the model, and changes that wait for the
//! charm to succeed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::steps::action_parameters;
use crate::clock::Moment;
use crate::model::{Hook, Model, OpenPort, RelationHook, Running, StatusInfo};
use crate::names::UnitName;

/// The relation a hook belongs to: the default of the relation tools.
#[derive(Clone, Debug)]
pub struct ContextRelation {
    pub id: u32,
    pub endpoint: String,
    /// Empty under `juju-exec -r`.
    pub remote_application: String,
    pub remote_unit: Option<UnitName>,
}

/// A change to a secret that waits for the commit.
#[derive(Clone)]
pub enum PendingSecret {
    Add {
        id: String,
        unit_owned: bool,
        label: String,
        description: String,
        content: BTreeMap<String, String>,
        expires: Option<Moment>,
        rotate: String,
    },
    Set {
        id: String,
        label: Option<String>,
        description: Option<String>,
        content: Option<BTreeMap<String, String>>,
        expires: Option<Moment>,
        rotate: Option<String>,
    },
    Remove {
        id: String,
        revision: Option<u32>,
    },
    Grant {
        id: String,
        relation: u32,
        target: String,
    },
    Revoke {
        id: String,
        target: String,
    },
}

#[derive(Clone, Debug, Default)]
pub struct ActionResult {
    pub parameters: Value,
    pub results: Map<String, Value>,
    pub failure: Option<String>,
}

/// Databags as they were when first read: relation, and name of the unit or application.
pub type Bags = BTreeMap<(u32, String), BTreeMap<String, String>>;

pub struct Context {
    /// `<unit>-<hook>-<32 hex digits>`.
    pub id: String,
    pub unit: UnitName,
    pub running: Running,
    pub relation: Option<ContextRelation>,
    /// Endpoint of each relation this unit has entered.
    pub endpoints: BTreeMap<u32, String>,
    /// Relations this unit has entered, and the members it knows of.
    pub members: BTreeMap<u32, Vec<UnitName>>,
    pub config: BTreeMap<String, Value>,
    pub bags: Bags,
    /// Once not the leader, not the leader to the end of the hook.
    pub deposed: bool,
    pub status: Option<StatusInfo>,
    pub application_status: Option<StatusInfo>,
    pub unit_changes: BTreeMap<u32, BTreeMap<String, Option<String>>>,
    pub application_changes: BTreeMap<u32, BTreeMap<String, Option<String>>>,
    pub state_changes: BTreeMap<String, Option<String>>,
    /// Ports as they will be; `None`: untouched.
    pub ports: Option<Vec<OpenPort>>,
    pub secrets: Vec<PendingSecret>,
    /// Storage to add, and how many of it.
    pub storage_adds: BTreeMap<String, u32>,
    /// Settings of the leader as they were when first read.
    pub leader_settings: Option<BTreeMap<String, String>>,
    pub task: Option<u64>,
    pub action: ActionResult,
    pub reboot: Option<Reboot>,
    /// The unit was removed under the running charm: what needs the controller is refused, and nothing is committed.
    pub orphaned: bool,
}

/// What `juju-reboot` asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reboot {
    /// When the hook has succeeded.
    Afterwards,
    /// At once; the hook runs again after the boot.
    Now,
}

impl Context {
    pub fn new(model: &Model, name: &UnitName, running: &Running) -> anyhow::Result<Context> {
        let Some(unit) = model.units.get(name) else { anyhow::bail!("unit {name} not found") };
        let (label, relation, task) = match running {
            Running::Hook(hook) => (hook.name(), relation_of(hook), None),
            Running::Task(id) => {
                let action = model.tasks.get(id).map(|task| task.action.clone()).unwrap_or_default();
                (action, None, Some(*id))
            }
            Running::Commands => ("run-commands".to_owned(), None, None),
        };
        let members = unit.uniter.relations.iter().filter(|(id, _)| model.relations.contains_key(id));
        let members = members.map(|(id, member)| (*id, member.units_seen.keys().cloned().collect())).collect();
        let side = |id: &u32| model.relations.get(id).and_then(|relation| relation.side_of(name.application()));
        let endpoints =
            unit.uniter.relations.keys().filter_map(|id| Some((*id, side(id)?.endpoint.name.clone()))).collect();
        let config = match (model.applications.get(name.application()), model.charm_of(name.application())) {
            (Some(application), Some(charm)) => application.effective_config(charm),
            _ => BTreeMap::new(),
        };
        let parameters = task.and_then(|id| action_parameters(model, id).ok()).unwrap_or_default();
        Ok(Context {
            id: format!("{name}-{label}-{}", crate::random_hex(16)?),
            unit: name.clone(),
            running: running.clone(),
            relation,
            endpoints,
            members,
            config,
            bags: BTreeMap::new(),
            deposed: false,
            status: None,
            application_status: None,
            unit_changes: BTreeMap::new(),
            application_changes: BTreeMap::new(),
            state_changes: BTreeMap::new(),
            ports: None,
            secrets: Vec::new(),
            storage_adds: BTreeMap::new(),
            leader_settings: None,
            task,
            action: ActionResult { parameters, ..ActionResult::default() },
            reboot: None,
            orphaned: false,
        })
    }

    /// Takes over what the agent read of the others in earlier runs. A member's bag stays as it was read until the hook
    /// that tells of its change, the remote application's likewise; what is not a member's is read anew.
    pub fn recall(&mut self, mut bags: Bags) {
        let told = self.relation.as_ref().filter(|_| matches!(self.running, Running::Hook(_))).map(|relation| {
            let entity = relation.remote_unit.as_ref().map_or(relation.remote_application.clone(), ToString::to_string);
            (relation.id, entity)
        });
        bags.retain(|key, _| Some(key) != told.as_ref() && self.is_others(key));
        self.bags = bags;
    }

    /// What the agent keeps of this run's reading.
    pub fn remember(mut self) -> Bags {
        let bags = std::mem::take(&mut self.bags);
        bags.into_iter().filter(|(key, _)| self.is_others(key)).collect()
    }

    fn is_others(&self, (relation, entity): &(u32, String)) -> bool {
        let Some(members) = self.members.get(relation) else { return false };
        match entity.contains('/') {
            true => members.iter().any(|member| member.as_str() == entity),
            false => entity != self.unit.application(),
        }
    }

    /// Whether this unit leads, for the rest of this context.
    pub fn leads(&mut self, model: &Model) -> bool {
        if !self.deposed && !model.is_leader(&self.unit) {
            self.deposed = true;
        }
        !self.deposed
    }

    /// A databag as this context sees it: as it was at the first read, with the own changes on top.
    pub fn bag(&mut self, model: &Model, relation: u32, entity: &str) -> Option<BTreeMap<String, String>> {
        let key = (relation, entity.to_owned());
        if !self.bags.contains_key(&key) {
            let record = model.relations.get(&relation)?;
            let bag = match entity.contains('/') {
                true => record.unit_bag(entity)?,
                false => record.application_bags.get(entity)?,
            };
            self.bags.insert(key.clone(), bag.values.clone());
        }
        let mut values = self.bags.get(&key)?.clone();
        let changes = match entity {
            own if own == self.unit.as_str() => self.unit_changes.get(&relation),
            own if own == self.unit.application() => self.application_changes.get(&relation),
            _ => None,
        };
        for (name, value) in changes.into_iter().flatten() {
            match value {
                Some(value) => values.insert(name.clone(), value.clone()),
                None => values.remove(name),
            };
        }
        Some(values)
    }

    pub fn state(&self, model: &Model) -> BTreeMap<String, String> {
        let mut state = model.units.get(&self.unit).map(|unit| unit.state.clone()).unwrap_or_default();
        for (key, value) in &self.state_changes {
            match value {
                Some(value) => state.insert(key.clone(), value.clone()),
                None => state.remove(key),
            };
        }
        state
    }

    pub fn open_ports(&self, model: &Model) -> Vec<OpenPort> {
        self.ports.clone().or_else(|| model.units.get(&self.unit).map(|unit| unit.ports.clone())).unwrap_or_default()
    }

    /// The hook's name for the environment: empty in actions and commands.
    pub fn hook_name(&self) -> String {
        match &self.running {
            Running::Hook(hook) => hook.name(),
            _ => String::new(),
        }
    }
}

fn relation_of(hook: &Hook) -> Option<ContextRelation> {
    let Hook::Relation(RelationHook { relation, endpoint, remote_application, remote_unit, .. }) = hook else {
        return None;
    };
    Some(ContextRelation {
        id: *relation,
        endpoint: endpoint.clone(),
        remote_application: remote_application.clone(),
        remote_unit: remote_unit.clone(),
    })
}
