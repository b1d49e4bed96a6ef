//! `juju status`: the model as a table for people or as a document for programs, whole or only what selectors name.

mod tables;

use std::io::Write as _;
use std::time::Duration;

use serde_json::{Map, Value};

use self::tables::Paint;
use super::connect::Client;
use super::{DONE, Outcome, Refusal, parse};
use crate::flags::{Flag, Parsed, switch, value};
use crate::output::{Format, render};
use crate::settings;
use crate::wire::Request;

const FLAGS: &[Flag] = &[
    value(&["m", "model"]),
    value(&["format"]),
    value(&["o", "output"]),
    value(&["watch"]),
    switch(&["relations", "integrations"]),
    switch(&["storage"]),
    switch(&["utc"]),
    switch(&["color"]),
    switch(&["no-color"]),
    value(&["retry-count"]),
    value(&["retry-delay"]),
];
const FORMATS: &[&str] = &["json", "yaml", "tabular", "line", "oneline", "short"];

pub fn main(arguments: &[String]) -> Outcome {
    let parsed = parse(FLAGS, arguments)?;
    if parsed.get("format") == Some("summary") {
        return Err(Refusal::usage("juju-local has no summary of a status"));
    }
    let format = Format::choose(parsed.get("format"), Format::Smart, FORMATS).map_err(Refusal::usage)?;
    let Some(pause) = parsed.get("watch") else { return show(&parsed, format) };
    let Some(pause) = settings::duration(pause).filter(|millis| *millis > 0) else {
        return Err(Refusal::usage(format!(
            "invalid value \"{pause}\" for option --watch: time: invalid duration \"{pause}\""
        )));
    };
    loop {
        print!("\u{1b}[H\u{1b}[2J");
        show(&parsed, format)?;
        std::io::stdout().flush().map_err(|error| Refusal::failed(error.to_string()))?;
        std::thread::sleep(Duration::from_millis(pause));
    }
}

fn show(parsed: &Parsed, format: Format) -> Outcome {
    let mut client = Client::for_command(parsed)?;
    let mut document = client.ask(&Request::Status)?;
    let nothing = select(&mut document, &parsed.arguments);
    if parsed.has("utc") {
        write_iso_times(&mut document);
    }
    match (format, parsed.get("format")) {
        (Format::Smart, None | Some("tabular")) => {
            let integrations = match parsed.has("relations") {
                true => selected_integrations(client.ask(&Request::Integrations)?, &document),
                false => Vec::new(),
            };
            print!("{}", tables::tables(&document, &integrations, &Paint::of(parsed)));
        }
        (Format::Smart, Some(_)) => print!("{}", tables::lines(&document)),
        (format, _) => print!("{}", render(&document, format)),
    }
    if nothing {
        eprintln!("Nothing matched specified filter.");
    } else if format == Format::Smart && document["machines"].as_object().is_some_and(Map::is_empty) {
        eprintln!("\nModel \"{}\" is empty.", document["model"]["name"].as_str().unwrap_or_default());
    }
    DONE
}

/// `juju machines` for people.
pub fn machine_table(document: &Value, parsed: &Parsed) -> String {
    tables::machines(document, &Paint::of(parsed))
}

/// Whether a pattern with `*` for anything fits a text.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|tail| {
            let mut ends = tail.char_indices().map(|(at, _)| at).chain([tail.len()]);
            ends.any(|at| fits(rest, &tail[at..]))
        }),
    }
}

