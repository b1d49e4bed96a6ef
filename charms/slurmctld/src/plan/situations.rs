//! Situations of a controller for tests, as adjectives: a world that answers questions and takes steps, as far as a plan can
//! see it.

use super::plan;
use crate::apply;
use crate::condition::{self, Condition};
use crate::config::files::{Config, Configuration, Files, Included};
use crate::config::rejections::Rejections;
use crate::config::rollout::Overrides;
use crate::daemon::Daemon;
use crate::facts::{
    Asked, Attempts, Call, Compute, Fact, Facts, Host, Load, MountEndpoint, Peer, Question, RejectedHost, RemoteData,
    StateDirectory, Store, StoreMount,
};
use crate::keys::{Key, Keys};
use crate::names;
use crate::options::{Options, Texts};
use crate::step::{Outcome, Step};
use charm::runtime::{Condition as _, Facts as _};
use charm::tools::{SecretAnswer, SecretContent, SecretInfo, Unreadable, secret::Access};
use charm::{Databag, RelationId, SecretId, Status};
use slurm_conf::Partition;
use slurm_conf::overrides::{NodeSettings, PartitionSettings};
use slurm_interface::{PeerApp, PeerUnit};
use slurm_ops::packages::Obstacle;
use slurm_ops::scontrol::{Candidate, Reconfigure};
use slurm_ops::systemd::UnitState;
use slurm_unit::Trigger;
use slurm_unit::install::{InstallStep, Installation};
use slurm_unit::note::Noted;
use slurm_unit::service::{ServiceFiles, ServiceStep};
use std::collections::{BTreeMap, BTreeSet};

/// As many as the runtime allows.
pub(crate) const ROUNDS: usize = 256;
pub(crate) const ID: &str = "d3k2v5nmp25c762q3bvg";
pub(crate) const MODEL: &str = "7f1f5b0e-0000-4000-8000-000000000001";

/// Slurm's opinion of a slurm.conf: that of its parser with `true`, that of slurmctld with `false`. None: it takes it.
pub(crate) type Opinion<'o> = &'o dyn Fn(&str, bool) -> Option<&'static str>;

/// A secret of the application.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Secret {
    /// None: Juju has no content for it.
    pub content: Option<SecretContent>,
    /// Juju knows it.
    pub exists: bool,
    /// Juju would not say.
    pub denied: bool,
    /// Applications that may read it.
    pub granted: BTreeSet<String>,
    /// What this dispatch has granted. Juju shows it in the next.
    pub pending: BTreeSet<String>,
}

/// What is, at one moment.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub trigger: Trigger,
    pub last: bool,
    pub leaving: bool,
    pub leader: bool,
    pub siblings: Vec<charm::UnitName>,
    pub options: Texts,
    pub peer: Option<Peer>,
    pub mount: Option<MountEndpoint>,
    pub computes: Vec<Compute>,
    pub auth_secret: Secret,
    pub jwt_secret: Secret,
    pub port_open: bool,
    pub retry_timer: bool,
    pub now: u64,
    pub suffix: String,
    pub host: Host,
    pub version: Option<&'static str>,
    pub installation: Installation,
    pub service_files: ServiceFiles,
    pub keys: Keys,
    pub store: Store,
    pub state_problem: Option<String>,
    pub partitions_saved: bool,
    pub live: Files,
    pub accepted: Files,
    pub conf_dir_files: BTreeSet<String>,
    pub world_readable: bool,
    pub rejections: Noted<Rejections>,
    pub overrides: Noted<Overrides>,
    pub daemon: Daemon,
    pub needs_daemon_reload: bool,
    /// No client can read the slurm.conf in place.
    pub unparsable: bool,
    /// Partitions in slurmctld's memory.
    pub partitions: BTreeMap<String, BTreeMap<String, String>>,
    pub load: Load,
    pub busy: BTreeSet<String>,
    pub rejected_host: Option<RejectedHost>,
    /// What apt has against an installation.
    pub apt: Option<Obstacle>,
    /// How a reconfigure ends that nobody objects to, if not well.
    pub unanswered: Option<&'static str>,
    /// The reasons of the last plan.
    pub conditions: Vec<Condition>,
    /// The names of the steps of the last dispatch.
    pub taken: Vec<String>,
}

