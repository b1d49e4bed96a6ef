//! `juju status`: the model as a table for people or as a document for programs.

use std::io::IsTerminal;
use std::time::Duration;

use serde_json::{Map, Value};

use super::connect::Client;
use super::{DONE, Outcome, Refusal, parse, table};
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
];

pub fn main(arguments: &[String]) -> Outcome {
    let parsed = parse(FLAGS, arguments)?;
    let format = Format::choose(
        parsed.get("format"),
        Format::Smart,
        &["json", "yaml", "tabular", "short", "summary", "oneline", "line"],
    )
    .map_err(Refusal::usage)?;
    let Some(pause) = parsed.get("watch") else { return show(&parsed, format) };
    let Some(pause) = settings::duration(pause).filter(|millis| *millis > 0) else {
        return Err(Refusal::usage(format!(
            "invalid value \"{pause}\" for option --watch: time: invalid duration \"{pause}\""
        )));
    };
    loop {
        print!("\u{1b}[H\u{1b}[2J");
        show(&parsed, format)?;
        std::thread::sleep(Duration::from_millis(pause));
    }
}

fn show(parsed: &Parsed, format: Format) -> Outcome {
    let mut client = Client::for_command(parsed)?;
    let mut document = client.ask(&Request::Status)?;
    let nothing = select(&mut document, &parsed.arguments);
    match format {
        Format::Smart => print!("{}", tables(&document, parsed)),
        format => print!("{}", render(&document, format)),
    }
    if nothing {
        eprintln!("Nothing matched specified filter.");
    } else if format == Format::Smart && document["machines"].as_object().is_some_and(Map::is_empty) {
        eprintln!("\nModel \"{}\" is empty.", document["model"]["name"].as_str().unwrap_or_default());
    }
    DONE
}

