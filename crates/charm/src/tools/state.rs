//! `state-*`: a small map that Juju keeps for the unit. It survives charm upgrades and is written only if the hook
//! succeeds.

use super::{Databag, ToolError, Tools};

impl Tools {
    /// Reads the whole map, as it will be when this dispatch has ended.
    pub fn state_get(&self) -> Result<Databag, ToolError> {
        let state: Option<Databag> = self.ask_once("state-get", &[])?;
        let mut state = state.unwrap_or_default();
        let session = self.session();
        for (key, value) in &session.state {
            match value {
                Some(value) => state.insert(key.clone(), value.clone()),
                None => state.remove(key),
            };
        }
        Ok(state)
    }

    /// Has keys of the map written at the end; the others stay.
    pub fn state_set(&self, values: &Databag) {
        let values = values.iter().map(|(key, value)| (key.clone(), Some(value.clone())));
        self.session().state.extend(values);
    }

    /// Has one key deleted at the end; a missing one is fine.
    pub fn state_delete(&self, key: &str) {
        self.session().state.insert(key.to_owned(), None);
    }
}
