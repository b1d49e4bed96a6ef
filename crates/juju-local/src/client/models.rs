//! Models: made, listed, shown, destroyed.

use std::fs;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::connect::{Client, current_model, set_current, short_name, start_daemon};
use super::{DONE, Outcome, Refusal, parse, table};
use crate::daemon;
use crate::flags::{switch, value};
use crate::machine::{self, image};
use crate::model::{CLOUD, CONTROLLER, Model, Release, USER, VERSION};
use crate::names::check_model;
use crate::output::{Format, render};
use crate::paths::{self, ModelPaths};
use crate::settings;
use crate::wire::Request;

/// Not a setting of Juju's: which Juju a new model is.
const VERSION_SETTING: &str = "juju-version";
const FORMATS: &[&str] = &["json", "yaml", "tabular"];

pub fn add(arguments: &[String]) -> Outcome {
    let parsed = parse(
        &[
            switch(&["no-switch"]),
            value(&["config"]),
            value(&["credential"]),
            value(&["c", "controller"]),
            value(&["owner"]),
        ],
        arguments,
    )?;
    let Some(name) = parsed.arguments.first() else { return Err(Refusal::usage("model name is required")) };
    check_model(name).map_err(Refusal::usage)?;
    parsed.at_most(3).map_err(Refusal::usage)?;
    let paths = ModelPaths::of(name);
    if paths.state_file().exists() {
        return Err(Refusal::failed(format!("model {USER}/{name} already exists (already exists)")));
    }
    let mut model = Model::new(name, &new_uuid()?, &controller_uuid()?, &paths::slurm());
    for pair in parsed.all("config") {
        let Some((key, text)) = pair.split_once('=') else {
            return Err(Refusal::usage(format!("expected \"key=value\", got \"{pair}\"")));
        };
        if key == VERSION_SETTING {
            choose_version(&mut model, text)?;
            continue;
        }
        model.config.insert(key.to_owned(), settings::parse(key, text).map_err(Refusal::failed)?);
    }
    fs::create_dir_all(paths::state())
        .map_err(|error| Refusal::failed(format!("{}: {error}", paths::state().display())))?;
    machine::preflight(&paths::state())?;
    let release = image::SlurmRelease::parse(&model.slurm)?;
    image::ensure(&paths::cache(), release, &mut |line| eprintln!("{line}"))?;
    daemon::create(&paths, &model)?;
    if let Err(error) = start_daemon(name, &paths) {
        fs::remove_dir_all(paths.root()).ok();
        return Err(error.into());
    }
    if !parsed.has("no-switch") {
        set_current(name)?;
    }
    eprintln!("Added '{name}' model on {CLOUD}/{CLOUD} with credential 'default' for user '{USER}'");
    DONE
}

/// `juju-version=3.6` (or `3.6.28`, `4.0`): the line of Juju that the model imitates from its first hook on.
fn choose_version(model: &mut Model, text: &str) -> Result<(), Refusal> {
    model.version = match text {
        "3.6" => "3.6.28".to_owned(),
        "4.0" => VERSION.to_owned(),
        exact if exact.starts_with("3.6.") || exact.starts_with("4.0.") => exact.to_owned(),
        other => {
            return Err(Refusal::usage(format!(
                "{VERSION_SETTING}={other}: juju-local imitates 3.6 and 4.0, nothing else"
            )));
        }
    };
    model.release = Release::of(&model.version);
    Ok(())
}

fn new_uuid() -> anyhow::Result<String> {
    let hex = crate::random_hex(16)?;
    Ok(format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..]))
}

/// One for all models below a state directory, made once.
fn controller_uuid() -> anyhow::Result<String> {
    let file = paths::state().join("controller-uuid");
    if let Ok(text) = fs::read_to_string(&file) {
        return Ok(text.trim().to_owned());
    }
    let uuid = new_uuid()?;
    fs::create_dir_all(paths::state())?;
    fs::write(file, format!("{uuid}\n"))?;
    Ok(uuid)
}

