//! Tools that need no relation: options, status, leadership, logs, the goal state.

use serde_json::{Map, Value, json};

use super::{Answer, Definition, LogLine, Refusal, Scene, failed, usage};
use crate::flags::{Flag, Parsed, switch, value};
use crate::hooks::Reboot;
use crate::model::{Life, Model, Status, StatusInfo};

const FORMAT: &[Flag] = &[value(&["format"]), value(&["o", "output"])];
const STATUS_GET: &[Flag] =
    &[value(&["format"]), value(&["o", "output"]), switch(&["include-data"]), switch(&["application"])];

pub fn definition(tool: &str) -> Option<Definition> {
    Some(match tool {
        "config-get" => {
            Definition::new(const { &[value(&["format"]), value(&["o", "output"]), switch(&["a", "all"])] }, config_get)
        }
        "is-leader" => Definition::new(FORMAT, is_leader),
        "status-get" => Definition::new(STATUS_GET, status_get),
        "status-set" => Definition::new(const { &[switch(&["application"])] }, status_set),
        "application-version-set" => Definition::new(&[], application_version_set),
        "juju-log" => {
            Definition::new(const { &[switch(&["debug"]), value(&["l", "log-level"]), value(&["format"])] }, juju_log)
        }
        "goal-state" => Definition::yaml(FORMAT, goal_state),
        "juju-reboot" => Definition::new(const { &[switch(&["now"])] }, juju_reboot),
        _ => return None,
    })
}

fn config_get(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let key = parsed.arguments.first().filter(|key| *key != "-");
    if parsed.has("a")
        && let Some(key) = key
    {
        return usage(format!("cannot use argument --all together with key \"{key}\""));
    }
    parsed.at_most(1)?;
    if parsed.arguments.first().is_some_and(|key| key == "-") {
        return Ok(Answer::Nothing);
    }
    if let Some(key) = key {
        return Ok(Answer::Value(scene.context.config.get(key).cloned().unwrap_or(Value::Null)));
    }
    let shown = scene.context.config.iter().filter(|(_, value)| parsed.has("a") || !value.is_null());
    Ok(Answer::Value(Value::Object(shown.map(|(name, value)| (name.clone(), value.clone())).collect())))
}

fn is_leader(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    parsed.at_most(0)?;
    Ok(Answer::Value(json!(scene.context.leads(scene.model))))
}

fn detail(status: &StatusInfo, with_data: bool) -> Map<String, Value> {
    let mut map = Map::new();
    if with_data {
        map.insert("message".to_owned(), json!(status.message));
    }
    map.insert("status".to_owned(), json!(status.current.name()));
    if with_data {
        map.insert("status-data".to_owned(), json!({}));
    }
    map
}

fn status_get(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    parsed.at_most(0)?;
    let (with_data, smart) = (parsed.has("include-data"), parsed.get("format").is_none_or(|name| name == "smart"));
    let own = scene.model.units.get(&scene.context.unit).map(|unit| unit.workload.clone());
    let Some(own) = own.or_else(|| scene.context.status.clone()) else {
        return failed("connection is shutdown before send");
    };
    if !parsed.has("application") {
        let status = scene.context.status.get_or_insert(own);
        return Ok(Answer::Value(match smart && !with_data {
            true => json!(status.current.name()),
            false => Value::Object(detail(status, with_data)),
        }));
    }
    if !scene.context.leads(scene.model) {
        return failed("finding application status: this unit is not the leader");
    }
    let name = scene.context.unit.application().to_owned();
    let current = scene.model.application_status(&name);
    let status = scene.context.application_status.get_or_insert(current);
    if smart && !with_data {
        return Ok(Answer::Value(json!(status.current.name())));
    }
    let mut map = detail(status, with_data);
    let units: Map<String, Value> = scene
        .model
        .units_of(&name)
        .map(|unit| (unit.name.to_string(), Value::Object(detail(&scene.model.workload_status(unit), with_data))))
        .collect();
    map.insert("units".to_owned(), Value::Object(units));
    Ok(Answer::Value(json!({"application-status": map})))
}

