//! Asks for what administrators set with `scontrol`, and sets again what a reconfigure undid. What that is,
//! [`slurm_conf::overrides`] says.

use super::{Command, ScontrolError, change, refusal, scontrol, unreachable};
use crate::machine::{Host, HostWriter};
use slurm_conf::EffectiveConf;
use slurm_conf::overrides::{self, Entity, NodeSettings, PartitionSettings, RuntimeSettings};

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

fn show(command: &Command) -> Result<String, ScontrolError> {
    let output = command.output().map_err(|error| unreachable(&error))?;
    if output.success() { Ok(output.stdout) } else { Err(refusal(command, &output)) }
}

/// Sets again what a reconfigure took away: what differs from `before` although nothing about it differs between the
/// old configuration and the new one. What slurmctld does not take any more is left, and logged. Returns what it has in
/// memory now, unless something was set.
pub fn restore(
    writer: &HostWriter,
    before: &RuntimeSettings,
    old: &EffectiveConf,
    new: &EffectiveConf,
) -> Result<Option<PartitionSettings>, ScontrolError> {
    // Where nobody has set anything a look is saved.
    let nodes = if before.nodes.are_usual() { before.nodes.clone() } else { node_settings(writer.host())? };
    let after = RuntimeSettings { nodes, partitions: partition_settings(writer.host())? };
    let updates = overrides::updates(before, &after, old, new);
    for update in &updates {
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
    Ok(updates.is_empty().then_some(after.partitions))
}

fn set(writer: &HostWriter, entity: &Entity, settings: &[(&str, String)]) -> Result<(), ScontrolError> {
    let settings = settings.iter().map(|(key, value)| format!("{key}={value}"));
    change(&scontrol(writer.host()).arg("update").arg(entity.to_string()).args(settings))
}
