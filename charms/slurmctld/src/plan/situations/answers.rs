//! What the world answers to each question.

use super::*;

impl World {
    /// Answers a question.
    pub(crate) fn look(&self, question: Question) -> Fact {
        match question {
            Question::Call => Fact::Call(Call {
                unit: "slurmctld/0".parse().unwrap(),
                home: format!("{MODEL}/slurmctld"),
                model_uuid: MODEL.to_owned(),
                trigger: self.trigger,
                quiet: false,
                last: self.last,
                teardown: self.teardown,
                broken: self.broken.clone(),
                obsolete: self.obsolete.clone(),
                secrets_changed: false,
            }),
            Question::Leader => Fact::Leader(self.leader),
            Question::Options => Fact::Options(Options::of(self.options.clone())),
            Question::Leaving => Fact::Leaving(self.leaving),
            Question::Siblings => Fact::Siblings(self.siblings.clone()),
            Question::Peer => Fact::Peer(self.peer.clone()),
            Question::Members => Fact::Members(self.members.clone()),
            Question::ConfigurationLink => Fact::ConfigurationLink(self.link.clone()),
            Question::Fence => Fact::Fence(self.fence.clone()),
            Question::Heartbeat => Fact::Heartbeat(self.heartbeat),
            Question::Started => Fact::Started(self.started.clone()),
            Question::Answers => Fact::Answers(self.asked(|| self.answers())),
            Question::Mount => Fact::Mount(self.mount.clone()),
            Question::Computes => Fact::Computes(self.computes.clone()),
            Question::Recording => Fact::Recording(self.recording),
            Question::Followers => Fact::Followers(self.followers.clone()),
            Question::Neighbours => Fact::Neighbours(self.neighbours.clone()),
            Question::AuthInfo => Fact::AuthInfo(self.auth_secret.info(ID)),
            Question::AuthContent => Fact::AuthContent(self.auth_secret.answer()),
            Question::JwtInfo => Fact::JwtInfo(self.jwt_secret.info(JWT_ID)),
            Question::JwtContent => Fact::JwtContent(self.jwt_secret.answer()),
            Question::PortOpen => Fact::PortOpen(self.port_open),
            Question::RetryTimer => Fact::RetryTimer(self.retry_timer),
            Question::Now => Fact::Now(self.now),
            Question::FreshSuffix => Fact::FreshSuffix(self.suffix.clone()),
            Question::Host => Fact::Host(self.host.clone()),
            Question::Installation => Fact::Installation(self.installation.clone()),
            Question::ServiceFiles => Fact::ServiceFiles(self.service_files.clone()),
            Question::Keys => Fact::Keys(self.keys.clone()),
            Question::Store => Fact::Store(self.store.clone()),
            Question::Aside => Fact::Aside(self.aside.clone()),
            Question::StateProblem => Fact::StateProblem(self.state_problem.clone()),
            Question::PartitionsSaved => Fact::PartitionsSaved(self.partitions_saved),
            Question::Configuration => Fact::Configuration(Configuration {
                live: Config::read(self.live.clone(), &Included::default()),
                accepted: Config::read(self.accepted.clone(), &Included::default()),
                included: Included::default(),
                conf_dir_files: self.conf_dir_files.clone(),
                world_readable: self.world_readable,
            }),
            Question::Rejections => Fact::Rejections(self.rejections.clone()),
            Question::Overrides => Fact::Overrides(self.overrides.clone()),
            Question::Unit => Fact::Unit(self.unit()),
            Question::Complaint => Fact::Complaint(self.complaint()),
            Question::ShutOut => Fact::ShutOut(self.daemon == Daemon::ShutOut),
            Question::PartitionSettings => Fact::PartitionSettings(self.asked(|| self.partition_settings())),
            Question::NodeSettings => Fact::NodeSettings(self.asked(NodeSettings::default)),
            Question::Load => Fact::Load(self.asked(|| self.load)),
            Question::Applications => Fact::Applications(self.applications.clone()),
            Question::Extras => Fact::Extras(self.extras.clone()),
            Question::Rotation => Fact::Rotation(self.rotation.clone()),
            Question::Acknowledgements => Fact::Acknowledgements(self.acknowledgements.clone()),
            Question::Reboots => Fact::Reboots(self.reboots.clone()),
            Question::GoalState => Fact::GoalState(self.goal_state()),
            Question::JobRecords => Fact::JobRecords(self.told(|| self.jobs.clone())),
            Question::Nodes => Fact::Nodes(self.told(|| self.nodes.clone())),
            Question::Reservations => Fact::Reservations(self.told(|| self.reservations.clone())),
            Question::RejectedHost => Fact::RejectedHost(self.rejected_host.clone()),
        }
    }

