//! `storage-list`, `storage-get`, `storage-add`: disks and directories that Juju attaches to the unit.

use super::relation::parsed;
use super::{ToolError, Tools};
use crate::name::StorageId;
use serde::Deserialize;
use std::path::PathBuf;

/// What a storage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StorageKind {
    /// A directory.
    Filesystem,
    /// A device.
    Block,
}

/// One attached storage.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Storage {
    pub kind: StorageKind,
    pub location: PathBuf,
}

impl Tools {
    /// Lists the storage of one name that is attached.
    pub fn storage_list(&self, name: &str) -> Result<Vec<StorageId>, ToolError> {
        let texts: Option<Vec<String>> = self.ask_once("storage-list", &[name])?;
        texts.unwrap_or_default().iter().map(|text| parsed("storage-list", text)).collect()
    }

    /// Says what a storage is and where.
    pub fn storage_get(&self, storage: &StorageId) -> Result<Storage, ToolError> {
        self.ask_once("storage-get", &["-s", storage.as_str()])
    }

    /// Asks for more storage of one name. It comes later, with a hook of its own, and only if this hook succeeds.
    pub fn storage_add(&self, name: &str, count: u32) -> Result<(), ToolError> {
        self.tell("storage-add", &[&format!("{name}={count}")])
    }
}
