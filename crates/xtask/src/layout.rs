//! Where things are: the checkout, the target directory, `dist/`, the charms, the Python environment. Looks, but writes
//! nothing.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The one target everything is built for (`.cargo/config.toml` names it as well).
pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Returns the top of the checkout.
pub(crate) fn root() -> Result<PathBuf> {
    // Set by `cargo run`; the value of the build serves when the program is started by hand.
    let crate_directory =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = crate_directory.ancestors().nth(2).map(Path::to_path_buf);
    root.with_context(|| format!("no checkout above {}", crate_directory.display()))
}

/// Returns cargo's target directory.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let root = root()?;
    Ok(match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => std::env::current_dir().unwrap_or(root).join(directory),
        None => root.join("target"),
    })
}

/// Returns the path of a program built for release.
pub(crate) fn release_binary(name: &str) -> Result<PathBuf> {
    Ok(target_directory()?.join(TARGET).join("release").join(name))
}

/// Returns the directory with the packed charms.
pub(crate) fn dist() -> Result<PathBuf> {
    Ok(root()?.join("dist"))
}

/// Returns the directory that holds `juju` and `juju-local`, made to be put first on PATH.
pub(crate) fn dist_bin() -> Result<PathBuf> {
    Ok(dist()?.join("bin"))
}

/// Returns the charm file that `cargo xtask pack` makes of `charms/<name>`.
pub(crate) fn charm_file(name: &str) -> Result<PathBuf> {
    Ok(dist()?.join(format!("{name}_amd64.charm")))
}

/// Returns the directory of the Python environment for the tests.
pub(crate) fn virtual_environment() -> Result<PathBuf> {
    Ok(target_directory()?.join("venv"))
}

/// Returns every directory under `charms/` that describes a charm, sorted by name.
pub(crate) fn charm_directories() -> Result<Vec<PathBuf>> {
    let charms = root()?.join("charms");
    let mut directories = Vec::new();
    for entry in std::fs::read_dir(&charms).with_context(|| format!("could not list {}", charms.display()))? {
        let path = entry?.path();
        if path.join("Cargo.toml").is_file() {
            directories.push(path);
        }
    }
    directories.sort();
    Ok(directories)
}

/// Returns the last part of a path as text.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
