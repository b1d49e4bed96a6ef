//! What a controller unit changes next. Pure: it reads nothing and changes nothing.
//!
//! Order is the design: packages, files, daemon, configuration, and only then what other applications see. Each stage that
//! the next one builds on ends its round, so that the next decision rests on what has really come of it.

mod compose;
mod configure;
mod foundation;
mod identity;
mod options;
mod origin;
mod share;
mod slurm_conf;
mod step;

use crate::configuration::{Change, Files};
use crate::observe::{Daemon, Observed, Offer};
use ::slurm_conf::SlurmConf;
use charm::{Next, Plan};

pub use foundation::is_in_use;
pub use identity::{Obstacle, obstacle};
pub use options::{BadOption, bad_options};
pub use origin::{LineOrigin, origin};
pub use share::{owner, served_partitions};
pub use slurm_conf::{defaults, offered};
pub use step::Step;

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
    // A unit that has published its host is the one that made the cluster, whatever has become of its files.
    let made_it = seen.peer.as_ref().is_some_and(|peer| peer.host.as_deref() == Some(seen.machine.host.as_str()));
    if lists_host(&seen.machine.live, seen) || lists_host(&seen.machine.accepted, seen) || (named && made_it) {
        Role::Controller
    } else if named || (!seen.leader && !seen.siblings.is_empty()) {
        Role::Second
    } else if seen.leader && seen.peer.is_some() {
        Role::Controller
    } else {
        Role::Undecided
    }
}

/// Says whether a configuration makes this machine a controller.
fn lists_host(files: &Files, seen: &Observed) -> bool {
    let conf = files.slurm.as_ref().and_then(|text| SlurmConf::parse(text).ok());
    let names_host = |line: &&str| line.split('(').next() == Some(seen.machine.host.as_str());
    conf.is_some_and(|conf| conf.controllers().iter().any(names_host))
}

/// Decides what to change next.
pub fn plan(seen: &Observed) -> Plan<Step> {
    let (steps, next) = match role(seen) {
        // A unit on its way out changes nothing: taking a controller out of a cluster comes with several controllers.
        _ if seen.leaving => (Vec::new(), Next::Settled),
        Role::Second => (Vec::new(), Next::Settled),
        Role::Undecided if foundation::awaits_packages(seen) => (foundation::install(seen), Next::LookAgain),
        Role::Undecided => (foundation::install(seen), Next::Settled),
        Role::Controller => serve(seen),
    };
    Plan::keeping_timer(steps, next, seen.waking, Step::StartWaking, Step::StopWaking)
}

fn serve(seen: &Observed) -> (Vec<Step>, Next) {
    for stage in [foundation::install, share::request_mount, foundation::prepare, configure::configure, share::share] {
        let steps = stage(seen);
        if !steps.is_empty() {
            return (steps, Next::LookAgain);
        }
    }
    (Vec::new(), awaited(seen))
}

/// Returns what was refused of what is wanted now: which change, and why.
pub fn refused(seen: &Observed) -> Vec<(Change, String)> {
    let partitions = offered(seen).into_keys().map(|name| Change::Partition(name.to_string()));
    let changes = [Change::File, Change::Parameters, Change::Tracking].into_iter().chain(partitions);
    let told = |change: Change| {
        let reason = compose::refusal(seen, &change)?;
        let doubt = (change == Change::Parameters).then(|| options::doubt(seen)).flatten();
        Some((change, doubt.unwrap_or_else(|| reason.to_owned())))
    };
    changes.filter_map(told).collect()
}

/// Says whether something may come without an event of Juju.
fn awaited(seen: &Observed) -> Next {
    let machine = &seen.machine;
    let answering = matches!(machine.daemon, Daemon::Answering { .. });
    let proven = machine.live == machine.accepted && !machine.unresolved;
    // Juju may lose the event that an application has published something, and to a relation made again an agent may be deaf for good.
    let silent = seen.computes.iter().any(|compute| compute.deaf || matches!(compute.offer, Offer::Nothing));
    let unsaved = !machine.partitions_saved && compose::first_partition(&machine.accepted).is_some();
    let held = !seen.tried.at_risk.is_empty();
    // Nobody tells that it is refused no more, or never was: messages run out while slurmctld hangs.
    let stranger = machine.stranger.is_some();
    let full = machine.unsaved.is_some();
    // A file system comes and goes without Juju.
    let store = obstacle(seen).is_some_and(|obstacle| !matches!(obstacle, Obstacle::Foreign(_)));
    let ready = machine.version.is_some() && configure::can_start(seen) && !options::holds_back(seen);
    let working =
        ready && (!answering || !proven || unsaved || silent || held || stranger || full || share::grant_due(seen));
    if working || store || foundation::awaits_packages(seen) { Next::LookAgain } else { Next::Settled }
}

#[cfg(test)]
mod configure_tests;
#[cfg(test)]
mod situations;
#[cfg(test)]
mod tests;
