//! One dispatch as Juju's agent sees it: hook tools answered from a draft of the model, which becomes the model if all
//! ends well.
//!
//! Texts and exit codes are Juju's. Secrets are in `secrets`.

mod secrets;

use super::Dispatched;
use super::state::{Relation, State, Unit, merge};
use crate::hook::Hook;
use crate::knife::Knife;
use charm::tools::{Call, Output, ToolRunner};
use charm::{Databag, UnitName};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// How a dispatch ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Succeeded,
    Failed,
    Killed,
}

pub(super) struct Session {
    unit: UnitName,
    knife: Knife,
    shared: Arc<Mutex<State>>,
    inner: Mutex<Inner>,
}

struct Inner {
    unit: UnitName,
    hook: Hook,
    /// What there was at the start.
    base: State,
    draft: State,
    /// What there was at the last question about what is to be.
    goal: State,
    /// Secrets made in this dispatch.
    added: BTreeSet<String>,
    done: Dispatched,
}

/// What a tool prints, or its exit code and complaint.
type Answer = Result<String, (i32, String)>;

fn refused<T>(text: impl Into<String>) -> Result<T, (i32, String)> {
    Err((1, format!("ERROR {}", text.into())))
}

fn misused<T>(text: impl Into<String>) -> Result<T, (i32, String)> {
    Err((2, format!("ERROR {}", text.into())))
}

impl Session {
    pub(super) fn new(unit: UnitName, shared: Arc<Mutex<State>>, hook: Hook, knife: Knife) -> Self {
        let draft = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let done = Dispatched::default();
        let base = draft.clone();
        let inner =
            Inner { unit: unit.clone(), hook, base, draft, goal: State::default(), added: BTreeSet::new(), done };
        Self { unit, knife, shared, inner: Mutex::new(inner) }
    }

    /// Commits what the dispatch changed, or drops it. Nothing can be committed for a unit that is gone.
    pub(super) fn end(&self, outcome: Outcome, timer: bool) -> Dispatched {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let there = shared.unit(&self.unit).is_ok();
        if there && (outcome == Outcome::Succeeded || timer) {
            shared.take_over(&self.unit, &inner.base, &inner.draft);
        }
        inner.done.succeeded = there && outcome == Outcome::Succeeded;
        inner.done.killed = outcome == Outcome::Killed;
        std::mem::take(&mut inner.done)
    }

    /// Status and version take effect whatever becomes of the dispatch.
    fn at_once(&self, inner: &mut Inner, change: impl Fn(&mut Unit)) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        for state in [&mut *shared, &mut inner.draft] {
            if let Ok(unit) = state.unit(&self.unit) {
                change(unit);
            }
        }
    }

    /// Tells whether this call is the one that a test wants to fail.
    fn fails(&self, tool: &str) -> bool {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.refused_tool.as_deref() == Some(tool) {
            return true;
        }
        let fails = shared.until_failure == Some(0);
        shared.until_failure = shared.until_failure.and_then(|left| left.checked_sub(1));
        fails
    }

    fn answer(&self, call: &Call<'_>) -> Answer {
        if super::writes(call.tool) {
            self.knife.before(call.command_line());
        }
        // A log that cannot be written stops no charm, so failing it would show nothing.
        let fails = call.tool != "juju-log" && self.fails(call.tool);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = &mut *inner;
        inner.done.calls.push(call.command_line());
        if fails {
            return refused("made to fail");
        }
        let arguments = Arguments::of(call);
        match call.tool {
            "status-set" => {
                let [word, message] = arguments.words.as_slice() else { return misused("invalid args") };
                if !["maintenance", "blocked", "waiting", "active"].contains(&word.as_str()) {
                    return misused(format!(
                        "invalid status \"{word}\", expected one of [maintenance blocked waiting active]"
                    ));
                }
                self.at_once(inner, |unit| unit.status = (word.clone(), message.clone()));
                Ok(String::new())
            }
            "application-version-set" => {
                let version = arguments.words.join(" ");
                self.at_once(inner, |unit| unit.version = version.clone());
                Ok(String::new())
            }
            tool => {
                self.refresh(inner, tool)?;
                inner.answer(call, &arguments)
            }
        }
    }

    /// Goal state and secrets are asked of the controller each time; the rest is as it was when the hook began. A unit
    /// that is gone gets no answer from there.
    fn refresh(&self, inner: &mut Inner, tool: &str) -> Result<(), (i32, String)> {
        let asks = tool == "goal-state" || tool.starts_with("secret-");
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let there = shared.unit(&self.unit).is_ok();
        if !there && asks {
            return refused("connection is shutdown before send");
        }
        if !there && let Some(app) = inner.draft.apps.get_mut(&self.unit.app()) {
            app.leader = None;
        }
        match tool {
            "goal-state" => inner.goal = shared.clone(),
            _ if asks => shared.renew_secrets(&mut inner.base, &mut inner.draft),
            _ => {}
        }
        Ok(())
    }
}

