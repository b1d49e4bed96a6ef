//! Makes one change, without deciding anything, and says what it found out. What a change means for the facts is here
//! as well.

mod moving;

use crate::applications::Applications;
use crate::config::files::{Config, Files};
use crate::config::managed_keys;
use crate::facts::{Asked, CONFIGURED, Fact, Facts, Question};
use crate::keys::Key;
use crate::mail::MailStep;
use crate::names;
use crate::neighbours::Neighbours;
use crate::place::Place;
use crate::reboots::{Before, Reboots, Wish};
use crate::rotation::Rotation;
use crate::step::{NodeChange, Outcome, Step};
use charm::Status;
use charm::tools::{Port, SecretAnswer};
use slurm_conf::{HostList, NodeName};
use slurm_ops::files::{self, Access};
use slurm_ops::scontrol::{self, AfterReboot, Candidate, PartitionState, ScontrolError};
use slurm_ops::{HostWriter, fence, keys, sentinel, slurmdbd, systemd};
use slurm_unit::install::InstallStep;
use slurm_unit::note::{self, Noted};
use slurm_unit::service::ServiceStep;
use slurm_unit::{Error, Hands, LEAVING_REASON};
use std::time::Duration;

/// How long a slurmctld that starts may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes the change that `step` describes.
pub fn apply(hands: &Hands, step: &Step) -> Result<Outcome, Error> {
    let Hands { juju, host, .. } = hands;
    match step {
        Step::Install(step) => return Ok(Outcome::Install(step.apply(hands, &names::PROFILE)?)),
        Step::Service(step) => step.apply(hands, &names::PROFILE)?,
        Step::PrepareState(note) => {
            files::ensure_directory(host, names::CHECKPOINT_DIRECTORY, &Access::slurm(0o755))?;
            files::ensure_directory(host, names::STATE_DIRECTORY, &Access::slurm(0o700))?;
            sentinel::write_once(host, names::STATE_DIRECTORY, note)?;
        }
        Step::LinkConfiguration { place, stamp } => {
            let target = if *place == Place::Store { names::SHARED_CONFIGURATION } else { names::ASIDE_CONFIGURATION };
            files::ensure_directory(host, target, &Access::slurm(0o755))?;
            files::ensure_link(host, names::CONFIGURATION_DIRECTORY, target, stamp)?;
        }
        Step::MakeWay { files, drop_in } => return Ok(moved(moving::make_way(host, files, drop_in))),
        Step::Agree { live, accepted } => {
            write(host, live, "")?;
            write(host, accepted, names::ACCEPTED)?;
        }
        Step::MoveToStore(luggage) => return Ok(moved(moving::to_store(host, luggage))),
        Step::MoveToDisk(luggage) => return Ok(moved(moving::to_disk(host, luggage))),
        Step::Arrive { stamp } => moving::arrive(host, stamp)?,
        Step::EnsureFence(settings) => {
            fence::ensure_settings(host, settings)?;
            if fence::ensure_running(host)? {
                fence::await_word(host);
            }
        }
        Step::EndFence => moving::end_fence(host)?,
        Step::SecureKeys => keys::ensure_private(host, names::SLURM_USER)?,
        Step::MakeWorldReadable => {
            for path in [names::CONFIGURATION_DIRECTORY].into_iter().chain(Files::PATHS) {
                files::ensure_open(host, path)?;
            }
        }
        Step::MakeKey(key) => key.make(host)?,
        Step::RestoreKey(key, content) => key.restore(host, content)?,
        Step::WriteKeys(set) => {
            keys::ensure_auth_keys(host, set, names::SLURM_USER)?;
        }
        Step::NoteRotation(rotation) => note::write(host, rotation)?,
        Step::ForgetRotation => note::remove::<Rotation>(host)?,
        Step::CheckCandidate { files, nodes } => {
            let text = files.slurm.as_deref().unwrap_or_default();
            let (verdict, nodes) = if *nodes {
                scontrol::check_and_ask(host, names::CANDIDATE_CONF, text)?
            } else {
                (scontrol::check(host, names::CANDIDATE_CONF, text)?, None)
            };
            return Ok(Outcome::Candidate(without_place(verdict), nodes));
        }
        Step::AskSlurmdbd(text) => {
            let answers = slurmdbd::answers_with(host, names::CANDIDATE_CONF, text)?;
            return Ok(Outcome::Changed(if answers { Ok(()) } else { Err("it does not answer".to_owned()) }));
        }
        Step::ForgetClusterId(place) => slurmdbd::forget_cluster_id(host, place.state_directory())?,
        Step::RecallClusterId(place) => slurmdbd::recall_cluster_id(host, place.state_directory())?,
        Step::WriteFiles { files, .. } | Step::RestoreFiles(files) => write(host, files, "")?,
        Step::MarkAccepted(files) => write(host, files, names::ACCEPTED)?,
        Step::NoteRejections(rejections) if rejections.is_empty() => {
            note::remove::<crate::config::rejections::Rejections>(host)?;
        }
        Step::NoteRejections(rejections) => note::write(host, rejections)?,
        Step::NoteOverrides(overrides) => note::write(host, overrides)?,
        Step::ForgetOverrides => note::remove::<crate::config::rollout::Overrides>(host)?,
        Step::Reconfigure(files) => {
            return Ok(Outcome::Reconfigure(scontrol::reconfigure(host, managed_keys::state_directory(files))));
        }
        Step::RestoreOverrides(updates) => {
            let restored = scontrol::update(host, updates).map_err(|error| error.to_string());
            return Ok(Outcome::RestoreOverrides(restored));
        }
        Step::StartDaemon => scontrol::start_controller(host, names::SERVICE, PATIENCE)?,
        Step::RestartDaemon => {
            tracing::warn!("slurmctld serves no client since it refused files");
            systemd::reset_failed(host, names::SERVICE)?;
            systemd::restart(host, names::SERVICE)?;
        }
        Step::RestartStandby => systemd::restart(host, names::SERVICE)?,
        Step::NoteStarted(started) => note::write(host, started)?,
        Step::HandOver { rank, .. } => return Ok(changed(scontrol::take_over(host, *rank))),
        Step::StopDaemon => {
            systemd::disable(host, names::SERVICE)?;
            systemd::stop(host, names::SERVICE)?;
            fence::disable(host)?;
        }
        Step::SavePartitions { partition, settings, place } => {
            let file = format!("{}/{}", place.state_directory(), names::PARTITION_STATE);
            let saved = scontrol::save_partitions(host, partition, settings, file);
            // A failure leaves the older partitions saved, and the timer tries again.
            return Ok(Outcome::Saved(saved.unwrap_or_else(|error| {
                tracing::warn!("partitions are not saved yet: {error}");
                false
            })));
        }
        Step::NoteApplications(applications) if applications.is_empty() => note::remove::<Applications>(host)?,
        Step::NoteApplications(applications) => note::write(host, applications)?,
        Step::ClosePartition(name) => {
            return Ok(changed(scontrol::set_partition_state(host, name, PartitionState::Inactive)));
        }
        Step::ReopenPartition(name, state) => return Ok(changed(scontrol::set_partition_state(host, name, *state))),
        Step::DrainNodes(nodes) => return Ok(changed(drain(host, nodes))),
        Step::DeleteNode(name) => return Ok(changed(scontrol::delete_node(host, name))),
        Step::DeletePartition(name) => return Ok(changed(scontrol::delete_partition(host, name))),
        Step::NoteReboots(reboots) if reboots.is_empty() => note::remove::<Reboots>(host)?,
        Step::NoteReboots(reboots) => note::write(host, reboots)?,
        Step::NoteNeighbours(neighbours) if neighbours.is_empty() => note::remove::<Neighbours>(host)?,
        Step::NoteNeighbours(neighbours) => note::write(host, neighbours)?,
        Step::RequestReboot { node, wish, before } => return Ok(changed(reboot(host, node, wish, before))),
        Step::CancelReboot(node) => return Ok(changed(scontrol::cancel_reboot(host, node))),
        Step::SetNode(node, change) => {
            return Ok(changed(match change {
                NodeChange::Resume => scontrol::resume_nodes(host, node).map(|_| ()),
                NodeChange::Drain(reason) => scontrol::drain_nodes(host, node, reason),
                NodeChange::Reason(reason) => scontrol::set_node_reason(host, node, reason),
            }));
        }
        Step::OpenPort => juju.open_port(Port::tcp(names::PORT)),
        Step::AddSecret(key, content) => {
            let (label, description) = key.secret();
            juju.secret_add(label, description, content)?;
        }
        Step::RefillSecret(_, id, content) => juju.secret_set(id, content),
        Step::DropRevision(_, id, revision) => juju.secret_remove_revision(id, *revision),
        Step::GrantSecret(_, id, relation) => juju.secret_grant(id, relation),
        Step::PublishPeerApp(relation, bag) | Step::RequestMount(relation, bag) => {
            juju.relation_set_app(relation, bag);
        }
        Step::PublishController { relation, bag, copy: true } => juju.relation_set_app_mirrored(relation, bag),
        Step::PublishController { relation, bag, copy: false } => juju.relation_set_app(relation, bag),
        Step::Mail(step) => return Ok(Outcome::Install(step.apply(host)?)),
        Step::PublishMetrics(relation, bag) | Step::PublishPeerUnit(relation, bag) => {
            juju.relation_set_unit(relation, bag)
        }
    }
    Ok(Outcome::Done)
}

