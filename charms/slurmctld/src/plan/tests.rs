//! What a controller does in each situation, and that it comes to an end.

use super::situations::{ID, MODEL, World, job, keys, wants};
use crate::condition::Condition;
use crate::daemon::Daemon;
use crate::facts::{MountEndpoint, RemoteData, StateDirectory, StoreMount};
use crate::identity::StateProblem;
use charm::Databag;
use slurm_conf::SlurmConf;
use slurm_interface::ControllerData;
use slurm_unit::Trigger;
use slurm_unit::key_secret;
use slurm_unit::note::Noted;

/// Checks the steps of one dispatch, and that the next has nothing to do.
#[track_caller]
pub(crate) fn check(mut world: World, expected: &[&str]) {
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, expected);
    let mut world = world.settled();
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, [""; 0]);
}

pub(crate) fn live(world: &World) -> SlurmConf {
    SlurmConf::parse(world.live.slurm.as_ref().unwrap()).unwrap()
}

pub(crate) fn state_problem(world: &World) -> Option<StateProblem> {
    world.conditions.iter().find_map(|condition| match condition {
        Condition::State { problem, .. } => Some(problem.clone()),
        _ => None,
    })
}

#[test]
fn everything_comes_in_its_order() {
    let mut world = World::fresh();
    world.dispatch(&|_, _| None);
    let expected = [
        "install slurmctld",
        "hold the packages of Slurm",
        "exempt slurmctld.service from needrestart",
        "report version 24.11.5",
        "prepare /var/lib/slurm/checkpoint/state",
        "make the authentication key",
        "make the token key",
        "write slurmctld-charm-failed.service",
        "write the drop-in of slurmctld.service",
        "check the new /etc/slurm/slurm.conf",
        "write /etc/slurm/slurm.conf with slurm.conf",
        "start slurmctld",
        "note what was set at runtime",
        "reconfigure slurmctld",
        "forget what was set at runtime",
        "keep the accepted /etc/slurm/slurm.conf",
        "open port 6817",
        "publish host name to slurmctld-peer:0",
        "publish cluster name to slurmctld-peer:0",
        "add secret slurm-auth-key",
        "add secret slurm-jwt-key",
    ];
    assert_eq!(world.taken, expected);
}

#[test]
fn before_the_peer_relation_is_there_packages_are_all() {
    let mut world = World::fresh();
    world.peer = None;
    let world = world.settled();
    assert_eq!(world.conditions, [Condition::Undecided]);
    assert!(world.installation.version.is_some() && world.live.slurm.is_none());
    assert!(!world.retry_timer);
}

#[test]
fn a_new_cluster_is_named_by_chance_or_by_its_operator() {
    assert_eq!(live(&World::serving()).get("ClusterName"), Some("charmed-hpc-aB3_"));
    let mut world = World::fresh();
    world.options.cluster_name = "lab".to_owned();
    assert_eq!(live(&world.settled()).get("ClusterName"), Some("lab"));
}

#[test]
fn the_name_of_a_cluster_never_changes() {
    let mut world = World::serving();
    world.options.cluster_name = "other".to_owned();
    check(world, &[]);
}

#[test]
fn a_name_that_was_changed_by_hand_is_put_right() {
    let mut world = World::serving();
    let text = world.live.slurm.clone().unwrap();
    world.live.slurm = Some(text.replace("charmed-hpc-aB3_", "other"));
    assert_eq!(live(&world.settled()).get("ClusterName"), Some("charmed-hpc-aB3_"));
}

#[test]
fn a_name_that_cannot_be_one_holds_the_cluster_back() {
    let mut world = World::fresh();
    world.options.cluster_name = "two words".to_owned();
    let world = world.settled();
    assert!(world.live.slurm.is_none());
    assert_eq!(world.daemon, Daemon::Stopped);
}

