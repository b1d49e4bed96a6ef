//! Commands that give the model work: deploy, add-unit, integrate, resolved; and show-unit.

use std::path::Path;

use serde_json::{Map, Value};

use super::connect::Client;
use super::{DONE, Outcome, Refusal, parse};
use crate::agent::go_error;
use crate::charm::parse_directives;
use crate::constraints;
use crate::flags::{Parsed, switch, value};
use crate::names::{UnitName, check_application};
use crate::output::{Format, render};
use crate::wire::{Deploy, Request};
use crate::yaml;

/// `key=value` pairs; `key=@file` reads the value from a file.
pub fn pairs(words: &[String]) -> Result<Vec<(String, String)>, Refusal> {
    let mut pairs = Vec::new();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(Refusal::usage(format!("expected \"key=value\", got \"{word}\"")));
        };
        let value = match value.strip_prefix('@') {
            None => value.to_owned(),
            Some(path) => std::fs::read_to_string(path).map_err(|error| {
                let why = format!("stat {path}: {}", go_error(&error));
                Refusal::failed(format!("cannot read option from file \"{path}\": {why}"))
            })?,
        };
        pairs.push((key.to_owned(), value));
    }
    Ok(pairs)
}

fn count(parsed: &Parsed) -> Result<u32, Refusal> {
    match parsed.get("n").map(str::parse::<u32>) {
        None => Ok(1),
        Some(Ok(number)) if number > 0 => Ok(number),
        Some(_) => Err(Refusal::usage("--num-units must be a positive integer")),
    }
}

fn placement(parsed: &Parsed) -> Result<Vec<String>, Refusal> {
    let listed = parsed.all("to").iter().flat_map(|list| list.split(','));
    let places: Vec<String> = listed.map(str::trim).filter(|place| !place.is_empty()).map(str::to_owned).collect();
    match places.iter().find(|place| place.contains([':', '=', '/']) || ["lxd", "kvm"].contains(&place.as_str())) {
        Some(place) => Err(Refusal::usage(format!(
            "juju-local has neither containers nor zones: --to takes numbers of machines, not {place}"
        ))),
        None => Ok(places),
    }
}

pub fn deploy(arguments: &[String]) -> Outcome {
    let parsed = parse(
        &[
            value(&["m", "model"]),
            value(&["n", "num-units"]),
            value(&["to"]),
            value(&["config"]),
            value(&["base"]),
            value(&["constraints"]),
            switch(&["trust"]),
            switch(&["force"]),
            value(&["channel"]),
            value(&["revision"]),
            value(&["resource"]),
            value(&["storage"]),
            value(&["bind"]),
            value(&["attach-storage"]),
            value(&["overlay"]),
            switch(&["dry-run"]),
        ],
        arguments,
    )?;
    let Some(shown) = parsed.arguments.first() else { return Err(Refusal::usage("no charm or bundle specified")) };
    if let Some(name) = parsed.arguments.get(1) {
        check_application(name).map_err(Refusal::usage)?;
    }
    parsed.at_most(2).map_err(Refusal::usage)?;
    let count = count(&parsed)?;
    refuse_absent(&parsed)?;
    let path = local_path(shown)?;
    let request = Deploy {
        path,
        shown: shown.clone(),
        application: parsed.arguments.get(1).cloned(),
        count,
        to: placement(&parsed)?,
        base: parsed.get("base").map(str::to_owned),
        config: config_values(&parsed)?,
        constraints: constraints::parse(parsed.all("constraints")).map_err(Refusal::failed)?,
        trust: parsed.has("trust"),
        resources: parsed.all("resource").to_vec(),
        storage: parse_directives(parsed.all("storage"))
            .map_err(|why| Refusal::usage(format!("invalid value for option --storage: {why}")))?,
    };
    let answer = Client::for_command(&parsed)?.ask(&Request::Deploy(request))?;
    for line in answer["progress"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        eprintln!("{line}");
    }
    DONE
}

