//! The world of a compute unit in memory, for tests of plans: situations as adjectives, and what a step does to them.
//!
//! A dispatch asks this world exactly what the plan asks, and goes by `learn` in between, as the runtime does. So a
//! fact that is kept though a step has changed it shows here.

mod effects;

use crate::apply;
use crate::condition::{self, Condition};
use crate::facts::{Boot, Daemon, Fact, Facts, Identity, JobHere, KeyFile, Notes, Occupancy, Question, StartFile};
use crate::node::lifecycle::NodeNote;
use crate::options::{Options, given};
use crate::plan::{Planning, plan};
use crate::step::Step;
use charm::runtime::{Attempts, Condition as _, Facts as _};
use charm::tools::Config;
use charm::{Databag, Status};
use slurm_conf::Node;
use slurm_interface::{ControllerData, SecretUri};
use slurm_ops::journal::Cause;
use slurm_ops::keys::{AuthKey, KeySet};
use slurm_ops::packages::Obstacle;
use slurm_ops::scontrol::{Candidate, Glance, NodeLookup, NodeNotes, NodeRecord};
use slurm_unit::Trigger;
use slurm_unit::follower::{Controller, KeySecret, RemoteData};
use slurm_unit::install::Installation;
use slurm_unit::service::{Running, ServiceFiles};

/// More rounds than any story needs.
const ROUNDS: usize = 512;
pub(crate) fn data(hosts: &[&str]) -> ControllerData {
    ControllerData {
        auth_secret: SecretUri::new("secret:d3k2v5nmp25c762q3bvg").unwrap(),
        controllers: hosts.iter().map(|host| format!("{host}:6817").parse().unwrap()).collect(),
        slurm_version: Some("24.11.5".to_owned()),
        conf_digest: None,
    }
}

pub(crate) fn keys(letter: &str) -> KeySet {
    KeySet::of(AuthKey::new("k1", &letter.repeat(128)).unwrap())
}

pub(crate) fn detected(memory: u64) -> Node {
    let line = "NodeName=juju-1 CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1";
    Node::from_detected(&format!("{line} RealMemory={memory}\n")).unwrap()
}

/// A node as it is right after its first registration.
pub(crate) fn idle() -> NodeRecord {
    let json = r#"{"name": "compute-0", "state": ["IDLE", "DYNAMIC_NORM"], "reason": "", "hostname": "h",
        "partitions": ["compute"], "features": ["compute"], "real_memory": 1, "cpus": 1,
        "slurmd_start_time": {"set": true, "infinite": false, "number": 1000}}"#;
    serde_json::from_str(json).unwrap()
}

/// Sets a state or flag of a record.
pub(crate) fn set_aside(record: &mut NodeRecord, state: &str, reason: &str) {
    match state {
        "DOWN" => record.state[0] = "DOWN".to_owned(),
        flag if !record.has(flag) => record.state.push(flag.to_owned()),
        _ => {}
    }
    record.reason = reason.to_owned();
}

pub(crate) fn unreachable() -> NodeLookup {
    NodeLookup::Unreachable { why: "connect failure".to_owned() }
}

/// What is.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) identity: Identity,
    pub(crate) options: Options,
    pub(crate) controller: Option<Controller>,
    pub(crate) leaving: bool,
    pub(crate) relation_expected: bool,
    pub(crate) leader: bool,
    pub(crate) published: Databag,
    pub(crate) secret: KeySecret,
    pub(crate) own_bag: Databag,
    pub(crate) port_open: bool,
    pub(crate) timer: bool,
    pub(crate) installation: Installation,
    pub(crate) files: ServiceFiles,
    pub(crate) daemon: Daemon,
    pub(crate) start_file: StartFile,
    pub(crate) key: KeyFile,
    pub(crate) key_written: Option<std::time::Duration>,
    pub(crate) note: Notes,
    pub(crate) boot: Boot,
    pub(crate) detected: Option<Node>,
    pub(crate) node: NodeLookup,
    pub(crate) moved_from: Option<String>,
    pub(crate) stale_processes: bool,
    pub(crate) occupancy: Occupancy,
    pub(crate) verdict: Candidate,
    pub(crate) partition_state: Option<String>,
    pub(crate) cause: Option<Cause>,
    pub(crate) complaint: Option<String>,
    pub(crate) skew: Option<i64>,
    pub(crate) now: u64,
    pub(crate) controllers_stay: Option<bool>,
    pub(crate) controller_deletes: bool,
    pub(crate) local_jobs: Option<usize>,
    /// What is in the way once the jobs have ended.
    pub(crate) then: Option<Occupancy>,
    /// Why an installation does not work, and a hold, if they do not.
    pub(crate) apt: Option<Obstacle>,
    /// Steps that have no effect.
    pub(crate) vain: Vec<Step>,
}

