//! The `juju` command of `dist/bin`, used like a person would: started as a program, its output read. Knows commands,
//! not the order in which they make a cluster.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::console::say;
use crate::{layout, program};

const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// One model.
#[derive(Clone, Copy)]
pub(crate) struct Juju {
    model: &'static str,
}

impl Juju {
    pub(crate) fn model(model: &'static str) -> Self {
        Self { model }
    }

    /// Returns `juju SUBCOMMAND --model MODEL ARGUMENTS…`.
    fn command(&self, subcommand: &str, arguments: &[&str]) -> Result<Command> {
        let mut command = program::program(layout::dist_bin()?.join("juju"))?;
        command.args([subcommand, "--model", self.model]).args(arguments);
        Ok(command)
    }

    /// Runs a command that belongs to the story: shown before it runs.
    pub(crate) fn run(&self, subcommand: &str, arguments: &[&str]) -> Result<()> {
        let mut command = self.command(subcommand, arguments)?;
        say(&format!("$ {}", program::describe(&command)));
        program::run(&mut command)
    }

    /// Runs a command within a deadline and returns what it printed.
    pub(crate) fn ask(&self, subcommand: &str, arguments: &[&str], deadline: Duration) -> Result<String> {
        let mut command = self.command(subcommand, arguments)?;
        say(&format!("$ {}", program::describe(&command)));
        program::capture(&mut command, deadline)
    }

    /// The same, for a question that is no part of the story, or is asked again and again.
    pub(crate) fn ask_quietly(&self, subcommand: &str, arguments: &[&str], deadline: Duration) -> Result<String> {
        program::capture(&mut self.command(subcommand, arguments)?, deadline)
    }

    /// Returns what an action, with its parameters, answered: key → value.
    pub(crate) fn act(&self, unit: &str, action: &[&str], deadline: Duration) -> Result<Value> {
        let words = [&[unit], action, &["--format", "json"]].concat();
        let text = self.ask_quietly("run", &words, deadline)?;
        let document: Value = serde_json::from_str(&text).context("`juju run` did not print JSON")?;
        Ok(document[unit]["results"].clone())
    }

    /// Has juju-local do to a machine what Juju has no command for: `poweroff`, `poweron` …
    pub(crate) fn machine(&self, verb: &str, machine: &str) -> Result<()> {
        let mut command = program::program(layout::dist_bin()?.join("juju-local"))?;
        command.args(["machine", verb, machine, "-m", self.model]);
        say(&format!("$ {}", program::describe(&command)));
        program::run(&mut command)
    }

    pub(crate) fn status(&self) -> Result<Value> {
        let text = program::capture(&mut self.command("status", &["--format", "json"])?, ANSWER_WITHIN)?;
        serde_json::from_str(&text).context("`juju status` did not print JSON")
    }

    /// Says whether the model answers.
    pub(crate) fn exists(&self) -> bool {
        self.status().is_ok()
    }

    /// Returns the names of all other models that answer here.
    pub(crate) fn other_models(&self) -> Vec<String> {
        let list = || -> Result<String> {
            let mut command = program::program(layout::dist_bin()?.join("juju"))?;
            program::capture(command.args(["models", "--format", "json"]), ANSWER_WITHIN)
        };
        // No list: nothing is left that could be asked, so there is nothing to spare either.
        let document: Value = list().ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let models = document["models"].as_array().into_iter().flatten();
        let names = models.filter_map(|model| model["short-name"].as_str().or_else(|| model["name"].as_str()));
        names.filter(|name| name.rsplit('/').next() != Some(self.model)).map(str::to_owned).collect()
    }

    pub(crate) fn add(&self) -> Result<()> {
        self.whole_model("add-model", &[])
    }

    /// Ends the model and everything in it, whatever state it is in.
    pub(crate) fn destroy(&self) -> Result<()> {
        self.whole_model("destroy-model", &["--no-prompt", "--force"])
    }

    /// Shows what a person would look at first when something went wrong. Never fails: it runs on the way out.
    pub(crate) fn show_trouble(&self) {
        for (subcommand, arguments) in [("status", &[][..]), ("debug-log", &["--limit", "60"][..])] {
            let shown = self
                .command(subcommand, arguments)
                .and_then(|mut command| program::collect(&mut command, ANSWER_WITHIN));
            match shown {
                Ok(finished) => say(&format!("--- juju {subcommand}\n{}{}", finished.stdout, finished.stderr)),
                Err(error) => say(&format!("--- juju {subcommand}: {error:#}")),
            }
        }
    }

    fn whole_model(&self, subcommand: &str, options: &[&str]) -> Result<()> {
        let mut command = program::program(layout::dist_bin()?.join("juju"))?;
        command.args([subcommand, self.model]).args(options);
        say(&format!("$ {}", program::describe(&command)));
        program::run(&mut command)
    }
}
