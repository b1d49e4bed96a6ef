//! What administrators set with `scontrol update`, kept over a reconfigure: noted before, put back after.
//!
//! The note is a file, so that a hook that dies in between is made up for by the next one, which reconfigures again.

use crate::error::Error;
use crate::names;
use crate::observe::Memory;
use slurm_conf::PartitionName;
use slurm_ops::Machine;
use slurm_ops::files::{self, Access};
use slurm_ops::scontrol::{self, PartitionSettings, ScontrolError, Settings};
use std::collections::BTreeSet;
use std::path::Path;

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
fn settings(machine: &Machine, memory: &mut Memory) -> Result<Settings, ScontrolError> {
    let partitions = memory.partitions.take().map_or_else(|| scontrol::partition_settings(&machine.host()), Ok)?;
    let nodes = memory.nodes.take().map_or_else(|| scontrol::node_settings(&machine.host()), Ok)?;
    Ok(Settings { nodes, partitions })
}

/// Looks for partitions that slurmctld has and `new` has not, and says whether there are none: a reconfigure would end them, and every job in
/// them. One that somebody took out of slurm.conf may go when it has no jobs; one that was made with scontrol stays.
pub(super) fn is_safe(machine: &Machine, memory: &mut Memory, new: Option<&str>) -> Result<bool, Error> {
    // Kept for whoever notes what was set by hand. If nobody can be asked, that is found out there.
    memory.partitions = memory.partitions.take().or_else(|| scontrol::partition_settings(&machine.host()).ok());
    if let Some(known) = &memory.partitions {
        memory.tried.at_risk = at_risk(machine, known, new.unwrap_or_default())?;
    }
    Ok(memory.tried.at_risk.is_empty())
}

fn at_risk(machine: &Machine, known: &PartitionSettings, new: &str) -> Result<BTreeSet<String>, Error> {
    let mut missing = known.missing_in(new);
    if missing.is_empty() {
        return Ok(BTreeSet::new());
    }
    missing = known.missing_in(&with_included(machine, new)?);
    let accepted =
        files::read_text(&machine.host(), format!("{}{}", names::SLURM_CONF, names::ACCEPTED))?.unwrap_or_default();
    let by_scontrol = known.missing_in(&with_included(machine, &accepted)?);
    let stays = |name: &String| match name.parse::<PartitionName>() {
        Ok(own) if !by_scontrol.contains(name) => {
            !scontrol::jobs_in_partition(&machine.host(), &own).is_ok_and(|jobs| jobs.is_empty())
        }
        _ => true,
    };
    Ok(missing.into_iter().filter(stays).collect())
}

/// Returns a file with those that it includes behind it.
fn with_included(machine: &Machine, conf: &str) -> Result<String, Error> {
    let mut whole = conf.to_owned();
    for line in conf.lines() {
        let mut words = line.split_whitespace();
        if words.next().is_some_and(|word| word.eq_ignore_ascii_case("Include"))
            && let Some(path) = words.next()
        {
            let path = Path::new(names::CONFIGURATION_DIRECTORY).join(path);
            whole += &format!("\n{}", files::read_text(&machine.host(), path)?.unwrap_or_default());
        }
    }
    Ok(whole)
}

/// Forgets the note: all of it is back in place, or nothing was taken away.
pub(super) fn forget(machine: &Machine) -> Result<(), Error> {
    files::remove(&machine.writer(), names::BY_HAND)?;
    Ok(())
}
