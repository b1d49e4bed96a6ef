//! The keys of a cluster: made from the kernel's random source, kept in files that only their owner can read.
//!
//! No type here shows its content: `Debug` prints the name of the type, there is no `Display`, and no key is ever an
//! argument of a process.
//!
//! ```
//! use slurm_ops::keys::{AuthKey, KeySet};
//!
//! let key = AuthKey::generate()?;
//! assert_eq!(format!("{key:?}"), "AuthKey(..)");
//! assert!(AuthKey::new("../k1", key.expose()).is_err());
//! # drop(KeySet::of(key));
//! # Ok::<(), slurm_ops::keys::KeyError>(())
//! ```

use crate::files::{self, Access, FileError};
use crate::machine::{Host, HostWriter};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Where Slurm reads the keys of `auth/slurm` from.
pub const AUTH_KEY_FILE: &str = "/etc/slurm/slurm.jwks";
/// Where our slurm.conf says that the key of `auth/jwt` is.
pub const JWT_KEY_FILE: &str = "/etc/slurm/jwt_hs256.key";

/// Random bytes in a new authentication key. Divisible by 3, so that its base64 has no padding in any dialect.
const AUTH_KEY_LENGTH: usize = 96;
/// Random bytes in a new JWT key.
const JWT_KEY_LENGTH: usize = 48;

/// A key that is not fit to be one. Never shows the key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The kernel gave no random bytes.
    #[error("the kernel's random source failed: {0}")]
    Random(getrandom::Error),
    /// What came from outside is no key.
    #[error("expected {0}")]
    Malformed(&'static str),
}

/// What holds a key prints nothing of itself.
macro_rules! print_nothing {
    ($($type:ident),*) => {$(
        impl fmt::Debug for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(concat!(stringify!($type), "(..)"))
            }
        }
    )*};
}

print_nothing!(AuthKey, KeySet, JwtKey);

/// One key of `auth/slurm` with its id.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthKey {
    id: String,
    /// base64, in whatever dialect it came: every holder of the key has to write the same text.
    key: String,
}

impl AuthKey {
    /// Makes a new key.
    pub fn generate() -> Result<Self, KeyError> {
        let key = URL_SAFE_NO_PAD.encode(random::<AUTH_KEY_LENGTH>()?);
        Ok(Self { id: random_id()?, key })
    }

    /// Checks a key that came in a secret: its id, and base64 of at least 32 bytes.
    pub fn new(id: &str, key: &str) -> Result<Self, KeyError> {
        let word =
            |text: &str, also: &[u8]| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || also.contains(&byte));
        if id.is_empty() || id.len() > 128 || !word(id, b"-_.") {
            return Err(KeyError::Malformed("a key id of letters, digits, `-`, `_` and `.`"));
        }
        if key.len() < 43 || key.len() > 8192 || !word(key.trim_end_matches('='), b"+/-_") {
            return Err(KeyError::Malformed("a key of at least 32 bytes in base64"));
        }
        Ok(Self { id: id.to_owned(), key: key.to_owned() })
    }

    /// Returns the id, which is no secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the key as base64 text, for the content of a Juju secret and nothing else.
    pub fn expose(&self) -> &str {
        &self.key
    }
}

/// The keys in a `slurm.jwks`, in the order in which they came: all verify, one signs.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<AuthKey>,
    signs: usize,
}

#[derive(Serialize, Deserialize)]
struct KeySetFile {
    keys: Vec<KeyEntry>,
}

#[derive(Serialize, Deserialize)]
struct KeyEntry {
    alg: String,
    kty: String,
    kid: String,
    k: String,
    #[serde(rename = "use", default, skip_serializing_if = "Option::is_none")]
    purpose: Option<String>,
}

impl KeySet {
    /// Returns the set of one key.
    pub fn of(key: AuthKey) -> Self {
        Self { keys: vec![key], signs: 0 }
    }

    /// Returns the keys in the order in which they came: the newest last.
    pub fn keys(&self) -> &[AuthKey] {
        &self.keys
    }

    /// Returns the key that signs; the others only verify.
    pub fn default_key(&self) -> &AuthKey {
        &self.keys[self.signs]
    }

