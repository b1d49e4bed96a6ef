//! What a controller on a store does: alone, with others, and when the store is away.

use super::situations::World;
use super::tests::{live, state_problem};
use crate::condition::Condition;
use crate::controllers::{Beat, Member, Serving, Started};
use crate::daemon::Daemon;
use crate::facts::{MountEndpoint, StateDirectory, StoreMount};
use crate::identity::StateProblem;
use crate::keys::LoadedKeys;
use crate::names;
use charm::Databag;
use slurm_conf::HostName;
use slurm_interface::ControllerData;
use slurm_ops::heartbeat::Heartbeat;
use slurm_unit::note::Noted;

/// The keys of these worlds.
fn made() -> Option<LoadedKeys> {
    Some(LoadedKeys { auth: vec!["made".to_owned()], jwt: None })
}

const OWN: &str = "juju-c9fc6f-0";
const OTHER: &str = "juju-c9fc6f-1";
const MOUNTED: StoreMount = StoreMount::Mounted { read_only: false };

fn member(number: usize, host: Option<&str>) -> Member {
    let unit = format!("slurmctld/{number}").parse().unwrap();
    let host = host.map(|host| host.parse().unwrap());
    Member { unit, host, dying: false, left: false, keys: None, started_with: None }
}

fn hosts(names: &[&str]) -> Vec<HostName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

impl World {
    /// A leader whose cluster is to be on a store that nobody has mounted yet.
    fn for_a_store() -> Self {
        let mut world = Self::fresh();
        world.options.network_state = true;
        world.mount = Some(MountEndpoint { relation: "mount:5".parse().unwrap(), published: Databag::new() });
        world.members = Some(vec![member(0, Some(OWN))]);
        world
    }

    /// A single controller on a store, at rest.
    fn on_store() -> Self {
        let mut world = Self::for_a_store().settled();
        world.store.mount = MOUNTED;
        world.store.local = false;
        world.settled()
    }

    /// Two controllers at rest, of which the first leads. This is the first one, or the second.
    fn one_of_two(rank: u64) -> Self {
        let mut world = Self::on_store().with_compute("compute", "");
        world.members = Some(vec![member(0, Some(OWN)), member(1, Some(OTHER))]);
        world.siblings = vec!["slurmctld/1".parse().unwrap()];
        let mut world = world.settled().heard(0).settled();
        if rank == 1 {
            world.host.name = OTHER.parse().unwrap();
            world.peer.as_mut().unwrap().own.as_mut().unwrap().hostname = OTHER.parse().unwrap();
            let settings = world.fence.settings.as_mut().unwrap();
            (settings.others, settings.rank) = (vec![OWN.to_owned()], Some(1));
            world.leader = false;
        }
        world
    }

    /// The controller of this rank serves, and has just said so.
    fn heard(mut self, controller: u64) -> Self {
        let heartbeat = Heartbeat { at: self.now, controller };
        self.heartbeat = Some(Beat { heartbeat, counts_as_accepted: true });
        self
    }

    fn took(&self, step: &str) -> bool {
        self.taken.iter().any(|taken| taken.contains(step))
    }
}

fn told(world: &World) -> Vec<String> {
    let data = ControllerData::decode(&world.computes[0].published).unwrap().unwrap();
    data.controllers.iter().map(ToString::to_string).collect()
}

#[test]
fn the_host_is_published_and_the_file_system_asked_for_before_there_is_a_store() {
    let mut world = World::for_a_store();
    world.dispatch(&|_, _| None);
    assert!(world.took("publish host name") && world.took("ask mount:5 for a file system"), "{:?}", world.taken);
    assert_eq!(state_problem(&world), Some(StateProblem::NotMounted));
    assert!(world.retry_timer && world.live.slurm.is_none() && world.keys.auth.is_none());
}

#[test]
fn a_new_cluster_is_made_on_the_store() {
    let mut world = World::for_a_store().settled();
    world.store.mount = MOUNTED;
    world.dispatch(&|_, _| None);
    let place = |step: &str| world.taken.iter().position(|taken| taken.contains(step)).expect(step);
    assert!(place("prepare") < place("link /etc/slurm"));
    assert!(place("link /etc/slurm") < place("make the authentication key"));
    assert!(place("make the authentication key") < place("start slurmctld"));
    assert_eq!(world.started, Noted::Known(Started::with(&hosts(&[OWN]), None, made())));
    assert_eq!(world.link.as_deref(), Some(names::SHARED_CONFIGURATION));
    assert_eq!(world.settled().reported(), "active: primary - UP");
}

