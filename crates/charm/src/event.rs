//! Why this dispatch runs: one closed enum, decided from `JUJU_DISPATCH_PATH` and the variables that go with it.
//!
//! Nothing is read from Juju here, and nothing is decided about what to do: an event says when, not what.

use crate::context::{ContextError, Variables};
use crate::name::{AppName, EndpointName, RelationId, SecretId, StorageId, UnitName};
use std::fmt;
use std::path::PathBuf;

/// The reason of one dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Install,
    Start,
    Stop,
    Remove,
    ConfigChanged,
    UpdateStatus,
    UpgradeCharm,
    LeaderElected,
    Relation(RelationEvent),
    Secret(SecretEvent),
    Storage(StorageEvent),
    /// A request of the operator that wants an answer.
    Action(ActionName),
    /// An event of the charm's own making, sent by a timer through `juju-exec`. The name is one that the charm declared.
    Timer(&'static str),
    /// A hook this crate has no use for, or that a later Juju invented. It is a moment to look, like any other.
    Other(String),
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
    Joined {
        unit: UnitName,
    },
    /// No unit means that the bag of the application changed.
    Changed {
        unit: Option<UnitName>,
    },
    /// `leaving` is who leaves: this unit itself when it, or its application, is being removed; else the remote unit.
    Departed {
        unit: Option<UnitName>,
        leaving: Option<UnitName>,
    },
    Broken,
}

/// A hook about one secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretEvent {
    pub secret: SecretId,
    pub label: Option<String>,
    pub kind: SecretEventKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretEventKind {
    Changed,
    Rotate,
    Expired { revision: u64 },
    Remove { revision: u64 },
}

