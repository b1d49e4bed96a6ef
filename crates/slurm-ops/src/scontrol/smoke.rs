//! A small job on one node, to see whether it works.

use super::{Command, Machine};
use crate::command::CommandError;
use slurm_conf::{NodeName, PartitionName};
use std::time::Duration;

/// What srun itself needs beyond the time it is given.
const MARGIN: Duration = Duration::from_secs(5);

/// How the small job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Smoke {
    /// It ran, and said this.
    Passed {
        /// The host name, as the node tells it.
        said: String,
    },
    /// It did not run, or not well.
    Failed {
        /// What Slurm said about it.
        why: String,
    },
}

/// Runs `hostname` on a node and waits for it at most `patience`: also for a place on the node.
pub fn smoke(machine: &Machine, node: &NodeName, partition: &PartitionName, patience: Duration) -> Smoke {
    let seconds = patience.as_secs().max(1);
    let command: Command = machine
        .command("srun")
        .env_remove("SLURM_CONF")
        .args(["--quiet", "--nodes=1", "--ntasks=1", "--job-name=smoke-test"])
        .arg(format!("--nodelist={node}"))
        .arg(format!("--partition={partition}"))
        .arg(format!("--immediate={seconds}"))
        // Slurm counts whole minutes.
        .arg(format!("--time={}", seconds.div_ceil(60) + 1))
        .args(["--chdir=/", "hostname"])
        .deadline(patience + MARGIN);
    match command.output() {
        Ok(output) if output.success() && !output.stdout.trim().is_empty() => {
            Smoke::Passed { said: output.stdout.trim().to_owned() }
        }
        Ok(output) => {
            let said = output.complaint();
            let why = if said.is_empty() { format!("srun exited with {}", output.code) } else { said.to_owned() };
            Smoke::Failed { why }
        }
        Err(CommandError::TimedOut { .. }) => Smoke::Failed { why: format!("no answer within {seconds} s") },
        Err(error) => Smoke::Failed { why: error.to_string() },
    }
}
