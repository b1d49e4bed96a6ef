//! What Juju and other applications learn, last of all.

use super::{Step, identity};
use crate::names;
use crate::observe::{Compute, Observed, Offer, Secret, Shared};
use ::slurm_conf::{ControllerAddress, PartitionName, SlurmConf};
use charm::Databag;
use slurm_interface::{ControllerData, MountPoint, MountRequest, PeerApp, PeerUnit, SecretUri};
use std::collections::BTreeSet;

/// Asks for the file system that the operator wants the state on.
pub(super) fn request_mount(seen: &Observed) -> Vec<Step> {
    let Some(endpoint) =
        seen.mount.as_ref().filter(|_| seen.leader && seen.options.network_state && !identity::is_local(seen))
    else {
        return Vec::new();
    };
    let path = MountPoint::new(names::CHECKPOINT_DIRECTORY).expect("invariant: our own path has no detours");
    let missing = missing(MountRequest::new(path).encode(), &endpoint.published);
    if missing.is_empty() { Vec::new() } else { vec![Step::RequestMount(endpoint.relation.clone(), missing)] }
}

pub(super) fn share(seen: &Observed) -> Vec<Step> {
    // Before there is a cluster there is nothing to tell.
    if seen.machine.accepted.slurm.is_none() {
        return Vec::new();
    }
    let mut steps = Vec::new();
    if !seen.port_open {
        steps.push(Step::OpenPort);
    }
    if let Some(peer) = &seen.peer {
        let unit = PeerUnit { hostname: seen.machine.host.clone() };
        if peer.host.as_deref() != Some(seen.machine.host.as_str()) {
            steps.push(Step::PublishPeerUnit(peer.relation.clone(), unit.encode()));
        }
        if let Some(cluster_name) = identity::cluster_name(seen)
            && seen.leader
            && peer.cluster_name.is_none()
        {
            let bag = PeerApp { cluster_name, restart_signal: String::new() }.encode();
            steps.push(Step::PublishPeerApp(peer.relation.clone(), bag));
        }
    }
    if seen.leader {
        steps.extend(keep(&seen.auth_secret, names::AUTH_SECRET, seen.machine.auth_key));
        steps.extend(keep(&seen.jwt_secret, names::JWT_SECRET, seen.machine.jwt_key));
        if let Secret::Shared(secret) = &seen.auth_secret {
            steps.extend(publish(seen, secret));
        }
    }
    steps
}

/// Keeps a key in a secret as long as it is on disk.
fn keep(secret: &Secret, label: &'static str, on_disk: bool) -> Option<Step> {
    match secret {
        Secret::Absent if on_disk => Some(Step::AddSecret(label)),
        Secret::Shared(Shared { holds_key: false, .. }) | Secret::Kept { holds_key: false } if on_disk => {
            Some(Step::RefillSecret(label))
        }
        Secret::Absent | Secret::Shared(_) | Secret::Kept { .. } | Secret::JustMade | Secret::Unknown => None,
    }
}

fn publish(seen: &Observed, secret: &Shared) -> Vec<Step> {
    let mut steps = Vec::new();
    let served = served_partitions(seen);
    for compute in seen.computes.iter().filter(|compute| is_served(seen, compute, &served)) {
        if !secret.granted.contains(&compute.relation) {
            steps.push(Step::GrantSecret(compute.relation.clone()));
        }
        let missing = missing(controller_data(seen, &secret.uri).encode(), &compute.published);
        if !missing.is_empty() {
            steps.push(Step::PublishController(compute.relation.clone(), missing));
        }
    }
    steps
}

fn controller_data(seen: &Observed, uri: &SecretUri) -> ControllerData {
    ControllerData {
        auth_secret: uri.clone(),
        controllers: vec![ControllerAddress::new(seen.machine.host.clone())],
        slurm_version: seen.machine.version.as_deref().map(release).filter(|version| version.contains('.')),
    }
}

/// Returns the numbers of a package's version, without what a distribution adds to them.
fn release(version: &str) -> String {
    let numbers = version.split(|character: char| !character.is_ascii_digit() && character != '.').next();
    numbers.unwrap_or_default().split('.').take(3).collect::<Vec<_>>().join(".")
}

/// Says whether a grant is still to be made, or still to be seen.
pub(super) fn grant_due(seen: &Observed) -> bool {
    match &seen.auth_secret {
        Secret::JustMade => !seen.computes.is_empty(),
        Secret::Shared(shared) => !shared.unconfirmed.is_empty(),
        Secret::Absent | Secret::Kept { .. } | Secret::Unknown => false,
    }
}

/// Returns the partitions of the configuration that slurmctld runs with.
pub fn served_partitions(seen: &Observed) -> BTreeSet<String> {
    let accepted = seen.machine.accepted.slurm.as_ref();
    let conf = accepted.and_then(|text| SlurmConf::parse(text).ok()).unwrap_or_default();
    conf.partitions().map(|partition| partition.name().to_owned()).collect()
}

/// Says whether a compute application's nodes have a place to go: its partition is there, and is its own.
fn is_served(seen: &Observed, compute: &Compute, served: &BTreeSet<String>) -> bool {
    match &compute.offer {
        Offer::Partition(partition, _) => {
            let name = partition.name();
            served.contains(name.as_str()) && owner(seen, name).is_some_and(|owner| owner.relation == compute.relation)
        }
        Offer::Nothing | Offer::Unusable(_) => false,
    }
}

/// Returns the application that has a partition: of several that claim it, the one related first.
pub fn owner<'seen>(seen: &'seen Observed, name: &PartitionName) -> Option<&'seen Compute> {
    seen.computes.iter().find(|compute| match &compute.offer {
        Offer::Partition(partition, _) => partition.name() == name,
        Offer::Nothing | Offer::Unusable(_) => false,
    })
}

/// Returns the entries of `wanted` that `present` lacks or has otherwise.
fn missing(wanted: Databag, present: &Databag) -> Databag {
    wanted.into_iter().filter(|(key, value)| present.get(key) != Some(value)).collect()
}
