//! Makes one change, and says what is known afterwards. Nothing is decided here.

use crate::facts::{Fact, Facts, Question, conf_path, open};
use crate::names;
use crate::step::{Outcome, Step};
use charm::tools::Port;
use slurm_ops::{files, keys, slurmrestd, systemd};
use slurm_unit::install::InstallStep;
use slurm_unit::{Error, Hands, note};
use std::time::Duration;

/// slurmrestd listens within a fraction of a second; waiting that long spares a later call.
const PATIENCE: Duration = Duration::from_secs(3);

/// Makes the change that `step` describes.
pub fn apply(hands: &Hands, step: &Step) -> Result<Outcome, Error> {
    let writer = &hands.host;
    match step {
        Step::Install(step) => {
            return Ok(step.apply(hands, &names::PROFILE)?.map_or(Outcome::Done, Outcome::InTheWay));
        }
        Step::Service(step) => step.apply(hands, &names::PROFILE)?,
        Step::AddUser => slurmrestd::add_user(writer, names::USER)?,
        Step::WriteFiles(texts) => {
            for (name, text) in texts {
                files::replace(writer, conf_path(name), text.as_bytes(), &open())?;
            }
        }
        Step::RemoveFiles(names) => {
            for name in names {
                files::remove(writer, conf_path(name))?;
            }
        }
        Step::RemoveKey => {
            files::remove(writer, keys::AUTH_KEY_FILE)?;
        }
        Step::WriteOptions(options) => {
            slurmrestd::ensure_options(writer, options)?;
        }
        Step::StartDaemon => {
            systemd::enable(writer, names::SERVICE)?;
            // A unit that failed too often in a short time is else refused for a while.
            systemd::reset_failed(writer, names::SERVICE)?;
            systemd::start_no_block(writer, names::SERVICE)?;
            slurmrestd::await_listening(writer, PATIENCE)?;
        }
        Step::RestartDaemon => {
            systemd::reset_failed(writer, names::SERVICE)?;
            systemd::restart(writer, names::SERVICE)?;
            slurmrestd::await_listening(writer, PATIENCE)?;
        }
        Step::NoteLoaded(loaded) => note::write(writer, loaded)?,
        Step::Acknowledge(relation, bag) => hands.juju.relation_set_unit(relation, bag),
        Step::OpenPort => hands.juju.open_port(Port::tcp(names::PORT)),
        Step::ClosePort => hands.juju.close_port(Port::tcp(names::PORT)),
        Step::StopDaemon => {
            systemd::disable(writer, names::SERVICE)?;
            systemd::stop(writer, names::SERVICE)?;
        }
        Step::RemoveOptions => {
            slurmrestd::remove_options(writer)?;
        }
    }
    Ok(Outcome::Done)
}

/// What is known only until something happens to slurmrestd.
const IN_THE_DAEMON: [Question; 3] = [Question::Daemon, Question::Listening, Question::Complaint];

/// Takes over what a step has changed.
pub fn learn(facts: &mut Facts, step: &Step, _: &Outcome) {
    match step {
        Step::Install(InstallStep::Install(_)) => {
            facts.forget(&[Question::Installation, Question::Plugins, Question::Daemon, Question::User]);
        }
        Step::Install(_) => facts.forget(&[Question::Installation]),
        Step::Service(step) => {
            if let Ok(files) = facts.service_files().cloned() {
                facts.learn(Fact::ServiceFiles(files.after(step)));
            }
            facts.forget(&[Question::Daemon, Question::Written]);
        }
        Step::AddUser => facts.forget(&[Question::User, Question::Files]),
        Step::WriteFiles(_) | Step::RemoveFiles(_) => facts.forget(&[Question::Files, Question::Written]),
        Step::RemoveKey => facts.forget(&[Question::Files]),
        Step::WriteOptions(options) => {
            facts.learn(Fact::Options(Some(options.clone())));
            facts.forget(&[Question::Written]);
        }
        Step::StartDaemon | Step::RestartDaemon | Step::StopDaemon => facts.forget(&IN_THE_DAEMON),
        Step::NoteLoaded(loaded) => facts.learn(Fact::Loaded(loaded.clone())),
        Step::Acknowledge(..) => facts.forget(&[Question::OwnBag]),
        Step::OpenPort => facts.learn(Fact::PortOpen(true)),
        Step::ClosePort => facts.learn(Fact::PortOpen(false)),
        Step::RemoveOptions => {
            facts.learn(Fact::Options(None));
            facts.forget(&[Question::Written]);
        }
    }
}
