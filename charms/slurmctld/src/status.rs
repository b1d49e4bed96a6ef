//! What an operator reads about a controller unit. Pure, and about what is: the worst condition wins.

use crate::names;
use crate::observe::{Compute, Daemon, Observed, Offer};
use crate::plan::{Role, Step, refusal, role, served_partitions, unusable_cluster_name};
use charm::Status;
use std::collections::BTreeMap;

/// Says how this unit is.
pub fn status(seen: &Observed) -> Status {
    if seen.leaving {
        // Never blocked: Juju 4 drops a leaving unit that is.
        return Status::maintenance("leaving");
    }
    match role(seen) {
        Role::Second => {
            let unit = &seen.unit;
            Status::blocked(format!("only one slurmctld unit can serve for now: `juju remove-unit {unit}`"))
        }
        Role::Undecided if seen.machine.version.is_none() => Status::maintenance("installing slurmctld"),
        Role::Undecided => Status::waiting("for Juju to choose a leader"),
        Role::Controller => {
            let conditions = [inputs(seen), foundation(seen), daemon(seen)];
            Status::worst(conditions.into_iter().flatten()).unwrap_or_else(|| Status::active(""))
        }
    }
}

/// Says what a slow step is doing.
pub fn announce(step: &Step) -> Option<Status> {
    match step {
        Step::InstallPackages => Some(Status::maintenance("installing slurmctld")),
        Step::StartDaemon => Some(Status::maintenance("starting slurmctld")),
        _ => None,
    }
}

/// What an operator, or another application, gave us.
fn inputs(seen: &Observed) -> Vec<Status> {
    let mut conditions = Vec::new();
    if let Some(name) = unusable_cluster_name(seen) {
        let option = names::OPTION_CLUSTER_NAME;
        conditions
            .push(Status::blocked(format!("option {option}: `{name}`: use at most 40 letters, digits, `-`, `_`, `.`")));
    } else if let Some(refused) = refusal(seen) {
        conditions.push(Status::blocked(format!("slurm.conf refused: {}", refused.reason)));
    }
    let mut owners: BTreeMap<&str, &Compute> = BTreeMap::new();
    for compute in &seen.computes {
        match &compute.offer {
            Offer::Unusable(why) => conditions.push(Status::blocked(format!("{}: {why}", compute.app))),
            Offer::Partition(partition, _) => {
                let name = partition.name().as_str();
                let owner = owners.entry(name).or_insert(compute);
                if owner.relation != compute.relation {
                    conditions
                        .push(Status::blocked(format!("{}: partition {name} belongs to {}", compute.app, owner.app)));
                }
            }
            Offer::Nothing => {}
        }
    }
    let default = seen.options.default_partition.as_str();
    if !default.is_empty() && !served_partitions(seen).contains(default) {
        let option = names::OPTION_DEFAULT_PARTITION;
        conditions.push(Status::waiting(format!("for partition {default} (option {option})")));
    }
    conditions
}

/// What has to be there before slurmctld may start.
fn foundation(seen: &Observed) -> Vec<Status> {
    let machine = &seen.machine;
    let mut conditions = Vec::new();
    if machine.version.is_none() {
        conditions.push(Status::maintenance("installing slurmctld"));
    }
    if !machine.state_directory && machine.configuration.accepted.is_some() {
        let directory = names::STATE_DIRECTORY;
        conditions.push(Status::blocked(format!("{directory} is gone: restore it, or jobs are lost")));
    }
    if !machine.auth_key {
        conditions.push(Status::waiting("for the authentication key"));
    }
    if !seen.leader {
        conditions.push(Status::waiting("for Juju to make this unit the leader again"));
    }
    conditions
}

