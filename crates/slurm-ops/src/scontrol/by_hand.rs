//! Asks for what administrators set with `scontrol`, and sets again what a reconfigure undid. What that is,
//! [`slurm_conf::overrides`] says.

use super::{Command, ScontrolError, change, client, refusal, scontrol, unreachable};
use crate::machine::{Host, HostWriter};
use slurm_conf::overrides::{Entity, NodeSettings, PartitionSettings, Update};

/// Reads the settings of all partitions.
pub fn partition_settings(host: &Host) -> Result<PartitionSettings, ScontrolError> {
    let shown = show(&scontrol(host).args(["--oneliner", "show", "partition"]))?;
    Ok(PartitionSettings::from_shown(&shown))
}

/// Reads what may have been set about nodes.
pub fn node_settings(host: &Host) -> Result<NodeSettings, ScontrolError> {
    Ok(NodeSettings::from_shown(&show(&show_nodes(host))?))
}

/// The question for all nodes.
pub(super) fn show_nodes(host: &Host) -> Command {
    scontrol(host).args(["--oneliner", "show", "node"])
}

/// Counts the nodes.
pub fn node_count(host: &Host) -> Result<u64, ScontrolError> {
    Ok(count(&show(&show_nodes(host))?, |line| line.starts_with("NodeName=")))
}

/// Counts the jobs. Every task of an array counts, and so do jobs that have ended until slurmctld forgets them.
pub fn job_count(host: &Host) -> Result<u64, ScontrolError> {
    let arguments = ["--noheader", "--all", "--array", "--states=all", "--format=%A"];
    Ok(count(&show(&client(host, "squeue").args(arguments))?, |line| !line.trim().is_empty()))
}

fn count(shown: &str, wanted: impl Fn(&str) -> bool) -> u64 {
    shown.lines().filter(|line| wanted(line)).count() as u64
}

fn show(command: &Command) -> Result<String, ScontrolError> {
    let output = command.output().map_err(|error| unreachable(&error))?;
    if output.success() { Ok(output.stdout) } else { Err(refusal(command, &output)) }
}

/// Makes updates, which `slurm_conf::overrides::updates` has found. What slurmctld does not take any more is left, and
/// logged.
pub fn update(writer: &HostWriter, updates: &[Update]) -> Result<(), ScontrolError> {
    for update in updates {
        match set(writer, &update.entity, &update.settings) {
            // One setting that is refused must not cost the others.
            Err(ScontrolError::Refused { .. }) => {
                for setting in &update.settings {
                    match set(writer, &update.entity, std::slice::from_ref(setting)) {
                        Err(error @ ScontrolError::Refused { .. }) => tracing::warn!("not put back: {error}"),
                        other => other?,
                    }
                }
            }
            other => other?,
        }
    }
    Ok(())
}

fn set(writer: &HostWriter, entity: &Entity, settings: &[(&str, String)]) -> Result<(), ScontrolError> {
    let settings = settings.iter().map(|(key, value)| format!("{key}={value}"));
    change(&scontrol(writer.host()).arg("update").arg(entity.to_string()).args(settings))
}