/// Leaves only what the selectors name: applications, units, machines, addresses, ports and statuses of units. Says
/// whether nothing is left.
fn select(document: &mut Value, selectors: &[String]) -> bool {
    if selectors.is_empty() {
        return false;
    }
    let named = |name: &str| selectors.iter().any(|selector| fits(selector, name));
    let text_named = |value: &Value| value.as_str().is_some_and(named);
    let unit_named = |name: &str, unit: &Value| {
        let subordinates = unit["subordinates"].as_object();
        named(name)
            || ["machine", "public-address"].iter().any(|key| text_named(&unit[*key]))
            || ["workload-status", "juju-status"].iter().any(|key| text_named(&unit[*key]["current"]))
            || unit["open-ports"].as_array().is_some_and(|ports| ports.iter().any(text_named))
            || subordinates.is_some_and(|units| units.keys().any(|unit| named(unit) || named(application_of(unit))))
    };
    let mut machines: Vec<String> = Vec::new();
    if let Some(applications) = document["applications"].as_object_mut() {
        applications.retain(|name, application| {
            let whole = named(name);
            let Some(units) = application.get_mut("units").and_then(Value::as_object_mut) else { return whole };
            units.retain(|unit, body| whole || unit_named(unit, body));
            machines.extend(units.values().filter_map(|unit| unit["machine"].as_str().map(str::to_owned)));
            whole || !units.is_empty()
        });
    }
    if let Some(all) = document["machines"].as_object_mut() {
        all.retain(|id, _| named(id) || machines.contains(id));
    }
    let empty = |value: &Value| value.as_object().is_none_or(Map::is_empty);
    empty(&document["applications"]) && empty(&document["machines"])
}

/// Times as `2006-01-02 15:04:05Z` instead of `02 Jan 2006 15:04:05Z`.
fn write_iso_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                match inner.as_str().filter(|_| key == "since").and_then(iso_time) {
                    Some(time) => *inner = Value::from(time),
                    None => write_iso_times(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_iso_times),
        _ => {}
    }
}

fn iso_time(text: &str) -> Option<String> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let [day, month, year, clock] = text.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let number = MONTHS.find(month)? / 3 + 1;
    Some(format!("{year}-{number:02}-{day} {clock}"))
}

fn application_of(label: &str) -> &str {
    label.split(['/', ':']).next().unwrap_or(label)
}

/// Integrations between applications that are shown.
fn selected_integrations(all: Value, document: &Value) -> Vec<Value> {
    let shown =
        |side: &Value| side.as_str().is_some_and(|side| document["applications"].get(application_of(side)).is_some());
    let all = all.as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|one| shown(&one["provider"]) && shown(&one["requirer"])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn selected(selectors: &[&str]) -> (Vec<String>, Vec<String>, bool) {
        let unit = |machine: &str, status: &str| json!({"machine": machine, "workload-status": {"current": status}});
        let mut document = json!({
            "machines": {"0": {}, "1": {}, "2": {}},
            "applications": {
                "compute": {"units": {"compute/0": unit("0", "active"), "compute/1": unit("1", "blocked")}},
                "control": {"units": {"control/0": unit("2", "active")}},
            },
        });
        let owned: Vec<String> = selectors.iter().map(ToString::to_string).collect();
        let nothing = select(&mut document, &owned);
        let applications = document["applications"].as_object().unwrap().values();
        let units = applications.flat_map(|app| app["units"].as_object().unwrap().keys().cloned()).collect();
        (units, document["machines"].as_object().unwrap().keys().cloned().collect(), nothing)
    }

    #[test]
    fn selectors_name_applications_units_machines_and_statuses() {
        assert_eq!(selected(&["compute"]).0, ["compute/0", "compute/1"]);
        assert_eq!(selected(&["compute/1"]), (vec!["compute/1".to_owned()], vec!["1".to_owned()], false));
        assert_eq!(selected(&["2"]).0, ["control/0"]);
        assert_eq!(selected(&["blocked"]).0, ["compute/1"]);
        assert_eq!(selected(&["com*"]).1, ["0", "1"]);
        assert!(selected(&["nosuch"]).2);
    }

    #[test]
    fn times_can_be_iso() {
        let mut document = json!({"a": [{"since": "01 Mar 2025 10:04:05Z", "message": "01 Mar 2025 10:04:05Z"}]});
        write_iso_times(&mut document);
        assert_eq!(document, json!({"a": [{"since": "2025-03-01 10:04:05Z", "message": "01 Mar 2025 10:04:05Z"}]}));
    }

    #[test]
    fn a_star_is_anything() {
        assert!(fits("c*e/*", "compute/0") && fits("*", "") && fits("a*", "a"));
        assert!(!fits("c*e", "control") && !fits("a", "ab"));
    }
}
