//! The `juju` command: one function per sub-command, each parses its own words, asks the model's daemon and prints.
//! Data goes to standard output, everything else to standard error.

mod absent;
mod applications;
mod commands;
mod config;
mod connect;
mod deploy;
mod help;
mod history;
mod log;
mod machines;
mod models;
mod remove;
mod run;
mod secrets;
mod ssh;
mod status;
mod storage;
mod table;
mod tasks;

pub use connect::current_model;
pub use models::directories as model_directories;

use std::process::ExitCode;

use crate::flags::{self, Flag, Parsed};
use crate::wire::Failure;

/// Why a command ends without success: its message, exit code and what is printed before.
pub struct Refusal {
    pub message: String,
    pub code: u8,
    pub stdout: String,
    pub progress: Vec<String>,
}

impl Refusal {
    pub fn usage(message: impl Into<String>) -> Self {
        Refusal { message: message.into(), code: 2, stdout: String::new(), progress: Vec::new() }
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Refusal { message: message.into(), code: 1, stdout: String::new(), progress: Vec::new() }
    }

    /// Some commands print an empty document beside their refusal.
    pub fn with_empty_document(self) -> Self {
        Refusal { stdout: "{}\n".to_owned(), ..self }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let code = u8::try_from(failure.code).unwrap_or(1);
        Refusal { message: failure.message, code, stdout: String::new(), progress: failure.progress }
    }
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        Refusal::failed(format!("{error:#}"))
    }
}

pub type Outcome = Result<ExitCode, Refusal>;

pub const DONE: Outcome = Ok(ExitCode::SUCCESS);

/// Parses the words of a command that says what is wrong with exit code 2.
pub fn parse(flags: &[Flag], arguments: &[String]) -> Result<Parsed, Refusal> {
    flags::parse(flags, arguments, false).map_err(Refusal::usage)
}

/// Runs `juju <arguments>`.
pub fn main(arguments: &[String]) -> ExitCode {
    let outcome = match arguments.split_first() {
        None => help::main(&[]),
        Some((command, rest)) => dispatch(command, rest),
    };
    match outcome {
        Ok(code) => code,
        Err(refusal) => {
            for line in &refusal.progress {
                eprintln!("{line}");
            }
            print!("{}", refusal.stdout);
            eprintln!("ERROR {}", refusal.message);
            ExitCode::from(refusal.code)
        }
    }
}

/// Asks a model's daemon on behalf of `juju-local`.
pub fn ask(model: &str, request: &crate::wire::Request) -> anyhow::Result<()> {
    let answer = connect::Client::connect(model).and_then(|mut client| client.ask(request));
    answer.map(|_| ()).map_err(|refusal| anyhow::anyhow!("{}", refusal.message))
}

fn dispatch(command: &str, rest: &[String]) -> Outcome {
    if rest.iter().take_while(|word| *word != "--").any(|word| word == "--help" || word == "-h") && command != "ssh" {
        return help::main(&[command.to_owned()]);
    }
    match command {
        "help" | "--help" | "-h" => help::main(rest),
        "--version" => models::version(rest),
        name => match commands::find(name) {
            Some(command) => (command.run)(rest),
            None => Err(help::unknown(name)),
        },
    }
}
