//! What the parts of juju-local say to each other: one JSON document a line, over a stream socket. Nothing here is
//! Juju's own protocol; charms and people see only what stands at the two ends.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::charm::Directives;
use crate::model::Force;
use crate::names::UnitName;
use crate::tools;

/// From the model's daemon to the agent in a machine.
#[derive(Serialize, Deserialize)]
pub enum ToAgent {
    /// Names and addresses of all machines.
    Hosts(Vec<(String, String)>),
    /// Puts a charm (base64) into place for a unit.
    Deploy {
        unit: UnitName,
        url: String,
        archive: String,
        /// Names of the hook tools it may call.
        tools: Vec<String>,
    },
    /// Makes the directory of a storage.
    Storage {
        location: String,
    },
    /// The unit is gone: so is its place on the machine.
    Remove {
        unit: UnitName,
    },
    Reboot,
    Run(Run),
    /// Ends what `Run` started.
    Kill {
        run: u64,
    },
    Tool {
        call: u64,
        reply: tools::Reply,
    },
    Commands {
        call: u64,
        result: CommandsResult,
    },
}

/// One process for the agent to start.
#[derive(Clone, Serialize, Deserialize)]
pub struct Run {
    pub id: u64,
    /// None: `juju exec --machine`, as the user `ubuntu` and without hook tools.
    pub unit: Option<UnitName>,
    pub program: Program,
    pub environment: BTreeMap<String, String>,
    /// Logger of the process's output lines; none: not logged.
    pub module: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
pub enum Program {
    /// The charm's `dispatch`.
    Dispatch,
    /// A script for bash.
    Script(String),
}

/// From the agent in a machine to the model's daemon.
#[derive(Serialize, Deserialize)]
pub enum FromAgent {
    Hello {
        machine: String,
        password: String,
        boot: String,
    },
    /// Nothing to say, but still there.
    Alive,
    Deployed {
        unit: UnitName,
        url: String,
        error: Option<String>,
    },
    Output {
        run: u64,
        error_stream: bool,
        line: String,
    },
    Ended {
        run: u64,
        end: Result<i32, String>,
        stdout: String,
        stderr: String,
    },
    Tool {
        call: u64,
        body: tools::Call,
    },
    /// `juju-exec`.
    Commands {
        call: u64,
        unit: UnitName,
        commands: Commands,
    },
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Commands {
    pub script: String,
    pub relation: Option<String>,
    pub remote_unit: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct CommandsResult {
    pub code: i32,
    /// Base64.
    pub stdout: String,
    pub stderr: String,
}

/// What `juju-exec` asks the agent over `run.socket`.
#[derive(Serialize, Deserialize)]
pub struct CommandsCall {
    pub unit: UnitName,
    pub commands: Commands,
}

/// What a client asks the daemon of a model.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    Ping,
    /// The whole of `juju status --format json`.
    Status,
    /// Who is related to whom, for the table of `juju status --relations`.
    Integrations,
    Deploy(Deploy),
    AddUnit {
        application: String,
        count: u32,
        to: Vec<String>,
    },
    Integrate {
        one: String,
        other: String,
    },
    Config {
        application: String,
    },
    SetConfig {
        application: String,
        set: Vec<(String, String)>,
        reset: Vec<String>,
    },
    ModelConfig,
    SetModelConfig {
        set: Vec<(String, String)>,
        reset: Vec<String>,
    },
    ShowUnit {
        unit: String,
    },
    ShowModel,
    Actions {
        application: String,
        schema: bool,
    },
    Enqueue {
        receivers: Vec<String>,
        action: String,
        parameters: Value,
    },
    /// Machines and units `juju exec` is to run on.
    EnqueueExec {
        targets: Vec<String>,
        script: String,
        timeout_millis: u64,
    },
    /// The task, once it is over or the time has passed; `log_seen` lines are left out.
    WaitTask {
        id: u64,
        timeout_millis: u64,
        log_seen: usize,
    },
    ShowTask {
        id: u64,
    },
    ShowOperation {
        id: u64,
    },
    Operations,
    /// Tasks by their ids as given; those that are pending or running end.
    CancelTasks {
        ids: Vec<String>,
    },
    ShowApplication {
        application: String,
    },
    Expose {
        application: String,
        exposed: bool,
    },
    Trust {
        application: String,
        trusted: bool,
    },
    /// Constraints of an application, or of the model.
    Constraints {
        application: Option<String>,
    },
    SetConstraints {
        application: Option<String>,
        constraints: BTreeMap<String, String>,
    },
    AddMachines {
        count: u32,
        base: Option<String>,
    },
    Spaces,
    Storage,
    /// What a unit, machine or application was before; `kind` as `juju show-status-log --type` names it.
    History {
        entity: String,
        kind: String,
    },
    Keys,
    AddKeys {
        keys: Vec<String>,
    },
    RemoveKeys {
        ids: Vec<String>,
    },
    Secrets(SecretRequest),
    Resolved {
        unit: String,
        retry: bool,
    },
    RemoveUnit {
        units: Vec<String>,
        force: Force,
        /// Only says what would go.
        dry_run: bool,
    },
    RemoveApplication {
        applications: Vec<String>,
        force: Force,
        /// Only says what would go.
        dry_run: bool,
    },
    /// One word: a relation's number; two: endpoints.
    RemoveRelation {
        words: Vec<String>,
        force: Force,
    },
    RemoveMachine {
        machines: Vec<String>,
        force: Force,
        /// Only says what would go.
        dry_run: bool,
    },
    Refresh {
        application: String,
        path: String,
        config: Vec<(String, String)>,
    },
    /// Events that the model is to lose from now on.
    Lose {
        events: Vec<String>,
    },
    /// The power of a machine was switched.
    Power {
        machine: String,
        on: bool,
    },
    /// Everything leaves in order; answered at once.
    DestroyInOrder,
    /// Name on the host, state directory and unit of what `juju ssh` is to enter.
    Locate {
        target: String,
    },
    /// Removes every machine and ends the daemon.
    Destroy,
}

impl Request {
    /// Whether it may be asked again when the daemon died before it answered: twice is no more than once.
    pub fn may_be_repeated(&self) -> bool {
        use Request::*;
        matches!(
            self,
            Ping | Status
                | Integrations
                | Config { .. }
                | ModelConfig
                | ShowUnit { .. }
                | ShowModel
                | Actions { .. }
                | WaitTask { .. }
                | ShowTask { .. }
                | ShowOperation { .. }
                | Operations
                | ShowApplication { .. }
                | Constraints { .. }
                | Spaces
                | Storage
                | History { .. }
                | Keys
                | Locate { .. }
                | SetConfig { .. }
                | SetModelConfig { .. }
                | Expose { .. }
                | Trust { .. }
                | SetConstraints { .. }
                | Lose { .. }
                | Power { .. }
                | DestroyInOrder
                | Destroy
                | Secrets(SecretRequest::List { .. } | SecretRequest::Show { .. })
        )
    }
}

/// What a client asks about secrets. A secret is named by its URI, its id, or, if it belongs to the model, its name.
#[derive(Serialize, Deserialize)]
pub enum SecretRequest {
    List {
        owner: Option<String>,
        revisions: bool,
    },
    Show {
        secret: String,
        reveal: bool,
        revisions: bool,
        revision: Option<u32>,
    },
    Add {
        name: String,
        description: String,
        content: BTreeMap<String, String>,
    },
    Update {
        secret: String,
        name: Option<String>,
        description: Option<String>,
        auto_prune: bool,
        content: Option<BTreeMap<String, String>>,
    },
    Grant {
        secret: String,
        applications: Vec<String>,
    },
    Revoke {
        secret: String,
        applications: Vec<String>,
    },
    Remove {
        secret: String,
        revision: Option<u32>,
    },
}

// A request may carry the content of a secret, which no log is to show.
impl std::fmt::Debug for SecretRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SecretRequest(..)")
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Deploy {
    /// Absolute path of the charm file.
    pub path: String,
    /// The path as the user wrote it, for messages.
    pub shown: String,
    pub application: Option<String>,
    pub count: u32,
    pub to: Vec<String>,
    pub base: Option<String>,
    pub config: Vec<(String, String)>,
    pub constraints: BTreeMap<String, String>,
    pub trust: bool,
    /// `--resource` as given: `name=…`.
    pub resources: Vec<String>,
    pub storage: Directives,
}

/// Why a request was not carried out, for the client to print behind `ERROR`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failure {
    pub message: String,
    pub code: i32,
    /// Lines for standard error that come before it.
    pub progress: Vec<String>,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Failure { message: message.into(), code: 1, progress: Vec::new() }
    }
}

pub type Response = Result<Value, Failure>;

pub fn send<T: Serialize>(stream: &mut impl Write, message: &T) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    stream.flush()?;
    Ok(())
}

/// The next message, or none at the end of the stream.
pub fn receive<T: DeserializeOwned>(stream: &mut impl BufRead) -> anyhow::Result<Option<T>> {
    let mut line = Vec::new();
    if stream.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    serde_json::from_slice(&line).map(Some).context("unreadable message")
}