pub fn destroy(arguments: &[String]) -> Outcome {
    let parsed = parse(
        &[
            switch(&["no-prompt"]),
            switch(&["y"]),
            switch(&["destroy-storage"]),
            switch(&["release-storage"]),
            switch(&["force"]),
            switch(&["no-wait"]),
            value(&["t", "timeout"]),
        ],
        arguments,
    )?;
    let Some(name) = parsed.arguments.first().map(|name| short_name(name).to_owned()) else {
        return Err(Refusal::usage("no model specified"));
    };
    // A model that nobody can serve any more is removed by force all the same.
    let client = match Client::connect(&name) {
        Ok(client) => Some(client),
        Err(_) if parsed.has("force") && exists(&name) => None,
        Err(refusal) => return Err(refusal),
    };
    if !parsed.has("no-prompt") && !confirm(&name)? {
        return Err(Refusal::failed("model destruction: aborted"));
    }
    eprintln!("Destroying model");
    let Some(mut client) = client else {
        crate::local::wipe(&name)?;
        return finish_destruction(&name);
    };
    if !parsed.has("force") {
        client.ask(&Request::DestroyInOrder)?;
        let limit = parsed.get("t").and_then(settings::duration).map(Duration::from_millis);
        wait_until_empty(&mut client, limit)?;
    }
    // Its daemon may have ended it already: then there is nobody left to ask.
    if let Err(refusal) = client.ask(&Request::Destroy)
        && exists(&name)
    {
        return Err(refusal);
    }
    drop(client);
    finish_destruction(&name)
}

fn finish_destruction(name: &str) -> Outcome {
    forget(name)?;
    eprintln!("Model destroyed.");
    DONE
}

fn exists(name: &str) -> bool {
    check_model(name).is_ok() && ModelPaths::of(name).state_file().exists()
}

