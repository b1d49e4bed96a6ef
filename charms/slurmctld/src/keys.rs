//! The keys of the cluster: as files on this machine, and as secrets of the application. A lost one comes back from the
//! other, and where they differ the file counts: slurmctld runs with it.

use crate::names;
use charm::tools::SecretContent;
use serde::{Deserialize, Serialize};
use slurm_ops::files::{self, FileError};
use slurm_ops::keys::{self, AuthKey, JwtKey, KeySet};
use slurm_ops::{Host, HostWriter};
use slurm_unit::{Error, key_secret};

/// The keys on this machine. None: the file is not there, or not fit to be a key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keys {
    pub auth: Option<KeySet>,
    pub jwt: Option<JwtKey>,
    /// When the key of tokens was written, in nanoseconds since 1970: it has no id.
    pub jwt_written: Option<u64>,
    /// Only slurmctld can read them.
    pub private: bool,
}

/// Which keys a slurmctld has loaded, without the keys themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LoadedKeys {
    /// The ids of the authentication keys, the one that signs first.
    pub auth: Vec<String>,
    /// When the key of tokens was written.
    pub jwt: Option<u64>,
}

/// A key of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Auth,
    Jwt,
}

impl Key {
    /// Names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "authentication key",
            Self::Jwt => "token key",
        }
    }

    /// Returns label and description of its secret.
    pub fn secret(self) -> (&'static str, &'static str) {
        match self {
            Self::Auth => (key_secret::AUTH_LABEL, names::AUTH_SECRET_DESCRIPTION),
            Self::Jwt => (key_secret::JWT_LABEL, names::JWT_SECRET_DESCRIPTION),
        }
    }

    /// Returns the label of its secret.
    pub fn label(self) -> &'static str {
        self.secret().0
    }

    /// Writes a new key to its file.
    pub fn make(self, writer: &HostWriter) -> Result<(), Error> {
        match self {
            Self::Auth => keys::ensure_auth_keys(writer, &KeySet::of(AuthKey::generate()?), names::SLURM_USER)?,
            Self::Jwt => keys::ensure_jwt_key(writer, &JwtKey::generate()?, names::SLURM_USER)?,
        };
        Ok(())
    }

    /// Writes the key of a secret to its file.
    pub fn restore(self, writer: &HostWriter, content: &SecretContent) -> Result<(), Error> {
        let lost = || Error::Other(format!("secret {} has no key in it", self.label()));
        match self {
            Self::Auth => {
                let keys = key_secret::keys(content).ok_or_else(lost)?;
                keys::ensure_auth_keys(writer, &keys, names::SLURM_USER)?
            }
            Self::Jwt => {
                let key = key_secret::token_key(content).ok_or_else(lost)?;
                keys::ensure_jwt_key(writer, &key, names::SLURM_USER)?
            }
        };
        Ok(())
    }
}

impl Keys {
    /// Reads the files. A file with something else in it is as good as none.
    pub fn look(host: &Host) -> Result<Self, Error> {
        let (auth, jwt) = (keys::read_auth_keys(host), keys::read_jwt_key(host));
        let private = keys::are_private(host, names::SLURM_USER)?;
        let written = files::modified(host, keys::JWT_KEY_FILE)?;
        let jwt_written = written.map(|written| u64::try_from(written.as_nanos()).unwrap_or(u64::MAX));
        Ok(Self { auth: unless_malformed(auth)?, jwt: unless_malformed(jwt)?, jwt_written, private })
    }

    /// Returns what a slurmctld has loaded that was started with these.
    pub fn loaded(&self) -> LoadedKeys {
        LoadedKeys { auth: self.auth.as_ref().map(KeySet::ids).unwrap_or_default(), jwt: self.jwt_written }
    }

    /// Returns one of them, in the form of the secret that holds it.
    pub fn content(&self, key: Key) -> Option<SecretContent> {
        match key {
            Key::Auth => self.auth.as_ref().map(key_secret::of_keys),
            Key::Jwt => self.jwt.as_ref().map(key_secret::of_token_key),
        }
    }
}

fn unless_malformed<T>(read: Result<Option<T>, FileError>) -> Result<Option<T>, FileError> {
    match read {
        Err(FileError::Content { .. }) => Ok(None),
        other => other,
    }
}
