//! A small job on one node, to see whether it works.

use super::{Command, client};
use crate::command::CommandError;
use crate::machine::HostWriter;
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
    /// It got no place on the node in time.
    Busy {
        /// What Slurm said about it.
        why: String,
    },
    /// It did not run, or not well.
    Failed {
        /// What Slurm said about it.
        why: String,
    },
}

/// Little enough to find a place beside other jobs, in MiB. A job that does not say so gets all the memory of the node.
const MEMORY: u64 = 16;

/// Runs `hostname` on a node and waits for it at most `patience`: also for a place on the node.
pub fn smoke(writer: &HostWriter, node: &NodeName, partition: &PartitionName, patience: Duration) -> Smoke {
    let seconds = patience.as_secs().max(1);
    let command: Command = client(writer.host(), "srun")
        .args(["--quiet", "--nodes=1", "--ntasks=1", "--job-name=smoke-test"])
        .arg(format!("--nodelist={node}"))
        .arg(format!("--partition={partition}"))
        .arg(format!("--immediate={seconds}"))
        .arg(format!("--mem={MEMORY}"))
        // In minutes: no partition allows less.
        .arg("--time=1")
        .args(["--chdir=/", "hostname"])
        .deadline(patience + MARGIN);
    match command.output() {
        Ok(output) if output.success() && !output.stdout.trim().is_empty() => {
            Smoke::Passed { said: output.stdout.trim().to_owned() }
        }
        Ok(output) => {
            let said = output.complaint();
            let why = if said.is_empty() { format!("srun exited with {}", output.code) } else { said.to_owned() };
            if why.contains("Requested nodes are busy") { Smoke::Busy { why } } else { Smoke::Failed { why } }
        }
        Err(CommandError::TimedOut { .. }) => Smoke::Failed { why: format!("no answer within {seconds} s") },
        Err(error) => Smoke::Failed { why: error.to_string() },
    }
}
