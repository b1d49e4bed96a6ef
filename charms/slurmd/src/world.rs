//! Situations of a compute unit for tests, as adjectives, and what a step does to one.

use super::{Step, plan};
use crate::change::{Change, features, weight};
use crate::names;
use crate::observe::{Controller, Daemon, Key, Machine, Observed, Occupancy, Offer, Record, Registration, Tried};
use crate::options::{Given, Options};
use charm::Databag;
use slurm_conf::Node;
use slurm_interface::{ControllerData, SecretUri};

pub(crate) const ROUNDS: usize = charm::reconcile::MAX_ROUNDS;

fn data(hosts: &[&str]) -> ControllerData {
    ControllerData {
        auth_secret: SecretUri::new("secret:d3k2v5nmp25c762q3bvg").unwrap(),
        controllers: hosts.iter().map(|host| format!("{host}:6817").parse().unwrap()).collect(),
        slurm_version: Some("24.11.5".to_owned()),
    }
}

fn detected() -> Node {
    let line = "NodeName=juju-1 CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=24103\n";
    Node::from_detected(line).unwrap()
}

impl Observed {
    /// A unit with nothing done yet, which leads its application.
    pub(crate) fn fresh() -> Self {
        Self {
            unit: "compute/0".parse().unwrap(),
            node_name: "compute-0".parse().unwrap(),
            leaving: false,
            alarmed: false,
            woken: false,
            leader: true,
            options: Options::read("compute", &Given::default()),
            controller: None,
            key: Key::NotOffered,
            port_open: false,
            waking: false,
            machine: Machine {
                version: None,
                unfit: None,
                reported_version: None,
                held: false,
                left_alone: false,
                drop_in: None,
                alarm: None,
                kill_mode: "process".to_owned(),
                key_on_disk: false,
                key_is_news: false,
                stuck: false,
                moved_from: None,
                detected: Some(detected()),
                remembered: None,
                detection_saved: false,
                wish: Ok(Node::new()),
                proven: Node::new(),
                refused: None,
                written: None,
                occupant: None,
                daemon: Daemon::Stopped,
                invocation: String::new(),
                registration: Registration::Unreachable,
                change: None,
                marked_recently: false,
                set_weight: None,
                occupancy: Some(Occupancy::Empty),
                skew: None,
                cause: None,
                complaint: None,
            },
            tried: Tried::default(),
        }
    }

    pub(crate) fn related(mut self) -> Self {
        self.controller = Some(Controller {
            relation: "slurmctld:3".parse().unwrap(),
            app: "slurmctld".parse().unwrap(),
            offer: Offer::Nothing,
            published: Databag::new(),
        });
        self
    }

    /// The controllers have published themselves, and the key can be read.
    pub(crate) fn offered(mut self) -> Self {
        self = self.related();
        self.controller.as_mut().unwrap().offer = Offer::Data(data(&["c1"]));
        self.key = Key::Offered { same_as_on_disk: false };
        self
    }

    /// A node that is part of its cluster and at rest, seen by a later hook.
    pub(crate) fn joined() -> Self {
        let once = Self::fresh().offered().settled();
        assert!(once.waking, "a node that has just joined is looked at once more");
        let again = once.in_the_timers_call().settled();
        assert!(!again.waking);
        again.in_the_next_hook()
    }

    pub(crate) fn not_leading(mut self) -> Self {
        self.leader = false;
        if let Some(controller) = &mut self.controller {
            controller.published.clear();
        }
        self
    }

    pub(crate) fn with_partition_config(self, text: &str) -> Self {
        self.with_options(&Given { partition_config: text, ..Given::default() })
    }

    pub(crate) fn with_options(mut self, given: &Given<'_>) -> Self {
        self.options = Options::read("compute", given);
        self
    }

    pub(crate) fn with_wish(mut self, text: &str) -> Self {
        self.machine.wish = Ok(Node::from_config(text).unwrap());
        self
    }

    pub(crate) fn with_jobs(mut self, jobs: &[u64]) -> Self {
        self.machine.occupancy = Some(if jobs.is_empty() { Occupancy::Empty } else { Occupancy::Jobs(jobs.to_vec()) });
        self
    }

