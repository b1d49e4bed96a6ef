//! Makes one change, and says what is known afterwards. Nothing is decided here.

use crate::condition::Condition;
use crate::facts::{Boot, Fact, Facts, KeyFile, Notes, Question, StartFile, node_name};
use crate::names;
use crate::node::lifecycle::{self, BootNote};
use crate::node::reregistration::Reregistration;
use crate::step::{Outcome, Step};
use charm::Status;
use charm::runtime::Condition as _;
use charm::tools::Port;
use slurm_conf::NodeName;
use slurm_ops::scontrol::{self, ScontrolError};
use slurm_ops::{HostWriter, clock, files, keys, slurmd, systemd};
use slurm_unit::install::InstallStep;
use slurm_unit::{Error, Hands, LEAVING_REASON, note};
use std::time::Duration;

/// A node registers within a fraction of a second if its controller is there; waiting that long spares a later call.
const PATIENCE: Duration = Duration::from_secs(3);

/// Makes the change that `step` describes.
pub fn apply(hands: &Hands, step: &Step) -> Result<Outcome, Error> {
    let writer = &hands.host;
    let node = node_name(&hands.ctx.unit);
    match step {
        Step::Install(step) => {
            return Ok(step.apply(hands, &names::PROFILE)?.map_or(Outcome::Done, Outcome::InTheWay));
        }
        Step::Service(step) => step.apply(hands, &names::PROFILE)?,
        Step::PublishPartition(relation, bag) => hands.juju.relation_set_app_mirrored(relation, bag),
        Step::WriteKey { keys, owner } => {
            keys::ensure_auth_keys(writer, keys, owner)?;
        }
        Step::WriteOptions(options) => {
            slurmd::ensure_options(writer, options)?;
        }
        Step::WriteNote(note, _) => note::write(writer, &**note)?,
        Step::RemoveOldNotes => lifecycle::remove_old(writer)?,
        Step::NoteForBoot(boot) => note::write(writer, boot)?,
        Step::StartDaemon => {
            systemd::enable(writer, names::SERVICE)?;
            // A unit that failed too often in a short time is else refused for a while.
            systemd::reset_failed(writer, names::SERVICE)?;
            // What systemd has lost sight of would keep the port, from its own attempts as well.
            tell_of(&slurmd::remnants::end(writer, names::SERVICE)?);
            systemd::start_no_block(writer, names::SERVICE)?;
            tell_of(&slurmd::remnants::await_start(writer, names::SERVICE, &node, PATIENCE)?);
        }
        Step::RestartDaemon => {
            // Restarts that were asked for count as well, and several of them are no failure.
            systemd::reset_failed(writer, names::SERVICE)?;
            systemd::restart_no_block(writer, names::SERVICE)?;
            tell_of(&slurmd::remnants::await_start(writer, names::SERVICE, &node, PATIENCE)?);
        }
        Step::ReloadDaemon => systemd::reload(writer, names::SERVICE)?,
        Step::Acknowledge(relation, bag) => hands.juju.relation_set_unit(relation, bag),
        Step::OpenPort => hands.juju.open_port(Port::tcp(names::PORT)),
        Step::ClosePort => hands.juju.close_port(Port::tcp(names::PORT)),
        Step::MarkJoined(boot) => {
            let marked = note_mark(writer, boot)?;
            tell(step, scontrol::save_node(writer, &node));
            return Ok(marked);
        }
        Step::RestoreNode { change, features, boot } => {
            let marked = note_mark(writer, boot)?;
            tell(step, restore(writer, &node, change, features));
            return Ok(marked);
        }
        Step::SetFeatures(features) => tell(step, scontrol::set_node_features(writer, &node, features)),
        Step::SetWeight(weight) => tell(step, scontrol::set_node_weight(writer, &node, *weight)),
        Step::CloseNode { drain } => tell(step, close(writer, &node, *drain)),
        Step::DeleteNode => tell(step, scontrol::delete_node(writer, &node)),
        Step::ReopenNode { resume, comment } => tell(step, reopen(writer, &node, *resume, comment)),
        Step::DrainNode => tell(step, scontrol::drain_nodes(writer, &node, LEAVING_REASON)),
        Step::CancelJobs(handles) => tell(step, scontrol::cancel_jobs(writer, handles.clone())),
        Step::StopDaemon => {
            systemd::disable(writer, names::SERVICE)?;
            systemd::stop(writer, names::SERVICE)?;
            tell_of(&slurmd::remnants::end(writer, names::SERVICE)?);
        }
        Step::RemoveTraces { key } => {
            if *key {
                files::remove(writer, keys::AUTH_KEY_FILE)?;
            }
            files::empty_directory(writer, names::CONF_CACHE)?;
            slurmd::remove_options(writer)?;
        }
        Step::Wait { pause, .. } => writer.pause(*pause),
    }
    Ok(Outcome::Done)
}

