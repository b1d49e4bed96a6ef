//! The files of a model: its state, replaced whole at each change, and its log, which only grows.

use std::fs::{self, File, OpenOptions};
use std::io::Write;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::State;
use crate::clock::Moment;
use crate::model::Model;
use crate::paths::ModelPaths;

/// One line of `juju debug-log`.
#[derive(Serialize, Deserialize)]
pub struct LogRecord {
    pub entity: String,
    pub time: Moment,
    pub level: String,
    pub module: String,
    pub message: String,
}

impl LogRecord {
    pub fn severity(level: &str) -> usize {
        ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"].iter().position(|known| *known == level).unwrap_or(2)
    }
}

/// Makes the directory and the first state of a model.
pub fn create(paths: &ModelPaths, model: &Model) -> anyhow::Result<()> {
    fs::create_dir_all(paths.root().join("charms")).with_context(|| format!("creating {}", paths.root().display()))?;
    fs::create_dir_all(paths.root().join("machines"))?;
    fs::create_dir_all(paths.shared())?;
    use std::os::unix::fs::PermissionsExt;
    // Secrets are in the state file.
    fs::set_permissions(paths.root(), fs::Permissions::from_mode(0o700))?;
    write(paths, model)
}

pub fn load(paths: &ModelPaths) -> anyhow::Result<Model> {
    let file = paths.state_file();
    let text = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let hint = "it was made by another version; `juju-local clean` removes it";
    serde_json::from_slice(&text).with_context(|| format!("{} cannot be read: {hint}", file.display()))
}

/// The six digits of a model, also of one that this version cannot read.
pub fn short_id(paths: &ModelPaths) -> anyhow::Result<String> {
    let file = paths.state_file();
    let text = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let value: serde_json::Value = serde_json::from_slice(&text).context("it is not JSON")?;
    let uuid = value["uuid"].as_str().unwrap_or_default();
    let digits: String = uuid.chars().rev().take(6).collect::<Vec<char>>().into_iter().rev().collect();
    match digits.len() == 6 && digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
        true => Ok(digits),
        false => anyhow::bail!("{} names no model", file.display()),
    }
}

fn write(paths: &ModelPaths, model: &Model) -> anyhow::Result<()> {
    let file = paths.state_file();
    let temporary = file.with_extension("new");
    fs::write(&temporary, serde_json::to_vec(model)?).with_context(|| format!("writing {}", temporary.display()))?;
    fs::rename(&temporary, &file).with_context(|| format!("replacing {}", file.display()))
}

pub fn open_log(paths: &ModelPaths) -> anyhow::Result<File> {
    OpenOptions::new().create(true).append(true).open(paths.log()).context("opening the log")
}

impl State {
    pub(super) fn save(&mut self) {
        if !self.dirty || self.destroyed {
            return;
        }
        match write(&self.paths, &self.model) {
            Ok(()) => self.dirty = false,
            Err(error) => eprintln!("state not saved: {error:#}"),
        }
    }

    /// Writes a line to the model's log, unless `logging-config` leaves it out.
    pub(super) fn log(&mut self, entity: &str, level: &str, module: &str, message: &str) {
        if LogRecord::severity(level) < self.log_threshold(module) {
            return;
        }
        let record = LogRecord {
            entity: entity.to_owned(),
            time: Moment::now(),
            level: level.to_owned(),
            module: module.to_owned(),
            message: message.to_owned(),
        };
        if let Ok(mut line) = serde_json::to_vec(&record) {
            line.push(b'\n');
            self.log.write_all(&line).ok();
        }
    }

    /// `<root>=INFO;unit=DEBUG`: the longest prefix that fits counts.
    fn log_threshold(&self, module: &str) -> usize {
        let setting = self.model.setting("logging-config");
        let text = setting.as_ref().and_then(|value| value.as_str()).unwrap_or("<root>=INFO").to_owned();
        let mut chosen = (0, LogRecord::severity("INFO"));
        for (name, level) in text.split(';').filter_map(|part| part.trim().split_once('=')) {
            let length = if name == "<root>" { 0 } else { name.len() };
            let fits = name == "<root>" || module == name || module.starts_with(&format!("{name}."));
            if fits && length >= chosen.0 {
                chosen = (length, LogRecord::severity(level));
            }
        }
        chosen.1
    }
}
