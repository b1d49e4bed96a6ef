//! What a charm does whose daemon follows the controllers of a cluster: it reads where they are and which key they
//! share, and says in one voice what is missing.
//!
//! The endpoint has one name in all of these charms.

use crate::{Error, Profile, View, key_secret};
use charm::tools::{SecretAnswer, Unreadable};
use charm::{AppName, RelationId, Status};
use slurm_interface::{ControllerData, Databag, DecodeError, SecretUri};
use slurm_ops::SlurmVersion;
use slurm_ops::files::{self, FileError};
use slurm_ops::journal::Cause;
use slurm_ops::keys::{self, AUTH_KEY_FILE, KeySet};
use std::time::Duration;

/// The controllers of the cluster. One cluster per application.
pub const ENDPOINT: &str = "slurmctld";
/// A relation to another application, such as the one of the controllers.
#[derive(Debug, Clone)]
pub struct Related<T> {
    pub relation: RelationId,
    pub app: AppName,
    /// No hook may come when something changes at the other end.
    pub stale: bool,
    pub data: RemoteData<T>,
}

impl<T> Related<T> {
    /// Returns what the other end says, or why that is of no use.
    pub fn usable(&self) -> Result<&T, FollowerCondition> {
        let app = self.app.clone();
        match &self.data {
            RemoteData::Data(data) => Ok(data),
            RemoteData::Nothing => Err(FollowerCondition::NoData(app)),
            RemoteData::Unusable(why) => Err(FollowerCondition::UnusableData { app, why: why.clone() }),
        }
    }
}

/// The relation to the controllers.
pub type Controller = Related<ControllerData>;

/// What the other end of a relation says about itself.
#[derive(Debug, Clone)]
pub enum RemoteData<T> {
    Nothing,
    Data(T),
    /// Something that cannot be used, and why.
    Unusable(String),
}

/// The secret with the authentication key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySecret {
    /// Not granted yet, or no longer. What is on the disk goes on serving.
    Unreadable(Unreadable),
    /// The secret is there and does not have what a key needs.
    Malformed,
    Offered(KeySet),
}

/// Looks for the controllers.
pub fn controller(view: &View) -> Result<Option<Controller>, Error> {
    related(view, ENDPOINT, ControllerData::decode)
}

/// Looks who is related at an endpoint, and what they say. While an old relation lingers, the new one counts.
pub fn related<T>(
    view: &View,
    endpoint: &str,
    decode: impl FnOnce(&Databag) -> Result<Option<T>, DecodeError>,
) -> Result<Option<Related<T>>, Error> {
    let Some(relation) = view.juju.relations(&view.ctx, endpoint)?.pop() else { return Ok(None) };
    let Some(remote) = view.juju.remote(&view.ctx, &relation)? else { return Ok(None) };
    let data = match decode(&view.juju.relation_get_remote(&relation, &remote)?) {
        Ok(None) => RemoteData::Nothing,
        Ok(Some(data)) => RemoteData::Data(data),
        Err(error) => RemoteData::Unusable(charm::log::chain(&error)),
    };
    Ok(Some(Related { relation, app: remote.app, stale: remote.stale, data }))
}

/// Says whether Juju is about to show the relation. In `install` Juju shows no relation yet, and in `-broken` the
/// controller may still know the one that ends.
pub fn relation_expected(view: &View) -> Result<bool, Error> {
    expected_at(view, ENDPOINT)
}

/// Says whether Juju is about to show a relation at an endpoint.
pub fn expected_at(view: &View, endpoint: &str) -> Result<bool, Error> {
    let ends = view.ctx.event.broken_relation().is_some();
    Ok(!ends && view.juju.goal_state()?.has_relation(endpoint))
}

/// Reads the key that the controllers share. Asked beside the relation itself, which costs no process more: a hook
/// tool is asked once.
pub fn key_secret(view: &View) -> Result<KeySecret, Error> {
    let Some(Controller { data: RemoteData::Data(data), .. }) = controller(view)? else {
        return Ok(KeySecret::Malformed);
    };
    read_key_secret(view, &data.auth_secret)
}

/// Reads the key from the secret at an address.
pub fn read_key_secret(view: &View, secret: &SecretUri) -> Result<KeySecret, Error> {
    let content = match view.juju.secret_get(secret.as_str(), key_secret::AUTH_LABEL)? {
        SecretAnswer::Content(content) => content,
        SecretAnswer::Unreadable(why) => return Ok(KeySecret::Unreadable(why)),
    };
    Ok(key_secret::keys(&content).map_or(KeySecret::Malformed, KeySecret::Offered))
}

/// The authentication key on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyFile {
    /// None: no file, or one without keys, which is as good as none.
    pub keys: Option<KeySet>,
    /// Only its owner can read it, and the key of tokens beside it.
    pub private: bool,
    /// When it was written, since 1970.
    pub written: Option<Duration>,
}

impl KeyFile {
    /// Looks at the file, which is for `owner` alone.
    pub fn look(view: &View, owner: &str) -> Result<Self, Error> {
        let keys = match keys::read_auth_keys(&view.host) {
            Err(FileError::Content { .. }) => None,
            other => other?,
        };
        let private = keys::are_private(&view.host, owner)?;
        Ok(Self { keys, private, written: files::modified(&view.host, AUTH_KEY_FILE)? })
    }
}

