//! Makes one change. Nothing is decided here: what a step says is done, and what comes of it is seen at the next look.

use crate::change::Change;
use crate::error::Error;
use crate::names;
use crate::observe::{Launch, Memory};
use crate::plan::Step;
use charm::tools::Port;
use charm::{Context, Status, Tools, Wake};
use slurm_conf::{Node, NodeName};
use slurm_ops::files::Access;
use slurm_ops::packages::Obstacle;
use slurm_ops::scontrol::{NodeLookup, ScontrolError};
use slurm_ops::slurmd::SlurmdOptions;
use slurm_ops::timer::Rhythm;
use slurm_ops::{Machine, clock, files, keys, needrestart, packages, scontrol, slurmd, systemd, timer};
use std::time::Duration;

pub const RHYTHM: Rhythm = Rhythm { first: &Wake::FIRST, repeat: Wake::REPEAT, limit: Wake::PATIENCE };

/// Makes the change that `step` describes.
pub fn apply(ctx: &Context, tools: &Tools, machine: &Machine, memory: &mut Memory, step: &Step) -> Result<(), Error> {
    if let Step::StartDaemon | Step::RestartDaemon | Step::ReloadDaemon = step {
        memory.silence = None;
    }
    let tried = &mut memory.tried;
    match step {
        Step::InstallPackages(source) => {
            let mut shown = Ok(());
            let begin = || shown = tools.writer().status_set(&Status::maintenance("installing slurmd"));
            if let Err(error) = packages::ensure_installed(&machine.writer(), source, &names::PACKAGES, begin) {
                tracing::warn!("could not {step}: {error}");
                tried.install = Some(Obstacle::try_from(error)?);
            }
            shown?;
        }
        Step::HoldPackages => {
            tried.hold = true;
            if let Err(error) = packages::ensure_held(&machine.writer(), &names::PACKAGES) {
                tracing::warn!("could not {step}: {error}");
                Obstacle::try_from(error)?;
            }
        }
        Step::LeaveAlone => {
            needrestart::ensure_left_alone(&machine.writer(), names::NEEDRESTART, &[names::SERVICE])?;
        }
        Step::ReportVersion(version) => {
            tools.writer().application_version_set(version)?;
            let note = ctx.charm_dir.join(names::REPORTED_VERSION);
            files::replace(&machine.writer(), note, version.as_bytes(), &Access::own(0o644))?;
        }
        Step::PublishPartition(relation, bag) => tools.writer().relation_set_app_mirrored(relation, bag),
        Step::WriteAlarm(text) => {
            systemd::ensure_unit_file(&machine.writer(), names::ALARM, text)?;
        }
        Step::WriteDropIn(text) => {
            if !systemd::ensure_drop_in(&machine.writer(), names::SERVICE, names::DROP_IN, text)? {
                // The file is right, so what is missing is that systemd reads it.
                systemd::daemon_reload(&machine.writer())?;
            }
        }
        Step::WriteAuthKey => {
            let key = memory.offered_key.as_ref().expect("invariant: the key was read before it is to be written");
            let shared = files::exists(&machine.host(), names::SLURM_CONF);
            keys::ensure_auth_keys(&machine.writer(), key, if shared { names::SLURM_USER } else { names::KEY_OWNER })?;
        }
        Step::WriteOptions(launch) => {
            slurmd::ensure_options(&machine.writer(), &options(launch))?;
        }
        Step::TakeBackWish { refused, proven } => {
            tried.taken_back = true;
            tried.start = false;
            // What is told first is told again if this is the end of it.
            let note = format!("{}\n{}\n", refused.wish, one_line(&refused.reason));
            remember(machine, names::REFUSED_CONFIG_FILE, &note)?;
            remember(machine, names::NODE_CONFIG_FILE, &wish_text(proven))?;
        }
        Step::RememberWish(wish) => remember(machine, names::PROVEN_CONFIG_FILE, &wish_text(wish))?,
        Step::NoteAddress(address) => {
            files::replace(
                &machine.writer(),
                names::ADDRESS_FILE,
                format!("{address}\n").as_bytes(),
                &Access::own(0o644),
            )?;
        }
        Step::StartDaemon => {
            tried.start = true;
            systemd::enable(&machine.writer(), names::SERVICE)?;
            // A unit that failed too often in a short time is else refused for a while.
            systemd::reset_failed(&machine.writer(), names::SERVICE)?;
            // What systemd has lost sight of would keep the port, from its own attempts as well.
            tell_of(&slurmd::remnants::end(&machine.writer(), names::SERVICE)?);
            systemd::start_no_block(&machine.writer(), names::SERVICE)?;
            await_registration(ctx, machine)?;
        }
        Step::RestartDaemon => {
            tried.restart = true;
            // Restarts that were asked for count as well, and several of them are no failure.
            systemd::reset_failed(&machine.writer(), names::SERVICE)?;
            systemd::restart_no_block(&machine.writer(), names::SERVICE)?;
            await_registration(ctx, machine)?;
        }
        Step::ReloadDaemon => {
            tried.reload = true;
            systemd::reload(&machine.writer(), names::SERVICE)?;
        }
        Step::RememberDetection { invocation, known, found } => {
            remember(machine, names::DETECTED_FILE, &format!("{invocation}\n{known}\n{found}\n"))?;
        }
        Step::BeginChange(change) => remember(machine, names::CHANGE_FILE, &change.render())?,
        Step::ForgetWeight => {
            files::remove(&machine.writer(), names::WEIGHT_FILE)?;
        }
        Step::ForgetChange => {
            files::remove(&machine.writer(), names::CHANGE_FILE)?;
        }
        Step::OpenPort => tools.writer().open_port(Port::tcp(names::PORT)),
        Step::StartWaking => {
            let wake = Wake::new(&ctx.unit, names::EVENT_LOOK_AGAIN);
            timer::ensure_set(&machine.writer(), &wake.name, &wake.command, &RHYTHM)?;
        }
        Step::StopWaking => {
            timer::ensure_ended(&machine.writer(), &Wake::new(&ctx.unit, names::EVENT_LOOK_AGAIN).name)?;
        }
        Step::MarkJoined
        | Step::SetFeatures(_)
        | Step::SetWeight(_)
        | Step::ResetWeight(_)
        | Step::CloseNode { .. }
        | Step::DeleteNode
        | Step::RestoreNode(_)
        | Step::ReopenNode { .. } => {
            if let Step::SetWeight(weight) = step {
                // Before it is set: a weight that nobody noted would pass for an administrator's.
                remember(machine, names::WEIGHT_FILE, &format!("{weight}\n"))?;
            }
            if let Step::MarkJoined | Step::RestoreNode(_) = step {
                let note = format!("{}\n", clock::now());
                files::replace(&machine.writer(), names::MARKED_FILE, note.as_bytes(), &Access::own(0o644))?;
            }
            if let Err(error) = tell_slurm(machine, &node_name(ctx), memory, step) {
                // Slurm may have changed its mind or gone away since it was asked. A later look finds out, and tries again.
                tracing::warn!("could not {step}: {error}");
            }
        }
    }
    Ok(())
}

