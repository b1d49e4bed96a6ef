//! `action-*`: the parameters of an action and its answer.

use super::{Juju, JujuWriter, ToolError};
use crate::action::ActionFailure;
use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde_json::{Map, Value};
use std::cell::RefCell;

impl Juju {
    /// Reads the parameters of the running action into a struct, defaults filled in. What does not fit is refused by
    /// name.
    pub fn action_get<T: DeserializeOwned>(&self) -> Result<T, ActionFailure> {
        let given: Option<Map<String, Value>> = self.link.ask_once("action-get", &[]).map_err(ActionFailure::broken)?;
        decode(given.unwrap_or_default()).map_err(ActionFailure::Refused)
    }
}

impl JujuWriter {
    /// Adds values to the action's result. A dot in a key makes an object in an object.
    ///
    /// Values travel as arguments, of which Linux takes none above 128 KiB. What is longer is cut, and says so.
    pub fn action_set(&self, results: &[(String, String)]) -> Result<(), ToolError> {
        let pairs: Vec<String> = results.iter().map(|(key, value)| cut(format!("{key}={value}"))).collect();
        let mut rest = pairs.as_slice();
        while !rest.is_empty() {
            let mut size = 0;
            let fitting = rest.iter().take_while(|pair| {
                size += pair.len();
                size <= LONGEST
            });
            let (now, later) = rest.split_at(fitting.count().max(1));
            let mut arguments = vec!["--"];
            arguments.extend(now.iter().map(String::as_str));
            self.link.tell("action-set", &arguments)?;
            rest = later;
        }
        Ok(())
    }

    /// Marks the action as failed, for a reason that the operator reads. The process must still exit with 0, or Juju
    /// replaces the reason by `exit status N`.
    pub fn action_fail(&self, reason: &str) -> Result<(), ToolError> {
        self.link.tell("action-fail", &["--", reason])
    }

    /// Shows progress to an operator who watches the action.
    pub fn action_log(&self, message: &str) -> Result<(), ToolError> {
        self.link.tell("action-log", &["--", message])
    }
}

/// Somewhat below what Linux takes as one argument, and far below what it takes as all.
const LONGEST: usize = 120 * 1024;

fn cut(mut pair: String) -> String {
    if pair.len() > LONGEST {
        let whole = pair.len();
        let end = (0..=LONGEST).rev().find(|end| pair.is_char_boundary(*end)).unwrap_or(0);
        pair.truncate(end);
        pair.push_str(&format!("\n… cut: {} bytes more than an answer can hold", whole - end));
    }
    pair
}

/// Decodes parameters one by one, so that a complaint can name the one it is about.
fn decode<T: DeserializeOwned>(given: Map<String, Value>) -> Result<T, String> {
    let at = RefCell::new(None);
    let entries = given.into_iter().inspect(|(key, _)| *at.borrow_mut() = Some(key.clone()));
    let decoded = T::deserialize(MapDeserializer::<_, serde_json::Error>::new(entries));
    decoded.map_err(|error| {
        let complaint = shortened(&error.to_string());
        match at.into_inner() {
            // Serde names a missing one by itself, and finds out after the last.
            Some(key) if !complaint.starts_with("missing field") => format!("parameter `{key}`: {complaint}"),
            _ => format!("parameters: {complaint}"),
        }
    })
}

/// A complaint repeats the value, which may be of any length: its beginning and its end are enough.
fn shortened(complaint: &str) -> String {
    const KEPT: usize = 100;
    let letters: Vec<char> = complaint.chars().collect();
    match letters.len() > 2 * KEPT {
        false => complaint.to_owned(),
        true => letters[..KEPT].iter().chain(['…'].iter()).chain(&letters[letters.len() - KEPT..]).collect(),
    }
}
