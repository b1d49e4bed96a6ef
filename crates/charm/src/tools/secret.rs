//! `secret-*`: secrets of the application and of others.
//!
//! Content goes to Juju through private files and never through an argument list, which any user of the machine can
//! read. A secret that cannot be read is an answer, not a failure: grants come late and leave early.

use super::error::unless_refused;
use super::relation::parsed;
use super::session::SecretWrite;
use super::{Juju, JujuWriter, Refusal, ToolError};
use crate::name::{RelationId, SecretId};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use tempfile::NamedTempFile;

/// The content of a secret. Its `Debug` names the keys and hides the values, and it has no `Display`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretContent(BTreeMap<String, String>);

impl SecretContent {
    /// Returns one value.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Adds one value. Juju takes keys of three lower case characters or more.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }
}

impl fmt::Debug for SecretContent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.0.keys().map(|key| (key, ".."))).finish()
    }
}

/// What asking for a secret brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretAnswer {
    Content(SecretContent),
    Unreadable(Unreadable),
}

/// Why a secret cannot be read now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// Not granted yet, or no longer.
    NotAllowed,
    /// Unknown to Juju: removed, or its content lost.
    NotFound,
    /// The agent has lost its controller; the unit is going away.
    AgentGone,
}

/// What the owner may know about a secret besides its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretInfo {
    pub id: SecretId,
    pub revision: u64,
    pub access: Vec<Access>,
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Access {
    /// Who may read, such as `application-compute`.
    pub target: String,
    /// Where the grant comes from, such as `relation-compute.slurmctld#slurmctld.slurmd`.
    pub scope: String,
}

impl Juju {
    /// Reads the latest content of a secret by its identifier as found in a bag, and gives it a label that later
    /// `secret-changed` hooks will carry. This moves the unit's tracked revision to the latest at once.
    pub fn secret_get(&self, uri: &str, label: &str) -> Result<SecretAnswer, ToolError> {
        self.secret_answer(&[uri, "--label", label, "--refresh"])
    }

    /// Reads the latest content of a secret by a label it was given earlier, or that its owner gave it.
    pub fn secret_get_label(&self, label: &str) -> Result<SecretAnswer, ToolError> {
        self.secret_answer(&["--label", label, "--refresh"])
    }

    fn secret_answer(&self, arguments: &[&str]) -> Result<SecretAnswer, ToolError> {
        match self.link.ask::<BTreeMap<String, String>>("secret-get", arguments) {
            Ok(content) => Ok(SecretAnswer::Content(SecretContent(content))),
            Err(error) => match error.refusal() {
                Some(Refusal::NotAllowed | Refusal::NotLeader) => Ok(SecretAnswer::Unreadable(Unreadable::NotAllowed)),
                Some(Refusal::NotFound) => Ok(SecretAnswer::Unreadable(Unreadable::NotFound)),
                Some(Refusal::AgentGone) => Ok(SecretAnswer::Unreadable(Unreadable::AgentGone)),
                None => Err(error),
            },
        }
    }

    /// Finds a secret of the own application by its label. None if there is none, or if this unit does not lead.
    pub fn secret_info_get(&self, label: &str) -> Result<Option<SecretInfo>, ToolError> {
        #[derive(Deserialize)]
        struct Info {
            revision: u64,
            #[serde(default)]
            access: Vec<Access>,
        }
        let answer = self.link.ask::<BTreeMap<String, Info>>("secret-info-get", &["--label", label]);
        let answer = unless_refused(answer, &[Refusal::NotFound, Refusal::NotAllowed, Refusal::NotLeader])?;
        let Some((id, info)) = answer.unwrap_or_default().into_iter().next() else { return Ok(None) };
        let id = parsed("secret-info-get", &id)?;
        Ok(Some(SecretInfo { id, revision: info.revision, access: info.access }))
    }
}

impl JujuWriter {
    /// Makes a secret of the application at once, because Juju gives it its id; only the leader may. Grant it in a
    /// later hook: Juju 4.0.13 loses a grant that is committed together with its secret.
    pub fn secret_add(&self, label: &str, description: &str, content: &SecretContent) -> Result<SecretId, ToolError> {
        let files = PrivateFiles::of(content, "secret-add")?;
        let mut arguments = vec!["--owner", "application", "--label", label, "--description", description];
        arguments.extend(files.arguments());
        let stdout = self.link.run("secret-add", &arguments, None)?;
        parsed("secret-add", String::from_utf8_lossy(&stdout).trim())
    }

    /// Has the whole content of a secret replaced at the end. The same content again makes no new revision.
    pub fn secret_set(&self, secret: &SecretId, content: &SecretContent) {
        self.link.session().secrets.push(SecretWrite::Set(secret.clone(), content.clone()));
    }

    pub(super) fn say_secret_set(&self, secret: &SecretId, content: &SecretContent) -> Result<(), ToolError> {
        let files = PrivateFiles::of(content, "secret-set")?;
        let mut arguments = vec![secret.as_str()];
        arguments.extend(files.arguments());
        self.link.tell("secret-set", &arguments)
    }

    /// Lets the other end of a relation read a secret for as long as the relation lives, from the end of this dispatch
    /// on.
    pub fn secret_grant(&self, secret: &SecretId, relation: &RelationId) {
        self.collect_secret("secret-grant", &[secret.as_str(), "-r", relation.as_str()]);
    }

    /// Has one revision of a secret removed at the end. Juju may ask for it more than once; one that is gone is fine.
    pub fn secret_remove_revision(&self, secret: &SecretId, revision: u64) {
        self.collect_secret("secret-remove", &[secret.as_str(), "--revision", &revision.to_string()]);
    }

    fn collect_secret(&self, tool: &'static str, arguments: &[&str]) {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        self.link.session().secrets.push(SecretWrite::Tell(tool, arguments));
    }
}

/// One file of mode 0600 per value, gone when dropped.
struct PrivateFiles {
    arguments: Vec<String>,
    _files: Vec<NamedTempFile>,
}

impl PrivateFiles {
    fn of(content: &SecretContent, tool: &'static str) -> Result<Self, ToolError> {
        let mut arguments = Vec::new();
        let mut files = Vec::new();
        for (key, value) in &content.0 {
            let file = private_file(value.as_bytes()).map_err(|source| ToolError::PrivateFile { tool, source })?;
            arguments.push(format!("{key}#file={}", file.path().display()));
            files.push(file);
        }
        Ok(Self { arguments, _files: files })
    }

    fn arguments(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().map(String::as_str)
    }
}

/// Memory is better than a disk for what must not be found later, so `/run` is tried first.
fn private_file(bytes: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new_in(Path::new("/run")).or_else(|_| NamedTempFile::new())?;
    file.write_all(bytes)?;
    file.flush()?;
    Ok(file)
}
