//! Situations of a controller for tests, as adjectives: a world that answers questions and takes steps, as far as a
//! plan can see it.

mod answers;
mod effects;
mod pieces;

use pieces::QUESTIONS;
pub(crate) use pieces::{keys, token_key};

use super::plan;
use crate::applications::Applications;
use crate::apply;
use crate::condition::{self, Condition};
use crate::config::files::{Config, Configuration, Files, Included};
use crate::config::rejections::Rejections;
use crate::config::rollout::Overrides;
use crate::controllers::{Beat, Member, Started};
use crate::daemon::Daemon;
use crate::extras::{Extras, Said};
use crate::facts::{
    Aside, Asked, Attempts, Call, Compute, Fact, Facts, Follower, Host, Load, MountEndpoint, Peer, Question, Recording,
    RejectedHost, RemoteData, StateDirectory, Store, StoreMount,
};
use crate::fence::Fence;
use crate::keys::{Key, Keys};
use crate::names;
use crate::neighbours::Neighbours;
use crate::options::{Options, Texts};
use crate::place::Place;
use crate::reboots::Reboots;
use crate::rotation::{Acknowledgements, Rotation};
use crate::step::{Luggage, NodeChange, Outcome, Step};
use charm::runtime::{Condition as _, Facts as _};
use charm::tools::{SecretAnswer, SecretContent, SecretInfo, Unreadable, secret::Access};
use charm::{Databag, RelationId, SecretId, Status};
use slurm_conf::HostName;
use slurm_conf::Partition;
use slurm_conf::overrides::{NodeSettings, PartitionSettings};
use slurm_interface::{PeerApp, PeerUnit};
use slurm_ops::fence::FenceState;
use slurm_ops::packages::Obstacle;
use slurm_ops::scontrol::{
    Candidate, ControllerPing, JobRecord, NodeRecord, PartitionState, Reconfigure, ReservationRecord,
};
use slurm_ops::slurmdbd::Reach;
use slurm_ops::systemd::UnitState;
use slurm_unit::Trigger;
use slurm_unit::install::{InstallStep, Installation};
use slurm_unit::key_secret;
use slurm_unit::note::Noted;
use slurm_unit::service::{ServiceFiles, ServiceStep};
use std::collections::{BTreeMap, BTreeSet};

/// As many as the runtime allows.
pub(crate) const ROUNDS: usize = 256;
pub(crate) const ID: &str = "d3k2v5nmp25c762q3bvg";
pub(crate) const JWT_ID: &str = "d3k2v5nmp25c762q3bw0";
/// What the database calls the cluster.
pub(crate) const DATABASE_ID: u32 = 2;
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
    pub teardown: bool,
    pub leaving: bool,
    pub leader: bool,
    pub siblings: Vec<charm::UnitName>,
    pub members: Option<Vec<Member>>,
    pub link: Option<String>,
    pub heartbeat: Option<Beat>,
    pub fence: Fence,
    pub started: Noted<Started>,
    pub options: Texts,
    pub peer: Option<Peer>,
    pub mount: Option<MountEndpoint>,
    pub computes: Vec<Compute>,
    pub followers: Vec<Follower>,
    pub recording: Recording,
    /// What the state says to slurmdbd about which cluster this is.
    pub cluster_id: Option<u32>,
    pub neighbours: Noted<Neighbours>,
    pub extras: Extras,
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
    pub aside: Aside,
    /// Why a move does not come to its end, if it does not.
    pub move_fails: Option<&'static str>,
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
    pub applications: Noted<Applications>,
    pub rotation: Noted<Rotation>,
    pub acknowledgements: Acknowledgements,
    pub obsolete: Option<(String, u64)>,
    pub reboots: Noted<Reboots>,
    /// The application whose relation this hook ends.
    pub broken: Option<charm::AppName>,
    /// Applications and units at the endpoint that Juju's controller has beside the applications that are related.
    /// None: it cannot be asked.
    pub goal: Option<BTreeSet<String>>,
    pub jobs: Vec<JobRecord>,
    /// What slurmctld says about nodes, jobs and reservations does not come, although it answers otherwise.
    pub mute: bool,
    pub nodes: Vec<NodeRecord>,
    pub reservations: Vec<ReservationRecord>,
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