fn refuse_absent(parsed: &Parsed) -> Result<(), Refusal> {
    for (option, what) in [
        ("attach-storage", "storage apart from its unit"),
        ("overlay", "bundles"),
        ("channel", "charm store"),
        ("revision", "charm store"),
    ] {
        if parsed.get(option).is_some() {
            return Err(Refusal::usage(format!("juju-local has no {what}, and so no --{option}")));
        }
    }
    match parsed.has("dry-run") {
        true => Err(Refusal::usage("juju-local has no bundles, and so no --dry-run")),
        false => Ok(()),
    }
}

/// A charm is a local file; there is no store to take a name to.
fn local_path(shown: &str) -> Result<String, Refusal> {
    let looks_local = shown.starts_with('/') || shown.starts_with('.');
    if !looks_local && Path::new(shown).exists() {
        return Err(Refusal::failed(format!(
            "The charm or bundle \"{shown}\" is ambiguous.\nTo deploy a local charm or bundle, run `juju deploy \
             ./{shown}`."
        )));
    }
    if !looks_local {
        return Err(Refusal::usage(format!("juju-local has no charm store: deploy a file, such as ./{shown}.charm")));
    }
    if shown.ends_with(".yaml") || shown.ends_with(".yml") {
        return Err(Refusal::usage("juju-local has no bundles: deploy each charm, then integrate"));
    }
    match std::path::absolute(Path::new(shown)).map(|path| path.to_string_lossy().into_owned()) {
        Ok(path) if Path::new(&path).is_file() => Ok(path),
        _ => Err(Refusal::failed(format!("no charm was found at \"{shown}\""))),
    }
}

/// `--config key=value`, and `--config file.yaml` keyed by application.
fn config_values(parsed: &Parsed) -> Result<Vec<(String, String)>, Refusal> {
    let mut values = Vec::new();
    for given in parsed.all("config").iter().filter(|given| !given.contains('=')) {
        let text = std::fs::read_to_string(given)
            .map_err(|error| Refusal::failed(format!("open {given}: {}", go_error(&error))))?;
        let document = yaml::parse(&text).map_err(Refusal::failed)?;
        let application = parsed.arguments.get(1).cloned();
        let options = match application.as_ref().and_then(|name| document.get(name)) {
            Some(options) => options.as_object(),
            None => document.as_object().and_then(|map| map.values().next()).and_then(Value::as_object),
        };
        values.extend(
            options
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))),
        );
    }
    let given: Vec<String> = parsed.all("config").iter().filter(|given| given.contains('=')).cloned().collect();
    values.extend(pairs(&given)?);
    Ok(values)
}

pub fn add_unit(arguments: &[String]) -> Outcome {
    let parsed = parse(
        &[value(&["m", "model"]), value(&["n", "num-units"]), value(&["to"]), value(&["attach-storage"])],
        arguments,
    )?;
    let Some(application) = parsed.arguments.first().cloned() else {
        return Err(Refusal::usage("no application specified"));
    };
    parsed.at_most(1).map_err(Refusal::usage)?;
    if parsed.get("attach-storage").is_some() {
        return Err(Refusal::usage("juju-local has no storage apart from its unit, and so no --attach-storage"));
    }
    let request = Request::AddUnit { application, count: count(&parsed)?, to: placement(&parsed)? };
    Client::for_command(&parsed)?.ask(&request)?;
    DONE
}

pub fn integrate(arguments: &[String]) -> Outcome {
    let parsed = parse(&[value(&["m", "model"]), value(&["via"])], arguments)?;
    let [one, other] = parsed.arguments.as_slice() else {
        return Err(Refusal::usage("an integration must involve two applications"));
    };
    let request = Request::Integrate { one: one.clone(), other: other.clone() };
    Client::for_command(&parsed)?.ask(&request)?;
    DONE
}

