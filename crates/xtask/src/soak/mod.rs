//! `cargo xtask soak`: random events under a stream of jobs, for as long as wanted, or a number of them on several
//! controllers. What happens is in `tests/soak.py` and `tests/soak_ha.py`; this file only starts it.

use std::process::ExitCode;

use anyhow::Result;

use crate::console::say;
use crate::image::Building;
use crate::{layout, pack, program, setup};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many minutes events go on
    #[arg(long, value_name = "NUMBER", default_value_t = 30)]
    minutes: u64,
    /// Instead: so many events on several controllers, with all that has to hold looked at after each
    #[arg(long, value_name = "NUMBER", conflicts_with = "minutes")]
    events: Option<u64>,
    /// Repeats the events of an earlier run, which printed this number
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    setup::machines()?;
    pack::juju_local()?;
    let image = Building::start(None)?;
    pack::all_charms()?;
    let python = setup::python()?;
    image.finish()?;
    let mut command = program::program(&python)?;
    let (file, told) = match arguments.events {
        Some(events) => {
            command.env("SOAK_EVENTS", events.to_string());
            ("tests/soak_ha.py", format!("{events} random events on several controllers"))
        }
        None => {
            command.env("SOAK_SECONDS", (arguments.minutes * 60).to_string());
            ("tests/soak.py", format!("random events for {} minutes", arguments.minutes))
        }
    };
    command.args(["-m", "pytest", "--verbose", "--capture=no", "-p", "no:cacheprovider", file]);
    command.current_dir(layout::root()?);
    command.envs(arguments.seed.map(|seed| ("SOAK_SEED", seed.to_string())));
    let mut path = vec![layout::dist_bin()?];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    command.env("PATH", std::env::join_paths(path)?).env("PYTHONDONTWRITEBYTECODE", "1");
    say(&told);
    let finished = program::tee(&mut command)?;
    Ok(if finished.status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
