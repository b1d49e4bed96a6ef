//! A cluster that moves to a store and back, seen by its plan.

use super::situations::World;
use crate::condition::{Condition, Moving};
use crate::daemon::Daemon;
use crate::facts::{MountEndpoint, StateDirectory, StoreMount};
use crate::identity::StateProblem;
use crate::names;
use charm::Databag;
use slurm_interface::MountRequest;

const MOUNTED: StoreMount = StoreMount::Mounted { read_only: false };

impl World {
    /// A cluster on the local disk whose operator wants it on a store.
    fn to_move() -> Self {
        let mut world = Self::serving().with_compute("compute", "").settled();
        world.options.network_state = true;
        world.mount = Some(MountEndpoint { relation: "mount:5".parse().unwrap(), published: Databag::new() });
        world
    }

    /// The same, which has made way and waits for the mount.
    fn aside() -> Self {
        let world = Self::to_move().settled();
        assert_eq!(world.conditions, [Condition::Moving(Moving::AwaitsMount)]);
        world
    }

    /// A single controller that has moved to a store.
    fn moved() -> Self {
        let mut world = Self::aside();
        (world.store.mount, world.store.local) = (MOUNTED, false);
        world.settled()
    }

    fn state_location(&self) -> [Option<String>; 2] {
        [&self.live, &self.accepted].map(|files| {
            let text = files.slurm.as_ref().unwrap();
            text.lines().find_map(|line| line.strip_prefix("StateSaveLocation=")).map(str::to_owned)
        })
    }

    #[track_caller]
    fn assert_serves_from(&self, directory: &str) {
        assert_eq!(self.daemon, Daemon::Answering, "{:?} {:?}", self.taken, self.conditions);
        assert_eq!(self.state_location(), [Some(directory.to_owned()), Some(directory.to_owned())]);
        let drop_in = self.service_files.drop_in.clone().unwrap();
        let guarded = directory == names::STATE_DIRECTORY && self.link.is_some();
        assert_eq!(drop_in.contains(&format!(" {directory}/.cluster")), !guarded, "{drop_in}");
    }

    fn asks_for_a_mount(&self) -> bool {
        MountRequest::decode(&self.mount.as_ref().unwrap().published).unwrap().is_some()
    }

    fn place(&self, step: &str) -> usize {
        self.taken.iter().position(|taken| taken.contains(step)).unwrap_or_else(|| panic!("{step}: {:?}", self.taken))
    }
}

#[test]
fn the_state_is_out_of_the_way_before_a_mount_is_asked_for() {
    let mut world = World::to_move();
    world.dispatch(&|_, _| None);
    assert!(world.place("make way") < world.place("ask mount:5"));
    world.assert_serves_from(names::ASIDE_STATE);
    assert_eq!(world.reported(), "waiting: to move to the store: nothing is mounted at /var/lib/slurm/checkpoint yet");
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, [""; 0]);
    assert!(world.retry_timer);
}

#[test]
fn a_store_that_is_mounted_is_moved_to() {
    let mut world = World::aside();
    (world.store.mount, world.store.local) = (MOUNTED, false);
    world.dispatch(&|_, _| None);
    assert_eq!(world.place("move to the store"), 0);
    assert!(!world.taken.iter().any(|step| step.contains("start slurmctld")), "{:?}", world.taken);
    world.assert_serves_from(names::STATE_DIRECTORY);
    assert!(world.asks_for_a_mount());
    let mut world = world.settled();
    assert_eq!(world.reported(), "active: primary - UP");
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, [""; 0]);
}

#[test]
fn a_cluster_moves_back_when_the_option_is_reset() {
    let mut world = World::moved();
    world.options.network_state = false;
    world.dispatch(&|_, _| None);
    assert!(world.place("move to the local disk") < world.place("ask mount:5"), "that is, for none");
    world.assert_serves_from(names::ASIDE_STATE);
    assert!(!world.asks_for_a_mount());
    let mut world = world.settled();
    assert_eq!(world.reported(), "active: primary - UP");
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, [""; 0]);
    // And there once more.
    world.options.network_state = true;
    world.settled().assert_serves_from(names::STATE_DIRECTORY);
}

#[test]
fn a_move_that_was_killed_at_any_step_ends_on_one_side() {
    for back in [false, true] {
        for steps in 0.. {
            let mut world = if back { World::moved() } else { World::to_move() };
            world.options.network_state = !back;
            if !back {
                (world.store.mount, world.store.local) = (StoreMount::Nothing, true);
            }
            let mut killed = world.dispatch_until(&|_, _| None, steps);
            if !back && !killed {
                (world.store.mount, world.store.local) = (MOUNTED, false);
                killed = world.dispatch_until(&|_, _| None, steps - world.taken.len().min(steps));
            }
            let world = world.settled();
            if !back {
                let mut world = world;
                (world.store.mount, world.store.local) = (MOUNTED, false);
                world.settled().settled().assert_serves_from(names::STATE_DIRECTORY);
            } else {
                world.settled().assert_serves_from(names::ASIDE_STATE);
            }
            if !killed {
                break;
            }
        }
    }
}

#[test]
fn a_move_that_fails_goes_back_and_is_tried_again_later() {
    for back in [false, true] {
        let mut world = if back { World::moved() } else { World::aside() };
        (world.store.mount, world.store.local) = (MOUNTED, false);
        world.options.network_state = !back;
        let before = world.state_location()[0].clone().unwrap();
        world.move_fails = Some("no answer");
        world.dispatch(&|_, _| None);
        assert_eq!(world.taken.iter().filter(|step| step.starts_with("move to")).count(), 1);
        world.assert_serves_from(&before);
        assert_eq!(world.reported(), "waiting: to try the move again: no answer");
        assert!(world.retry_timer);
        world.move_fails = None;
        let world = world.settled();
        assert_ne!(world.state_location()[0].as_ref(), Some(&before));
    }
}

