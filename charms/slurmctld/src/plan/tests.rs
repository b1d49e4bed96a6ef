//! What a controller does in each situation, and that it comes to an end.

use super::situations::{ROUNDS, URI, shared};
use super::*;
use crate::observe::{MountEndpoint, Secret, StateDirectory, Store, Tried};
use ::slurm_conf::Partition;
use charm::Databag;
use slurm_interface::ControllerData;
use slurm_ops::packages::Obstacle as Packages;
use slurm_ops::source::Source;

/// The names of the steps of one plan.
pub(super) fn steps(seen: &Observed) -> Vec<String> {
    plan(seen).steps.iter().map(ToString::to_string).collect()
}

/// Checks the first plan, and that what follows from it comes to an end.
#[track_caller]
pub(super) fn check(seen: Observed, expected: &[&str]) {
    assert_eq!(steps(&seen), expected);
    seen.settled();
}

pub(super) fn live(seen: &Observed) -> SlurmConf {
    SlurmConf::parse(seen.machine.live.slurm.as_ref().unwrap()).unwrap()
}

#[test]
fn packages_come_first() {
    check(Observed::fresh(), &["install slurmctld"]);
    let mut seen = Observed::fresh().settled();
    (seen.machine.packages_held, seen.machine.left_alone) = (false, false);
    let held = "hold the packages of Slurm";
    check(seen, &[held, "keep needrestart from slurmctld.service"]);
}

#[test]
fn before_the_peer_relation_is_there_packages_are_all() {
    let mut seen = Observed::fresh();
    seen.peer = None;
    seen = seen.settled();
    assert_eq!(role(&seen), Role::Undecided);
    assert!(seen.machine.version.is_some() && seen.machine.live.slurm.is_none());
    assert!(!seen.waking);
}

#[test]
fn keys_and_state_come_before_the_configuration_and_that_before_the_daemon() {
    let mut seen = Observed::fresh();
    let mut order = Vec::new();
    for _ in 0..ROUNDS {
        let plan = plan(&seen).steps;
        order.extend(plan.iter().map(ToString::to_string));
        plan.iter().for_each(|step| seen.apply_in_memory(step));
    }
    let expected = [
        "install slurmctld",
        "hold the packages of Slurm",
        "keep needrestart from slurmctld.service",
        "report version 24.11.5",
        "prepare /var/lib/slurm/checkpoint/state",
        "make the authentication key",
        "make the token key",
        "write the drop-in of slurmctld.service",
        "write slurmctld-charm-failed.service",
        "write /etc/slurm/slurm.conf with slurm.conf",
        "start slurmctld",
        "reconfigure slurmctld",
        "open port 6817",
        "publish host name to slurmctld-peer:0",
        "publish cluster name to slurmctld-peer:0",
        "add secret slurm-auth-key",
        "add secret slurm-jwt-key",
    ];
    assert_eq!(order, expected);
}

#[test]
fn a_new_cluster_is_named_by_chance_or_by_its_operator() {
    assert_eq!(live(&Observed::serving()).get("ClusterName"), Some("charmed-hpc-aB3_"));
    let mut seen = Observed::fresh();
    seen.options.cluster_name = "lab".to_owned();
    assert_eq!(live(&seen.settled()).get("ClusterName"), Some("lab"));
}

#[test]
fn the_name_of_a_cluster_never_changes() {
    let mut seen = Observed::serving();
    seen.options.cluster_name = "other".to_owned();
    check(seen, &[]);
}

#[test]
fn a_name_that_was_changed_by_hand_is_put_right() {
    let mut seen = Observed::serving();
    let text = seen.machine.live.slurm.clone().unwrap();
    seen.machine.live.slurm = Some(text.replace("charmed-hpc-aB3_", "other"));
    let seen = seen.settled();
    assert_eq!(live(&seen).get("ClusterName"), Some("charmed-hpc-aB3_"));
}

#[test]
fn a_name_that_cannot_be_one_holds_the_cluster_back() {
    let mut seen = Observed::fresh();
    seen.options.cluster_name = "two words".to_owned();
    let seen = seen.settled();
    assert!(seen.machine.live.slurm.is_none());
    assert_eq!(seen.machine.daemon, Daemon::Stopped);
}

#[test]
fn a_settled_controller_does_nothing_and_sets_no_timer() {
    let seen = Observed::serving();
    assert!(!seen.waking);
    check(seen, &[]);
}