#[test]
fn a_settled_controller_does_nothing_and_sets_no_timer() {
    let world = World::serving();
    assert!(!world.retry_timer);
    check(world, &[]);
}

#[test]
fn a_partition_is_in_effect_before_its_application_hears_of_us() {
    let mut world = World::serving().with_compute("compute", "MaxTime=60");
    world.dispatch(&|_, _| None);
    let expected = [
        "check the new /etc/slurm/slurm.conf",
        "write /etc/slurm/slurm.conf with partition compute",
        "note what was set at runtime",
        "reconfigure slurmctld",
        "forget what was set at runtime",
        "keep the accepted /etc/slurm/slurm.conf",
        "save partitions",
        "note the applications",
        "grant secret slurm-auth-key to slurmd:1",
        "publish controllers to slurmd:1",
    ];
    assert_eq!(world.taken, expected);
    // Whether the grant took is looked at once more.
    assert!(world.retry_timer);
    assert_eq!(live(&world).partition("compute").unwrap().get("MaxTime"), Some("60"));
    let data = ControllerData::decode(&world.computes[0].published).unwrap().unwrap();
    assert_eq!(data.auth_secret.as_str(), format!("secret://{MODEL}/{ID}"));
    assert_eq!(data.controllers[0].to_string(), "juju-c9fc6f-0:6817");
    assert_eq!(data.slurm_version.as_deref(), Some("24.11.5"));
}

#[test]
fn one_reconfigure_serves_all_that_changed() {
    let mut world = World::serving().with_compute("compute", "").with_compute("gpu", "");
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken.iter().filter(|step| *step == "reconfigure slurmctld").count(), 1);
    assert!(live(&world).partition("compute").is_some() && live(&world).partition("gpu").is_some());
}

#[test]
fn a_login_node_is_told_where_the_controllers_are_and_which_configuration_they_have() {
    let mut world = World::fresh().with_compute("compute", "").with_login("login").settled();
    let told = |world: &World| ControllerData::decode(&world.followers[0].published).unwrap().unwrap();
    let digest = |world: &World| world.live.slurm.clone().unwrap();
    let before = told(&world);
    assert_eq!(world.auth_secret.granted, ["compute.slurmd".to_owned(), "login.sackd".to_owned()].into());
    assert_eq!(before.controllers[0].to_string(), "juju-c9fc6f-0:6817");
    assert_eq!(before.conf_digest, Some(slurm_interface::digest(&digest(&world))));
    // A changed partition changes the digest in the same dispatch, and nothing of what compute nodes hear.
    let of_nodes = world.computes[0].published.clone();
    world.retry_timer = false;
    world.computes[0].data = wants("compute", "MaxTime=1");
    world.dispatch(&|_, _| None);
    assert!(world.taken.contains(&"reconfigure slurmctld".to_owned()));
    assert_eq!(told(&world).conf_digest, Some(slurm_interface::digest(&digest(&world))));
    assert_ne!(told(&world).conf_digest, before.conf_digest);
    assert_eq!(world.computes[0].published, of_nodes);
}

#[test]
fn login_nodes_that_are_gone_are_forgotten() {
    let mut world = World::fresh().with_login("login").settled();
    assert!(world.neighbours.known().is_some_and(|noted| noted.are_at("sackd")));
    world.followers.clear();
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, ["note who hears of the configuration"]);
    assert_eq!(world.neighbours, Noted::Absent);
}

#[test]
fn a_secret_made_in_this_dispatch_is_granted_in_a_later_one() {
    let mut world = World::serving().with_compute("compute", "").settled();
    world.auth_secret = Default::default();
    world.computes[0].published.clear();
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, ["add secret slurm-auth-key"]);
    assert!(world.retry_timer);
    check(world, &["grant secret slurm-auth-key to slurmd:1", "publish controllers to slurmd:1"]);
}

