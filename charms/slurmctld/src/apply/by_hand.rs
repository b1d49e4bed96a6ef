//! What administrators set with `scontrol update`, kept over a reconfigure: noted before, put back after.
//!
//! The note is a file, so that a hook that dies in between is made up for by the next one, which reconfigures again.

use crate::error::Error;
use crate::names;
use crate::observe::Memory;
use slurm_ops::Machine;
use slurm_ops::files::{self, Access};
use slurm_ops::scontrol::{self, ScontrolError, Settings};

/// What is known about what was set by hand.
pub(super) enum Noted {
    Settings(Settings),
    /// Beside a file that its parser cannot read no command of Slurm works. The reconfigure will say so, and change nothing.
    Nothing,
    /// Nobody could be asked, so a reconfigure might take something away that nobody could put back.
    Unknown(String),
}

/// Notes what slurmctld has in memory. The note of a hook that died counts more: what it saw may be gone by now.
pub(super) fn note(machine: &Machine, memory: &mut Memory) -> Result<Noted, Error> {
    let earlier = files::read_text(machine, names::BY_HAND)?;
    if let Some(settings) = earlier.and_then(|text| serde_json::from_str(&text).ok()) {
        return Ok(Noted::Settings(settings));
    }
    let settings = match settings(machine, memory) {
        Ok(settings) => settings,
        Err(ScontrolError::Refused { reason, .. }) if reason.contains("Unable to process configuration file") => {
            return Ok(Noted::Nothing);
        }
        Err(ScontrolError::Refused { reason: why, .. } | ScontrolError::Unreachable { why }) => {
            return Ok(Noted::Unknown(why));
        }
    };
    let text = serde_json::to_vec(&settings).expect("invariant: texts and numbers have a JSON form");
    files::replace(machine, names::BY_HAND, &text, &Access::slurm(0o644))?;
    Ok(Noted::Settings(settings))
}

/// Returns what slurmctld told this dispatch a moment ago, and asks it for the rest.
fn settings(machine: &Machine, memory: &mut Memory) -> Result<Settings, ScontrolError> {
    let partitions = memory.partitions.take().map_or_else(|| scontrol::partition_settings(machine), Ok)?;
    let weights = memory.weights.take().map_or_else(|| scontrol::node_weights(machine), Ok)?;
    Ok(Settings { weights, partitions })
}

/// Forgets the note: all of it is back in place, or nothing was taken away.
pub(super) fn forget(machine: &Machine) -> Result<(), Error> {
    files::remove(machine, names::BY_HAND)?;
    Ok(())
}