#[test]
fn a_state_that_is_aside_is_started_only_with_files_that_say_so() {
    let mut world = World::to_move();
    // The process that made way was killed after the rename.
    world.daemon = Daemon::Stopped;
    world.aside.state = std::mem::replace(&mut world.store.state, StateDirectory::Absent);
    world.options.network_state = false;
    world.dispatch(&|_, _| None);
    assert!(world.place("say where the state is") < world.place("start slurmctld"));
    world.assert_serves_from(names::ASIDE_STATE);
    assert!(!world.taken.iter().any(|step| step.contains("reconfigure")), "{:?}", world.taken);
}

#[test]
fn a_copy_counts_once_the_store_was_left_for_it() {
    let mut world = World::moved();
    world.options.network_state = false;
    (world.daemon, world.aside.incoming) = (Daemon::Stopped, Some("20261117_1".to_owned()));
    // Killed before the store was left: there is the state.
    assert!(!world.clone().settled().taken.iter().any(|step| step.contains("end the move")));
    world.store.state = StateDirectory::Absent;
    let lost = world.clone().settled();
    assert!(lost.taken.is_empty() && lost.reported().contains("restore it"), "{:?} {}", lost.taken, lost.reported());
    world.store.moved = vec!["20261117_0".to_owned()];
    assert!(world.clone().settled().taken.is_empty());
    world.store.moved.push("20261117_1".to_owned());
    // Whatever slurm.conf on the store says, the one that came along says aside.
    let world = world.settled();
    assert!(world.place("end the fence") < world.place("link /etc/slurm"));
    assert!(world.place("link /etc/slurm") < world.place("end the move"));
    assert!(world.place("end the move") < world.place("start slurmctld"));
    world.assert_serves_from(names::ASIDE_STATE);
}

#[test]
fn a_cluster_that_has_left_a_silent_store_needs_nothing_from_it() {
    let mut world = World::moved();
    world.options.network_state = false;
    world.daemon = Daemon::Stopped;
    world.aside.state = StateDirectory::Of(world.note());
    world.store.state = StateDirectory::Unreadable("no answer".to_owned());
    assert_eq!(world.steps(), ["link /etc/slurm to /var/lib/slurm/local/etc-slurm"]);
    world.settled().assert_serves_from(names::ASIDE_STATE);
}

#[test]
fn the_option_taken_back_half_way_leaves_the_state_aside() {
    let mut world = World::aside();
    world.options.network_state = false;
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, ["ask mount:5 for a file system"], "that is, for none");
    assert!(!world.asks_for_a_mount());
    world.assert_serves_from(names::ASIDE_STATE);
    assert_eq!(world.settled().reported(), "active: primary - UP");
}

#[test]
fn what_keeps_a_cluster_from_a_store_costs_it_nothing() {
    let foreign = StateProblem::Foreign("lab other/model".to_owned());
    let cases = [
        (MOUNTED, StateDirectory::Of("lab other/model".to_owned()), foreign),
        (MOUNTED, StateDirectory::Unmarked, StateProblem::Unmarked),
        (MOUNTED, StateDirectory::Unreadable("x".to_owned()), StateProblem::Unreadable("x".to_owned())),
        (StoreMount::Mounted { read_only: true }, StateDirectory::Absent, StateProblem::ReadOnly),
    ];
    for (mount, state, problem) in cases {
        let mut world = World::aside();
        (world.store.mount, world.store.state, world.store.local) = (mount, state, false);
        world.dispatch(&|_, _| None);
        assert_eq!(world.taken, [""; 0]);
        assert_eq!(world.conditions, [Condition::Moving(Moving::Unusable(problem))]);
        world.assert_serves_from(names::ASIDE_STATE);
    }
}

#[test]
fn a_copy_of_its_own_on_the_store_is_no_obstacle() {
    let mut world = World::aside();
    (world.store.mount, world.store.local) = (MOUNTED, false);
    world.store.state = StateDirectory::Of(world.note());
    world.settled().assert_serves_from(names::STATE_DIRECTORY);
}

#[test]
fn nothing_moves_before_it_can() {
    let mut world = World::to_move();
    world.mount = None;
    assert_eq!(
        world.clone().settled().reported(),
        "blocked: option use-network-state `true`: integrate a file system client with `mount` to move to a store"
    );
    let mut world = World::to_move().with_sibling("slurmctld/1");
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, [""; 0]);
    assert_eq!(
        world.reported(),
        "blocked: option use-network-state `true`: only a single controller moves to the store: \
         remove slurmctld/1 first"
    );
    let mut world = World::moved().with_sibling("slurmctld/1");
    world.options.network_state = false;
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, [""; 0]);
    assert_eq!(
        world.reported(),
        "blocked: option use-network-state `false`: only a single controller moves to the local disk: \
         remove slurmctld/1 first"
    );
    let mut world = World::to_move();
    world.store.mount = MOUNTED;
    world.options.network_state = true;
    world.store.state = StateDirectory::Absent;
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, [""; 0], "its state is covered");
    let mut world = World::to_move();
    world.daemon = Daemon::Silent { reason: None };
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, [""; 0]);
}
