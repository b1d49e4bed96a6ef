//! What the Slurm on this machine thinks of one node or one partition, without a cluster around it and without a
//! daemon.
//!
//! The candidate is a file in memory, so that a look changes nothing on the machine.

use super::Candidate;
use super::reconfigure::parse;
use crate::machine::Host;
use nix::sys::memfd::{MFdFlags, memfd_create};
use slurm_conf::{Node, Partition, SlurmConf};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;

/// The least that Slurm wants to see around a candidate.
const AROUND: &str = "ClusterName=candidate\nSlurmctldHost=localhost\n";

/// Asks whether keys and values of a node can be read.
pub fn judge_node(host: &Host, node: &Node) -> Candidate {
    judge(host, &format!("{AROUND}NodeName=candidate {node}\n"))
}

/// Asks whether keys and values of a partition can be read.
pub fn judge_partition(host: &Host, partition: &Partition) -> Candidate {
    let mut conf = SlurmConf::parse(AROUND).expect("invariant: our own text is a configuration");
    conf.set_partition(partition, &partition.nodeset());
    judge(host, &conf.render())
}

fn judge(host: &Host, text: &str) -> Candidate {
    let file = match in_memory(text) {
        Ok(file) => file,
        Err(error) => return Candidate::Unknown { why: format!("no file in memory: {error}") },
    };
    // Slurm opens the file by a path, and this process keeps it open meanwhile.
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    match parse(host, Path::new(&path)) {
        // Where the candidate was is of no interest; the words before it name key and value.
        Candidate::Refused { reason } => {
            let told: Vec<&str> = reason.split(" / ").filter(|part| !part.contains(&path)).collect();
            Candidate::Refused { reason: if told.is_empty() { reason } else { told.join(" / ") } }
        }
        other => other,
    }
}

fn in_memory(text: &str) -> std::io::Result<File> {
    let mut file = File::from(memfd_create(c"slurm-charm-candidate", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    Ok(file)
}
