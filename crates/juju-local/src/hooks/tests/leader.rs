//! Settings of the leader, which only 3.6 has: who may write them, and who hears of it.

use std::collections::BTreeMap;

use crate::charm::Role;
use crate::clock::Moment;
use crate::hooks::begin;
use crate::hooks::world::{World, endpoint, unit};
use crate::model::{Release, Running};
use crate::tools::{self, Reply, Scene};

/// Two units of `client`, started and quiet.
fn two(release: Release) -> World {
    let mut world = World::new(release);
    world.deploy("client", &[endpoint("mates", Role::Peer)], 2);
    world.run();
    world.ran.clear();
    world
}

/// Runs a tool as `juju-exec` would.
fn tool(world: &mut World, name: &str, words: &str) -> Reply {
    let name = unit(name);
    let mut context = begin(&mut world.model, &name, &Running::Commands, Moment::now()).unwrap();
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let mut scene =
        Scene { model: &mut world.model, context: &mut context, files: &BTreeMap::new(), log: &mut Vec::new() };
    let reply = tools::run(&mut scene, &words[0], &words[1..]);
    world.model.units.get_mut(&name).unwrap().uniter.running = None;
    reply
}

#[test]
fn what_the_leader_sets_the_others_are_told_and_can_read() {
    let mut world = two(Release::V3);
    assert_eq!(tool(&mut world, "client/0", "leader-set colour=red size=").code, 0);
    world.run();
    assert_eq!(world.ran, ["client/1 leader-settings-changed"]);
    assert_eq!(tool(&mut world, "client/1", "leader-get colour").stdout, "red\n");
    assert_eq!(tool(&mut world, "client/1", "leader-get --format=json").stdout, "{\"colour\":\"red\"}\n");
    assert_eq!(tool(&mut world, "client/1", "leader-get size").stdout, "");
}

#[test]
fn what_stays_the_same_is_not_told() {
    let mut world = two(Release::V3);
    tool(&mut world, "client/0", "leader-set colour=red");
    world.run();
    world.ran.clear();
    tool(&mut world, "client/0", "leader-set colour=red");
    world.run();
    assert!(world.ran.is_empty(), "{:?}", world.ran);
}

#[test]
fn only_the_leader_may_write() {
    let mut world = two(Release::V3);
    let reply = tool(&mut world, "client/1", "leader-set colour=red");
    assert_eq!(reply.code, 1);
    assert_eq!(reply.stderr, "ERROR cannot write leadership settings: cannot write settings: not the leader\n");
}

#[test]
fn the_newer_line_has_no_such_tool() {
    let mut world = two(Release::V4);
    assert_eq!(tool(&mut world, "client/0", "leader-get").stderr, "ERROR bad request: unknown command: leader-get\n");
}