impl ToolRunner for Session {
    fn run(&self, call: &Call<'_>) -> io::Result<Output> {
        Ok(match self.answer(call) {
            Ok(stdout) => Output { exit_code: Some(0), stdout: stdout.into_bytes(), stderr: Vec::new() },
            Err((code, stderr)) => Output { exit_code: Some(code), stdout: Vec::new(), stderr: stderr.into_bytes() },
        })
    }
}

/// Arguments of a tool, taken apart: options with a value, flags, words.
struct Arguments {
    options: Vec<(String, String)>,
    flags: Vec<String>,
    words: Vec<String>,
    stdin: Databag,
}

impl Arguments {
    fn of(call: &Call<'_>) -> Self {
        const WITH_VALUE: [&str; 11] = [
            "-r",
            "-l",
            "-s",
            "--file",
            "--label",
            "--owner",
            "--description",
            "--revision",
            "--unit",
            "--rotate",
            "--expire",
        ];
        let mut arguments = Self { options: Vec::new(), flags: Vec::new(), words: Vec::new(), stdin: Databag::new() };
        let mut rest = call.arguments.iter();
        while let Some(argument) = rest.next() {
            if *argument == "--" {
                arguments.words.extend(rest.by_ref().map(|word| (*word).to_owned()));
            } else if WITH_VALUE.contains(argument) {
                let value = rest.next().copied().unwrap_or_default();
                arguments.options.push(((*argument).to_owned(), value.to_owned()));
            } else if argument.starts_with('-') && *argument != "-" {
                arguments.flags.push((*argument).to_owned());
            } else {
                arguments.words.push((*argument).to_owned());
            }
        }
        if arguments.option("--file") == Some("-") {
            arguments.stdin = serde_json::from_slice(call.stdin.unwrap_or_default()).unwrap_or_default();
        }
        arguments
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(option, _)| option == name).map(|(_, value)| value.as_str())
    }

    fn flag(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag == name)
    }

    fn word(&self) -> &str {
        self.words.first().map(String::as_str).unwrap_or_default()
    }
}

impl Inner {
    fn leads(&self) -> bool {
        self.draft.apps[&self.unit.app()].leader.as_ref() == Some(&self.unit)
    }

    fn own(&mut self) -> &mut Unit {
        self.draft.unit(&self.unit).expect("invariant: the unit was there at the start")
    }

    fn has_left(&self, relation: u64) -> bool {
        let own = self.draft.apps.get(&self.unit.app()).and_then(|app| app.units.get(&self.unit));
        own.is_some_and(|own| own.left.contains(&relation))
    }

    fn ghosts(&self, relation: u64) -> Vec<&UnitName> {
        let own = self.draft.apps.get(&self.unit.app()).and_then(|app| app.units.get(&self.unit));
        let ghosts = own.map(|own| &own.ghosts).into_iter().flatten();
        ghosts.filter(|(number, _)| *number == relation).map(|(_, unit)| unit).collect()
    }

