//! Secrets: revisions, grants, who has read what. Who may do what is decided here, in Juju's words.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Model;
use crate::clock::Moment;
use crate::names::UnitName;
pub use crate::names::parse_secret_uri;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Owner {
    Application(String),
    Unit(UnitName),
    Model,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Revision {
    /// Key → value, base64 as Juju stores it.
    pub content: BTreeMap<String, String>,
    pub created: Moment,
}

// Secrets never reach a log: the content has no Debug.
impl std::fmt::Debug for Revision {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Revision").field("created", &self.created).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Consumer {
    pub label: String,
    /// Revision it reads until it refreshes; 0: it only ever asked and was refused.
    pub tracked: u32,
    /// Newest revision it was told of.
    pub notified: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Secret {
    pub id: String,
    pub owner: Owner,
    pub label: String,
    pub description: String,
    pub created: Moment,
    pub updated: Moment,
    pub latest: u32,
    pub revisions: BTreeMap<u32, Revision>,
    /// Tag of the application or unit → relation the grant lives in.
    pub grants: BTreeMap<String, u32>,
    pub consumers: BTreeMap<UnitName, Consumer>,
    /// Revisions whose removal the owner was asked for.
    pub removal_announced: Vec<u32>,
    /// When the newest revision is too old, and when that was last said.
    pub expires: Option<Moment>,
    pub expiry_said: Option<Moment>,
    /// `never`, `hourly` …, and when the next rotation is due.
    pub rotate: String,
    pub rotates: Option<Moment>,
}

/// What only a secret of the model has: its name is the label, and it is granted to applications by the user.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UserSecret {
    pub granted: BTreeSet<String>,
    /// Revisions that nobody reads any more go by themselves.
    pub auto_prune: bool,
}

impl Secret {
    /// A secret of the model, as `juju add-secret` makes it.
    pub fn of_user(id: &str, name: &str, description: &str, content: BTreeMap<String, String>, now: Moment) -> Secret {
        Secret {
            id: id.to_owned(),
            owner: Owner::Model,
            label: name.to_owned(),
            description: description.to_owned(),
            created: now,
            updated: now,
            latest: 1,
            revisions: BTreeMap::from([(1, Revision { content, created: now })]),
            grants: BTreeMap::new(),
            consumers: BTreeMap::new(),
            removal_announced: Vec::new(),
            expires: None,
            expiry_said: None,
            rotate: "never".to_owned(),
            rotates: None,
        }
    }

    pub fn content(&self, revision: u32) -> Option<&BTreeMap<String, String>> {
        self.revisions.get(&revision).map(|revision| &revision.content)
    }

    /// Old revisions that nobody reads any more and that the owner was not told of yet.
    pub fn obsolete(&self) -> Vec<u32> {
        let read = |revision: u32| self.consumers.values().any(|consumer| consumer.tracked == revision);
        self.revisions
            .keys()
            .copied()
            .filter(|revision| *revision != self.latest && !read(*revision))
            .filter(|revision| !self.removal_announced.contains(revision))
            .collect()
    }
}

impl Secret {
    /// Said once when the time has come, and again every five minutes until the revision is gone.
    pub fn expiry_due(&self, now: Moment) -> bool {
        const AGAIN_MILLIS: u64 = 300_000;
        let expired = self.expires.is_some_and(|at| at <= now);
        expired && self.expiry_said.is_none_or(|said| said.plus_millis(AGAIN_MILLIS) <= now)
    }

    /// The time of the next rotation, counted from now.
    pub fn next_rotation(policy: &str, now: Moment) -> Option<Moment> {
        const DAY: u64 = 86_400_000;
        let pause = match policy {
            "hourly" => 3_600_000,
            "daily" => DAY,
            "weekly" => 7 * DAY,
            "monthly" => 30 * DAY,
            "quarterly" => 91 * DAY,
            "yearly" => 365 * DAY,
            _ => return None,
        };
        Some(now.plus_millis(pause))
    }
}

/// Twelve random bytes in Juju's base-32 alphabet.
pub fn new_secret_id() -> anyhow::Result<String> {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let mut bytes = [0u8; 20];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    let mut id: String = bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)])).collect();
    // A real id starts with a time stamp, so it always has a digit.
    id.replace_range(0..1, "d");
    id.replace_range(1..2, "4");
    Ok(id)
}

impl Model {
    pub fn secret_uri(&self, id: &str) -> String {
        match self.release {
            super::Release::V3 => format!("secret:{id}"),
            super::Release::V4 => format!("secret://{}/{id}", self.uuid),
        }
    }

    /// The owner, its leader for an application, may change a secret.
    pub fn may_manage(&self, unit: &UnitName, secret: &Secret) -> bool {
        match &secret.owner {
            Owner::Application(application) => unit.application() == application && self.is_leader(unit),
            Owner::Unit(owner) => owner == unit,
            Owner::Model => false,
        }
    }

    pub fn may_read(&self, unit: &UnitName, secret: &Secret) -> bool {
        let owns = match &secret.owner {
            Owner::Application(application) => unit.application() == application,
            Owner::Unit(owner) => owner == unit,
            Owner::Model => false,
        };
        let tags = [format!("application-{}", unit.application()), unit.tag()];
        let by_user = self.user_secrets.get(&secret.id).is_some_and(|own| own.granted.contains(unit.application()));
        owns || by_user || tags.iter().any(|tag| secret.grants.contains_key(tag))
    }

    /// The secret a user means: by URI, by id, or, of the user's own, by name.
    pub fn secret_named(&self, text: &str) -> Option<&Secret> {
        let by_id = parse_secret_uri(text).ok().and_then(|id| self.secrets.get(&id));
        by_id.or_else(|| self.secrets.values().find(|secret| secret.owner == Owner::Model && secret.label == text))
    }

    /// Drops the revisions of the user's own secrets that nobody reads any more, where that was asked for.
    pub fn prune_user_secrets(&mut self) {
        for (id, own) in &self.user_secrets {
            let Some(secret) = self.secrets.get_mut(id).filter(|_| own.auto_prune) else { continue };
            let read: BTreeSet<u32> = secret.consumers.values().map(|consumer| consumer.tracked).collect();
            let latest = secret.latest;
            secret.revisions.retain(|revision, _| *revision == latest || read.contains(revision));
        }
    }

    /// Secrets that `secret-ids` lists for a unit.
    pub fn managed_secrets<'a>(&'a self, unit: &'a UnitName) -> impl Iterator<Item = &'a Secret> {
        self.secrets.values().filter(move |secret| self.may_manage(unit, secret))
    }

    /// The secret an owner's unit or a consumer calls by a label.
    pub fn secret_by_label(&self, unit: &UnitName, label: &str) -> Option<&Secret> {
        let owned = |secret: &&Secret| match &secret.owner {
            Owner::Application(application) => application == unit.application(),
            Owner::Unit(owner) => owner == unit,
            Owner::Model => false,
        };
        let by_owner = self.secrets.values().filter(owned).find(|secret| secret.label == label);
        by_owner.or_else(|| {
            self.secrets.values().find(|secret| secret.consumers.get(unit).is_some_and(|one| one.label == label))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_not_in_debug() {
        let revision = Revision { content: BTreeMap::from([("key".into(), "c2VjcmV0".into())]), created: Moment(0) };
        assert!(!format!("{revision:?}").contains("c2VjcmV0"));
    }
}