pub fn resolved(arguments: &[String]) -> Outcome {
    let parsed = parse(&[value(&["m", "model"]), switch(&["no-retry"]), switch(&["all"])], arguments)?;
    let mut client = Client::for_command(&parsed)?;
    let mut units = parsed.arguments.clone();
    if parsed.has("all") {
        let status = client.ask(&Request::Status)?;
        units = units_in_error(&status);
    } else if units.is_empty() {
        return Err(Refusal::usage("no unit specified"));
    }
    if let Some(bad) = units.iter().find(|name| UnitName::parse(name).is_none()) {
        return Err(Refusal::usage(format!("unit name \"{bad}\" not valid")));
    }
    for unit in units {
        client.ask(&Request::Resolved { unit, retry: !parsed.has("no-retry") })?;
    }
    DONE
}

fn units_in_error(status: &Value) -> Vec<String> {
    let applications = status["applications"].as_object().into_iter().flat_map(Map::values);
    let units = applications.filter_map(|application| application["units"].as_object()).flatten();
    units.filter(|(_, unit)| unit["workload-status"]["current"] == "error").map(|(name, _)| name.clone()).collect()
}

pub fn show_unit(arguments: &[String]) -> Outcome {
    let parsed = parse(
        &[value(&["m", "model"]), value(&["format"]), switch(&["app"]), value(&["endpoint"]), value(&["related-unit"])],
        arguments,
    )?;
    if parsed.arguments.is_empty() {
        return Err(Refusal::usage("an unit name must be supplied"));
    }
    if let Some(bad) = parsed.arguments.iter().find(|name| UnitName::parse(name).is_none()) {
        return Err(Refusal::usage(format!("unit name {bad} not valid")));
    }
    let format =
        Format::choose(parsed.get("format"), Format::Yaml, &["json", "yaml", "smart"]).map_err(Refusal::usage)?;
    let mut client = Client::for_command(&parsed)?;
    let mut shown = Map::new();
    for unit in &parsed.arguments {
        let answer = client.ask(&Request::ShowUnit { unit: unit.clone() }).map_err(Refusal::with_empty_document)?;
        shown.extend(answer.as_object().cloned().unwrap_or_default());
    }
    print!("{}", render(&Value::Object(shown), format));
    DONE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags;

    fn places(to: &str) -> Result<Vec<String>, Refusal> {
        placement(&flags::parse(&[value(&["to"])], &["--to".to_owned(), to.to_owned()], false).unwrap())
    }

    #[test]
    fn places_are_numbers_of_machines() {
        assert_eq!(places("0, 12,").ok().unwrap(), ["0", "12"]);
        for to in ["lxd", "lxd:3", "zone=a", "0/lxd/1"] {
            let refusal = places(to).err().unwrap();
            assert_eq!(refusal.code, 2);
            assert!(refusal.message.ends_with(&format!("not {to}")));
        }
    }

    #[test]
    fn a_charm_is_a_local_file() {
        let check = |shown: &str, code: u8, words: &str| {
            let refusal = local_path(shown).err().unwrap();
            assert_eq!(refusal.code, code, "{shown}");
            assert!(refusal.message.contains(words), "{}", refusal.message);
        };
        check("./missing.charm", 1, "no charm was found at \"./missing.charm\"");
        check("mysql", 2, "juju-local has no charm store");
        check("Cargo.toml", 1, "The charm or bundle \"Cargo.toml\" is ambiguous.");
        check("./bundle.yaml", 2, "juju-local has no bundles");
    }

    #[test]
    fn a_value_may_come_from_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "text\n").unwrap();
        let words = [format!("a=@{}", file.path().display()), "b=x=y".to_owned()];
        let expected = [("a".to_owned(), "text\n".to_owned()), ("b".to_owned(), "x=y".to_owned())];
        assert_eq!(pairs(&words).ok().unwrap(), expected);
        let refusal = pairs(&["a=@/nonexistent".to_owned()]).err().unwrap();
        let words = "cannot read option from file \"/nonexistent\": stat /nonexistent: no such file or directory";
        assert_eq!(refusal.message, words);
    }
}
