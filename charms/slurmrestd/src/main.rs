//! The program that Juju starts for every hook and action, and that starts itself to touch a store.

use slurm_ops::store;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(store::ARGUMENT) => store::serve(),
        _ => charm::runtime::run::<slurmrestd_charm::Slurmrestd>(),
    }
}