#[test]
fn a_lost_grant_is_made_again() {
    let mut world = World::serving().with_compute("compute", "").settled();
    world.auth_secret.granted.clear();
    check(world, &["grant secret slurm-auth-key to slurmd:1"]);
}

#[test]
fn unusable_data_costs_its_own_application_only() {
    let world = World::serving().with_unusable("broken", "no").with_compute("compute", "").settled();
    assert!(world.computes[0].published.is_empty());
    assert!(!world.computes[1].published.is_empty());
    assert_eq!(world.auth_secret.granted, ["compute.slurmd".to_owned()].into());
}

#[test]
fn an_application_that_says_nothing_yet_is_looked_at_again() {
    let world = World::serving().with_data("compute", RemoteData::Nothing).settled();
    assert!(world.retry_timer);
    assert!(world.computes[0].published.is_empty());
}

#[test]
fn a_stale_relation_keeps_the_timer_and_no_bad_status() {
    let mut world = World::serving().with_compute("compute", "").settled();
    world.computes[0].stale = true;
    world.dispatch(&|_, _| None);
    assert!(world.retry_timer);
    assert_eq!(world.reported(), "active: primary - UP");
}

#[test]
fn a_partition_outlives_its_relation_while_jobs_name_it() {
    let mut world = World::serving().with_compute("compute", "").settled();
    world.computes.clear();
    world.jobs.push(job(7, "compute", "RUNNING", "compute-0", ""));
    check(world.clone(), &["note the applications", "close partition compute"]);
    assert!(live(&world).partition("compute").is_some());
}

#[test]
fn the_first_of_two_claims_to_a_partition_wins() {
    let mut world = World::serving().with_compute("compute", "MaxTime=60").with_compute("other", "");
    world.computes[1].data = wants("compute", "MaxTime=1");
    assert_eq!(live(&world.settled()).partition("compute").unwrap().get("MaxTime"), Some("60"));
}

#[test]
fn a_daemon_that_does_not_come_up_is_started_once_in_a_dispatch() {
    let mut world = World::serving();
    world.daemon = Daemon::Stopped;
    world.dispatch(&|_, parser| (!parser).then_some("fatal: no"));
    assert_eq!(world.taken, ["start slurmctld"]);
    assert!(world.retry_timer);
}

#[test]
fn a_call_that_a_failure_made_starts_nothing() {
    let mut world = World::serving();
    world.daemon = Daemon::Failing { reason: "fatal: no".to_owned() };
    world.trigger = Trigger::DaemonFailure;
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, [""; 0]);
    assert!(world.retry_timer);
}

#[test]
fn a_lost_state_directory_is_never_replaced_by_an_empty_one() {
    for state in [StateDirectory::Absent, StateDirectory::Empty, StateDirectory::Unmarked] {
        let mut world = World::serving();
        world.store.state = state;
        world.daemon = Daemon::Stopped;
        check(world.clone(), &[]);
        // Nor if the configuration went with it: the peer relation remembers.
        (world.live, world.accepted) = Default::default();
        let world = world.settled();
        assert_eq!(state_problem(&world), Some(StateProblem::Lost));
        assert_eq!(world.daemon, Daemon::Stopped);
    }
}

#[test]
fn the_state_of_another_cluster_is_never_started_on() {
    for (state, problem) in [
        (StateDirectory::Of("lab 1/slurmctld".to_owned()), StateProblem::Foreign("lab 1/slurmctld".to_owned())),
        (StateDirectory::Unmarked, StateProblem::Unmarked),
    ] {
        let mut world = World::fresh();
        world.store.state = state;
        let world = world.settled();
        assert_eq!(world.daemon, Daemon::Stopped);
        assert_eq!(state_problem(&world), Some(problem));
    }
}

#[test]
fn an_empty_state_directory_is_as_good_as_none() {
    let mut world = World::fresh();
    world.store.state = StateDirectory::Empty;
    assert_eq!(world.settled().daemon, Daemon::Answering);
}

