//! slurm.conf on its way into slurmctld and, if need be, back out.
//!
//! Three files beside it keep a dying hook from losing track: the accepted configuration, the refused one with the reason, and
//! a candidate while Slurm's parser looks at it. Each is replaced whole.

use crate::error::Error;
use crate::names;
use crate::observe::Refused;
use slurm_conf::PartitionName;
use slurm_ops::files::{self, Access};
use slurm_ops::scontrol::{self, Candidate, Reconfigure};
use slurm_ops::{CommandError, Machine};
use std::time::{Duration, Instant};

/// Puts a configuration in place if Slurm's parser can read it; else notes why not.
pub(super) fn offer(machine: &Machine, text: &str) -> Result<(), Error> {
    files::replace(machine, names::CANDIDATE_CONF, text.as_bytes(), &Access::slurm(0o644))?;
    let verdict = scontrol::check(machine, &machine.path(names::CANDIDATE_CONF));
    files::remove(machine, names::CANDIDATE_CONF)?;
    match verdict {
        Candidate::Refused { reason } => note_refusal(machine, &Refused { candidate: text.to_owned(), reason }),
        // A parser that could not be asked leaves it to slurmctld, which keeps what it has if it says no.
        Candidate::Readable | Candidate::Unknown { .. } => write(machine, text),
    }
}

/// Puts the accepted configuration back in place of a refused one.
pub(super) fn restore(machine: &Machine, refused: &Refused) -> Result<(), Error> {
    tracing::warn!("slurm.conf refused: {}", refused.reason);
    // Noted first: a hook that dies here finds the note and goes on.
    note_refusal(machine, refused)?;
    if let Some(accepted) = files::read_text(machine, names::ACCEPTED_CONF)? {
        write(machine, &accepted)?;
    }
    Ok(())
}

/// Makes slurmctld load the configuration in place, and keeps or takes back the file by what it says. Returns why it is not
/// known what it says.
pub(super) fn reconfigure(machine: &Machine) -> Result<Option<String>, Error> {
    let Some(live) = files::read_text(machine, names::SLURM_CONF)? else {
        return Ok(Some("there is no slurm.conf".to_owned()));
    };
    match scontrol::reconfigure(machine) {
        Reconfigure::Accepted => {
            files::replace(machine, names::ACCEPTED_CONF, live.as_bytes(), &Access::slurm(0o644))?;
            files::remove(machine, names::REFUSED_CONF)?;
            Ok(None)
        }
        Reconfigure::Refused { reason } => {
            restore(machine, &Refused { candidate: live, reason })?;
            Ok(None)
        }
        Reconfigure::Unknown { why } => Ok(Some(why)),
    }
}

/// How long slurmctld may take to write its partitions.
const SAVE_PATIENCE: Duration = Duration::from_secs(2);
const SAVE_PAUSE: Duration = Duration::from_millis(50);

/// Makes slurmctld write all its partitions by setting one of them to what it is. A failure leaves the older ones saved, and the
/// next look sees that.
pub(super) fn save_partitions(machine: &Machine, partition: &PartitionName) {
    let before = saved_at(machine);
    if let Err(error) = touch(machine, partition) {
        tracing::warn!("partitions are not saved yet: {error}");
        return;
    }
    let end = Instant::now() + SAVE_PATIENCE;
    while saved_at(machine) == before && Instant::now() < end {
        std::thread::sleep(SAVE_PAUSE);
    }
}

fn touch(machine: &Machine, partition: &PartitionName) -> Result<(), CommandError> {
    let show = machine.command("scontrol").args(["show", "--oneliner", "partition", partition.as_str()]);
    let answer = show.run()?;
    let Some(limit) = answer.stdout.split_whitespace().find_map(|pair| pair.strip_prefix("MaxTime=")) else {
        return Err(CommandError::Unreadable { command: show.to_string(), problem: "no MaxTime in it".to_owned() });
    };
    let update = [format!("partitionname={partition}"), format!("maxtime={limit}")];
    machine.command("scontrol").arg("update").args(update).run().map(drop)
}

fn saved_at(machine: &Machine) -> Option<std::time::SystemTime> {
    machine.path(names::PARTITION_STATE).metadata().ok()?.modified().ok()
}

fn write(machine: &Machine, text: &str) -> Result<(), Error> {
    files::replace(machine, names::SLURM_CONF, text.as_bytes(), &Access::slurm(0o644))?;
    Ok(())
}

fn note_refusal(machine: &Machine, refused: &Refused) -> Result<(), Error> {
    let text = serde_json::to_vec(refused).expect("invariant: two strings have a JSON form");
    files::replace(machine, names::REFUSED_CONF, &text, &Access::slurm(0o644))?;
    Ok(())
}

#[cfg(test)]
#[path = "configuration_tests.rs"]
mod tests;
