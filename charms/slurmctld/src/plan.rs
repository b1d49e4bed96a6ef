//! What a controller unit changes next. Pure: it reads nothing and changes nothing.
//!
//! Order is the design: packages, files, daemon, configuration, and only then what other applications see. Each stage that
//! the next one builds on ends its round, so that the next decision rests on what has really come of it.

mod slurm_conf;

use crate::names;
use crate::observe::{Compute, Configuration, Daemon, Machine, Observed, Offer, Refused, Secret};
use ::slurm_conf::{ClusterName, ControllerAddress, PartitionName, SlurmConf};
use charm::{Databag, Next, Plan, RelationId};
use slurm_interface::{ControllerData, PeerApp, PeerUnit, SecretUri};
use std::collections::BTreeSet;
use std::fmt;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    InstallPackages,
    ReportVersion(String),
    PrepareStateDirectory,
    MakeAuthKey,
    RestoreAuthKey,
    MakeJwtKey,
    WriteCgroupConf(&'static str),
    WriteDropIn(&'static str),
    /// Puts a configuration in place if Slurm can read it; else remembers why not.
    OfferConfiguration(String),
    /// Puts the accepted configuration back and remembers why the other one was refused.
    RestoreConfiguration(Refused),
    StartDaemon,
    /// Makes slurmctld load the configuration in place; one that it refuses is taken back.
    Reconfigure,
    /// Makes slurmctld write its partitions to the state directory, through one that exists.
    SavePartitions(PartitionName),
    OpenPort,
    AddSecret,
    GrantSecret(RelationId),
    PublishPeerApp(RelationId, Databag),
    PublishPeerUnit(RelationId, Databag),
    PublishController(RelationId, Databag),
    StartWaking,
    StopWaking,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InstallPackages => write!(formatter, "install {}", names::PACKAGES.join(" ")),
            Self::ReportVersion(version) => write!(formatter, "report version {version}"),
            Self::PrepareStateDirectory => write!(formatter, "prepare {}", names::STATE_DIRECTORY),
            Self::MakeAuthKey => write!(formatter, "make the authentication key"),
            Self::RestoreAuthKey => write!(formatter, "restore the authentication key"),
            Self::MakeJwtKey => write!(formatter, "make the token key"),
            Self::WriteCgroupConf(_) => write!(formatter, "write {}", names::CGROUP_CONF),
            Self::WriteDropIn(_) => write!(formatter, "write the drop-in of {}", names::SERVICE),
            Self::OfferConfiguration(_) => write!(formatter, "write {}", names::SLURM_CONF),
            Self::RestoreConfiguration(_) => write!(formatter, "put the accepted {} back", names::SLURM_CONF),
            Self::StartDaemon => write!(formatter, "start slurmctld"),
            Self::Reconfigure => write!(formatter, "reconfigure slurmctld"),
            Self::SavePartitions(_) => write!(formatter, "save partitions"),
            Self::OpenPort => write!(formatter, "open port {}", names::PORT),
            Self::AddSecret => write!(formatter, "add secret {}", names::SECRET_LABEL),
            Self::GrantSecret(relation) => write!(formatter, "grant secret {} to {relation}", names::SECRET_LABEL),
            Self::PublishPeerApp(relation, _) => write!(formatter, "publish cluster name to {relation}"),
            Self::PublishPeerUnit(relation, _) => write!(formatter, "publish host name to {relation}"),
            Self::PublishController(relation, _) => write!(formatter, "publish controllers to {relation}"),
            Self::StartWaking => write!(formatter, "look again soon"),
            Self::StopWaking => write!(formatter, "look again no more"),
        }
    }
}

/// What a unit of this application is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The one controller: it has the configuration, or is the leader of an application that has no cluster yet.
    Controller,
    /// A further unit. Several controllers need shared state.
    Second,
    /// Too early to say: Juju has not shown the peer relation, or not made a leader.
    Undecided,
}