/// What slurmctld does not do now the timer tries again.
fn changed(outcome: Result<(), ScontrolError>) -> Outcome {
    Outcome::Changed(outcome.map_err(|error| {
        tracing::warn!("{error}");
        error.to_string()
    }))
}

/// What a move could not do is tried again. Where it has come to shows in the next look.
fn moved(outcome: Result<(), Error>) -> Outcome {
    Outcome::Changed(outcome.map_err(|error| {
        let why = charm::log::chain(&error);
        tracing::warn!("{why}");
        why
    }))
}

/// Has a node rebooted such that it comes back as it was, as far as Slurm can be told so. The reason of one that is set
/// aside is its operator's.
fn reboot(host: &HostWriter, node: &NodeName, wish: &Wish, before: &Before) -> Result<(), ScontrolError> {
    let (after, reason) = match before {
        Before { down: true, .. } => (AfterReboot::Down, None),
        Before { drained: true, .. } => (AfterReboot::Nothing, None),
        _ => (AfterReboot::Resume, Some(wish.given_reason())),
    };
    scontrol::reboot_node(host, node, wish.asap, after, reason)
}

/// Drains nodes, as many at a time as a command line holds.
fn drain(host: &HostWriter, nodes: &[NodeName]) -> Result<(), ScontrolError> {
    const AT_ONCE: usize = 1000;
    for some in nodes.chunks(AT_ONCE) {
        let names: Vec<&str> = some.iter().map(NodeName::as_str).collect();
        let list = HostList::of_nodes(&names.join(",")).expect("invariant: names of nodes make a list");
        scontrol::drain_nodes(host, &list, LEAVING_REASON)?;
    }
    Ok(())
}

