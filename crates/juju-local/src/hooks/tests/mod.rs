//! What runs when: the order of hooks, leaving in both lines of Juju, failures, commits. All in memory.

mod forced;
mod leader;
mod storage;

use super::world::{World, endpoint, unit};
use super::{PendingSecret, lost, next};
use crate::charm::Role;
use crate::clock::Moment;
use crate::model::{Force, Hook, Life, Release, Running, Status};
use std::collections::BTreeMap;

const START: [&str; 5] = ["install", "mates-relation-created", "leader-elected", "config-changed", "start"];

#[test]
fn a_unit_starts_in_jujus_order() {
    let mut world = World::new(Release::V4);
    world.deploy("client", &[endpoint("mates", Role::Peer)], 1);
    world.run();
    assert_eq!(world.hooks_of("client/0"), START);
}

#[test]
fn a_unit_that_does_not_lead_hears_nothing_of_leadership_in_4() {
    let mut world = World::new(Release::V4);
    world.deploy("client", &[endpoint("mates", Role::Peer)], 2);
    world.run();
    assert!(!world.hooks_of("client/1").iter().any(|hook| hook.contains("leader")), "{:?}", world.ran);
}

#[test]
fn a_unit_that_does_not_lead_gets_settings_changed_in_3() {
    let mut world = World::new(Release::V3);
    world.deploy("client", &[endpoint("mates", Role::Peer)], 2);
    world.run();
    assert_eq!(
        world.hooks_of("client/1")[..5],
        ["install", "mates-relation-created", "leader-settings-changed", "config-changed", "start"]
    );
}

#[test]
fn joined_is_followed_by_changed_for_the_same_unit() {
    let mut world = World::new(Release::V4);
    world.deploy("server", &[endpoint("link", Role::Provider)], 1);
    world.deploy("client", &[endpoint("link", Role::Requirer)], 2);
    world.run();
    world.ran.clear();
    world.integrate();
    world.run();
    assert_eq!(
        world.hooks_of("server/0"),
        [
            "link-relation-created",
            "link-relation-joined client/0",
            "link-relation-changed client/0",
            "link-relation-joined client/1",
            "link-relation-changed client/1",
        ]
    );
}

fn set(values: &[(&str, &str)]) -> BTreeMap<String, Option<String>> {
    values.iter().map(|(key, value)| ((*key).to_owned(), (!value.is_empty()).then(|| (*value).to_owned()))).collect()
}

#[test]
fn one_commit_of_both_bags_is_two_hooks_application_first() {
    let mut world = World::related(Release::V4, 1);
    world.dispatch(&unit("server/0"), &Hook::UpdateStatus, |context| {
        context.unit_changes.insert(1, set(&[("a", "1")]));
        context.application_changes.insert(1, set(&[("x", "1")]));
    });
    world.run();
    assert_eq!(world.hooks_of("client/0"), ["link-relation-changed", "link-relation-changed server/0"]);
}

#[test]
fn a_bag_set_to_what_it_is_tells_nobody() {
    let mut world = World::related(Release::V4, 1);
    let write = |world: &mut World, value: &str| {
        world.dispatch(&unit("server/0"), &Hook::UpdateStatus, |context| {
            context.unit_changes.insert(1, set(&[("a", value)]));
        });
        world.run();
    };
    write(&mut world, "1");
    write(&mut world, "1");
    assert_eq!(world.hooks_of("client/0"), ["link-relation-changed server/0"]);
}

#[test]
fn the_own_application_bag_of_a_peer_relation_tells_the_writer_too() {
    let mut world = World::related(Release::V4, 2);
    world.dispatch(&unit("client/0"), &Hook::UpdateStatus, |context| {
        context.application_changes.insert(0, set(&[("x", "1")]));
    });
    world.ran.clear();
    world.run();
    assert_eq!(world.hooks_of("client/0"), ["mates-relation-changed"]);
    assert_eq!(world.hooks_of("client/1"), ["mates-relation-changed"]);
}

const LEAVE: [&str; 5] = [
    "link-relation-departed server/0 departing=client/1",
    "link-relation-broken",
    "mates-relation-departed client/0 departing=client/1",
    "stop",
    "remove",
];