/// Slurm may have changed its mind or gone away since it was asked. A later look finds out, and tries again.
fn tell(step: &Step, done: Result<(), ScontrolError>) {
    if let Err(error) = done {
        tracing::warn!("could not {step}: {error}");
    }
}

fn tell_of(ended: &[u32]) {
    if !ended.is_empty() {
        tracing::warn!("killed slurmd processes {ended:?}, which did not go or were left behind; jobs go on");
    }
}

fn note_mark(writer: &HostWriter, boot: &BootNote) -> Result<Outcome, Error> {
    let now = clock::now();
    note::write(writer, &BootNote { marked: Some(now), ..boot.clone() })?;
    Ok(Outcome::Marked(now))
}

fn close(writer: &HostWriter, node: &NodeName, drain: bool) -> Result<(), ScontrolError> {
    if drain {
        scontrol::drain_nodes(writer, node, names::CHANGE_REASON)?;
    }
    scontrol::set_node_comment(writer, node, names::CHANGE_COMMENT)
}

fn reopen(writer: &HostWriter, node: &NodeName, resume: bool, comment: &str) -> Result<(), ScontrolError> {
    scontrol::set_node_comment(writer, node, comment)?;
    if resume {
        scontrol::resume_nodes(writer, node)?;
        scontrol::await_contact(writer, node, PATIENCE);
    }
    Ok(())
}

/// Gives a node back what it had, beyond what it brought along.
fn restore(
    writer: &HostWriter,
    node: &NodeName,
    change: &Reregistration,
    features: &[String],
) -> Result<(), ScontrolError> {
    if let Some(closed) = &change.closed {
        let has = |state: &str| closed.states.iter().any(|known| known == state);
        let reason = closed.reason.as_str();
        if has("FAIL") {
            scontrol::fail_node(writer, node, reason)?;
        }
        if has("DOWN") && has("DRAIN") {
            scontrol::drain_nodes(writer, node, reason)?;
        }
        scontrol::set_node_reason(writer, node, reason)?;
    }
    if let Some(weight) = change.weight {
        scontrol::set_node_weight(writer, node, weight)?;
    }
    if !change.features.is_empty() {
        scontrol::set_node_features(writer, node, features)?;
    }
    scontrol::set_node_notes(writer, node, &change.notes)?;
    scontrol::set_node_comment(writer, node, change.comment())
}

/// Says what a slow step is doing.
pub fn announce(step: &Step) -> Option<Status> {
    match step {
        Step::Wait { hold, leader, .. } => Some(Condition::Departing { hold: hold.clone(), leader: *leader }.status()),
        _ => None,
    }
}

/// What Slurm knows, and what follows from it.
const IN_SLURM: [Question; 6] = [
    Question::Glance,
    Question::Node,
    Question::MovedFrom,
    Question::StaleProcesses,
    Question::Occupancy,
    Question::LocalJobs,
];
/// What a start or a reload of slurmd changes besides.
const IN_THE_DAEMON: [Question; 5] =
    [Question::Daemon, Question::PartitionState, Question::Cause, Question::Complaint, Question::Skew];

