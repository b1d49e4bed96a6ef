//! Storage: how many a unit gets, and what `storage-add` adds when the hook has succeeded.

use crate::charm::StorageDefinition;
use crate::hooks::world::World;
use crate::hooks::world::unit;
use crate::model::{Hook, Release};

/// One unit of `keeper`, whose charm declares `data` with a range of `0-2`; so many of it were asked for.
fn keeper(asked: Option<u32>) -> World {
    let mut world = World::new(Release::V4);
    world.deploy("keeper", &[], 0);
    let data = StorageDefinition {
        name: "data".to_owned(),
        location: String::new(),
        read_only: false,
        least: 0,
        most: Some(2),
    };
    world.model.charms.get_mut("local:keeper-0").unwrap().metadata.storage.push(data);
    let application = world.model.applications.get_mut("keeper").unwrap();
    application.storage.extend(asked.map(|count| ("data".to_owned(), count)));
    add_unit(&mut world, 0);
    world
}

fn add_unit(world: &mut World, number: u32) {
    world.add_unit("keeper", number);
    world.model.attach_storage(&unit(&format!("keeper/{number}")));
    world.run();
}

#[test]
fn every_unit_gets_as_many_as_were_asked_for() {
    let mut world = keeper(Some(2));
    add_unit(&mut world, 1);
    for name in ["keeper/0", "keeper/1"] {
        assert_eq!(world.hooks_of(name)[..3], ["data-storage-attached", "data-storage-attached", "install"]);
    }
    assert!(!keeper(None).ran.iter().any(|line| line.contains("storage")));
}

#[test]
fn what_a_hook_adds_is_attached_when_it_has_succeeded() {
    let mut world = keeper(None);
    world.ran.clear();
    world.dispatch(&unit("keeper/0"), &Hook::ConfigChanged, |context| {
        context.storage_adds.insert("data".to_owned(), 2);
    });
    assert_eq!(world.model.storage.len(), 2);
    world.run();
    assert_eq!(world.hooks_of("keeper/0"), ["config-changed", "data-storage-attached", "data-storage-attached"]);
}

#[test]
fn more_than_the_charm_allows_fails_the_hook_and_adds_nothing() {
    for (name, count) in [("data", 3), ("nosuch", 1)] {
        let mut world = keeper(None);
        world.dispatch(&unit("keeper/0"), &Hook::ConfigChanged, |context| {
            context.storage_adds.insert(name.to_owned(), count);
            context.state_changes.insert("kept".to_owned(), Some("1".to_owned()));
        });
        let unit = &world.model.units[&unit("keeper/0")];
        assert!(unit.uniter.failure.is_some() && unit.state.is_empty(), "{name}");
        assert!(world.model.storage.is_empty(), "{name}");
    }
}
