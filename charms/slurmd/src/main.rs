//! The program that Juju starts for every hook and action.

use std::process::ExitCode;

fn main() -> ExitCode {
    charm::runtime::run::<slurmd_charm::Slurmd>()
}
