//! The keys of the cluster: as files on this machine, and as secrets of the application. Whichever is lost comes back from the other, and where
//! they differ the file counts.

use crate::error::Error;
use crate::{names, secret_content};
use charm::Tools;
use charm::tools::{SecretAnswer, SecretContent};
use slurm_ops::Machine;
use slurm_ops::keys::{self, AuthKey, JwtKey, KeySet};

pub(super) fn make_auth_key(machine: &Machine) -> Result<(), Error> {
    keys::ensure_auth_keys(&machine.writer(), &KeySet::of(AuthKey::generate()?), names::SLURM_USER)?;
    Ok(())
}

pub(super) fn make_jwt_key(machine: &Machine) -> Result<(), Error> {
    keys::ensure_jwt_key(&machine.writer(), &JwtKey::generate()?, names::SLURM_USER)?;
    Ok(())
}

pub(super) fn restore_auth_key(tools: &Tools, machine: &Machine) -> Result<(), Error> {
    let content = read(tools, names::AUTH_SECRET)?;
    let parts = content.get(names::SECRET_KEY_ID).zip(content.get(names::SECRET_KEY));
    let (id, key) = parts.ok_or(Error::KeyLost { label: names::AUTH_SECRET })?;
    keys::ensure_auth_keys(&machine.writer(), &KeySet::of(AuthKey::new(id, key)?), names::SLURM_USER)?;
    Ok(())
}

pub(super) fn restore_jwt_key(tools: &Tools, machine: &Machine) -> Result<(), Error> {
    let content = read(tools, names::JWT_SECRET)?;
    let key = content.get(names::SECRET_KEY).ok_or(Error::KeyLost { label: names::JWT_SECRET })?;
    keys::ensure_jwt_key(&machine.writer(), &JwtKey::new(key)?, names::SLURM_USER)?;
    Ok(())
}

fn read(tools: &Tools, label: &'static str) -> Result<SecretContent, Error> {
    match tools.secret_get_label(label)? {
        SecretAnswer::Content(content) => Ok(content),
        SecretAnswer::Unreadable(_) => Err(Error::KeyLost { label }),
    }
}

/// Makes a secret of the key on this machine.
pub(super) fn add_secret(tools: &Tools, machine: &Machine, label: &'static str) -> Result<(), Error> {
    let description = match label {
        names::JWT_SECRET => names::JWT_SECRET_DESCRIPTION,
        _ => names::AUTH_SECRET_DESCRIPTION,
    };
    tools.writer().secret_add(label, description, &content(machine, label)?)?;
    Ok(())
}

/// Puts the key on this machine back into a secret that lost it.
pub(super) fn refill_secret(tools: &Tools, machine: &Machine, label: &'static str) -> Result<(), Error> {
    if let Some(info) = tools.secret_info_get(label)? {
        tools.writer().secret_set(&info.id, &content(machine, label)?);
    }
    Ok(())
}

fn content(machine: &Machine, label: &'static str) -> Result<SecretContent, Error> {
    secret_content::wanted(machine, label)?.ok_or(Error::KeyLost { label })
}