#[test]
fn a_dispatch_that_died_after_marking_the_state_keeps_the_name_it_had_made_up() {
    let mut world = World::fresh();
    world.store.state = StateDirectory::Of(format!("charmed-hpc-9999 {MODEL}/slurmctld"));
    assert_eq!(live(&world.settled()).get("ClusterName"), Some("charmed-hpc-9999"));
}

fn mount() -> Option<MountEndpoint> {
    Some(MountEndpoint { relation: "mount:2".parse().unwrap(), published: Databag::new() })
}

#[test]
fn state_on_the_network_waits_for_a_real_mount() {
    let mut world = World::fresh();
    world.options.network_state = true;
    world.mount = mount();
    let mut world = world.settled();
    assert_eq!(world.mount.as_ref().unwrap().published["mountpoint"], "\"/var/lib/slurm/checkpoint\"");
    let found = (state_problem(&world), world.store.state.clone());
    assert_eq!(found, (Some(StateProblem::NotMounted), StateDirectory::Absent));
    assert!(world.retry_timer && world.live.slurm.is_none());
    world.store.mount = StoreMount::Mounted { read_only: true };
    let mut world = world.settled();
    assert_eq!(state_problem(&world), Some(StateProblem::ReadOnly));
    (world.store.mount, world.store.local) = (StoreMount::Mounted { read_only: false }, false);
    let mut world = world.settled();
    assert_eq!(world.daemon, Daemon::Answering);
    let drop_in = world.service_files.drop_in.clone().unwrap();
    assert!(drop_in.contains("\nExecStartPre=+/usr/local/libexec/slurmctld-charm guard\n"), "{drop_in}");
    // systemd itself does not look at the store.
    assert!(drop_in.contains("\nConditionPathExists=\n"), "{drop_in}");
    // A mount that goes stops nothing, and keeps the daemon from a start on what is below.
    world.store.mount = StoreMount::Nothing;
    world.store.state = StateDirectory::Absent;
    world.daemon = Daemon::Failing { reason: "x".to_owned() };
    check(world, &[]);
}

#[test]
fn what_is_mounted_over_the_state_is_not_this_clusters() {
    let mut world = World::serving();
    world.options.network_state = true;
    world.store.mount = StoreMount::Mounted { read_only: false };
    world.store.state = StateDirectory::Empty;
    assert_eq!(state_problem(&world.settled()), Some(StateProblem::Lost));
}

#[test]
fn without_the_option_no_file_system_is_asked_for() {
    let mut world = World::serving();
    world.mount = mount();
    check(world, &[]);
}

#[test]
fn a_lost_key_comes_back_from_the_secret_and_is_not_made_anew() {
    let mut world = World::serving();
    (world.keys.auth, world.keys.jwt) = (None, None);
    check(world, &["restore the authentication key", "restore the token key"]);
}

#[test]
fn a_lost_secret_comes_back_from_the_key() {
    let mut world = World::serving();
    (world.auth_secret, world.jwt_secret) = Default::default();
    check(world, &["add secret slurm-auth-key", "add secret slurm-jwt-key"]);
}

#[test]
fn the_lost_or_wrong_content_of_a_secret_comes_back_from_the_key() {
    for content in [None, Some(key_secret::of_keys(&keys("another")))] {
        let mut world = World::serving();
        (world.auth_secret.content, world.jwt_secret.content) = (content.clone(), content);
        let back = ["put the key back into secret slurm-auth-key", "put the key back into secret slurm-jwt-key"];
        check(world, &back);
    }
}

#[test]
fn a_key_that_is_nowhere_any_more_is_made_anew() {
    let mut world = World::serving();
    (world.auth_secret.content, world.keys.auth) = (None, None);
    check(world, &["make the authentication key", "put the key back into secret slurm-auth-key"]);
}

