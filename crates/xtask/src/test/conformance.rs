//! The conformance tier: finds the suite that replays recordings of a real Juju, and runs the listed scenarios of it on
//! juju-local.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::counts::Counts;
use super::tiers::{Machines, Outcome, outcome_of_pytest, pytest, with_our_juju};
use crate::console::say;
use crate::program::Background;
use crate::{layout, program};

/// Names another directory with the suite.
const DIRECTORY_VARIABLE: &str = "JUJU_CONFORMANCE";

/// The suite on its way beside other tiers. It waits for machines nearly all of its time, and so do they.
pub(super) struct Begun(Background);

impl Begun {
    /// Repeats what it printed meanwhile, and waits for the rest.
    pub(super) fn finish(self) -> Result<Outcome> {
        Ok(outcome_of_pytest(&self.0.finish()?))
    }
}

pub(super) fn run(rest: &[String], machines: &mut Machines) -> Result<Outcome> {
    let Some(suite) = suite()? else {
        say(&format!(
            "skipped: no conformance suite at ${DIRECTORY_VARIABLE} or in shared/conformance beside the checkout"
        ));
        let skipped = Counts { skipped: scenarios()?.len(), ..Counts::default() };
        return Ok(Outcome { counts: skipped, succeeded: true });
    };
    pytest(&mut command(&suite, rest, machines)?)
}

/// Starts the suite in the background, if there is one.
pub(super) fn begin(machines: &mut Machines) -> Result<Option<Begun>> {
    let Some(suite) = suite()? else { return Ok(None) };
    let mut command = command(&suite, &[], machines)?;
    let begun = Background::start(with_our_juju(&mut command)?)?;
    say("conformance runs beside the next tiers; what it prints comes at its turn");
    Ok(Some(Begun(begun)))
}

fn command(suite: &Path, rest: &[String], machines: &mut Machines) -> Result<Command> {
    let mut command = program::program(machines.ready()?)?;
    command.current_dir(suite).args(["-m", "pytest", "-c", "pytest.ini", "--rootdir", ".", "-v"]).args(rest);
    command.args(scenarios()?.iter().map(|name| format!("test_conformance.py::test_scenario[{name}]")));
    command.env("JUJU", layout::dist_bin()?.join("juju"));
    Ok(command)
}

fn scenarios() -> Result<Vec<String>> {
    let list = layout::root()?.join("tests/conformance-scenarios.txt");
    let text = std::fs::read_to_string(&list).with_context(|| format!("could not read {}", list.display()))?;
    Ok(names(&text))
}

/// Returns the names in a list with one scenario per line, `#` before a remark.
fn names(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Finds the suite. A directory that was named must exist; one that happens to lie beside the checkout may.
fn suite() -> Result<Option<PathBuf>> {
    if let Some(named) = std::env::var_os(DIRECTORY_VARIABLE).filter(|value| !value.is_empty()) {
        let named = PathBuf::from(named);
        if !is_suite(&named) {
            bail!("{DIRECTORY_VARIABLE} names {}, where there is no test_conformance.py", named.display());
        }
        return Ok(Some(named));
    }
    let beside = layout::root()?.parent().map(|above| above.join("shared/conformance"));
    Ok(beside.filter(|path| is_suite(path)))
}

fn is_suite(path: &Path) -> bool {
    path.join("test_conformance.py").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_scenarios_has_remarks_and_blank_lines() {
        assert_eq!(
            names("# first\ndeploy_one_unit\n\n integrate_quiet  # both sides\n"),
            ["deploy_one_unit", "integrate_quiet"]
        );
    }
}
