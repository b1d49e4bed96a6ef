//! `juju run`, `juju exec`, and the tasks and operations they leave.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::connect::Client;
use super::{DONE, Outcome, Refusal, parse, table};
use crate::agent::go_error;
use crate::flags::{Parsed, switch, value};
use crate::names::UnitName;
use crate::output::{Format, render, yaml};
use crate::settings;
use crate::wire::Request;

const FORMATS: &[&str] = &["json", "yaml", "plain", "smart"];
const RUN_WAIT: u64 = 60_000;
const EXEC_WAIT: u64 = 300_000;

fn wait_millis(parsed: &Parsed, default: u64) -> Result<u64, Refusal> {
    let Some(text) = parsed.get("wait") else { return Ok(default) };
    settings::duration(text).ok_or_else(|| {
        Refusal::usage(format!("invalid value \"{text}\" for option --wait: time: invalid duration \"{text}\""))
    })
}

pub fn run(arguments: &[String]) -> Outcome {
    let parsed = parse(
        &[
            value(&["m", "model"]),
            value(&["format"]),
            value(&["o", "output"]),
            value(&["wait"]),
            value(&["params"]),
            switch(&["string-args"]),
            switch(&["background"]),
            switch(&["quiet"]),
            switch(&["utc"]),
            value(&["max-wait"]),
        ],
        arguments,
    )?;
    let is_unit = |word: &String| UnitName::parse(word).is_some() || word.ends_with("/leader");
    let receivers: Vec<String> = parsed.arguments.iter().take_while(|word| is_unit(word)).cloned().collect();
    if receivers.is_empty() {
        return Err(Refusal::usage("no unit specified"));
    }
    let Some((action, words)) = parsed.arguments[receivers.len()..].split_first() else {
        return Err(Refusal::usage("no action specified"));
    };
    let parameters = parameters(&parsed, words)?;
    let wait = wait_millis(&parsed, RUN_WAIT)?;
    let mut client = Client::for_command(&parsed)?;
    let queued = client.ask(&Request::Enqueue { receivers, action: action.clone(), parameters })?;
    let operation = &queued["operation"];
    let tasks: Vec<Value> = queued["tasks"].as_array().cloned().unwrap_or_default();
    if tasks.is_empty() {
        return unscheduled(&queued);
    }
    if parsed.has("background") {
        let ids: Vec<String> = tasks.iter().map(|task| task["id"].to_string()).collect();
        eprintln!("Scheduled operation {operation} with task {}", ids.join(", "));
        eprintln!("Check operation status with 'juju show-operation {operation}'");
        for id in ids {
            eprintln!("Check task status with 'juju show-task {id}'");
        }
        return DONE;
    }
    let quiet = parsed.has("quiet");
    if !quiet {
        eprintln!("Running operation {operation} with {} task{}", tasks.len(), if tasks.len() == 1 { "" } else { "s" });
        for task in &tasks {
            eprintln!("  - task {} on {}", task["id"], task["tag"].as_str().unwrap_or_default());
        }
        eprintln!();
    }
    let results = await_tasks(&mut client, &tasks, wait, !quiet)?;
    finish(&parsed, &results, true)
}

fn unscheduled(queued: &Value) -> Outcome {
    eprintln!("Operation {} failed to schedule any tasks:", queued["operation"]);
    for why in queued["failures"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        eprintln!("{why}");
    }
    DONE
}

/// `--params file.yaml`, overridden by `key.key=value` words.
fn parameters(parsed: &Parsed, words: &[String]) -> Result<Value, Refusal> {
    let mut parameters = match parsed.get("params") {
        None => Map::new(),
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Refusal::failed(format!("open {path}: {}", go_error(&error))))?;
            let document: Value =
                serde_yaml::from_str(&text).map_err(|error| Refusal::failed(format!("yaml: {error}")))?;
            match document {
                Value::Object(map) => map,
                Value::Null => Map::new(),
                _ => return Err(Refusal::failed("params file must contain a YAML map with string keys")),
            }
        }
    };
    for word in words {
        let Some((path, text)) = word.split_once('=') else {
            return Err(Refusal::usage(format!("argument \"{word}\" must be of the form key.key.key...=value")));
        };
        let value = match parsed.has("string-args") {
            true => json!(text),
            false => serde_yaml::from_str(text).unwrap_or_else(|_| json!(text)),
        };
        insert(&mut parameters, &path.split('.').collect::<Vec<_>>(), value);
    }
    Ok(Value::Object(parameters))
}