    fn relation(&self, arguments: &Arguments) -> Result<(u64, &Relation), (i32, String)> {
        let Some(text) = arguments.option("-r") else { return misused("no relation id specified") };
        let number = text.rsplit_once(':').map_or(text, |(_, number)| number).parse::<u64>();
        let found = number.ok().and_then(|number| Some((number, self.draft.relations.get(&number)?)));
        match found.filter(|(number, relation)| relation.has(&self.unit.app()) && !self.has_left(*number)) {
            Some(found) => Ok(found),
            None => misused(format!("invalid value \"{text}\" for option -r: relation not found")),
        }
    }

    fn answer(&mut self, call: &Call<'_>, arguments: &Arguments) -> Answer {
        let app = self.unit.app();
        match call.tool {
            "is-leader" => Ok(self.leads().to_string()),
            "config-get" => Ok(json!(self.draft.apps[&app].options).to_string()),
            "juju-log" => {
                let level = arguments.option("-l").unwrap_or("INFO").to_owned();
                self.done.log.push((level, arguments.words.join(" ")));
                Ok(String::new())
            }
            "status-get" => {
                let (word, message) = self.own().status.clone();
                let word = if word.is_empty() { "unknown".to_owned() } else { word };
                Ok(json!({"status": word, "message": message, "status-data": {}}).to_string())
            }
            "goal-state" => Ok(self.goal_state().to_string()),
            "relation-ids" => Ok(self.relation_ids(arguments.word()).to_string()),
            "relation-list" => self.relation_list(arguments),
            "relation-get" => self.relation_get(arguments),
            "relation-set" => self.relation_set(arguments),
            "opened-ports" => Ok(json!(self.own().ports).to_string()),
            "open-port" => {
                self.own().ports.insert(arguments.word().to_owned());
                Ok(String::new())
            }
            "close-port" => {
                self.own().ports.remove(arguments.word());
                Ok(String::new())
            }
            tool if tool.starts_with("action-") => self.action(tool, arguments),
            tool if tool.starts_with("secret-") => self.secret(tool, call, arguments),
            tool => refused(format!("bad request: unknown command: {tool}")),
        }
    }

    fn goal_state(&self) -> Value {
        let members = |app: &charm::AppName| -> Vec<(String, Value)> {
            let units = self.goal.apps.get(app).map(|app| &app.units).into_iter().flatten();
            let shown = units.map(|(name, unit)| {
                let word = if unit.status.0.is_empty() { "waiting" } else { &unit.status.0 };
                let status = if unit.dying { "dying" } else { word };
                (name.to_string(), json!({"status": status, "since": "2026-01-02 03:04:05Z"}))
            });
            shown.collect()
        };
        let app = self.unit.app();
        let units: serde_json::Map<String, Value> = members(&app).into_iter().collect();
        let mut relations = serde_json::Map::new();
        for relation in self.goal.relations.values().filter(|relation| relation.has(&app) && !relation.is_peer()) {
            let Some((_, endpoint)) = relation.ends.iter().find(|(own, _)| *own == app) else { continue };
            let remote = relation.remote(&app);
            let entry = relations.entry(endpoint.to_string()).or_insert_with(|| json!({}));
            entry[remote.as_str()] = json!({"status": "joined", "since": "2026-01-02 03:04:05Z"});
            for (name, status) in members(&remote) {
                entry[name] = status;
            }
        }
        json!({"units": units, "relations": relations})
    }

    fn relation_ids(&self, endpoint: &str) -> Value {
        // In `install` no tool knows of a relation yet.
        if self.hook.path == "hooks/install" {
            return json!([]);
        }
        let app = self.unit.app();
        let own = self.draft.relations.iter().filter(|(number, _)| !self.has_left(**number));
        let own = own.filter_map(|(number, relation)| relation.id_for(&app, *number));
        let fits = |id: &charm::RelationId| id.as_str().rsplit_once(':').is_some_and(|(own, _)| own == endpoint);
        json!(own.filter(fits).map(|id| id.to_string()).collect::<Vec<_>>())
    }

