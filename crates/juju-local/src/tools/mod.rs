//! The hook tools: what a charm calls while it runs. They are carried out here, beside the model; the program on the
//! machine only carries the words to and fro and reads the files that are asked for.

mod action;
mod arguments;
mod basics;
mod leader;
mod ports;
mod relation;
mod secret;
mod state;

pub use ports::sorted as sorted_ports;
pub use secret::is_content_key;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::flags::{self, Flag, Parsed};
use crate::hooks::Context;
use crate::model::{Model, Release};
use crate::output::{self, Format};

/// Tools of every release.
const NAMES: &[&str] = &[
    "action-fail",
    "action-get",
    "action-log",
    "action-set",
    "application-version-set",
    "close-port",
    "config-get",
    "credential-get",
    "goal-state",
    "is-leader",
    "juju-log",
    "juju-reboot",
    "network-get",
    "open-port",
    "opened-ports",
    "relation-get",
    "relation-ids",
    "relation-list",
    "relation-model-get",
    "relation-set",
    "resource-get",
    "secret-add",
    "secret-get",
    "secret-grant",
    "secret-ids",
    "secret-info-get",
    "secret-remove",
    "secret-revoke",
    "secret-set",
    "state-delete",
    "state-get",
    "state-set",
    "status-get",
    "status-set",
    "storage-add",
    "storage-get",
    "storage-list",
    "unit-get",
];

/// Tools that only 3.6 has.
const NAMES_OF_3: &[&str] = &["leader-get", "leader-set"];

/// The tools that the units of a model are given.
pub fn names(release: Release) -> impl Iterator<Item = &'static str> {
    let older: &[&str] = if release == Release::V3 { NAMES_OF_3 } else { &[] };
    NAMES.iter().chain(older).copied()
}

/// Whether some release has a tool of this name.
pub fn is_tool(name: &str) -> bool {
    NAMES.contains(&name) || NAMES_OF_3.contains(&name)
}

/// One call of a tool, as the program on the machine sends it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Call {
    pub context: String,
    pub tool: String,
    pub arguments: Vec<String>,
    /// Files that an earlier answer asked for: their bytes in base64, or why they could not be read.
    pub files: BTreeMap<String, Result<String, String>>,
}

/// The answer. With `wanted` the call is to be made again with that file's content (`-` is standard input).
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Reply {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub wanted: Option<String>,
    /// Where standard output goes instead (`-o`).
    pub output: Option<String>,
}

impl Reply {
    pub fn error(code: i32, message: &str) -> Self {
        Reply { code, stderr: format!("ERROR {message}\n"), ..Reply::default() }
    }
}

/// Why a tool did not do its work.
pub enum Refusal {
    /// Wrong words: exit code 2.
    Usage(String),
    /// Exit code 1.
    Failed(String),
    /// A file must be read on the machine first.
    Wanted(String),
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Refusal::Usage(message)
    }
}

pub fn usage<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Usage(message.into()))
}

pub fn failed<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Failed(message.into()))
}

/// A line for the model's log, written whatever becomes of the hook.
pub struct LogLine {
    pub level: String,
    pub module: String,
    pub message: String,
}

/// Everything a tool may look at and change.
pub struct Scene<'a> {
    pub model: &'a mut Model,
    pub context: &'a mut Context,
    pub files: &'a BTreeMap<String, Result<String, String>>,
    pub log: &'a mut Vec<LogLine>,
}

impl Scene<'_> {
    /// The content of a file on the machine; asked for when it is not there yet.
    pub fn file(&self, path: &str) -> Result<Vec<u8>, Refusal> {
        use base64::Engine as _;
        match self.files.get(path) {
            None => Err(Refusal::Wanted(path.to_owned())),
            Some(Err(why)) => failed(why.clone()),
            Some(Ok(content)) => base64::engine::general_purpose::STANDARD
                .decode(content)
                .map_err(|error| Refusal::Failed(format!("reading {path}: {error}"))),
        }
    }
}

/// What a tool prints: nothing, a value in the chosen format, or a text as it is.
pub enum Answer {
    Nothing,
    Value(Value),
    Text(String),
}

type Tool = fn(&mut Scene<'_>, &Parsed) -> Result<Answer, Refusal>;

/// How a tool's command line looks and what it does.
pub struct Definition {
    flags: &'static [Flag],
    default: Format,
    formats: &'static [&'static str],
    run: Tool,
}

const ALL_FORMATS: &[&str] = &["smart", "json", "yaml"];
const PLAIN_FORMATS: &[&str] = &["json", "yaml"];

impl Definition {
    const fn new(flags: &'static [Flag], run: Tool) -> Self {
        Definition { flags, default: Format::Smart, formats: ALL_FORMATS, run }
    }

    /// A tool that prints YAML unless told otherwise.
    const fn yaml(flags: &'static [Flag], run: Tool) -> Self {
        Definition { flags, default: Format::Yaml, formats: PLAIN_FORMATS, run }
    }
}

fn definition(tool: &str) -> Option<Definition> {
    action::definition(tool)
        .or_else(|| basics::definition(tool))
        .or_else(|| leader::definition(tool))
        .or_else(|| ports::definition(tool))
        .or_else(|| relation::definition(tool))
        .or_else(|| secret::definition(tool))
        .or_else(|| state::definition(tool))
}

/// Carries out a call.
pub fn run(scene: &mut Scene<'_>, tool: &str, arguments: &[String]) -> Reply {
    let known = names(scene.model.release).any(|name| name == tool);
    let Some(definition) = definition(tool).filter(|_| known) else {
        return Reply::error(1, &format!("bad request: unknown command: {tool}"));
    };
    // The unit is gone: the agent still knows what it has read, and has nobody left to ask.
    let asks_controller =
        tool.starts_with("secret-") || matches!(tool, "goal-state" | "resource-get" | "credential-get");
    if scene.context.orphaned && asks_controller {
        return Reply::error(1, "connection is shutdown before send");
    }
    match answer(scene, &definition, arguments) {
        Ok((stdout, output)) => Reply { stdout, output, ..Reply::default() },
        Err(Refusal::Usage(message)) => Reply::error(2, &message),
        Err(Refusal::Failed(message)) => Reply::error(1, &message),
        Err(Refusal::Wanted(file)) => Reply { wanted: Some(file), ..Reply::default() },
    }
}

fn answer(
    scene: &mut Scene<'_>,
    definition: &Definition,
    arguments: &[String],
) -> Result<(String, Option<String>), Refusal> {
    let parsed = flags::parse(definition.flags, arguments, false)?;
    let format = Format::choose(parsed.get("format"), definition.default, definition.formats)?;
    let text = match (definition.run)(scene, &parsed)? {
        Answer::Nothing => String::new(),
        Answer::Text(text) => text,
        Answer::Value(value) => output::render(&value, format),
    };
    Ok((text, parsed.get("o").map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_of_juju_is_defined() {
        for name in names(Release::V3) {
            assert!(definition(name).is_some(), "{name}");
        }
        assert!(!names(Release::V4).any(|name| name == "leader-get"));
    }
}
