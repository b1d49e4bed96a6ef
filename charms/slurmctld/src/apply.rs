//! Makes one change. What a step says is done, and what comes of it is seen at the next look. A change that running jobs would pay for is
//! held back where it would be made, because only then slurmctld is asked; that it was is a fact for the next plan.

mod by_hand;
mod configuration;
mod keys;

use crate::error::Error;
use crate::names;
use crate::observe::Memory;
use crate::plan::Step;
use charm::tools::{Grantee, Port};
use charm::{Context, Status, Tools, Wake};
use slurm_ops::files::Access;
use slurm_ops::packages::Obstacle;
use slurm_ops::timer::Rhythm;
use slurm_ops::{Machine, files, needrestart, packages, scontrol, sentinel, systemd, timer};
use std::time::{Duration, Instant};

const RHYTHM: Rhythm = Rhythm { first: &Wake::FIRST, repeat: Wake::REPEAT, limit: Wake::PATIENCE };

/// Makes the change that `step` describes.
pub fn apply(ctx: &Context, tools: &Tools, machine: &Machine, memory: &mut Memory, step: &Step) -> Result<(), Error> {
    memory.forget(step);
    match step {
        Step::InstallPackages(source) => {
            let mut shown = Ok(());
            let begin = || shown = tools.writer().status_set(&Status::maintenance("installing slurmctld"));
            if let Err(error) = packages::ensure_installed(&machine.writer(), source, &names::PACKAGES, begin) {
                tracing::warn!("could not {step}: {error}");
                memory.tried.install = Some(Obstacle::try_from(error)?);
            }
            shown?;
        }
        Step::HoldPackages => {
            memory.tried.hold = true;
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
        Step::PrepareState(note) => {
            files::ensure_directory(&machine.writer(), names::CHECKPOINT_DIRECTORY, &Access::slurm(0o755))?;
            files::ensure_directory(&machine.writer(), names::STATE_DIRECTORY, &Access::slurm(0o700))?;
            sentinel::write_once(&machine.writer(), names::STATE_DIRECTORY, note)?;
        }
        Step::SecureKeys => slurm_ops::keys::ensure_private(&machine.writer(), names::SLURM_USER)?,
        Step::OpenConfiguration => configuration::open(machine)?,
        Step::MakeAuthKey => keys::make_auth_key(machine)?,
        Step::RestoreAuthKey => keys::restore_auth_key(tools, machine)?,
        Step::MakeJwtKey => keys::make_jwt_key(machine)?,
        Step::RestoreJwtKey => keys::restore_jwt_key(tools, machine)?,
        Step::WriteDropIn(text) => {
            if !systemd::ensure_drop_in(&machine.writer(), names::SERVICE, names::DROP_IN, text)? {
                // The file is right, so what is missing is that systemd reads it.
                systemd::daemon_reload(&machine.writer())?;
            }
        }
        Step::WriteFailureService(text) => {
            systemd::ensure_unit_file(&machine.writer(), names::FAILURE_SERVICE, text)?;
        }
        Step::OfferConfiguration { files, version, suspects } => {
            configuration::offer(machine, memory, files, version, suspects)?;
        }
        Step::RestoreConfiguration { refused, suspects, back } => {
            memory.tried.restored = true;
            configuration::restore(machine, refused, suspects, back)?;
        }
        Step::Blame(suspect, reason) => configuration::blame(machine, suspect, reason)?,
        Step::ForgetRefusals(kept) => configuration::keep_refusals(machine, kept)?,
        Step::StartDaemon => {
            memory.tried.start = true;
            start(machine)?;
        }
        Step::Reconfigure { version, suspects, back } => {
            configuration::reconfigure(machine, memory, version, suspects, back)?;
        }
        Step::SavePartitions(partition) => {
            memory.tried.save = true;
            configuration::save_partitions(machine, memory, partition);
        }
        Step::OpenPort => tools.writer().open_port(Port::tcp(names::PORT)),
        Step::AddSecret(label) => {
            keys::add_secret(tools, machine, label)?;
            memory.secrets_made.insert(label);
        }
        Step::RefillSecret(label) => {
            keys::refill_secret(tools, machine, label)?;
            memory.tried.refilled.insert(label);
        }
        Step::GrantSecret(relation) => {
            // Only the leader plans this, and it has just seen the secret.
            if let Some(info) = tools.secret_info_get(names::AUTH_SECRET)? {
                tools.writer().secret_grant(&info.id, relation, Grantee::Application);
            }
            memory.granted.insert(relation.clone());
        }
        Step::PublishPeerApp(relation, bag) | Step::RequestMount(relation, bag) => {
            tools.writer().relation_set_app(relation, bag);
        }
        Step::PublishController(relation, bag) => tools.writer().relation_set_app_mirrored(relation, bag),
        Step::PublishPeerUnit(relation, bag) => tools.writer().relation_set_unit(relation, bag),
        Step::StartWaking => {
            let wake = Wake::new(&ctx.unit, names::EVENT_LOOK_AGAIN);
            timer::ensure_set(&machine.writer(), &wake.name, &wake.command, &RHYTHM)?;
        }
        Step::StopWaking => {
            timer::ensure_ended(&machine.writer(), &Wake::new(&ctx.unit, names::EVENT_LOOK_AGAIN).name)?;
        }
    }
    Ok(())
}

/// slurmctld says that it is ready before it serves; the rest is a matter of moments.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// Starts slurmctld and waits a moment for it to answer. That it does not is no failure: the next look tells.
fn start(machine: &Machine) -> Result<(), Error> {
    systemd::enable(&machine.writer(), names::SERVICE)?;
    // A unit that failed too often in a short time is else refused for a while.
    systemd::reset_failed(&machine.writer(), names::SERVICE)?;
    systemd::start_no_block(&machine.writer(), names::SERVICE)?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let unit = systemd::state(&machine.host(), names::SERVICE)?;
        let answers = unit.is_active()
            && scontrol::ping(&machine.host())
                .is_ok_and(|answers| answers.iter().any(|controller| controller.responding));
        if answers || unit.active == "failed" || unit.sub == "auto-restart" {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