pub(crate) fn key(value: &str) -> SecretContent {
    SecretContent::default().with(names::SECRET_KEY, value).with(names::SECRET_KEY_ID, "1")
}

impl World {
    /// The first unit after Juju chose it, with nothing done yet.
    pub(crate) fn fresh() -> Self {
        let relation = "slurmctld-peer:0".parse().unwrap();
        Self {
            trigger: Trigger::Juju,
            last: false,
            leaving: false,
            leader: true,
            siblings: Vec::new(),
            options: Texts { process_tracking: "auto".to_owned(), ..Texts::default() },
            peer: Some(Peer { relation, cluster_name: None, host: None }),
            mount: None,
            computes: Vec::new(),
            auth_secret: Secret::default(),
            jwt_secret: Secret::default(),
            port_open: false,
            retry_timer: false,
            now: 1_794_850_942,
            suffix: "aB3_".to_owned(),
            host: Host {
                name: "juju-c9fc6f-0".parse().unwrap(),
                container: true,
                plugins: [names::TOKEN_PLUGIN, "task_cgroup.so", "task_affinity.so", "proctrack_cgroup.so"]
                    .into_iter()
                    .chain(["proctrack_linuxproc.so"])
                    .map(str::to_owned)
                    .collect(),
            },
            version: Some("24.11.5"),
            installation: Installation::default(),
            service_files: ServiceFiles::default(),
            keys: Keys { private: true, ..Keys::default() },
            store: Store {
                mount: StoreMount::Nothing,
                state: StateDirectory::Absent,
                local: true,
                partitions_saved_at: None,
            },
            state_problem: None,
            partitions_saved: false,
            live: Files::default(),
            accepted: Files::default(),
            conf_dir_files: BTreeSet::new(),
            world_readable: true,
            rejections: Noted::Absent,
            overrides: Noted::Absent,
            daemon: Daemon::Stopped,
            needs_daemon_reload: false,
            unparsable: false,
            partitions: BTreeMap::new(),
            load: Load { nodes: 0, jobs: 0 },
            busy: BTreeSet::new(),
            rejected_host: None,
            apt: None,
            unanswered: None,
            conditions: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// A controller that has come to rest, seen by a later hook than the one that made its secrets.
    pub(crate) fn serving() -> Self {
        Self::fresh().settled()
    }

    /// Runs dispatches until nothing is left to be granted.
    #[track_caller]
    pub(crate) fn settled(self) -> Self {
        self.settled_where(&|_, _| None)
    }

    /// Does the same with a Slurm that has objections.
    #[track_caller]
    pub(crate) fn settled_where(mut self, opinion: Opinion<'_>) -> Self {
        for _ in 0..4 {
            self.dispatch(opinion);
            if !self.conditions.contains(&Condition::GrantPending) {
                return self;
            }
        }
        panic!("never settled: {:?}", self.conditions);
    }

    /// Runs one dispatch, as the runtime does.
    #[track_caller]
    pub(crate) fn dispatch(&mut self, opinion: Opinion<'_>) {
        self.dispatch_until(opinion, usize::MAX);
    }

    /// Runs one dispatch that is killed before the step after the first `steps`. Tells whether it was.
    #[track_caller]
    pub(crate) fn dispatch_until(&mut self, opinion: Opinion<'_>, steps: usize) -> bool {
        let (mut facts, mut attempts) = (Facts::default(), Attempts::default());
        self.taken.clear();
        for _ in 0..ROUNDS {
            match plan(&facts, &attempts) {
                Err(ask) => ask.into_questions().into_iter().for_each(|question| facts.learn(self.look(question))),
                Ok(plan) if plan.steps.is_empty() => {
                    self.retry_timer = plan.conditions.iter().any(Condition::needs_retry);
                    self.conditions = plan.conditions;
                    self.commit();
                    return false;
                }
                Ok(plan) => {
                    for step in plan.steps {
                        if self.taken.len() == steps {
                            return true;
                        }
                        self.taken.push(step.to_string());
                        let outcome = self.take(&step, opinion);
                        apply::learn(&mut facts, &step, &outcome);
                        self.check(&facts, &step);
                        attempts.note(step, outcome);
                    }
                }
            }
        }
        panic!("the plan does not converge: {:?}", self.taken);
    }

    /// What a step teaches is true: every fact that is still known is what a look would find.
    #[track_caller]
    fn check(&self, facts: &Facts, step: &Step) {
        let (mut facts, mut found) = (facts.clone(), Facts::default());
        facts.forget(&[Question::AuthInfo, Question::AuthContent, Question::JwtInfo, Question::JwtContent]);
        QUESTIONS.into_iter().filter(|question| facts.knows(*question)).for_each(|question| {
            found.learn(self.look(question));
        });
        let (known, found) = (format!("{facts:#?}"), format!("{found:#?}"));
        let stale: Vec<(&str, &str)> = known.lines().zip(found.lines()).filter(|(one, other)| one != other).collect();
        assert!(stale.is_empty() && known.len() == found.len(), "stale after {step}: {stale:#?}");
    }

    /// Returns the names of the steps of the first plan that has any, and of none if there is none.
    pub(crate) fn steps(&self) -> Vec<String> {
        self.first_plan().iter().map(ToString::to_string).collect()
    }

    /// Returns the steps of the first plan.
    pub(crate) fn first_plan(&self) -> Vec<Step> {
        let mut facts = Facts::default();
        loop {
            match plan(&facts, &Attempts::default()) {
                Err(ask) => ask.into_questions().into_iter().for_each(|question| facts.learn(self.look(question))),
                Ok(plan) => return plan.steps,
            }
        }
    }

    /// Returns the status that one dispatch which finds nothing to do would report.
    pub(crate) fn shown(&self) -> String {
        let mut world = self.clone();
        world.dispatch(&|_, _| None);
        world.reported()
    }

    /// Returns the status that the last dispatch reported.
    pub(crate) fn reported(&self) -> String {
        let mut facts = Facts::default();
        facts.learn(self.look(Question::Host));
        facts.learn(self.look(Question::Configuration));
        let status: Status = condition::status(&facts, &self.conditions);
        format!("{}: {}", status.word(), status.message())
    }

    /// What Juju shows from the next dispatch on.
    fn commit(&mut self) {
        for secret in [&mut self.auth_secret, &mut self.jwt_secret] {
            secret.granted.append(&mut secret.pending);
        }
    }

    pub(crate) fn not_leading(mut self) -> Self {
        self.leader = false;
        self
    }

    pub(crate) fn with_sibling(mut self, unit: &str) -> Self {
        self.siblings.push(unit.parse().unwrap());
        self
    }

    pub(crate) fn with_data(mut self, app: &str, data: RemoteData) -> Self {
        let relation = format!("slurmd:{}", self.computes.len() + 1).parse().unwrap();
        let app = app.parse().unwrap();
        self.computes.push(Compute { relation, app, data, stale: false, published: Databag::new() });
        self
    }

    pub(crate) fn with_compute(self, app: &str, partition_config: &str) -> Self {
        let data = wants(app, partition_config);
        self.with_data(app, data)
    }

    pub(crate) fn with_unusable(self, app: &str, why: &str) -> Self {
        self.with_data(app, RemoteData::Unusable(why.to_owned()))
    }

    pub(crate) fn rejected(&self) -> Rejections {
        self.rejections.known().cloned().unwrap_or_default()
    }

    /// Answers a question.
    pub(crate) fn look(&self, question: Question) -> Fact {
        match question {
            Question::Call => Fact::Call(Call {
                unit: "slurmctld/0".parse().unwrap(),
                home: format!("{MODEL}/slurmctld"),
                model_uuid: MODEL.to_owned(),
                trigger: self.trigger,
                last: self.last,
            }),
            Question::Leader => Fact::Leader(self.leader),
            Question::Options => Fact::Options(Options::of(&self.options)),
            Question::Leaving => Fact::Leaving(self.leaving),
            Question::Siblings => Fact::Siblings(self.siblings.clone()),
            Question::Peer => Fact::Peer(self.peer.clone()),
            Question::Mount => Fact::Mount(self.mount.clone()),
            Question::Computes => Fact::Computes(self.computes.clone()),
            Question::AuthInfo => Fact::AuthInfo(self.auth_secret.info()),
            Question::AuthContent => Fact::AuthContent(self.auth_secret.answer()),
            Question::JwtInfo => Fact::JwtInfo(self.jwt_secret.info()),
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
            Question::BusyPartitions => Fact::BusyPartitions(self.asked(|| self.busy.clone())),
            Question::RejectedHost => Fact::RejectedHost(self.rejected_host.clone()),
        }
    }

    fn asked<T>(&self, answer: impl FnOnce() -> T) -> Asked<T> {
        match self.daemon {
            _ if self.unparsable => Asked::Unparsable,
            Daemon::Answering => Asked::Answer(answer()),
            _ => Asked::Unreachable("Unable to contact slurm controller (connect failure)".to_owned()),
        }
    }

    fn partition_settings(&self) -> PartitionSettings {
        let line = |(name, own): (&String, &BTreeMap<String, String>)| {
            let pairs: String = own.iter().map(|(key, value)| format!(" {key}={value}")).collect();
            format!("PartitionName={name}{pairs}\n")
        };
        PartitionSettings::from_shown(&self.partitions.iter().map(line).collect::<String>())
    }

    fn unit(&self) -> UnitState {
        let (active, sub, result) = match &self.daemon {
            Daemon::Stopped => ("inactive", "dead", "success"),
            Daemon::Failing { .. } => ("failed", "failed", "exit-code"),
            Daemon::Silent { .. } | Daemon::ShutOut | Daemon::Answering => ("active", "running", "success"),
        };
        let (active, sub, result) = (active.to_owned(), sub.to_owned(), result.to_owned());
        UnitState { active, sub, result, needs_daemon_reload: self.needs_daemon_reload, ..UnitState::default() }
    }

    fn complaint(&self) -> Option<String> {
        match &self.daemon {
            Daemon::Failing { reason } => Some(reason.clone()),
            Daemon::Silent { reason } => reason.clone(),
            Daemon::Stopped | Daemon::ShutOut | Daemon::Answering => None,
        }
    }

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
            Step::SecureKeys => self.keys.private = true,
            Step::MakeWorldReadable => self.world_readable = true,
            Step::MakeKey(made) => {
                let content = if *made == Key::Auth { key("made") } else { key("made too") };
                *self.key_file(*made) = Some(content);
            }
            Step::RestoreKey(key, content) => *self.key_file(*key) = Some(content.clone()),
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
            Step::OpenPort => self.port_open = true,
            Step::AddSecret(key, content) => {
                // Asked again in this dispatch, Juju would show it; but it is not.
                let secret = self.secret(*key);
                assert!(!secret.exists, "a second secret");
                self.later(*key, content.clone());
            }
            Step::RefillSecret(key, _, content) => self.secret(*key).content = Some(content.clone()),
            Step::GrantSecret(_, relation) => {
                let app = self.compute(relation).app.to_string();
                self.auth_secret.pending.insert(app);
            }
            Step::RequestMount(_, bag) => self.mount.as_mut().unwrap().published.extend(bag.clone()),
            Step::PublishPeerApp(_, bag) => {
                let name = PeerApp::decode(bag).unwrap().unwrap().cluster_name;
                self.peer.as_mut().unwrap().cluster_name = Some(name);
            }
            Step::PublishPeerUnit(_, bag) => {
                let host = PeerUnit::decode(bag).unwrap().unwrap().hostname;
                self.peer.as_mut().unwrap().host = Some(host.to_string());
            }
            Step::PublishController(relation, bag) => self.compute(relation).published.extend(bag.clone()),
        }
        Outcome::Done
    }