/// A hook about one storage instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageEvent {
    /// The name in the charm's metadata, such as `data`.
    pub name: String,
    /// The instance, such as `data/0`.
    pub id: StorageId,
    /// Where it is, if Juju says so.
    pub location: Option<PathBuf>,
    pub kind: StorageEventKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageEventKind {
    Attached,
    Detaching,
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
        Ok(match name {
            "install" => Self::Install,
            "start" => Self::Start,
            "stop" => Self::Stop,
            "remove" => Self::Remove,
            "config-changed" => Self::ConfigChanged,
            "update-status" => Self::UpdateStatus,
            "upgrade-charm" => Self::UpgradeCharm,
            "leader-elected" => Self::LeaderElected,
            "secret-changed" => Self::of_secret(variables, |_| Ok(SecretEventKind::Changed))?,
            "secret-rotate" => Self::of_secret(variables, |_| Ok(SecretEventKind::Rotate))?,
            "secret-expired" => {
                Self::of_secret(variables, |variables| Ok(SecretEventKind::Expired { revision: revision(variables)? }))?
            }
            "secret-remove" => {
                Self::of_secret(variables, |variables| Ok(SecretEventKind::Remove { revision: revision(variables)? }))?
            }
            _ => match Self::of_suffix(name, variables) {
                Some(event) => event?,
                None => Self::Other(name.to_owned()),
            },
        })
    }

    /// Endpoint and storage names contain hyphens, so these hooks are known by how they end.
    fn of_suffix(name: &str, variables: &Variables<'_>) -> Option<Result<Self, ContextError>> {
        const RELATION: [&str; 5] = ["created", "joined", "changed", "departed", "broken"];
        for suffix in RELATION {
            let endpoint = name.strip_suffix(suffix).and_then(|rest| rest.strip_suffix("-relation-"));
            if let Some(endpoint) = endpoint {
                return Some(Self::of_relation(endpoint, suffix, variables));
            }
        }
        let storage =
            [("-storage-attached", StorageEventKind::Attached), ("-storage-detaching", StorageEventKind::Detaching)];
        storage.into_iter().find_map(|(suffix, kind)| {
            name.strip_suffix(suffix).map(|storage| Self::of_storage(storage, kind, variables))
        })
    }

    fn of_storage(name: &str, kind: StorageEventKind, variables: &Variables<'_>) -> Result<Self, ContextError> {
        Ok(Self::Storage(StorageEvent {
            name: name.to_owned(),
            id: variables.parse("JUJU_STORAGE_ID", &variables.required("JUJU_STORAGE_ID")?)?,
            location: variables.text("JUJU_STORAGE_LOCATION").map(PathBuf::from),
            kind,
        }))
    }

    fn of_relation(endpoint: &str, suffix: &str, variables: &Variables<'_>) -> Result<Self, ContextError> {
        let unit: Option<UnitName> = variables.optional("JUJU_REMOTE_UNIT")?;
        let kind = match suffix {
            "created" => RelationEventKind::Created,
            "joined" => match unit {
                Some(unit) => RelationEventKind::Joined { unit },
                None => return Err(ContextError::Missing { variable: "JUJU_REMOTE_UNIT" }),
            },
            "changed" => RelationEventKind::Changed { unit },
            "departed" => RelationEventKind::Departed { unit, leaving: variables.optional("JUJU_DEPARTING_UNIT")? },
            _ => RelationEventKind::Broken,
        };
        Ok(Self::Relation(RelationEvent {
            endpoint: variables.parse("JUJU_DISPATCH_PATH", endpoint)?,
            relation: variables.parse("JUJU_RELATION_ID", &variables.required("JUJU_RELATION_ID")?)?,
            remote_app: variables.optional("JUJU_REMOTE_APP")?,
            kind,
        }))
    }

    fn of_secret(
        variables: &Variables<'_>,
        kind: impl Fn(&Variables<'_>) -> Result<SecretEventKind, ContextError>,
    ) -> Result<Self, ContextError> {
        Ok(Self::Secret(SecretEvent {
            secret: variables.parse("JUJU_SECRET_ID", &variables.required("JUJU_SECRET_ID")?)?,
            label: variables.text("JUJU_SECRET_LABEL"),
            kind: kind(variables)?,
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
            Self::Relation(RelationEvent { kind: RelationEventKind::Departed { leaving, .. }, .. }) => leaving.as_ref(),
            _ => None,
        }
    }
}

fn revision(variables: &Variables<'_>) -> Result<u64, ContextError> {
    let text = variables.required("JUJU_SECRET_REVISION")?;
    text.parse().map_err(|_| ContextError::Number { variable: "JUJU_SECRET_REVISION", found: text })
}

/// The hook's or action's own name, as Juju writes it in its log.
impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Install => "install",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Remove => "remove",
            Self::ConfigChanged => "config-changed",
            Self::UpdateStatus => "update-status",
            Self::UpgradeCharm => "upgrade-charm",
            Self::LeaderElected => "leader-elected",
            Self::Relation(event) => {
                let kind = match event.kind {
                    RelationEventKind::Created => "created",
                    RelationEventKind::Joined { .. } => "joined",
                    RelationEventKind::Changed { .. } => "changed",
                    RelationEventKind::Departed { .. } => "departed",
                    RelationEventKind::Broken => "broken",
                };
                return write!(formatter, "{}-relation-{kind}", event.endpoint);
            }
            Self::Secret(event) => match event.kind {
                SecretEventKind::Changed => "secret-changed",
                SecretEventKind::Rotate => "secret-rotate",
                SecretEventKind::Expired { .. } => "secret-expired",
                SecretEventKind::Remove { .. } => "secret-remove",
            },
            Self::Storage(event) => {
                let kind = match event.kind {
                    StorageEventKind::Attached => "attached",
                    StorageEventKind::Detaching => "detaching",
                };
                return write!(formatter, "{}-storage-{kind}", event.name);
            }
            Self::Action(name) => return write!(formatter, "action {}", name.as_str()),
            Self::Timer(name) => name,
            Self::Other(name) => name,
        })
    }
}
