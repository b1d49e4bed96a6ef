//! Why this dispatch runs: one closed enum, decided from `JUJU_DISPATCH_PATH` and the variables that go with it.
//!
//! Nothing is read from Juju here, and nothing is decided about what to do: an event says when, not what.

use crate::context::{ContextError, Variables};
use crate::name::{AppName, EndpointName, RelationId, UnitName};
use std::fmt;

/// The reason of one dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// This unit is being removed.
    Stop,
    /// The last hook of a unit.
    Remove,
    Relation(RelationEvent),
    /// Nobody tracks a revision of a secret of this application any more.
    SecretObsolete {
        label: String,
        revision: u64,
    },
    /// A request of the operator that wants an answer.
    Action(ActionName),
    /// An event of the charm's own making, sent by a timer or a service through `juju-exec`. The name is one that the
    /// charm declared.
    Timer(&'static str),
    /// Any other hook. It is a moment to look, and no more.
    Hook(String),
}

/// A hook of one relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationEvent {
    pub endpoint: EndpointName,
    pub relation: RelationId,
    /// Juju leaves it empty in `-broken` when the agent restarted since the relation was joined.
    pub remote_app: Option<AppName>,
    pub kind: RelationEventKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelationEventKind {
    Created,
    Joined,
    Changed,
    /// Who leaves: this unit itself when it, or its application, is being removed; else the remote unit.
    Departed(Option<UnitName>),
    Broken,
}

/// The name of an action, as the operator typed it after `juju run <unit>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionName(String);

impl ActionName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Event {
    /// Decides the event from the dispatch path and the variables that Juju sets with it. `timers` are the private
    /// event names of the charm.
    pub(crate) fn decide(variables: &Variables<'_>, timers: &[&'static str]) -> Result<Self, ContextError> {
        let path = variables.required("JUJU_DISPATCH_PATH")?;
        match path.split_once('/') {
            Some(("actions", name)) if !name.is_empty() => Ok(Self::Action(ActionName(name.to_owned()))),
            Some(("hooks", name)) if !name.is_empty() => Self::of_hook(name, variables, timers),
            _ => Err(ContextError::DispatchPath { found: path }),
        }
    }

    fn of_hook(name: &str, variables: &Variables<'_>, timers: &[&'static str]) -> Result<Self, ContextError> {
        if let Some(timer) = timers.iter().find(|timer| **timer == name) {
            return Ok(Self::Timer(timer));
        }
        match name {
            "stop" => Ok(Self::Stop),
            "remove" => Ok(Self::Remove),
            "secret-remove" => {
                let revision = variables.text("JUJU_SECRET_REVISION").and_then(|text| text.parse().ok());
                let label = variables.text("JUJU_SECRET_LABEL").unwrap_or_default();
                // One that does not say which revision is a moment to look, and no more.
                Ok(revision
                    .map_or_else(|| Self::Hook(name.to_owned()), |revision| Self::SecretObsolete { label, revision }))
            }
            _ => Self::of_suffix(name, variables).unwrap_or_else(|| Ok(Self::Hook(name.to_owned()))),
        }
    }

    /// Endpoint names contain hyphens, so these hooks are known by how they end.
    fn of_suffix(name: &str, variables: &Variables<'_>) -> Option<Result<Self, ContextError>> {
        ["created", "joined", "changed", "departed", "broken"].into_iter().find_map(|suffix| {
            let endpoint = name.strip_suffix(suffix)?.strip_suffix("-relation-")?;
            Some(Self::of_relation(endpoint, suffix, variables))
        })
    }

    fn of_relation(endpoint: &str, suffix: &str, variables: &Variables<'_>) -> Result<Self, ContextError> {
        let kind = match suffix {
            "created" => RelationEventKind::Created,
            "joined" => RelationEventKind::Joined,
            "changed" => RelationEventKind::Changed,
            "departed" => RelationEventKind::Departed(variables.optional("JUJU_DEPARTING_UNIT")?),
            _ => RelationEventKind::Broken,
        };
        Ok(Self::Relation(RelationEvent {
            endpoint: variables.parse("JUJU_DISPATCH_PATH", endpoint)?,
            relation: variables.parse("JUJU_RELATION_ID", &variables.required("JUJU_RELATION_ID")?)?,
            remote_app: variables.optional("JUJU_REMOTE_APP")?,
            kind,
        }))
    }

    /// Returns the relation that this hook ends. Juju may still list it, but for the charm it is gone.
    pub fn broken_relation(&self) -> Option<&RelationId> {
        match self {
            Self::Relation(RelationEvent { relation, kind: RelationEventKind::Broken, .. }) => Some(relation),
            _ => None,
        }
    }

    /// Returns whose departure this hook announces.
    pub fn departing_unit(&self) -> Option<&UnitName> {
        match self {
            Self::Relation(RelationEvent { kind: RelationEventKind::Departed(leaving), .. }) => leaving.as_ref(),
            _ => None,
        }
    }
}

/// The hook's or action's own name, as Juju writes it in its log.
impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stop => formatter.write_str("stop"),
            Self::Remove => formatter.write_str("remove"),
            Self::SecretObsolete { .. } => formatter.write_str("secret-remove"),
            Self::Relation(event) => {
                let kind = match event.kind {
                    RelationEventKind::Created => "created",
                    RelationEventKind::Joined => "joined",
                    RelationEventKind::Changed => "changed",
                    RelationEventKind::Departed(_) => "departed",
                    RelationEventKind::Broken => "broken",
                };
                write!(formatter, "{}-relation-{kind}", event.endpoint)
            }
            Self::Action(name) => write!(formatter, "action {}", name.as_str()),
            Self::Timer(name) => formatter.write_str(name),
            Self::Hook(name) => formatter.write_str(name),
        }
    }
}
