//! apt itself: which package it would install in which version, fetching lists, installing.

use crate::command::{Command, CommandError};
use crate::machine::{Host, HostWriter};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long an installation may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20 * 60);

/// Asks which version of each package an installation would give. One that apt does not know is not in the answer.
pub(super) fn candidates(host: &Host, packages: &[&str]) -> Result<BTreeMap<String, String>, CommandError> {
    if packages.is_empty() {
        return Ok(BTreeMap::new());
    }
    let output = host.command("apt-cache").arg("policy").args(packages.iter().copied()).run()?;
    Ok(parse_policy(&output.stdout))
}

fn parse_policy(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut package = None;
    for line in text.lines() {
        if !line.starts_with(' ') {
            package = line.strip_suffix(':');
        } else if let (Some(name), Some(version)) = (package, line.trim_start().strip_prefix("Candidate: "))
            && version != "(none)"
        {
            found.insert(name.to_owned(), version.to_owned());
        }
    }
    found
}

/// Fetches the lists of what there is. To apt a source that cannot be fetched is only worth a warning; here it is a
/// failure, because packages would then come from elsewhere, or seem not to exist.
pub(super) fn update(writer: &HostWriter) -> Result<(), CommandError> {
    get(writer).arg("--option=APT::Update::Error-Mode=any").arg("update").run().map(drop)
}

/// Installs with the package lists at hand; fetches new lists only if that does not work.
pub(super) fn install(writer: &HostWriter, packages: &[&str]) -> Result<(), CommandError> {
    let install = || {
        // A held package of ours may be among what is asked for again after an interruption.
        get(writer)
            .args(["install", "--no-install-recommends", "--allow-change-held-packages"])
            .args(packages.iter().copied())
            .run()
    };
    let Err(first) = install() else { return Ok(()) };
    if super::obstacle::is_locked(&first) {
        return Err(first);
    }
    tracing::debug!("{first}; trying again after a repair and an update");
    if matches!(&first, CommandError::Failed { stderr, .. } if stderr.contains("dpkg --configure -a")) {
        let configure = writer.command("dpkg").args(["--force-confdef", "--force-confold", "--configure", "-a"]);
        quiet(configure).deadline(DEADLINE).run()?;
    }
    // A source that is none of ours may be broken; whether it matters is seen at once.
    if let Err(error) = get(writer).arg("update").run() {
        tracing::debug!("{error}");
    }
    install().map(drop)
}

/// Returns an apt-get that asks nobody anything.
pub(crate) fn get(writer: &HostWriter) -> Command {
    let command = writer.command("apt-get").args([
        "--quiet",
        "--assume-yes",
        // Another package run on the machine is waited for a moment. One that takes longer is for a later look:
        // whoever waits here keeps every other hook of the machine waiting, too.
        "--option=DPkg::Lock::Timeout=3",
        "--option=Dpkg::Options::=--force-confdef",
        "--option=Dpkg::Options::=--force-confold",
    ]);
    quiet(command).deadline(DEADLINE)
}

/// Keeps maintainer scripts from asking, and needrestart from restarting daemons that have jobs.
fn quiet(command: Command) -> Command {
    command.env("DEBIAN_FRONTEND", "noninteractive").env("NEEDRESTART_SUSPEND", "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_apt_would_install_is_read() {
        let text = "slurmd:\n  Installed: (none)\n  Candidate: 23.11.4-1.2ubuntu5\n  Version table:\n     \
                    23.11.4-1.2ubuntu5 500\n        500 file:/pool ./ Packages\nslurm-wlm-jwt-plugin:\n  \
                    Installed: (none)\n  Candidate: (none)\n  Version table:\n";
        let found = parse_policy(text);
        assert_eq!(found.get("slurmd").map(String::as_str), Some("23.11.4-1.2ubuntu5"));
        assert_eq!(found.len(), 1);
    }
}
