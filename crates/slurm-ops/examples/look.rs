//! Looks around on a machine and changes nothing: what this crate makes of the Slurm that it finds there.
//!
//! `look <node> <partition> <state directory>`, as root on a controller or on a compute node.

use slurm_conf::{NameError, NodeName, PartitionName};
use slurm_ops::{Machine, hardware, heartbeat, mounts, scontrol};

fn main() -> Result<(), NameError> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let node = NodeName::new(next("compute-0"))?;
    let partition = PartitionName::new(next("compute"))?;
    let state = next("/var/lib/slurm/checkpoint/state");
    let machine = Machine::new();
    println!("ping: {:?}", scontrol::ping(&machine.host()));
    println!("node: {:?}", scontrol::node(&machine.host(), &node));
    println!("partition: {:?}", scontrol::partition(&machine.host(), &partition));
    println!("jobs: {:?}", scontrol::jobs(&machine.host()));
    println!("jobs on {node}: {:?}", scontrol::jobs_on(&machine.host(), &node));
    println!("waiting for {node}: {:?}", scontrol::jobs_waiting_for(&machine.host(), &node));
    println!("known here: {:?}", scontrol::local_jobs(&machine.host(), &node));
    println!("reservations naming {node}: {:?}", scontrol::reservations_naming(&machine.host(), &node));
    println!("mounted at {state}: {:?}", mounts::mount_at(&machine.host(), &state));
    println!("writable: {:?}", mounts::is_writable(&machine.host(), &state, "slurm"));
    println!("heartbeat: {:?}", heartbeat::heartbeat(&machine.host(), &state));
    println!("graphics cards: {:?}", hardware::nvidia_gpus(&machine.host()));
    println!(
        "memory: {:?}, processors: {:?}",
        hardware::memory_mib(&machine.host()),
        hardware::processors(&machine.host())
    );
    Ok(())
}