/// Decides a unit's role. A unit without a configuration never makes a second cluster beside an existing one.
pub fn role(seen: &Observed) -> Role {
    let named = seen.peer.as_ref().is_some_and(|peer| peer.cluster_name.is_some());
    if seen.machine.configuration.lists(&seen.machine) {
        Role::Controller
    } else if named || (!seen.leader && !seen.siblings.is_empty()) {
        Role::Second
    } else if seen.leader && seen.peer.is_some() {
        Role::Controller
    } else {
        Role::Undecided
    }
}

impl Configuration {
    /// Says whether this machine has a configuration, in place or accepted, that makes it a controller.
    fn lists(&self, machine: &Machine) -> bool {
        let parsed = [&self.live, &self.accepted].into_iter().flatten().filter_map(|text| SlurmConf::parse(text).ok());
        let names_host = |line: &&str| line.split('(').next() == Some(machine.host.as_str());
        parsed.into_iter().any(|conf| conf.controllers().iter().any(names_host))
    }
}

/// Decides what to change next.
pub fn plan(seen: &Observed) -> Plan<Step> {
    let (mut steps, next) = match role(seen) {
        // A unit on its way out changes nothing: taking a controller out of a cluster comes with several controllers.
        _ if seen.leaving => (Vec::new(), Next::Settled),
        Role::Second => (Vec::new(), Next::Settled),
        Role::Undecided => (install(seen), Next::Settled),
        Role::Controller => serve(seen),
    };
    if steps.is_empty() {
        match (next, seen.waking) {
            (Next::LookAgain, false) => steps.push(Step::StartWaking),
            (Next::Settled, true) => steps.push(Step::StopWaking),
            (Next::LookAgain, true) | (Next::Settled, false) => {}
        }
    }
    Plan { steps, next }
}

fn install(seen: &Observed) -> Vec<Step> {
    match &seen.machine.version {
        None => vec![Step::InstallPackages],
        Some(version) if seen.machine.reported_version.as_ref() != Some(version) => {
            vec![Step::ReportVersion(version.clone())]
        }
        Some(_) => Vec::new(),
    }
}

fn serve(seen: &Observed) -> (Vec<Step>, Next) {
    for stage in [install, prepare, configure, share] {
        let steps = stage(seen);
        if !steps.is_empty() {
            return (steps, Next::LookAgain);
        }
    }
    (Vec::new(), awaited(seen))
}

/// Everything slurmctld needs beside its configuration.
fn prepare(seen: &Observed) -> Vec<Step> {
    let machine = &seen.machine;
    let mut steps = Vec::new();
    // A cluster that was born keeps its state or none: an empty directory would kill every running job.
    if !machine.state_directory && machine.configuration.accepted.is_none() {
        steps.push(Step::PrepareStateDirectory);
    }
    if !machine.auth_key {
        match seen.secret {
            Secret::Absent => steps.push(Step::MakeAuthKey),
            Secret::Shared { .. } => steps.push(Step::RestoreAuthKey),
            Secret::JustMade | Secret::Unknown => {}
        }
    }
    if !machine.jwt_key {
        steps.push(Step::MakeJwtKey);
    }
    let cgroup_conf = slurm_conf::cgroup_conf(machine.container);
    if machine.cgroup_conf.as_deref() != Some(cgroup_conf) {
        steps.push(Step::WriteCgroupConf(cgroup_conf));
    }
    if machine.drop_in.as_deref() != Some(DROP_IN) {
        steps.push(Step::WriteDropIn(DROP_IN));
    }
    steps
}

/// The state directory is checked before every start: slurmctld would create a missing one and start without any job.
const DROP_IN: &str = "\
# Written by the slurmctld charm.
[Service]
ExecStartPre=/usr/bin/test -d /var/lib/slurm/checkpoint/state
Restart=on-failure
RestartSec=2
";