fn daemon(seen: &Observed) -> Vec<Status> {
    let unproven = seen.machine.configuration.live != seen.machine.configuration.accepted;
    let condition = match &seen.machine.daemon {
        Daemon::Stopped => Status::waiting("for slurmctld to start"),
        Daemon::Failing { result } => {
            Status::waiting(format!("for slurmctld, which fails ({result}): see `journalctl -u slurmctld`"))
        }
        Daemon::Silent => Status::waiting("for slurmctld to answer"),
        Daemon::Answering { .. } if unproven => match &seen.tried.reconfigure {
            Some(why) => Status::waiting(format!("for slurmctld to load its configuration: {why}")),
            None => Status::waiting("for slurmctld to load its configuration"),
        },
        Daemon::Answering { mode } => Status::active(format!("{mode} - UP")),
    };
    vec![condition]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Machine, Options, Refused};
    use crate::plan::plan;

    /// The text a unit shows, with Juju's word in front.
    fn shown(seen: &Observed) -> String {
        let status = status(seen);
        format!("{}: {}", status.word(), status.message())
    }

    #[test]
    fn a_serving_controller_says_what_it_is() {
        assert_eq!(shown(&Observed::serving()), "active: primary - UP");
        assert_eq!(shown(&Observed::serving().with_compute("compute", "").settled()), "active: primary - UP");
    }

    #[test]
    fn a_second_unit_is_told_how_to_go() {
        let seen = Observed::fresh().not_leading().with_sibling("slurmctld/1");
        assert_eq!(shown(&seen), "blocked: only one slurmctld unit can serve for now: `juju remove-unit slurmctld/0`");
    }

    #[test]
    fn a_leaving_unit_is_never_blocked() {
        let mut seen = Observed::fresh().not_leading().with_sibling("slurmctld/1");
        seen.leaving = true;
        assert_eq!(shown(&seen), "maintenance: leaving");
    }

    #[test]
    fn a_refused_configuration_is_named_while_it_is_wanted() {
        let mut seen = Observed::serving().with_compute("compute", "MaxTime=60");
        let plan = plan(&seen);
        let [Step::OfferConfiguration(candidate)] = plan.steps.as_slice() else { panic!("{plan:?}") };
        let refused = Refused { candidate: candidate.clone(), reason: "Invalid node names in partition p2".to_owned() };
        seen.machine.configuration.refused = Some(refused);
        assert_eq!(shown(&seen), "blocked: slurm.conf refused: Invalid node names in partition p2");
        seen.computes.clear();
        assert_eq!(shown(&seen), "active: primary - UP");
    }

    #[test]
    fn an_application_with_unusable_data_is_named() {
        let seen = Observed::serving().with_unusable("compute", "key partition: unknown option `MaxTim`");
        assert_eq!(shown(&seen), "blocked: compute: key partition: unknown option `MaxTim`");
    }

    #[test]
    fn of_two_claims_to_a_partition_the_second_is_named() {
        let mut seen = Observed::serving().with_compute("compute", "").settled();
        seen = seen.with_compute("other", "");
        seen.computes[1].offer = seen.computes[0].offer.clone();
        assert_eq!(shown(&seen), "blocked: other: partition compute belongs to compute");
    }

    #[test]
    fn a_default_partition_that_is_not_there_is_awaited() {
        let mut seen = Observed::serving();
        seen.options.default_partition = "gpu".to_owned();
        assert_eq!(shown(&seen), "waiting: for partition gpu (option default-partition)");
    }

    #[test]
    fn a_cluster_name_that_cannot_be_one_is_named_with_its_option() {
        let mut seen = Observed::fresh();
        seen.options = Options { cluster_name: "two words".to_owned(), ..Options::default() };
        assert_eq!(
            shown(&seen),
            "blocked: option cluster-name: `two words`: use at most 40 letters, digits, `-`, `_`, `.`"
        );
    }

    #[test]
    fn a_daemon_that_does_not_serve_is_told_as_it_is() {
        let with = |daemon: Daemon| {
            let mut seen = Observed::serving();
            seen.machine = Machine { daemon, ..seen.machine };
            shown(&seen)
        };
        assert_eq!(with(Daemon::Stopped), "waiting: for slurmctld to start");
        assert_eq!(with(Daemon::Silent), "waiting: for slurmctld to answer");
        assert_eq!(
            with(Daemon::Failing { result: "exit-code".to_owned() }),
            "waiting: for slurmctld, which fails (exit-code): see `journalctl -u slurmctld`"
        );
    }

    #[test]
    fn a_missing_state_directory_blocks_a_cluster_that_was_born() {
        let mut seen = Observed::serving();
        seen.machine.state_directory = false;
        seen.machine.daemon = Daemon::Stopped;
        assert_eq!(shown(&seen), "blocked: /var/lib/slurm/checkpoint/state is gone: restore it, or jobs are lost");
    }

    #[test]
    fn a_controller_that_lost_leadership_serves_and_says_so() {
        assert_eq!(shown(&Observed::serving().not_leading()), "waiting: for Juju to make this unit the leader again");
    }

    #[test]
    fn every_text_fits_a_line() {
        for seen in [Observed::fresh(), Observed::serving(), Observed::serving().not_leading()] {
            assert!(status(&seen).message().chars().count() <= 80);
        }
    }
}
