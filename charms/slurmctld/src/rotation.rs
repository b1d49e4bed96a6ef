//! A key that is being replaced: what is known about it beyond a dispatch, and which keys come next. Pure.
//!
//! Which phase it is follows from the key file alone. The note says who has acknowledged that phase, and what an
//! operator has decided.

use crate::keys::LoadedKeys;
use crate::names;
use charm::UnitName;
use serde::{Deserialize, Serialize};
use slurm_ops::keys::KeySet;
use slurm_unit::note::Note;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How far a key that is being replaced has come. There is a note as long as one is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Rotation {
    /// The ids of the keys that `acknowledged` and `since` are about.
    pub keys: Vec<String>,
    /// When they were first seen in the file, in seconds since 1970.
    pub since: u64,
    /// The units that have said that they have them.
    pub acknowledged: BTreeSet<String>,
    /// The host whose slurmctld was last made to load keys while it served, and which.
    pub loaded: Option<(String, LoadedKeys)>,
    /// Revisions of the secret that somebody may track, each with the id of the key that signs in it.
    pub tracked: BTreeMap<u64, String>,
    /// Who is not waited for: the operator has said so.
    pub skipped: BTreeSet<String>,
    /// The operator wants the old key back.
    pub cancelled: bool,
    /// The key of tokens is to be replaced.
    pub new_token_key: bool,
    /// The authentication key is being replaced, and not that of tokens alone.
    pub auth: bool,
}

impl Note for Rotation {
    const PATH: &'static str = names::ROTATION;
    const VERSION: u64 = 1;
    const BESIDE_SLURM: bool = true;
}

/// The phase of a rotation, which is that of the key file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The new key verifies, and the old one signs.
    Known,
    /// The new key signs, and the old one verifies.
    Signing,
    /// There is one key.
    Alone,
}

impl Phase {
    /// Returns the phase of a key file.
    pub fn of(keys: &KeySet) -> Self {
        match keys.keys() {
            [_] => Self::Alone,
            _ if keys.default_key() == keys.newest() => Self::Signing,
            _ => Self::Known,
        }
    }
}

/// As an operator reads it.
impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Known => "1 of 3",
            Self::Signing => "2 of 3",
            Self::Alone => "3 of 3",
        })
    }
}

/// What the units of other applications say about their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acknowledgements {
    /// The units that were asked, and the ids that they name. None: it has never said anything, as charms do that know
    /// a single key.
    pub said: Vec<(UnitName, Option<Vec<String>>)>,
    /// Units that were not asked, because there are many: the retry timer asks all.
    pub unasked: Vec<UnitName>,
}

impl Rotation {
    /// Returns the note about the keys in the file: as it is, or begun anew for another phase.
    pub fn about(noted: Option<&Self>, keys: &KeySet, now: u64) -> Self {
        let before = noted.cloned().unwrap_or_default();
        let (auth, keys) = (before.auth || keys.keys().len() > 1, keys.ids());
        if before.keys == keys {
            return Self { auth, ..before };
        }
        Self { keys, since: now, acknowledged: BTreeSet::new(), auth, ..before }
    }

    /// Says whether a unit has acknowledged these keys.
    pub fn has(&self, unit: &UnitName, keys: &KeySet) -> bool {
        self.keys == keys.ids() && self.acknowledged.contains(unit.as_str())
    }

    /// Returns what slurmctld of a host was last made to load while it served.
    pub fn loaded_on(&self, host: &str) -> Option<&LoadedKeys> {
        self.loaded.as_ref().filter(|(own, _)| own == host).map(|(_, loaded)| loaded)
    }

    #[must_use]
    pub fn with_loaded(self, host: &str, keys: LoadedKeys) -> Self {
        Self { loaded: Some((host.to_owned(), keys)), ..self }
    }

