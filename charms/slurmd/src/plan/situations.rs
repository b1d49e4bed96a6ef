//! Situations of a compute unit for tests, as adjectives, and what a step does to one.

use super::{Step, plan};
use crate::names;
use crate::observe::{BadOption, Controller, Daemon, Key, Machine, Observed, Offer, Record, Registration, Tried};
use charm::Databag;
use slurm_conf::{Node, Partition};
use slurm_interface::{ControllerData, SecretUri};

pub(crate) const ROUNDS: usize = charm::reconcile::MAX_ROUNDS;

fn data(hosts: &[&str]) -> ControllerData {
    ControllerData {
        auth_secret: SecretUri::new("secret:d3k2v5nmp25c762q3bvg").unwrap(),
        controllers: hosts.iter().map(|host| format!("{host}:6817").parse().unwrap()).collect(),
        slurm_version: None,
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
            leader: true,
            partition: Ok(Partition::from_config("compute", "").unwrap()),
            controller: None,
            key: Key::NotOffered,
            port_open: false,
            waking: false,
            machine: Machine {
                version: None,
                reported_version: None,
                drop_in: None,
                key_on_disk: false,
                detected: Some(detected()),
                written: None,
                daemon: Daemon::Stopped,
                registration: Registration::Unreachable,
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
        Self::fresh().offered().settled().in_the_next_hook()
    }

    pub(crate) fn not_leading(mut self) -> Self {
        self.leader = false;
        if let Some(controller) = &mut self.controller {
            controller.published.clear();
        }
        self
    }

    pub(crate) fn with_partition_config(mut self, text: &str) -> Self {
        self.partition = Partition::from_config("compute", text).map_err(|error| BadOption {
            option: names::OPTION_PARTITION_CONFIG,
            value: text.to_owned(),
            problem: error.to_string(),
        });
        self
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
        self
    }

    /// What a step does to the world, as far as a plan can see it.
    pub(crate) fn apply_in_memory(&mut self, step: &Step) {
        let machine = &mut self.machine;
        match step {
            Step::InstallPackages => machine.version = Some("24.11.5-4".to_owned()),
            Step::ReportVersion(version) => machine.reported_version = Some(version.clone()),
            Step::PublishPartition(_, bag) => self.controller.as_mut().unwrap().published.extend(bag.clone()),
            Step::WriteDropIn(text) => machine.drop_in = Some((*text).to_owned()),
            Step::WriteAuthKey => {
                machine.key_on_disk = true;
                self.key = Key::Offered { same_as_on_disk: true };
            }
            Step::WriteOptions(launch) => machine.written = Some(launch.clone()),
            Step::StartDaemon | Step::RestartDaemon => {
                machine.daemon = Daemon::Running { with: machine.written.clone() };
                machine.registration = Registration::Present(idle());
                self.tried.start |= *step == Step::StartDaemon;
                self.tried.restart |= *step == Step::RestartDaemon;
            }
            Step::ReloadDaemon => {
                machine.registration = Registration::Present(idle());
                self.tried.reload = true;
            }
            Step::MarkJoined => {
                let Registration::Present(record) = &mut machine.registration else { panic!("marked unseen") };
                record.comment = "joined".to_owned();
                self.tried.mark = true;
            }
            Step::OpenPort => self.port_open = true,
            Step::StartWaking => self.waking = true,
            Step::StopWaking => self.waking = false,
        }
    }
}

/// A node as it is right after its first registration.
pub(crate) fn idle() -> Record {
    Record {
        states: vec!["IDLE".to_owned(), "DYNAMIC_NORM".to_owned()],
        partitions: vec!["compute".to_owned()],
        ..Record::default()
    }
}
