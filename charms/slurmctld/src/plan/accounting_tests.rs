//! slurmdbd comes, is away, has another opinion, and goes. No job pays for it.

use super::situations::{World, wants};
use crate::config::files::{Config, Included};
use crate::config::managed_keys::accounting_host;
use crate::daemon::Daemon;
use crate::extras::Said;
use crate::facts::Recording;
use crate::names::{ENDPOINT_SLURMDBD, ENDPOINT_SLURMRESTD};
use slurm_interface::{AccountingKeys, RestData};
use slurm_ops::slurmdbd::Reach;

fn said() -> Said<slurm_conf::HostName> {
    Said::This("juju-c9fc6f-3".parse().unwrap())
}

fn well(queued: u64) -> Recording {
    Recording { reach: Reach::Answers, connected: true, queued: Some(queued) }
}

fn away(queued: u64) -> Recording {
    Recording { reach: Reach::Refuses, connected: false, queued: Some(queued) }
}

fn recorded(world: &World) -> Option<String> {
    let config = Config::read(world.live.clone(), &Included::default());
    accounting_host(&config).map(str::to_owned)
}

/// A cluster that serves, with an application of slurmdbd that has said this.
fn related(said: Said<slurm_conf::HostName>) -> World {
    let mut world = World::fresh().with_compute("compute", "").settled();
    world.follow(ENDPOINT_SLURMDBD, "slurmdbd", said);
    world
}

#[test]
fn slurmdbd_is_told_of_both_keys() {
    let world = related(Said::Nothing).settled();
    let told = AccountingKeys::decode(&world.followers[0].published).unwrap().unwrap();
    assert!(told.jwt_secret.is_some() && told.slurm_version.is_some());
    assert!(world.auth_secret.granted.contains("slurmdbd.slurmdbd"));
    assert_eq!(world.jwt_secret.granted, ["slurmdbd.slurmdbd".to_owned()].into());
    assert_eq!(recorded(&world), None);
    assert!(world.shown().contains("no accounting yet: slurmdbd is not ready"), "{}", world.shown());
}

#[test]
fn accounting_comes_to_a_cluster_that_made_its_own_identity_up() {
    let mut world = related(said());
    world.dispatch(&|_, _| None);
    assert_eq!(world.daemon, Daemon::Answering);
    let at =
        |name: &str| world.taken.iter().position(|step| step == name).unwrap_or_else(|| panic!("{:?}", world.taken));
    let order = [
        "ask slurmdbd",
        "note who hears of the configuration",
        "have slurmdbd say which cluster this is",
        "reconfigure slurmctld",
    ];
    assert!(order.map(at).is_sorted(), "{:?}", world.taken);
    let world = world.settled();
    assert_eq!(recorded(&world).as_deref(), Some("juju-c9fc6f-3"));
    assert_eq!(world.neighbours.known().and_then(|noted| noted.accounting.clone()).as_deref(), Some("juju-c9fc6f-3"));
    assert!(!world.shown().contains("accounting"), "{}", world.shown());
}

#[test]
fn killed_before_any_step_it_comes_all_the_same() {
    for steps in 0..16 {
        let mut world = related(said());
        let finished = world.dispatch_until(&|_, _| None, steps);
        let world = world.settled();
        assert_eq!(world.daemon, Daemon::Answering, "{steps}");
        assert_eq!(recorded(&world).as_deref(), Some("juju-c9fc6f-3"), "{steps}");
        if finished {
            return;
        }
    }
    panic!("more steps than expected");
}

#[test]
fn a_slurmdbd_that_does_not_answer_changes_nothing() {
    let mut world = related(said());
    world.recording = away(0);
    let world = world.settled();
    assert_eq!(recorded(&world), None);
    assert_eq!(world.cluster_id, Some(1));
    assert!(world.shown().contains("slurmdbd does not answer at juju-c9fc6f-3"), "{}", world.shown());
    assert!(world.retry_timer);
}

#[test]
fn records_are_kept_while_slurmdbd_is_away() {
    let mut world = related(said()).settled();
    world.recording = away(12);
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, Vec::<String>::new());
    assert_eq!(recorded(&world).as_deref(), Some("juju-c9fc6f-3"));
    assert!(world.shown().contains("slurmdbd does not answer, 12 records are kept for it"), "{}", world.shown());
    world.recording = well(100);
    world.dispatch(&|_, _| None);
    assert!(world.shown().contains("accounting: 100 records wait for slurmdbd"), "{}", world.shown());
    world.recording = well(99);
    world.dispatch(&|_, _| None);
    assert!(!world.shown().contains("accounting"), "{}", world.shown());
}

