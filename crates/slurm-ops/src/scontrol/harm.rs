//! Asks the running cluster what has to be known about a new slurm.conf. What is a hazard, [`slurm_conf::hazards`]
//! says.

use super::by_hand::show_nodes;
use super::{Candidate, ScontrolError, client, refusal, unreachable};
use crate::command::Command;
use crate::machine::Host;
use crate::packages;
use slurm_conf::hazards::{Running, hazards, questions};
use slurm_conf::{EffectiveConf, SlurmConf};

/// Says whether a running cluster is safe with `new` in place of `old`. Partitions are the caller's matter.
///
/// Only what gets worse counts, and slurmctld is asked only if it matters.
pub fn harm(host: &Host, old: &str, new: &str) -> Candidate {
    let read = |text: &str| SlurmConf::parse(text).ok().map(|conf| EffectiveConf::of(&conf));
    // What cannot be read is the parser's matter.
    let (Some(old), Some(new)) = (read(old), read(new)) else { return Candidate::Readable };
    let asked = questions(&old, &new);
    // Plugins are looked for on this machine alone: it has the clients too, and what the archive gives one machine it
    // gives all.
    let missing = asked.plugins.into_iter().filter(|plugin| !packages::has_plugin(host, &plugin.file()));
    let mut running = Running { missing_plugins: missing.collect(), ..Running::default() };
    let refused = |running: &Running| {
        hazards(running, &old, &new).first().map(|hazard| Candidate::Refused { reason: hazard.to_string() })
    };
    if let Some(refused) = refused(&running) {
        return refused;
    }
    let mut ask = || -> Result<(), ScontrolError> {
        if asked.nodes {
            running.nodes = Some(count(&show_nodes(host), |line| line.starts_with("NodeName="))?);
        }
        if asked.jobs {
            let arguments = ["--noheader", "--all", "--array", "--states=all", "--format=%A"];
            let squeue = client(host, "squeue").args(arguments);
            running.jobs = Some(count(&squeue, |line| !line.trim().is_empty())?);
        }
        Ok(())
    };
    let asked = ask();
    match (refused(&running), asked) {
        (Some(refused), _) => refused,
        (None, Ok(())) => Candidate::Readable,
        // Beside a file that its parser cannot read no client of Slurm works, and slurmctld will not take it.
        (None, Err(ScontrolError::Refused { reason, .. }))
            if reason.contains("Unable to process configuration file") =>
        {
            Candidate::Readable
        }
        (None, Err(error)) => Candidate::Unknown { why: error.to_string() },
    }
}

/// Counts the lines of an answer that are wanted.
fn count(command: &Command, wanted: impl Fn(&str) -> bool) -> Result<u64, ScontrolError> {
    let output = command.output().map_err(|error| unreachable(&error))?;
    if output.success() {
        Ok(output.stdout.lines().filter(|line| wanted(line)).count() as u64)
    } else {
        Err(refusal(command, &output))
    }
}