#[test]
fn a_partition_is_written_before_its_application_hears_of_us() {
    let seen = Observed::serving().with_compute("compute", "MaxTime=60");
    let mut order = Vec::new();
    let mut running = seen.clone();
    for _ in 0..ROUNDS {
        let plan = plan(&running).steps;
        order.extend(plan.iter().map(ToString::to_string));
        plan.iter().for_each(|step| running.apply_in_memory(step));
    }
    let expected = [
        "write /etc/slurm/slurm.conf with partition compute",
        "reconfigure slurmctld",
        "save partitions",
        "grant secret slurm-auth-key to slurmd:1",
        "publish controllers to slurmd:1",
        // Whether the grant took is looked at once more.
        "look again soon",
    ];
    assert_eq!(order, expected);
    assert_eq!(live(&running).partition("compute").unwrap().get("MaxTime"), Some("60"));
    let data = ControllerData::decode(&running.computes[0].published).unwrap().unwrap();
    assert_eq!(data.auth_secret.as_str(), URI);
    assert_eq!(data.controllers[0].to_string(), "juju-c9fc6f-0:6817");
    assert_eq!(data.slurm_version.as_deref(), Some("24.11.5"));
}

#[test]
fn one_reconfigure_serves_all_that_changed() {
    let seen = Observed::serving().with_compute("compute", "").with_compute("gpu", "");
    check(seen.clone(), &["write /etc/slurm/slurm.conf"]);
    let Some(Step::OfferConfiguration { files, .. }) = plan(&seen).steps.pop() else { panic!() };
    let conf = SlurmConf::parse(&files.slurm.unwrap()).unwrap();
    assert!(conf.partition("compute").is_some() && conf.partition("gpu").is_some());
}

#[test]
fn a_secret_made_in_this_hook_is_granted_in_a_later_one() {
    let mut seen = Observed::serving().with_compute("compute", "").settled();
    seen.auth_secret = Secret::JustMade;
    seen.computes[0].published.clear();
    assert_eq!(steps(&seen), ["look again soon"]);
    assert_eq!(plan(&seen).next, Next::LookAgain);
    let later = seen.in_the_next_hook();
    check(later, &["grant secret slurm-auth-key to slurmd:1", "publish controllers to slurmd:1"]);
}

#[test]
fn a_lost_grant_is_made_again() {
    let mut seen = Observed::serving().with_compute("compute", "").settled();
    seen.auth_secret = shared(&[]);
    check(seen.clone(), &["grant secret slurm-auth-key to slurmd:1"]);
    // Whether it took is looked at once more.
    let step = plan(&seen).steps.pop().unwrap();
    seen.apply_in_memory(&step);
    assert_eq!(steps(&seen), ["look again soon"]);
}

#[test]
fn an_unusable_offer_costs_its_own_application_only() {
    let seen = Observed::serving().with_unusable("broken", "no").with_compute("compute", "").settled();
    assert!(seen.computes[0].published.is_empty());
    assert!(!seen.computes[1].published.is_empty());
    let Secret::Shared(shared) = seen.auth_secret else { panic!() };
    assert_eq!(shared.granted.len(), 1);
}

#[test]
fn an_application_that_says_nothing_yet_is_looked_at_again() {
    let seen = Observed::serving().with_offer("compute", Offer::Nothing).settled();
    assert!(seen.waking);
    assert!(seen.computes[0].published.is_empty());
}

#[test]
fn a_partition_outlives_its_relation() {
    let mut seen = Observed::serving().with_compute("compute", "").settled();
    seen.computes.clear();
    assert!(live(&seen).partition("compute").is_some());
    check(seen, &[]);
}

#[test]
fn the_first_of_two_claims_to_a_partition_wins() {
    let mut seen = Observed::serving().with_compute("compute", "MaxTime=60").with_compute("other", "");
    let stolen = Partition::from_config("compute", "MaxTime=1").unwrap();
    seen.computes[1].offer = Offer::Partition(stolen.clone(), stolen.nodeset());
    let seen = seen.settled();
    assert_eq!(live(&seen).partition("compute").unwrap().get("MaxTime"), Some("60"));
}

#[test]
fn a_daemon_that_does_not_come_up_is_started_once_and_looked_at_again() {
    let mut seen = Observed::serving().in_the_next_hook();
    seen.machine.daemon = Daemon::Stopped;
    assert_eq!(steps(&seen), ["start slurmctld"]);
    seen.tried.start = true;
    assert_eq!(steps(&seen), ["look again soon"]);
    seen.waking = true;
    assert!(steps(&seen).is_empty());
}

#[test]
fn a_lost_state_directory_is_never_replaced_by_an_empty_one() {
    for state in [StateDirectory::Absent, StateDirectory::Empty, StateDirectory::Unmarked] {
        let mut seen = Observed::serving();
        seen.machine.state = state;
        seen.machine.daemon = Daemon::Stopped;
        seen.tried = Tried::default();
        check(seen.clone(), &["look again soon"]);
        // Nor if the configuration went with it: the peer relation remembers.
        (seen.machine.live, seen.machine.accepted) = Default::default();
        let seen = seen.settled();
        assert_eq!(obstacle(&seen), Some(Obstacle::Lost));
        assert_eq!(seen.machine.daemon, Daemon::Stopped);
    }
}