#[test]
fn a_settled_controller_on_a_store_does_nothing() {
    for mut world in [World::on_store(), World::one_of_two(0), World::one_of_two(1)] {
        world.dispatch(&|_, _| None);
        assert_eq!(world.taken, [""; 0]);
        assert!(!world.retry_timer, "{:?}", world.conditions);
    }
}

#[test]
fn the_fence_knows_the_other_controllers_and_the_unit_to_call() {
    for (rank, other) in [(0, OTHER), (1, OWN)] {
        let mut world = World::one_of_two(rank);
        world.fence.settings = None;
        let settings = world.settled().fence.settings.unwrap();
        assert_eq!((settings.others.as_slice(), settings.rank), (&[other.to_owned()][..], Some(rank)));
        assert!(settings.call.last().unwrap().contains("hooks/controllers-changed"), "{settings:?}");
    }
}

#[test]
fn a_unit_that_does_not_lead_waits_for_the_cluster() {
    let mut world = World::for_a_store().not_leading();
    world.store.mount = MOUNTED;
    let world = world.settled();
    assert_eq!(world.reported(), "waiting: for the leader to make the cluster");
    assert!(world.retry_timer && world.store.state == StateDirectory::Absent && world.keys.auth.is_none());
}

#[test]
fn a_host_that_joins_is_appended_with_one_reconfigure_and_everybody_is_told() {
    let mut world = World::on_store().with_compute("compute", "").settled();
    let signal = world.peer.clone().unwrap().restart_signal;
    world.members.as_mut().unwrap().push(member(1, Some(OTHER)));
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken.iter().filter(|step| *step == "reconfigure slurmctld").count(), 1);
    assert!(!world.took("restart"), "{:?}", world.taken);
    assert_eq!(live(&world).controllers(), [OWN, OTHER]);
    assert_eq!(told(&world), [format!("{OWN}:6817"), format!("{OTHER}:6817")]);
    assert_ne!(world.peer.clone().unwrap().restart_signal, signal, "the others are woken");
    // Until it has given a sign of life that counts by the new list, nobody knows who serves.
    assert!(world.conditions.contains(&Condition::ListUnsettled) && world.retry_timer);
    let world = world.heard(0).settled();
    assert!(!world.took("restart") && !world.retry_timer);
}

#[test]
fn a_unit_starts_when_the_file_lists_it() {
    let mut world = World::one_of_two(1);
    (world.daemon, world.started) = (Daemon::Stopped, Noted::Absent);
    let listed = world.clone();
    let alone = world.live.slurm.clone().unwrap().replace(&format!("SlurmctldHost={OTHER}\n"), "");
    (world.live.slurm, world.accepted.slurm) = (Some(alone.clone()), Some(alone));
    assert_eq!(world.clone().settled().reported(), format!("waiting: for slurm.conf to list {OTHER}"));
    assert!(!world.settled().took("start"));
    let mut world = listed;
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, ["start slurmctld", "note what slurmctld was started with"]);
    assert_eq!(world.settled().reported(), "active: backup - UP");
}

#[test]
fn one_that_steps_aside_is_started_when_another_one_serves_or_nobody_does() {
    let mut world = World::one_of_two(0);
    world.daemon = Daemon::SteppedAside;
    let mut early = world.clone();
    early.dispatch(&|_, _| None);
    assert!(!early.took("start slurmctld") && early.retry_timer, "{:?}", early.taken);
    assert_eq!(early.reported(), "waiting: for another controller to take over");
    for mut later in [world.clone().heard(1), World { heartbeat: None, ..world.clone() }] {
        later.dispatch(&|_, _| None);
        assert!(later.took("start slurmctld"), "{:?}", later.taken);
    }
    // A single one gives no sign of life, and has nobody to wait for.
    let mut alone = World::on_store();
    alone.daemon = Daemon::SteppedAside;
    alone.dispatch(&|_, _| None);
    assert!(alone.took("start slurmctld"), "{:?}", alone.taken);
}

#[test]
fn only_a_standby_with_another_list_is_restarted() {
    for (rank, restarts) in [(0, false), (1, true)] {
        // Or with a slurmdbd that is gone.
        for before in [
            Started::with(&hosts(&["gone", OWN, OTHER]), None, made()),
            Started::with(&hosts(&[OWN, OTHER]), Some("d"), made()),
        ] {
            let mut world = World::one_of_two(rank);
            world.started = Noted::Known(before);
            world.dispatch(&|_, _| None);
            assert_eq!(world.took("restart slurmctld"), restarts, "{rank}");
            assert_eq!(world.started, Noted::Known(Started::with(&hosts(&[OWN, OTHER]), None, made())));
        }
    }
}