impl World {
    /// The first unit after Juju chose it, with nothing done yet.
    pub(crate) fn fresh() -> Self {
        let relation = "slurmctld-peer:0".parse().unwrap();
        Self {
            trigger: Trigger::Juju,
            last: false,
            teardown: false,
            leaving: false,
            leader: true,
            siblings: Vec::new(),
            members: None,
            link: None,
            heartbeat: None,
            fence: Fence::default(),
            started: Noted::Absent,
            options: Texts { process_tracking: "auto".to_owned(), ..Texts::default() },
            peer: Some(Peer { relation, cluster_name: None, restart_signal: String::new(), own: None }),
            mount: None,
            computes: Vec::new(),
            followers: Vec::new(),
            recording: Recording { reach: Reach::Answers, connected: true, queued: Some(0) },
            cluster_id: Some(1),
            neighbours: Noted::Absent,
            extras: Extras::default(),
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
                moved: Vec::new(),
            },
            aside: Aside {
                state: StateDirectory::Absent,
                partitions_saved_at: None,
                moved: Vec::new(),
                incoming: None,
            },
            move_fails: None,
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
            applications: Noted::Absent,
            rotation: Noted::Absent,
            acknowledgements: Acknowledgements::default(),
            obsolete: None,
            reboots: Noted::Absent,
            broken: None,
            goal: Some(BTreeSet::new()),
            jobs: Vec::new(),
            mute: false,
            nodes: Vec::new(),
            reservations: Vec::new(),
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

    /// What a state directory of this cluster is marked with.
    pub(crate) fn note(&self) -> String {
        let name = self.peer.as_ref().and_then(|peer| peer.cluster_name.clone());
        let name = name.map_or_else(|| format!("charmed-hpc-{}", self.suffix), |name| name.to_string());
        format!("{name} {MODEL}/slurmctld")
    }

    pub(crate) fn not_leading(mut self) -> Self {
        self.leader = false;
        self
    }

    pub(crate) fn with_sibling(mut self, unit: &str) -> Self {
        self.siblings.push(unit.parse().unwrap());
        self
    }

    pub(crate) fn with_login(mut self, app: &str) -> Self {
        self.follow(names::ENDPOINT_SACKD, app, Said::Nothing);
        self
    }

    /// Integrates an application at an endpoint.
    pub(crate) fn follow(&mut self, endpoint: &'static str, app: &str, host: Said<HostName>) {
        let relation = format!("{endpoint}:{}", self.followers.len() + 50).parse().unwrap();
        let app = app.parse().unwrap();
        let (stale, published, acknowledges) = (false, Databag::new(), true);
        let copied = true;
        self.followers.push(Follower { endpoint, relation, app, stale, published, host, acknowledges, copied });
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

    /// A node that a unit registered, or that looks like one: `IDLE`, then flags.
    pub(crate) fn with_node(mut self, name: &str, feature: &str, state: &[&str]) -> Self {
        let state: Vec<&str> = state.iter().copied().chain(["DYNAMIC_NORM"]).collect();
        self.nodes.push(node(name, feature, &state));
        self
    }

    pub(crate) fn with_unit(mut self, unit: &str) -> Self {
        self.goal.as_mut().unwrap().insert(unit.to_owned());
        self
    }

    pub(crate) fn with_job(mut self, id: u64, partition: &str, state: &str, nodes: &str, required: &str) -> Self {
        self.jobs.push(job(id, partition, state, nodes, required));
        self
    }

    pub(crate) fn rejected(&self) -> Rejections {
        self.rejections.known().cloned().unwrap_or_default()
    }
}

pub(crate) fn node(name: &str, feature: &str, state: &[&str]) -> NodeRecord {
    let record = serde_json::json!({
        "name": name, "state": state, "reason": "", "hostname": "host", "partitions": [feature], "features": [feature],
        "real_memory": 1, "cpus": 1,
    });
    serde_json::from_value(record).unwrap()
}

pub(crate) fn job(id: u64, partition: &str, state: &str, nodes: &str, required: &str) -> JobRecord {
    let record = serde_json::json!({
        "job_id": id, "name": "test", "user_name": "ubuntu", "partition": partition,
        "job_state": state.split('+').collect::<Vec<_>>(), "nodes": nodes, "required_nodes": required,
    });
    serde_json::from_value(record).unwrap()
}

/// What an application says that wants this partition.
pub(crate) fn wants(app: &str, partition_config: &str) -> RemoteData {
    let partition = Partition::from_config(app, partition_config).unwrap();
    let nodeset = partition.nodeset();
    RemoteData::Partition(partition, nodeset)
}