    /// Returns the key that came last.
    pub fn newest(&self) -> &AuthKey {
        &self.keys[self.keys.len() - 1]
    }

    /// Returns the ids of the keys, the one that signs first. Two sets that work alike have the same ids in this order.
    pub fn ids(&self) -> Vec<String> {
        let others = self.keys.iter().enumerate().filter(|(position, _)| *position != self.signs);
        [self.default_key()].into_iter().chain(others.map(|(_, key)| key)).map(|key| key.id.clone()).collect()
    }

    /// Adds a key that verifies, or replaces the one of its id. The key that signs stays.
    #[must_use]
    pub fn with(mut self, key: AuthKey) -> Self {
        match self.keys.iter_mut().find(|own| own.id == key.id) {
            Some(own) => *own = key,
            None => self.keys.push(key),
        }
        self
    }

    /// Has the key of this id sign. `None`: it is not in the set.
    #[must_use]
    pub fn signing_with(self, id: &str) -> Option<Self> {
        let signs = self.keys.iter().position(|key| key.id == id)?;
        Some(Self { signs, ..self })
    }

    /// Returns the set of the key that signs alone.
    #[must_use]
    pub fn alone(self) -> Self {
        Self::of(self.default_key().clone())
    }

    /// Returns the text of the file.
    pub fn render(&self) -> Vec<u8> {
        // With a single key there is nothing to say, and the other charms say nothing.
        let several = self.keys.len() > 1;
        let keys = self.keys.iter().enumerate().map(|(position, key)| KeyEntry {
            alg: "HS256".to_owned(),
            kty: "oct".to_owned(),
            kid: key.id.clone(),
            k: key.key.clone(),
            purpose: (several && position == self.signs).then(|| "default".to_owned()),
        });
        serde_json::to_vec(&KeySetFile { keys: keys.collect() }).expect("invariant: texts have a JSON form")
    }

    /// Reads the text of the file.
    pub fn parse(text: &[u8]) -> Result<Self, KeyError> {
        const EXPECTED: &str = "a JSON key set with one or more keys";
        // The cause is dropped on purpose: serde's message may quote the input.
        let file: KeySetFile = serde_json::from_slice(text).map_err(|_| KeyError::Malformed(EXPECTED))?;
        let defaults = file.keys.iter().filter(|entry| entry.purpose.as_deref() == Some("default")).count();
        let ids: BTreeSet<&str> = file.keys.iter().map(|entry| entry.kid.as_str()).collect();
        if defaults > 1 || ids.len() != file.keys.len() {
            // Slurm dies of the first; of the second, which one it takes is anybody's guess.
            return Err(KeyError::Malformed("one key that signs, and an id for each key"));
        }
        // Slurm takes the first one where the file does not say which one signs.
        let signs = file.keys.iter().position(|entry| entry.purpose.as_deref() == Some("default")).unwrap_or(0);
        let keys: Vec<AuthKey> =
            file.keys.iter().map(|entry| AuthKey::new(&entry.kid, &entry.k)).collect::<Result<_, _>>()?;
        if keys.is_empty() {
            return Err(KeyError::Malformed(EXPECTED));
        }
        Ok(Self { keys, signs })
    }
}

/// The key of `auth/jwt`: text, since other charms expect to receive it as such.
#[derive(Clone, PartialEq, Eq)]
pub struct JwtKey(String);

impl JwtKey {
    /// Makes a new key.
    pub fn generate() -> Result<Self, KeyError> {
        Ok(Self(URL_SAFE_NO_PAD.encode(random::<JWT_KEY_LENGTH>()?)))
    }

    /// Checks a key that came in a secret. Slurm takes any bytes.
    pub fn new(key: &str) -> Result<Self, KeyError> {
        if key.len() >= 32 && key.len() <= 16 * 1024 {
            Ok(Self(key.to_owned()))
        } else {
            Err(KeyError::Malformed("a key of 32 bytes or more"))
        }
    }

