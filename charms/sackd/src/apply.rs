//! Makes one change, and says what is known afterwards. Nothing is decided here.

use crate::facts::{Fact, Facts, Question};
use crate::names;
use crate::step::{Outcome, Step};
use charm::tools::Port;
use slurm_ops::{files, keys, sackd, systemd};
use slurm_unit::install::InstallStep;
use slurm_unit::{Error, Hands, note};
use std::time::Duration;

/// sackd fetches its configuration within a fraction of a second if a controller is there; waiting that long spares a
/// later call.
const PATIENCE: Duration = Duration::from_secs(3);

/// Makes the change that `step` describes.
pub fn apply(hands: &Hands, step: &Step) -> Result<Outcome, Error> {
    let writer = &hands.host;
    match step {
        Step::Install(step) => {
            return Ok(step.apply(hands, &names::PROFILE)?.map_or(Outcome::Done, Outcome::InTheWay));
        }
        Step::Service(step) => step.apply(hands, &names::PROFILE)?,
        Step::WriteKey(keys) => {
            keys::ensure_auth_keys(writer, keys, names::SLURM_USER)?;
        }
        Step::WriteOptions(controllers) => {
            sackd::ensure_controllers(writer, controllers)?;
        }
        Step::StartDaemon => {
            systemd::enable(writer, names::SERVICE)?;
            // A unit that failed too often in a short time is else refused for a while.
            systemd::reset_failed(writer, names::SERVICE)?;
            systemd::start_no_block(writer, names::SERVICE)?;
            sackd::await_configuration(writer, names::FETCHED_CONF, PATIENCE);
        }
        Step::RestartDaemon => {
            systemd::reset_failed(writer, names::SERVICE)?;
            systemd::restart_no_block(writer, names::SERVICE)?;
            sackd::await_configuration(writer, names::FETCHED_CONF, PATIENCE);
        }
        Step::ReloadDaemon => systemd::reload(writer, names::SERVICE)?,
        Step::NoteLoaded(loaded) => note::write(writer, loaded)?,
        Step::Acknowledge(relation, bag) => hands.juju.relation_set_unit(relation, bag),
        Step::OpenPort => hands.juju.open_port(Port::tcp(names::PORT)),
        Step::ClosePort => hands.juju.close_port(Port::tcp(names::PORT)),
        Step::StopDaemon => {
            systemd::disable(writer, names::SERVICE)?;
            systemd::stop(writer, names::SERVICE)?;
        }
        Step::RemoveTraces { key } => {
            if *key {
                files::remove(writer, keys::AUTH_KEY_FILE)?;
            }
            sackd::remove_options(writer)?;
        }
    }
    Ok(Outcome::Done)
}

/// What is known only until something happens to sackd.
const IN_THE_DAEMON: [Question; 5] =
    [Question::Daemon, Question::Answers, Question::Fetched, Question::Cause, Question::Complaint];

/// Takes over what a step has changed.
pub fn learn(facts: &mut Facts, step: &Step, _: &Outcome) {
    match step {
        Step::Install(InstallStep::Install(_)) => facts.forget(&[Question::Installation, Question::Daemon]),
        Step::Install(_) => facts.forget(&[Question::Installation]),
        Step::Service(step) => {
            if let Ok(files) = facts.service_files().cloned() {
                facts.learn(Fact::ServiceFiles(files.after(step)));
            }
            facts.forget(&[Question::Daemon]);
        }
        Step::WriteKey(_) => facts.forget(&[Question::KeyFile]),
        Step::WriteOptions(controllers) => {
            facts.learn(Fact::StartFile(Some(controllers.clone())));
            facts.forget(&[Question::StartFileWritten]);
        }
        Step::StartDaemon | Step::RestartDaemon | Step::ReloadDaemon | Step::StopDaemon => {
            facts.forget(&IN_THE_DAEMON);
        }
        Step::NoteLoaded(loaded) => facts.learn(Fact::Loaded(loaded.clone())),
        Step::Acknowledge(..) => facts.forget(&[Question::OwnBag]),
        Step::OpenPort => facts.learn(Fact::PortOpen(true)),
        Step::ClosePort => facts.learn(Fact::PortOpen(false)),
        Step::RemoveTraces { .. } => {
            facts.learn(Fact::StartFile(None));
            facts.forget(&[Question::StartFileWritten, Question::KeyFile]);
        }
    }
}
