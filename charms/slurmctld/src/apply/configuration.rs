//! slurm.conf on its way into slurmctld and, if need be, back out.
//!
//! Three files beside it keep a dying hook from losing track: the accepted configuration, the refused one with the reason, and
//! a candidate while Slurm's parser looks at it. Each is replaced whole.

use crate::error::Error;
use crate::names;
use crate::observe::Refused;
use slurm_conf::PartitionName;
use slurm_ops::Machine;
use slurm_ops::files::{self, Access};
use slurm_ops::scontrol::{self, Candidate, Reconfigure};

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
    match scontrol::reconfigure(machine, names::STATE_DIRECTORY) {
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

/// Makes slurmctld write all its partitions. A failure leaves the older ones saved, and the next look sees that.
pub(super) fn save_partitions(machine: &Machine, partition: &PartitionName) {
    if let Err(error) = scontrol::save_partitions(machine, partition, names::PARTITION_STATE) {
        tracing::warn!("partitions are not saved yet: {error}");
    }
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