/// Waits for every unit to leave in its own time.
fn wait_until_empty(client: &mut Client, limit: Option<Duration>) -> Result<(), Refusal> {
    let started = std::time::Instant::now();
    let mut said = String::new();
    loop {
        let status = match client.ask(&Request::Status) {
            Ok(status) => status,
            Err(_) if !exists(&client.model) => return Ok(()),
            Err(refusal) => return Err(refusal),
        };
        let count = |key: &str| status[key].as_object().map_or(0, Map::len);
        let (machines, applications) = (count("machines"), count("applications"));
        if machines == 0 && applications == 0 {
            return Ok(());
        }
        let line = format!("Waiting for model to be removed, {machines} machine(s), {applications} application(s)...");
        if line != said {
            eprintln!("{line}");
            said = line;
        }
        if limit.is_some_and(|limit| started.elapsed() > limit) {
            return Err(Refusal::failed("timeout reached: the model still has units that leave"));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn confirm(name: &str) -> anyhow::Result<bool> {
    eprint!("This removes model {name} with all its machines and data.\nTo continue, enter the name of the model: ");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(line.trim() == name)
}

/// Waits until the daemon has let go, then deletes what is left of the model.
fn forget(name: &str) -> anyhow::Result<()> {
    let paths = ModelPaths::of(name);
    if let Ok(lock) = fs::File::open(paths.lock()) {
        for _ in 0..200 {
            if lock.try_lock().is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
    }
    // A daemon that came to its end took everything along; one that was killed at the last moment did not.
    if paths.root().exists() {
        crate::local::wipe(name)?;
    }
    if fs::read_to_string(paths::state().join("current")).is_ok_and(|current| current.trim() == name) {
        fs::remove_file(paths::state().join("current")).ok();
    }
    Ok(())
}

/// Names of all models of this state directory.
fn names() -> Vec<String> {
    directories().into_iter().filter(|name| exists(name)).collect()
}

/// Names of everything that is a model or was to become one.
pub fn directories() -> Vec<String> {
    let entries = fs::read_dir(paths::models()).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| check_model(name).is_ok())
        .collect();
    names.sort();
    names
}

pub fn list(arguments: &[String]) -> Outcome {
    let parsed =
        parse(&[value(&["format"]), value(&["c", "controller"]), switch(&["all"]), switch(&["uuid"])], arguments)?;
    let mut models = Vec::new();
    for name in names() {
        // One that cannot be served does not hide the others.
        match Client::connect(&name).and_then(|mut client| client.ask(&Request::ShowModel)) {
            Ok(shown) => models.push(entry(&shown[&name])),
            Err(refusal) => eprintln!("WARNING {}", refusal.message),
        }
    }
    let format = Format::choose(parsed.get("format"), Format::Smart, FORMATS).map_err(Refusal::usage)?;
    let document = json!({"models": models, "current-model": current_model()});
    match format {
        Format::Smart => {
            let rows = models.iter().map(|model| {
                let text = |key: &str| model[key].as_str().unwrap_or_default().to_owned();
                let mark = if current_model().is_some_and(|current| current == text("short-name")) { "*" } else { "" };
                vec![
                    format!("{}{mark}", text("short-name")),
                    CLOUD.to_owned(),
                    "unmanaged".to_owned(),
                    "available".to_owned(),
                ]
            });
            print!("{}", table::render(&["Model", "Cloud/Region", "Type", "Status"], &rows.collect::<Vec<_>>(), &[]));
        }
        format => print!("{}", render(&document, format)),
    }
    DONE
}

/// The part of `show-model` that `models` shows.
fn entry(shown: &Value) -> Value {
    const KEYS: &[&str] = &[
        "name",
        "short-name",
        "model-uuid",
        "model-type",
        "controller-uuid",
        "controller-name",
        "is-controller",
        "cloud",
        "region",
        "type",
        "life",
        "status",
        "agent-version",
    ];
    let mut entry: Map<String, Value> = KEYS.iter().map(|key| ((*key).to_owned(), shown[*key].clone())).collect();
    entry.insert("access".to_owned(), json!("admin"));
    entry.insert("last-connection".to_owned(), json!("just now"));
    Value::Object(entry)
}

pub fn show(arguments: &[String]) -> Outcome {
    let parsed = parse(&[value(&["format"]), value(&["m", "model"])], arguments)?;
    let connected = match parsed.arguments.first() {
        Some(name) => Client::connect(short_name(name)),
        None => Client::for_command(&parsed),
    };
    let shown = connected.map_err(Refusal::with_empty_document)?.ask(&Request::ShowModel)?;
    let format = Format::choose(parsed.get("format"), Format::Yaml, FORMATS).map_err(Refusal::usage)?;
    print!("{}", render(&shown, format));
    DONE
}

pub fn switch_to(arguments: &[String]) -> Outcome {
    let Some(name) = arguments.first().map(|name| short_name(name)) else {
        let current = current_model().ok_or_else(|| Refusal::failed("no currently specified model"))?;
        println!("{CONTROLLER}:{USER}/{current}");
        return DONE;
    };
    Client::connect(name)?;
    let before = current_model().unwrap_or_default();
    set_current(name)?;
    eprintln!("{CONTROLLER}:{USER}/{before} -> {CONTROLLER}:{USER}/{name}");
    DONE
}

pub fn version(arguments: &[String]) -> Outcome {
    let parsed = parse(&[value(&["format"]), switch(&["all"])], arguments)?;
    let version = format!("{VERSION}-ubuntu-amd64");
    let format =
        Format::choose(parsed.get("format"), Format::Smart, &["smart", "json", "yaml"]).map_err(Refusal::usage)?;
    let document = match parsed.has("all") {
        true => json!({"version": version, "git-commit": "", "git-tree-state": "", "compiler": "rustc"}),
        false => json!(version),
    };
    print!("{}", render(&document, format));
    DONE
}

pub fn controllers(arguments: &[String]) -> Outcome {
    let parsed = parse(&[value(&["format"]), switch(&["refresh"])], arguments)?;
    let format = Format::choose(parsed.get("format"), Format::Smart, FORMATS).map_err(Refusal::usage)?;
    let document = json!({
        "controllers": {CONTROLLER: {
            "current-model": current_model(), "user": USER, "access": "superuser", "cloud": CLOUD,
                "agent-version": VERSION,
            "uuid": controller_uuid()?,
        }},
        "current-controller": CONTROLLER,
    });
    match format {
        Format::Smart => {
            let row = [CONTROLLER, USER, "superuser", CLOUD, VERSION].map(str::to_owned).to_vec();
            print!("{}", table::render(&["Controller", "User", "Access", "Cloud/Region", "Version"], &[row], &[]));
        }
        format => print!("{}", render(&document, format)),
    }
    DONE
}

pub fn whoami(arguments: &[String]) -> Outcome {
    let parsed = parse(&[value(&["format"])], arguments)?;
    let format = Format::choose(parsed.get("format"), Format::Yaml, FORMATS).map_err(Refusal::usage)?;
    print!("{}", render(&json!({"controller": CONTROLLER, "model": current_model(), "user": USER}), format));
    DONE
}