#[test]
fn accounting_goes_with_its_relation_and_comes_again() {
    let mut world = related(said()).settled();
    world.followers.clear();
    let mut world = world.settled();
    assert_eq!(recorded(&world), None);
    // Whose the lines were is forgotten when they are gone.
    world.dispatch(&|_, _| None);
    assert_eq!(world.neighbours.known().and_then(|noted| noted.accounting.clone()), None);
    world.follow(ENDPOINT_SLURMDBD, "slurmdbd", said());
    let world = world.settled();
    assert_eq!(recorded(&world).as_deref(), Some("juju-c9fc6f-3"));
    assert_eq!(world.daemon, Daemon::Answering);
}

#[test]
fn what_an_administrator_wrote_stays_without_a_relation() {
    let mut world = World::fresh().with_compute("compute", "").settled();
    let lines = "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=elsewhere\n";
    world.cluster_id = Some(super::situations::DATABASE_ID);
    world.live.slurm.as_mut().unwrap().push_str(lines);
    let world = world.settled();
    assert_eq!(recorded(&world).as_deref(), Some("elsewhere"));
}

#[test]
fn an_identity_that_slurmdbd_does_not_share_is_mended() {
    let mut world = related(said()).settled();
    // The database came from a backup, or a takeover made an identity up.
    world.cluster_id = Some(7);
    world.daemon = Daemon::Failing { reason: "fatal: CLUSTER ID MISMATCH.".to_owned() };
    world.trigger = slurm_unit::Trigger::DaemonFailure;
    world.dispatch(&|_, _| None);
    assert_eq!(world.daemon, Daemon::Answering);
    assert_eq!(recorded(&world).as_deref(), Some("juju-c9fc6f-3"));
    assert_eq!(world.cluster_id, Some(super::situations::DATABASE_ID));
}

#[test]
fn a_second_slurmdbd_is_refused_by_name() {
    let mut world = related(said());
    world.follow(ENDPOINT_SLURMDBD, "other", Said::This("juju-c9fc6f-9".parse().unwrap()));
    let world = world.settled();
    assert_eq!(recorded(&world).as_deref(), Some("juju-c9fc6f-3"));
    assert!(
        world.reported().contains("one slurmdbd only: remove a relation of slurmdbd, other"),
        "{}",
        world.reported()
    );
}

#[test]
fn the_rest_api_is_told_of_every_configuration() {
    let mut world = World::fresh().with_compute("compute", "");
    world.follow(ENDPOINT_SLURMRESTD, "rest", Said::Nothing);
    let mut world = world.settled();
    let told = |world: &World| RestData::decode(&world.followers[0].published).unwrap().unwrap();
    assert_eq!(told(&world).controllers(), ["juju-c9fc6f-0"]);
    assert!(told(&world).auth_secret.is_some());
    world.retry_timer = false;
    world.computes[0].data = wants("compute", "MaxTime=1");
    world.dispatch(&|_, _| None);
    assert!(world.taken.contains(&"reconfigure slurmctld".to_owned()));
    let files = told(&world).files;
    assert_eq!(files["slurm.conf"].partition("compute").unwrap().get("MaxTime"), Some("1"));
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, Vec::<String>::new());
}

#[test]
fn nothing_is_reconfigured_while_slurmdbd_hangs() {
    let mut world = related(said()).settled();
    world.dispatch(&|_, _| None);
    world.recording = Recording { reach: Reach::Silent, connected: true, queued: Some(3) };
    world.computes[0].data = wants("compute", "MaxTime=1");
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, Vec::<String>::new());
    let told = "waiting: for slurmdbd at juju-c9fc6f-3: config changes on hold, slurmctld would hang";
    assert_eq!(world.reported(), told);
    assert!(world.retry_timer);
    // Its connection is given up, or slurmdbd is only away: no obstacle.
    for recording in [Recording { connected: false, ..world.recording }, away(3), well(3)] {
        let mut world = world.clone();
        world.recording = recording;
        world.dispatch(&|_, _| None);
        assert!(world.taken.contains(&"reconfigure slurmctld".to_owned()), "{recording:?} {:?}", world.taken);
    }
}
