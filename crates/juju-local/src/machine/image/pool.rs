//! The pool: packages lying in the image, with an index, so that `apt-get install` works in machines without a network.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::super::program::run;
use super::build::in_image;
use super::recipe::POOL;

/// Downloads packages with everything they need and recommend, and `bare` ones with what they need only; writes the
/// index.
pub(super) fn download(rootfs: &Path, packages: &[&str], bare: &[&str]) -> Result<()> {
    for (packages, recommends) in [(packages, "--install-recommends"), (bare, "--no-install-recommends")] {
        let mut command = in_image(rootfs, "apt-get");
        run(command.args(["--yes", "--quiet", "--download-only", recommends, "install"]).args(packages))?;
    }
    let archives = rootfs.join("var/cache/apt/archives");
    let mut names = Vec::new();
    for entry in fs::read_dir(&archives).context("could not list the downloaded packages")? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        if let Some((name, _)) = file.strip_suffix(".deb").and_then(|file| file.split_once('_')) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    let shown = run(in_image(rootfs, "apt-cache").args(["show", "--no-all-versions"]).args(&names))?;
    let pool = rootfs.join(POOL);
    fs::create_dir_all(&pool).with_context(|| format!("could not make {}", pool.display()))?;
    let mut index = String::new();
    for stanza in shown.split("\n\n").filter(|stanza| !stanza.trim().is_empty()) {
        let entry = Entry::parse(stanza)?;
        let from = archives.join(&entry.downloaded);
        fs::rename(&from, pool.join(&entry.file))
            .with_context(|| format!("could not move {} into the pool", from.display()))?;
        index.push_str(&entry.text);
        index.push('\n');
    }
    fs::write(pool.join("Packages"), index).context("could not write the pool's index")
}

/// Makes the pool the only source of packages, and knows its content.
pub(super) fn use_only_pool(rootfs: &Path) -> Result<()> {
    let lists = rootfs.join("var/lib/apt/lists");
    for entry in fs::read_dir(&lists).context("could not list the package lists")? {
        let path = entry?.path();
        if path.is_file() {
            fs::remove_file(&path).with_context(|| format!("could not remove {}", path.display()))?;
        }
    }
    match fs::remove_file(rootfs.join("etc/apt/sources.list")) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).context("could not remove the sources of the network");
        }
        _ => {}
    }
    for entry in fs::read_dir(rootfs.join("etc/apt/sources.list.d"))? {
        let path = entry?.path();
        if !path.ends_with("juju-local.sources") {
            fs::remove_file(&path).with_context(|| format!("could not remove {}", path.display()))?;
        }
    }
    run(in_image(rootfs, "apt-get").args(["--quiet", "update"]))?;
    run(in_image(rootfs, "apt-get").arg("clean"))?;
    Ok(())
}

/// One package of the pool.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Its file in apt's cache.
    downloaded: String,
    /// Its file in the pool.
    file: String,
    /// Its stanza in the index.
    text: String,
}

impl Entry {
    /// Takes a stanza of the network's index, which has the checksums, and points it to the pool.
    fn parse(stanza: &str) -> Result<Entry> {
        let field = |key: &str| stanza.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        let (Some(name), Some(version), Some(architecture), Some(path)) =
            (field("Package"), field("Version"), field("Architecture"), field("Filename"))
        else {
            bail!("a package without name, version, architecture or file: {stanza}");
        };
        let file = path.rsplit('/').next().unwrap_or(path).to_owned();
        let mut text = String::new();
        for line in stanza.lines().filter(|line| !line.is_empty()) {
            match line.strip_prefix("Filename: ") {
                Some(_) => text.push_str(&format!("Filename: ./{file}\n")),
                None => text.push_str(&format!("{line}\n")),
            }
        }
        let version = version.replace(':', "%3a");
        Ok(Entry { downloaded: format!("{name}_{version}_{architecture}.deb"), file, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_in_the_name_of_the_download_but_not_of_the_pool() {
        let stanza = "Package: openssh-server\nVersion: 1:10.0p1-7\nArchitecture: amd64\n\
                      Filename: pool/main/o/openssh/openssh-server_10.0p1-7_amd64.deb\nSize: 7\n";
        assert_eq!(
            Entry::parse(stanza).unwrap(),
            Entry {
                downloaded: "openssh-server_1%3a10.0p1-7_amd64.deb".into(),
                file: "openssh-server_10.0p1-7_amd64.deb".into(),
                text: "Package: openssh-server\nVersion: 1:10.0p1-7\nArchitecture: amd64\n\
                       Filename: ./openssh-server_10.0p1-7_amd64.deb\nSize: 7\n"
                    .into(),
            }
        );
    }

    #[test]
    fn a_stanza_without_a_file_is_refused() {
        assert!(Entry::parse("Package: x\nVersion: 1\nArchitecture: all\n").is_err());
    }
}
