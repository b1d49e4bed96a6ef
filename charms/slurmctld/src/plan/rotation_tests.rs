//! A key that is being replaced, one dispatch after the other: in which order, who is waited for, what holds it.

use super::situations::{World, keys};
use crate::condition::Condition;
use crate::rotation::{Phase, Rotation};
use slurm_ops::keys::{AuthKey, KeySet};
use slurm_unit::note::Noted;

const NOTE: &str = "note how far the new key has come";
const RECONFIGURE: &str = "reconfigure slurmctld";
const REFILL: &str = "put the key back into secret slurm-auth-key";

fn both() -> KeySet {
    keys("made").with(AuthKey::new("new", &"n".repeat(64)).unwrap())
}

/// A cluster whose operator has just asked for a new key.
fn rotating() -> World {
    let mut world = World::serving();
    world.keys.auth = Some(both());
    world
}

/// What the one compute unit says.
fn say(world: &mut World, ids: Option<&[&str]>) {
    let ids = ids.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect());
    world.acknowledgements.said = vec![("compute/0".parse().unwrap(), ids)];
}

fn dispatch(world: &mut World) -> Vec<String> {
    world.dispatch(&|_, _| None);
    world.taken.clone()
}

fn waits(world: &World) -> Option<(Phase, Vec<String>)> {
    world.conditions.iter().find_map(|condition| match condition {
        Condition::Rotating { phase, units, .. } => Some((*phase, units.clone())),
        _ => None,
    })
}

#[test]
fn slurmctld_has_the_keys_before_others_are_told_and_each_phase_waits_for_all() {
    let mut world = rotating();
    say(&mut world, Some(&["made"]));
    let taken = dispatch(&mut world);
    let at = |name: &str| taken.iter().position(|step| step == name).unwrap_or_else(|| panic!("no {name}: {taken:?}"));
    assert!([NOTE, RECONFIGURE, REFILL].map(at).is_sorted(), "{taken:?}");
    assert!(world.retry_timer);
    dispatch(&mut world);
    assert_eq!(waits(&world), Some((Phase::Known, vec!["compute/0".to_owned()])));
    for (said, then) in [(&["made", "new"][..], &["new", "made"][..]), (&["new", "made"], &["new"])] {
        say(&mut world, Some(said));
        let taken = dispatch(&mut world);
        assert_eq!(world.keys.auth.as_ref().unwrap().ids(), then);
        assert_eq!(taken.iter().filter(|step| *step == RECONFIGURE).count(), 1, "{taken:?}");
    }
    say(&mut world, Some(&["new"]));
    assert_eq!(dispatch(&mut world), ["forget the rotation, which is over"]);
    assert_eq!((world.rotation.clone(), dispatch(&mut world)), (Noted::Absent, Vec::new()));
}

#[test]
fn a_unit_that_keeps_no_key_is_never_waited_for() {
    let mut world = rotating();
    say(&mut world, Some(&[]));
    for _ in 0..5 {
        dispatch(&mut world);
    }
    assert_eq!(world.keys.auth.unwrap().ids(), ["new"]);
    assert_eq!(world.rotation, Noted::Absent);
}

#[test]
fn a_silent_unit_holds_the_retirement_until_juju_lets_go() {
    let mut world = rotating();
    say(&mut world, None);
    for _ in 0..4 {
        dispatch(&mut world);
    }
    assert_eq!(waits(&world), Some((Phase::Signing, vec!["compute/0".to_owned()])));
    let tracked: Vec<u64> = world.rotation.known().unwrap().tracked.keys().copied().collect();
    assert_eq!(tracked, [1], "the world has one revision only");
    // Juju says so of the newest revision as well, which is in use.
    world.obsolete = Some(("slurm-auth-key".to_owned(), 1));
    assert!(!dispatch(&mut world).iter().any(|step| step.starts_with("remove revision")));
    world.obsolete = None;
    world.rotation = Noted::Known(world.rotation.known().unwrap().clone().without_tracked(1));
    dispatch(&mut world);
    assert_eq!(world.keys.auth.as_ref().unwrap().ids(), ["new"]);
}

#[test]
fn an_operator_leaves_out_whom_nobody_will_see_again() {
    let mut world = rotating();
    say(&mut world, Some(&["made"]));
    for _ in 0..2 {
        dispatch(&mut world);
    }
    let note = world.rotation.known().unwrap().clone();
    world.rotation = Noted::Known(Rotation { skipped: ["compute/0".to_owned()].into(), ..note });
    for _ in 0..4 {
        dispatch(&mut world);
    }
    assert_eq!((world.keys.auth.unwrap().ids(), world.rotation), (vec!["new".to_owned()], Noted::Absent));
}

#[test]
fn a_note_that_cannot_be_read_stops_the_rotation_and_nothing_else() {
    let mut world = rotating();
    world.rotation = Noted::Unreadable { why: "/etc/slurm/rotation.json: cut".to_owned() };
    let taken = dispatch(&mut world);
    assert!(!taken.iter().any(|step| step == RECONFIGURE || step.starts_with("write the authentication")), "{taken:?}");
    assert_eq!(world.keys.auth, Some(both()));
    assert_eq!(
        world.reported(),
        "blocked: key rotation on hold: repair or delete the note /etc/slurm/rotation.json: cut"
    );
}

#[test]
fn a_state_that_cannot_be_saved_holds_the_rotation() {
    let mut world = rotating();
    world.state_problem = Some("the disk is full".to_owned());
    say(&mut world, Some(&["made", "new"]));
    for _ in 0..2 {
        assert!(!dispatch(&mut world).iter().any(|step| step == RECONFIGURE));
    }
    assert_eq!(world.keys.auth, Some(both()), "slurmctld does not have the keys of this phase");
}

#[test]
fn killed_before_any_step_a_phase_comes_all_the_same() {
    for steps in 0..12 {
        let mut world = rotating();
        say(&mut world, Some(&["made", "new"]));
        let finished = world.dispatch_until(&|_, _| None, steps);
        for _ in 0..3 {
            dispatch(&mut world);
        }
        assert_eq!(world.keys.auth.as_ref().unwrap().ids(), ["new", "made"], "{steps}");
        if finished {
            return;
        }
    }
    panic!("more steps than expected");
}
