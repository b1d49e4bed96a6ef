//! What the Slurm on this machine thinks of one node or one partition, without a cluster around it and without a daemon.

use super::{Candidate, check};
use crate::files::FileError;
use crate::machine::HostWriter;
use slurm_conf::{Node, Partition, SlurmConf};

/// Where the candidate lies while it is read. Gone at the next boot, if a killed process left it.
const FILE: &str = "/run/slurm-charm-candidate.conf";

/// The least that Slurm wants to see around a candidate.
const AROUND: &str = "ClusterName=candidate\nSlurmctldHost=localhost\n";

/// Asks whether keys and values of a node can be read.
pub fn judge_node(writer: &HostWriter, node: &Node) -> Result<Candidate, FileError> {
    judge(writer, &format!("{AROUND}NodeName=candidate {node}\n"))
}

/// Asks whether keys and values of a partition can be read.
pub fn judge_partition(writer: &HostWriter, partition: &Partition) -> Result<Candidate, FileError> {
    let mut conf = SlurmConf::parse(AROUND).expect("invariant: our own text is a configuration");
    conf.set_partition(partition, &partition.nodeset());
    judge(writer, &conf.render())
}

fn judge(writer: &HostWriter, text: &str) -> Result<Candidate, FileError> {
    Ok(match check(writer, FILE, text)? {
        // Where the candidate was is of no interest; the words before it name key and value.
        Candidate::Refused { reason } => {
            let told: Vec<&str> = reason.split(" / ").filter(|part| !part.contains(FILE)).collect();
            Candidate::Refused { reason: if told.is_empty() { reason } else { told.join(" / ") } }
        }
        other => other,
    })
}
