//! Machines: listed, shown, added; keys for them; the spaces they are in.

use serde_json::{Map, Value, json};

use super::connect::Client;
use super::status::machine_table;
use super::{DONE, Outcome, Refusal, parse, table};
use crate::constraints;
use crate::flags::{Flag, Parsed, switch, value};
use crate::output::{Format, render};
use crate::wire::Request;

const FORMATS: &[&str] = &["json", "yaml", "tabular"];
const FLAGS: &[Flag] = &[
    value(&["m", "model"]),
    value(&["format"]),
    value(&["o", "output"]),
    switch(&["utc"]),
    switch(&["color"]),
    switch(&["no-color"]),
];

/// The named machines of the model, or all.
fn document(parsed: &Parsed, names: &[String]) -> Result<Value, Refusal> {
    let mut client = Client::for_command(parsed)?;
    let mut status = client.ask(&Request::Status)?;
    let mut machines = status["machines"].as_object_mut().map(std::mem::take).unwrap_or_default();
    machines.retain(|id, _| names.is_empty() || names.contains(id));
    Ok(json!({"model": client.model, "machines": machines}))
}

fn print(parsed: &Parsed, default: Format, names: &[String]) -> Outcome {
    let format = Format::choose(parsed.get("format"), default, FORMATS).map_err(Refusal::usage)?;
    let document = document(parsed, names)?;
    match (format, parsed.get("format")) {
        (Format::Smart, _) | (_, Some("tabular")) => print!("{}", machine_table(&document, parsed)),
        (format, _) => print!("{}", render(&document, format)),
    }
    DONE
}

pub fn list(arguments: &[String]) -> Outcome {
    let parsed = parse(FLAGS, arguments)?;
    parsed.at_most(0).map_err(Refusal::usage)?;
    print(&parsed, Format::Smart, &[])
}

pub fn show(arguments: &[String]) -> Outcome {
    let parsed = parse(FLAGS, arguments)?;
    print(&parsed, Format::Yaml, &parsed.arguments)
}

pub fn add(arguments: &[String]) -> Outcome {
    let parsed = parse(
        &[
            value(&["m", "model"]),
            value(&["n"]),
            value(&["base"]),
            value(&["constraints"]),
            value(&["disks"]),
            value(&["private-key"]),
            value(&["public-key"]),
        ],
        arguments,
    )?;
    if let Some(target) = parsed.arguments.first() {
        return Err(Refusal::usage(format!(
            "juju-local makes every machine itself: `juju add-machine` takes no {target:?}"
        )));
    }
    if parsed.get("disks").is_some() {
        return Err(Refusal::usage("juju-local has no disks for machines"));
    }
    constraints::parse(parsed.all("constraints")).map_err(Refusal::failed)?;
    let count = match parsed.get("n").map(str::parse::<u32>) {
        None => 1,
        Some(Ok(number)) if number > 0 => number,
        Some(_) => return Err(Refusal::usage("number of machines must be a positive integer")),
    };
    let request = Request::AddMachines { count, base: parsed.get("base").map(str::to_owned) };
    let added = Client::for_command(&parsed)?.ask(&request)?;
    for id in added.as_array().into_iter().flatten().filter_map(Value::as_str) {
        eprintln!("created machine {id}");
    }
    DONE
}

pub fn spaces(arguments: &[String]) -> Outcome {
    let parsed =
        parse(&[value(&["m", "model"]), value(&["format"]), value(&["o", "output"]), switch(&["short"])], arguments)?;
    let format = Format::choose(parsed.get("format"), Format::Smart, FORMATS).map_err(Refusal::usage)?;
    let shown = Client::for_command(&parsed)?.ask(&Request::Spaces)?;
    match format {
        Format::Smart => print!("{}", spaces_table(&shown)),
        format => print!("{}", render(&shown, format)),
    }
    DONE
}

fn spaces_table(shown: &Value) -> String {
    let mut rows = Vec::new();
    for space in shown["spaces"].as_array().into_iter().flatten() {
        // The space is named beside its first subnet only.
        let mut text = ["name", "id"].map(|key| space[key].as_str().unwrap_or_default().to_owned());
        for subnet in space["subnets"].as_object().into_iter().flat_map(Map::keys) {
            let [name, id] = std::mem::take(&mut text);
            rows.push(vec![name, id, subnet.clone()]);
        }
    }
    table::render(&["Name", "Space ID", "Subnets"], &rows, &[])
}

pub fn keys(arguments: &[String]) -> Outcome {
    let parsed = parse(&[value(&["m", "model"]), switch(&["full"])], arguments)?;
    let mut client = Client::for_command(&parsed)?;
    let keys = client.ask(&Request::Keys)?;
    let keys: Vec<&str> = keys.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if keys.is_empty() {
        eprintln!("No ssh keys in model \"{}\".", client.model);
        return DONE;
    }
    println!("Keys used in model: {}", client.model);
    for key in keys {
        let words: Vec<&str> = key.split_whitespace().collect();
        println!("{}", if parsed.has("full") { key } else { words.get(2).copied().unwrap_or(key) });
    }
    DONE
}

fn report(faults: &Value) -> Outcome {
    for fault in faults.as_array().into_iter().flatten().filter_map(Value::as_str) {
        eprintln!("{fault}");
    }
    DONE
}

/// Keys are kept for whoever asks for them; `juju ssh` here needs none.
pub fn add_keys(arguments: &[String]) -> Outcome {
    let parsed = parse(&[value(&["m", "model"])], arguments)?;
    if parsed.arguments.is_empty() {
        return Err(Refusal::usage("no ssh key specified"));
    }
    report(&Client::for_command(&parsed)?.ask(&Request::AddKeys { keys: parsed.arguments.clone() })?)
}

pub fn remove_keys(arguments: &[String]) -> Outcome {
    let parsed = parse(&[value(&["m", "model"])], arguments)?;
    if parsed.arguments.is_empty() {
        return Err(Refusal::usage("no ssh key id specified"));
    }
    report(&Client::for_command(&parsed)?.ask(&Request::RemoveKeys { ids: parsed.arguments.clone() })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_is_named_once() {
        let shown = json!({"spaces": [{"id": "u", "name": "alpha", "subnets": {"10.0.0.0/24": {}, "::1/128": {}}}]});
        let expected = "Name   Space ID  Subnets\nalpha  u         10.0.0.0/24\n                 ::1/128\n";
        assert_eq!(spaces_table(&shown), expected);
    }
}