/// Writes the files under their names with a suffix, slurm.conf last.
fn write(host: &HostWriter, files: &Files, suffix: &str) -> Result<(), Error> {
    write_at(host, names::CONFIGURATION_DIRECTORY, files, suffix)
}

/// Does the same in another directory than theirs.
fn write_at(host: &HostWriter, directory: &str, files: &Files, suffix: &str) -> Result<(), Error> {
    for (path, text) in files.entries() {
        let name = path.rsplit('/').next().unwrap_or_default();
        let path = format!("{directory}/{name}{suffix}");
        match text {
            Some(text) => {
                files::replace(host, path, text.as_bytes(), &Access::slurm(0o644))?;
            }
            // The others are always there in a cluster; where they are not they come with the next configuration.
            None if name == "oci.conf" => {
                files::remove(host, path)?;
            }
            None => {}
        }
    }
    Ok(())
}

/// Where the candidate was is of no interest; the words around it name key and value.
fn without_place(verdict: Candidate) -> Candidate {
    let Candidate::Refused { reason } = verdict else { return verdict };
    let told: Vec<&str> = reason.split(" / ").filter(|part| !part.contains(names::CANDIDATE_CONF)).collect();
    let plain =
        if told.is_empty() { reason.replace(names::CANDIDATE_CONF, names::SLURM_CONF) } else { told.join(" / ") };
    Candidate::Refused { reason: plain }
}

