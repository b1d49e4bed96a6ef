//! `state-*`: a small map that Juju keeps for the unit. It survives charm upgrades and is written only if the hook
//! succeeds.

use super::{Databag, ToolError, Tools};

impl Tools {
    /// Reads the whole map.
    pub fn state_get(&self) -> Result<Databag, ToolError> {
        let state: Option<Databag> = self.ask("state-get", &[])?;
        Ok(state.unwrap_or_default())
    }

    /// Writes keys of the map and leaves the others.
    pub fn state_set(&self, values: &Databag) -> Result<(), ToolError> {
        self.tell_map("state-set", &["--file", "-"], values)
    }

    /// Deletes one key; a missing one is fine.
    pub fn state_delete(&self, key: &str) -> Result<(), ToolError> {
        self.tell("state-delete", &[key])
    }
}