#[test]
fn no_second_key_is_made_while_juju_will_not_say() {
    let mut world = World::serving();
    world.auth_secret.denied = true;
    world.keys.auth = None;
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, [""; 0]);
    assert!(world.conditions.contains(&Condition::AwaitsKey("authentication key")));
}

#[test]
fn a_second_unit_has_slurm_and_tells_its_version_and_nothing_more() {
    let mut named = World::fresh();
    // One that came to lead an application whose cluster is on another unit is none the less a second one.
    named.peer.as_mut().unwrap().cluster_name = Some("lab".parse().unwrap());
    for mut world in [World::fresh().not_leading().with_sibling("slurmctld/1"), named] {
        world.dispatch(&|_, _| None);
        let expected = [
            "install slurmctld",
            "hold the packages of Slurm",
            "exempt slurmctld.service from needrestart",
            "report version 24.11.5",
        ];
        assert_eq!(world.taken, expected);
        check(world, &[]);
    }
}

#[test]
fn what_units_may_share_is_the_leaders_to_change() {
    let accepted = World::serving();
    // A partition, an edit by hand, a refusal that was not followed up, a reconfigure whose end nobody saw, lost files.
    let mut worlds = vec![accepted.clone().with_compute("compute", "")];
    let mut edited = accepted.clone();
    edited.live.slurm.as_mut().unwrap().push_str("KillWait=31\n");
    worlds.push(edited.clone());
    edited.daemon = Daemon::Failing { reason: "fatal: no".to_owned() };
    edited.trigger = Trigger::DaemonFailure;
    worlds.push(edited);
    let mut unseen = accepted.clone();
    unseen.overrides = Noted::Known(crate::config::rollout::Overrides(Default::default()));
    worlds.push(unseen);
    let mut lost = accepted.clone();
    lost.live = Default::default();
    worlds.push(lost);
    let mut unsaved = accepted.with_compute("compute", "").settled();
    unsaved.partitions_saved = false;
    worlds.push(unsaved);
    for world in worlds {
        assert_ne!(world.steps(), [""; 0]);
        let mut world = world.not_leading();
        world.dispatch(&|_, _| None);
        assert_eq!(world.taken, [""; 0]);
    }
}

#[test]
fn a_controller_that_lost_leadership_goes_on_running() {
    let mut world = World::serving().not_leading();
    world.daemon = Daemon::Stopped;
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, ["start slurmctld"]);
}

#[test]
fn a_leaving_unit_changes_nothing_whoever_calls() {
    for trigger in [Trigger::Juju, Trigger::Retry, Trigger::DaemonFailure] {
        let mut world = World::serving();
        (world.leaving, world.trigger, world.retry_timer) = (true, trigger, true);
        for daemon in [Daemon::Stopped, Daemon::Silent { reason: None }] {
            world.daemon = daemon;
            world.dispatch(&|_, _| None);
            assert_eq!((world.taken.len(), world.conditions.as_slice()), (0, &[Condition::Leaving][..]));
            assert!(!world.retry_timer);
        }
    }
}

#[test]
fn the_last_hooks_ask_nothing() {
    let mut world = World::serving().with_compute("compute", "");
    world.last = true;
    world.dispatch(&|_, _| None);
    assert_eq!((world.taken.len(), world.reported().as_str()), (0, "maintenance: leaving"));
}

#[test]
fn a_dispatch_killed_after_any_step_and_run_again_ends_in_the_same_state() {
    let start = || World::fresh().with_compute("compute", "MaxTime=60");
    let goal = start().settled();
    for steps in 0.. {
        let mut world = start();
        let killed = world.dispatch_until(&|_, _| None, steps);
        let world = world.settled();
        assert_eq!((&world.live, &world.accepted), (&goal.live, &goal.accepted), "killed after {steps}");
        assert_eq!(world.computes[0].published, goal.computes[0].published, "killed after {steps}");
        if !killed {
            assert!(steps > 20, "only {steps} steps");
            return;
        }
    }
}
