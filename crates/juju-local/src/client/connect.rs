//! Which model is meant, and the way to its daemon, which is started again if it died.

use std::fs::{self, OpenOptions};
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use super::Refusal;
use crate::flags::Parsed;
use crate::model::CONTROLLER;
use crate::names::check_model;
use crate::paths::{self, ModelPaths};
use crate::socket;
use crate::wire::{Request, Response, receive, send};

const START_LIMIT: Duration = Duration::from_secs(10);
const RIVAL_LIMIT: Duration = Duration::from_secs(2);

/// A model's daemon, ready to be asked.
pub struct Client {
    pub model: String,
    stream: UnixStream,
}

impl Client {
    /// The model of `-m`, of `JUJU_MODEL`, or the current one.
    pub fn for_command(parsed: &Parsed) -> Result<Client, Refusal> {
        let named = parsed.get("m").map(str::to_owned).or_else(|| std::env::var("JUJU_MODEL").ok());
        let model = match named.filter(|name| !name.is_empty()) {
            Some(name) => short_name(&name).to_owned(),
            None => current_model().ok_or_else(|| {
                Refusal::failed("No selected model.\n\nhint: juju add-model <name>, or juju switch <name>")
            })?,
        };
        Client::connect(&model)
    }

    pub fn connect(model: &str) -> Result<Client, Refusal> {
        Ok(Client { model: model.to_owned(), stream: reach(model)? })
    }

    pub fn ask(&mut self, request: &Request) -> Result<Value, Refusal> {
        let mut answer = exchange(&self.stream, request);
        if answer.is_err() && request.may_be_repeated() {
            self.stream = reach(&self.model)?;
            answer = exchange(&self.stream, request);
        }
        let answer = answer.map_err(|_| {
            let model = &self.model;
            Refusal::failed(format!(
                "the daemon of model {model} went away before it answered\nhint: juju status -m {model} shows what \
                 has become of this"
            ))
        })?;
        Ok(answer?)
    }
}

fn exchange(stream: &UnixStream, request: &Request) -> anyhow::Result<Response> {
    send(&mut &*stream, request)?;
    receive(&mut BufReader::new(stream))?.context("the connection was closed")
}

/// A way to a daemon that answers. One that is just dying is not taken for one: another is started when it is gone.
fn reach(model: &str) -> Result<UnixStream, Refusal> {
    let paths = ModelPaths::of(model);
    let deadline = Instant::now() + START_LIMIT;
    loop {
        if check_model(model).is_err() || !paths.state_file().exists() {
            return Err(Refusal::failed(format!("model {CONTROLLER}:{model} not found")));
        }
        let stream = match socket::connect(&paths.socket()) {
            Ok(stream) => stream,
            Err(_) => start_daemon(model, &paths)?,
        };
        stream.set_read_timeout(Some(START_LIMIT)).context("limiting the wait for the daemon")?;
        if exchange(&stream, &Request::Ping).is_ok() {
            stream.set_read_timeout(None).context("waiting for the daemon")?;
            return Ok(stream);
        }
        if Instant::now() > deadline {
            return Err(Refusal::failed(format!("the daemon of model {model} does not answer")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `[controller:][user/]model` without what stands before the model.
pub fn short_name(name: &str) -> &str {
    let name = name.rsplit(':').next().unwrap_or(name);
    name.rsplit('/').next().unwrap_or(name)
}

pub fn current_model() -> Option<String> {
    let name = fs::read_to_string(paths::state().join("current")).ok()?.trim().to_owned();
    (check_model(&name).is_ok() && ModelPaths::of(&name).state_file().exists()).then_some(name)
}

pub fn set_current(name: &str) -> anyhow::Result<()> {
    let file = paths::state().join("current");
    fs::write(&file, format!("{name}\n")).with_context(|| format!("writing {}", file.display()))
}

/// Starts the daemon of a model in the background and waits until it answers.
#[expect(clippy::disallowed_methods, reason = "where daemons are started")]
pub fn start_daemon(model: &str, paths: &ModelPaths) -> anyhow::Result<UnixStream> {
    let log =
        OpenOptions::new().create(true).append(true).open(paths.daemon_log()).context("opening the daemon's log")?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg0("juju-local")
        .args(["daemon", model])
        .env(paths::STATE_VARIABLE, paths::state())
        .env(paths::CACHE_VARIABLE, paths::cache())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .context("starting the daemon")?;
    let mut deadline = Instant::now() + START_LIMIT;
    let mut ended = false;
    loop {
        if let Ok(stream) = socket::connect(&paths.socket()) {
            return Ok(stream);
        }
        // It may have ended because another one is just starting: that one is given a moment.
        if !ended && child.try_wait()?.is_some() {
            ended = true;
            deadline = Instant::now() + RIVAL_LIMIT;
        }
        if Instant::now() > deadline {
            let text = fs::read_to_string(paths.daemon_log()).unwrap_or_default();
            let last = text.lines().last().unwrap_or("it said nothing").to_owned();
            anyhow::bail!("the daemon of model {model} did not start: {last}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
