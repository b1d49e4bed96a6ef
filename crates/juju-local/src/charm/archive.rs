//! The `.charm` file: read, checked, unpacked. A path in it never leaves the directory it is unpacked into.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Cursor, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;
use zip::ZipArchive;

use super::{Assumption, Charm, assumes, config, metadata, schema};

/// A charm file in memory.
pub struct Archive {
    pub bytes: Vec<u8>,
    pub charm: Charm,
}

/// Why a file is no charm. `NotAnArchive` is said apart because Juju then takes the file for a bundle.
pub enum Refusal {
    NotAnArchive,
    /// Text that Juju puts behind `attempting to deploy "<path>": `.
    Invalid(String),
    /// Text that stands alone.
    Unfit(String),
}

impl Archive {
    pub fn read(bytes: Vec<u8>) -> Result<Archive, Refusal> {
        let mut zip = ZipArchive::new(Cursor::new(&bytes)).map_err(|_| Refusal::NotAnArchive)?;
        let charm = read_charm(&mut zip)?;
        Ok(Archive { charm, bytes })
    }
}

fn read_charm(zip: &mut ZipArchive<Cursor<&Vec<u8>>>) -> Result<Charm, Refusal> {
    let metadata = text_of(zip, "metadata.yaml")?
        .ok_or_else(|| Refusal::Invalid("archive file \"metadata.yaml\" not found".to_owned()))?;
    let (assumes, resources) = requirements(&metadata).map_err(Refusal::Invalid)?;
    let metadata = metadata::parse_metadata(&metadata).map_err(Refusal::Invalid)?;
    let options = match text_of(zip, "config.yaml")? {
        Some(text) => config::parse_options(&text).map_err(Refusal::Invalid)?,
        None => Default::default(),
    };
    let actions = match text_of(zip, "actions.yaml")? {
        Some(text) => schema::parse_actions(&text).map_err(Refusal::Invalid)?,
        None => Default::default(),
    };
    let bases = match text_of(zip, "manifest.yaml")? {
        Some(text) => metadata::parse_bases(&text).map_err(Refusal::Invalid)?,
        None => Vec::new(),
    };
    if bases.is_empty() {
        return Err(Refusal::Invalid("charm metadata without bases in manifest not valid".to_owned()));
    }
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).map_err(|error| Refusal::Invalid(error.to_string()))?;
        let name = entry.name().to_owned();
        if safe_path(&name).is_none() {
            return Err(Refusal::Invalid(format!("archive file {name:?} is outside of the charm")));
        }
        if entry.is_symlink() {
            let mut target = String::new();
            entry.read_to_string(&mut target).map_err(|error| Refusal::Invalid(format!("{name}: {error}")))?;
            check_link(&name, &target).map_err(Refusal::Invalid)?;
        }
    }
    let has_hooks = zip.file_names().any(|name| name == "dispatch" || name.starts_with("hooks/"));
    if !has_hooks {
        return Err(Refusal::Unfit(format!("invalid charm \"{}\": has no hooks nor dispatch file", metadata.name)));
    }
    Ok(Charm { metadata, options, actions, bases, assumes, resources })
}

/// What the charm asks for beyond a machine: features of Juju, and resources.
fn requirements(metadata: &str) -> Result<(Vec<Assumption>, Vec<String>), String> {
    let value = metadata::yaml_value(metadata)?;
    let assumes = assumes::parse_assumes(value.get("assumes").unwrap_or(&Value::Null))?;
    let resources = value.get("resources").and_then(Value::as_object).into_iter().flatten();
    Ok((assumes, resources.map(|(name, _)| name.clone()).collect()))
}

fn text_of(zip: &mut ZipArchive<Cursor<&Vec<u8>>>, name: &str) -> Result<Option<String>, Refusal> {
    let Ok(mut entry) = zip.by_name(name) else { return Ok(None) };
    let mut text = String::new();
    entry.read_to_string(&mut text).map_err(|error| Refusal::Invalid(format!("{name}: {error}")))?;
    Ok(Some(text))
}

/// A relative path without `..`; nothing for what would escape.
fn safe_path(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    (inside && !name.contains('\0')).then(|| path.to_owned())
}

/// A link may lead anywhere in the charm, and nowhere else; the error is Juju's sentence.
fn check_link(name: &str, target: &str) -> Result<(), String> {
    if target.starts_with('/') {
        return Err(format!("cannot extract \"{name}\": symlink \"{target}\" is absolute"));
    }
    let mut depth = Path::new(name).components().filter(|part| matches!(part, Component::Normal(_))).count();
    depth = depth.saturating_sub(1);
    for part in Path::new(target).components() {
        depth = match part {
            Component::Normal(_) => depth + 1,
            Component::ParentDir if depth > 0 => depth - 1,
            Component::CurDir => depth,
            _ => return Err(format!("cannot extract \"{name}\": symlink \"{target}\" leads out of scope")),
        };
    }
    Ok(())
}

