//! `juju-local`: what Juju itself has no command for, namely the image of the machines and cleaning up.

use std::process::ExitCode;
use std::time::Duration;

use crate::daemon;
use crate::machine::{self, image};
use crate::paths;
use crate::wire::Request;

/// How long a machine may take to shut down in order before its power is cut.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(30);

const BOOT_LIMIT: Duration = Duration::from_secs(60);

const HELP: &str = "\
juju-local: Juju for one machine. Called as `juju` it is Juju's client (`juju help`).

  juju-local image build   Builds the image of the machines, if the cache has none
  juju-local machine <poweroff|poweron|reboot|freeze|thaw|cut|heal> <id> [-m model]
                           Does to a machine what may happen to one
  juju-local lose <departed|grant|secret-content|nothing>… [-m model]
                           Chooses the events that a model loses, as a real Juju sometimes does
  juju-local share attach <name> <machine> <path> [-m model]
  juju-local share <detach|lose|restore|readonly|writable> <name> <machine> [-m model]
                           Gives machines a directory in common, and takes it away from them
  juju-local clean         Ends and removes every model of this state directory, whatever state it is in
  juju-local juju …        The client, for those who have no link named juju
  juju-local help          Shows this

Environment: JUJU_LOCAL_STATE (default /var/lib/juju-local), JUJU_LOCAL_CACHE (default /var/cache/juju-local),
JUJU_LOCAL_SLURM (24.11 or 26.05: what the machines of a new model can install; default 24.11).
Exit codes: 0 done, 1 failed, 2 not understood.
";

pub fn main(arguments: &[String]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["daemon", model] => return daemon::main(model),
        ["juju", rest @ ..] => {
            return crate::client::main(&rest.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        }
        ["image", "build"] => build_image(),
        ["machine", verb, rest @ ..] => machine_fault(verb, rest),
        ["lose", events @ ..] if !events.is_empty() => lose(events),
        ["share", words @ ..] => share(words),
        ["clean"] => clean(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("ERROR juju-local: {:?} is not understood\nhint: juju-local help", other.join(" "));
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ERROR {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn build_image() -> anyhow::Result<()> {
    std::fs::create_dir_all(paths::state())?;
    machine::preflight(&paths::state())?;
    let image =
        image::ensure(&paths::cache(), image::SlurmRelease::parse(&paths::slurm())?, &mut |line| eprintln!("{line}"))?;
    println!("{}", image.rootfs.display());
    Ok(())
}

/// Power, network and processor of a machine, as they may fail. The agent inside is not told.
fn machine_fault(verb: &str, rest: &[&str]) -> anyhow::Result<()> {
    let (words, model) = split_model(rest)?;
    let [id] = words.as_slice() else { anyhow::bail!("usage: juju-local machine <verb> <id> [-m model]") };
    let known = !id.is_empty() && id.chars().all(|letter| letter.is_ascii_digit());
    let directory = paths::ModelPaths::of(&model).machine(id);
    let found = if known { machine::Machine::open(&directory)? } else { None };
    let Some(found) = found else { anyhow::bail!("model {model} has no machine {id:?}") };
    match verb {
        "poweroff" => {
            found.kill()?;
            crate::client::ask(&model, &Request::Power { machine: (*id).to_owned(), on: false })
        }
        "poweron" => {
            power_on(&found)?;
            crate::client::ask(&model, &Request::Power { machine: (*id).to_owned(), on: true })
        }
        "reboot" => {
            found.shutdown(SHUTDOWN_LIMIT)?;
            power_on(&found)
        }
        "freeze" => found.freeze(),
        "thaw" => found.thaw(),
        "cut" => found.cut(),
        "heal" => found.heal(),
        _ => anyhow::bail!("{verb:?} is nothing that can be done to a machine: see juju-local help"),
    }
}

/// Words without `-m <model>`, and the model: the named one or the current one.
fn split_model<'a>(words: &[&'a str]) -> anyhow::Result<(Vec<&'a str>, String)> {
    let (rest, named) = match words.iter().position(|word| *word == "-m") {
        Some(at) => {
            let Some(model) = words.get(at + 1) else { anyhow::bail!("-m needs the name of a model") };
            ([&words[..at], &words[at + 2..]].concat(), Some((*model).to_owned()))
        }
        None => (words.to_vec(), None),
    };
    let Some(model) = named.or_else(crate::client::current_model) else {
        anyhow::bail!("no model is selected: add -m <model>")
    };
    crate::names::check_model(&model).map_err(anyhow::Error::msg)?;
    Ok((rest, model))
}

fn share(words: &[&str]) -> anyhow::Result<()> {
    let (words, model) = split_model(words)?;
    crate::share::main(&model, &words)
}

fn lose(words: &[&str]) -> anyhow::Result<()> {
    let (events, model) = split_model(words)?;
    crate::client::ask(&model, &Request::Lose { events: events.into_iter().map(str::to_owned).collect() })
}

fn power_on(machine: &machine::Machine) -> anyhow::Result<()> {
    machine.power_on()?;
    machine.wait_ready(BOOT_LIMIT)
}

fn clean() -> anyhow::Result<()> {
    for name in crate::client::model_directories() {
        match wipe(&name)?.as_slice() {
            [] => eprintln!("model {name}: removed nothing but its files"),
            removed => eprintln!("model {name}: removed {}", removed.join(", ")),
        }
    }
    std::fs::remove_file(paths::state().join("current")).ok();
    Ok(())
}

/// Removes a model and all it has on the host. Works from what is on disk, so that it does its work whether or not any
/// daemon lives, and whether or not the state can be read.
pub fn wipe(name: &str) -> anyhow::Result<Vec<String>> {
    let model_paths = paths::ModelPaths::of(name);
    let removed = match daemon::short_id(&model_paths) {
        Ok(digits) => machine::clean(&format!("jl-{digits}"))?,
        Err(error) => {
            eprintln!("model {name}: {error:#}");
            Vec::new()
        }
    };
    // Its daemon may be removing the directory, too.
    machine::remove_tree(model_paths.root())?;
    Ok(removed)
}
