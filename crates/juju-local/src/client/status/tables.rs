//! The model as tables for people. Made from the same document that programs get, and a list of integrations.

use std::io::IsTerminal;

use serde_json::{Map, Value};

use crate::client::table;
use crate::flags::Parsed;

/// Colour for people only: on a terminal, and unless `NO_COLOR` is set.
pub struct Paint(pub bool);

impl Paint {
    pub fn of(parsed: &Parsed) -> Self {
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

/// Everything: the model, its applications, units and machines, and the integrations if there are any to show.
pub fn tables(document: &Value, integrations: &[Value], paint: &Paint) -> String {
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
        .map(|(name, application)| application_row(document, name, application, paint))
        .collect();
    if !applications.is_empty() {
        let header = ["App", "Version", "Status", "Scale", "Charm", "Channel", "Rev", "Exposed", "Message"];
        parts.push(table::render(&header, &applications, &[3, 6]));
    }
    let mut units = Vec::new();
    for (_, application) in objects(&document["applications"]) {
        for (name, unit) in objects(&application["units"]) {
            units.push(unit_row(name, unit, "", paint));
            for (name, unit) in objects(&unit["subordinates"]) {
                units.push(unit_row(name, unit, "  ", paint));
            }
        }
    }
    if !units.is_empty() {
        let header = ["Unit", "Workload", "Agent", "Machine", "Public address", "Ports", "Message"];
        parts.push(table::render(&header, &units, &[]));
    }
    if document["machines"].as_object().is_some_and(|machines| !machines.is_empty()) {
        parts.push(machines(document, paint));
    }
    if !integrations.is_empty() {
        let rows: Vec<Vec<String>> = integrations
            .iter()
            .map(|one| ["provider", "requirer", "interface", "type", "message"].map(|key| text(&one[key])).to_vec())
            .collect();
        let header = ["Integration provider", "Requirer", "Interface", "Type", "Message"];
        parts.push(table::render(&header, &rows, &[]));
    }
    parts.join("\n")
}

/// The table of machines of a status or of `juju machines`.
pub fn machines(document: &Value, paint: &Paint) -> String {
    let rows: Vec<Vec<String>> =
        objects(&document["machines"]).map(|(id, machine)| machine_row(id, machine, paint)).collect();
    table::render(&["Machine", "State", "Address", "Inst id", "Base", "AZ", "Message"], &rows, &[])
}

/// Units of an application; those of a subordinate are found below their principals.
fn scale(document: &Value, name: &str, application: &Value) -> usize {
    if application.get("subordinate-to").is_none() {
        return application["units"].as_object().map_or(0, Map::len);
    }
    let principals = objects(&document["applications"]).flat_map(|(_, application)| objects(&application["units"]));
    let subordinates = principals.flat_map(|(_, unit)| objects(&unit["subordinates"]));
    subordinates.filter(|(unit, _)| unit.split('/').next() == Some(name)).count()
}

fn application_row(document: &Value, name: &str, application: &Value, paint: &Paint) -> Vec<String> {
    let status = &application["application-status"];
    vec![
        name.to_owned(),
        text(&application["version"]),
        paint.status(&text(&status["current"])),
        scale(document, name, application).to_string(),
        text(&application["charm-name"]),
        text(&application["charm-channel"]),
        application["charm-rev"].to_string(),
        if application["exposed"] == Value::Bool(true) { "yes" } else { "no" }.to_owned(),
        text(&status["message"]),
    ]
}

/// What an agent runs: the hook or action of `running … hook` and `running action …`.
fn activity(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("running ")?;
    Some(rest.strip_prefix("action ").unwrap_or_else(|| rest.split(" hook").next().unwrap_or(rest)))
}

fn unit_row(name: &str, unit: &Value, indent: &str, paint: &Paint) -> Vec<String> {
    let mark = if unit["leader"] == Value::Bool(true) { "*" } else { "" };
    let message = text(&unit["workload-status"]["message"]);
    let message = match activity(&text(&unit["juju-status"]["message"])) {
        Some(activity) => format!("({activity}) {message}").trim_end().to_owned(),
        None => message,
    };
    vec![
        format!("{indent}{name}{mark}"),
        paint.status(&text(&unit["workload-status"]["current"])),
        paint.status(&text(&unit["juju-status"]["current"])),
        text(&unit["machine"]),
        text(&unit["public-address"]),
        ports(unit),
        message,
    ]
}

fn ports(unit: &Value) -> String {
    unit["open-ports"].as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(",")
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

/// `--format line`: a line for each unit.
pub fn lines(document: &Value) -> String {
    let mut lines = String::new();
    let mut line = |indent: &str, name: &str, unit: &Value| {
        let status = |key: &str| text(&unit[key]["current"]);
        lines.push_str(&format!(
            "\n{indent}- {name}: {} (agent:{}, workload:{}) {}",
            text(&unit["public-address"]),
            status("juju-status"),
            status("workload-status"),
            ports(unit)
        ));
    };
    for (_, application) in objects(&document["applications"]) {
        for (name, unit) in objects(&application["units"]) {
            line("", name, unit);
            objects(&unit["subordinates"]).for_each(|(name, unit)| line("  ", name, unit));
        }
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document() -> Value {
        json!({
            "model": {"name": "lab", "controller": "juju-local", "cloud": "localhost", "region": "localhost",
                "version": "4.0.9"},
            "controller": {"timestamp": "10:00:00Z"},
            "machines": {"0": {"juju-status": {"current": "started"}, "dns-name": "10.0.0.10",
                "instance-id": "juju-1-0",
                "base": {"name": "ubuntu", "channel": "24.04"}, "machine-status": {"message": "Running"}}},
            "applications": {
                "server": {"application-status": {"current": "active", "message": "ready"}, "charm-name": "server",
                    "charm-rev": 12,
                    "exposed": true, "version": "1.0", "units": {"server/0": {
                        "workload-status": {"current": "active", "message": "ready"},
                        "juju-status": {"current": "executing",
                            "message": "running link-relation-joined hook for client/0"},
                        "leader": true, "machine": "0", "open-ports": ["80/tcp"], "public-address": "10.0.0.10",
                        "subordinates": {"leech/0": {"workload-status": {"current": "active"},
                            "juju-status": {"current": "idle"},
                            "public-address": "10.0.0.10"}}}}},
                "leech": {"application-status": {"current": "active"}, "charm-name": "leech", "charm-rev": 0,
                    "exposed": false,
                    "subordinate-to": ["server"]},
            },
        })
    }

    #[test]
    fn the_tables_are_jujus() {
        let integration = json!({"provider": "server:juju-info", "requirer": "leech:host", "interface": "juju-info",
            "type": "subordinate"});
        let expected = "\
Model  Controller  Cloud/Region         Version  Timestamp
lab    juju-local  localhost/localhost  4.0.9    10:00:00Z

App     Version  Status  Scale  Charm   Channel  Rev  Exposed  Message
server  1.0      active      1  server            12  yes      ready
leech            active      1  leech              0  no

Unit       Workload  Agent      Machine  Public address  Ports   Message
server/0*  active    executing  0        10.0.0.10       80/tcp  (link-relation-joined) ready
  leech/0  active    idle                10.0.0.10

Machine  State    Address    Inst id   Base          AZ  Message
0        started  10.0.0.10  juju-1-0  ubuntu@24.04      Running

Integration provider  Requirer    Interface  Type         Message
server:juju-info      leech:host  juju-info  subordinate
";
        assert_eq!(tables(&document(), &[integration], &Paint(false)), expected);
    }

    #[test]
    fn colour_follows_the_status() {
        assert_eq!(Paint(true).status("active"), "\u{1b}[32mactive\u{1b}[0m");
        assert_eq!(Paint(true).status("blocked"), "\u{1b}[31mblocked\u{1b}[0m");
        assert_eq!(Paint(false).status("blocked"), "blocked");
    }

    #[test]
    fn a_line_for_each_unit() {
        let expected = "\n- server/0: 10.0.0.10 (agent:executing, workload:active) 80/tcp\n  \
                        - leech/0: 10.0.0.10 (agent:idle, workload:active) \n";
        assert_eq!(lines(&document()), expected);
    }
}
