//! The files of a model: its state, replaced whole at each change, and its log, which only grows.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

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
    fs::write(paths.identity(), &model.uuid)?;
    write(paths, model)
}

pub fn load(paths: &ModelPaths) -> anyhow::Result<Model> {
    let file = paths.state_file();
    let text = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let hint = "it is damaged or was made by another version; `juju destroy-model --force` removes it";
    serde_json::from_slice(&text).with_context(|| format!("{} cannot be read: {hint}", file.display()))
}

/// The six digits of a model, also of one whose state cannot be read: from its identity, or from what its machines are
/// called.
pub fn short_id(paths: &ModelPaths) -> anyhow::Result<String> {
    let mut said = vec![fs::read_to_string(paths.identity()).unwrap_or_default(), text_of(&paths.state_file(), "uuid")];
    let machines = fs::read_dir(paths.machines()).into_iter().flatten().flatten();
    said.extend(machines.map(|entry| text_of(&entry.path().join("machine.json"), "network")));
    let digits = said.iter().filter_map(|text| text.trim().rsplit('-').next()).filter_map(|last| {
        let digits = last.get(last.len().checked_sub(6)?..)?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(digits)
    });
    digits.map(str::to_owned).next().with_context(|| format!("{} names no model", paths.root().display()))
}

/// One text of a JSON file, or nothing.
fn text_of(file: &Path, key: &str) -> String {
    let value = fs::read(file).ok().and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    value.and_then(|value| value[key].as_str().map(str::to_owned)).unwrap_or_default()
}

/// Replaces the state whole. It is on the disk before it has its name: after a power cut there is the old one or the
/// new one.
fn write(paths: &ModelPaths, model: &Model) -> anyhow::Result<()> {
    let file = paths.state_file();
    let temporary = file.with_extension("new");
    let written = File::create(&temporary).and_then(|mut handle| {
        handle.write_all(&serde_json::to_vec(model)?)?;
        handle.sync_data()
    });
    written.with_context(|| format!("writing {}", temporary.display()))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "00000000-0000-4000-8000-000000abcdef";

    fn place() -> (tempfile::TempDir, ModelPaths) {
        let scratch = tempfile::tempdir().unwrap();
        let paths = ModelPaths::at(scratch.path().join("demo"));
        (scratch, paths)
    }

    #[test]
    fn what_is_written_is_read() {
        let (_scratch, paths) = place();
        create(&paths, &Model::new("demo", UUID, "c", "24.11")).unwrap();
        assert_eq!(load(&paths).unwrap().uuid, UUID);
        assert_eq!(short_id(&paths).unwrap(), "abcdef");
        assert!(!paths.state_file().with_extension("new").exists());
    }

    #[test]
    fn a_broken_state_still_tells_whose_it_is() {
        let (_scratch, paths) = place();
        create(&paths, &Model::new("demo", UUID, "c", "24.11")).unwrap();
        for broken in ["", "{\"name\":\"de", "null"] {
            fs::write(paths.state_file(), broken).unwrap();
            assert!(load(&paths).is_err());
            assert_eq!(short_id(&paths).unwrap(), "abcdef");
        }
    }

    #[test]
    fn a_directory_that_is_no_model_has_no_digits_but_those_of_its_machines() {
        let (_scratch, paths) = place();
        fs::create_dir_all(paths.root()).unwrap();
        assert!(short_id(&paths).is_err());
        for text in ["", "x", "-é12345", "00000000-0000-4000-8000-00000000000g"] {
            fs::write(paths.identity(), text).unwrap();
            assert!(short_id(&paths).is_err(), "{text}");
        }
        fs::create_dir_all(paths.machine("0")).unwrap();
        fs::write(paths.machine("0").join("machine.json"), "{\"network\":\"jl-9c41f0\"}").unwrap();
        assert_eq!(short_id(&paths).unwrap(), "9c41f0");
    }
}