/// Returns the version of this machine's Slurm and that of the controllers if the first is of a later release: Slurm
/// does not work so.
pub fn newer_than(own: Option<SlurmVersion>, controllers: Option<&str>) -> Option<(SlurmVersion, SlurmVersion)> {
    let controllers = controllers.and_then(|text| text.parse::<SlurmVersion>().ok());
    own.zip(controllers).filter(|(own, controllers)| own.is_too_new_for(*controllers))
}

/// Returns the controllers as a person reads them.
pub fn listed(data: &ControllerData) -> String {
    data.controllers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Why a daemon does not follow its controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowerCondition {
    /// There is no controller for this application.
    NotRelated(AppName),
    /// Juju is about to show the relation.
    RelationExpected,
    /// No hook may come when something changes at the other end.
    StaleRelation,
    /// The controllers have said nothing yet.
    NoData(AppName),
    /// The controllers say something that cannot be used.
    UnusableData { app: AppName, why: String },
    /// The daemon is of a later release than the controllers: Slurm does not work so.
    TooNew { own: SlurmVersion, controllers: SlurmVersion, app: AppName },
    /// There is no key on the disk, and none to be had.
    NoKey { app: AppName, malformed: bool, why: Option<Unreadable> },
    /// Which keys this unit has was said, and Juju has not shown it yet.
    Acknowledging,
    /// The daemon does not run.
    Stopped,
    /// The daemon ended badly: how, and what it complained about.
    Failing { result: String, complaint: Option<String> },
    /// No controller answers. `daemon`: it is the daemon that waits for one. `right_key`: the key is the one that they
    /// share.
    Silent { controllers: String, daemon: bool, cause: Option<Cause>, right_key: bool },
}

impl FollowerCondition {
    /// Says that a unit of `app` has no controllers, or none yet.
    pub fn unrelated(app: AppName, expected: bool) -> Self {
        if expected { Self::RelationExpected } else { Self::NotRelated(app) }
    }

    /// Says that the daemon is of a later release than the controllers `app`, if it is.
    pub fn too_new(own: Option<SlurmVersion>, controllers: Option<&str>, app: &AppName) -> Option<Self> {
        let found = newer_than(own, controllers);
        found.map(|(own, controllers)| Self::TooNew { own, controllers, app: app.clone() })
    }

    /// Says that there is no key to be had from `app`.
    pub fn no_key(app: &AppName, secret: &KeySecret) -> Self {
        let why = match secret {
            KeySecret::Unreadable(why) => Some(*why),
            KeySecret::Malformed | KeySecret::Offered(_) => None,
        };
        Self::NoKey { app: app.clone(), malformed: *secret == KeySecret::Malformed, why }
    }

    /// Says it to the operator. None: of no interest as long as the daemon works.
    pub fn status(&self, profile: &Profile) -> Option<Status> {
        let name = profile.daemon;
        Some(match self {
            Self::NotRelated(app) => Status::blocked(format!("no controller: `juju integrate {app} slurmctld`")),
            Self::RelationExpected => Status::waiting("for the relation with the controllers"),
            Self::StaleRelation | Self::Acknowledging => return None,
            Self::NoData(app) => Status::waiting(format!("for {app} to publish its address")),
            Self::UnusableData { app, why } => Status::blocked(format!("{app}: {why}")),
            Self::TooNew { own, controllers, app } => {
                Status::blocked(format!("{name} {own} is newer than slurmctld {controllers}: upgrade {app} first"))
            }
            Self::NoKey { app, malformed: true, .. } => {
                Status::waiting(format!("for {app} to put a key into its secret"))
            }
            Self::NoKey { app, why: Some(Unreadable::NotFound), .. } => {
                Status::waiting(format!("for {app} to renew its key secret"))
            }
            Self::NoKey { app, .. } => Status::waiting(format!("for {app} to share its key")),
            Self::Stopped => Status::waiting(format!("for {name} to start")),
            Self::Failing { result, complaint } => {
                let see = format!("see `journalctl -u {name}`");
                let reason = complaint.as_deref().unwrap_or(&see);
                Status::blocked(format!("{name} fails ({result}): {reason}"))
            }
            Self::Silent { controllers, daemon, cause, right_key } => {
                let whom = if *daemon { format!(" {name}") } else { String::new() };
                Status::waiting(silent(controllers, &whom, *cause, *right_key))
            }
        })
    }

    /// Says whether what is waited for may come without an event of Juju. What an operator has to mend comes with one.
    pub fn needs_retry(&self) -> bool {
        match self {
            // It may as well have just ended: Juju lists it for some seconds, and no hook tells of their end.
            Self::RelationExpected => true,
            Self::Failing { .. } | Self::StaleRelation | Self::Acknowledging => true,
            Self::NotRelated(_) | Self::UnusableData { .. } | Self::TooNew { .. } => false,
            Self::NoData(_) | Self::NoKey { .. } | Self::Stopped | Self::Silent { .. } => true,
        }
    }
}

/// Slurm's own words for these would mislead.
fn silent(controllers: &str, whom: &str, cause: Option<Cause>, right_key: bool) -> String {
    match cause {
        Some(Cause::NameResolution) => format!("for a name of {controllers} to resolve on this machine"),
        Some(Cause::Authentication) if right_key => {
            format!("for {controllers}, which refuses this node: right key, so do clocks differ?")
        }
        Some(Cause::Clocks) => format!("for the clocks of {controllers} and this machine to agree"),
        Some(Cause::Authentication) => {
            format!("for the key of {controllers}: the one on this machine is refused")
        }
        None => format!("for {controllers} to answer{whom}"),
    }
}