#[test]
fn the_state_of_another_cluster_is_never_started_on() {
    for state in [StateDirectory::Of("lab 1234/slurmctld".to_owned()), StateDirectory::Unmarked] {
        let mut seen = Observed::fresh();
        seen.machine.state = state;
        let seen = seen.settled();
        assert_eq!(seen.machine.daemon, Daemon::Stopped);
        assert!(matches!(obstacle(&seen), Some(Obstacle::Foreign(_))));
    }
    // An empty directory is as good as none.
    let mut seen = Observed::fresh();
    seen.machine.state = StateDirectory::Empty;
    assert_eq!(seen.settled().machine.daemon, Daemon::Answering { mode: "primary".to_owned() });
}

#[test]
fn a_hook_that_died_after_marking_the_state_keeps_the_name_it_had_made_up() {
    let mut seen = Observed::fresh();
    seen.machine.state = StateDirectory::Of(format!("charmed-hpc-9999 {}", seen.home));
    assert_eq!(live(&seen.settled()).get("ClusterName"), Some("charmed-hpc-9999"));
}

#[test]
fn state_on_the_network_waits_for_a_real_mount() {
    let mut seen = Observed::fresh();
    seen.options.network_state = true;
    seen.mount = Some(MountEndpoint { relation: "mount:2".parse().unwrap(), published: Databag::new() });
    let mut seen = seen.settled();
    assert_eq!(seen.mount.as_ref().unwrap().published["mountpoint"], "\"/var/lib/slurm/checkpoint\"");
    assert_eq!((obstacle(&seen), seen.machine.state.clone()), (Some(Obstacle::NotMounted), StateDirectory::Absent));
    assert!(seen.waking && seen.machine.live.slurm.is_none());
    seen.machine.store = Store::Mounted { read_only: true };
    let mut seen = seen.settled();
    assert_eq!(obstacle(&seen), Some(Obstacle::ReadOnly));
    seen.machine.store = Store::Mounted { read_only: false };
    let mut seen = seen.settled();
    assert_eq!(seen.machine.daemon, Daemon::Answering { mode: "primary".to_owned() });
    assert!(
        seen.machine
            .drop_in
            .as_ref()
            .unwrap()
            .contains("ExecStartPre=/usr/bin/mountpoint -q /var/lib/slurm/checkpoint")
    );
    // A mount that goes stops nothing, and keeps the daemon from a start on what is below.
    seen.machine.store = Store::Local;
    seen.machine.state = StateDirectory::Absent;
    seen.machine.daemon = Daemon::Failing { reason: "x".to_owned() };
    check(seen.in_the_next_hook(), &["look again soon"]);
}

#[test]
fn state_on_the_local_disk_stays_there_and_goes_on_serving() {
    let mut seen = Observed::serving();
    seen.options.network_state = true;
    seen.mount = Some(MountEndpoint { relation: "mount:2".parse().unwrap(), published: Databag::new() });
    // Nothing changes, neither the guard of the daemon nor what others are asked for.
    check(seen.clone(), &[]);
    assert_eq!(bad_options(&seen)[0].option, "use-network-state");
    // What is mounted over it all the same is not this cluster's.
    seen.machine.store = Store::Mounted { read_only: false };
    seen.machine.state = StateDirectory::Empty;
    assert_eq!(obstacle(&seen), Some(Obstacle::Lost));
}

#[test]
fn without_the_option_no_file_system_is_asked_for() {
    let mut seen = Observed::serving();
    seen.mount = Some(MountEndpoint { relation: "mount:2".parse().unwrap(), published: Databag::new() });
    check(seen, &[]);
}

#[test]
fn a_lost_key_comes_back_from_the_secret_and_is_not_made_anew() {
    let mut seen = Observed::serving();
    (seen.machine.auth_key, seen.machine.jwt_key) = (false, false);
    check(seen, &["restore the authentication key", "restore the token key"]);
}

#[test]
fn a_lost_secret_comes_back_from_the_key() {
    let mut seen = Observed::serving();
    (seen.auth_secret, seen.jwt_secret) = (Secret::Absent, Secret::Absent);
    check(seen, &["add secret slurm-auth-key", "add secret slurm-jwt-key"]);
    let mut seen = Observed::serving();
    for secret in [&mut seen.auth_secret, &mut seen.jwt_secret] {
        let Secret::Shared(shared) = secret else { panic!() };
        shared.holds_key = false;
    }
    check(seen.clone(), &["put the key back into secret slurm-auth-key", "put the key back into secret slurm-jwt-key"]);
    // With both gone there is nothing but to make a new one.
    seen.machine.auth_key = false;
    check(seen, &["make the authentication key"]);
}

