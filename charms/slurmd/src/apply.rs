//! Makes one change. Nothing is decided here: what a step says is done, and what comes of it is seen at the next look.

use crate::error::Error;
use crate::names;
use crate::observe::{Launch, Memory};
use crate::plan::Step;
use charm::tools::Port;
use charm::{Context, Tools, Wake};
use slurm_conf::NodeName;
use slurm_ops::files::Access;
use slurm_ops::scontrol::NodeLookup;
use slurm_ops::slurmd::SlurmdOptions;
use slurm_ops::timer::TransientTimer;
use slurm_ops::{Machine, files, keys, packages, scontrol, slurmd, systemd, timer};
use std::time::{Duration, Instant};

/// Makes the change that `step` describes.
pub fn apply(ctx: &Context, tools: &Tools, machine: &Machine, memory: &mut Memory, step: &Step) -> Result<(), Error> {
    match step {
        Step::InstallPackages => {
            packages::ensure_installed(machine, &names::PACKAGES, &names::PACKAGED_SERVICES)?;
        }
        Step::ReportVersion(version) => {
            tools.application_version_set(version)?;
            let note = ctx.charm_dir.join(names::REPORTED_VERSION);
            files::replace(machine, note, version.as_bytes(), &Access::own(0o644))?;
        }
        Step::PublishPartition(relation, bag) => tools.relation_set_app(relation, bag),
        Step::WriteDropIn(text) => {
            if !systemd::ensure_drop_in(machine, names::SERVICE, names::DROP_IN, text)? {
                // The file is right, so what is missing is that systemd reads it.
                systemd::daemon_reload(machine)?;
            }
        }
        Step::WriteAuthKey => {
            let key = memory.offered_key.as_ref().expect("invariant: the key was read before it is to be written");
            keys::ensure_auth_keys(machine, key, names::KEY_OWNER)?;
        }
        Step::WriteOptions(launch) => {
            slurmd::ensure_options(machine, &options(launch))?;
        }
        Step::StartDaemon => {
            memory.tried.start = true;
            systemd::enable(machine, names::SERVICE)?;
            // A unit that failed too often in a short time is else refused for a while.
            systemd::reset_failed(machine, names::SERVICE)?;
            systemd::start_no_block(machine, names::SERVICE)?;
            await_registration(ctx, machine)?;
        }
        Step::RestartDaemon => {
            memory.tried.restart = true;
            systemd::restart_no_block(machine, names::SERVICE)?;
            await_registration(ctx, machine)?;
        }
        Step::ReloadDaemon => {
            memory.tried.reload = true;
            systemd::reload(machine, names::SERVICE)?;
        }
        Step::MarkJoined => {
            memory.tried.mark = true;
            if let Err(error) = scontrol::save_node(machine, &node_name(ctx)) {
                // The node is in the cluster all the same; a later look tries again.
                tracing::warn!("the node is not saved yet: {error}");
            }
        }
        Step::OpenPort => tools.open_port(Port::tcp(names::PORT)),
        Step::StartWaking => {
            timer::ensure_set(machine, &waking(Wake::new(&ctx.unit, names::EVENT_LOOK_AGAIN)))?;
        }
        Step::StopWaking => {
            timer::ensure_ended(machine, &Wake::new(&ctx.unit, names::EVENT_LOOK_AGAIN).name)?;
        }
    }
    Ok(())
}

/// A node registers within a fraction of a second if its controller is there; waiting that long spares a later call.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(200);

/// Waits a moment for a daemon just started to become known. That it does not is no failure: the next look tells.
fn await_registration(ctx: &Context, machine: &Machine) -> Result<(), Error> {
    let end = Instant::now() + PATIENCE;
    let name = node_name(ctx);
    while Instant::now() < end {
        let known = systemd::state(machine, names::SERVICE)?.is_active()
            && matches!(scontrol::node(machine, &name), NodeLookup::Present(_));
        if known {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn node_name(ctx: &Context) -> NodeName {
    NodeName::from_unit(ctx.unit.as_str()).expect("invariant: a unit's name makes a node's name")
}

fn options(launch: &Launch) -> SlurmdOptions {
    SlurmdOptions { name: launch.node_name.clone(), conf: launch.conf.clone(), controllers: launch.controllers.clone() }
}

fn waking(wake: Wake) -> TransientTimer {
    TransientTimer {
        name: wake.name,
        description: "Calls a charm that waits for something".to_owned(),
        first: Wake::FIRST.to_vec(),
        repeat: Wake::REPEAT,
        limit: Wake::PATIENCE,
        command: wake.command,
    }
}
