//! What Slurm refuses, and that it costs nothing but itself.

use crate::config::rollout::tests::{reasons, served};
use crate::daemon::Daemon;
use crate::plan::situations::{World, wants};
use crate::plan::tests::live;

/// Slurm that objects to a word, either its parser or slurmctld.
pub(crate) fn objecting(word: &'static str, by_parser: bool) -> impl Fn(&str, bool) -> Option<&'static str> {
    move |text, parser| (parser == by_parser && text.contains(word)).then_some("no such thing")
}

#[test]
fn a_wrong_partition_costs_its_own_application_only() {
    for by_parser in [true, false] {
        let world = World::serving().with_compute("a", "").with_compute("bad", "QOS=bogus").with_compute("c", "");
        let world = world.settled_where(&objecting("bogus", by_parser));
        assert_eq!(reasons(&world), ["partition bad: no such thing"]);
        assert_eq!(served(&world), ["a".to_owned(), "c".to_owned()].into());
        assert!(!world.computes[0].published.is_empty() && world.computes[1].published.is_empty());
        assert_eq!(world.live, world.accepted);
        assert!(!world.retry_timer);
    }
}

#[test]
fn a_partition_that_becomes_wrong_goes_on_as_it_was() {
    let mut world = World::serving().with_compute("a", "MaxTime=60").settled();
    world.computes[0].data = wants("a", "QOS=bogus");
    let world = world.settled_where(&objecting("bogus", false));
    assert_eq!(live(&world).partition("a").unwrap().get("MaxTime"), Some("60"));
    assert_eq!(reasons(&world), ["partition a: no such thing"]);
    // And is tried again when it, or what it depends on, is another.
    let mut again = world.clone();
    again.options.parameters = "KillWait=60".to_owned();
    let again = again.settled();
    assert_eq!(live(&again).partition("a").unwrap().get("QOS"), Some("bogus"));
    let mut mended = world;
    mended.computes[0].data = wants("a", "MaxTime=30");
    assert_eq!(live(&mended.settled()).partition("a").unwrap().get("MaxTime"), Some("30"));
}

#[test]
fn wrong_parameters_cost_nothing_but_themselves() {
    for by_parser in [true, false] {
        // Already when the cluster is made.
        let mut world = World::fresh().with_compute("a", "");
        world.options.parameters = "SchedulerType=sched/bogus".to_owned();
        let world = world.settled_where(&objecting("bogus", by_parser));
        assert_eq!(reasons(&world), ["option slurm-conf-parameters: no such thing"]);
        assert_eq!(served(&world), ["a".to_owned()].into());
        // And later, with another change beside them and one wrong partition.
        let mut world = world.with_compute("b", "").with_compute("worse", "QOS=bogus");
        world.options.parameters = "SchedulerType=sched/bogus2".to_owned();
        let world = world.settled_where(&objecting("bogus", by_parser));
        assert_eq!(reasons(&world), ["option slurm-conf-parameters: no such thing", "partition worse: no such thing"],);
        assert_eq!(served(&world), ["a".to_owned(), "b".to_owned()].into());
    }
}

#[test]
fn parameters_that_slurmctld_does_not_start_with_are_left_out_of_a_new_cluster() {
    let mut world = World::fresh();
    world.options.parameters = "SchedulerType=sched/bogus".to_owned();
    // All in one dispatch: files that were put back are worth another start.
    world.dispatch(&objecting("bogus", false));
    assert_eq!(reasons(&world), ["option slurm-conf-parameters: no such thing"]);
    assert_eq!(live(&world).get("SchedulerType"), None);
    assert_eq!(world.daemon, Daemon::Answering);
}

#[test]
fn several_wrong_partitions_are_all_found() {
    let mut world = World::serving();
    for name in ["a", "b", "c", "d", "e"] {
        world = world.with_compute(name, if matches!(name, "b" | "d") { "QOS=bogus" } else { "" });
    }
    let world = world.settled_where(&objecting("bogus", false));
    assert_eq!(reasons(&world).len(), 2);
    assert_eq!(served(&world).len(), 3);
}

#[test]
fn a_wrong_one_among_many_partitions_is_found_in_one_dispatch() {
    let mut world = World::serving();
    for number in 0..20 {
        world = world.with_compute(&format!("p{number}"), if number == 7 { "QOS=bogus" } else { "" });
    }
    world.dispatch(&objecting("bogus", false));
    assert_eq!(reasons(&world), ["partition p7: no such thing"]);
    assert_eq!(served(&world).len(), 19);
    // Files that were accepted before are not kept a second time after a refusal.
    let kept = world.taken.iter().filter(|step| step.starts_with("keep the accepted")).count();
    assert!(kept <= 20, "{kept}");
}

#[test]
fn another_slurm_gets_another_try() {
    let world = World::serving().with_compute("a", "QOS=bogus").settled_where(&objecting("bogus", true));
    assert!(served(&world).is_empty());
    let mut world = world;
    world.installation.version = Some("26.05.5".parse().unwrap());
    assert!(served(&world.settled()).contains("a"));
}