/// Says what a slow step is doing.
pub fn announce(step: &Step) -> Option<Status> {
    match step {
        Step::StartDaemon => Some(Status::maintenance("starting slurmctld")),
        Step::RestartDaemon | Step::RestartStandby => Some(Status::maintenance("restarting slurmctld")),
        Step::HandOver { host, .. } => Some(Status::maintenance(format!("leaving: {host} takes over"))),
        Step::Mail(MailStep::Install) => Some(Status::maintenance("installing the mail program")),
        Step::MoveToStore(_) => Some(Status::maintenance("moving to the store")),
        Step::MoveToDisk(_) => Some(Status::maintenance("moving to the local disk")),
        _ => None,
    }
}

/// What is known about slurmctld only until something happens to it.
const VOLATILE: [Question; 11] = [
    Question::Unit,
    Question::Heartbeat,
    Question::Answers,
    Question::Complaint,
    Question::ShutOut,
    Question::PartitionSettings,
    Question::NodeSettings,
    Question::Load,
    Question::JobRecords,
    Question::Nodes,
    Question::Reservations,
];

/// Takes over what a step has changed.
pub fn learn(facts: &mut Facts, step: &Step, outcome: &Outcome) {
    match step {
        Step::Install(InstallStep::Install(_)) => {
            facts.forget(&[Question::Installation, Question::Host]);
            facts.forget(&VOLATILE);
        }
        Step::Install(_) => facts.forget(&[Question::Installation]),
        Step::Service(step) => {
            if let Ok(files) = facts.service_files().cloned() {
                facts.learn(Fact::ServiceFiles(files.after(step)));
            }
            facts.forget(&[Question::Unit]);
            if *step == ServiceStep::ReloadUnits {
                facts.forget(&VOLATILE);
            }
        }
        Step::PrepareState(_) => facts.forget(&[Question::Store]),
        Step::MakeWay { .. } | Step::MoveToStore(_) | Step::MoveToDisk(_) | Step::Arrive { .. } => {
            facts.forget(&[Question::Store, Question::Aside, Question::StateProblem, Question::PartitionsSaved]);
            facts.forget(&[Question::ConfigurationLink, Question::ServiceFiles, Question::Fence]);
            facts.forget(&CONFIGURED);
            facts.forget(&VOLATILE);
        }
        Step::Agree { live, accepted } => {
            in_place(facts, live);
            accept(facts, accepted);
            facts.forget(&VOLATILE);
        }
        Step::EndFence => facts.forget(&[Question::Fence]),
        // All that was read in the directory of before.
        Step::LinkConfiguration { .. } => {
            facts.forget(&[Question::ConfigurationLink]);
            facts.forget(&CONFIGURED);
            facts.forget(&VOLATILE);
        }
        Step::EnsureFence(_) => facts.forget(&[Question::Fence]),
        Step::NoteStarted(started) => facts.learn(Fact::Started(Noted::Known(started.clone()))),
        Step::RestartStandby | Step::StopDaemon | Step::HandOver { .. } => facts.forget(&VOLATILE),
        Step::SecureKeys | Step::MakeKey(_) | Step::RestoreKey(..) => facts.forget(&[Question::Keys]),
        // Who has acknowledged what is a question of the phase.
        Step::WriteKeys(_) => facts.forget(&[Question::Keys, Question::Acknowledgements]),
        Step::NoteRotation(rotation) => {
            facts.learn(Fact::Rotation(Noted::Known(rotation.clone())));
            facts.forget(&[Question::Acknowledgements]);
        }
        Step::ForgetRotation => facts.learn(Fact::Rotation(Noted::Absent)),
        Step::DropRevision(..) => {}
        Step::MakeWorldReadable => {
            facts.forget(&[Question::Configuration]);
            facts.forget(&VOLATILE);
        }
        Step::CheckCandidate { .. } => {
            if let Outcome::Candidate(_, Some(nodes)) = outcome {
                facts.learn(Fact::NodeSettings(Asked::Answer(nodes.clone())));
            }
        }
        Step::WriteFiles { files, .. } => in_place(facts, files),
        // A daemon that fails, and clients that cannot read the file in place, may do better with another one.
        Step::RestoreFiles(files) => {
            in_place(facts, files);
            facts.forget(&VOLATILE);
        }
        Step::AskSlurmdbd(_) | Step::RecallClusterId(_) => {}
        Step::ForgetClusterId(_) => facts.forget(&VOLATILE),
        Step::MarkAccepted(files) => accept(facts, files),
        Step::NoteRejections(rejections) => {
            let noted = if rejections.is_empty() { Noted::Absent } else { Noted::Known(rejections.clone()) };
            facts.learn(Fact::Rejections(noted));
        }
        Step::NoteOverrides(overrides) => facts.learn(Fact::Overrides(Noted::Known(overrides.clone()))),
        Step::ForgetOverrides => facts.learn(Fact::Overrides(Noted::Absent)),
        Step::Reconfigure(_) | Step::RestoreOverrides(_) | Step::StartDaemon | Step::RestartDaemon => {
            facts.forget(&VOLATILE);
        }
        Step::NoteApplications(applications) => {
            let noted = if applications.is_empty() { Noted::Absent } else { Noted::Known(applications.clone()) };
            facts.learn(Fact::Applications(noted));
        }
        Step::ClosePartition(_)
        | Step::ReopenPartition(..)
        | Step::DrainNodes(_)
        | Step::DeleteNode(_)
        | Step::DeletePartition(_) => facts.forget(&VOLATILE),
        Step::NoteReboots(reboots) => {
            let noted = if reboots.is_empty() { Noted::Absent } else { Noted::Known(reboots.clone()) };
            facts.learn(Fact::Reboots(noted));
        }
        Step::NoteNeighbours(neighbours) => {
            let noted = if neighbours.is_empty() { Noted::Absent } else { Noted::Known(neighbours.clone()) };
            facts.learn(Fact::Neighbours(noted));
        }
        Step::RequestReboot { .. } | Step::CancelReboot(_) | Step::SetNode(..) => facts.forget(&[Question::Nodes]),
        Step::SavePartitions { .. } => {
            if let Outcome::Saved(saved) = outcome {
                facts.learn(Fact::PartitionsSaved(*saved));
            }
        }
        // Juju shows what this dispatch is going to write, without another process.
        Step::OpenPort => facts.forget(&[Question::PortOpen]),
        Step::PublishPeerApp(..) | Step::PublishPeerUnit(..) => facts.forget(&[Question::Peer]),
        Step::PublishController { relation, bag, copy } => {
            facts.forget(&[Question::Computes]);
            if let Ok(mut followers) = facts.followers().cloned() {
                let told = followers.iter_mut().filter(|follower| follower.relation == *relation);
                told.for_each(|follower| {
                    follower.published.extend(bag.clone());
                    follower.copied |= *copy;
                });
                facts.learn(Fact::Followers(followers));
            }
        }
        Step::RequestMount(..) => facts.forget(&[Question::Mount]),
        Step::PublishMetrics(..) | Step::Mail(_) => facts.forget(&[Question::Extras]),
        Step::RefillSecret(key, _, content) => {
            let answer = SecretAnswer::Content(content.clone());
            facts.learn(if *key == Key::Auth { Fact::AuthContent(answer) } else { Fact::JwtContent(answer) });
        }
        // Whether these took is seen in a later dispatch; until then the attempt counts.
        Step::AddSecret(..) | Step::GrantSecret(..) => {}
    }
}

/// What was accepted counts from now on.
fn accept(facts: &mut Facts, files: &Files) {
    if let Ok(mut configuration) = facts.configuration().cloned() {
        configuration.accepted = Config::read(files.clone(), &configuration.included);
        facts.learn(Fact::Configuration(configuration));
    }
    facts.learn(Fact::PartitionsSaved(false));
    // A sign of life counts hosts by their places in a list, and this is another list.
    facts.forget(&[Question::Heartbeat]);
}

/// A file that was written is its new content.
fn in_place(facts: &mut Facts, files: &Files) {
    if let Ok(mut configuration) = facts.configuration().cloned() {
        configuration.live = Config::read(files.clone(), &configuration.included);
        facts.learn(Fact::Configuration(configuration));
    }
}