#[test]
fn a_backup_that_serves_says_so_and_the_others_say_which() {
    let shown = |rank| World::one_of_two(rank).heard(1).settled().reported();
    assert_eq!(shown(0), format!("active: primary - UP; {OTHER} serves"));
    assert_eq!(shown(1), "active: backup - UP; serves");
}

#[test]
fn nothing_is_restarted_while_nobody_knows_who_serves() {
    let mut world = World::one_of_two(1);
    world.started = Noted::Absent;
    let beat = Beat { heartbeat: Heartbeat { at: world.now, controller: 1 }, counts_as_accepted: false };
    for heartbeat in [None, Some(beat)] {
        world.heartbeat = heartbeat;
        world.dispatch(&|_, _| None);
        assert_eq!(world.taken, [""; 0]);
        assert!(world.retry_timer);
    }
}

#[test]
fn a_standby_that_shortens_the_list_does_not_take_itself_for_the_one_that_serves() {
    let third = "juju-c9fc6f-2";
    let mut world = World::one_of_two(0);
    world.members = Some(vec![member(0, Some(OWN)), member(1, Some(OTHER)), member(2, Some(third))]);
    let mut world = world.settled().heard(1);
    world.host.name = third.parse().unwrap();
    world.peer.as_mut().unwrap().own.as_mut().unwrap().hostname = third.parse().unwrap();
    world.started = Noted::Known(Started::with(&hosts(&[OWN, OTHER, third]), None, made()));
    world.members = Some(vec![member(1, Some(OTHER)), member(2, Some(third))]);
    world.dispatch(&|_, _| None);
    assert_eq!(live(&world).controllers(), [OTHER, third]);
    // The sign of life that it has read is of the second in the list of before.
    assert!(!world.took("note the list") && world.retry_timer, "{:?}", world.taken);
    let mut world = world.heard(0);
    world.dispatch(&|_, _| None);
    assert!(world.took("restart"), "{:?}", world.taken);
}

#[test]
fn a_leader_that_no_line_names_lists_itself_and_starts() {
    let mut world = World::one_of_two(0);
    world.host.name = "juju-c9fc6f-2".parse().unwrap();
    world.peer.as_mut().unwrap().own = None;
    world.members = Some(vec![member(0, Some(OWN)), member(1, Some(OTHER)), member(2, Some("juju-c9fc6f-2"))]);
    (world.daemon, world.started, world.heartbeat) = (Daemon::Stopped, Noted::Absent, None);
    world.dispatch(&|_, _| None);
    assert_eq!(live(&world).controllers(), [OWN, OTHER, "juju-c9fc6f-2"]);
    assert!(world.took("start slurmctld"), "{:?}", world.taken);
}

#[test]
fn a_host_whose_unit_is_gone_is_taken_out() {
    let mut world = World::one_of_two(0);
    world.members = Some(vec![member(0, Some(OWN))]);
    let world = world.settled();
    assert_eq!(live(&world).controllers(), [OWN]);
    assert_eq!(told(&world), [format!("{OWN}:6817")]);
}

#[test]
fn nobody_is_taken_out_while_juju_cannot_be_asked() {
    let mut world = World::one_of_two(0);
    world.members = None;
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, [""; 0]);
}

#[test]
fn a_controller_that_serves_hands_over_before_it_leaves() {
    let mut world = World::one_of_two(0);
    (world.teardown, world.leaving) = (true, true);
    world.dispatch(&|_, _| None);
    assert_eq!(
        world.taken,
        ["hand over to juju-c9fc6f-1", "stop slurmctld for good", "publish host name to slurmctld-peer:0"]
    );
    assert!(world.peer.as_ref().unwrap().own.as_ref().unwrap().left);
    assert_eq!(world.reported(), "maintenance: leaving");
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, [""; 0]);
}

#[test]
fn control_is_handed_to_one_that_would_serve_and_stay() {
    let third = "juju-c9fc6f-2";
    let three = || {
        let mut world = World::one_of_two(0);
        world.members.as_mut().unwrap().push(member(2, Some(third)));
        let mut world = world.settled().heard(0).settled();
        (world.teardown, world.leaving) = (true, true);
        world
    };
    let mut outdated = three();
    outdated.members.as_mut().unwrap()[1].started_with = Some("before".to_owned());
    outdated.dispatch(&|_, _| None);
    assert_eq!(outdated.taken[0], "hand over to juju-c9fc6f-2");
    let mut dying = three();
    dying.members.as_mut().unwrap()[1].dying = true;
    dying.dispatch(&|_, _| None);
    assert_eq!(dying.taken[0], "hand over to juju-c9fc6f-2");
    let mut all = three();
    all.members.as_mut().unwrap().iter_mut().for_each(|member| member.dying = true);
    all.dispatch(&|_, _| None);
    assert_eq!(all.taken[0], "hand over to juju-c9fc6f-1", "better than nobody");
    let mut nobody = three();
    nobody.members.as_mut().unwrap().iter_mut().for_each(|member| member.started_with = Some("before".to_owned()));
    nobody.dispatch(&|_, _| None);
    assert_eq!(nobody.taken[0], "stop slurmctld for good");
}

