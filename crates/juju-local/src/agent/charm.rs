//! A unit's place on the machine: directories, tools, the charm itself.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;

use crate::names::UnitName;
use crate::paths::inside;

pub fn deploy(machine: &str, unit: &UnitName, url: &str, archive: &str, tools: &[String]) -> anyhow::Result<()> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(archive).context("the charm arrived damaged")?;
    let directory = inside::unit(unit);
    let state = format!("{directory}/state");
    fs::create_dir_all(&state).with_context(|| format!("creating {state}"))?;
    let conf = format!("{directory}/agent.conf");
    fs::write(&conf, format!("tag: {}\n", unit.tag()))?;
    fs::set_permissions(&conf, fs::Permissions::from_mode(0o600))?;
    let manifest = format!("{state}/manifest");
    crate::charm::unpack(&bytes, url, Path::new(&inside::charm(unit)), Path::new(&manifest))?;
    link_tools(machine, unit, tools)
}

fn link_tools(machine: &str, unit: &UnitName, names: &[String]) -> anyhow::Result<()> {
    let directory = inside::tools(unit);
    fs::create_dir_all(&directory)?;
    for name in names {
        let link = format!("{directory}/{name}");
        if fs::symlink_metadata(&link).is_err() {
            symlink(inside::program(machine), &link).with_context(|| format!("linking {link}"))?;
        }
    }
    Ok(())
}

/// A directory that the charm may call its own.
pub fn make_storage(location: &str) {
    if let Err(error) = fs::create_dir_all(location) {
        eprintln!("jujud: storage {location}: {error}");
    }
}

/// Removes a unit's place on the machine.
pub fn remove(unit: &UnitName) {
    for directory in [inside::unit(unit), inside::tools(unit)] {
        if let Err(error) = fs::remove_dir_all(&directory)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            eprintln!("jujud: removing {directory}: {error}");
        }
    }
}
