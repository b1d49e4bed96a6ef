//! What a step does to the world.

use super::*;
use crate::mail::MailStep;

impl World {
    /// What a step does to the world.
    pub(crate) fn take(&mut self, step: &Step, opinion: Opinion<'_>) -> Outcome {
        let objection = |files: &Files, parser| opinion(files.slurm.as_deref().unwrap_or_default(), parser);
        match step {
            Step::Install(InstallStep::Install(_)) => {
                if self.apt.is_none() {
                    self.installation.version = self.version.map(|version| version.parse().unwrap());
                    self.installation.unfit = None;
                }
                return Outcome::Install(self.apt.clone());
            }
            Step::Install(InstallStep::Hold) => {
                self.installation.held = self.apt.is_none();
                return Outcome::Install(self.apt.clone());
            }
            Step::Install(InstallStep::ExemptFromNeedrestart) => {
                self.installation.exempt = true;
                return Outcome::Install(None);
            }
            Step::Install(InstallStep::ReportVersion(version)) => {
                self.installation.reported = Some(version.clone());
                return Outcome::Install(None);
            }
            Step::Service(ServiceStep::WriteDropIn(text)) => self.service_files.drop_in = Some(text.clone()),
            Step::Service(ServiceStep::EndOldTimer) => self.service_files.old_timer = false,
            Step::Service(ServiceStep::WriteFailureService(text)) => {
                self.service_files.failure_service = Some(text.clone());
            }
            Step::Service(ServiceStep::ReloadUnits) => self.needs_daemon_reload = false,
            Step::PrepareState(note) => self.store.state = StateDirectory::Of(note.clone()),
            Step::LinkConfiguration { place: Place::Store, .. } => {
                self.link = Some(names::SHARED_CONFIGURATION.to_owned());
            }
            Step::LinkConfiguration { .. } => self.link = Some(names::ASIDE_CONFIGURATION.to_owned()),
            Step::MakeWay { files, drop_in } => {
                self.service_files.drop_in = Some(drop_in.clone());
                self.aside.state = std::mem::replace(&mut self.store.state, StateDirectory::Absent);
                (self.live, self.accepted) = (files.clone(), files.clone());
                self.partitions_saved = false;
                return Outcome::Changed(Ok(()));
            }
            Step::Agree { live, accepted } => {
                (self.live, self.accepted) = (live.clone(), accepted.clone());
                self.partitions_saved = false;
            }
            Step::MoveToStore(Luggage { note, files, drop_in, fence, .. }) => {
                self.service_files.drop_in = Some(drop_in.clone());
                if let Some(why) = self.move_fails {
                    self.daemon = Daemon::Stopped;
                    return Outcome::Changed(Err(why.to_owned()));
                }
                self.aside.state = StateDirectory::Absent;
                self.aside.moved.push(note.clone());
                self.store.state = StateDirectory::Of(note.clone());
                self.link = Some(names::SHARED_CONFIGURATION.to_owned());
                let state = Some(FenceState::opened(self.now));
                self.fence = Fence { current: true, settings: Some(fence.clone()), state };
                (self.live, self.accepted) = (files.clone(), files.clone());
                self.partitions_saved = false;
                return Outcome::Changed(Ok(()));
            }
            Step::MoveToDisk(Luggage { note, files, stamp, drop_in, .. }) => {
                self.service_files.drop_in = Some(drop_in.clone());
                if let Some(why) = self.move_fails {
                    self.daemon = Daemon::Stopped;
                    return Outcome::Changed(Err(why.to_owned()));
                }
                self.store.state = StateDirectory::Absent;
                self.store.moved.push(stamp.clone());
                self.aside.state = StateDirectory::Of(note.clone());
                self.link = Some(names::ASIDE_CONFIGURATION.to_owned());
                self.fence = Fence::default();
                (self.live, self.accepted) = (files.clone(), files.clone());
                self.partitions_saved = false;
                return Outcome::Changed(Ok(()));
            }
            Step::Arrive { .. } => {
                let stamp = self.aside.incoming.take().unwrap();
                assert!(self.store.moved.contains(&stamp) && self.link.as_deref() == Some(names::ASIDE_CONFIGURATION));
                self.aside.state = StateDirectory::Of(self.note());
            }
            Step::EndFence => self.fence = Fence::default(),
            Step::EnsureFence(settings) => {
                let state = self.fence.state.clone().or_else(|| Some(FenceState::opened(self.now)));
                self.fence = Fence { current: true, settings: Some(settings.clone()), state };
            }
            Step::RestartStandby => {}
            Step::NoteStarted(started) => self.started = Noted::Known(started.clone()),
            Step::HandOver { .. } => return Outcome::Changed(Ok(())),
            Step::StopDaemon => self.daemon = Daemon::Stopped,
            Step::SecureKeys => self.keys.private = true,
            Step::MakeWorldReadable => self.world_readable = true,
            Step::WriteKeys(keys) => self.keys.auth = Some(keys.clone()),
            Step::NoteRotation(rotation) => self.rotation = Noted::Known(rotation.clone()),
            Step::ForgetRotation => self.rotation = Noted::Absent,
            Step::DropRevision(..) => {}
            Step::MakeKey(Key::Auth) => self.keys.auth = Some(keys("made")),
            Step::MakeKey(Key::Jwt) => self.keys.jwt = Some(token_key("m")),
            Step::RestoreKey(Key::Auth, content) => self.keys.auth = key_secret::keys(content),
            Step::RestoreKey(Key::Jwt, content) => self.keys.jwt = key_secret::token_key(content),
            Step::CheckCandidate { files, nodes } => {
                let nodes = Some(NodeSettings::default()).filter(|_| *nodes);
                return match objection(files, true) {
                    Some(reason) => Outcome::Candidate(Candidate::Refused { reason: reason.to_owned() }, None),
                    None => Outcome::Candidate(Candidate::Readable, nodes),
                };
            }
            Step::WriteFiles { files, .. } => self.live = files.clone(),
            Step::RestoreFiles(files) => {
                self.live = files.clone();
                self.unparsable = false;
                if matches!(self.daemon, Daemon::Failing { .. }) {
                    self.daemon = Daemon::Stopped;
                }
            }
            Step::NoteRejections(rejections) if rejections.is_empty() => self.rejections = Noted::Absent,
            Step::NoteRejections(rejections) => self.rejections = Noted::Known(rejections.clone()),
            Step::NoteOverrides(overrides) => self.overrides = Noted::Known(overrides.clone()),
            Step::ForgetOverrides => self.overrides = Noted::Absent,
            Step::Reconfigure(files) => {
                assert_eq!(*files, self.live, "what is reconfigured is what is in place");
                return Outcome::Reconfigure(match (self.unanswered, objection(files, false)) {
                    (Some(why), _) => Reconfigure::Unknown { why: why.to_owned() },
                    (None, Some(reason)) => Reconfigure::Refused { reason: reason.to_owned() },
                    (None, None) => {
                        self.load_files();
                        Reconfigure::Accepted
                    }
                });
            }
            Step::RestoreOverrides(updates) => {
                for update in updates {
                    let slurm_conf::overrides::Entity::Partition(name) = &update.entity else { continue };
                    let own = self.partitions.get_mut(name).unwrap();
                    own.extend(update.settings.iter().map(|(key, value)| (key.to_lowercase(), value.clone())));
                }
                return Outcome::RestoreOverrides(Ok(()));
            }
            Step::MarkAccepted(files) => {
                self.accepted = files.clone();
                self.partitions_saved = false;
                // Whatever was said before is older than the file.
                if let Some(beat) = &mut self.heartbeat {
                    beat.counts_as_accepted = false;
                }
            }
            Step::StartDaemon | Step::RestartDaemon => {
                if let Some(reason) = objection(&self.live, false) {
                    self.daemon = Daemon::Failing { reason: reason.to_owned() };
                } else {
                    self.daemon = Daemon::Answering;
                    self.load_files();
                }
            }
            Step::SavePartitions { .. } => {
                self.partitions_saved = true;
                return Outcome::Saved(true);
            }
            Step::NoteApplications(applications) if applications.is_empty() => self.applications = Noted::Absent,
            Step::NoteApplications(applications) => self.applications = Noted::Known(applications.clone()),
            Step::ClosePartition(name) => return self.set_state(name.as_str(), PartitionState::Inactive),
            Step::ReopenPartition(name, state) => return self.set_state(name.as_str(), *state),
            Step::DrainNodes(nodes) => {
                for node in self.nodes.iter_mut().filter(|node| nodes.iter().any(|name| name.as_str() == node.name)) {
                    node.state.push("DRAIN".to_owned());
                }
                return Outcome::Changed(Ok(()));
            }
            Step::DeleteNode(name) => {
                self.nodes.retain(|node| node.name != name.as_str());
                return Outcome::Changed(Ok(()));
            }
            Step::DeletePartition(name) => {
                assert!(!self.jobs.iter().any(|job| job.names_partition(name)), "slurmctld would not survive it");
                self.partitions.remove(name.as_str());
                return Outcome::Changed(Ok(()));
            }
            Step::NoteReboots(reboots) if reboots.is_empty() => self.reboots = Noted::Absent,
            Step::NoteReboots(reboots) => self.reboots = Noted::Known(reboots.clone()),
            Step::RequestReboot { node, wish, before } => {
                let record = self.node_record(node.as_str());
                if before.is_in_service() {
                    wish.given_reason().clone_into(&mut record.reason);
                }
                if !record.has("DRAIN") && wish.asap {
                    record.state.push("DRAIN".to_owned());
                }
                record.state.push("REBOOT_REQUESTED".to_owned());
                return Outcome::Changed(Ok(()));
            }
            Step::CancelReboot(node) => {
                let record = self.node_record(node.as_str());
                record.state.retain(|flag| !["REBOOT_REQUESTED", "DRAIN"].contains(&flag.as_str()));
                record.reason.clear();
                return Outcome::Changed(Ok(()));
            }
            Step::SetNode(node, change) => {
                let record = self.node_record(node.as_str());
                match change {
                    NodeChange::Resume => record.state = vec!["IDLE".to_owned(), "DYNAMIC_NORM".to_owned()],
                    NodeChange::Drain(reason) => {
                        record.state.push("DRAIN".to_owned());
                        reason.clone_into(&mut record.reason);
                    }
                    NodeChange::Reason(reason) => reason.clone_into(&mut record.reason),
                }
                return Outcome::Changed(Ok(()));
            }
            Step::AskSlurmdbd(_) => {
                let answer = if self.recording.reach == Reach::Answers { Ok(()) } else { Err("no".to_owned()) };
                return Outcome::Changed(answer);
            }
            Step::ForgetClusterId(_) => self.cluster_id = None,
            Step::RecallClusterId(_) => self.cluster_id = self.cluster_id.or(Some(1)),
            Step::OpenPort => self.port_open = true,
            Step::AddSecret(key, content) => {
                // Asked again in this dispatch, Juju would show it; but it is not.
                let secret = self.secret(*key);
                assert!(!secret.exists, "a second secret");
                self.later(*key, content.clone());
            }
            Step::RefillSecret(key, _, content) => self.secret(*key).content = Some(content.clone()),
            Step::GrantSecret(key, _, relation) => {
                let computes = self.computes.iter().map(|compute| (&compute.relation, &compute.app));
                let mut all = computes.chain(self.followers.iter().map(|one| (&one.relation, &one.app)));
                let (relation, app) = all.find(|(own, _)| *own == relation).unwrap();
                let endpoint = relation.as_str().split(':').next().unwrap_or_default();
                let grant = format!("{app}.{endpoint}");

                self.secret(*key).pending.insert(grant);
            }
            Step::RequestMount(_, bag) => self.mount.as_mut().unwrap().published.extend(bag.clone()),
            Step::PublishPeerApp(_, bag) => {
                let bag = PeerApp::decode(bag).unwrap().unwrap();
                let peer = self.peer.as_mut().unwrap();
                (peer.cluster_name, peer.restart_signal) = (Some(bag.cluster_name), bag.restart_signal);
            }
            Step::PublishPeerUnit(_, bag) => {
                self.peer.as_mut().unwrap().own = PeerUnit::decode(bag).unwrap();
            }
            Step::PublishController { relation, bag, .. } => self.published(relation).extend(bag.clone()),
            Step::PublishMetrics(_, bag) => {
                let agent = self.extras.agent.as_mut().expect("an agent is told where there is one");
                agent.published.extend(bag.clone());
            }
            Step::Mail(step) => {
                let program = &mut self.extras.program;
                match step {
                    MailStep::Install => program.installed = true,
                    MailStep::Configure(text) => (program.conf, program.private) = (Some(text.clone()), true),
                    MailStep::Remove => program.conf = None,
                }
                return Outcome::Install(None);
            }
            Step::NoteNeighbours(noted) if noted.is_empty() => self.neighbours = Noted::Absent,
            Step::NoteNeighbours(noted) => self.neighbours = Noted::Known(noted.clone()),
        }
        Outcome::Done
    }

