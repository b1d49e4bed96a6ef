//! Makes one change. Nothing is decided here: what a step says is done, and what comes of it is seen at the next look.

mod configuration;

use crate::error::Error;
use crate::names;
use crate::observe::Memory;
use crate::plan::Step;
use charm::tools::{Grantee, Port, SecretAnswer, SecretContent};
use charm::{Context, Tools, Wake};
use slurm_ops::files::Access;
use slurm_ops::keys::{AuthKey, JwtKey, KeySet};
use slurm_ops::timer::TransientTimer;
use slurm_ops::{Machine, files, keys, packages, scontrol, systemd, timer};
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
        Step::PrepareStateDirectory => {
            files::ensure_directory(machine, names::CHECKPOINT_DIRECTORY, &Access::slurm(0o755))?;
            files::ensure_directory(machine, names::STATE_DIRECTORY, &Access::slurm(0o700))?;
        }
        Step::MakeAuthKey => {
            keys::ensure_auth_keys(machine, &KeySet::of(AuthKey::generate()?), names::SLURM_USER)?;
        }
        Step::RestoreAuthKey => restore_auth_key(tools, machine)?,
        Step::MakeJwtKey => {
            keys::ensure_jwt_key(machine, &JwtKey::generate()?, names::SLURM_USER)?;
        }
        Step::WriteCgroupConf(text) => {
            files::replace(machine, names::CGROUP_CONF, text.as_bytes(), &Access::slurm(0o644))?;
        }
        Step::WriteDropIn(text) => {
            if !systemd::ensure_drop_in(machine, names::SERVICE, names::DROP_IN, text)? {
                // The file is right, so what is missing is that systemd reads it.
                systemd::daemon_reload(machine)?;
            }
        }
        Step::OfferConfiguration(text) => configuration::offer(machine, text)?,
        Step::RestoreConfiguration(refused) => configuration::restore(machine, refused)?,
        Step::StartDaemon => {
            memory.tried.start = true;
            start(machine)?;
        }
        Step::Reconfigure => memory.tried.reconfigure = configuration::reconfigure(machine)?,
        Step::SavePartitions(partition) => {
            memory.tried.save = true;
            configuration::save_partitions(machine, partition);
        }
        Step::OpenPort => tools.open_port(Port::tcp(names::PORT)),
        Step::AddSecret => {
            add_secret(tools, machine)?;
            memory.secret_made = true;
        }
        Step::GrantSecret(relation) => {
            // Only the leader plans this, and it has just seen the secret.
            if let Some(info) = tools.secret_info_get(names::SECRET_LABEL)? {
                tools.secret_grant(&info.id, relation, Grantee::Application);
            }
            memory.granted.insert(relation.clone());
        }
        Step::PublishPeerApp(relation, bag) | Step::PublishController(relation, bag) => {
            tools.relation_set_app(relation, bag);
        }
        Step::PublishPeerUnit(relation, bag) => tools.relation_set_unit(relation, bag),
        Step::StartWaking => {
            timer::ensure_set(machine, &waking(Wake::new(&ctx.unit, names::EVENT_LOOK_AGAIN)))?;
        }
        Step::StopWaking => {
            timer::ensure_ended(machine, &Wake::new(&ctx.unit, names::EVENT_LOOK_AGAIN).name)?;
        }
    }
    Ok(())
}

fn add_secret(tools: &Tools, machine: &Machine) -> Result<(), Error> {
    let keys = keys::read_auth_keys(machine)?;
    let Some(key) = keys.as_ref().and_then(|keys| keys.keys().first()) else {
        return Err(Error::KeyLost { label: names::SECRET_LABEL });
    };
    let content = SecretContent::default().with(names::SECRET_KEY, key.expose()).with(names::SECRET_KEY_ID, key.id());
    tools.secret_add(names::SECRET_LABEL, names::SECRET_DESCRIPTION, &content)?;
    Ok(())
}

fn restore_auth_key(tools: &Tools, machine: &Machine) -> Result<(), Error> {
    let lost = || Error::KeyLost { label: names::SECRET_LABEL };
    let SecretAnswer::Content(content) = tools.secret_get_label(names::SECRET_LABEL)? else { return Err(lost()) };
    let parts = content.get(names::SECRET_KEY_ID).zip(content.get(names::SECRET_KEY));
    let (id, key) = parts.ok_or_else(lost)?;
    keys::ensure_auth_keys(machine, &KeySet::of(AuthKey::new(id, key)?), names::SLURM_USER)?;
    Ok(())
}

/// slurmctld says that it is ready before it serves; the rest is a matter of moments.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// Starts slurmctld and waits a moment for it to answer. That it does not is no failure: the next look tells.
fn start(machine: &Machine) -> Result<(), Error> {
    systemd::enable(machine, names::SERVICE)?;
    // A unit that failed too often in a short time is else refused for a while.
    systemd::reset_failed(machine, names::SERVICE)?;
    systemd::start_no_block(machine, names::SERVICE)?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let unit = systemd::state(machine, names::SERVICE)?;
        let answers = unit.is_active()
            && scontrol::ping(machine).is_ok_and(|answers| answers.iter().any(|controller| controller.responding));
        if answers || unit.active == "failed" {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
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