#[test]
fn a_leaver_runs_the_same_hooks_in_both_lines() {
    for release in [Release::V3, Release::V4] {
        let mut world = World::related(release, 2);
        world.model.remove_unit(&unit("client/1"), Force::No);
        world.remove_what_is_done();
        assert_eq!(world.hooks_of("client/1"), LEAVE);
        assert!(!world.model.units.contains_key(&unit("client/1")));
    }
}

#[test]
fn in_4_the_others_hear_of_a_leaver_when_it_has_left_and_peers_never_do() {
    let mut world = World::related(Release::V4, 2);
    world.model.remove_unit(&unit("client/1"), Force::No);
    world.hold("client/1");
    world.run();
    assert!(world.ran.is_empty(), "{:?}", world.ran);
    world.release();
    world.remove_what_is_done();
    assert_eq!(world.hooks_of("server/0"), ["link-relation-departed client/1 departing=client/1"]);
    assert!(world.hooks_of("client/0").is_empty());
}

#[test]
fn in_3_everybody_hears_of_a_leaver_at_once() {
    let mut world = World::related(Release::V3, 2);
    world.model.remove_unit(&unit("client/1"), Force::No);
    world.hold("client/1");
    world.run();
    assert_eq!(world.hooks_of("server/0"), ["link-relation-departed client/1 departing=client/1"]);
    assert_eq!(world.hooks_of("client/0"), ["mates-relation-departed client/1 departing=client/1"]);
}

#[test]
fn a_peer_that_starts_anew_learns_what_it_missed() {
    let mut world = World::related(Release::V4, 2);
    world.model.remove_unit(&unit("client/1"), Force::No);
    world.remove_what_is_done();
    assert!(world.model.units[&unit("client/0")].uniter.relations[&0].units_seen.contains_key(&unit("client/1")));
    world.restart_agent("client/0");
    world.run();
    assert_eq!(world.hooks_of("client/0"), ["mates-relation-departed client/1 departing=client/1"]);
}

#[test]
fn a_leaver_whose_agent_started_anew_breaks_its_peer_relation() {
    let mut world = World::related(Release::V4, 2);
    world.restart_agent("client/1");
    world.model.remove_unit(&unit("client/1"), Force::No);
    world.remove_what_is_done();
    assert!(world.hooks_of("client/1").contains(&"mates-relation-broken"), "{:?}", world.ran);
    assert_eq!(world.hooks_of("client/0"), ["mates-relation-departed client/1 departing=client/1"]);
}

#[test]
fn a_removed_relation_is_broken_on_both_sides_each_on_its_own() {
    for release in [Release::V3, Release::V4] {
        let mut world = World::related(release, 1);
        world.model.remove_relation(1, Force::No);
        world.hold("client/0");
        world.run();
        assert_eq!(
            world.hooks_of("server/0"),
            ["link-relation-departed client/0 departing=client/0", "link-relation-broken"]
        );
        world.release();
        world.remove_what_is_done();
        assert_eq!(
            world.hooks_of("client/0"),
            ["link-relation-departed server/0 departing=server/0", "link-relation-broken"]
        );
        assert!(!world.model.relations.contains_key(&1));
    }
}

#[test]
fn a_relation_made_again_is_only_created_in_4_until_the_agent_starts_anew() {
    let mut world = World::related(Release::V4, 1);
    world.model.remove_relation(1, Force::No);
    world.remove_what_is_done();
    world.ran.clear();
    world.integrate();
    world.run();
    assert_eq!(world.hooks_of("client/0"), ["link-relation-created"]);
    world.restart_agent("client/0");
    world.run();
    assert_eq!(world.hooks_of("client/0")[1..], ["link-relation-joined server/0", "link-relation-changed server/0"]);
}

#[test]
fn a_relation_made_again_is_joined_in_3() {
    let mut world = World::related(Release::V3, 1);
    world.model.remove_relation(1, Force::No);
    world.remove_what_is_done();
    world.ran.clear();
    world.integrate();
    world.run();
    assert_eq!(
        world.hooks_of("client/0"),
        ["link-relation-created", "link-relation-joined server/0", "link-relation-changed server/0"]
    );
}

