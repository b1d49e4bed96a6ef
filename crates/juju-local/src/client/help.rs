//! `juju help`: what there is, in a line each.

use std::process::ExitCode;

use super::absent::missing_for;
use super::commands::{self, COMMANDS};
use super::{DONE, Outcome, Refusal};

pub fn main(arguments: &[String]) -> Outcome {
    let Some(name) = arguments.first() else {
        println!("juju-local: Juju for one machine, with real systemd machines.\n\nUsage: juju <command> [options]\n");
        for command in COMMANDS {
            println!("  {:<22} {}", command.names[0], command.purpose);
        }
        println!("\n`juju help <command>` shows its arguments; every command that works in a model takes -m <model>.");
        println!("`juju-local help` lists what is not Juju's: images, failures of machines, cleaning up.");
        return DONE;
    };
    match commands::find(name) {
        Some(command) => {
            println!("Usage: juju {} {}\n\n{}.", command.names[0], command.arguments, command.purpose);
            if let [_, aliases @ ..] = command.names
                && !aliases.is_empty()
            {
                println!("Also known as: {}", aliases.join(", "));
            }
            Ok(ExitCode::SUCCESS)
        }
        None => Err(unknown(name)),
    }
}

/// What is no command here: not juju-local's business, or not even Juju's.
pub fn unknown(name: &str) -> Refusal {
    match missing_for(name) {
        Some(what) => Refusal::usage(format!("juju-local has no {what}")),
        None => Refusal::failed(format!("juju: \"{name}\" is not a juju command. See \"juju --help\".")),
    }
}
