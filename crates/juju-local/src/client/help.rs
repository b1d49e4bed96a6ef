//! `juju help`: what there is, in a line each.

use std::process::ExitCode;

use super::{DONE, Outcome, Refusal};

/// Name, arguments and purpose of each command.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("actions", "<application> [--schema] [--format json|yaml]", "Lists the actions of an application"),
    ("add-model", "<model> [--no-switch] [--config key=value]…", "Makes a model and starts its daemon"),
    ("add-unit", "<application> [-n N] [--to machine,…]", "Adds units to an application"),
    ("config", "<application> [key | key=value…] [--reset key,…] [--file F]", "Shows or changes options"),
    ("debug-log", "[--replay] [--limit N] [--tail] [--include E] [--level L]", "Shows the log of the model"),
    ("deploy", "<charm file> [application] [-n N] [--to machine,…] [--config key=value]…", "Deploys a charm"),
    ("destroy-model", "<model> [--no-prompt] [--force]", "Removes a model with all its machines, at once"),
    (
        "exec",
        "(--unit U | --machine M | --application A | --all) [--wait D] -- <command>",
        "Runs a command as root in a unit's context",
    ),
    ("integrate", "<application>[:endpoint] <application>[:endpoint]", "Relates two applications"),
    ("model-config", "[key | key=value…] [--reset key,…]", "Shows or changes settings of the model"),
    ("models", "[--format json|yaml]", "Lists the models"),
    ("operations", "[--format json|yaml]", "Lists what was run"),
    ("resolved", "<unit>… [--no-retry]", "Runs a failed hook again, or counts it as done"),
    ("run", "<unit>… <action> [key=value]… [--wait D] [--background] [--params F]", "Runs an action"),
    ("scp", "[unit:]<path> [unit:]<path>", "Copies files to and from a machine"),
    ("show-model", "[model] [--format json|yaml]", "Shows a model"),
    ("show-operation", "<id> [--format json|yaml]", "Shows an operation"),
    ("show-task", "<id> [--format json|yaml]", "Shows a task"),
    ("show-unit", "<unit>… [--format json|yaml]", "Shows a unit and its databags"),
    ("ssh", "[user@]<unit|machine> [command…]", "Runs a shell or a command in a machine"),
    ("status", "[selector…] [--format json|yaml|tabular] [--watch D] [--relations]", "Shows the model"),
    ("switch", "[model]", "Chooses the current model"),
    ("version", "[--format json] [--all]", "Shows the version of Juju that is imitated"),
];

/// Commands of Juju that may come, so that they are not taken for misspellings.
const LATER: &[&str] = &[
    "add-machine",
    "add-secret",
    "add-ssh-key",
    "bind",
    "cancel-task",
    "charm-resources",
    "clouds",
    "constraints",
    "debug-hooks",
    "detach-storage",
    "expose",
    "find-offers",
    "grant-secret",
    "kill-controller",
    "list-storage",
    "machines",
    "model-constraints",
    "offers",
    "refresh",
    "remove-application",
    "remove-machine",
    "remove-relation",
    "remove-secret",
    "remove-ssh-key",
    "remove-unit",
    "resources",
    "revoke-secret",
    "secrets",
    "set-constraints",
    "set-model-constraints",
    "show-application",
    "show-machine",
    "show-secret",
    "show-status-log",
    "spaces",
    "storage",
    "trust",
    "unexpose",
    "update-secret",
];

pub fn is_juju_command(name: &str) -> bool {
    LATER.contains(&name)
}

pub fn main(arguments: &[String]) -> Outcome {
    let Some(name) = arguments.first() else {
        println!("juju-local: Juju for one machine, with real systemd machines.\n\nUsage: juju <command> [options]\n");
        for (name, _, purpose) in COMMANDS {
            println!("  {name:<16} {purpose}");
        }
        println!("\n`juju help <command>` shows its arguments; every command that works in a model takes -m <model>.");
        println!("`juju-local help` lists what is not Juju's: images, cleaning up.");
        return DONE;
    };
    match COMMANDS.iter().find(|(known, _, _)| known == name) {
        Some((name, usage, purpose)) => {
            println!("Usage: juju {name} {usage}\n\n{purpose}.");
            Ok(ExitCode::SUCCESS)
        }
        None => Err(Refusal::failed(format!("juju: \"{name}\" is not a juju command. See \"juju --help\"."))),
    }
}
