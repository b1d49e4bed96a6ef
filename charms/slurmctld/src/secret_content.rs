//! What a secret of this application holds: the key that slurmctld runs with. Read by whoever looks whether it does, and by whoever sees to it.

use crate::names;
use charm::tools::SecretContent;
use slurm_ops::Machine;
use slurm_ops::files::FileError;
use slurm_ops::keys;

/// Returns what the secret of this label should hold. None if its key is not on this machine; a file with something else in it is as good as
/// none.
pub fn wanted(machine: &Machine, label: &str) -> Result<Option<SecretContent>, FileError> {
    let content = match label {
        names::JWT_SECRET => keys::read_jwt_key(&machine.host())
            .map(|key| key.map(|key| SecretContent::default().with(names::SECRET_KEY, key.expose()))),
        _ => keys::read_auth_keys(&machine.host()).map(|keys| {
            let content = |key: &keys::AuthKey| {
                SecretContent::default().with(names::SECRET_KEY, key.expose()).with(names::SECRET_KEY_ID, key.id())
            };
            keys.map(|keys| content(keys.default_key()))
        }),
    };
    match content {
        Err(FileError::Content { .. }) => Ok(None),
        other => other,
    }
}
