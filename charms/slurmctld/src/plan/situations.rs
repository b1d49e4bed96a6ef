//! Situations of a controller for tests, as adjectives, and what a step does to one.

use super::{Step, plan};
use crate::observe::{Compute, Configuration, Daemon, Machine, Observed, Offer, Options, Peer, Secret, Tried};
use charm::{Databag, RelationId, SecretId};
use slurm_conf::Partition;
use slurm_interface::{PeerApp, PeerUnit, SecretUri};

pub(crate) const ROUNDS: usize = charm::reconcile::MAX_ROUNDS;
pub(crate) const URI: &str = "secret://7f1f5b0e-0000-4000-8000-000000000001/d3k2v5nmp25c762q3bvg";

fn peer_relation() -> RelationId {
    "slurmctld-peer:0".parse().unwrap()
}

impl Observed {
    /// The first unit after Juju chose it, with nothing done yet.
    pub(crate) fn fresh() -> Self {
        Self {
            unit: "slurmctld/0".parse().unwrap(),
            leaving: false,
            leader: true,
            siblings: Vec::new(),
            options: Options::default(),
            peer: Some(Peer { relation: peer_relation(), cluster_name: None, host: None }),
            computes: Vec::new(),
            secret: Secret::Absent,
            port_open: false,
            waking: false,
            machine: Machine {
                host: "juju-c9fc6f-0".parse().unwrap(),
                container: true,
                version: None,
                reported_version: None,
                state_directory: false,
                auth_key: false,
                jwt_key: false,
                cgroup_conf: None,
                drop_in: None,
                configuration: Configuration::default(),
                daemon: Daemon::Stopped,
                partitions_saved: false,
                suffix: "aB3_".to_owned(),
            },
            tried: Tried::default(),
        }
    }

    /// A controller that has come to rest, seen by a later hook than the one that made its secret.
    pub(crate) fn serving() -> Self {
        Self::fresh().settled()
    }

    /// Applies plans until none is left, and lets the hook end if the next one has more to do.
    #[track_caller]
    pub(crate) fn settled(mut self) -> Self {
        loop {
            for _ in 0..ROUNDS {
                let steps = plan(&self).steps;
                for step in &steps {
                    self.apply_in_memory(step);
                }
                if steps.is_empty() {
                    break;
                }
            }
            assert!(plan(&self).steps.is_empty(), "the plan does not converge: {:?}", plan(&self).steps);
            if self.secret != Secret::JustMade {
                return self;
            }
            self = self.in_the_next_hook();
        }
    }

    /// Forgets what only one dispatch remembers.
    pub(crate) fn in_the_next_hook(mut self) -> Self {
        self.tried = Tried::default();
        if self.secret == Secret::JustMade {
            self.secret = shared(&[]);
        }
        self
    }

    pub(crate) fn not_leading(mut self) -> Self {
        self.leader = false;
        self.secret = Secret::Unknown;
        for compute in &mut self.computes {
            compute.published.clear();
        }
        self
    }

    pub(crate) fn with_sibling(mut self, unit: &str) -> Self {
        self.siblings.push(unit.parse().unwrap());
        self
    }

    pub(crate) fn with_offer(mut self, app: &str, offer: Offer) -> Self {
        let relation = format!("slurmd:{}", self.computes.len() + 1).parse().unwrap();
        self.computes.push(Compute { relation, app: app.parse().unwrap(), offer, published: Databag::new() });
        self
    }

    pub(crate) fn with_compute(self, app: &str, partition_config: &str) -> Self {
        let partition = Partition::from_config(app, partition_config).unwrap();
        let nodeset = partition.nodeset();
        self.with_offer(app, Offer::Partition(partition, nodeset))
    }

    pub(crate) fn with_unusable(self, app: &str, why: &str) -> Self {
        self.with_offer(app, Offer::Unusable(why.to_owned()))
    }

    /// What a step does to the world, as far as a plan can see it.
    pub(crate) fn apply_in_memory(&mut self, step: &Step) {
        let machine = &mut self.machine;
        match step {
            Step::InstallPackages => machine.version = Some("24.11.5-4".to_owned()),
            Step::ReportVersion(version) => machine.reported_version = Some(version.clone()),
            Step::PrepareStateDirectory => machine.state_directory = true,
            Step::MakeAuthKey | Step::RestoreAuthKey => machine.auth_key = true,
            Step::MakeJwtKey => machine.jwt_key = true,
            Step::WriteCgroupConf(text) => machine.cgroup_conf = Some((*text).to_owned()),
            Step::WriteDropIn(text) => machine.drop_in = Some((*text).to_owned()),
            Step::OfferConfiguration(text) => machine.configuration.live = Some(text.clone()),
            Step::RestoreConfiguration(refused) => {
                machine.configuration.live = machine.configuration.accepted.clone();
                machine.configuration.refused = Some(refused.clone());
            }
            Step::StartDaemon => {
                machine.daemon = Daemon::Answering { mode: "primary".to_owned() };
                self.tried.start = true;
            }
            Step::Reconfigure => {
                machine.configuration.accepted = machine.configuration.live.clone();
                machine.configuration.refused = None;
                machine.partitions_saved = false;
            }
            Step::SavePartitions(_) => {
                machine.partitions_saved = true;
                self.tried.save = true;
            }
            Step::OpenPort => self.port_open = true,
            Step::AddSecret => self.secret = Secret::JustMade,
            Step::GrantSecret(relation) => match &mut self.secret {
                Secret::Shared { granted, .. } => drop(granted.insert(relation.clone())),
                other => panic!("a grant of {other:?}"),
            },
            Step::PublishPeerApp(_, bag) => {
                let name = PeerApp::decode(bag).unwrap().unwrap().cluster_name;
                self.peer.as_mut().unwrap().cluster_name = Some(name);
            }
            Step::PublishPeerUnit(_, bag) => {
                let host = PeerUnit::decode(bag).unwrap().unwrap().hostname;
                self.peer.as_mut().unwrap().host = Some(host.to_string());
            }
            Step::PublishController(relation, bag) => {
                let compute = self.computes.iter_mut().find(|compute| compute.relation == *relation).unwrap();
                compute.published.extend(bag.clone());
            }
            Step::StartWaking => self.waking = true,
            Step::StopWaking => self.waking = false,
        }
    }
}

/// A secret of an earlier hook, granted to these relations.
pub(crate) fn shared(granted: &[&str]) -> Secret {
    let granted = granted.iter().map(|relation| relation.parse().unwrap()).collect();
    let uri = SecretUri::new(URI).unwrap();
    let id: SecretId = uri.as_str().parse().unwrap();
    Secret::Shared { id, uri, granted }
}
