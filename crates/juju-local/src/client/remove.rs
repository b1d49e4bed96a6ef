//! Commands that take something away, and `juju refresh`, which puts something in its place.

use std::path::Path;

use serde_json::Value;

use super::connect::Client;
use super::deploy::pairs;
use super::{DONE, Outcome, Refusal, parse};
use crate::flags::{Flag, Parsed, switch, value};
use crate::model::Force;
use crate::names::{UnitName, check_application};
use crate::wire::Request;

const FLAGS: &[Flag] = &[
    value(&["m", "model"]),
    switch(&["no-prompt"]),
    switch(&["y", "yes"]),
    switch(&["force"]),
    switch(&["no-wait"]),
    switch(&["destroy-storage"]),
    switch(&["dry-run"]),
    switch(&["keep-instance"]),
    value(&["num-units"]),
];

fn prepare(arguments: &[String]) -> Result<Parsed, Refusal> {
    let parsed = parse(FLAGS, arguments)?;
    match parsed.has("no-wait") && !parsed.has("force") {
        true => Err(Refusal::usage("--no-wait without --force not valid")),
        false => Ok(parsed),
    }
}

fn force(parsed: &Parsed) -> Force {
    match (parsed.has("force"), parsed.has("no-wait")) {
        (false, _) => Force::No,
        (true, false) => Force::Yes,
        (true, true) => Force::AtOnce,
    }
}

/// Prints what will be removed.
fn print_lines(answer: &Value) {
    for line in answer["lines"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        println!("{line}");
    }
}

pub fn units(arguments: &[String]) -> Outcome {
    let parsed = prepare(arguments)?;
    if parsed.get("num-units").is_some() {
        return Err(Refusal::usage("--num-units for non k8s models not valid"));
    }
    if parsed.arguments.is_empty() {
        return Err(Refusal::usage("no units specified"));
    }
    if let Some(bad) = parsed.arguments.iter().find(|name| UnitName::parse(name).is_none()) {
        return Err(Refusal::usage(format!("invalid unit name \"{bad}\"")));
    }
    let request =
        Request::RemoveUnit { units: parsed.arguments.clone(), force: force(&parsed), dry_run: parsed.has("dry-run") };
    print_lines(&Client::for_command(&parsed)?.ask(&request)?);
    DONE
}

pub fn applications(arguments: &[String]) -> Outcome {
    let parsed = prepare(arguments)?;
    if parsed.arguments.is_empty() {
        return Err(Refusal::usage("no application specified"));
    }
    if let Some(bad) = parsed.arguments.iter().find(|name| check_application(name).is_err()) {
        return Err(Refusal::usage(format!("invalid application name \"{bad}\"")));
    }
    let request = Request::RemoveApplication {
        applications: parsed.arguments.clone(),
        force: force(&parsed),
        dry_run: parsed.has("dry-run"),
    };
    print_lines(&Client::for_command(&parsed)?.ask(&request)?);
    DONE
}

pub fn relation(arguments: &[String]) -> Outcome {
    let parsed = prepare(arguments)?;
    let request = Request::RemoveRelation { words: parsed.arguments.clone(), force: force(&parsed) };
    Client::for_command(&parsed)?.ask(&request)?;
    DONE
}

pub fn machines(arguments: &[String]) -> Outcome {
    let parsed = prepare(arguments)?;
    if parsed.arguments.is_empty() {
        return Err(Refusal::usage("no machines specified"));
    }
    let request = Request::RemoveMachine {
        machines: parsed.arguments.clone(),
        force: force(&parsed),
        dry_run: parsed.has("dry-run"),
    };
    print_lines(&Client::for_command(&parsed)?.ask(&request)?);
    DONE
}

pub fn refresh(arguments: &[String]) -> Outcome {
    let parsed = parse(
        &[
            value(&["m", "model"]),
            value(&["path"]),
            value(&["config"]),
            switch(&["force"]),
            switch(&["force-units"]),
            switch(&["force-base"]),
            switch(&["trust"]),
            value(&["base"]),
            value(&["channel"]),
            value(&["revision"]),
            value(&["resource"]),
            value(&["storage"]),
            value(&["switch"]),
        ],
        arguments,
    )?;
    let [application] = parsed.arguments.as_slice() else { return Err(Refusal::usage("no application specified")) };
    let path = parsed.get("path").unwrap_or_default();
    if !path.is_empty() && !Path::new(path).is_file() {
        return Err(Refusal::failed(format!("\"{path}\": file does not exist")));
    }
    let path = std::path::absolute(path).map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    let config = pairs(parsed.all("config"))?;
    let mut client = Client::for_command(&parsed)?;
    let answer = client.ask(&Request::Refresh { application: application.clone(), path, config })?;
    for line in answer["progress"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        eprintln!("{line}");
    }
    DONE
}