/// Leaves only what the selectors name: applications, units, machines. Says whether nothing is left.
fn select(document: &mut Value, selectors: &[String]) -> bool {
    if selectors.is_empty() {
        return false;
    }
    let named = |name: &str| selectors.iter().any(|selector| selector == name);
    let mut machines: Vec<String> = Vec::new();
    if let Some(applications) = document["applications"].as_object_mut() {
        applications.retain(|name, application| {
            let whole = named(name);
            let Some(units) = application.get_mut("units").and_then(Value::as_object_mut) else { return whole };
            units.retain(|unit, body| whole || named(unit) || body["machine"].as_str().is_some_and(named));
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

/// Colour for people only: on a terminal, and unless `NO_COLOR` is set.
struct Paint(bool);

impl Paint {
    fn of(parsed: &Parsed) -> Self {
        let wanted = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Paint((wanted || parsed.has("color")) && !parsed.has("no-color"))
    }

    fn status(&self, word: &str) -> String {
        let colour = match word {
            "active" | "idle" | "started" | "available" | "running" => "32",
            "error" | "down" | "lost" | "failed" | "blocked" => "31",
            "waiting" | "maintenance" | "executing" | "allocating" | "pending" | "unknown" => "33",
            _ => return word.to_owned(),
        };
        if self.0 { format!("\u{1b}[{colour}m{word}\u{1b}[0m") } else { word.to_owned() }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn objects(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn tables(document: &Value, parsed: &Parsed) -> String {
    let paint = Paint::of(parsed);
    let model = &document["model"];
    let place = format!("{}/{}", text(&model["cloud"]), text(&model["region"]));
    let row = vec![
        text(&model["name"]),
        text(&model["controller"]),
        place,
        text(&model["version"]),
        text(&document["controller"]["timestamp"]),
    ];
    let mut parts = vec![table::render(&["Model", "Controller", "Cloud/Region", "Version", "Timestamp"], &[row], &[])];
    let applications: Vec<Vec<String>> = objects(&document["applications"])
        .map(|(name, application)| application_row(name, application, &paint))
        .collect();
    if !applications.is_empty() {
        let header = ["App", "Version", "Status", "Scale", "Charm", "Channel", "Rev", "Exposed", "Message"];
        parts.push(table::render(&header, &applications, &[3, 6]));
    }
    let mut units = Vec::new();
    for (_, application) in objects(&document["applications"]) {
        for (name, unit) in objects(&application["units"]) {
            units.push(unit_row(name, unit, "", &paint));
            for (name, unit) in objects(&unit["subordinates"]) {
                units.push(unit_row(name, unit, "  ", &paint));
            }
        }
    }
    if !units.is_empty() {
        let header = ["Unit", "Workload", "Agent", "Machine", "Public address", "Ports", "Message"];
        parts.push(table::render(&header, &units, &[]));
    }
    let machines: Vec<Vec<String>> =
        objects(&document["machines"]).map(|(id, machine)| machine_row(id, machine, &paint)).collect();
    if !machines.is_empty() {
        let header = ["Machine", "State", "Address", "Inst id", "Base", "AZ", "Message"];
        parts.push(table::render(&header, &machines, &[]));
    }
    let relations = if parsed.has("relations") { relation_rows(document) } else { Vec::new() };
    if !relations.is_empty() {
        parts.push(table::render(
            &["Integration provider", "Requirer", "Interface", "Type", "Message"],
            &relations,
            &[],
        ));
    }
    parts.join("\n")
}

fn application_row(name: &str, application: &Value, paint: &Paint) -> Vec<String> {
    let status = &application["application-status"];
    let units = application["units"].as_object().map_or(0, Map::len);
    vec![
        name.to_owned(),
        text(&application["version"]),
        paint.status(&text(&status["current"])),
        units.to_string(),
        text(&application["charm-name"]),
        text(&application["charm-channel"]),
        application["charm-rev"].to_string(),
        if application["exposed"] == Value::Bool(true) { "yes" } else { "no" }.to_owned(),
        text(&status["message"]),
    ]
}

fn unit_row(name: &str, unit: &Value, indent: &str, paint: &Paint) -> Vec<String> {
    let mark = if unit["leader"] == Value::Bool(true) { "*" } else { "" };
    let ports: Vec<String> = unit["open-ports"].as_array().into_iter().flatten().map(text).collect();
    let agent_message = text(&unit["juju-status"]["message"]);
    let message = match (text(&unit["workload-status"]["message"]), agent_message) {
        (message, agent) if agent.is_empty() => message,
        (message, agent) if message.is_empty() => format!("({})", agent.trim_start_matches("running ")),
        (message, agent) => format!("({}) {message}", agent.trim_start_matches("running ")),
    };
    vec![
        format!("{indent}{name}{mark}"),
        paint.status(&text(&unit["workload-status"]["current"])),
        paint.status(&text(&unit["juju-status"]["current"])),
        text(&unit["machine"]),
        text(&unit["public-address"]),
        ports.join(","),
        message,
    ]
}

fn machine_row(id: &str, machine: &Value, paint: &Paint) -> Vec<String> {
    let base = &machine["base"];
    vec![
        id.to_owned(),
        paint.status(&text(&machine["juju-status"]["current"])),
        text(&machine["dns-name"]),
        text(&machine["instance-id"]),
        format!("{}@{}", text(&base["name"]), text(&base["channel"])),
        String::new(),
        text(&machine["machine-status"]["message"]),
    ]
}

/// Each relation once: seen from the side whose name comes first.
fn relation_rows(document: &Value) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (name, application) in objects(&document["applications"]) {
        for (endpoint, relations) in objects(&application["relations"]) {
            for relation in relations.as_array().into_iter().flatten() {
                let other = text(&relation["related-application"]);
                let kind = if other == *name { "peer" } else { "regular" };
                if name <= &other {
                    rows.push(vec![
                        format!("{name}:{endpoint}"),
                        other,
                        text(&relation["interface"]),
                        kind.to_owned(),
                        String::new(),
                    ]);
                }
            }
        }
    }
    rows
}
