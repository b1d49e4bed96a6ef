//! What an operator reads about a controller unit. Pure, and about what is: the worst condition wins.

use crate::configuration::Change;
use crate::names;
use crate::observe::{Daemon, Observed, Offer};
use crate::plan::{self, BadOption, Obstacle, Role, Step};
use charm::Status;
use slurm_ops::journal::Cause;
use slurm_ops::packages::Obstacle as Packages;

/// Says how this unit is.
pub fn status(seen: &Observed) -> Status {
    if seen.leaving {
        // Never blocked: Juju 4 drops a leaving unit that is.
        return Status::maintenance("leaving");
    }
    match plan::role(seen) {
        Role::Second => Status::blocked(second(seen)),
        Role::Undecided => {
            let conditions = [options(seen), installation(seen)].into_iter().flatten();
            Status::worst(conditions).unwrap_or_else(|| Status::waiting("for Juju to choose a leader"))
        }
        Role::Controller => {
            let conditions = [options(seen), installation(seen), refusals(seen), partitions(seen), foundation(seen)];
            let conditions = conditions.into_iter().flatten().chain([daemon(seen)]);
            Status::worst(conditions).unwrap_or_else(|| Status::active(""))
        }
    }
}

/// Says what a slow step is doing.
pub fn announce(step: &Step) -> Option<Status> {
    match step {
        Step::StartDaemon => Some(Status::maintenance("starting slurmctld")),
        _ => None,
    }
}

fn second(seen: &Observed) -> String {
    let unit = &seen.unit;
    match seen.options.network_state {
        true => format!("several controllers are not supported yet: `juju remove-unit {unit}`"),
        false => format!("one controller only without {}: `juju remove-unit {unit}`", names::OPTION_NETWORK_STATE),
    }
}

/// What the operator chose and cannot be done. Everything else goes on as before.
fn options(seen: &Observed) -> Vec<Status> {
    let told = |bad: BadOption| Status::blocked(format!("option {}: {}", bad.option, bad.problem));
    plan::bad_options(seen).into_iter().map(told).collect()
}

/// Why there is no Slurm to work with.
fn installation(seen: &Observed) -> Vec<Status> {
    let option = names::OPTION_SOURCE;
    if seen.machine.version.is_some() {
        return Vec::new();
    }
    let status = match (&seen.tried.install, &seen.machine.unfit) {
        (Some(obstacle), _) if obstacle.is_passing() => Status::waiting(format!("for apt: {}", obstacle.told())),
        (Some(Packages::Failed(why)), _) => match seen.options.source.trim() {
            "" => Status::blocked(format!("installing slurmctld failed: {why}")),
            _ => Status::blocked(format!("option {option}: installing failed: {why}")),
        },
        (Some(obstacle), _) => Status::blocked(obstacle.advice(option)),
        (None, Some(unfit)) if plan::is_in_use(seen) => {
            Status::blocked(format!("{}, and it runs: stop slurmctld, then set option {option}", unfit.told()))
        }
        (None, Some(unfit)) => Status::blocked(unfit.advice(option)),
        (None, None) => Status::maintenance("installing slurmctld"),
    };
    vec![status]
}

/// What Slurm did not take.
fn refusals(seen: &Observed) -> Vec<Status> {
    let told = |(change, reason): (Change, String)| match change {
        Change::Partition(name) => {
            let app = name.parse().ok().and_then(|name| plan::owner(seen, &name)).map(|owner| owner.app.to_string());
            Status::blocked(format!("{}: partition refused: {reason}", app.unwrap_or(name)))
        }
        change => Status::blocked(format!("{change} refused: {reason}")),
    };
    let by_hand = seen.machine.taken_back.as_ref();
    let by_hand = by_hand.map(|why| Status::blocked(format!("{} was refused and put back: {why}", names::SLURM_CONF)));
    let at_risk = seen.tried.at_risk.iter().next().map(|name| {
        let way_out = "add it to slurm.conf, or delete it with scontrol";
        Status::blocked(format!("changes wait: partition {name} is in slurmctld's memory only: {way_out}"))
    });
    plan::refused(seen).into_iter().map(told).chain(by_hand).chain(at_risk).collect()
}