#[test]
fn a_slurm_that_is_too_old_is_replaced_unless_it_runs() {
    let mut seen = Observed::fresh();
    seen.machine.unfit = Some(Packages::TooOld { package: "slurmctld".to_owned(), found: "23.11.4".to_owned() });
    assert_eq!(steps(&seen), ["install slurmctld"]);
    seen.machine.daemon = Daemon::Silent { reason: None };
    assert_eq!(steps(&seen), [""; 0]);
    assert!(is_in_use(&seen));
}

#[test]
fn packages_that_cannot_be_held_now_are_held_later() {
    let mut seen = Observed::serving();
    seen.machine.packages_held = false;
    assert_eq!(steps(&seen), ["hold the packages of Slurm"]);
    seen.tried.hold = true;
    assert_eq!(steps(&seen), ["look again soon"]);
}

#[test]
fn a_slurm_without_the_plugin_for_tokens_goes_without_tokens() {
    let mut seen = Observed::fresh();
    seen.machine.takes_tokens = false;
    let seen = seen.settled();
    let text = seen.machine.live.slurm.clone().unwrap();
    assert!(text.contains("AuthType=auth/slurm") && !text.contains("AuthAlt"), "{text}");
    // It comes later, and goes again.
    let mut seen = seen;
    for takes_tokens in [true, false] {
        seen.machine.takes_tokens = takes_tokens;
        seen = seen.settled();
        let text = seen.machine.live.slurm.as_deref().unwrap();
        assert_eq!(text.matches("AuthAlt").count(), if takes_tokens { 2 } else { 0 }, "{text}");
    }
}

#[test]
fn a_source_that_cannot_be_used_holds_the_installation_back() {
    let mut seen = Observed::fresh();
    seen.options.source = "ppa:no".to_owned();
    assert_eq!(steps(&seen), [""; 0]);
    // One that did not work is tried again by the timer.
    seen.options.source = "ppa:owner/name".to_owned();
    assert!(matches!(plan(&seen).steps.as_slice(), [Step::InstallPackages(Source::Ppa(_))]));
    seen.tried.install = Some(Packages::Failed("no network".to_owned()));
    assert_eq!(steps(&seen), ["look again soon"]);
    seen.tried.install = Some(Packages::Unknown { package: "slurmctld".to_owned() });
    assert_eq!(steps(&seen), [""; 0], "it is for the operator to name another");
    // Once Slurm is there nothing is done with it.
    let mut seen = Observed::serving();
    seen.options.source = "nonsense".to_owned();
    check(seen.clone(), &[]);
    assert_eq!(bad_options(&seen)[0].option, "slurm-source");
    seen.options.source = "ppa:owner/name".to_owned();
    assert!(bad_options(&seen).is_empty());
    check(seen, &[]);
}

#[test]
fn a_second_unit_does_nothing_at_all() {
    check(Observed::fresh().not_leading().with_sibling("slurmctld/1"), &[]);
    // Nor does one that came to lead an application whose cluster is on another unit.
    let mut seen = Observed::fresh();
    seen.peer.as_mut().unwrap().cluster_name = Some("lab".parse().unwrap());
    check(seen, &[]);
}

#[test]
fn a_controller_that_lost_leadership_changes_nothing_others_see() {
    let seen = Observed::serving().not_leading().with_compute("compute", "");
    check(seen, &[]);
}

#[test]
fn a_leaving_unit_changes_nothing_but_its_timer() {
    let mut seen = Observed::serving().with_compute("compute", "");
    seen.leaving = true;
    seen.waking = true;
    check(seen, &["look again no more"]);
}

#[test]
fn a_hook_killed_after_any_step_and_run_again_ends_in_the_same_state() {
    let goal = Observed::fresh().with_compute("compute", "MaxTime=60").settled();
    let total = 28;
    for killed_after in 0..total {
        let mut seen = Observed::fresh().with_compute("compute", "MaxTime=60");
        let mut taken = 0;
        'killed: for _ in 0..ROUNDS {
            for step in plan(&seen).steps {
                if taken == killed_after {
                    break 'killed;
                }
                // What a dead hook told Juju is lost; what it did to the machine is not.
                let told = matches!(
                    step,
                    Step::OpenPort
                        | Step::AddSecret(_)
                        | Step::GrantSecret(_)
                        | Step::PublishPeerApp(..)
                        | Step::PublishPeerUnit(..)
                        | Step::PublishController(..)
                );
                if !told {
                    seen.apply_in_memory(&step);
                } else if killed_after < total - 1 {
                    break 'killed;
                }
                taken += 1;
            }
        }
        let seen = seen.in_the_next_hook().settled();
        assert_eq!(seen.machine.live.slurm, goal.machine.live.slurm, "killed after {killed_after}");
        assert_eq!(seen.computes[0].published, goal.computes[0].published, "killed after {killed_after}");
    }
}
