//! The `juju` command: one function per sub-command, each parses its own words, asks the model's daemon and prints. Data goes
//! to standard output, everything else to standard error.

mod applications;
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
mod table;
mod tasks;

pub use connect::current_model;
pub use models::names as model_names;

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

/// Commands of Juju that need what juju-local does not have.
const ABSENT: &[(&str, &str)] = &[
    ("add-cloud", "clouds"),
    ("add-credential", "credentials"),
    ("add-k8s", "Kubernetes"),
    ("attach-resource", "resources"),
    ("bootstrap", "controllers; `juju add-model` is all it takes"),
    ("consume", "cross-model relations"),
    ("download", "a charm store"),
    ("find", "a charm store"),
    ("info", "a charm store"),
    ("offer", "cross-model relations"),
    ("update-cloud", "clouds"),
    ("upgrade-model", "other versions"),
];

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
        "version" | "--version" => models::version(rest),
        "add-model" => models::add(rest),
        "destroy-model" => models::destroy(rest),
        "models" | "list-models" => models::list(rest),
        "show-model" => models::show(rest),
        "switch" => models::switch_to(rest),
        "controllers" | "list-controllers" => models::controllers(rest),
        "whoami" => models::whoami(rest),
        "status" => status::main(rest),
        "deploy" => deploy::deploy(rest),
        "add-unit" => deploy::add_unit(rest),
        "integrate" | "relate" => deploy::integrate(rest),
        "remove-unit" => remove::units(rest),
        "remove-application" => remove::applications(rest),
        "remove-relation" => remove::relation(rest),
        "remove-machine" => remove::machines(rest),
        "refresh" => remove::refresh(rest),
        "resolved" | "resolve" => deploy::resolved(rest),
        "show-unit" => deploy::show_unit(rest),
        "config" => config::application(rest),
        "model-config" => config::model(rest),
        "actions" | "list-actions" => tasks::actions(rest),
        "run" => run::run(rest),
        "exec" => run::exec(rest),
        "show-task" => tasks::show_task(rest),
        "show-operation" => tasks::show_operation(rest),
        "operations" | "list-operations" => tasks::operations(rest),
        "cancel-task" => tasks::cancel(rest),
        "machines" | "list-machines" => machines::list(rest),
        "show-machine" => machines::show(rest),
        "add-machine" => machines::add(rest),
        "spaces" | "list-spaces" => machines::spaces(rest),
        "ssh-keys" | "list-ssh-keys" => machines::keys(rest),
        "add-ssh-key" => machines::add_keys(rest),
        "remove-ssh-key" => machines::remove_keys(rest),
        "show-application" => applications::show(rest),
        "expose" => applications::expose(rest),
        "unexpose" => applications::unexpose(rest),
        "trust" => applications::trust(rest),
        "constraints" => applications::constraints_of(rest),
        "set-constraints" => applications::set_constraints(rest),
        "model-constraints" => applications::constraints_of_model(rest),
        "set-model-constraints" => applications::set_model_constraints(rest),
        "offers" | "list-offers" => applications::offers(rest),
        "resources" | "list-resources" | "charm-resources" => applications::resources(rest),
        "secrets" | "list-secrets" => secrets::list(rest),
        "show-secret" => secrets::show(rest),
        "add-secret" => secrets::add(rest),
        "update-secret" => secrets::update(rest),
        "grant-secret" => secrets::grant(rest),
        "revoke-secret" => secrets::revoke(rest),
        "remove-secret" => secrets::remove(rest),
        "show-status-log" => history::main(rest),
        "ssh" => ssh::ssh(rest),
        "scp" => ssh::scp(rest),
        "debug-log" => log::main(rest),
        other => match ABSENT.iter().find(|(name, _)| *name == other) {
            Some((_, what)) => Err(Refusal::usage(format!("juju-local has no {what}"))),
            None if help::is_juju_command(other) => Err(Refusal::usage(format!(
                "juju-local does not do `juju {other}` yet; `juju help` lists what it does"
            ))),
            None => Err(Refusal::failed(format!("juju: \"{other}\" is not a juju command. See \"juju --help\"."))),
        },
    }
}