    /// slurmctld reads its files: what was set at runtime is gone.
    fn load_files(&mut self) {
        let config = Config::read(self.live.clone(), &Included::default());
        let own = |name: &String| {
            let setting = |key: &str, usual: &str| {
                let value = config.effective.partition(name, key).unwrap_or(usual);
                (key.to_owned(), value.to_owned())
            };
            BTreeMap::from([setting("lln", "NO"), setting("maxtime", "UNLIMITED"), setting("prioritytier", "1")])
        };
        self.partitions = config.partitions().into_iter().map(|name| (name.clone(), own(&name))).collect();
    }

    fn compute(&mut self, relation: &RelationId) -> &mut Compute {
        self.computes.iter_mut().find(|compute| compute.relation == *relation).unwrap()
    }

    fn key_file(&mut self, key: Key) -> &mut Option<SecretContent> {
        if key == Key::Auth { &mut self.keys.auth } else { &mut self.keys.jwt }
    }

    fn secret(&mut self, key: Key) -> &mut Secret {
        if key == Key::Auth { &mut self.auth_secret } else { &mut self.jwt_secret }
    }

    fn later(&mut self, key: Key, content: SecretContent) {
        let secret = self.secret(key);
        (secret.exists, secret.content) = (true, Some(content));
    }
}