    /// Returns the key, for the content of a Juju secret and nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Reads `slurm.jwks`. `None`: there is none.
pub fn read_auth_keys(host: &Host) -> Result<Option<KeySet>, FileError> {
    let unfit = |_| FileError::Content { path: host.path(AUTH_KEY_FILE), expected: "a JSON key set" };
    files::read(host, AUTH_KEY_FILE)?.map(|text| KeySet::parse(&text).map_err(unfit)).transpose()
}

/// Writes `slurm.jwks` for `owner` alone, and tells whether it was different.
pub fn ensure_auth_keys(writer: &HostWriter, keys: &KeySet, owner: &str) -> Result<bool, FileError> {
    files::replace(writer, AUTH_KEY_FILE, &keys.render(), &private(owner))
}

/// Reads the JWT key. `None`: there is none.
pub fn read_jwt_key(host: &Host) -> Result<Option<JwtKey>, FileError> {
    let unfit = |_| FileError::Content { path: host.path(JWT_KEY_FILE), expected: "a key of 32 bytes or more" };
    files::read_text(host, JWT_KEY_FILE)?.map(|text| JwtKey::new(&text).map_err(unfit)).transpose()
}

/// Writes the JWT key for `owner` alone, and tells whether it was different.
pub fn ensure_jwt_key(writer: &HostWriter, key: &JwtKey, owner: &str) -> Result<bool, FileError> {
    files::replace(writer, JWT_KEY_FILE, key.0.as_bytes(), &private(owner))
}

/// Tells whether every key file that is there belongs to `owner` and is for nobody else to read.
pub fn are_private(host: &Host, owner: &str) -> Result<bool, FileError> {
    for path in [AUTH_KEY_FILE, JWT_KEY_FILE] {
        if !files::has_access(host, path, &private(owner))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes every key file that is there private, and leaves its content as it is.
pub fn ensure_private(writer: &HostWriter, owner: &str) -> Result<(), FileError> {
    for path in [AUTH_KEY_FILE, JWT_KEY_FILE] {
        if let Some(content) = files::read(writer.host(), path)? {
            files::replace(writer, path, &content, &private(owner))?;
        }
    }
    Ok(())
}

/// A mode with any bit for others is fatal to slurmctld and slurmd.
fn private(owner: &str) -> Access {
    Access { mode: 0o600, owner: Some(owner.to_owned()) }
}

fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], KeyError> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(KeyError::Random)?;
    Ok(bytes)
}

/// Returns a random (version 4) UUID, the form that the other Slurm charms use for key ids.
fn random_id() -> Result<String, KeyError> {
    let mut bytes = random::<16>()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok([&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn new_keys_differ_and_show_nothing() {
        let (one, two) = (AuthKey::generate().unwrap(), AuthKey::generate().unwrap());
        assert!(one != two && one.id() != two.id());
        assert_eq!(
            format!("{one:?} {:?} {:?}", KeySet::of(two), JwtKey::generate().unwrap()),
            "AuthKey(..) KeySet(..) JwtKey(..)"
        );
        assert_eq!(one.id().len(), 36);
        assert_eq!(AuthKey::new(one.id(), one.expose()).unwrap(), one);
    }

    #[test]
    fn one_key_is_written_as_the_other_charms_write_it() {
        let key = "A".repeat(64);
        let text = KeySet::of(AuthKey::new("k1", &key).unwrap()).render();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            format!(r#"{{"keys":[{{"alg":"HS256","kty":"oct","kid":"k1","k":"{key}"}}]}}"#)
        );
    }

    #[test]
    fn the_order_of_a_file_stays_and_the_signing_key_is_named_first() {
        let key = "A".repeat(64);
        let text = format!(
            r#"{{"keys": [{{"alg":"HS256","kty":"oct","kid":"k1","k":"{key}"}},
                {{"alg":"HS256","kty":"oct","kid":"k2","k":"{key}","use":"default","exp":1799999999}}]}}"#
        );
        let set = KeySet::parse(text.as_bytes()).unwrap();
        assert_eq!(set.keys().iter().map(AuthKey::id).collect::<Vec<_>>(), ["k1", "k2"]);
        assert_eq!(set.ids(), ["k2", "k1"]);
        assert_eq!(KeySet::parse(&set.render()).unwrap(), set);
        let unsaid = text.replace(r#","use":"default""#, "");
        assert_eq!(KeySet::parse(unsaid.as_bytes()).unwrap().default_key().id(), "k1");
    }

    #[test]
    fn a_key_is_replaced_in_three_steps() {
        let old = AuthKey::new("old", &"A".repeat(64)).unwrap();
        let new = AuthKey::new("new", &"B".repeat(64)).unwrap();
        let known = KeySet::of(old).with(new.clone()).with(new);
        assert_eq!((known.ids(), known.newest().id()), (vec!["old".to_owned(), "new".to_owned()], "new"));
        assert!(known.clone().signing_with("none").is_none());
        let signing = known.clone().signing_with("new").unwrap();
        assert_eq!((signing.ids(), signing.newest().id()), (vec!["new".to_owned(), "old".to_owned()], "new"));
        for set in [&known, &signing] {
            assert_eq!(KeySet::parse(&set.render()).unwrap(), *set);
        }
        assert_eq!(signing.alone().ids(), ["new"]);
        assert_eq!(known.alone().ids(), ["old"]);
    }

    #[test]
    fn a_file_that_slurm_would_die_of_is_refused() {
        let key = "A".repeat(64);
        let entry = |id: &str| format!(r#"{{"alg":"HS256","kty":"oct","kid":"{id}","k":"{key}","use":"default"}}"#);
        let file = |one: &str, two: &str| format!(r#"{{"keys":[{},{}]}}"#, entry(one), entry(two));
        assert!(KeySet::parse(file("a", "b").as_bytes()).is_err());
        let twins = file("a", "a").replace(r#","use":"default""#, "");
        assert!(KeySet::parse(twins.as_bytes()).is_err());
        assert!(KeySet::parse(twins.replacen(r#""kid":"a""#, r#""kid":"b""#, 1).as_bytes()).is_ok());
    }

    #[test]
    fn a_refusal_does_not_repeat_the_key() {
        let leaked = "c2VjcmV0IG1hdGVyaWFs";
        for error in [AuthKey::new("k1", leaked).unwrap_err(), KeySet::parse(leaked.as_bytes()).unwrap_err()] {
            assert!(!format!("{error} {error:?}").contains(leaked));
        }
        for id in ["", "a b", "a\"b", "a\n"] {
            assert!(AuthKey::new(id, &"A".repeat(64)).is_err(), "{id:?}");
        }
        assert!(KeySet::parse(b"{\"keys\": []}").is_err());
        assert!(AuthKey::new("k", &format!("{}\"", "A".repeat(64))).is_err());
    }

    #[test]
    fn files_are_private_and_read_back() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::at(directory.path());
        std::fs::create_dir_all(directory.path().join("etc/slurm")).unwrap();
        let (user, group) = (nix::unistd::Uid::effective(), nix::unistd::Gid::effective());
        std::fs::write(directory.path().join("etc/passwd"), format!("slurm:x:{user}:{group}::/:/bin/false\n")).unwrap();
        assert_eq!(read_auth_keys(&machine.host()).unwrap(), None);
        let (set, jwt) = (KeySet::of(AuthKey::generate().unwrap()), JwtKey::generate().unwrap());
        assert!(ensure_auth_keys(&machine.writer(), &set, "slurm").unwrap());
        assert!(!ensure_auth_keys(&machine.writer(), &set, "slurm").unwrap());
        assert!(ensure_jwt_key(&machine.writer(), &jwt, "slurm").unwrap());
        assert_eq!(read_auth_keys(&machine.host()).unwrap(), Some(set));
        assert_eq!(read_jwt_key(&machine.host()).unwrap(), Some(jwt));
        for file in [AUTH_KEY_FILE, JWT_KEY_FILE] {
            assert_eq!(std::fs::metadata(machine.path(file)).unwrap().mode() & 0o7777, 0o600);
        }
        std::fs::write(machine.path(AUTH_KEY_FILE), "nonsense").unwrap();
        assert!(read_auth_keys(&machine.host()).unwrap_err().to_string().ends_with("expected a JSON key set"));
    }
}
