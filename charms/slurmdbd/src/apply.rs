//! Makes one change, and says what is known afterwards. Nothing is decided here.

use crate::conf;
use crate::facts::{Fact, Facts, Question};
use crate::names;
use crate::step::{Outcome, Step};
use charm::tools::Port;
use slurm_ops::files::{self, Access};
use slurm_ops::{keys, slurmdbd, systemd};
use slurm_unit::install::InstallStep;
use slurm_unit::{Error, Hands, note};
use std::time::Duration;

/// slurmdbd answers within a second if its tables are there; waiting that long spares a later call.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes the change that `step` describes.
pub fn apply(hands: &Hands, step: &Step) -> Result<Outcome, Error> {
    let (writer, juju) = (&hands.host, &hands.juju);
    match step {
        Step::Install(step) => {
            return Ok(step.apply(hands, &names::PROFILE)?.map_or(Outcome::Done, Outcome::InTheWay));
        }
        Step::Service(step) => step.apply(hands, &names::PROFILE)?,
        Step::RequestDatabase(relation, bag) => juju.relation_set_app(relation, bag),
        Step::WriteKey(keys) => {
            keys::ensure_auth_keys(writer, keys, names::SLURM_USER)?;
        }
        Step::WriteJwtKey(key) => {
            keys::ensure_jwt_key(writer, key, names::SLURM_USER)?;
        }
        Step::WriteSocket(socket) => {
            slurmdbd::ensure_socket(writer, socket.as_deref())?;
        }
        Step::WriteClientConf => {
            let (directory, _) = names::CLIENT_CONF.rsplit_once('/').expect("invariant: a path");
            files::ensure_directory(writer, directory, &Access::own(0o700))?;
            files::replace(writer, names::CLIENT_CONF, conf::CLIENT_CONF.as_bytes(), &Access::own(0o600))?;
        }
        Step::TryConf(text) => {
            let refused = slurmdbd::try_conf(writer, text, names::TRIAL_DIRECTORY)?;
            return Ok(refused.map_or(Outcome::Done, Outcome::Refused));
        }
        Step::WriteConf { text, .. } => {
            slurmdbd::ensure_conf(writer, text)?;
        }
        Step::NoteParameters(tried) => note::write(writer, tried)?,
        Step::StartDaemon => {
            systemd::enable(writer, names::SERVICE)?;
            // A unit that failed too often in a short time is else refused for a while.
            systemd::reset_failed(writer, names::SERVICE)?;
            systemd::start_no_block(writer, names::SERVICE)?;
            slurmdbd::await_answer(writer, names::CLIENT_CONF, PATIENCE);
        }
        Step::RestartDaemon => {
            systemd::reset_failed(writer, names::SERVICE)?;
            systemd::restart_no_block(writer, names::SERVICE)?;
            slurmdbd::await_answer(writer, names::CLIENT_CONF, PATIENCE);
        }
        Step::ReloadDaemon => systemd::reload(writer, names::SERVICE)?,
        Step::NoteLoaded(loaded) => note::write(writer, loaded)?,
        Step::Acknowledge(relation, bag) => juju.relation_set_unit(relation, bag),
        Step::OpenPort => juju.open_port(Port::tcp(names::PORT)),
        Step::ClosePort => juju.close_port(Port::tcp(names::PORT)),
        Step::PublishHost(relation, bag) => juju.relation_set_app_mirrored(relation, bag),
        Step::PublishToPeers(relation, bag) => juju.relation_set_unit(relation, bag),
        Step::StopDaemon => {
            systemd::disable(writer, names::SERVICE)?;
            systemd::stop(writer, names::SERVICE)?;
        }
        Step::RemoveKeys => {
            files::remove(writer, keys::AUTH_KEY_FILE)?;
            files::remove(writer, keys::JWT_KEY_FILE)?;
        }
        Step::RemoveConf => {
            files::remove(writer, slurmdbd::CONF_FILE)?;
        }
    }
    Ok(Outcome::Done)
}

/// What is known only until something happens to slurmdbd.
const IN_THE_DAEMON: [Question; 4] = [Question::Daemon, Question::Answers, Question::Said, Question::Clusters];

/// Takes over what a step has changed.
pub fn learn(facts: &mut Facts, step: &Step, _: &Outcome) {
    match step {
        Step::Install(InstallStep::Install(_)) => {
            facts.forget(&[Question::Installation, Question::Daemon, Question::TakesTokens, Question::Newest]);
        }
        Step::Install(_) => facts.forget(&[Question::Installation]),
        Step::Service(step) => {
            if let Ok(files) = facts.service_files().cloned() {
                facts.learn(Fact::ServiceFiles(files.after(step)));
            }
            facts.forget(&[Question::Daemon]);
        }
        Step::RequestDatabase(..) => facts.forget(&[Question::Requested]),
        Step::WriteKey(_) => facts.forget(&[Question::KeyFile, Question::Newest]),
        Step::WriteJwtKey(key) => {
            facts.learn(Fact::JwtFile(Some(key.clone())));
            facts.forget(&[Question::KeyFile, Question::Newest]);
        }
        Step::WriteSocket(socket) => {
            facts.learn(Fact::Socket(socket.clone()));
            facts.forget(&[Question::Newest]);
        }
        Step::WriteClientConf => facts.learn(Fact::ClientConf(Some(conf::CLIENT_CONF.to_owned()))),
        Step::TryConf(_) => {}
        Step::WriteConf { .. } => facts.forget(&[Question::Conf, Question::Newest]),
        Step::NoteParameters(tried) => facts.learn(Fact::Tried(tried.clone())),
        Step::StartDaemon | Step::RestartDaemon | Step::ReloadDaemon | Step::StopDaemon => {
            facts.forget(&IN_THE_DAEMON);
        }
        Step::NoteLoaded(loaded) => facts.learn(Fact::Loaded(loaded.clone())),
        Step::Acknowledge(..) => facts.forget(&[Question::OwnBag]),
        Step::OpenPort => facts.learn(Fact::PortOpen(true)),
        Step::ClosePort => facts.learn(Fact::PortOpen(false)),
        Step::PublishHost(..) => facts.forget(&[Question::Published]),
        Step::PublishToPeers(..) => facts.forget(&[Question::Peer]),
        Step::RemoveKeys => facts.forget(&[Question::KeyFile, Question::JwtFile, Question::Newest]),
        Step::RemoveConf => facts.forget(&[Question::Conf, Question::Newest]),
    }
}
