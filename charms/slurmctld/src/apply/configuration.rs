//! The files of slurmctld on their way into it and, if need be, back out.
//!
//! Files beside them keep a dying hook from losing track: the accepted ones, a record of what was refused and why, and a candidate
//! while Slurm's parser looks at it. Each is replaced whole.

use super::by_hand::{self, Noted};
use crate::configuration::{Change, Files, Refusals, Refused, Suspect};
use crate::error::Error;
use crate::names;
use crate::observe::Memory;
use slurm_conf::{Overlaid, PartitionName};
use slurm_ops::files::{self, Access};
use slurm_ops::scontrol::{self, Candidate, Reconfigure};
use slurm_ops::{Machine, clock, systemd};

/// Puts a configuration in place if Slurm's parser can read it; else notes why not.
pub(super) fn offer(
    machine: &Machine,
    memory: &mut Memory,
    files: &Files,
    version: &str,
    suspects: &[Suspect],
) -> Result<(), Error> {
    let text = files.slurm.as_deref().unwrap_or_default();
    if memory.answers() && !by_hand::is_safe(machine, memory, Some(text))? {
        return Ok(());
    }
    let verdict = match memory.answers() {
        true => {
            let (verdict, nodes) = scontrol::check_and_ask(&machine.writer(), names::CANDIDATE_CONF, text)?;
            memory.nodes = nodes;
            verdict
        }
        false => scontrol::check(&machine.writer(), names::CANDIDATE_CONF, text)?,
    };
    let verdict = match verdict {
        Candidate::Readable | Candidate::Unknown { .. } => harm(machine, text)?,
        refused @ Candidate::Refused { .. } => refused,
    };
    match verdict {
        Candidate::Refused { reason } => {
            let reason = without_place(&reason);
            tracing::warn!("slurm.conf would be refused: {reason}");
            let refused = Refused { files: files.clone(), version: version.to_owned(), reason };
            note(machine, |refusals| refusals.note(refused, suspects))
        }
        // Who could not be asked leaves it to slurmctld, which keeps what it has if it says no; and before that, harm is looked for again.
        Candidate::Readable | Candidate::Unknown { .. } => write(machine, files, ""),
    }
}

/// Says whether what runs now would suffer from a slurm.conf that slurmctld would take. The first file is compared with itself without
/// the operator's parameters: what the charm chose has to do.
fn harm(machine: &Machine, new: &str) -> Result<Candidate, Error> {
    let accepted = files::read_text(&machine.host(), format!("{}{}", names::SLURM_CONF, names::ACCEPTED))?;
    let old = accepted.or_else(|| Overlaid::parse(new).ok().map(|read| read.below.render()));
    Ok(scontrol::harm(&machine.host(), old.as_deref().unwrap_or_default(), new))
}

/// Where the candidate was is of no interest; the words around it name key and value.
fn without_place(reason: &str) -> String {
    let told: Vec<&str> = reason.split(" / ").filter(|part| !part.contains(names::CANDIDATE_CONF)).collect();
    if told.is_empty() { reason.replace(names::CANDIDATE_CONF, names::SLURM_CONF) } else { told.join(" / ") }
}

/// Puts a configuration back in place of a refused one.
pub(super) fn restore(machine: &Machine, refused: &Refused, suspects: &[Suspect], back: &Files) -> Result<(), Error> {
    tracing::warn!("slurm.conf refused: {}", refused.reason);
    // Noted first: a hook that dies here finds the note and goes on.
    note(machine, |refusals| {
        if suspects.iter().any(|suspect| suspect.change == Change::File) {
            refusals.taken_back = Some((clock::now(), refused.reason.clone()));
        }
        refusals.note(refused.clone(), suspects);
    })?;
    write(machine, back, "")
}

/// Notes that one change was refused for itself.
pub(super) fn blame(machine: &Machine, suspect: &Suspect, reason: &str) -> Result<(), Error> {
    note(machine, |refusals| refusals.blame(suspect.clone(), reason.to_owned()))
}

