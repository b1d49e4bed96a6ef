//! `juju config` and `juju model-config`.

use serde_json::Value;

use super::connect::Client;
use super::deploy::pairs;
use super::{DONE, Outcome, Refusal, parse};
use crate::agent::go_error;
use crate::flags::{Parsed, value};
use crate::output::{Format, render};
use crate::wire::Request;
use crate::yaml;

fn reset_keys(parsed: &Parsed) -> Vec<String> {
    let listed = parsed.all("reset").iter().flat_map(|list| list.split(','));
    listed.map(str::trim).filter(|key| !key.is_empty()).map(str::to_owned).collect()
}

/// Splits words into keys to show and pairs to set, and refuses to do both at once.
fn keys_and_pairs(words: &[String], reset: &[String]) -> Result<(Vec<String>, Vec<String>), Refusal> {
    let (pairs, keys): (Vec<String>, Vec<String>) = words.iter().cloned().partition(|word| word.contains('='));
    if !keys.is_empty() && !pairs.is_empty() {
        return Err(Refusal::usage("cannot get value and set key=value pairs simultaneously"));
    }
    if let Some(key) = reset.iter().find(|key| pairs.iter().any(|pair| pair.split('=').next() == Some(key))) {
        return Err(Refusal::usage(format!("cannot set and reset key \"{key}\" simultaneously")));
    }
    Ok((keys, pairs))
}

pub fn application(arguments: &[String]) -> Outcome {
    let parsed = parse(
        &[value(&["m", "model"]), value(&["format"]), value(&["o", "output"]), value(&["file"]), value(&["reset"])],
        arguments,
    )?;
    let Some((application, words)) = parsed.arguments.split_first() else {
        return Err(Refusal::usage("no application specified"));
    };
    let reset = reset_keys(&parsed);
    let (keys, mut given) = keys_and_pairs(words, &reset)?;
    let mut client = Client::for_command(&parsed)?;
    if let Some(path) = parsed.get("file") {
        given.extend(pairs_of_file(path, application).map_err(Refusal::with_empty_document)?);
    }
    if !given.is_empty() || !reset.is_empty() {
        let set = pairs(&given).map_err(Refusal::with_empty_document)?;
        let request = Request::SetConfig { application: application.clone(), set, reset };
        client.ask(&request).map_err(Refusal::with_empty_document)?;
        return DONE;
    }
    let shown =
        client.ask(&Request::Config { application: application.clone() }).map_err(Refusal::with_empty_document)?;
    let Some(key) = keys.first() else {
        let format =
            Format::choose(parsed.get("format"), Format::Yaml, &["json", "yaml", "smart"]).map_err(Refusal::usage)?;
        print!("{}", render(&shown, format));
        return DONE;
    };
    let entry = shown["settings"].get(key).or_else(|| shown["application-config"].get(key));
    let Some(entry) = entry else {
        let message = format!("key \"{key}\" not found in \"{application}\" application config or charm settings.");
        return Err(Refusal::failed(message).with_empty_document());
    };
    match &entry["value"] {
        Value::Null => println!(),
        Value::String(text) => println!("{text}"),
        other => println!("{other}"),
    }
    DONE
}

/// Options of a YAML file, keyed by the application's name.
fn pairs_of_file(path: &str, application: &str) -> Result<Vec<String>, Refusal> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Refusal::failed(format!("open {path}: {}", go_error(&error))))?;
    let document = yaml::parse(&text).map_err(Refusal::failed)?;
    let Some(options) = document.get(application).and_then(Value::as_object) else {
        return Err(Refusal::failed(format!("no settings found for \"{application}\"")));
    };
    Ok(options
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect())
}

pub fn model(arguments: &[String]) -> Outcome {
    let parsed =
        parse(&[value(&["m", "model"]), value(&["format"]), value(&["o", "output"]), value(&["reset"])], arguments)?;
    let reset = reset_keys(&parsed);
    let (keys, given) = keys_and_pairs(&parsed.arguments, &reset)?;
    let mut client = Client::for_command(&parsed)?;
    if !given.is_empty() || !reset.is_empty() {
        let answer = client.ask(&Request::SetModelConfig { set: pairs(&given)?, reset })?;
        for warning in answer["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            eprintln!("{warning}");
        }
        return DONE;
    }
    let shown = client.ask(&Request::ModelConfig)?;
    if let Some(key) = keys.first() {
        let Some(entry) = shown.get(key) else {
            let model = &client.model;
            return Err(Refusal::failed(format!(
                "\"{key}\" is not a key of the currently targeted model: \"{model}\""
            )));
        };
        print!("{}", render(&entry["Value"], Format::Smart));
        return DONE;
    }
    match Format::choose(parsed.get("format"), Format::Smart, &["json", "yaml", "tabular"]).map_err(Refusal::usage)? {
        Format::Smart => {
            let rows: Vec<Vec<String>> = shown
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, entry)| {
                    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    vec![key.clone(), text(&entry["Source"]), text(&entry["Value"])]
                })
                .collect();
            print!("{}", super::table::render(&["Attribute", "From", "Value"], &rows, &[]));
        }
        format => print!("{}", render(&shown, format)),
    }
    DONE
}