/// Brings slurm.conf and slurmctld to what is wanted, one proven stage at a time.
fn configure(seen: &Observed) -> Vec<Step> {
    let machine = &seen.machine;
    let configuration = &machine.configuration;
    if !can_start(seen) || unusable_cluster_name(seen).is_some() {
        return Vec::new();
    }
    if let Some(refused) = rejected(machine) {
        return vec![Step::RestoreConfiguration(refused)];
    }
    let unproven = configuration.live != configuration.accepted;
    // A file that somebody else wrote is proven by itself before anything is built on it, unless it takes something away that
    // we depend on. slurmctld may only seem silent: no command of Slurm works beside a file that its parser cannot read.
    let up = matches!(machine.daemon, Daemon::Answering { .. } | Daemon::Silent);
    let sound = configuration.live == Some(slurm_conf::repaired(seen).render());
    if up && unproven && sound && configuration.accepted.is_some() {
        return reconfigure(seen);
    }
    if seen.leader || configuration.live.is_none() {
        let wanted = slurm_conf::wanted(seen).render();
        match standing_refusal(seen, &wanted) {
            // What the file in place leads to is refused, so that file goes as well.
            Some(refused) if unproven && configuration.accepted.is_some() => {
                return vec![Step::RestoreConfiguration(refused.clone())];
            }
            None if configuration.live.as_ref() != Some(&wanted) => return vec![Step::OfferConfiguration(wanted)],
            Some(_) | None => {}
        }
    }
    match &machine.daemon {
        Daemon::Stopped | Daemon::Failing { .. } if !seen.tried.start => vec![Step::StartDaemon],
        Daemon::Answering { .. } if unproven => reconfigure(seen),
        // A reconfigure leaves the partitions of before in the state directory, and a takeover restores those.
        Daemon::Answering { .. } if !machine.partitions_saved && !seen.tried.save => {
            first_partition(configuration).map(Step::SavePartitions).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn reconfigure(seen: &Observed) -> Vec<Step> {
    match seen.tried.reconfigure {
        None => vec![Step::Reconfigure],
        Some(_) => Vec::new(),
    }
}

/// Returns the refusal that stands in the way of the configuration that is wanted now, if any.
pub fn refusal(seen: &Observed) -> Option<&Refused> {
    standing_refusal(seen, &slurm_conf::wanted(seen).render())
}

fn standing_refusal<'seen>(seen: &'seen Observed, wanted: &str) -> Option<&'seen Refused> {
    seen.machine.configuration.refused.as_ref().filter(|refused| refused.candidate == wanted)
}

/// Returns the option's value if it cannot be the name of the cluster to be made. Once there is one, the option is moot.
pub fn unusable_cluster_name(seen: &Observed) -> Option<&str> {
    let born = seen.machine.configuration.live.is_some() || seen.machine.configuration.accepted.is_some();
    let chosen = seen.options.cluster_name.as_str();
    (!born && !chosen.is_empty() && chosen.parse::<ClusterName>().is_err()).then_some(chosen)
}

/// Nothing is started without its key and its state.
fn can_start(seen: &Observed) -> bool {
    seen.machine.auth_key && seen.machine.jwt_key && seen.machine.state_directory
}

/// Returns the configuration in place if it is one that slurmctld does not take and a better one is known.
fn rejected(machine: &Machine) -> Option<Refused> {
    let configuration = &machine.configuration;
    let (live, accepted) = (configuration.live.as_ref()?, configuration.accepted.as_ref()?);
    if live == accepted {
        return None;
    }
    match (&configuration.refused, &machine.daemon) {
        // A hook that died between noting the refusal and putting the old file back.
        (Some(refused), _) if refused.candidate == *live => Some(refused.clone()),
        (_, Daemon::Failing { result }) => {
            Some(Refused { candidate: live.clone(), reason: format!("slurmctld does not start on it ({result})") })
        }
        _ => None,
    }
}

fn first_partition(configuration: &Configuration) -> Option<PartitionName> {
    let conf = SlurmConf::parse(configuration.accepted.as_ref()?).ok()?;
    conf.partitions().find_map(|partition| partition.name().parse().ok())
}

/// What Juju and other applications learn, last of all.
fn share(seen: &Observed) -> Vec<Step> {
    let mut steps = Vec::new();
    if !seen.port_open {
        steps.push(Step::OpenPort);
    }
    if let Some(peer) = &seen.peer {
        let unit = PeerUnit { hostname: seen.machine.host.clone() };
        if peer.host.as_deref() != Some(seen.machine.host.as_str()) {
            steps.push(Step::PublishPeerUnit(peer.relation.clone(), unit.encode()));
        }
        if let Some(cluster_name) = cluster_name(seen)
            && seen.leader
            && peer.cluster_name.is_none()
        {
            steps.push(Step::PublishPeerApp(
                peer.relation.clone(),
                PeerApp { cluster_name, restart_signal: String::new() }.encode(),
            ));
        }
    }
    if !seen.leader {
        return steps;
    }
    match &seen.secret {
        Secret::Absent if seen.machine.auth_key => steps.push(Step::AddSecret),
        Secret::Shared { uri, granted, .. } => {
            let served = served_partitions(seen);
            for compute in seen.computes.iter().filter(|compute| is_served(compute, &served)) {
                if !granted.contains(&compute.relation) {
                    steps.push(Step::GrantSecret(compute.relation.clone()));
                }
                let missing = missing(controller_data(seen, uri).encode(), &compute.published);
                if !missing.is_empty() {
                    steps.push(Step::PublishController(compute.relation.clone(), missing));
                }
            }
        }
        Secret::Absent | Secret::JustMade | Secret::Unknown => {}
    }
    steps
}

/// The name in the file is the cluster's; it never changes.
fn cluster_name(seen: &Observed) -> Option<ClusterName> {
    let conf = SlurmConf::parse(seen.machine.configuration.live.as_ref()?).ok()?;
    conf.get("ClusterName")?.parse().ok()
}

fn controller_data(seen: &Observed, uri: &SecretUri) -> ControllerData {
    ControllerData {
        auth_secret: uri.clone(),
        controllers: vec![ControllerAddress::new(seen.machine.host.clone())],
        slurm_version: seen.machine.version.as_deref().map(release),
    }
}

/// Returns the numbers of a package's version, without what a distribution adds to them.
fn release(version: &str) -> String {
    version.split(|character: char| !character.is_ascii_digit() && character != '.').next().unwrap_or_default().to_owned()
}

/// Returns the partitions of the configuration that slurmctld runs with.
pub fn served_partitions(seen: &Observed) -> BTreeSet<String> {
    let accepted = seen.machine.configuration.accepted.as_ref();
    let conf = accepted.and_then(|text| SlurmConf::parse(text).ok()).unwrap_or_default();
    conf.partitions().map(|partition| partition.name().to_owned()).collect()
}

/// Says whether a compute application's nodes have a place to go.
pub fn is_served(compute: &Compute, served: &BTreeSet<String>) -> bool {
    match &compute.offer {
        Offer::Partition(partition, _) => served.contains(partition.name().as_str()),
        Offer::Nothing | Offer::Unusable(_) => false,
    }
}

/// Returns the entries of `wanted` that `present` lacks or has otherwise.
fn missing(wanted: Databag, present: &Databag) -> Databag {
    wanted.into_iter().filter(|(key, value)| present.get(key) != Some(value)).collect()
}

/// Says whether something may come without an event of Juju.
fn awaited(seen: &Observed) -> Next {
    let answering = matches!(seen.machine.daemon, Daemon::Answering { .. });
    let proven = seen.machine.configuration.live == seen.machine.configuration.accepted;
    // Juju may lose the event that an application has published something.
    let silent = seen.computes.iter().any(|compute| matches!(compute.offer, Offer::Nothing));
    let grant_due = seen.secret == Secret::JustMade && !seen.computes.is_empty();
    let unsaved = !seen.machine.partitions_saved && first_partition(&seen.machine.configuration).is_some();
    let stuck = !can_start(seen) || unusable_cluster_name(seen).is_some();
    match !stuck && (!answering || !proven || unsaved || silent || grant_due) {
        true => Next::LookAgain,
        false => Next::Settled,
    }
}

#[cfg(test)]
mod situations;
#[cfg(test)]
mod tests;
