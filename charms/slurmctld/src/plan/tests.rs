//! What a controller does in each situation, and that it comes to an end.

use super::situations::{ROUNDS, URI, shared};
use super::*;
use crate::observe::Tried;
use ::slurm_conf::Partition;

/// The names of the steps of one plan.
fn steps(seen: &Observed) -> Vec<String> {
    plan(seen).steps.iter().map(ToString::to_string).collect()
}

/// Checks the first plan, and that what follows from it comes to an end.
#[track_caller]
fn check(seen: Observed, expected: &[&str]) {
    assert_eq!(steps(&seen), expected);
    seen.settled();
}

fn live(seen: &Observed) -> SlurmConf {
    SlurmConf::parse(seen.machine.configuration.live.as_ref().unwrap()).unwrap()
}

#[test]
fn packages_come_first() {
    check(Observed::fresh(), &["install slurmctld slurm-client slurm-wlm-basic-plugins slurm-wlm-jwt-plugin"]);
}

#[test]
fn before_the_peer_relation_is_there_packages_are_all() {
    let mut seen = Observed::fresh();
    seen.peer = None;
    seen = seen.settled();
    assert_eq!(role(&seen), Role::Undecided);
    assert!(seen.machine.version.is_some() && seen.machine.configuration.live.is_none());
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
        "install slurmctld slurm-client slurm-wlm-basic-plugins slurm-wlm-jwt-plugin",
        "report version 24.11.5-4",
        "prepare /var/lib/slurm/checkpoint/state",
        "make the authentication key",
        "make the token key",
        "write /etc/slurm/cgroup.conf",
        "write the drop-in of slurmctld.service",
        "write /etc/slurm/slurm.conf",
        "start slurmctld",
        "reconfigure slurmctld",
        "open port 6817",
        "publish host name to slurmctld-peer:0",
        "publish cluster name to slurmctld-peer:0",
        "add secret slurm-auth-key",
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
    let text = seen.machine.configuration.live.clone().unwrap();
    seen.machine.configuration.live = Some(text.replace("charmed-hpc-aB3_", "other"));
    let seen = seen.settled();
    assert_eq!(live(&seen).get("ClusterName"), Some("charmed-hpc-aB3_"));
}

#[test]
fn a_name_that_cannot_be_one_holds_the_cluster_back() {
    let mut seen = Observed::fresh();
    seen.options.cluster_name = "two words".to_owned();
    let seen = seen.settled();
    assert!(seen.machine.configuration.live.is_none());
    assert_eq!(seen.machine.daemon, Daemon::Stopped);
}

#[test]
fn a_settled_controller_does_nothing_and_sets_no_timer() {
    let seen = Observed::serving();
    assert!(!seen.waking);
    check(seen, &[]);
}

#[test]
fn the_configuration_of_a_new_cluster_is_complete() {
    let text = Observed::serving().machine.configuration.live.unwrap();
    let expected = "\
# Made by the slurmctld charm, which edits single lines of it: keys it depends on, controllers, partitions of related
# applications. Everything else may be changed by hand.
ClusterName=charmed-hpc-aB3_
SlurmctldHost=juju-c9fc6f-0
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
AuthInfo=use_client_ids
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
StateSaveLocation=/var/lib/slurm/checkpoint/state
SelectType=select/cons_tres
MaxNodeCount=65533
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SelectTypeParameters=CR_CPU_Memory
TreeWidth=65533
ReturnToService=1
ReconfigFlags=KeepPartState
MpiDefault=none
GresTypes=gpu
RebootProgram=/usr/sbin/reboot
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmctldParameters=enable_configless
";
    assert_eq!(text, expected);
}

#[test]
fn machines_track_processes_by_control_groups_and_containers_do_not() {
    let mut seen = Observed::fresh();
    seen.machine.container = false;
    let seen = seen.settled();
    assert_eq!(live(&seen).get("ProctrackType"), Some("proctrack/cgroup"));
    assert!(!seen.machine.cgroup_conf.unwrap().contains("disabled"));
    assert!(Observed::serving().machine.cgroup_conf.unwrap().contains("CgroupPlugin=disabled"));
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
        "write /etc/slurm/slurm.conf",
        "reconfigure slurmctld",
        "save partitions",
        "grant secret slurm-auth-key to slurmd:1",
        "publish controllers to slurmd:1",
    ];
    assert_eq!(order, expected);
    assert_eq!(live(&running).partition("compute").unwrap().get("MaxTime"), Some("60"));
    let data = ControllerData::decode(&running.computes[0].published).unwrap().unwrap();
    assert_eq!(data.auth_secret.as_str(), URI);
    assert_eq!(data.controllers[0].to_string(), "juju-c9fc6f-0:6817");
}

