//! Packages: what is installed, held and told, and what stands in the way.

use super::situations::World;
use super::tests::check;
use crate::condition::Condition;
use crate::daemon::Daemon;
use crate::names;
use crate::step::Step;
use slurm_ops::packages::Obstacle;
use slurm_ops::source::Source;
use slurm_unit::install::{InstallCondition, InstallStep};

fn too_old() -> Obstacle {
    Obstacle::TooOld { package: "slurmctld".to_owned(), found: "23.11.4".to_owned() }
}

#[test]
fn a_slurm_that_is_too_old_is_replaced_unless_it_runs() {
    let mut world = World::fresh();
    world.installation.unfit = Some(too_old());
    assert_eq!(world.steps(), ["install slurmctld"]);
    world.daemon = Daemon::Silent { reason: None };
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, [""; 0]);
    assert_eq!(world.conditions, [Condition::Install(InstallCondition::InUse(too_old()))]);
}

#[test]
fn packages_that_cannot_be_held_now_are_held_later() {
    let mut world = World::serving();
    world.installation.held = false;
    world.apt = Some(Obstacle::Passing("busy".to_owned()));
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, ["hold the packages of Slurm"]);
    assert!(world.retry_timer);
    assert_eq!(world.reported(), "active: primary - UP");
}

#[test]
fn a_slurm_without_the_plugin_for_tokens_goes_without_tokens() {
    let mut world = World::fresh();
    world.host.plugins.remove(names::TOKEN_PLUGIN);
    let mut world = world.settled();
    let text = world.live.slurm.clone().unwrap();
    assert!(text.contains("AuthType=auth/slurm") && !text.contains("AuthAlt"), "{text}");
    // It comes later, and goes again.
    for takes_tokens in [true, false] {
        if takes_tokens {
            world.host.plugins.insert(names::TOKEN_PLUGIN.to_owned());
        } else {
            world.host.plugins.remove(names::TOKEN_PLUGIN);
        }
        world = world.settled();
        let text = world.live.slurm.as_deref().unwrap();
        assert_eq!(text.matches("AuthAlt").count(), if takes_tokens { 2 } else { 0 }, "{text}");
    }
}

#[test]
fn a_source_that_cannot_be_used_holds_the_installation_back() {
    let mut world = World::fresh();
    world.options.source = "ppa:no".to_owned();
    assert_eq!(world.steps(), [""; 0]);
    world.options.source = "ppa:owner/name".to_owned();
    assert!(matches!(world.first_plan().as_slice(), [Step::Install(InstallStep::Install(Source::Ppa(_)))]));
}

#[test]
fn an_installation_that_failed_is_tried_again_if_that_may_help() {
    let mut world = World::fresh();
    for (problem, again) in [
        (Obstacle::Failed("no network".to_owned()), true),
        (Obstacle::Unknown { package: "slurmctld".to_owned() }, false),
    ] {
        world.apt = Some(problem);
        world.dispatch(&|_, _| None);
        assert_eq!((world.taken.as_slice(), world.retry_timer), (&["install slurmctld".to_owned()][..], again));
    }
}

#[test]
fn with_slurm_installed_nothing_is_done_with_its_source() {
    let mut world = World::serving();
    world.options.source = "nonsense".to_owned();
    check(world.clone(), &[]);
    assert!(world.shown().starts_with("blocked: option slurm-source"));
    world.options.source = "ppa:owner/name".to_owned();
    assert_eq!(world.shown(), "active: primary - UP");
    check(world, &[]);
}
