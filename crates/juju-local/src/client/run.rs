//! `juju run` and `juju exec`: asked for, waited for, printed.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::connect::Client;
use super::{DONE, Outcome, Refusal, parse};
use crate::agent::go_error;
use crate::flags::{Parsed, switch, value};
use crate::names::UnitName;
use crate::output::{Format, render, yaml as yaml_text};
use crate::settings;
use crate::wire::Request;
use crate::yaml;

pub const FORMATS: &[&str] = &["json", "yaml", "plain", "smart"];
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
    let parameters = parameters(&parsed, words).map_err(|refusal| empty_document(&parsed, refusal))?;
    let wait = wait_millis(&parsed, RUN_WAIT)?;
    let mut client = Client::for_command(&parsed)?;
    let queued = client.ask(&Request::Enqueue { receivers, action: action.clone(), parameters })?;
    let operation = &queued["operation"];
    let tasks: Vec<Value> = queued["tasks"].as_array().cloned().unwrap_or_default();
    if tasks.is_empty() {
        eprintln!();
        return unscheduled(&queued);
    }
    if parsed.has("background") {
        return scheduled(operation, &tasks);
    }
    let quiet = parsed.has("quiet");
    if !quiet {
        eprintln!("Running operation {operation} with {} task{}", tasks.len(), if tasks.len() == 1 { "" } else { "s" });
        for task in &tasks {
            eprintln!("  - task {} on {}", task["id"], task["tag"].as_str().unwrap_or_default());
        }
        eprintln!();
        let failures: Vec<&str> = texts(&queued["failures"]).collect();
        if !failures.is_empty() {
            eprintln!("Some actions could not be scheduled:\n{}\n", failures.join("\n"));
        }
    }
    let results = await_tasks(&mut client, &tasks, wait, !quiet).map_err(|refusal| empty_document(&parsed, refusal))?;
    finish(&parsed, &results, true)
}

/// Nobody waits: where to look later.
fn scheduled(operation: &Value, tasks: &[Value]) -> Outcome {
    let ids: Vec<String> = tasks.iter().map(|task| task["id"].to_string()).collect();
    eprintln!("Scheduled operation {operation} with task {}", ids.join(", "));
    eprintln!("Check operation status with 'juju show-operation {operation}'");
    for id in ids {
        eprintln!("Check task status with 'juju show-task {id}'");
    }
    DONE
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn unscheduled(queued: &Value) -> Outcome {
    eprintln!("Operation {} failed to schedule any tasks:", queued["operation"]);
    texts(&queued["failures"]).for_each(|why| eprintln!("{why}"));
    DONE
}

/// Whoever asked for a document gets an empty one, if the words themselves were understood.
fn empty_document(parsed: &Parsed, refusal: Refusal) -> Refusal {
    let plain = parsed.get("format").is_none_or(|format| format == "plain");
    if plain || refusal.code == 2 { refusal } else { refusal.with_empty_document() }
}

/// `--params file.yaml`, overridden by `key.key=value` words.
fn parameters(parsed: &Parsed, words: &[String]) -> Result<Value, Refusal> {
    let mut parameters = match parsed.get("params") {
        None => Map::new(),
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Refusal::failed(format!("open {path}: {}", go_error(&error))))?;
            match yaml::parse(&text).map_err(Refusal::failed)? {
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
            false => yaml::parse(text).unwrap_or_else(|_| json!(text)),
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
    if parsed.has("background") {
        return scheduled(&queued["operation"], &tasks);
    }
    let results =
        await_tasks(&mut client, &tasks, timeout_millis, false).map_err(|refusal| empty_document(&parsed, refusal))?;
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
pub fn plain(task: &Value, action: bool) -> String {
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
            text.push_str(&yaml_text(&Value::Object(shown)));
        }
        text.push('\n');
    }
    text + &output("stdout") + &output("stderr")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{self, Flag};

    const FLAGS: &[Flag] = &[value(&["params"]), switch(&["string-args"])];

    fn given(options: &[&str], words: &[&str]) -> Result<Value, Refusal> {
        let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let parsed = flags::parse(FLAGS, &owned(options), false).unwrap();
        parameters(&parsed, &owned(words))
    }

    #[test]
    fn words_are_typed_as_yaml() {
        let parameters = given(&[], &["size=5", "flag=true", "text=", "list=[1,2]"]).ok().unwrap();
        assert_eq!(parameters, json!({"size": 5, "flag": true, "text": null, "list": [1, 2]}));
    }

    #[test]
    fn dots_nest() {
        assert_eq!(given(&[], &["deep.inner=x"]).ok().unwrap(), json!({"deep": {"inner": "x"}}));
    }

    #[test]
    fn words_may_be_taken_as_text() {
        assert_eq!(given(&["--string-args"], &["size=5"]).ok().unwrap(), json!({"size": "5"}));
    }

    #[test]
    fn a_word_without_a_value_is_refused_in_jujus_words() {
        let refusal = given(&[], &["a.b.c"]).err().unwrap();
        assert_eq!(
            (refusal.message.as_str(), refusal.code),
            ("argument \"a.b.c\" must be of the form key.key.key...=value", 2)
        );
    }

    #[test]
    fn a_missing_file_of_parameters_is_refused_in_jujus_words() {
        let refusal = given(&["--params", "/nonexistent"], &[]).err().unwrap();
        assert_eq!((refusal.message.as_str(), refusal.code), ("open /nonexistent: no such file or directory", 1));
    }

    #[test]
    fn a_plain_result_is_yaml_and_then_the_output() {
        let task = json!({"id": "3", "message": "on purpose", "results": {"answer": "42", "return-code": 0,
            "stdout": "out\n"}});
        assert_eq!(plain(&task, true), "Action id 3 failed: on purpose\nanswer: \"42\"\n\nout\n");
        assert_eq!(plain(&task, false), "out\n");
    }
}