fn insert(map: &mut Map<String, Value>, keys: &[&str], value: Value) {
    match keys {
        [] => {}
        [last] => {
            map.insert((*last).to_owned(), value);
        }
        [first, rest @ ..] => {
            let inner = map.entry((*first).to_owned()).or_insert_with(|| json!({}));
            if !inner.is_object() {
                *inner = json!({});
            }
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

pub fn exec(arguments: &[String]) -> Outcome {
    let parsed = parse(
        &[
            value(&["m", "model"]),
            value(&["format"]),
            value(&["o", "output"]),
            value(&["wait"]),
            value(&["u", "unit"]),
            value(&["machine"]),
            value(&["a", "app", "application"]),
            switch(&["all"]),
            switch(&["parallel"]),
            value(&["execution-group"]),
            switch(&["background"]),
            switch(&["utc"]),
            switch(&["operator"]),
        ],
        arguments,
    )?;
    let mut targets: Vec<String> = Vec::new();
    let listed =
        |name: &str| parsed.all(name).iter().flat_map(|list| list.split(',')).map(str::to_owned).collect::<Vec<_>>();
    if parsed.has("all") {
        targets.push("--all".to_owned());
    }
    targets.extend(listed("machine").into_iter().map(|machine| format!("machine {machine}")));
    targets.extend(listed("a").into_iter().map(|application| format!("application {application}")));
    targets.extend(listed("u"));
    targets.dedup();
    if targets.is_empty() {
        return Err(Refusal::usage(
            "You must specify a target, either through --all, --machine, --application or --unit",
        ));
    }
    let script = match parsed.arguments.as_slice() {
        [] => return Err(Refusal::usage("no commands specified")),
        [one] => one.clone(),
        several => several.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "),
    };
    let timeout_millis = wait_millis(&parsed, EXEC_WAIT)?;
    let mut client = Client::for_command(&parsed)?;
    let queued = client.ask(&Request::EnqueueExec { targets, script, timeout_millis })?;
    let tasks: Vec<Value> = queued["tasks"].as_array().cloned().unwrap_or_default();
    if tasks.is_empty() {
        return unscheduled(&queued);
    }
    let results = match await_tasks(&mut client, &tasks, timeout_millis, false) {
        Err(refusal) if parsed.get("format").is_some_and(|format| format != "plain") => {
            return Err(refusal.with_empty_document());
        }
        other => other?,
    };
    finish(&parsed, &results, false)
}

/// For a shell: nothing inside means anything to it.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\"'\"'"))
}

/// Waits for all tasks, showing their log lines as they come; pairs of receiver and task.
fn await_tasks(
    client: &mut Client,
    tasks: &[Value],
    wait: u64,
    progress: bool,
) -> Result<Vec<(String, Value)>, Refusal> {
    let deadline = Instant::now() + Duration::from_millis(wait);
    let mut results = Vec::new();
    let mut late = Vec::new();
    for task in tasks {
        let id = task["id"].as_u64().unwrap_or(0);
        let receiver = task["receiver"].as_str().unwrap_or_default().to_owned();
        if progress {
            eprintln!("Waiting for task {id}...");
        }
        let mut log_seen = 0;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout_millis = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            let answer = client.ask(&Request::WaitTask { id, timeout_millis, log_seen })?;
            for line in answer["log"].as_array().into_iter().flatten() {
                log_seen += 1;
                if progress {
                    eprintln!("{} {}", line[0].as_str().unwrap_or_default(), line[1].as_str().unwrap_or_default());
                }
            }
            if answer["over"] == json!(true) {
                results.push((receiver, answer["task"].clone()));
                break;
            }
            if left.is_zero() {
                late.push(receiver);
                break;
            }
        }
        if progress && log_seen > 0 {
            eprintln!();
        }
    }
    if late.is_empty() {
        return Ok(results);
    }
    let names: Vec<String> = late
        .iter()
        .map(|name| if name.contains('/') { format!("unit {name}") } else { format!("machine {name}") })
        .collect();
    Err(Refusal::failed(format!("timed out waiting for results from: {}", names.join(", "))))
}

/// Prints results and turns return codes into an exit code.
fn finish(parsed: &Parsed, results: &[(String, Value)], action: bool) -> Outcome {
    let format = parsed.get("format").unwrap_or("plain");
    if format == "plain" {
        for (_, task) in results {
            print!("{}", plain(task, action));
        }
    } else {
        let document = Value::Object(results.iter().cloned().collect());
        let format = Format::choose(Some(format), Format::Json, FORMATS).map_err(Refusal::usage)?;
        print!("{}", render(&document, format));
    }
    let failed: Vec<(String, i64)> = results
        .iter()
        .filter_map(|(_, task)| {
            let code = task["results"]["return-code"].as_i64()?;
            (code != 0).then(|| (task["id"].as_str().unwrap_or_default().to_owned(), code))
        })
        .collect();
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let lines: Vec<String> =
        failed.iter().map(|(id, code)| format!(" - id \"{id}\" with return code {code}")).collect();
    let what = if failed.len() == 1 { "task" } else { "tasks" };
    Err(Refusal::failed(format!(
        "the following {what} failed:\n{}\n\nuse 'juju show-task' to inspect the failure{}\n",
        lines.join("\n"),
        if failed.len() == 1 { "" } else { "s" }
    )))
}

/// Results as YAML, then the output of the process.
fn plain(task: &Value, action: bool) -> String {
    let results = task["results"].as_object().cloned().unwrap_or_default();
    let output = |key: &str| results.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut text = String::new();
    if action {
        if let Some(message) = task["message"].as_str() {
            text.push_str(&format!("Action id {} failed: {message}\n", task["id"].as_str().unwrap_or_default()));
        }
        let shown: Map<String, Value> = results
            .iter()
            .filter(|(key, _)| !key.starts_with("stdout") && !key.starts_with("stderr") && *key != "return-code")
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !shown.is_empty() {
            text.push_str(&yaml(&Value::Object(shown)));
        }
        text.push('\n');
    }
    text + &output("stdout") + &output("stderr")
}

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
