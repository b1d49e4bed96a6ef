//! What administrators set with `scontrol update`, kept over a reconfigure: noted before, put back after.
//!
//! The note is a file, so that a hook that dies in between is made up for by the next one, which reconfigures again.

use crate::error::Error;
use crate::names;
use crate::observe::Memory;
use slurm_conf::overrides::{PartitionSettings, RuntimeSettings};
use slurm_conf::{EffectiveConf, PartitionName, SlurmConf};
use slurm_ops::Machine;
use slurm_ops::files::{self, Access};
use slurm_ops::scontrol::{self, ScontrolError};
use std::collections::BTreeSet;
use std::path::Path;

/// What is known about what was set by hand.
pub(super) enum Noted {
    Settings(RuntimeSettings),
    /// Beside a file that its parser cannot read no command of Slurm works. The reconfigure will say so, and change
    /// nothing.
    Nothing,
    /// Nobody could be asked, so a reconfigure might take something away that nobody could put back.
    Unknown(String),
}

/// Notes what slurmctld has in memory. The note of a hook that died counts more: what it saw may be gone by now.
pub(super) fn note(machine: &Machine, memory: &mut Memory) -> Result<Noted, Error> {
    let earlier = files::read_text(&machine.host(), names::BY_HAND)?;
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
    files::replace(&machine.writer(), names::BY_HAND, &text, &Access::slurm(0o644))?;
    Ok(Noted::Settings(settings))
}

/// Returns what slurmctld told this dispatch a moment ago, and asks it for the rest.
fn settings(machine: &Machine, memory: &mut Memory) -> Result<RuntimeSettings, ScontrolError> {
    let partitions = memory.partitions.take().map_or_else(|| scontrol::partition_settings(&machine.host()), Ok)?;
    let nodes = memory.nodes.take().map_or_else(|| scontrol::node_settings(&machine.host()), Ok)?;
    Ok(RuntimeSettings { nodes, partitions })
}

/// Looks for partitions that slurmctld has and `new` has not, and says whether there are none: a reconfigure would end
/// them, and every job in them. One that somebody took out of slurm.conf may go when it has no jobs; one that was made
/// with scontrol stays.
pub(super) fn is_safe(machine: &Machine, memory: &mut Memory, new: Option<&str>) -> Result<bool, Error> {
    // Kept for whoever notes what was set by hand. If nobody can be asked, that is found out there.
    memory.partitions = memory.partitions.take().or_else(|| scontrol::partition_settings(&machine.host()).ok());
    if let Some(known) = &memory.partitions {
        memory.tried.at_risk = at_risk(machine, known, new.unwrap_or_default())?;
    }
    Ok(memory.tried.at_risk.is_empty())
}

fn at_risk(machine: &Machine, known: &PartitionSettings, new: &str) -> Result<BTreeSet<String>, Error> {
    // A file that cannot be parsed is refused by slurmctld, which then keeps what it has.
    let Ok(new) = SlurmConf::parse(new) else { return Ok(BTreeSet::new()) };
    if known.missing_in(&EffectiveConf::of(&new)).is_empty() {
        return Ok(BTreeSet::new());
    }
    let missing = known.missing_in(&with_included(machine, &new));
    let accepted =
        files::read_text(&machine.host(), format!("{}{}", names::SLURM_CONF, names::ACCEPTED))?.unwrap_or_default();
    let accepted = SlurmConf::parse(&accepted).unwrap_or_default();
    let by_scontrol = known.missing_in(&with_included(machine, &accepted));
    let stays = |name: &String| match name.parse::<PartitionName>() {
        Ok(own) if !by_scontrol.contains(name) => {
            !scontrol::jobs_in_partition(&machine.host(), &own).is_ok_and(|jobs| jobs.is_empty())
        }
        _ => true,
    };
    Ok(missing.into_iter().filter(stays).collect())
}

/// Returns what a slurm.conf says together with the files that it includes. Slurm refuses a file if it cannot read one
/// of these.
fn with_included(machine: &Machine, conf: &SlurmConf) -> EffectiveConf {
    EffectiveConf::read(conf, |path| {
        let path = Path::new(names::CONFIGURATION_DIRECTORY).join(path);
        files::read_text(&machine.host(), path).ok().flatten()
    })
}

/// Sets again what a reconfigure undid. Returns the partitions as they are now, unless something was set.
///
/// If one of the files cannot be parsed nothing counts as chosen in them, and all that was set stays.
pub(super) fn restore(
    machine: &Machine,
    before: &RuntimeSettings,
    old: &str,
    new: &str,
) -> Result<Option<PartitionSettings>, ScontrolError> {
    let read = |text: &str| SlurmConf::parse(text).ok().map(|conf| with_included(machine, &conf));
    let (old, new) = read(old).zip(read(new)).unwrap_or_default();
    scontrol::restore(&machine.writer(), before, &old, &new)
}

/// Forgets the note: all of it is back in place, or nothing was taken away.
pub(super) fn forget(machine: &Machine) -> Result<(), Error> {
    files::remove(&machine.writer(), names::BY_HAND)?;
    Ok(())
}