#[test]
fn a_removed_application_names_itself_and_breaks_the_other_side_at_once() {
    let mut world = World::related(Release::V4, 1);
    world.model.remove_application("client", Force::No);
    world.hold("client/0");
    world.run();
    assert_eq!(
        world.hooks_of("server/0"),
        ["link-relation-departed client/0 departing=client/0", "link-relation-broken"]
    );
    world.release();
    world.remove_what_is_done();
    assert_eq!(
        world.hooks_of("client/0"),
        ["link-relation-departed server/0 departing=client/0", "link-relation-broken", "stop", "remove"]
    );
    assert!(!world.model.applications.contains_key("client"));
}

#[test]
fn a_leaver_that_calls_itself_blocked_is_dropped_in_4_and_waited_for_in_3() {
    for (release, stays) in [(Release::V4, false), (Release::V3, true)] {
        let mut world = World::related(release, 1);
        world.model.remove_application("client", Force::No);
        world.hold("client/0");
        world.set_workload("client/0", Status::Blocked);
        world.remove_what_is_done();
        assert_eq!(world.model.units.contains_key(&unit("client/0")), stays, "{release:?}");
    }
}

#[test]
fn a_leaver_in_maintenance_is_waited_for() {
    for release in [Release::V3, Release::V4] {
        let mut world = World::related(release, 1);
        world.model.remove_application("client", Force::No);
        world.hold("client/0");
        world.set_workload("client/0", Status::Maintenance);
        world.remove_what_is_done();
        assert!(world.model.units.contains_key(&unit("client/0")), "{release:?}");
    }
}

#[test]
fn a_unit_without_scope_is_taken_away_in_4_whatever_it_runs() {
    for (release, stays) in [(Release::V4, false), (Release::V3, true)] {
        let mut world = World::new(release);
        world.deploy("lone", &[], 1);
        world.run();
        world.model.remove_unit(&unit("lone/0"), Force::No);
        world.hold("lone/0");
        world.remove_what_is_done();
        assert_eq!(world.model.units.contains_key(&unit("lone/0")), stays, "{release:?}");
    }
}

#[test]
fn force_takes_a_unit_away_and_tells_nobody() {
    let mut world = World::related(Release::V4, 2);
    world.model.remove_unit(&unit("client/1"), Force::Yes);
    world.hold("client/1");
    world.remove_what_is_done();
    assert!(!world.model.units.contains_key(&unit("client/1")));
    assert!(world.ran.is_empty(), "{:?}", world.ran);
}

#[test]
fn a_departed_can_be_lost_on_purpose() {
    let mut world = World::related(Release::V4, 2);
    world.model.losses.insert("departed".to_owned());
    world.model.remove_unit(&unit("client/1"), Force::No);
    world.remove_what_is_done();
    assert!(world.hooks_of("server/0").is_empty());
    world.restart_agent("server/0");
    world.run();
    assert_eq!(world.hooks_of("server/0"), ["link-relation-departed client/1 departing=client/1"]);
}

#[test]
fn a_machine_goes_with_its_last_unit() {
    let mut world = World::related(Release::V4, 2);
    let machine = world.model.units[&unit("client/1")].machine.clone();
    world.model.remove_unit(&unit("client/1"), Force::No);
    assert_eq!(world.model.machines[&machine].life, Life::Dying);
    world.remove_what_is_done();
    assert!(!world.model.machines.contains_key(&machine));
}

#[test]
fn a_hook_cut_off_by_the_death_of_its_agent_runs_again_from_the_top() {
    let mut world = World::new(Release::V4);
    world.deploy("lone", &[], 1);
    let name = unit("lone/0");
    super::begin(&mut world.model, &name, &Running::Hook(Hook::Install), Moment::now()).unwrap();
    lost(&mut world.model, &name, Moment::now());
    assert_eq!(next(&world.model, &world.model.units[&name], false, Moment::now()), None);
    let later = Moment::now().plus_millis(6_000);
    assert_eq!(next(&world.model, &world.model.units[&name], false, later), Some(Running::Hook(Hook::Install)));
}

fn add_secret(label: &str) -> PendingSecret {
    PendingSecret::Add {
        id: crate::model::new_secret_id().unwrap(),
        unit_owned: false,
        label: label.to_owned(),
        description: String::new(),
        content: BTreeMap::from([("token".to_owned(), "eA==".to_owned())]),
        expires: None,
        rotate: "never".to_owned(),
    }
}

