//! juju-local: Juju for one machine, with real systemd machines. One program under many names: `juju` is the client, a
//! hook tool's name is that tool, `juju-exec` and `jujud` live in the machines, and `juju-local` is everything that is
//! not Juju's.

mod agent;
mod charm;
mod client;
mod clock;
mod constraints;
mod daemon;
mod flags;
mod hooks;
mod local;
mod machine;
mod model;
mod names;
mod output;
mod paths;
mod settings;
mod share;
mod socket;
mod tools;
mod wire;
mod yaml;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_default();
    let rest: Vec<OsString> = words.collect();
    let name = Path::new(&called).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // First of all: these change the namespaces of the whole process.
    if name == "juju-local"
        && let Some(code) = machine::hidden_subcommand(&rest)
    {
        return code;
    }
    let arguments: Vec<String> = rest.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match name.as_str() {
        "juju" => client::main(&arguments),
        "juju-exec" => agent::exec_main(arguments),
        "jujud" => match arguments.as_slice() {
            [kind, machine] if kind == "machine" => agent::main(machine),
            _ => {
                eprintln!("usage: jujud machine <id>");
                ExitCode::from(2)
            }
        },
        tool if tools::is_tool(tool) => agent::tool_main(tool, arguments),
        _ => local::main(&arguments),
    }
}

/// Random bytes as hexadecimal digits.
fn random_hex(bytes: usize) -> anyhow::Result<String> {
    let mut buffer = vec![0u8; bytes];
    getrandom::fill(&mut buffer).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    Ok(buffer.iter().map(|byte| format!("{byte:02x}")).collect())
}
