//! Situations of a controller for tests, as adjectives, and what a step does to one.

use super::{Step, plan};
use crate::configuration::{Files, Refusals, Refused};
use crate::names;
use crate::observe::{
    Compute, Daemon, Machine, Observed, Offer, Options, Peer, Secret, Shared, StateDirectory, Store, Tried,
};
use charm::{Databag, RelationId, SecretId};
use slurm_conf::Partition;
use slurm_interface::{PeerApp, PeerUnit, SecretUri};

pub(crate) const ROUNDS: usize = charm::reconcile::MAX_ROUNDS;
pub(crate) const URI: &str = "secret://7f1f5b0e-0000-4000-8000-000000000001/d3k2v5nmp25c762q3bvg";

fn peer_relation() -> RelationId {
    "slurmctld-peer:0".parse().unwrap()
}

impl Default for Options {
    /// What an operator has who chose nothing.
    fn default() -> Self {
        Self {
            cluster_name: String::new(),
            default_partition: String::new(),
            parameters: String::new(),
            cgroup_parameters: String::new(),
            process_tracking: "auto".to_owned(),
            network_state: false,
            source: String::new(),
        }
    }
}

impl Observed {
    /// The first unit after Juju chose it, with nothing done yet.
    pub(crate) fn fresh() -> Self {
        Self {
            unit: "slurmctld/0".parse().unwrap(),
            home: "7f1f5b0e-0000-4000-8000-000000000001/slurmctld".to_owned(),
            leaving: false,
            alarmed: false,
            leader: true,
            siblings: Vec::new(),
            options: Options::default(),
            peer: Some(Peer { relation: peer_relation(), cluster_name: None, host: None }),
            mount: None,
            computes: Vec::new(),
            auth_secret: Secret::Absent,
            jwt_secret: Secret::Absent,
            port_open: false,
            waking: false,
            machine: Machine {
                host: "juju-c9fc6f-0".parse().unwrap(),
                container: true,
                version: None,
                unfit: None,
                takes_tokens: true,
                reported_version: None,
                packages_held: false,
                left_alone: false,
                store: Store::Local,
                state: StateDirectory::Absent,
                auth_key: false,
                jwt_key: false,
                keys_private: true,
                drop_in: None,
                failure_service: None,
                configuration_open: true,
                beside: Default::default(),
                live: Files::default(),
                accepted: Files::default(),
                refusals: Refusals::default(),
                unresolved: false,
                daemon: Daemon::Stopped,
                unsaved: None,
                partitions_saved: false,
                stranger: None,
                taken_back: None,
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
    pub(crate) fn settled(self) -> Self {
        self.settled_where(|_, _| None)
    }

    /// Does the same with a Slurm that has objections: its parser with `true`, slurmctld with `false`.
    #[track_caller]
    pub(crate) fn settled_where(mut self, objects: impl Fn(&str, bool) -> Option<&'static str>) -> Self {
        loop {
            for _ in 0..ROUNDS {
                let steps = plan(&self).steps;
                for step in &steps {
                    self.apply_before(step, &objects);
                }
                if steps.is_empty() {
                    break;
                }
            }
            assert!(plan(&self).steps.is_empty(), "the plan does not converge: {:?}", plan(&self).steps);
            let unconfirmed = matches!(&self.auth_secret, Secret::Shared(shared) if !shared.unconfirmed.is_empty());
            if self.auth_secret != Secret::JustMade && !unconfirmed {
                return self;
            }
            self = self.in_the_next_hook();
        }
    }

    /// Forgets what only one dispatch remembers.
    pub(crate) fn in_the_next_hook(mut self) -> Self {
        self.tried = Tried::default();
        for secret in [&mut self.auth_secret, &mut self.jwt_secret] {
            match secret {
                Secret::JustMade => *secret = shared(&[]),
                Secret::Shared(shared) => shared.unconfirmed.clear(),
                Secret::Absent | Secret::Kept { .. } | Secret::Unknown => {}
            }
        }
        self
    }

    pub(crate) fn not_leading(mut self) -> Self {
        self.leader = false;
        self.auth_secret = Secret::Unknown;
        self.jwt_secret = Secret::Unknown;
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
        let app = app.parse().unwrap();
        self.computes.push(Compute { relation, app, offer, deaf: false, published: Databag::new() });
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

    fn apply_before(&mut self, step: &Step, objects: &impl Fn(&str, bool) -> Option<&'static str>) {
        let objection = |files: &Files, parser| objects(files.slurm.as_deref().unwrap_or_default(), parser);
        let machine = &mut self.machine;
        let version = machine.version.clone().unwrap_or_default();
        let refused = |files: &Files, reason: &str| Refused {
            files: files.clone(),
            version: version.clone(),
            reason: reason.to_owned(),
        };
        match step {
            Step::OfferConfiguration { files, suspects, .. } if objection(files, true).is_some() => {
                let reason = objection(files, true).unwrap();
                machine.refusals.note(refused(files, reason), suspects);
            }
            Step::Reconfigure { suspects, back, .. } if objection(&machine.live, false).is_some() => {
                let reason = objection(&machine.live, false).unwrap();
                machine.refusals.note(refused(&machine.live, reason), suspects);
                machine.live = back.clone();
            }
            other => self.apply_in_memory(other),
        }
    }

    /// What a step does to the world, as far as a plan can see it.
    pub(crate) fn apply_in_memory(&mut self, step: &Step) {
        let machine = &mut self.machine;
        match step {
            Step::InstallPackages(_) => {
                machine.version = Some("24.11.5".to_owned());
                machine.unfit = None;
            }
            Step::HoldPackages => machine.packages_held = true,
            Step::LeaveAlone => machine.left_alone = true,
            Step::ReportVersion(version) => machine.reported_version = Some(version.clone()),
            Step::PrepareState(note) => machine.state = StateDirectory::Of(note.clone()),
            Step::SecureKeys => machine.keys_private = true,
            Step::OpenConfiguration => machine.configuration_open = true,
            Step::MakeAuthKey | Step::RestoreAuthKey => machine.auth_key = true,
            Step::MakeJwtKey | Step::RestoreJwtKey => machine.jwt_key = true,
            Step::WriteDropIn(text) => machine.drop_in = Some(text.clone()),
            Step::WriteFailureService(text) => machine.failure_service = Some(text.clone()),
            Step::OfferConfiguration { files, .. } => machine.live = files.clone(),
            Step::ForgetRefusals(kept) => machine.refusals = kept.clone(),
            Step::RestoreConfiguration { refused, suspects, back } => {
                machine.live = back.clone();
                machine.refusals.note(refused.clone(), suspects);
                self.tried.restored = true;
            }
            Step::Blame(suspect, reason) => machine.refusals.blame(suspect.clone(), reason.clone()),
            Step::StartDaemon => {
                machine.daemon = Daemon::Answering { mode: "primary".to_owned() };
                self.tried.start = true;
            }
            Step::Reconfigure { .. } => {
                machine.accepted = machine.live.clone();
                machine.partitions_saved = false;
                machine.unresolved = false;
            }
            Step::SavePartitions(_) => {
                machine.partitions_saved = true;
                self.tried.save = true;
            }
            Step::OpenPort => self.port_open = true,
            Step::AddSecret(label) => *self.secret(label) = Secret::JustMade,
            Step::RefillSecret(label) => match self.secret(label) {
                Secret::Shared(Shared { holds_key, .. }) | Secret::Kept { holds_key } => *holds_key = true,
                other => panic!("a refill of {other:?}"),
            },
            Step::GrantSecret(relation) => match &mut self.auth_secret {
                Secret::Shared(shared) => {
                    shared.granted.insert(relation.clone());
                    shared.unconfirmed.insert(relation.clone());
                }
                other => panic!("a grant of {other:?}"),
            },
            Step::RequestMount(_, bag) => self.mount.as_mut().unwrap().published = bag.clone(),
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

    fn secret(&mut self, label: &str) -> &mut Secret {
        if label == names::JWT_SECRET { &mut self.jwt_secret } else { &mut self.auth_secret }
    }
}

/// A secret of an earlier hook, granted to these relations.
pub(crate) fn shared(granted: &[&str]) -> Secret {
    let granted = granted.iter().map(|relation| relation.parse().unwrap()).collect();
    let uri = SecretUri::new(URI).unwrap();
    let id: SecretId = uri.as_str().parse().unwrap();
    Secret::Shared(Shared { id, uri, holds_key: true, granted, unconfirmed: Default::default() })
}