#[test]
fn a_refused_secret_keeps_the_rest_of_the_commit_in_4_and_drops_it_in_3() {
    for (release, kept) in [(Release::V4, true), (Release::V3, false)] {
        let mut world = World::related(release, 1);
        world.dispatch(&unit("server/0"), &Hook::UpdateStatus, |context| context.secrets.push(add_secret("one")));
        world.dispatch(&unit("server/0"), &Hook::UpdateStatus, |context| {
            context.state_changes = set(&[("kept", "1")]);
            context.secrets.push(add_secret("one"));
        });
        let server = &world.model.units[&unit("server/0")];
        assert!(server.uniter.failure.is_some());
        assert_eq!(server.state.contains_key("kept"), kept, "{release:?}");
    }
}

#[test]
fn a_new_revision_tells_who_has_read_the_old_one() {
    let mut world = World::related(Release::V4, 1);
    world.dispatch(&unit("server/0"), &Hook::UpdateStatus, |context| context.secrets.push(add_secret("key")));
    let id = world.model.secrets.keys().next().unwrap().clone();
    let secret = world.model.secrets.get_mut(&id).unwrap();
    let consumer = secret.consumers.entry(unit("client/0")).or_default();
    (consumer.label, consumer.tracked, consumer.notified) = ("mine".to_owned(), 1, 1);
    let content = Some(BTreeMap::from([("token".to_owned(), "eQ==".to_owned())]));
    world.dispatch(&unit("server/0"), &Hook::UpdateStatus, |context| {
        let (label, description, expires, rotate) = (None, None, None, None);
        context.secrets.push(PendingSecret::Set { id: id.clone(), label, description, content, expires, rotate });
    });
    world.ran.clear();
    world.run();
    assert_eq!(world.ran, ["client/0 secret-changed"]);
}

#[test]
fn a_leader_that_leaves_leads_until_it_is_gone() {
    let mut world = World::related(Release::V4, 2);
    world.model.remove_unit(&unit("client/0"), Force::No);
    world.run();
    assert!(world.model.is_leader(&unit("client/0")));
    world.remove_what_is_done();
    assert!(!world.model.is_leader(&unit("client/0")));
}

#[test]
fn a_rebooted_machine_starts_its_units_again() {
    let mut world = World::related(Release::V4, 1);
    world.model.units.get_mut(&unit("client/0")).unwrap().uniter.rebooted = true;
    world.dispatch_next("client/0", |_| {});
    world.run();
    assert_eq!(world.hooks_of("client/0"), ["start"]);
}

#[test]
fn what_is_written_while_a_relation_hook_is_in_error_makes_another_one() {
    let mut world = World::related(Release::V4, 1);
    let write = |world: &mut World, value: &str| {
        world.dispatch(&unit("client/0"), &Hook::UpdateStatus, |context| {
            context.unit_changes.insert(1, set(&[("a", value)]));
        });
    };
    write(&mut world, "1");
    let name = unit("server/0");
    let Some(Running::Hook(hook)) = next(&world.model, &world.model.units[&name], false, Moment::now()) else {
        panic!()
    };
    super::begin(&mut world.model, &name, &Running::Hook(hook), Moment::now()).unwrap();
    lost(&mut world.model, &name, Moment::now());
    write(&mut world, "2");
    super::resolve(&mut world.model, &name, true, Moment::now());
    world.ran.clear();
    world.run();
    assert_eq!(world.hooks_of("server/0"), ["link-relation-changed client/0", "link-relation-changed client/0"]);
}

#[test]
fn commands_from_outside_wait_for_news_of_the_model_and_overtake_the_rest() {
    let mut world = World::related(Release::V4, 1);
    let name = unit("client/0");
    let next_with_commands = |world: &World| next(&world.model, &world.model.units[&name], true, Moment::now());
    assert_eq!(next_with_commands(&world), Some(Running::Commands));
    world.model.applications.get_mut("client").unwrap().config_version += 1;
    assert_eq!(next_with_commands(&world), Some(Running::Commands));
    world.model.units.get_mut(&name).unwrap().uniter.leader_seen = false;
    assert_eq!(next_with_commands(&world), Some(Running::Hook(Hook::LeaderElected)));
    world.model.remove_unit(&name, Force::No);
    assert_eq!(next_with_commands(&world), Some(Running::Commands));
}