/// What other applications want, and how it fits together.
fn partitions(seen: &Observed) -> Vec<Status> {
    let mut conditions = Vec::new();
    for compute in &seen.computes {
        match &compute.offer {
            Offer::Unusable(why) => conditions.push(Status::blocked(format!("{}: {why}", compute.app))),
            Offer::Partition(partition, _) => {
                let owner = plan::owner(seen, partition.name()).filter(|owner| owner.relation != compute.relation);
                conditions.extend(owner.map(|owner| {
                    Status::blocked(format!("{}: partition {} belongs to {}", compute.app, partition.name(), owner.app))
                }));
            }
            Offer::Nothing => {}
        }
    }
    let option = names::OPTION_DEFAULT_PARTITION;
    let chosen = seen.options.default_partition.as_str();
    let served = plan::served_partitions(seen);
    let there = served.contains(chosen);
    if !chosen.is_empty() && !there && !plan::bad_options(seen).iter().any(|bad| bad.option == option) {
        let known = served.into_iter().collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "none yet".to_owned() } else { known };
        conditions.push(Status::waiting(format!("for partition {chosen} (option {option}); there: {known}")));
    }
    let defaults = plan::defaults(seen);
    if defaults.len() > 1 && !there {
        let names: Vec<String> = defaults.iter().map(ToString::to_string).collect();
        conditions
            .push(Status::blocked(format!("{} all say Default=YES: choose with option {option}", names.join(", "))));
    }
    conditions
}

/// What has to be there before slurmctld may start.
fn foundation(seen: &Observed) -> Vec<Status> {
    let machine = &seen.machine;
    let mut conditions: Vec<Status> = plan::obstacle(seen).map(|obstacle| state(seen, &obstacle)).into_iter().collect();
    let unsaved = machine.unsaved.as_ref().filter(|_| plan::obstacle(seen).is_none());
    conditions
        .extend(unsaved.map(|why| Status::blocked(format!("{why}: slurmctld cannot save jobs, and changes wait"))));
    if machine.version.is_some() && !machine.auth_key {
        conditions.push(Status::waiting("for the authentication key"));
    }
    if machine.version.is_some() && !machine.jwt_key {
        conditions.push(Status::waiting("for the token key"));
    }
    if !seen.leader {
        conditions.push(Status::waiting("for Juju to make this unit the leader again"));
    }
    conditions
}

fn state(seen: &Observed, obstacle: &Obstacle) -> Status {
    let (mount, state) = (names::CHECKPOINT_DIRECTORY, names::STATE_DIRECTORY);
    let endpoint = names::ENDPOINT_MOUNT;
    Status::blocked(match obstacle {
        Obstacle::NotMounted if seen.mount.is_none() => {
            format!("nothing is mounted at {mount}: integrate a file system client with `{endpoint}`")
        }
        Obstacle::NotMounted => format!("nothing is mounted at {mount}: see the unit on `{endpoint}`"),
        Obstacle::ReadOnly => format!("{mount} is read-only: slurmctld has to write there"),
        Obstacle::Lost => format!("{state} is not this cluster's any more: restore it, or jobs are lost"),
        Obstacle::Foreign(whose) => format!("{state} belongs to {whose}: mount or empty the right one"),
        Obstacle::Unreadable(why) => format!("{state} cannot be read: {why}"),
    })
}

fn daemon(seen: &Observed) -> Status {
    let unproven = seen.machine.live != seen.machine.accepted;
    match &seen.machine.daemon {
        Daemon::Stopped => Status::waiting("for slurmctld to start"),
        Daemon::Failing { reason } => Status::waiting(format!("for slurmctld, which fails: {}", in_words(reason))),
        Daemon::Silent { reason: None } => Status::waiting("for slurmctld to answer"),
        Daemon::Silent { reason: Some(reason) } => {
            Status::waiting(format!("for slurmctld to answer: {}", in_words(reason)))
        }
        Daemon::Answering { .. } if unproven => match &seen.tried.reconfigure {
            Some(why) => Status::waiting(format!("for slurmctld to load its configuration: {why}")),
            None => Status::waiting("for slurmctld to load its configuration"),
        },
        Daemon::Answering { mode } => match &seen.machine.stranger {
            None => Status::active(format!("{mode} - UP")),
            Some(stranger) => {
                let why = match stranger.cause {
                    Cause::Clocks => "its clock differs",
                    Cause::Authentication => "its key or clock differs",
                    Cause::NameResolution => "a name does not resolve",
                };
                Status::active(format!("{mode} - UP; refuses {}: {why}", stranger.host))
            }
        },
    }
}

/// Says in other words what Slurm's own would hide.
fn in_words(reason: &str) -> String {
    let known = [
        ("authentication error", "keys or clocks of the machines differ"),
        ("not a valid controller", "this host's name is not in slurm.conf"),
        ("Address already in use", "another program listens on port 6817"),
        ("Unable to resolve", "a host name does not resolve"),
        ("getaddrinfo() failed", "a host name does not resolve"),
    ];
    match known.iter().find(|(words, _)| reason.contains(words)) {
        Some((_, plain)) => format!("{plain} ({reason})"),
        None => reason.to_owned(),
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