    pub(crate) fn node_record(&mut self, name: &str) -> &mut NodeRecord {
        self.nodes.iter_mut().find(|node| node.name == name).unwrap()
    }

    fn set_state(&mut self, name: &str, state: PartitionState) -> Outcome {
        let word = format!("{state:?}").to_uppercase();
        self.partitions.get_mut(name).unwrap().insert("state".to_owned(), word);
        Outcome::Changed(Ok(()))
    }

    /// slurmctld reads its files: what was set at runtime is gone, but for states.
    pub(super) fn load_files(&mut self) {
        let config = Config::read(self.live.clone(), &Included::default());
        if crate::config::managed_keys::accounting_host(&config).is_some() {
            match (self.recording.reach == Reach::Answers, self.cluster_id) {
                (true, Some(id)) if id != DATABASE_ID => {
                    self.daemon = Daemon::Failing { reason: "fatal: CLUSTER ID MISMATCH.".to_owned() };
                    return;
                }
                (true, None) => self.cluster_id = Some(DATABASE_ID),
                (false, None) => self.daemon = Daemon::Silent { reason: None },
                _ => {}
            }
        }
        let own = |name: &String| {
            let setting = |key: &str, usual: &str| {
                let value = config.effective.partition(name, key).unwrap_or(usual);
                (key.to_owned(), value.to_owned())
            };
            let known = self.partitions.get(name).and_then(|known| known.get("state"));
            let state = known.map_or_else(|| setting("state", "UP"), |known| ("state".to_owned(), known.clone()));
            let usual = [setting("lln", "NO"), setting("maxtime", "UNLIMITED"), setting("prioritytier", "1")];
            usual.into_iter().chain([state]).collect()
        };
        self.partitions = config.partitions().into_iter().map(|name| (name.clone(), own(&name))).collect();
    }

    fn published(&mut self, relation: &RelationId) -> &mut Databag {
        let computes = self.computes.iter_mut().map(|compute| (&compute.relation, &mut compute.published));
        let mut all = computes.chain(self.followers.iter_mut().map(|one| (&one.relation, &mut one.published)));
        all.find(|(own, _)| *own == relation).unwrap().1
    }

    pub(super) fn secret(&mut self, key: Key) -> &mut Secret {
        if key == Key::Auth { &mut self.auth_secret } else { &mut self.jwt_secret }
    }

    pub(super) fn later(&mut self, key: Key, content: SecretContent) {
        let secret = self.secret(key);
        (secret.exists, secret.content) = (true, Some(content));
    }
}
