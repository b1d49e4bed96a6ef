//! A model of Juju in memory: applications, units, relations, secrets, and what one dispatch does to them.
//!
//! How hook tools are answered is in `session`; what is kept is in `state`.

mod schedule;
mod session;
mod state;

pub use schedule::Ran;

use crate::hook::Hook;
use crate::knife::{Killed, Knife, PATIENCE, WaitsOn};
use crate::metadata::Metadata;
use charm::{AppName, Context, Databag, EndpointName, RelationId, Status, Tools, UnitName};
use serde_json::Value;
use session::{Outcome, Session};
use state::{App, Relation, State, Unit};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const MODEL_UUID: &str = "4f3a1a5e-1111-4222-8333-444455556666";

/// A world that Juju could not produce. A test that asks for one proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("impossible: {0}")]
pub struct Impossible(String);

impl Impossible {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// A model.
#[derive(Clone, Default)]
pub struct Model {
    state: Arc<Mutex<State>>,
    knife: Knife,
    agenda: Arc<Mutex<schedule::Agenda>>,
    waiting: Arc<Mutex<Option<Arc<schedule::Meanwhile>>>>,
}

/// What one dispatch did.
#[derive(Debug, Default)]
pub struct Dispatched {
    /// Whether it ended with 0, and so whether what it wrote was committed.
    pub succeeded: bool,
    /// Whether a [`Knife`] ended it.
    pub killed: bool,
    /// Every hook tool with its arguments, in order.
    pub calls: Vec<String>,
    /// What it logged, level and text.
    pub log: Vec<(String, String)>,
    /// What an action answered.
    pub results: Databag,
    /// Why an action says that it failed.
    pub failure: Option<String>,
}

impl Dispatched {
    /// Returns the calls that change something in the model, the log left out.
    pub fn writes(&self) -> Vec<&str> {
        let writes = |call: &&String| call.split(' ').next().is_some_and(writes);
        self.calls.iter().filter(writes).map(String::as_str).collect()
    }
}

/// Tells whether a hook tool changes something in the model, the log left out.
fn writes(tool: &str) -> bool {
    const WRITES: [&str; 14] = [
        "action-fail",
        "action-log",
        "action-set",
        "application-version-set",
        "close-port",
        "juju-reboot",
        "open-port",
        "relation-set",
        "secret-add",
        "secret-grant",
        "secret-remove",
        "secret-revoke",
        "secret-set",
        "status-set",
    ];
    WRITES.contains(&tool)
}

impl Model {
    /// Returns an empty model.
    pub fn new() -> Self {
        Self::default()
    }

    /// Has the model be one of Juju 3.6. Without this it is one of Juju 4, in which units hear less of each other's
    /// removal, and later.
    #[must_use]
    pub fn of_juju_3(self) -> Self {
        self.state().juju_3 = true;
        self
    }

