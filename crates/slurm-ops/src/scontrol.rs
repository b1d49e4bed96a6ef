//! Talk with slurmctld through `scontrol`. Words of Slurm's answers are matched here and nowhere else.
//!
//! Slurm's clients exit with 1 both when slurmctld says no and when nobody could be asked. The two are told apart by the text,
//! and whatever is not surely an answer counts as "could not ask".

mod node;
mod reconfigure;

pub use node::{NodeLookup, NodeRecord, delete_node, down_node, drain_node, node, nodes, resume_node, save_node};
pub use reconfigure::{Candidate, Reconfigure, check, reconfigure};

use crate::command::{Command, CommandError, Output};
use crate::machine::Machine;
use serde::Deserialize;
use std::time::Duration;

/// Name resolution and silent controllers cost scontrol up to 20 s before it gives up; no hook should wait longer than that.
const DEADLINE: Duration = Duration::from_secs(25);
/// The JSON dialect that both 24.11 and 26.05 speak.
const JSON: &str = "--json=v0.0.42";

/// Something that slurmctld was asked to do and that was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScontrolError {
    /// Nobody could be asked; whether it was done is not known.
    #[error("could not reach slurmctld: {why}")]
    Unreachable {
        /// The last thing that was said about it.
        why: String,
    },
    /// slurmctld said no.
    #[error("`{command}` was refused: {reason}")]
    Refused {
        /// The whole command line.
        command: String,
        /// What slurmctld said.
        reason: String,
    },
}

/// One configured controller and whether it answers. Rank is the configured one: it does not tell who is active.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ControllerPing {
    /// Host name, as slurm.conf has it.
    pub hostname: String,
    /// Whether it answered.
    pub responding: bool,
    /// `primary`, `backup`, with several backups `backup1` …
    pub mode: String,
}

/// Asks every configured controller whether it is there.
pub fn ping(machine: &Machine) -> Result<Vec<ControllerPing>, ScontrolError> {
    #[derive(Deserialize)]
    struct Pings {
        pings: Vec<ControllerPing>,
    }
    // The exit status says nothing: with JSON it is 0 even if all are down.
    let command = scontrol(machine).args(["ping", JSON]);
    let output = command.output().map_err(|error| unreachable(&error))?;
    match serde_json::from_str::<Pings>(&output.stdout) {
        Ok(pings) => Ok(pings.pings),
        Err(_) => Err(ScontrolError::Unreachable { why: output.complaint().to_owned() }),
    }
}

fn scontrol(machine: &Machine) -> Command {
    machine.command("scontrol").env_remove("SLURM_CONF").deadline(DEADLINE)
}

/// Runs a command that changes something.
fn change(command: &Command) -> Result<(), ScontrolError> {
    let output = command.output().map_err(|error| unreachable(&error))?;
    if output.success() { Ok(()) } else { Err(refusal(command, &output)) }
}

fn refusal(command: &Command, output: &Output) -> ScontrolError {
    if could_not_ask(output) {
        ScontrolError::Unreachable { why: output.complaint().to_owned() }
    } else {
        ScontrolError::Refused { command: command.to_string(), reason: output.complaint().to_owned() }
    }
}

fn unreachable(error: &CommandError) -> ScontrolError {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    ScontrolError::Unreachable { why: format!("{error}{cause}") }
}

/// What Slurm's clients say when slurmctld did not decide anything.
fn could_not_ask(output: &Output) -> bool {
    [
        "Unable to contact slurm controller",
        "Socket timed out",
        "connect failure",
        "authentication error",
        "Could not establish a configuration source",
        "standby mode",
        "Zero Bytes were transmitted",
        "Communication connection failure",
        "Unexpected message received",
        "failed to connect to any sack sockets",
        "failed to initialize auth plugin",
    ]
    .iter()
    .any(|sign| output.stderr.contains(sign) || output.stdout.contains(sign))
}
