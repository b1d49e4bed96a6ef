//! What running jobs would pay for new files. Pure; the rules are in [`slurm_conf::hazards`].

use super::Situation;
use super::files::Config;
use crate::facts::{Ask, Asked, Facts};
use slurm_conf::EffectiveConf;
use slurm_conf::hazards::{Hazard, Running, hazards, questions};

/// What a look at the running cluster came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    Safe,
    /// slurmctld would forget this partition and its jobs. Only a person can decide that.
    LosesPartition(String),
    /// The files must not come into effect.
    Harmful(Hazard),
    /// slurmctld could not be asked.
    Unknown(String),
}

/// Judges new files. slurmctld is asked only for what gets worse, and only if it answers.
///
/// The first files of a cluster are compared with themselves without the operator's parameters: what the charm chose
/// has to do.
pub fn judge(situation: &Situation<'_>, facts: &Facts, new: &Config, answering: bool) -> Result<Judgement, Ask> {
    // A file that cannot be parsed is the parser's matter: slurmctld keeps what it has.
    if new.conf.is_none() {
        return Ok(Judgement::Safe);
    }
    let without_parameters;
    let old = if situation.accepted().exists() {
        &situation.accepted().effective
    } else {
        without_parameters = new.overlaid.as_ref().map(|read| EffectiveConf::of(&read.below)).unwrap_or_default();
        &without_parameters
    };
    let new = &new.effective;
    let asked = questions(old, new);
    let missing = asked.plugins.iter().filter(|plugin| !situation.host.plugins.contains(&plugin.file()));
    let mut running = Running { missing_plugins: missing.cloned().collect(), ..Running::default() };
    let settings = if answering { facts.partition_settings()?.answer() } else { None };
    if let Some(settings) = settings {
        let mut gone = settings.missing_in(new);
        running.partitions = Some(settings.names().map(str::to_owned).collect());
        // A partition that an administrator took out of the file may go when no job names it: slurmctld does not
        // survive the record of a job whose partition is gone, also if the job has ended.
        if gone.iter().any(|name| old.has_partition(name))
            && let Asked::Answer(jobs) = facts.job_records()?
        {
            gone.retain(|name| !jobs.iter().any(|job| job.partition.split(',').any(|own| own == name)));
            running.idle_partitions = gone;
        }
    }
    if let Some(found) = worst(&running, old, new) {
        return Ok(found);
    }
    if answering && (asked.nodes || asked.jobs) {
        match facts.load()? {
            Asked::Answer(load) => (running.nodes, running.jobs) = (Some(load.nodes), Some(load.jobs)),
            Asked::Unparsable => {}
            Asked::Unreachable(why) => return Ok(Judgement::Unknown(why.clone())),
        }
    }
    Ok(worst(&running, old, new).unwrap_or(Judgement::Safe))
}

/// A lost partition is told before everything else.
fn worst(running: &Running, old: &EffectiveConf, new: &EffectiveConf) -> Option<Judgement> {
    let found = hazards(running, old, new);
    let lost = found.iter().find_map(|hazard| match hazard {
        Hazard::LostPartition { name, .. } => Some(Judgement::LosesPartition(name.clone())),
        _ => None,
    });
    lost.or_else(|| found.into_iter().next().map(Judgement::Harmful))
}
