//! Machines: real systemd machines on this host, made of an image, a network and systemd-nspawn.
//!
//! Belongs here: building the image, the namespaces, cgroups and mounts of a machine, starting and stopping it, running
//! a command in it, faults on purpose, and removing every trace. Does not belong here: Juju. Nothing below knows
//! models, units or charms; a machine is a name, a directory, an address and some seeded files.
//!
//! What a running machine consists of, and where it can be seen:
//!
//! | thing | name | goes away |
//! | --- | --- | --- |
//! | network namespace of a model | `jl-9c41f0`, with bridge `br0` | [`Network::delete`] |
//! | network namespace of a machine | `jl-9c41f0-0`, with an `eth0` from that bridge | with the machine's power |
//! | cgroup | `/juju-local/jl-9c41f0-0` in the unified hierarchy | with the machine's power |
//! | overlay and cgroup2 mounts | only in the mount namespace of the machine's supervisor | with the supervisor |
//! | disk (upper layer), boot log | the machine's directory | [`Machine::remove`] |
//!
//! Processes: `machine-boot` starts `machine-supervise` and waits until systemd is there; the supervisor starts
//! systemd-nspawn, starts it again when the machine reboots, and ends when the machine is off. Neither needs the daemon
//! to live on.

mod cgroup;
mod clean;
mod disk;
mod fuse;
pub(crate) mod image;
mod network;
mod power;
mod preflight;
mod process;
mod program;
mod spec;
mod supervisor;

use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) use clean::{clean, remove_tree};
pub(crate) use network::Network;
pub(crate) use power::Machine;
pub(crate) use preflight::preflight;
pub(crate) use process::host_boot;
pub(crate) use spec::{Bind, SeedFile, Spec};

/// Prefix of every network namespace, cgroup and machine this program makes.
pub(crate) const PREFIX: &str = "jl-";

/// Runs one of the hidden subcommands with which this program calls itself, given the arguments after the program's
/// name.
///
/// Returns `None` when the arguments are none of ours. Must be called first thing in `main`, before any thread is
/// started: the subcommands change the namespaces and the cgroup of the whole process.
pub(crate) fn hidden_subcommand(arguments: &[OsString]) -> Option<ExitCode> {
    let (name, rest) = arguments.split_first()?;
    let outcome = match name.to_str()? {
        supervisor::BOOT => supervisor::boot(rest),
        supervisor::SUPERVISE => supervisor::supervise(rest),
        supervisor::EXEC => supervisor::exec(rest),
        supervisor::ENTER => supervisor::enter(rest),
        _ => return None,
    };
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    })
}
