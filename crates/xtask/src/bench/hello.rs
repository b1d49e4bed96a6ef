//! The smallest charm that one writes with ops, to measure beside ours: packed with ops as it comes from the package
//! index, for the Python of the machines.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::lab::write_charm;
use crate::{layout, program, setup};

const FILES: &[(&str, &str)] = &[
    ("metadata.yaml", "name: hello\nsummary: says hello\ndescription: says hello\n"),
    ("manifest.yaml", "bases: [{name: ubuntu, channel: '24.04', architectures: [amd64]}]\n"),
    (
        "dispatch",
        "#!/bin/sh\nJUJU_DISPATCH_PATH=\"${JUJU_DISPATCH_PATH:-$0}\" PYTHONPATH=lib:venv exec python3 src/charm.py\n",
    ),
    (
        "src/charm.py",
        "import ops\n\n\nclass Hello(ops.CharmBase):\n    def __init__(self, framework):\n        \
         super().__init__(framework)\n        \
         framework.observe(self.on.start, self._on_start)\n        framework.observe(self.on.update_status, \
         self._on_update_status)\n\n    \
         def _on_start(self, _):\n        self.unit.status = ops.ActiveStatus('hello')\n\n    def \
         _on_update_status(self, _):\n        pass\n\n\n\
         ops.main(Hello)\n",
    ),
];
/// The packages that the tests' charm takes along, ops among them.
const REQUIREMENTS: &str = "tests/juju_local/ops_charm/requirements.txt";

/// Packs the charm.
pub(super) fn pack(file: &Path, scratch: &Path) -> Result<()> {
    let packages = scratch.join("venv");
    let mut install = program::program(setup::python()?)?;
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary=:all:",
        "--implementation=cp",
    ]);
    install.arg(format!("--python-version={}", python_of_machines()?)).arg("--target").arg(&packages);
    install.arg("--requirement").arg(layout::root()?.join(REQUIREMENTS));
    program::capture(&mut install, Duration::from_secs(300)).context("could not get ops")?;
    let mut names = Vec::new();
    list(&packages, &mut names)?;
    let mut files: Vec<(String, Vec<u8>)> =
        FILES.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    for path in names {
        let name = path.strip_prefix(scratch).unwrap_or(&path).to_string_lossy().into_owned();
        files.push((name, fs::read(&path).with_context(|| format!("could not read {}", path.display()))?));
    }
    write_charm(file, files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())))
}

/// Returns the version of ops that is packed.
pub(super) fn version() -> Result<String> {
    let file = layout::root()?.join(REQUIREMENTS);
    let text = fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
    Ok(text.lines().find_map(|line| line.strip_prefix("ops==")).unwrap_or("?").to_owned())
}

/// Returns the version of the Python in the image, such as 3.13.
fn python_of_machines() -> Result<String> {
    let mut command = program::program(layout::dist_bin()?.join("juju-local"))?;
    let said = program::capture(command.args(["image", "build"]), Duration::from_secs(1200))?;
    let image = PathBuf::from(said.split_whitespace().last().context("`juju-local image build` names no image")?);
    let link = fs::read_link(image.join("usr/bin/python3")).context("the image has no Python")?;
    Ok(layout::file_name(&link).trim_start_matches("python").to_owned())
}

fn list(directory: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("could not list {}", directory.display()))? {
        let path = entry?.path();
        if path.is_dir() { list(&path, found)? } else { found.push(path) }
    }
    Ok(())
}
