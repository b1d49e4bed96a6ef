//! The Python environment of the tests: built once from `tests/requirements.txt`, and again when that file or the
//! interpreter changes. No test lives here.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::console::say;
use crate::{layout, program};

/// Names what an environment was built from; written last, so that a half-built one never counts.
const STAMP: &str = "built-from";

/// Builds the environment unless it is up to date, and returns its interpreter.
pub(crate) fn ensure() -> Result<PathBuf> {
    let environment = layout::virtual_environment()?;
    let interpreter = environment.join("bin/python");
    let requirements = layout::root()?.join("tests/requirements.txt");
    let wanted = stamp(&requirements)?;
    if is_current(&environment, &wanted) {
        return Ok(interpreter);
    }
    say(&format!("making the tests' Python environment in {}", environment.display()));
    let mut make = program::program("python3")?;
    make.args(["-m", "venv", "--clear"]).arg(&environment);
    program::capture(&mut make, Duration::from_secs(300))?;
    let mut install = program::program(&interpreter)?;
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(&requirements);
    program::capture(&mut install, Duration::from_secs(600)).context("could not install the tests' Python packages")?;
    fs::write(environment.join(STAMP), wanted).context("could not finish the tests' Python environment")?;
    Ok(interpreter)
}

fn is_current(environment: &Path, wanted: &str) -> bool {
    fs::read_to_string(environment.join(STAMP)).is_ok_and(|found| found == wanted)
        && environment.join("bin/python").exists()
}

/// Returns what an up-to-date environment is built from: the interpreter's version and the list of packages.
fn stamp(requirements: &Path) -> Result<String> {
    let version = program::capture(program::program("python3")?.arg("--version"), Duration::from_secs(30))?;
    let list =
        fs::read_to_string(requirements).with_context(|| format!("could not read {}", requirements.display()))?;
    Ok(format!("{}\n{list}", version.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_list_makes_the_environment_stale() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("bin")).unwrap();
        fs::write(directory.path().join("bin/python"), "").unwrap();
        assert!(!is_current(directory.path(), "one"));
        fs::write(directory.path().join(STAMP), "one").unwrap();
        assert!(is_current(directory.path(), "one"));
        assert!(!is_current(directory.path(), "two"));
    }
}