    /// Returns what can end dispatches of this model before one of their effects.
    pub fn knife(&self) -> &Knife {
        &self.knife
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deploys a charm, described by its `charmcraft.yaml`, without units.
    pub fn deploy(&self, app: &str, charmcraft_yaml: &str) -> Result<AppName, Impossible> {
        let name: AppName = app.parse().map_err(|error| Impossible::new(format!("{error}")))?;
        let metadata = Metadata::parse(charmcraft_yaml).map_err(|error| Impossible::new(format!("{error}")))?;
        let mut state = self.state();
        if state.apps.contains_key(&name) {
            return Err(Impossible::new(format!("application {name} already exists")));
        }
        for endpoint in metadata.peers.keys() {
            let endpoint: EndpointName = endpoint.parse().map_err(|error| Impossible::new(format!("{error}")))?;
            state.relate(vec![(name.clone(), endpoint)]);
        }
        let options = metadata.defaults();
        state.apps.insert(name.clone(), App { metadata, options, ..App::default() });
        Ok(name)
    }

    /// Adds a unit. The first one leads.
    pub fn add_unit(&self, app: &AppName) -> Result<UnitName, Impossible> {
        let mut state = self.state();
        let found = state.apps.get_mut(app).filter(|app| !app.dying);
        let found = found.ok_or_else(|| Impossible::new(format!("no application {app}")))?;
        let unit: UnitName = format!("{app}/{}", found.next_unit).parse().expect("invariant: a unit name");
        found.next_unit += 1;
        found.leader.get_or_insert_with(|| unit.clone());
        found.units.insert(unit.clone(), Unit::default());
        Ok(unit)
    }

    /// Adds a unit of a subordinate application on the machine of another unit, as Juju does by itself when the two are
    /// integrated. It has to be put on that machine by [`host`](Self::host).
    pub fn add_subordinate(&self, app: &AppName, principal: &UnitName) -> Result<UnitName, Impossible> {
        self.state().unit(principal)?;
        let unit = self.add_unit(app)?;
        self.state().unit(&unit)?.principal = Some(principal.clone());
        Ok(unit)
    }

    /// Makes another unit lead.
    pub fn elect(&self, unit: &UnitName) -> Result<(), Impossible> {
        let mut state = self.state();
        state.unit(unit)?;
        if let Some(app) = state.apps.get_mut(&unit.app()) {
            app.leader = Some(unit.clone());
        }
        Ok(())
    }

    /// Begins the removal of a unit.
    pub fn begin_removal(&self, unit: &UnitName) -> Result<(), Impossible> {
        self.state().unit(unit)?.dying = true;
        Ok(())
    }

    /// Sets an option, which the charm must have declared with this type.
    pub fn set_option(&self, app: &AppName, option: &str, value: Value) -> Result<(), Impossible> {
        let mut state = self.state();
        let app = state.apps.get_mut(app).ok_or_else(|| Impossible::new(format!("no application {app}")))?;
        if let Some(objection) = app.metadata.objection(option, &value) {
            return Err(Impossible::new(objection));
        }
        app.options.insert(option.to_owned(), value);
        Ok(())
    }

    /// Integrates two endpoints, one of which provides what the other requires, and returns the relation as each of
    /// them sees it.
    pub fn integrate(
        &self,
        one: (&AppName, &str),
        other: (&AppName, &str),
    ) -> Result<(RelationId, RelationId), Impossible> {
        let mut state = self.state();
        let mut ends = Vec::new();
        let mut interfaces = Vec::new();
        for (app, endpoint) in [one, other] {
            let found = state.apps.get(app).filter(|app| !app.dying);
            let found = found.ok_or_else(|| Impossible::new(format!("no application {app}")))?;
            let interface = found.metadata.interface(endpoint);
            interfaces.push(
                interface
                    .map(|(interface, provides)| (interface.to_owned(), provides))
                    .ok_or_else(|| Impossible::new(format!("application {app} has no endpoint {endpoint}")))?,
            );
            let endpoint: EndpointName = endpoint.parse().map_err(|error| Impossible::new(format!("{error}")))?;
            ends.push((app.clone(), endpoint));
        }
        if interfaces[0].0 != interfaces[1].0 || interfaces[0].1 == interfaces[1].1 {
            return Err(Impossible::new(format!("{} and {} do not fit", one.1, other.1)));
        }
        if state.relations.values().any(|relation| relation.ends == ends) {
            return Err(Impossible::new("the relation already exists"));
        }
        let ids = ends.iter().map(|(_, endpoint)| endpoint.clone()).collect::<Vec<_>>();
        let number = state.relate(ends);
        Ok((Relation::id(&ids[0], number), Relation::id(&ids[1], number)))
    }

    /// Returns the peer relation of an application.
    pub fn peer(&self, app: &AppName) -> Option<RelationId> {
        let state = self.state();
        let mut relations = state.relations.iter();
        relations.find_map(|(number, relation)| match relation.ends.as_slice() {
            [(own, endpoint)] if own == app => Some(Relation::id(endpoint, *number)),
            _ => None,
        })
    }

    /// Returns the relations of an endpoint.
    pub fn relations(&self, app: &AppName, endpoint: &str) -> Vec<RelationId> {
        let state = self.state();
        let own = state.relations.iter().filter_map(|(number, relation)| relation.id_for(app, *number));
        own.filter(|id| id.as_str().rsplit_once(':').is_some_and(|(name, _)| name == endpoint)).collect()
    }

    /// Ends a relation; its bags and grants are gone.
    pub fn end(&self, relation: &RelationId) {
        self.state().end(relation.number());
    }

    /// Writes the bag of an application that the test plays itself.
    pub fn play(&self, app: &AppName, relation: &RelationId, bag: &Databag) -> Result<(), Impossible> {
        let mut state = self.state();
        let found = state.relations.get_mut(&relation.number()).filter(|relation| relation.has(app));
        let found = found.ok_or_else(|| Impossible::new(format!("application {app} is not in {relation}")))?;
        state::merge(found.bags.entry(app.to_string()).or_default(), bag);
        Ok(())
    }

    /// Writes the bag of a unit that the test plays itself.
    pub fn play_unit(&self, unit: &UnitName, relation: &RelationId, bag: &Databag) -> Result<(), Impossible> {
        let mut state = self.state();
        state.unit(unit)?;
        let found = state.relations.get_mut(&relation.number()).filter(|relation| relation.has(&unit.app()));
        let found = found.ok_or_else(|| Impossible::new(format!("unit {unit} is not in {relation}")))?;
        state::merge(found.bags.entry(unit.to_string()).or_default(), bag);
        Ok(())
    }

    /// Has the agent of a unit go on seeing the other application's bag as it is now, as Juju's does after a relation
    /// was made again; or takes that back, as a restart of the agent does.
    pub fn deafen(&self, unit: &UnitName, relation: &RelationId, deaf: bool) -> Result<(), Impossible> {
        let mut state = self.state();
        let known = state.relations.get(&relation.number());
        let bag = known.and_then(|known| known.bags.get(known.remote(&unit.app()).as_str())).cloned();
        let heard = &mut state.unit(unit)?.deaf_to;
        match deaf {
            true => heard.insert(relation.number(), bag.unwrap_or_default()),
            false => heard.remove(&relation.number()),
        };
        Ok(())
    }

    /// Makes a secret of an application that the test plays itself, granted over a relation, and returns its URI.
    pub fn play_secret(
        &self,
        app: &AppName,
        content: &BTreeMap<String, String>,
        relation: &RelationId,
    ) -> Result<String, Impossible> {
        let mut state = self.state();
        if !state.relations.get(&relation.number()).is_some_and(|relation| relation.has(app)) {
            return Err(Impossible::new(format!("application {app} is not in {relation}")));
        }
        let id = state.new_secret_id();
        let secret = state::Secret {
            owner: app.clone(),
            label: String::new(),
            revisions: vec![content.clone()],
            removed: Default::default(),
            grants: [relation.number()].into(),
        };
        state.secrets.insert(id.clone(), secret);
        Ok(format!("secret:{id}"))
    }

    /// Returns the bag of an application in a relation.
    pub fn app_bag(&self, relation: &RelationId, app: &AppName) -> Databag {
        self.bag(relation, app.as_str())
    }

    /// Returns the bag of a unit in a relation.
    pub fn unit_bag(&self, relation: &RelationId, unit: &UnitName) -> Databag {
        self.bag(relation, unit.as_str())
    }

    fn bag(&self, relation: &RelationId, owner: &str) -> Databag {
        let state = self.state();
        state
            .relations
            .get(&relation.number())
            .and_then(|relation| relation.bags.get(owner))
            .cloned()
            .unwrap_or_default()
    }

    /// Returns the content of an application's secret by its owner's label.
    pub fn secret(&self, app: &AppName, label: &str) -> Option<BTreeMap<String, String>> {
        let state = self.state();
        let secret = state.secrets.values().find(|secret| secret.owner == *app && secret.label == label);
        secret.and_then(|secret| secret.revisions.last()).cloned()
    }

    /// Returns who may read an application's secret: the relations by number.
    pub fn grants(&self, app: &AppName, label: &str) -> Vec<u64> {
        let state = self.state();
        let secret = state.secrets.values().find(|secret| secret.owner == *app && secret.label == label);
        secret.map(|secret| secret.grants.iter().copied().collect()).unwrap_or_default()
    }

    /// Takes the content of every secret away, as Juju up to 4.0.11 could; what is known about them stays.
    pub fn lose_secret_content(&self) {
        for secret in self.state().secrets.values_mut() {
            secret.revisions.iter_mut().for_each(BTreeMap::clear);
        }
    }

    /// Gives an application's secret a revision that its charm did not make.
    pub fn revise_secret(&self, app: &AppName, label: &str, content: BTreeMap<String, String>) {
        let mut state = self.state();
        let secret = state.secrets.values_mut().find(|secret| secret.owner == *app && secret.label == label);
        secret.into_iter().for_each(|secret| secret.revisions.push(content.clone()));
    }

    /// Has Juju deny every look into a secret, or no longer.
    pub fn deny_secrets(&self, deny: bool) {
        self.state().secrets_denied = deny;
    }

    /// Takes every grant of a secret away, as if none had taken.
    pub fn lose_grants(&self, app: &AppName, label: &str) {
        let mut state = self.state();
        let secret = state.secrets.values_mut().find(|secret| secret.owner == *app && secret.label == label);
        secret.into_iter().for_each(|secret| secret.grants.clear());
    }

    /// Returns the status that a unit shows. None if it never set one.
    pub fn status(&self, unit: &UnitName) -> Option<Status> {
        let state = self.state();
        let (word, message) = state.apps.get(&unit.app())?.units.get(unit)?.status.clone();
        Status::from_words(&word, &message)
    }

    /// Returns the ports that a unit has open.
    pub fn ports(&self, unit: &UnitName) -> Vec<String> {
        let state = self.state();
        let unit = state.apps.get(&unit.app()).and_then(|app| app.units.get(unit));
        unit.map(|unit| unit.ports.iter().cloned().collect()).unwrap_or_default()
    }

    /// Has the hook tool after the next `count` ones fail, without any effect.
    pub fn fail_after(&self, count: usize) {
        self.state().until_failure = Some(count);
    }

    /// Has a hook tool fail whenever it is called; None: no longer.
    pub fn refuse_tool(&self, tool: Option<&str>) {
        self.state().refused_tool = tool.map(str::to_owned);
    }

    /// Tells whether a failure that was ordered has not come yet, and takes the order back.
    pub fn spare(&self) -> bool {
        self.state().until_failure.take().is_some()
    }

    /// Dispatches a hook or an action on a unit: `run` is the charm. What it wrote counts only if it ends with 0, or if
    /// it was one of the charm's own `timers` that called: after `juju-exec` Juju commits what there is, also of a
    /// process that was killed.
    pub fn dispatch(
        &self,
        unit: &UnitName,
        timers: &[&'static str],
        hook: &Hook,
        run: impl FnOnce(Context, Tools) -> ExitCode,
    ) -> Result<Dispatched, Impossible> {
        self.check(unit, hook)?;
        self.knife.begin(unit);
        let environment = self.environment(unit, hook);
        let ctx = Context::read(timers, &|variable| environment.get(variable).cloned())
            .map_err(|error| Impossible::new(charm::log::chain(&error)))?;
        let session = Arc::new(Session::new(unit.clone(), Arc::clone(&self.state), hook.clone(), self.knife.clone()));
        let tools = Tools::with_runner(unit, Arc::clone(&session) as Arc<dyn charm::tools::ToolRunner>);
        let timer = hook.path.strip_prefix("hooks/").is_some_and(|name| timers.contains(&name));
        let outcome = match catch_unwind(AssertUnwindSafe(|| run(ctx, tools))) {
            Ok(code) if code == ExitCode::SUCCESS => Outcome::Succeeded,
            Ok(_) => Outcome::Failed,
            Err(payload) if payload.is::<Killed>() => Outcome::Killed,
            Err(payload) if payload.is::<WaitsOn>() => {
                let status = self.status(unit).map(|status| format!("{}: {}", status.word(), status.message()));
                panic!("{unit} {hook} still waits after {PATIENCE} pauses: {}", status.unwrap_or_default());
            }
            Err(payload) => resume_unwind(payload),
        };
        Ok(session.end(outcome, timer))
    }

    fn check(&self, unit: &UnitName, hook: &Hook) -> Result<(), Impossible> {
        let mut state = self.state();
        state.unit(unit)?;
        let app = unit.app();
        if let Some(relation) = &hook.relation {
            let found = state.relations.get(&relation.number());
            let own = found.is_some_and(|found| found.id_for(&app, relation.number()).as_ref() == Some(relation));
            if !own {
                return Err(Impossible::new(format!("{unit} has no relation {relation}")));
            }
        }
        if let Some(action) = hook.path.strip_prefix("actions/")
            && !state.apps[&app].metadata.actions.contains_key(action)
        {
            return Err(Impossible::new(format!("action \"{action}\" not defined for unit \"{unit}\"")));
        }
        Ok(())
    }

    fn environment(&self, unit: &UnitName, hook: &Hook) -> BTreeMap<&'static str, String> {
        let mut environment = hook.variables.clone();
        environment.insert("JUJU_DISPATCH_PATH", hook.path.clone());
        environment.insert("JUJU_UNIT_NAME", unit.to_string());
        environment.insert("JUJU_CHARM_DIR", format!("/var/lib/juju/agents/unit-{}/charm", unit.dashed()));
        environment.insert("JUJU_MODEL_UUID", MODEL_UUID.to_owned());
        environment.insert("JUJU_MODEL_NAME", "hpc".to_owned());
        let version = if self.state().juju_3 { "3.6.8" } else { "4.0.13" };
        environment.insert("JUJU_VERSION", version.to_owned());
        environment
    }
}
