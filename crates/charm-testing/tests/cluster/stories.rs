//! What operators do, and what machines and Juju do to them.

use crate::world::{AUTH_SECRET, CONF, KEY_FILE, World};

#[test]
fn two_applications_that_are_integrated_become_a_cluster() {
    let world = World::new();
    world.model.settle();
    assert_eq!(world.status("compute/0"), "blocked: no controller: `juju integrate compute slurmctld`");
    let (relation, _) = world.integrate();
    let ran = world.model.settle();
    assert!(ran.iter().all(|one| one.done.succeeded));
    assert_eq!(world.slurm.nodes()["compute-0"], "IDLE+DYNAMIC_NORM");
    assert_eq!(world.status("slurmctld/0"), "active: primary - UP");
    assert_eq!(world.status("compute/0"), "active: idle, partition compute");
    assert_eq!(world.model.grants(&world.controllers, AUTH_SECRET), [relation.number()]);
    let key = world.machine("slurmctld/0").read(KEY_FILE);
    assert!(key.is_some() && world.machine("compute/0").read(KEY_FILE) == key);
    let conf = world.machine("slurmctld/0").read(CONF).unwrap();
    assert!(conf.contains("PartitionName=compute ") && conf.contains("NodeSet=compute "), "{conf}");
    world.assert_rest();
}

#[test]
fn another_partition_config_reaches_slurmctld() {
    let (world, ..) = World::at_rest();
    world.model.set_option(&world.computes, "partition-config", "MaxTime=60".into()).unwrap();
    world.model.settle();
    assert!(world.machine("slurmctld/0").partitions()[0].contains("maxtime=60"));
    // It would also be there after a takeover.
    world.machine("slurmctld/0").crash("slurmctld.service");
    assert!(world.machine("slurmctld/0").take_over());
    assert!(world.machine("slurmctld/0").partitions()[0].contains("maxtime=60"));
    assert!(world.machine("compute/0").read("/run/slurm/conf/slurm.conf").unwrap().contains("MaxTime=60"));
}

#[test]
fn another_unit_is_another_node_and_changes_nothing_for_the_controller() {
    let (mut world, ..) = World::at_rest();
    let job = world.job("compute-0");
    let before = world.machine("slurmctld/0").read(CONF);
    world.machine("slurmctld/0").take_calls();
    world.add_unit(&world.computes.clone());
    world.model.settle();
    let nodes = world.slurm.nodes();
    assert_eq!((nodes["compute-0"].as_str(), nodes["compute-1"].as_str()), ("MIXED+DYNAMIC_NORM", "IDLE+DYNAMIC_NORM"));
    assert_eq!(world.status("compute/1"), "active: idle, partition compute");
    let calls = world.machine("slurmctld/0").take_calls();
    assert!(!calls.iter().any(|call| call.contains("reconfigure") || call.contains("restart")), "{calls:#?}");
    assert_eq!(world.machine("slurmctld/0").read(CONF), before);
    assert_eq!(world.slurm.jobs(), [job]);
    world.assert_rest();
}

#[test]
fn a_relation_made_again_about_which_juju_tells_nothing_heals_by_timers() {
    let (world, theirs, _) = World::at_rest();
    let job = world.job("compute-0");
    world.model.remove_relation(&theirs);
    world.model.run_hooks();
    let (theirs, ours) = world.integrate();
    world.model.lose_news(&"slurmctld/0".parse().unwrap(), &theirs).unwrap();
    world.model.lose_news(&"compute/0".parse().unwrap(), &ours).unwrap();
    world.model.run_hooks();
    for _ in 0..6 {
        world.model.tick();
    }
    assert_eq!(world.status("slurmctld/0"), "active: primary - UP");
    assert_eq!(world.status("compute/0"), "active: mixed, partition compute");
    assert_eq!(world.model.grants(&world.controllers, AUTH_SECRET), [theirs.number()]);
    assert_eq!((world.slurm.jobs(), world.slurm.losses()), (vec![job], vec![]));
    // The agents start anew and hear again, and nobody waits for anything.
    for unit in ["slurmctld/0", "compute/0"] {
        world.model.restart_agent(&unit.parse().unwrap()).unwrap();
    }
    world.model.settle();
    world.assert_rest();
}

#[test]
fn a_controller_that_crashes_right_after_a_join_gets_its_node_back() {
    let begin = || {
        let world = World::new();
        world.model.settle();
        world.integrate();
        world.model.knife().kill_before(usize::MAX);
        world
    };
    let calm = begin();
    calm.model.settle();
    let effects = calm.model.knife().effects();
    let saved = effects.iter().position(|effect| effect.contains("nodename=compute-0 comment=")).unwrap();
    // Up to the moment in which slurmd has registered and nobody has said a word about it.
    let world = begin();
    world.model.knife().kill_before(saved);
    while !world.model.run_round().unwrap().iter().any(|one| one.done.killed) {}
    assert!(world.slurm.nodes().contains_key("compute-0"));
    world.model.reboot(&"slurmctld/0".parse().unwrap());
    assert!(world.machine("slurmctld/0").is_running("slurmctld.service") && world.slurm.nodes().is_empty());
    world.model.settle();
    assert_eq!(world.slurm.nodes()["compute-0"], "IDLE+DYNAMIC_NORM");
    assert_eq!(world.status("compute/0"), "active: idle, partition compute");
    world.assert_rest();
}
