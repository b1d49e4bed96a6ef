//! The environment of one dispatch, read once into a value. No other module reads environment variables.

use crate::event::Event;
use crate::name::{NameError, UnitName};
use std::path::PathBuf;
use std::str::FromStr;

/// What Juju tells a charm process about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// `JUJU_UNIT_NAME`, such as `compute/0`.
    pub unit: UnitName,
    /// Decided from `JUJU_DISPATCH_PATH`, such as `hooks/slurmd-relation-changed`.
    pub event: Event,
    /// `JUJU_CHARM_DIR`: where the charm is unpacked. Files a charm puts there live as long as the unit.
    pub charm_dir: PathBuf,
    /// `JUJU_MODEL_UUID`.
    pub model_uuid: String,
    /// `JUJU_MODEL_NAME`. None where Juju did not say.
    pub model_name: Option<String>,
}

/// An environment in which no charm can run.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    #[error("environment variable {variable} is not set: a charm is started by Juju")]
    Missing { variable: &'static str },
    #[error("environment variable JUJU_DISPATCH_PATH: expected `hooks/<name>` or `actions/<name>`, found `{found}`")]
    DispatchPath { found: String },
    #[error("environment variable {variable}")]
    Name {
        variable: &'static str,
        #[source]
        source: NameError,
    },
}

/// Read access to the environment. An empty variable counts as absent: Juju exports many of them empty.
pub(crate) struct Variables<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
}

impl Variables<'_> {
    pub(crate) fn text(&self, variable: &'static str) -> Option<String> {
        (self.read)(variable).filter(|text| !text.is_empty())
    }

    pub(crate) fn required(&self, variable: &'static str) -> Result<String, ContextError> {
        self.text(variable).ok_or(ContextError::Missing { variable })
    }

    pub(crate) fn parse<T: FromStr<Err = NameError>>(
        &self,
        variable: &'static str,
        text: &str,
    ) -> Result<T, ContextError> {
        text.parse().map_err(|source| ContextError::Name { variable, source })
    }

    pub(crate) fn optional<T: FromStr<Err = NameError>>(
        &self,
        variable: &'static str,
    ) -> Result<Option<T>, ContextError> {
        self.text(variable).map(|text| self.parse(variable, &text)).transpose()
    }
}

impl Context {
    /// Reads the process environment. `timers` are the private event names that the charm's own timers send.
    pub fn from_environment(timers: &[&'static str]) -> Result<Self, ContextError> {
        Self::read(timers, &|variable| std::env::var(variable).ok())
    }

    /// Reads any environment, given as a function from name to value.
    pub fn read(timers: &[&'static str], read: &dyn Fn(&str) -> Option<String>) -> Result<Self, ContextError> {
        let variables = Variables { read };
        Ok(Self {
            event: Event::decide(&variables, timers)?,
            unit: variables.parse("JUJU_UNIT_NAME", &variables.required("JUJU_UNIT_NAME")?)?,
            charm_dir: PathBuf::from(variables.required("JUJU_CHARM_DIR")?),
            model_uuid: variables.required("JUJU_MODEL_UUID")?,
            model_name: variables.text("JUJU_MODEL_NAME"),
        })
    }
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