    /// What the controllers have about this node.
    #[track_caller]
    pub(crate) fn record(&self) -> &Record {
        match &self.machine.registration {
            Registration::Present(record) => record,
            other => panic!("not registered: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn record_mut(&mut self) -> &mut Record {
        match &mut self.machine.registration {
            Registration::Present(record) => record,
            other => panic!("not registered: {other:?}"),
        }
    }

    pub(crate) fn with_controllers(mut self, hosts: &[&str]) -> Self {
        self.controller.as_mut().unwrap().offer = Offer::Data(data(hosts));
        self
    }

    pub(crate) fn with_registration(mut self, registration: Registration) -> Self {
        self.machine.registration = registration;
        self
    }

    pub(crate) fn with_key(mut self, key: Key) -> Self {
        self.key = key;
        self
    }

    /// Applies plans until none is left.
    #[track_caller]
    pub(crate) fn settled(mut self) -> Self {
        for _ in 0..ROUNDS {
            let steps = plan(&self).steps;
            for step in &steps {
                self.apply_in_memory(step);
            }
            if steps.is_empty() {
                return self;
            }
        }
        panic!("the plan does not converge: {:?}", plan(&self).steps);
    }

    /// Forgets what only one dispatch remembers.
    pub(crate) fn in_the_next_hook(mut self) -> Self {
        self.tried = Tried::default();
        self.machine.marked_recently = false;
        self.woken = false;
        self
    }

    /// Time has passed, and the timer calls.
    pub(crate) fn in_the_timers_call(self) -> Self {
        Self { woken: true, ..self.in_the_next_hook() }
    }

    /// What a step does to the world, as far as a plan can see it.
    pub(crate) fn apply_in_memory(&mut self, step: &Step) {
        let machine = &mut self.machine;
        let tried = &mut self.tried;
        match step {
            Step::InstallPackages(_) => {
                machine.version = Some("24.11.5".parse().unwrap());
                machine.unfit = None;
            }
            Step::HoldPackages => {
                tried.hold = true;
                machine.held = true;
            }
            Step::LeaveAlone => machine.left_alone = true,
            Step::ReportVersion(version) => machine.reported_version = Some(version.clone()),
            Step::PublishPartition(_, bag) => self.controller.as_mut().unwrap().published.extend(bag.clone()),
            Step::WriteAlarm(text) => machine.alarm = Some(text.clone()),
            Step::WriteDropIn(text) => machine.drop_in = Some((*text).to_owned()),
            Step::WriteAuthKey => {
                machine.key_on_disk = true;
                self.key = Key::Offered { same_as_on_disk: true };
            }
            Step::WriteOptions(launch) => machine.written = Some(launch.clone()),
            Step::TakeBackWish { refused, proven } => {
                tried.taken_back = true;
                tried.start = false;
                machine.refused = Some(refused.clone());
                machine.wish = Ok(proven.clone());
            }
            Step::RememberWish(wish) => machine.proven = wish.clone(),
            Step::StartDaemon | Step::RestartDaemon => {
                tried.start |= *step == Step::StartDaemon;
                tried.restart |= *step == Step::RestartDaemon;
                self.start();
            }
            Step::ReloadDaemon => {
                tried.reload = true;
                self.register();
            }
            Step::RememberDetection { known, .. } => {
                machine.remembered = Some(known.clone());
                machine.detection_saved = true;
            }
            Step::MarkJoined => {
                machine.marked_recently = true;
                tried.mark = true;
                self.record_mut().comment = "joined".to_owned();
            }
            Step::SetFeatures(features) => {
                tried.in_place = true;
                self.record_mut().features = features.clone();
            }
            Step::SetWeight(weight) => {
                tried.in_place = true;
                machine.set_weight = Some(*weight);
                self.record_mut().weight = *weight;
            }
            Step::ResetWeight(weight) => {
                tried.in_place = true;
                self.record_mut().weight = *weight;
            }
            Step::NoteAddress(_) => machine.moved_from = None,
            Step::ForgetWeight => machine.set_weight = None,
            Step::BeginChange(change) => machine.change = Some(change.clone()),
            Step::ForgetChange => machine.change = None,
            Step::CloseNode { drain } => {
                tried.drain |= drain;
                tried.mark_old = true;
                let record = self.record_mut();
                record.comment = names::CHANGE_COMMENT.to_owned();
                if *drain {
                    record.set_aside("DRAIN", names::CHANGE_REASON);
                }
            }
            Step::DeleteNode => {
                tried.delete = true;
                machine.registration = Registration::Absent;
            }
            Step::RestoreNode(change) => {
                machine.marked_recently = true;
                tried.restore = true;
                self.record_mut().restore(change);
            }
            Step::ReopenNode { resume, comment } => {
                tried.reopen = true;
                let record = self.record_mut();
                record.comment = comment.clone();
                record.states.retain(|state| !*resume || state != "DRAIN");
            }
            Step::OpenPort => self.port_open = true,
            Step::StartWaking => self.waking = true,
            Step::StopWaking => self.waking = false,
        }
    }

    /// slurmd starts with what is written, whoever asked for it, and has to be looked at again.
    pub(crate) fn start(&mut self) {
        self.machine.daemon = Daemon::Running { with: self.machine.written.clone() };
        self.machine.detection_saved = false;
        self.machine.key_is_news = false;
        if self.machine.registration == Registration::Unreachable {
            self.machine.registration = Registration::Absent;
        }
        self.register();
    }

    /// Slurm takes what a node says about itself if it does not know the node, and else ignores it.
    fn register(&mut self) {
        let Daemon::Running { with: Some(with) } = &self.machine.daemon else { return };
        if self.machine.registration != Registration::Absent {
            return;
        }
        let cpus = with.conf.get("CPUs").and_then(|cpus| cpus.parse().ok()).unwrap_or_default();
        let gres = with.conf.get("Gres").unwrap_or_default().to_owned();
        let mut record = Record { features: features(&with.conf), weight: weight(&with.conf), cpus, gres, ..idle() };
        if let Some(state) = with.conf.get("State") {
            record.set_aside(state, with.conf.get("Reason").unwrap_or_default());
        }
        self.machine.registration = Registration::Present(record);
    }
}

impl Record {
    pub(crate) fn set_aside(&mut self, state: &str, reason: &str) {
        match state {
            "DOWN" => self.states[0] = "DOWN".to_owned(),
            flag if !self.has(flag) => self.states.push(flag.to_owned()),
            _ => {}
        }
        self.reason = reason.to_owned();
    }

    fn restore(&mut self, change: &Change) {
        if let Some(closed) = &change.closed {
            closed.states.iter().for_each(|state| self.set_aside(state, &closed.reason));
        }
        self.weight = change.weight.unwrap_or(self.weight);
        self.features.extend(change.features.clone());
        self.notes = change.notes.clone();
        self.comment = change.comment().to_owned();
    }
}

/// A node as it is right after its first registration.
pub(crate) fn idle() -> Record {
    Record {
        states: vec!["IDLE".to_owned(), "DYNAMIC_NORM".to_owned()],
        partitions: vec!["compute".to_owned()],
        features: vec!["compute".to_owned()],
        weight: 1,
        ..Record::default()
    }
}
