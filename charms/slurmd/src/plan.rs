//! What a compute unit changes next. Pure: it reads nothing and changes nothing.
//!
//! No plan here stops slurmd. Data that is missing is a reason to wait: whatever runs goes on running.

mod launch;

use crate::names;
use crate::observe::{Controller, Daemon, Key, Launch, Observed, Offer, Registration};
use charm::{Databag, Next, Plan, RelationId};
use slurm_interface::{ComputeData, ControllerData};
use std::fmt;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    InstallPackages,
    ReportVersion(String),
    PublishPartition(RelationId, Databag),
    WriteDropIn(&'static str),
    /// Writes the key that was read from the secret.
    WriteAuthKey,
    WriteOptions(Launch),
    StartDaemon,
    /// Jobs go on: only the daemon itself is replaced.
    RestartDaemon,
    /// Makes slurmd register again.
    ReloadDaemon,
    /// Makes slurmctld save this node, which it else would do only after minutes.
    MarkJoined,
    OpenPort,
    StartWaking,
    StopWaking,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InstallPackages => write!(formatter, "install {}", names::PACKAGES.join(" ")),
            Self::ReportVersion(version) => write!(formatter, "report version {version}"),
            Self::PublishPartition(relation, _) => write!(formatter, "publish partition to {relation}"),
            Self::WriteDropIn(_) => write!(formatter, "write the drop-in of {}", names::SERVICE),
            Self::WriteAuthKey => write!(formatter, "write the authentication key"),
            Self::WriteOptions(_) => write!(formatter, "write {}", names::OPTIONS_FILE),
            Self::StartDaemon => write!(formatter, "start slurmd"),
            Self::RestartDaemon => write!(formatter, "restart slurmd"),
            Self::ReloadDaemon => write!(formatter, "reload slurmd"),
            Self::MarkJoined => write!(formatter, "mark the node as joined"),
            Self::OpenPort => write!(formatter, "open port {}", names::PORT),
            Self::StartWaking => write!(formatter, "look again soon"),
            Self::StopWaking => write!(formatter, "look again no more"),
        }
    }
}

/// Waiting for a controller may take long, and giving up would need somebody to start slurmd again.
const DROP_IN: &str = "\
# Written by the slurmd charm.
[Service]
Restart=on-failure
RestartSec=5
TimeoutStartSec=infinity
";

/// Decides what to change next.
pub fn plan(seen: &Observed) -> Plan<Step> {
    let (mut steps, next) = if seen.leaving {
        // A node on its way out is left as it is: draining and deleting it is not this plan's matter.
        (Vec::new(), Next::Settled)
    } else {
        match &seen.controller {
            // Never joined, or the relation has ended: whatever runs keeps running.
            None => (install(seen), Next::Settled),
            Some(controller) => join(seen, controller),
        }
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

fn join(seen: &Observed, controller: &Controller) -> (Vec<Step>, Next) {
    let mut steps = install(seen);
    // The controllers publish nothing before they know the partition, so this waits for nothing.
    steps.extend(publish(seen, controller));
    if !steps.is_empty() {
        return (steps, Next::LookAgain);
    }
    let Offer::Data(data) = &controller.offer else { return (Vec::new(), awaited(seen, controller)) };
    for stage in [prepare, run, settle] {
        let steps = stage(seen, data);
        if !steps.is_empty() {
            return (steps, Next::LookAgain);
        }
    }
    (Vec::new(), awaited(seen, controller))
}

/// The leader tells the controllers about the partition. One that cannot be used changes nothing out there.
fn publish(seen: &Observed, controller: &Controller) -> Option<Step> {
    let partition = seen.partition.as_ref().ok().filter(|_| seen.leader)?;
    let wanted = ComputeData::new(partition.clone()).encode();
    let missing: Databag =
        wanted.into_iter().filter(|(key, value)| controller.published.get(key) != Some(value)).collect();
    (!missing.is_empty()).then(|| Step::PublishPartition(controller.relation.clone(), missing))
}

/// Every file slurmd reads.
fn prepare(seen: &Observed, data: &ControllerData) -> Vec<Step> {
    let mut steps = Vec::new();
    if seen.machine.drop_in.as_deref() != Some(DROP_IN) {
        steps.push(Step::WriteDropIn(DROP_IN));
    }
    if seen.key == (Key::Offered { same_as_on_disk: false }) {
        steps.push(Step::WriteAuthKey);
    }
    // A changed list of controllers is for the next start: the running daemon gets it from the controllers themselves.
    if let Some(launch) = launch::wanted(seen, data)
        && seen.machine.written.as_ref() != Some(&launch)
    {
        steps.push(Step::WriteOptions(launch));
    }
    steps
}

/// Brings slurmd up, and back if what runs is of no use.
fn run(seen: &Observed, data: &ControllerData) -> Vec<Step> {
    // Without its key slurmd would turn to munge, and without options to a configuration that is not there.
    if !seen.machine.key_on_disk || seen.machine.written.is_none() {
        return Vec::new();
    }
    match &seen.machine.daemon {
        Daemon::Stopped | Daemon::Failing { .. } if !seen.tried.start => vec![Step::StartDaemon],
        Daemon::Running { with } if !seen.tried.restart && is_lost(seen, with.as_ref(), data) => {
            vec![Step::RestartDaemon]
        }
        // Slurm saves a new node only after minutes: a controller that crashed before has forgotten it, and slurmd does not
        // notice. A daemon that this very dispatch started is given time.
        Daemon::Running { .. }
            if seen.machine.registration == Registration::Absent
                && !(seen.tried.start || seen.tried.restart || seen.tried.reload) =>
        {
            vec![Step::ReloadDaemon]
        }
        _ => Vec::new(),
    }
}

/// Says whether the running daemon can never be what it should be: it is no dynamic node of this name, or every
/// controller it was told of has been replaced and none of them answers.
fn is_lost(seen: &Observed, with: Option<&Launch>, data: &ControllerData) -> bool {
    let Some(with) = with else { return true };
    let unknown = !with.controllers.iter().any(|controller| data.controllers.contains(controller));
    with.node_name != seen.node_name || (unknown && seen.machine.registration == Registration::Unreachable)
}

/// What follows once the controllers know the node.
fn settle(seen: &Observed, _: &ControllerData) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Registration::Present(record) = &seen.machine.registration {
        // A comment of the administrator stays, and shows that the node has been saved.
        if record.comment.is_empty() && !seen.tried.mark {
            steps.push(Step::MarkJoined);
        }
        if !seen.port_open {
            steps.push(Step::OpenPort);
        }
    }
    steps
}

/// Says whether something may come without an event of Juju.
fn awaited(seen: &Observed, controller: &Controller) -> Next {
    let joined = match &seen.machine.registration {
        Registration::Present(record) => {
            let placed = record.partitions.iter().any(|partition| partition == seen.unit.app().as_str());
            placed && record.is_responding() && !record.comment.is_empty()
        }
        Registration::Absent | Registration::Unreachable => false,
    };
    match &controller.offer {
        // The other side has to change first, and Juju tells when it does.
        Offer::Unusable(_) => Next::Settled,
        Offer::Data(_) if joined => Next::Settled,
        Offer::Data(_) | Offer::Nothing => Next::LookAgain,
    }
}

#[cfg(test)]
pub(crate) mod situations;
#[cfg(test)]
mod tests;