#[test]
fn one_reconfigure_serves_all_that_changed() {
    let seen = Observed::serving().with_compute("compute", "").with_compute("gpu", "");
    let conf = SlurmConf::parse(&candidate(&seen)).unwrap();
    assert!(conf.partition("compute").is_some() && conf.partition("gpu").is_some());
    check(seen, &["write /etc/slurm/slurm.conf"]);
}

#[test]
fn a_secret_made_in_this_hook_is_granted_in_a_later_one() {
    let mut seen = Observed::serving().with_compute("compute", "").settled();
    seen.secret = Secret::JustMade;
    seen.computes[0].published.clear();
    assert_eq!(steps(&seen), ["look again soon"]);
    assert_eq!(plan(&seen).next, Next::LookAgain);
    let later = seen.in_the_next_hook();
    check(later, &["grant secret slurm-auth-key to slurmd:1", "publish controllers to slurmd:1"]);
}

#[test]
fn a_lost_grant_is_made_again() {
    let mut seen = Observed::serving().with_compute("compute", "").settled();
    seen.secret = shared(&[]);
    check(seen, &["grant secret slurm-auth-key to slurmd:1"]);
}

#[test]
fn an_unusable_offer_costs_its_own_application_only() {
    let seen = Observed::serving().with_unusable("broken", "no").with_compute("compute", "").settled();
    assert!(seen.computes[0].published.is_empty());
    assert!(!seen.computes[1].published.is_empty());
    let Secret::Shared { granted, .. } = seen.secret else { panic!() };
    assert_eq!(granted.len(), 1);
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
fn the_default_partition_is_the_one_the_operator_named() {
    let mut seen = Observed::serving().with_compute("compute", "Default=YES").with_compute("gpu", "").settled();
    assert!(live(&seen).partition("compute").unwrap().get("Default").is_some());
    seen.options.default_partition = "gpu".to_owned();
    let mut seen = seen.settled();
    assert!(live(&seen).partition("compute").unwrap().get("Default").is_none());
    assert!(live(&seen).partition("gpu").unwrap().get("Default").is_some());
    // Also a partition whose application is gone gives way.
    seen.computes.remove(1);
    seen.options.default_partition = "compute".to_owned();
    let seen = seen.settled();
    assert!(live(&seen).partition("gpu").unwrap().get("Default").is_none());
}

/// The configuration that the plan would offer now.
#[track_caller]
fn candidate(seen: &Observed) -> String {
    match plan(seen).steps.as_slice() {
        [Step::OfferConfiguration(text)] => text.clone(),
        other => panic!("{other:?}"),
    }
}

fn refused(candidate: &str) -> Refused {
    Refused { candidate: candidate.to_owned(), reason: "Invalid node names in partition compute".to_owned() }
}

#[test]
fn a_refused_configuration_is_not_offered_again() {
    let mut seen = Observed::serving().with_compute("compute", "MaxTime=60");
    seen.machine.configuration.refused = Some(refused(&candidate(&seen)));
    let seen = seen.settled();
    assert!(seen.computes[0].published.is_empty());
    assert_eq!(seen.machine.configuration.live, seen.machine.configuration.accepted);
    assert!(!seen.waking);
}

#[test]
fn a_mended_configuration_is_offered() {
    let mut seen = Observed::serving().with_compute("compute", "MaxTime=60");
    seen.machine.configuration.refused = Some(refused(&candidate(&seen)));
    let mended = Partition::from_config("compute", "MaxTime=30").unwrap();
    seen.computes[0].offer = Offer::Partition(mended.clone(), mended.nodeset());
    check(seen, &["write /etc/slurm/slurm.conf"]);
}

#[test]
fn a_hook_that_died_before_the_reconfigure_is_made_up_for() {
    let mut seen = Observed::serving().with_compute("compute", "");
    seen.machine.configuration.live = Some(candidate(&seen));
    check(seen, &["reconfigure slurmctld"]);
}

#[test]
fn a_hook_that_died_while_taking_a_refused_file_back_is_made_up_for() {
    let mut seen = Observed::serving().with_compute("compute", "");
    let text = candidate(&seen);
    seen.machine.configuration.live = Some(text.clone());
    seen.machine.configuration.refused = Some(refused(&text));
    check(seen, &["put the accepted /etc/slurm/slurm.conf back"]);
}

#[test]
fn a_hook_that_died_before_partitions_were_saved_is_made_up_for() {
    let mut seen = Observed::serving().with_compute("compute", "").settled();
    seen.machine.partitions_saved = false;
    seen.tried.save = false;
    check(seen, &["save partitions"]);
}

#[test]
fn a_daemon_that_fails_on_a_new_configuration_gets_the_accepted_one_back() {
    let mut seen = Observed::serving().with_compute("compute", "");
    seen.machine.configuration.live = Some(candidate(&seen));
    seen.machine.daemon = Daemon::Failing { result: "exit-code".to_owned() };
    seen.tried = Tried::default();
    check(seen, &["put the accepted /etc/slurm/slurm.conf back"]);
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
fn an_unanswered_reconfigure_is_not_repeated_in_the_same_dispatch() {
    let mut seen = Observed::serving().with_compute("compute", "");
    seen.machine.configuration.live = Some(candidate(&seen));
    seen.tried.reconfigure = Some("Socket timed out".to_owned());
    assert_eq!(steps(&seen), ["look again soon"]);
    check(seen.in_the_next_hook(), &["reconfigure slurmctld"]);
}

#[test]
fn a_hand_edited_file_is_loaded_and_kept() {
    let mut seen = Observed::serving();
    let mut text = seen.machine.configuration.live.clone().unwrap();
    text.push_str("# ours\nSlurmdTimeout=60\n");
    seen.machine.configuration.live = Some(text.clone());
    assert_eq!(steps(&seen), ["reconfigure slurmctld"]);
    let seen = seen.with_compute("compute", "").settled();
    assert!(seen.machine.configuration.accepted.unwrap().starts_with(&text));
}

#[test]
fn a_hand_edited_file_is_proven_before_anything_is_built_on_it() {
    let mut seen = Observed::serving().with_compute("compute", "");
    seen.machine.configuration.live.as_mut().unwrap().push_str("BogusKey=1\n");
    assert_eq!(steps(&seen), ["reconfigure slurmctld"]);
    // Beside a file that the parser cannot read, the daemon looks as if it did not answer.
    seen.machine.daemon = Daemon::Silent;
    assert_eq!(steps(&seen), ["reconfigure slurmctld"]);
    seen.tried.reconfigure = Some("Unable to contact slurm controller".to_owned());
    assert_eq!(steps(&seen), ["look again soon"]);
}

#[test]
fn a_hand_edited_file_that_leads_to_a_refusal_goes() {
    let mut seen = Observed::serving();
    let accepted = seen.machine.configuration.accepted.clone();
    let text = accepted.clone().unwrap().replace("AuthType=auth/slurm", "AuthType=auth/munge") + "BogusKey=1\n";
    seen.machine.configuration.live = Some(text);
    let repaired = candidate(&seen);
    assert!(repaired.contains("AuthType=auth/slurm") && repaired.contains("BogusKey"));
    seen.machine.configuration.refused = Some(refused(&repaired));
    assert_eq!(steps(&seen), ["put the accepted /etc/slurm/slurm.conf back"]);
    assert_eq!(seen.settled().machine.configuration.live, accepted);
}

#[test]
fn an_owned_key_that_was_changed_by_hand_is_put_right() {
    let mut seen = Observed::serving();
    let text = seen.machine.configuration.live.clone().unwrap();
    let text =
        text.replace("AuthType=auth/slurm", "AuthType=auth/munge").replace("enable_configless", "idle_on_node_suspend");
    seen.machine.configuration.live = Some(text);
    let seen = seen.settled();
    assert_eq!(live(&seen).get("AuthType"), Some("auth/slurm"));
    assert_eq!(live(&seen).get("SlurmctldParameters"), Some("idle_on_node_suspend,enable_configless"));
}

#[test]
fn a_file_nobody_can_read_is_replaced_by_the_accepted_one() {
    let mut seen = Observed::serving();
    let accepted = seen.machine.configuration.accepted.clone();
    seen.machine.configuration.live = Some("this is no configuration\n".to_owned());
    let seen = seen.settled();
    assert_eq!(seen.machine.configuration.live, accepted);
}

#[test]
fn a_lost_state_directory_is_never_replaced_by_an_empty_one() {
    let mut seen = Observed::serving();
    seen.machine.state_directory = false;
    seen.machine.daemon = Daemon::Stopped;
    seen.tried = Tried::default();
    check(seen, &[]);
}

#[test]
fn a_lost_key_comes_back_from_the_secret_and_is_not_made_anew() {
    let mut seen = Observed::serving();
    seen.machine.auth_key = false;
    check(seen, &["restore the authentication key"]);
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
    let total = 24;
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
                        | Step::AddSecret
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
        assert_eq!(seen.machine.configuration.live, goal.machine.configuration.live, "killed after {killed_after}");
        assert_eq!(seen.computes[0].published, goal.computes[0].published, "killed after {killed_after}");
    }
}
