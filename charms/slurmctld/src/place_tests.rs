//! Where a state is found, with markers and links in every combination that a move can leave.

use super::*;
use crate::plan::situations::World;

const SHARED: &str = names::SHARED_CONFIGURATION;

fn place(world: &World) -> Place {
    let mut facts = Facts::default();
    loop {
        match Place::find(&facts) {
            Ok(place) => return place,
            Err(ask) => ask.into_questions().into_iter().for_each(|question| facts.learn(world.look(question))),
        }
    }
}

fn of(note: &str) -> StateDirectory {
    StateDirectory::Of(note.to_owned())
}

#[test]
fn the_place_follows_from_the_marker_and_the_link() {
    let mounted = StoreMount::Mounted { read_only: false };
    let gone = StateDirectory::Absent;
    let silent = StateDirectory::Unreadable("no answer".to_owned());
    let ours = World::fresh().note();
    // (what is aside, what is mounted, what is there, where the configuration is, the option)
    let cases = [
        ("a new cluster", &gone, StoreMount::Nothing, &gone, None, false, Place::Checkpoint),
        ("a new one on a store", &gone, StoreMount::Nothing, &gone, None, true, Place::Store),
        ("on the local disk", &gone, StoreMount::Nothing, &of(&ours), None, true, Place::Checkpoint),
        ("aside", &of(&ours), StoreMount::Nothing, &gone, None, true, Place::Aside),
        ("aside, and the option was taken back", &of(&ours), StoreMount::Nothing, &gone, None, false, Place::Aside),
        ("aside, beside a store", &of(&ours), mounted.clone(), &gone, None, true, Place::Aside),
        ("a copy on the store does not count", &of(&ours), mounted.clone(), &of(&ours), None, true, Place::Aside),
        ("on a store", &gone, mounted.clone(), &of(&ours), Some(SHARED), true, Place::Store),
        ("on a store, and is to leave it", &gone, mounted.clone(), &of(&ours), Some(SHARED), false, Place::Store),
        ("on a store that is away", &gone, StoreMount::Nothing, &gone, Some(SHARED), true, Place::Store),
        ("has left the store", &of(&ours), mounted.clone(), &gone, Some(SHARED), false, Place::Aside),
        (
            "has left the store, which is silent",
            &of(&ours),
            mounted.clone(),
            &silent,
            Some(SHARED),
            false,
            Place::Aside,
        ),
        ("a state aside that nobody uses", &of(&ours), mounted.clone(), &of(&ours), Some(SHARED), true, Place::Store),
    ];
    for (name, aside, mount, state, link, option, expected) in cases {
        let mut world = World::fresh();
        (world.aside.state, world.store.mount, world.store.state) = (aside.clone(), mount, state.clone());
        (world.link, world.options.network_state) = (link.map(str::to_owned), option);
        assert_eq!(place(&world), expected, "{name}");
    }
}

#[test]
fn a_cluster_that_has_moved_to_the_store_is_there_whatever_the_option_says() {
    let mut world = World::fresh();
    world.aside.moved = vec!["lab another/model".to_owned()];
    assert_eq!(place(&world), Place::Checkpoint, "that was another cluster");
    world.aside.moved.push(world.note());
    assert_eq!(place(&world), Place::Store);
}