/// What came of a dispatch.
pub(crate) struct Done {
    pub(crate) steps: Vec<String>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) status: Status,
    pub(crate) asked: Vec<Question>,
}

impl World {
    /// A unit with nothing done yet, which leads its application.
    pub(crate) fn fresh() -> Self {
        let unit: charm::UnitName = "compute/0".parse().unwrap();
        Self {
            identity: Identity {
                node: crate::facts::node_name(&unit),
                unit,
                trigger: Trigger::Juju,
                departs: false,
                teardown: false,
                configured: false,
            },
            options: Options::read("compute", &Config::default()),
            controller: None,
            leaving: false,
            relation_expected: false,
            leader: true,
            published: Databag::new(),
            secret: KeySecret::Malformed,
            own_bag: Databag::new(),
            port_open: false,
            timer: false,
            installation: Installation::default(),
            files: ServiceFiles::default(),
            daemon: Daemon {
                running: Running::Stopped,
                with: None,
                result: "success".to_owned(),
                kill_mode: "process".to_owned(),
                invocation: String::new(),
                started: None,
                main_pid: None,
                needs_reload_of_units: false,
            },
            start_file: StartFile::default(),
            key: KeyFile::default(),
            key_written: None,
            note: Notes { node: Ok(NodeNote::default()), old: false },
            boot: Boot::default(),
            detected: Some(detected(24_103)),
            node: unreachable(),
            moved_from: None,
            stale_processes: false,
            occupancy: Occupancy::Empty,
            verdict: Candidate::Readable,
            partition_state: Some("UP".to_owned()),
            cause: None,
            complaint: None,
            skew: None,
            now: 1_794_830_000,
            controllers_stay: Some(true),
            controller_deletes: false,
            local_jobs: Some(0),
            then: None,
            apt: None,
            vain: Vec::new(),
        }
    }

    pub(crate) fn related(mut self) -> Self {
        self.controller = Some(Controller {
            relation: "slurmctld:3".parse().unwrap(),
            app: "slurmctld".parse().unwrap(),
            stale: false,
            data: RemoteData::Nothing,
        });
        self
    }

    /// The controllers have published themselves, and the key can be read.
    pub(crate) fn offered(mut self) -> Self {
        self = self.related();
        self.secret = KeySecret::Offered(keys("A"));
        self.with_controllers(&["c1"])
    }

    /// A node that is part of its cluster and at rest, seen by a later hook.
    pub(crate) fn joined() -> Self {
        let mut world = Self::fresh().offered();
        world.dispatch();
        assert!(world.timer, "a node that has just joined is looked at once more");
        let mut world = world.later().called_by(Trigger::Retry);
        // Juju shows by then what was said about the key.
        assert_eq!(world.dispatch().steps, ["note what is known until the next boot"]);
        assert!(!world.timer);
        world.called_by(Trigger::Juju)
    }

    pub(crate) fn not_leading(mut self) -> Self {
        self.leader = false;
        self.published.clear();
        self
    }

    pub(crate) fn with_partition_config(self, text: &str) -> Self {
        self.with_options(&given([("partition-config", text)]))
    }

    pub(crate) fn with_options(mut self, given: &Config) -> Self {
        self.options = Options::read("compute", given);
        self
    }

    pub(crate) fn with_request(mut self, text: &str) -> Self {
        self.note_mut().requested = Node::from_config(text).unwrap();
        self
    }

    pub(crate) fn with_jobs(mut self, jobs: &[u64]) -> Self {
        let job = |id: &u64| JobHere { id: *id, handle: Some(id.to_string()), ends: None, ending: false };
        let jobs: Vec<JobHere> = jobs.iter().map(job).collect();
        self.occupancy = if jobs.is_empty() { Occupancy::Empty } else { Occupancy::Jobs(jobs) };
        self
    }

    /// A job that ends after so many seconds at the latest.
    pub(crate) fn with_job_of(mut self, seconds: u64) -> Self {
        let ends = Some(self.now + seconds);
        self.occupancy = Occupancy::Jobs(vec![JobHere { id: 7, handle: Some("7".to_owned()), ends, ending: false }]);
        self
    }

