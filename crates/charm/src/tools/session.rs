//! What one dispatch has read and what it is going to write: the memory behind [`Tools`](super::Tools), and the
//! sending at the end.

use super::port::Port;
use super::relation::COPY_TIME;
use super::secret::SecretContent;
use super::{Databag, JujuWriter, Refusal, ToolError};
use crate::name::{RelationId, SecretId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A true `is-leader` holds for half a minute at least; asked again well before that.
pub(super) const LEADERSHIP_TRUSTED: Duration = Duration::from_secs(15);

/// What a tool answered. Locked while it is asked, so that whoever has the same question meanwhile waits for the answer
/// instead of asking again.
pub(super) type Answer = Arc<Mutex<Option<Vec<u8>>>>;

#[derive(Default)]
pub(super) struct Session {
    /// What tools answered, by command line.
    pub(super) answers: BTreeMap<String, Answer>,
    pub(super) leader: Option<(bool, Instant)>,
    pub(super) secrets: Vec<SecretWrite>,
    /// Whether a port is to be open.
    pub(super) ports: BTreeMap<Port, bool>,
    bags: BTreeMap<(RelationId, Side), Databag>,
    /// Relations in which the own unit's bag gets a copy of the application's.
    pub(super) mirrored: BTreeSet<RelationId>,
    /// Relations in which such a copy had to do.
    pub(super) deaf_to: BTreeSet<RelationId>,
}

/// One of the two bags that a unit may write in a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    App,
    Unit,
}

pub(super) enum SecretWrite {
    Set(SecretId, SecretContent),
    /// A tool with its arguments.
    Tell(&'static str, Vec<String>),
}

impl Session {
    pub(super) fn collect_bag(&mut self, relation: &RelationId, side: Side, values: &Databag) {
        let bag = self.bags.entry((relation.clone(), side)).or_default();
        bag.extend(values.iter().map(|(key, value)| (key.clone(), value.clone())));
    }

    /// Lays what is to be written over what is there.
    pub(super) fn over(&self, relation: &RelationId, side: Side, mut bag: Databag) -> Databag {
        for (key, value) in self.bags.get(&(relation.clone(), side)).into_iter().flatten() {
            match value.is_empty() {
                true => bag.remove(key),
                false => bag.insert(key.clone(), value.clone()),
            };
        }
        bag
    }

    /// Forgets what a tool said, because a write or time has changed it.
    pub(super) fn forget(&mut self, tool: &str) {
        self.answers.retain(|line, _| line.split(' ').next() != Some(tool));
    }
}

impl JujuWriter {
    /// Sends what was collected, as far as it differs from what is there: secrets, bags, ports.
    ///
    /// A write that Juju denies because the relation has ended or the leadership has moved is dropped with a warning:
    /// whoever may write next will see that it is missing.
    pub fn send(&self) -> Result<(), ToolError> {
        self.send_secrets()?;
        self.send_bags()?;
        self.send_ports()
    }

    fn send_secrets(&self) -> Result<(), ToolError> {
        let writes = std::mem::take(&mut self.link.session().secrets);
        for write in writes {
            unless_denied(match &write {
                SecretWrite::Set(secret, content) => self.say_secret_set(secret, content),
                SecretWrite::Tell(tool, arguments) => {
                    self.link.tell(tool, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
                }
            })?;
        }
        Ok(())
    }

    fn send_bags(&self) -> Result<(), ToolError> {
        let mut bags = std::mem::take(&mut self.link.session().bags);
        // An application's bag comes before that of a unit, which may get a copy of it.
        while let Some(((relation, side), wanted)) = bags.pop_first() {
            let present = match side {
                Side::App => self.juju().relation_get_own_app(&relation),
                Side::Unit => self.juju().relation_get_unit(&relation, &self.link.unit).map(Some),
            };
            let Some(present) = unless_denied(present)?.map(Option::unwrap_or_default) else { continue };
            if side == Side::App && self.link.session().mirrored.remove(&relation) {
                // As it will be: a key that is deleted there is deleted here.
                let copy = present.clone().into_iter().chain(wanted.clone()).chain([copy_time()]);
                bags.entry((relation.clone(), Side::Unit)).or_default().extend(copy);
            }
            let is_new = |(key, value): &(&String, &String)| present.get(*key).map_or("", String::as_str) != *value;
            let changed: Databag =
                wanted.iter().filter(is_new).map(|(key, value)| (key.clone(), value.clone())).collect();
            if changed.is_empty() {
                continue;
            }
            let mut arguments = vec!["-r", relation.as_str()];
            if side == Side::App {
                arguments.push("--app");
            }
            arguments.extend(["--file", "-"]);
            unless_denied(self.link.tell_map("relation-set", &arguments, &changed))?;
        }
        self.link.session().forget("relation-get");
        Ok(())
    }

    fn send_ports(&self) -> Result<(), ToolError> {
        let wanted = std::mem::take(&mut self.link.session().ports);
        if wanted.is_empty() {
            return Ok(());
        }
        let open = self.juju().open_now()?;
        for (port, wanted) in wanted.into_iter().filter(|(port, wanted)| open.contains(port) != *wanted) {
            self.link.tell(if wanted { "open-port" } else { "close-port" }, &[&port.to_string()])?;
        }
        self.link.session().forget("opened-ports");
        Ok(())
    }
}

/// The key that tells the copies of several leaders apart.
fn copy_time() -> (String, String) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (COPY_TIME.to_owned(), now.as_millis().to_string())
}

/// Turns a denial into a warning, and nothing.
fn unless_denied<T>(outcome: Result<T, ToolError>) -> Result<Option<T>, ToolError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.refusal(), Some(Refusal::NotAllowed | Refusal::NotLeader | Refusal::NotFound)) => {
            tracing::warn!("not written: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