/// Returns what the operator asked for as it is kept.
pub fn wish_text(wish: &Node) -> String {
    if wish.is_empty() { String::new() } else { format!("{wish}\n") }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Keeps a note for later dispatches of this charm.
pub fn remember(machine: &Machine, path: &str, text: &str) -> Result<(), Error> {
    files::ensure_directory(&machine.writer(), names::STATE_DIRECTORY, &Access::own(0o700))?;
    files::replace(&machine.writer(), path, text.as_bytes(), &Access::own(0o600))?;
    Ok(())
}

/// The steps that change the controllers' record of this node.
fn tell_slurm(machine: &Machine, node: &NodeName, memory: &mut Memory, step: &Step) -> Result<(), ScontrolError> {
    let tried = &mut memory.tried;
    match step {
        Step::MarkJoined => {
            tried.mark = true;
            scontrol::save_node(&machine.writer(), node)
        }
        Step::SetFeatures(features) => {
            tried.in_place = true;
            scontrol::set_node_features(&machine.writer(), node, features)
        }
        Step::SetWeight(weight) | Step::ResetWeight(weight) => {
            tried.in_place = true;
            scontrol::set_node_weight(&machine.writer(), node, *weight)
        }
        Step::CloseNode { drain } => {
            if *drain {
                tried.drain = true;
                scontrol::drain_node(&machine.writer(), node, names::CHANGE_REASON)?;
            }
            tried.mark_old = true;
            scontrol::set_node_comment(&machine.writer(), node, names::CHANGE_COMMENT)
        }
        Step::DeleteNode => {
            tried.delete = true;
            scontrol::delete_node(&machine.writer(), node)
        }
        Step::RestoreNode(change) => {
            tried.restore = true;
            restore(machine, node, change)
        }
        Step::ReopenNode { resume, comment } => {
            tried.reopen = true;
            scontrol::set_node_comment(&machine.writer(), node, comment)?;
            if *resume {
                scontrol::resume_node(&machine.writer(), node)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Gives a node back what it had, beyond what it brought along.
fn restore(machine: &Machine, node: &NodeName, change: &Change) -> Result<(), ScontrolError> {
    if let Some(closed) = &change.closed {
        let has = |state: &str| closed.states.iter().any(|known| known == state);
        let reason = closed.reason.as_str();
        if has("FAIL") {
            scontrol::fail_node(&machine.writer(), node, reason)?;
        }
        if has("DOWN") && has("DRAIN") {
            scontrol::drain_node(&machine.writer(), node, reason)?;
        }
        scontrol::set_node_reason(&machine.writer(), node, reason)?;
    }
    if let Some(weight) = change.weight {
        scontrol::set_node_weight(&machine.writer(), node, weight)?;
    }
    if !change.features.is_empty()
        && let NodeLookup::Present(record) = scontrol::node(&machine.host(), node)
    {
        let mut features = record.features;
        features
            .extend(change.features.iter().filter(|feature| !features.contains(feature)).cloned().collect::<Vec<_>>());
        scontrol::set_node_features(&machine.writer(), node, &features)?;
    }
    scontrol::set_node_notes(&machine.writer(), node, &change.notes)?;
    scontrol::set_node_comment(&machine.writer(), node, change.comment())
}

/// A node registers within a fraction of a second if its controller is there; waiting that long spares a later call.
const PATIENCE: Duration = Duration::from_secs(3);

/// Waits a moment for a daemon just started to become known. That it does not is no failure: the next look tells.
fn await_registration(ctx: &Context, machine: &Machine) -> Result<(), Error> {
    tell_of(&slurmd::remnants::await_start(&machine.writer(), names::SERVICE, &node_name(ctx), PATIENCE)?);
    Ok(())
}

fn tell_of(ended: &[u32]) {
    if !ended.is_empty() {
        tracing::warn!("killed slurmd processes {ended:?}, which did not go or were left behind; jobs go on");
    }
}

fn node_name(ctx: &Context) -> NodeName {
    NodeName::from_unit(ctx.unit.as_str()).expect("invariant: a unit's name makes a node's name")
}

fn options(launch: &Launch) -> SlurmdOptions {
    SlurmdOptions { name: launch.node_name.clone(), conf: launch.conf.clone(), controllers: launch.controllers.clone() }
}