    pub(super) fn asked<T>(&self, answer: impl FnOnce() -> T) -> Asked<T> {
        match self.daemon {
            _ if self.unparsable => Asked::Unparsable,
            Daemon::Answering => Asked::Answer(answer()),
            _ => Asked::Unreachable("Unable to contact slurm controller (connect failure)".to_owned()),
        }
    }

    /// Every controller in the file answers.
    fn answers(&self) -> Vec<ControllerPing> {
        let listed = Config::read(self.live.clone(), &Included::default()).controllers();
        listed.iter().map(|host| ControllerPing { hostname: host.to_string(), responding: true }).collect()
    }

    fn told<T>(&self, answer: impl FnOnce() -> T) -> Asked<T> {
        if self.mute { Asked::Unreachable("Socket timed out".to_owned()) } else { self.asked(answer) }
    }

    fn goal_state(&self) -> Option<charm::tools::GoalState> {
        let related = self.computes.iter().map(|compute| compute.app.to_string());
        let names = self.goal.as_ref()?.iter().cloned().chain(related);
        let members: serde_json::Map<_, _> =
            names.map(|name| (name, serde_json::json!({"status": "active"}))).collect();
        let goal = serde_json::json!({"units": {}, "relations": {"slurmd": members}});
        Some(serde_json::from_value(goal).unwrap())
    }

    pub(super) fn partition_settings(&self) -> PartitionSettings {
        let line = |(name, own): (&String, &BTreeMap<String, String>)| {
            let pairs: String = own.iter().map(|(key, value)| format!(" {key}={value}")).collect();
            let nodes = self.nodes.iter().filter(|node| node.features.contains(name)).map(|node| node.name.as_str());
            format!("PartitionName={name}{pairs} Nodes={}\n", nodes.collect::<Vec<_>>().join(","))
        };
        PartitionSettings::from_shown(&self.partitions.iter().map(line).collect::<String>())
    }

    pub(super) fn unit(&self) -> UnitState {
        let (active, sub, result) = match &self.daemon {
            Daemon::Stopped | Daemon::SteppedAside => ("inactive", "dead", "success"),
            Daemon::Failing { .. } => ("failed", "failed", "exit-code"),
            Daemon::Silent { .. } | Daemon::ShutOut | Daemon::Answering => ("active", "running", "success"),
        };
        let (active, sub, result) = (active.to_owned(), sub.to_owned(), result.to_owned());
        let main_started = (self.daemon != Daemon::Stopped).then_some(1);
        let needs_daemon_reload = self.needs_daemon_reload;
        UnitState { active, sub, result, main_started, needs_daemon_reload, ..UnitState::default() }
    }

    pub(super) fn complaint(&self) -> Option<String> {
        match &self.daemon {
            Daemon::Failing { reason } => Some(reason.clone()),
            Daemon::Silent { reason } => reason.clone(),
            Daemon::Stopped | Daemon::SteppedAside | Daemon::ShutOut | Daemon::Answering => None,
        }
    }
}

impl Secret {
    pub(super) fn info(&self, id: &str) -> Option<SecretInfo> {
        let id: SecretId = id.parse().unwrap();
        // Kept as `compute.slurmd`: who, and at which endpoint.
        let access = |granted: &String| {
            let (app, endpoint) = granted.split_once('.').unwrap();
            Access {
                target: format!("application-{app}"),
                scope: format!("relation-{app}.slurmctld#slurmctld.{endpoint}"),
            }
        };
        (self.exists && !self.denied).then(|| SecretInfo {
            id,
            revision: 1,
            access: self.granted.iter().map(access).collect(),
        })
    }

    pub(super) fn answer(&self) -> SecretAnswer {
        match &self.content {
            _ if self.denied => SecretAnswer::Unreadable(Unreadable::NotAllowed),
            Some(content) => SecretAnswer::Content(content.clone()),
            None => SecretAnswer::Unreadable(Unreadable::NotFound),
        }
    }
}
