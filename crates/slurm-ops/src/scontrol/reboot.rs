//! Reboots of nodes by Slurm: it waits for the jobs there, and has slurmd start `RebootProgram`.

use super::node::reason_argument;
use super::{ScontrolError, refusal, scontrol, unreachable};
use crate::machine::HostWriter;
use slurm_conf::NodeName;

/// What Slurm does with a node that has rebooted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterReboot {
    /// It is put into service, whatever it was.
    Resume,
    /// It is down.
    Down,
    /// What was drained stays drained.
    Nothing,
}

/// Has Slurm reboot a node once no job is on it. With `asap` it takes no new ones until then. Without a reason that of
/// a node that is set aside stays, and Slurm adds to it how far it has come.
pub fn reboot_node(
    writer: &HostWriter,
    node: &NodeName,
    asap: bool,
    after: AfterReboot,
    reason: Option<&str>,
) -> Result<(), ScontrolError> {
    let after = match after {
        AfterReboot::Resume => Some("nextstate=RESUME"),
        AfterReboot::Down => Some("nextstate=DOWN"),
        AfterReboot::Nothing => None,
    };
    let command = scontrol(writer.host())
        .arg("reboot")
        .args(asap.then_some("ASAP"))
        .args(after)
        .args(reason.map(reason_argument))
        .arg(node.as_str());
    let output = command.output().map_err(|error| unreachable(&error))?;
    // What it does not do because of the node's state it tells with success.
    if output.success() && !output.stderr.contains("Skipping reboot of nodes") {
        return Ok(());
    }
    Err(refusal(&command, &output))
}

/// Takes a reboot back that has not begun. Slurm refuses one that has, and one that nobody asked for.
pub fn cancel_reboot(writer: &HostWriter, node: &NodeName) -> Result<(), ScontrolError> {
    super::change(&scontrol(writer.host()).arg("cancel_reboot").arg(node.as_str()))
}