#[test]
fn a_standby_leaves_without_a_takeover() {
    let mut world = World::one_of_two(1);
    (world.teardown, world.leaving) = (true, true);
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, ["stop slurmctld for good", "publish host name to slurmctld-peer:0"]);
}

#[test]
fn one_that_has_failed_already_leaves_too() {
    let mut world = World::one_of_two(1);
    (world.teardown, world.leaving) = (true, true);
    world.daemon = Daemon::Failing { reason: "x".to_owned() };
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, ["publish host name to slurmctld-peer:0"]);
    assert!(world.peer.unwrap().own.unwrap().left);
}

#[test]
fn nobody_is_handed_a_cluster_whose_controllers_all_leave() {
    let mut world = World::one_of_two(0);
    (world.teardown, world.leaving, world.siblings) = (true, true, Vec::new());
    world.dispatch(&|_, _| None);
    assert!(!world.took("hand over"), "{:?}", world.taken);
}

#[test]
fn a_hook_that_another_unit_leaves_in_changes_nothing() {
    let mut world = World::one_of_two(0);
    world.teardown = true;
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, [""; 0]);
}

#[test]
fn a_store_that_is_away_is_left_alone() {
    let away = [
        (StoreMount::Nothing, StateDirectory::Absent),
        (StoreMount::Nothing, StateDirectory::Empty),
        (StoreMount::Mounted { read_only: true }, StateDirectory::Unmarked),
        (MOUNTED, StateDirectory::Unreadable("no answer".to_owned())),
        (MOUNTED, StateDirectory::Empty),
        (MOUNTED, StateDirectory::Absent),
        (MOUNTED, StateDirectory::Unmarked),
        (MOUNTED, StateDirectory::Of("lab other/model".to_owned())),
    ];
    for rank in [0, 1] {
        for (mount, state) in away.clone() {
            let mut world = World::one_of_two(rank);
            (world.store.mount, world.store.state) = (mount.clone(), state.clone());
            world.daemon = Daemon::Stopped;
            world.dispatch(&|_, _| None);
            assert_eq!(world.taken, [""; 0], "{mount:?} {state:?}");
            assert!(world.reported().starts_with("blocked: "), "{}", world.reported());
            assert!(world.retry_timer);
        }
    }
}

#[test]
fn an_adopted_cluster_starts_once_the_old_controllers_are_silent_and_with_its_own_hosts_alone() {
    const NEW: &str = "juju-7d11e2-0";
    let adopted = |members: Vec<Member>| {
        let mut world = World::one_of_two(0);
        world.host.name = NEW.parse().unwrap();
        let peer = world.peer.as_mut().unwrap();
        (peer.cluster_name, peer.own.as_mut().unwrap().hostname) = (None, NEW.parse().unwrap());
        world.members = Some(members);
        world.daemon = Daemon::Stopped;
        world
    };
    let mut world = adopted(vec![member(0, Some(NEW)), member(1, None)]);
    world.dispatch(&|_, _| None);
    let first = Condition::OldControllers(Serving::Host(OWN.parse().unwrap()));
    assert!(world.conditions.contains(&first) && world.retry_timer, "{:?}", world.conditions);
    assert!(!world.took("write") && !world.took("start slurmctld") && !world.took("publish"), "{:?}", world.taken);
    world.heartbeat = None;
    world.dispatch(&|_, _| None);
    assert!(world.took("start slurmctld"), "{:?}", world.taken);
    assert_eq!(live(&world).controllers(), [NEW], "a unit that has published nothing holds no stranger's line");
    assert!(world.peer.unwrap().cluster_name.is_some());
    let mut unlisted = adopted(Vec::new());
    unlisted.heartbeat = None;
    unlisted.dispatch(&|_, _| None);
    assert!(unlisted.conditions.contains(&Condition::OldControllers(Serving::Nobody)), "{:?}", unlisted.conditions);
    assert!(!unlisted.took("start slurmctld"));
}