/// Takes over what a step has changed.
pub fn learn(facts: &mut Facts, step: &Step, outcome: &Outcome) {
    match step {
        Step::Install(InstallStep::Install(_)) => {
            facts.forget(&[Question::Installation, Question::Daemon, Question::Detected]);
        }
        Step::Install(_) => facts.forget(&[Question::Installation]),
        Step::Service(step) => {
            if let Ok(files) = facts.service_files().cloned() {
                facts.learn(Fact::ServiceFiles(files.after(step)));
            }
            facts.forget(&[Question::Daemon]);
        }
        Step::PublishPartition(_, bag) => {
            let published = facts.published().ok().and_then(Option::as_ref).into_iter().flatten();
            let all = published.chain(bag).map(|(key, value)| (key.clone(), value.clone())).collect();
            facts.learn(Fact::Published(Some(all)));
        }
        Step::WriteKey { keys, .. } => {
            let shared = facts.key_file().is_ok_and(|key| key.shared);
            facts.learn(Fact::KeyFile(KeyFile { keys: Some(keys.clone()), private: true, shared }));
            facts.forget(&[Question::KeyWritten]);
        }
        Step::WriteOptions(options) => {
            facts.learn(Fact::StartFile(StartFile { options: Some(options.clone()), neighbour: None }));
            // Who is on the node is looked at right before its record is deleted.
            facts.forget(&[Question::Occupancy]);
        }
        Step::WriteNote(note, _) => {
            let old = facts.note().is_ok_and(|notes| notes.old);
            facts.learn(Fact::Note(Notes { node: Ok((**note).clone()), old }));
        }
        Step::RemoveOldNotes => {
            if let Ok(notes) = facts.note().cloned() {
                facts.learn(Fact::Note(Notes { old: false, ..notes }));
            }
        }
        Step::NoteForBoot(note) => {
            let marked_recently = facts.boot().is_ok_and(|boot| boot.marked_recently);
            facts.learn(Fact::Boot(Boot { note: note.clone(), marked_recently }));
        }
        Step::Acknowledge(..) => facts.forget(&[Question::OwnBag]),
        Step::StartDaemon | Step::RestartDaemon | Step::ReloadDaemon => {
            facts.forget(&IN_SLURM);
            facts.forget(&IN_THE_DAEMON);
        }
        Step::MarkJoined(boot) | Step::RestoreNode { boot, .. } => {
            facts.forget(&IN_SLURM);
            if let Outcome::Marked(now) = outcome {
                let note = BootNote { marked: Some(*now), ..boot.clone() };
                facts.learn(Fact::Boot(Boot { note, marked_recently: true }));
            }
        }
        Step::SetFeatures(_)
        | Step::SetWeight(_)
        | Step::CloseNode { .. }
        | Step::DeleteNode
        | Step::ReopenNode { .. } => facts.forget(&IN_SLURM),
        Step::OpenPort => facts.learn(Fact::PortOpen(true)),
        Step::ClosePort => facts.learn(Fact::PortOpen(false)),
        Step::DrainNode | Step::CancelJobs(_) => facts.forget(&IN_SLURM),
        Step::StopDaemon => {
            facts.forget(&IN_SLURM);
            facts.forget(&IN_THE_DAEMON);
        }
        Step::RemoveTraces { .. } => {
            facts.forget(&[Question::KeyFile]);
            facts.learn(Fact::StartFile(StartFile::default()));
        }
        Step::Wait { .. } => {
            facts.forget(&IN_SLURM);
            facts.forget(&IN_THE_DAEMON);
            facts.forget(&[Question::Now, Question::ControllersStay, Question::Leader]);
        }
    }
}