/// Unpacks a charm into `directory`, in place: files that only the charm before had go, files that the charm made stay.
pub fn unpack(bytes: &[u8], url: &str, directory: &Path, manifest: &Path) -> anyhow::Result<()> {
    let mut zip = ZipArchive::new(Cursor::new(bytes)).context("the charm is no zip archive")?;
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    let mut written = BTreeSet::new();
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index)?;
        let Some(relative) = safe_path(entry.name()) else { bail!("{:?} is outside of the charm", entry.name()) };
        let target = directory.join(&relative);
        if entry.is_dir() {
            fs::create_dir_all(&target)?;
            continue;
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        written.insert(relative.to_string_lossy().into_owned());
        if entry.is_symlink() {
            let link = String::from_utf8(content).context("a link to no text")?;
            check_link(entry.name(), &link).map_err(anyhow::Error::msg)?;
            fs::remove_file(&target).ok();
            std::os::unix::fs::symlink(&link, &target).with_context(|| format!("linking {}", target.display()))?;
            continue;
        }
        let mode = entry.unix_mode().unwrap_or(0o644) & 0o777;
        replace(&target, &content, if entry.name().starts_with("hooks/") { mode | 0o111 } else { mode })?;
    }
    let before = fs::read_to_string(manifest).unwrap_or_default();
    for gone in before.lines().filter(|line| !line.is_empty() && !written.contains(*line)) {
        if let Some(relative) = safe_path(gone) {
            fs::remove_file(directory.join(relative)).ok();
        }
    }
    fs::write(manifest, written.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    replace(&directory.join("revision"), url.rsplit('-').next().unwrap_or("0").as_bytes(), 0o644)?;
    replace(&directory.join(".juju-charm"), format!("{url}\n").as_bytes(), 0o644)?;
    Ok(())
}

/// A running `dispatch` cannot be written to, but it can be replaced.
fn replace(target: &Path, content: &[u8], mode: u32) -> anyhow::Result<()> {
    fs::remove_file(target).ok();
    fs::write(target, content).with_context(|| format!("writing {}", target.display()))?;
    fs::set_permissions(target, fs::Permissions::from_mode(mode))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use zip::write::SimpleFileOptions;

    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in files {
            let mode = if *name == "dispatch" { 0o755 } else { 0o644 };
            writer.start_file(*name, SimpleFileOptions::default().unix_permissions(mode)).unwrap();
            writer.write_all(text.as_bytes()).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    const METADATA: (&str, &str) = ("metadata.yaml", "name: x\nsummary: s\ndescription: d\n");
    const MANIFEST: (&str, &str) =
        ("manifest.yaml", "bases: [{name: ubuntu, channel: '24.04', architectures: [amd64]}]");

    #[track_caller]
    fn refused(files: &[(&str, &str)], expected: &str) {
        match Archive::read(archive(files)) {
            Err(Refusal::Invalid(text) | Refusal::Unfit(text)) => assert!(text.contains(expected), "{text}"),
            Err(Refusal::NotAnArchive) => panic!("not an archive"),
            Ok(_) => panic!("accepted"),
        }
    }

    #[test]
    fn malformed_archives_are_refused_in_jujus_words() {
        refused(&[MANIFEST], "archive file \"metadata.yaml\" not found");
        refused(&[METADATA, ("dispatch", "")], "charm metadata without bases in manifest not valid");
        refused(&[METADATA, MANIFEST], "invalid charm \"x\": has no hooks nor dispatch file");
    }

    #[test]
    fn a_path_that_escapes_is_refused() {
        refused(&[METADATA, MANIFEST, ("dispatch", ""), ("../evil", "x")], "outside of the charm");
        refused(&[METADATA, MANIFEST, ("dispatch", ""), ("/etc/evil", "x")], "outside of the charm");
    }

    #[test]
    fn a_link_stays_in_the_charm() {
        for (name, target, why) in [
            ("link", "/etc/passwd", "symlink \"/etc/passwd\" is absolute"),
            ("link", "../evil", "symlink \"../evil\" leads out of scope"),
            ("dir/link", "../../evil", "symlink \"../../evil\" leads out of scope"),
            ("dir/link", "x/../../../evil", "symlink \"x/../../../evil\" leads out of scope"),
        ] {
            assert_eq!(check_link(name, target).unwrap_err(), format!("cannot extract \"{name}\": {why}"));
        }
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in [METADATA, MANIFEST, ("dispatch", "x")] {
            writer.start_file(name, SimpleFileOptions::default()).unwrap();
            writer.write_all(text.as_bytes()).unwrap();
        }
        writer.add_symlink("hooks/start", "../dispatch", SimpleFileOptions::default()).unwrap();
        let bytes = writer.finish().unwrap().into_inner();
        assert!(Archive::read(bytes.clone()).is_ok());
        let directory = tempfile::tempdir().unwrap();
        let charm = directory.path().join("charm");
        unpack(&bytes, "local:x-0", &charm, &directory.path().join("manifest")).unwrap();
        assert_eq!(fs::read_link(charm.join("hooks/start")).unwrap(), Path::new("../dispatch"));
        assert_eq!(fs::read_to_string(charm.join("hooks/start")).unwrap(), "x");
    }

    #[test]
    fn a_second_charm_replaces_files_and_keeps_what_the_charm_made() {
        let directory = tempfile::tempdir().unwrap();
        let charm = directory.path().join("charm");
        let manifest = directory.path().join("manifest");
        unpack(&archive(&[METADATA, ("dispatch", "one"), ("old", "1")]), "local:x-0", &charm, &manifest).unwrap();
        fs::write(charm.join("made"), "by the charm").unwrap();
        unpack(&archive(&[METADATA, ("dispatch", "two"), ("new", "1")]), "local:x-1", &charm, &manifest).unwrap();
        assert_eq!(fs::read_to_string(charm.join("dispatch")).unwrap(), "two");
        assert!(!charm.join("old").exists() && charm.join("new").exists() && charm.join("made").exists());
        assert_eq!(fs::read_to_string(charm.join("revision")).unwrap(), "1");
        assert_eq!(fs::metadata(charm.join("dispatch")).unwrap().permissions().mode() & 0o777, 0o755);
    }
}
