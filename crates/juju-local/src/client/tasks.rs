//! What `juju run` and `juju exec` leave: tasks and operations, shown and cancelled; and the actions that could be run.

use serde_json::{Value, json};

use super::connect::Client;
use super::run::{FORMATS, plain};
use super::{DONE, Outcome, Refusal, parse, table};
use crate::flags::{switch, value};
use crate::output::{Format, render};
use crate::wire::Request;

fn show(arguments: &[String], what: &str, request: impl Fn(u64) -> Request) -> Outcome {
    let parsed = parse(
        &[value(&["m", "model"]), value(&["format"]), value(&["wait"]), value(&["watch"]), switch(&["utc"])],
        arguments,
    )?;
    let Some(text) = parsed.arguments.first() else { return Err(Refusal::usage(format!("no {what} ID specified"))) };
    let id = text.parse().map_err(|_| Refusal::failed("id not found"))?;
    let document = Client::for_command(&parsed)?.ask(&request(id)).map_err(|refusal| match what {
        "operation" => refusal.with_empty_document(),
        _ => refusal,
    })?;
    match Format::choose(parsed.get("format"), Format::Yaml, FORMATS).map_err(Refusal::usage)? {
        Format::Yaml if what == "task" && parsed.get("format").is_none() => print!("{}", plain(&document, true)),
        format => print!("{}", render(&document, format)),
    }
    DONE
}

pub fn show_task(arguments: &[String]) -> Outcome {
    show(arguments, "task", |id| Request::ShowTask { id })
}

pub fn show_operation(arguments: &[String]) -> Outcome {
    show(arguments, "operation", |id| Request::ShowOperation { id })
}

pub fn operations(arguments: &[String]) -> Outcome {
    let parsed = parse(&[value(&["m", "model"]), value(&["format"]), switch(&["utc"])], arguments)?;
    let document = Client::for_command(&parsed)?.ask(&Request::Operations)?;
    match parsed.get("format") {
        None | Some("plain") => {
            let rows: Vec<Vec<String>> = document
                .as_object()
                .into_iter()
                .flatten()
                .map(|(id, operation)| {
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    vec![
                        id.clone(),
                        text(&operation["status"]),
                        text(&operation["timing"]["enqueued"]),
                        text(&operation["summary"]),
                    ]
                })
                .collect();
            print!("{}", table::render(&["ID", "Status", "Enqueued", "Summary"], &rows, &[]));
        }
        Some(name) => {
            let format = Format::choose(Some(name), Format::Yaml, FORMATS).map_err(Refusal::usage)?;
            print!("{}", render(&document, format));
        }
    }
    DONE
}

pub fn actions(arguments: &[String]) -> Outcome {
    let parsed = parse(&[value(&["m", "model"]), value(&["format"]), switch(&["schema"])], arguments)?;
    let Some(application) = parsed.arguments.first() else { return Err(Refusal::usage("no application specified")) };
    let request = Request::Actions { application: application.clone(), schema: parsed.has("schema") };
    let document = Client::for_command(&parsed)?.ask(&request)?;
    let listed = document.as_object().cloned().unwrap_or_default();
    if listed.is_empty() && parsed.get("format").is_none() {
        eprintln!("No actions defined for {application}.");
        return DONE;
    }
    match parsed.get("format") {
        None if !parsed.has("schema") => {
            let rows: Vec<Vec<String>> = listed
                .iter()
                .map(|(name, text)| vec![name.clone(), text.as_str().unwrap_or_default().to_owned()])
                .collect();
            print!("{}", table::render(&["Action", "Description"], &rows, &[]));
        }
        name => {
            let format = Format::choose(name, Format::Yaml, FORMATS).map_err(Refusal::usage)?;
            print!("{}", render(&document, format));
        }
    }
    DONE
}

pub fn cancel(arguments: &[String]) -> Outcome {
    let parsed = parse(&[value(&["m", "model"]), value(&["format"]), value(&["o", "output"])], arguments)?;
    if let Some(bad) = parsed.arguments.iter().find(|id| id.parse::<u64>().is_err()) {
        return Err(Refusal::usage(format!("task ID \"{bad}\" not valid")));
    }
    if parsed.arguments.is_empty() {
        return Err(Refusal::failed("no task IDs specified"));
    }
    let format = Format::choose(parsed.get("format"), Format::Yaml, FORMATS).map_err(Refusal::usage)?;
    let answer = Client::for_command(&parsed)?.ask(&Request::CancelTasks { ids: parsed.arguments.clone() })?;
    let listed = |key: &str| answer[key].as_array().cloned().unwrap_or_default();
    let (cancelled, failed) = (listed("cancelled"), listed("failed"));
    if !cancelled.is_empty() {
        print!("{}", render(&json!({"actions": cancelled}), format));
    }
    if !failed.is_empty() {
        eprintln!("WARNING The following tasks could not be canceled:");
        for task in failed {
            let text = |key: &str| task[key].as_str().unwrap_or_default().to_owned();
            eprintln!("task: {}, error: {}", text("id"), text("error"));
        }
    }
    DONE
}