    /// Notes a revision of the secret that is about to be replaced, and the key that signs in it.
    #[must_use]
    pub fn with_tracked(mut self, revision: u64, signs: &str) -> Self {
        self.tracked.insert(revision, signs.to_owned());
        self
    }

    /// Nobody tracks this revision any more.
    #[must_use]
    pub fn without_tracked(mut self, revision: u64) -> Self {
        self.tracked.remove(&revision);
        self
    }

    /// Says whether Juju has not yet called every revision obsolete in which another key signs.
    pub fn is_tracked(&self, keys: &KeySet) -> bool {
        self.tracked.values().any(|signs| signs != keys.default_key().id())
    }

    #[must_use]
    pub fn with_acknowledged<'u>(mut self, units: impl IntoIterator<Item = &'u UnitName>) -> Self {
        self.acknowledged.extend(units.into_iter().map(ToString::to_string));
        self
    }

    /// Returns the keys that come next. None: this is the end.
    pub fn next(&self, keys: &KeySet) -> Option<KeySet> {
        let keys = keys.clone();
        match (Phase::of(&keys), self.cancelled) {
            (Phase::Alone, _) => None,
            (Phase::Known, false) => {
                let newest = keys.newest().id().to_owned();
                keys.signing_with(&newest)
            }
            (Phase::Signing, true) => {
                let oldest = keys.keys()[0].id().to_owned();
                keys.signing_with(&oldest)
            }
            (Phase::Signing, false) | (Phase::Known, true) => Some(keys.alone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slurm_ops::keys::AuthKey;

    fn set(ids: &[&str]) -> KeySet {
        let mut keys = ids.iter().map(|id| AuthKey::new(id, &"k".repeat(64)).unwrap());
        let first = KeySet::of(keys.next().unwrap());
        keys.fold(first, KeySet::with)
    }

    #[test]
    fn a_rotation_goes_through_three_phases() {
        let (note, known) = (Rotation::default(), set(&["old", "new"]));
        assert_eq!(Phase::of(&known), Phase::Known);
        let signing = note.next(&known).unwrap();
        assert_eq!((Phase::of(&signing), signing.ids()), (Phase::Signing, vec!["new".to_owned(), "old".to_owned()]));
        let alone = note.next(&signing).unwrap();
        assert_eq!((Phase::of(&alone), alone.ids()), (Phase::Alone, vec!["new".to_owned()]));
        assert_eq!(note.next(&alone), None);
    }

    #[test]
    fn a_cancelled_rotation_goes_back_the_way_it_came() {
        let note = Rotation { cancelled: true, ..Rotation::default() };
        let known = set(&["old", "new"]);
        let signing = known.clone().signing_with("new").unwrap();
        assert_eq!(note.next(&signing), Some(known.clone()));
        assert_eq!(note.next(&known).unwrap().ids(), ["old"]);
    }

    #[test]
    fn what_was_acknowledged_counts_for_its_phase_alone() {
        let (known, unit) = (set(&["old", "new"]), "compute/0".parse().unwrap());
        let note = Rotation::about(None, &known, 7).with_acknowledged([&unit]);
        assert!(note.has(&unit, &known) && note.since == 7);
        assert_eq!(Rotation::about(Some(&note), &known, 9), note);
        let signing = note.next(&known).unwrap();
        assert!(!note.has(&unit, &signing));
        let later = Rotation::about(Some(&note), &signing, 9);
        assert!(!later.has(&unit, &signing) && later.since == 9);
    }

    #[test]
    fn a_revision_counts_by_the_key_that_signs_in_it() {
        let signing = set(&["old", "new"]).signing_with("new").unwrap();
        let note = Rotation::default().with_tracked(3, "old").with_tracked(4, "old").with_tracked(5, "new");
        assert!(note.is_tracked(&signing));
        assert!(note.clone().without_tracked(3).is_tracked(&signing));
        assert!(!note.without_tracked(3).without_tracked(4).is_tracked(&signing));
    }
}