    /// This unit is being removed, and this is the hook that says so.
    pub(crate) fn departing(mut self) -> Self {
        (self.identity.departs, self.identity.teardown, self.leaving) = (true, true, true);
        self
    }

    /// The relation has ended.
    pub(crate) fn unrelated(mut self) -> Self {
        (self.controller, self.relation_expected) = (None, false);
        self
    }

    pub(crate) fn with_controllers(mut self, hosts: &[&str]) -> Self {
        self.controller.as_mut().unwrap().data = RemoteData::Data(data(hosts));
        self
    }

    pub(crate) fn with_node(mut self, node: NodeLookup) -> Self {
        self.node = node;
        self
    }

    pub(crate) fn with_secret(mut self, secret: KeySecret) -> Self {
        self.secret = secret;
        self
    }

    /// slurmd has failed, and said this.
    pub(crate) fn failing(mut self, complaint: Option<&str>) -> Self {
        self.daemon.running = Running::Failing;
        self.daemon.result = "exit-code".to_owned();
        self.complaint = complaint.map(str::to_owned);
        self.node = unreachable();
        self
    }

    pub(crate) fn called_by(mut self, trigger: Trigger) -> Self {
        self.identity.trigger = trigger;
        self
    }

    /// Time has passed.
    pub(crate) fn later(mut self) -> Self {
        self.boot.marked_recently = false;
        self
    }

    pub(crate) fn conf(&self) -> String {
        self.start_file.options.as_ref().unwrap().conf.render()
    }

    pub(crate) fn conf_mut(&mut self) -> &mut Node {
        &mut self.start_file.options.as_mut().unwrap().conf
    }