/// Makes slurmctld load the configuration in place, and keeps or takes back the files by what it says.
pub(super) fn reconfigure(
    machine: &Machine,
    memory: &mut Memory,
    version: &str,
    suspects: &[Suspect],
    back: &Files,
) -> Result<(), Error> {
    let mut live = Files::default();
    let texts = [&mut live.slurm, &mut live.cgroup, &mut live.gres];
    for (path, text) in Files::PATHS.into_iter().zip(texts) {
        *text = files::read_text(&machine.host(), path)?;
    }
    if !by_hand::is_safe(machine, memory, live.slurm.as_deref())? {
        return Ok(());
    }
    // A note of a reconfigure that was not made would outweigh what is set later.
    if let Err(why) = scontrol::can_reconfigure(&machine.host(), names::STATE_DIRECTORY) {
        memory.tried.reconfigure = Some(why);
        return Ok(());
    }
    match harm(machine, live.slurm.as_deref().unwrap_or_default())? {
        Candidate::Readable => {}
        Candidate::Refused { reason } => {
            return restore(machine, &Refused { files: live, version: version.to_owned(), reason }, suspects, back);
        }
        Candidate::Unknown { why } => {
            memory.forget_daemon();
            memory.tried.reconfigure = Some(why);
            return Ok(());
        }
    }
    let set_by_hand = match by_hand::note(machine, memory)? {
        Noted::Settings(settings) => Some(settings),
        Noted::Nothing => None,
        Noted::Unknown(why) => {
            memory.forget_daemon();
            memory.tried.reconfigure = Some(why);
            return Ok(());
        }
    };
    match scontrol::reconfigure(&machine.writer(), names::STATE_DIRECTORY) {
        Reconfigure::Accepted => {
            let (old, new) = (back.slurm.as_deref().unwrap_or_default(), live.slurm.as_deref().unwrap_or_default());
            let kept = set_by_hand.map(|before| by_hand::restore(machine, &before, old, new)).transpose();
            match kept {
                // It answers as before, and may have told what is asked next.
                Ok(Some(partitions)) => memory.partitions = partitions,
                Ok(None) => memory.forget_daemon(),
                Err(error) => {
                    // Not accepted yet, so the next look reconfigures again and finds the note.
                    memory.forget_daemon();
                    memory.tried.reconfigure = Some(error.to_string());
                    return Ok(());
                }
            }
            by_hand::forget(machine)?;
            write(machine, &live, names::ACCEPTED)?;
            // Whoever had a file put back has found a better one.
            match files::exists(&machine.host(), names::REFUSALS) {
                true => note(machine, |refusals| refusals.taken_back = None),
                false => Ok(()),
            }
        }
        Reconfigure::Refused { reason } => {
            memory.forget_daemon();
            by_hand::forget(machine)?;
            restore(machine, &Refused { files: live, version: version.to_owned(), reason }, suspects, back)?;
            if scontrol::is_shut_out(&machine.host()) {
                tracing::warn!("slurmctld serves no client since it refused the files: it is restarted");
                systemd::reset_failed(&machine.writer(), names::SERVICE)?;
                systemd::restart(&machine.writer(), names::SERVICE)?;
            }
            Ok(())
        }
        Reconfigure::Unknown { why } => {
            memory.forget_daemon();
            memory.tried.reconfigure = Some(why);
            Ok(())
        }
    }
}

/// Makes slurmctld write all its partitions. A failure leaves the older ones saved, and the next look sees that.
pub(super) fn save_partitions(machine: &Machine, memory: &mut Memory, partition: &PartitionName) {
    let known = memory.partitions.take().map_or_else(|| scontrol::partition_settings(&machine.host()), Ok);
    let saved =
        known.and_then(|known| scontrol::save_partitions(&machine.writer(), partition, &known, names::PARTITION_STATE));
    if let Err(error) = saved {
        tracing::warn!("partitions are not saved yet: {error}");
    }
}

/// Lets everybody read the files.
pub(super) fn open(machine: &Machine) -> Result<(), Error> {
    for path in [names::CONFIGURATION_DIRECTORY].into_iter().chain(Files::PATHS) {
        files::ensure_open(&machine.writer(), path)?;
    }
    Ok(())
}

/// Writes the files under their names with a suffix, slurm.conf last.
fn write(machine: &Machine, files: &Files, suffix: &str) -> Result<(), Error> {
    for (path, text) in files.entries() {
        if let Some(text) = text {
            files::replace(&machine.writer(), format!("{path}{suffix}"), text.as_bytes(), &Access::slurm(0o644))?;
        }
    }
    Ok(())
}

fn note(machine: &Machine, change: impl FnOnce(&mut Refusals)) -> Result<(), Error> {
    let text = files::read_text(&machine.host(), names::REFUSALS)?.unwrap_or_default();
    let mut refusals: Refusals = serde_json::from_str(&text).unwrap_or_default();
    change(&mut refusals);
    keep_refusals(machine, &refusals)
}

/// Makes the record of what was refused say just this.
pub(super) fn keep_refusals(machine: &Machine, refusals: &Refusals) -> Result<(), Error> {
    if *refusals == Refusals::default() {
        files::remove(&machine.writer(), names::REFUSALS)?;
        return Ok(());
    }
    let text = serde_json::to_vec(refusals).expect("invariant: a record of texts has a JSON form");
    files::replace(&machine.writer(), names::REFUSALS, &text, &Access::slurm(0o644))?;
    Ok(())
}

#[cfg(test)]
#[path = "configuration_tests.rs"]
mod tests;
