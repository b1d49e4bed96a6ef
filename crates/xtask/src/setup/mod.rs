//! `cargo xtask setup`: makes this machine fit for the other commands. Installs what is missing, never more, and says
//! what and why before it does.

mod host;
mod python;

use anyhow::Result;

/// Sets up all of it: host packages and the Python environment of the tests.
pub(crate) fn run() -> Result<()> {
    machines()?;
    python()?;
    crate::console::say("this machine has what is needed");
    Ok(())
}

/// Makes sure that machines can be built and booted here.
pub(crate) fn machines() -> Result<()> {
    host::ensure(host::FOR_MACHINES)
}

/// Makes sure that fuzz targets can be built here.
pub(crate) fn fuzzing() -> Result<()> {
    host::ensure(host::FOR_FUZZING)
}

/// Makes sure that the tests' Python environment exists and returns its interpreter.
pub(crate) fn python() -> Result<std::path::PathBuf> {
    host::ensure(host::FOR_PYTHON)?;
    python::ensure()
}
