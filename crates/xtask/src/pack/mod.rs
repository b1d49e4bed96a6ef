//! `cargo xtask pack`: release builds, put into `dist/` in the form that Juju takes. How a charm file is laid out is in
//! `charmcraft.rs` (what the files say), `archive.rs` (the zip) and `executable.rs` (that the program is static).

mod archive;
mod charmcraft;
mod executable;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub(crate) use self::charmcraft::{Charmcraft, LINKS};
use crate::console::say;
use crate::{layout, program};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Packs only this charm (a directory name under charms/); may be given again
    #[arg(long = "charm", value_name = "NAME")]
    charms: Vec<String>,
    /// Makes no charm file, but puts what charmcraft does not make itself into this directory (for `parts` of
    /// charmcraft.yaml)
    #[arg(long, value_name = "DIRECTORY", requires = "charms")]
    into: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let known: Vec<String> = layout::charm_directories()?.iter().map(|path| layout::file_name(path)).collect();
    if let Some(unknown) = arguments.charms.iter().find(|name| !known.contains(name)) {
        bail!("no charm called {unknown}: there are {}", known.join(", "));
    }
    let wanted = if arguments.charms.is_empty() { known } else { arguments.charms.clone() };
    if let Some(directory) = &arguments.into {
        let [name] = wanted.as_slice() else { bail!("--into is for one charm at a time") };
        return stage(name, directory);
    }
    juju_local()?;
    charms(&wanted)
}

/// Packs every charm of the tree.
pub(crate) fn all_charms() -> Result<()> {
    let names: Vec<String> = layout::charm_directories()?.iter().map(|path| layout::file_name(path)).collect();
    charms(&names)
}

/// Builds juju-local and puts it into `dist/bin`, under its own name and as `juju`.
pub(crate) fn juju_local() -> Result<()> {
    build(&["juju-local".to_owned()])?;
    let built = layout::release_binary("juju-local")?;
    let bytes = static_executable(&built)?;
    let directory = layout::dist_bin()?;
    fs::create_dir_all(&directory).with_context(|| format!("could not make {}", directory.display()))?;
    // A copy, not a link into the target directory: a running daemon or a `cargo clean` must not pull it away.
    let installed = directory.join("juju-local");
    replace_if_different(&installed, &bytes, 0o755)?;
    let link = directory.join("juju");
    if fs::read_link(&link).ok().as_deref() != Some(Path::new("juju-local")) {
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink("juju-local", &link)
            .with_context(|| format!("could not make {}", link.display()))?;
    }
    report(&installed, bytes.len())
}

fn charms(names: &[String]) -> Result<()> {
    build_charms(names)?;
    for name in names {
        let charm = Charmcraft::read(&layout::root()?.join("charms").join(name).join("charmcraft.yaml"))?;
        let mut entries = charm.files()?;
        entries.extend(staged(name)?);
        let bytes = archive::zip(entries)?;
        let file = layout::charm_file(name)?;
        fs::create_dir_all(layout::dist()?).context("could not make dist/")?;
        replace_if_different(&file, &bytes, 0o644)?;
        report(&file, bytes.len())?;
    }
    Ok(())
}

/// Packs a charm of `tests/charms` that needs nothing beside its own files, and puts it beside ours.
pub(crate) fn test_charm(name: &str) -> Result<()> {
    let directory = layout::root()?.join("tests/charms").join(name);
    let mut entries = vec![archive::Entry::file("manifest.yaml", TEST_MANIFEST)];
    for file in ["metadata.yaml", "config.yaml"] {
        let path = directory.join(file);
        if path.is_file() {
            entries.push(archive::Entry::file(file, read(&path)?));
        }
    }
    entries.push(archive::Entry::executable("dispatch", read(&directory.join("dispatch"))?));
    let bytes = archive::zip(entries)?;
    let file = layout::charm_file(name)?;
    fs::create_dir_all(layout::dist()?).context("could not make dist/")?;
    replace_if_different(&file, &bytes, 0o644)?;
    report(&file, bytes.len())
}

/// Juju 4 takes no charm without one.
const TEST_MANIFEST: &str = "bases:\n- name: ubuntu\n  channel: '24.04'\n  architectures:\n  - amd64\n";

/// Puts what goes into a charm beside its YAML files where charmcraft collects it, so that both ways pack the same.
fn stage(name: &str, directory: &Path) -> Result<()> {
    build_charms(&[name.to_owned()])?;
    fs::create_dir_all(directory).with_context(|| format!("could not make {}", directory.display()))?;
    for entry in staged(name)? {
        replace_if_different(&directory.join(entry.name), &entry.content, entry.mode)?;
    }
    Ok(())
}

fn build_charms(names: &[String]) -> Result<()> {
    build(&names.iter().map(|name| format!("{name}-charm")).collect::<Vec<_>>())
}

/// Returns what goes into a charm beside its YAML files: the program, licence, icon and description.
fn staged(name: &str) -> Result<Vec<archive::Entry>> {
    let root = layout::root()?;
    let directory = root.join("charms").join(name);
    let dispatch = static_executable(&layout::release_binary(&format!("{name}-charm"))?)?;
    let mut entries = vec![
        archive::Entry::executable("dispatch", dispatch),
        archive::Entry::file("LICENSE", read(&root.join("LICENSE"))?),
    ];
    for (entry, candidates) in [
        ("README.md", vec![directory.join("README.md")]),
        ("icon.svg", vec![directory.join("icon.svg"), root.join("charmcraft/icon.svg")]),
    ] {
        if let Some(path) = candidates.iter().find(|path| path.is_file()) {
            entries.push(archive::Entry::file(entry, read(path)?));
        }
    }
    Ok(entries)
}

/// Builds packages for release, statically and without a trace of where the checkout is.
fn build(packages: &[String]) -> Result<()> {
    let mut command = program::cargo()?;
    command.args(["build", "--release", "--locked", "--target", layout::TARGET, "--config", &flags()?]);
    for package in packages {
        command.args(["--package", package]);
    }
    program::run(&mut command)
}

/// Returns rustc flags as a cargo setting; cargo adds them to those of `.cargo/config.toml`.
///
/// Paths of the checkout and of cargo's home do not go into the program, so that two checkouts give the same bytes. A
/// fixed load address makes a plain static executable: smaller, and nothing is left to relocate when a hook starts.
fn flags() -> Result<String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let mut flags = vec!["-Crelocation-model=static".to_owned()];
    flags.extend(home.map(|home| format!("--remap-path-prefix={}=/cargo", home.display())));
    flags.push(format!("--remap-path-prefix={}=/build", layout::root()?.display()));
    Ok(format!("target.{}.rustflags={}", layout::TARGET, serde_json::to_string(&flags)?))
}

/// Reads a program and makes sure that it needs nothing of the machine it will run on.
fn static_executable(path: &Path) -> Result<Vec<u8>> {
    let bytes = read(path)?;
    executable::check_static(&bytes).with_context(|| format!("{} cannot ship", path.display()))?;
    Ok(bytes)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("could not read {}", path.display()))
}

/// Replaces a file in one step, and leaves it alone when it already has these bytes.
fn replace_if_different(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    let directory = path.parent().context("a file has a directory")?;
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(bytes)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("could not write {}", path.display()))
}

#[expect(clippy::cast_precision_loss, reason = "a size in megabytes, shown with two decimals")]
fn report(path: &Path, bytes: usize) -> Result<()> {
    let shown = path.strip_prefix(layout::root()?).unwrap_or(path);
    say(&format!("{} {:.2} MB", shown.display(), bytes as f64 / 1e6));
    Ok(())
}