impl Secret {
    fn info(&self) -> Option<SecretInfo> {
        let id: SecretId = ID.parse().unwrap();
        let access = |app: &String| Access {
            target: format!("application-{app}"),
            scope: format!("relation-{app}.slurmctld#slurmctld.slurmd"),
        };
        (self.exists && !self.denied).then(|| SecretInfo {
            id,
            revision: 1,
            access: self.granted.iter().map(access).collect(),
        })
    }

    fn answer(&self) -> SecretAnswer {
        match &self.content {
            _ if self.denied => SecretAnswer::Unreadable(Unreadable::NotAllowed),
            Some(content) => SecretAnswer::Content(content.clone()),
            None => SecretAnswer::Unreadable(Unreadable::NotFound),
        }
    }
}

/// What an application says that wants this partition.
pub(crate) fn wants(app: &str, partition_config: &str) -> RemoteData {
    let partition = Partition::from_config(app, partition_config).unwrap();
    let nodeset = partition.nodeset();
    RemoteData::Partition(partition, nodeset)
}

/// What a step may teach. A secret that was just added, and a grant, show in the next dispatch only.
const QUESTIONS: [Question; 30] = [
    Question::Call,
    Question::Leader,
    Question::Options,
    Question::Leaving,
    Question::Siblings,
    Question::Peer,
    Question::Mount,
    Question::Computes,
    Question::PortOpen,
    Question::RetryTimer,
    Question::Now,
    Question::FreshSuffix,
    Question::Host,
    Question::Installation,
    Question::ServiceFiles,
    Question::Keys,
    Question::Store,
    Question::StateProblem,
    Question::PartitionsSaved,
    Question::Configuration,
    Question::Rejections,
    Question::Overrides,
    Question::Unit,
    Question::Complaint,
    Question::ShutOut,
    Question::PartitionSettings,
    Question::NodeSettings,
    Question::Load,
    Question::BusyPartitions,
    Question::RejectedHost,
];