fn status_set(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let Some(word) = parsed.arguments.first() else { return usage("invalid args, require <status> [message]") };
    let Some(status) = Status::settable(word) else {
        return usage(format!("invalid status \"{word}\", expected one of [maintenance blocked waiting active]"));
    };
    parsed.at_most(2)?;
    let info = StatusInfo::new(status, parsed.arguments.get(1).cloned().unwrap_or_default());
    if parsed.has("application") {
        if !scene.context.leads(scene.model) {
            return failed("this unit is not the leader");
        }
        if let Some(application) = scene.model.applications.get_mut(scene.context.unit.application()) {
            application.status = Some(info);
        }
    } else if let Some(unit) = scene.model.units.get_mut(&scene.context.unit) {
        unit.workload = info;
    }
    scene.model.note_statuses();
    Ok(Answer::Nothing)
}

fn application_version_set(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let Some(version) = parsed.arguments.first() else { return usage("no version specified") };
    parsed.at_most(1)?;
    if let Some(unit) = scene.model.units.get_mut(&scene.context.unit) {
        unit.workload_version = version.clone();
    }
    if let Some(application) = scene.model.applications.get_mut(scene.context.unit.application()) {
        application.version = version.clone();
    }
    Ok(Answer::Nothing)
}

fn juju_log(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    if parsed.arguments.is_empty() {
        return usage("no message specified");
    }
    let level = match parsed.get("l").unwrap_or("INFO").to_ascii_uppercase().as_str() {
        _ if parsed.has("debug") => "DEBUG".to_owned(),
        known @ ("TRACE" | "DEBUG" | "INFO" | "WARNING" | "ERROR") => known.to_owned(),
        other => {
            let message = format!("Specified log level of {other} is not valid");
            let module = format!("unit.{}.juju-log", scene.context.unit);
            scene.log.push(LogLine { level: "WARNING".to_owned(), module, message });
            "INFO".to_owned()
        }
    };
    let message = parsed.arguments.join(" ");
    let message = match &scene.context.relation {
        Some(relation) => format!("{}:{}: {message}", relation.endpoint, relation.id),
        None => message,
    };
    let module = format!("unit.{}.juju-log", scene.context.unit);
    scene.log.push(LogLine { level, module, message });
    Ok(Answer::Nothing)
}

fn goal_state(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    parsed.at_most(0)?;
    let own = scene.context.unit.application();
    let mut relations = Map::new();
    for relation in scene.model.relations_of(own).filter(|relation| !relation.is_peer()) {
        let (Some(here), Some(there)) = (relation.side_of(own), relation.other_side(own)) else { continue };
        let entry = relations.entry(here.endpoint.name.clone()).or_insert_with(|| json!({}));
        let Value::Object(entry) = entry else { continue };
        let joined = json!({"status": "joined", "since": relation.created.goal()});
        entry.insert(there.application.clone(), joined);
        entry.extend(goal_units(scene.model, &there.application));
    }
    relations.sort_keys();
    Ok(Answer::Value(json!({"units": goal_units(scene.model, own), "relations": relations})))
}

fn goal_units(model: &Model, application: &str) -> Map<String, Value> {
    let units = model.units_of(application).filter(|unit| unit.life != Life::Dead);
    units
        .map(|unit| {
            let status = match (unit.life, &unit.uniter.failure) {
                (Life::Dying, _) => "dying",
                (_, Some(_)) => "error",
                _ => unit.workload.current.name(),
            };
            (unit.name.to_string(), json!({"status": status, "since": unit.workload.since.goal()}))
        })
        .collect()
}

fn juju_reboot(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    parsed.at_most(0)?;
    if scene.context.task.is_some() {
        return failed("juju-reboot is not supported when running an action.");
    }
    scene.context.reboot = Some(if parsed.has("now") { Reboot::Now } else { Reboot::Afterwards });
    Ok(Answer::Nothing)
}
