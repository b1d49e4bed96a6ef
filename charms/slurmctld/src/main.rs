//! The program that Juju starts for every hook and action, that starts itself to touch a store, and that systemd starts
//! to fence slurmctld.

use slurm_ops::{fence, store};
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(store::ARGUMENT) => store::serve(),
        Some(fence::ARGUMENT) => fence::run(),
        Some(fence::GUARD_ARGUMENT) => fence::guard(),
        _ => charm::runtime::run::<slurmctld_charm::Slurmctld>(),
    }
}