    fn relation_list(&self, arguments: &Arguments) -> Answer {
        let (number, relation) = self.relation(arguments)?;
        let remote = relation.remote(&self.unit.app());
        if arguments.flag("--app") {
            return Ok(json!(remote.as_str()).to_string());
        }
        let units = self.draft.apps.get(&remote).map(|app| &app.units).into_iter().flatten();
        let own = self.draft.apps.get(&self.unit.app()).and_then(|app| app.units.get(&self.unit));
        if own.is_some_and(|own| own.deaf_to.contains_key(&number)) {
            // Of a relation that was made again this agent knows no unit.
            return Ok("[]".to_owned());
        }
        let gone = self.hook.variables.get("JUJU_DEPARTING_UNIT");
        if gone.is_some_and(|gone| gone == self.unit.as_str()) {
            // Whoever leaves sees nobody.
            return Ok("[]".to_owned());
        }
        let ghosts = self.ghosts(number).into_iter().map(ToString::to_string);
        let heard = |name: &UnitName| own.is_some_and(|own| own.departed.contains(&(number, name.clone())));
        let shown = |name: &UnitName| self.draft.shows(relation, &self.unit, name);
        let there = units.map(|(name, _)| name).filter(|name| **name != self.unit && !heard(name) && shown(name));
        let names: BTreeSet<String> = there.map(ToString::to_string).chain(ghosts).collect();
        Ok(json!(names.iter().filter(|name| Some(*name) != gone).collect::<Vec<_>>()).to_string())
    }

    fn relation_get(&self, arguments: &Arguments) -> Answer {
        let (number, relation) = self.relation(arguments)?;
        let owner = arguments.words.get(1).map(String::as_str).unwrap_or_default();
        let app = self.unit.app();
        if arguments.flag("--app") {
            if owner == app.as_str() && !relation.is_peer() && !self.leads() {
                // Juju 4.0.9 allows it, 3.6 does not; a charm must do without.
                return refused("permission denied");
            }
            if !relation.ends.iter().any(|(end, _)| end.as_str() == owner) {
                return refused("permission denied");
            }
            let own = self.draft.apps[&app].units.get(&self.unit);
            let first_read = own.and_then(|own| own.deaf_to.get(&number));
            if let Some(bag) = first_read.filter(|_| owner != app.as_str()) {
                return Ok(json!(bag).to_string());
            }
        } else if owner.split_once('/').is_none() {
            return misused(format!("expected unit name, got application name \"{owner}\""));
        } else if !self.is_unit_of(relation, owner) && !self.ghosts(number).iter().any(|ghost| ghost.as_str() == owner)
        {
            return refused("relation unit not found");
        }
        Ok(json!(relation.bags.get(owner)).to_string())
    }

    fn is_unit_of(&self, relation: &Relation, name: &str) -> bool {
        let apps = relation.ends.iter().filter_map(|(app, _)| self.draft.apps.get(app));
        apps.flat_map(|app| app.units.keys()).any(|unit| unit.as_str() == name)
    }

    fn relation_set(&mut self, arguments: &Arguments) -> Answer {
        let (number, _) = self.relation(arguments)?;
        let owner = match arguments.flag("--app") {
            true if !self.leads() => return refused("cannot write relation settings"),
            true => self.unit.app().to_string(),
            false => self.unit.to_string(),
        };
        if let Some(relation) = self.draft.relations.get_mut(&number) {
            merge(relation.bags.entry(owner).or_default(), &arguments.stdin);
        }
        Ok(String::new())
    }

    fn action(&mut self, tool: &str, arguments: &Arguments) -> Answer {
        let Some(parameters) = &self.hook.parameters else { return refused("not running an action") };
        match tool {
            "action-get" => return Ok(parameters.to_string()),
            "action-set" => {
                for word in &arguments.words {
                    let Some((key, value)) = word.split_once('=') else {
                        return misused(format!("argument \"{word}\" must be of the form key...=value"));
                    };
                    self.done.results.insert(key.to_owned(), value.to_owned());
                }
            }
            "action-fail" => self.done.failure = Some(arguments.words.join(" ")),
            _ => {}
        }
        Ok(String::new())
    }
}