    #[track_caller]
    pub(crate) fn record(&self) -> &NodeRecord {
        match &self.node {
            NodeLookup::Present(record) => record,
            other => panic!("not registered: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn record_mut(&mut self) -> &mut NodeRecord {
        match &mut self.node {
            NodeLookup::Present(record) => record,
            other => panic!("not registered: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn note(&self) -> &NodeNote {
        self.note.node.as_ref().unwrap()
    }

    #[track_caller]
    pub(crate) fn note_mut(&mut self) -> &mut NodeNote {
        self.note.node.as_mut().unwrap()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.daemon.running == Running::Up
    }

    fn answer(&self, question: Question) -> Fact {
        match question {
            Question::Identity => Fact::Identity(self.identity.clone()),
            Question::Options => Fact::Options(self.options.clone()),
            Question::Controller => Fact::Controller(self.controller.clone()),
            Question::Leaving => Fact::Leaving(self.leaving),
            Question::RelationExpected => Fact::RelationExpected(self.relation_expected),
            Question::Published => Fact::Published(self.leader.then(|| self.published.clone())),
            Question::Leader => Fact::Leader(self.leader),
            Question::KeySecret => Fact::KeySecret(self.secret.clone()),
            Question::OwnBag => Fact::OwnBag(self.own_bag.clone()),
            Question::PortOpen => Fact::PortOpen(self.port_open),
            Question::RetryTimer => Fact::RetryTimer(self.timer),
            Question::Installation => Fact::Installation(self.installation.clone()),
            Question::ServiceFiles => Fact::ServiceFiles(self.files.clone()),
            Question::Daemon => Fact::Daemon(self.daemon.clone()),
            Question::StartFile => Fact::StartFile(self.start_file.clone()),
            Question::KeyFile => Fact::KeyFile(self.key.clone()),
            Question::KeyWritten => Fact::KeyWritten(self.key_written),
            Question::Note => Fact::Note(self.note.clone()),
            Question::Boot => Fact::Boot(self.boot.clone()),
            Question::Detected => Fact::Detected(self.detected.clone()),
            Question::Glance => Fact::Glance(self.glance()),
            Question::Node => {
                assert!(self.is_up(), "without slurmd no command of Slurm works");
                Fact::Node(self.node.clone())
            }
            Question::MovedFrom => Fact::MovedFrom(self.moved_from.clone()),
            Question::StaleProcesses => Fact::StaleProcesses(self.stale_processes),
            Question::Occupancy => Fact::Occupancy(self.occupancy.clone()),
            Question::Verdict => Fact::Verdict(self.verdict.clone()),
            Question::PartitionState => Fact::PartitionState(self.partition_state.clone()),
            Question::Cause => Fact::Cause(self.cause),
            Question::Complaint => Fact::Complaint(self.complaint.clone()),
            Question::Skew => Fact::Skew(self.skew),
            Question::Now => Fact::Now(self.now),
            Question::ControllersStay => Fact::ControllersStay(self.controllers_stay),
            Question::ControllerDeletes => Fact::ControllerDeletes(self.controller_deletes),
            Question::LocalJobs => Fact::LocalJobs(self.local_jobs),
        }
    }

    fn glance(&self) -> Option<Glance> {
        assert!(self.is_up(), "without slurmd no command of Slurm works");
        let lookup = match &self.node {
            NodeLookup::Present(record) => {
                let well = ["IDLE", "DYNAMIC_NORM"];
                let plain = record.state.iter().all(|state| well.contains(&state.as_str()));
                if !plain || record.partitions.len() != 1 || record.comment.is_empty() {
                    return None;
                }
                // A glance does not show what an administrator noted.
                NodeLookup::Present(NodeRecord { notes: NodeNotes::default(), ..record.clone() })
            }
            NodeLookup::Absent => return None,
            NodeLookup::Unreachable { why } => NodeLookup::Unreachable { why: why.clone() },
        };
        Some(Glance { lookup, partition_state: self.partition_state.clone() })
    }

    /// Answers every question that `find` asks.
    pub(crate) fn find_out<T>(&self, find: impl Fn(&Facts) -> Planning<T>) -> T {
        let mut facts = Facts::default();
        loop {
            match find(&facts) {
                Ok(found) => return found,
                Err(ask) => ask.into_questions().into_iter().for_each(|question| facts.learn(self.answer(question))),
            }
        }
    }

    /// Runs one dispatch to its end.
    #[track_caller]
    pub(crate) fn dispatch(&mut self) -> Done {
        self.dispatch_until(usize::MAX)
    }

    /// Runs one dispatch that is killed before it takes more steps than these.
    #[track_caller]
    pub(crate) fn dispatch_until(&mut self, limit: usize) -> Done {
        let (mut facts, mut attempts) = (Facts::default(), Attempts::default());
        let (mut steps, mut asked) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            match plan(&facts, &attempts) {
                Err(ask) => {
                    for question in ask.into_questions() {
                        assert!(!facts.knows(question), "{question:?} is known");
                        asked.push(question);
                        facts.learn(self.answer(question));
                    }
                }
                Ok(plan) if plan.steps.is_empty() => {
                    let wanted = plan.conditions.iter().any(Condition::needs_retry);
                    if wanted || self.identity.trigger == Trigger::Retry {
                        self.timer = wanted;
                    }
                    let status = condition::status(&facts, &plan.conditions);
                    return Done { steps, conditions: plan.conditions, status, asked };
                }
                Ok(plan) => {
                    for step in plan.steps {
                        if steps.len() == limit {
                            let status = Status::waiting("killed");
                            return Done { steps, conditions: Vec::new(), status, asked };
                        }
                        steps.push(step.to_string());
                        let outcome = self.apply(&step);
                        apply::learn(&mut facts, &step, &outcome);
                        if step.is_wait() {
                            attempts = Attempts::default();
                        } else {
                            attempts.note(step, outcome);
                        }
                    }
                }
            }
        }
        panic!("the plan does not converge: {steps:#?}");
    }

    /// Runs one dispatch that is killed right after a step.
    #[track_caller]
    pub(crate) fn dispatch_to(&mut self, last: &str) {
        let steps = self.steps();
        let at = steps.iter().position(|step| step == last).unwrap_or_else(|| panic!("no `{last}` in {steps:#?}"));
        self.dispatch_until(at + 1);
    }

    /// slurmd was started by somebody, and finds this in the machine.
    pub(crate) fn finds(mut self, detected: Node) -> Self {
        self.daemon.invocation.push('x');
        self.detected = Some(detected);
        self
    }

    /// Returns the steps of one dispatch, and changes nothing.
    #[track_caller]
    pub(crate) fn steps(&self) -> Vec<String> {
        self.clone().dispatch().steps
    }

    /// Returns the first step of one dispatch.
    #[track_caller]
    pub(crate) fn first_step(&self) -> String {
        self.steps().first().cloned().unwrap_or_default()
    }

    /// Returns the text that the unit shows, with Juju's word in front.
    #[track_caller]
    pub(crate) fn shown(&self) -> String {
        let status = self.clone().dispatch().status;
        format!("{}: {}", status.word(), status.message())
    }
}
