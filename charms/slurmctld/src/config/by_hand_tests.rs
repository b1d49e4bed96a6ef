//! The default partition, and what an administrator writes into slurm.conf.

use super::files::Files;
use super::rejection_tests::objecting;
use super::rollout::tests::candidate;
use crate::daemon::Daemon;
use crate::plan::situations::{World, job, wants};
use crate::plan::tests::{check, live};

const NOTHING: [&str; 0] = [];

#[test]
fn the_only_partition_is_the_default_until_somebody_chooses() {
    let default = |world: &World| {
        let defaults = world.live.slurm.as_ref().unwrap().lines().filter(|line| line.contains("Default=YES"));
        defaults.map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let world = World::serving().with_compute("compute", "").settled();
    assert_eq!(default(&world), ["PartitionName=compute"]);
    // The first stays it when others come, and nothing is reconfigured for that.
    let mut world = world.with_compute("gpu", "").settled();
    assert_eq!(default(&world), ["PartitionName=compute"]);
    check(world.clone(), &[]);
    // An application says so.
    world.computes[1].data = wants("gpu", "Default=YES");
    let mut world = world.settled();
    assert_eq!(default(&world), ["PartitionName=gpu"]);
    // The option outweighs it, and what it outweighs comes back.
    world.options.default_partition = "compute".to_owned();
    let mut world = world.settled();
    assert_eq!(default(&world), ["PartitionName=compute"]);
    world.options.default_partition = String::new();
    let mut world = world.settled();
    assert_eq!(default(&world), ["PartitionName=gpu"]);
    world.computes[1].data = wants("gpu", "");
    let mut world = world.settled();
    assert_eq!(default(&world), ["PartitionName=compute"]);
    // Once its application leaves, another one is it.
    world.computes.remove(0);
    world.jobs.push(job(7, "compute", "RUNNING", "compute-0", ""));
    assert_eq!(default(&world.settled()), ["PartitionName=gpu"]);
}

#[test]
fn a_partition_in_another_order_is_the_same() {
    for default in ["", " Default=YES"] {
        let mut world =
            World::serving().with_compute("compute", &format!("PriorityTier=10 MaxTime=60{default}")).settled();
        world.computes[0].data = wants("compute", &format!("MaxTime=60{default} PriorityTier=10"));
        check(world, &[]);
    }
}

#[test]
fn an_administrators_own_default_partition_stays() {
    let mut world = World::serving();
    world.live.slurm.as_mut().unwrap().push_str("PartitionName=own Nodes=ALL Default=YES\n");
    let world = world.settled().with_compute("compute", "").settled();
    let text = world.live.slurm.unwrap();
    assert!(text.contains("PartitionName=own Nodes=ALL Default=YES\n"), "{text}");
    assert_eq!(text.matches(" Default=").count(), 1, "{text}");
}

#[test]
fn an_application_that_does_not_want_to_be_the_default_is_not() {
    let world = World::serving().with_compute("compute", "Default=NO").settled();
    assert!(!world.live.slurm.unwrap().contains("Default=YES"));
}

#[test]
fn a_hand_edited_file_is_loaded_and_kept() {
    let mut world = World::serving();
    let mut text = world.live.slurm.clone().unwrap();
    text.push_str("# ours\nSlurmdTimeout=60\n");
    world.live.slurm = Some(text.clone());
    world.live.gres = Some("Name=gpu File=/dev/null\n".to_owned());
    assert_eq!(world.steps(), ["note what was set at runtime", "reconfigure slurmctld"]);
    let world = world.with_compute("compute", "").settled();
    assert!(world.accepted.slurm.unwrap().starts_with(&text));
    assert_eq!(world.accepted.gres.as_deref(), Some("Name=gpu File=/dev/null\n"));
}

#[test]
fn a_hand_edited_file_is_proven_before_anything_is_built_on_it() {
    let mut world = World::serving().with_compute("compute", "");
    world.live.slurm.as_mut().unwrap().push_str("BogusKey=1\n");
    assert_eq!(world.steps(), ["note what was set at runtime", "reconfigure slurmctld"]);
    // Beside a file that the parser cannot read, the daemon looks as if it did not answer.
    world.daemon = Daemon::Silent { reason: None };
    world.unparsable = true;
    assert_eq!(world.steps(), ["reconfigure slurmctld"]);
    // Nobody can be asked what a reconfigure would take away.
    world.unparsable = false;
    assert_eq!(world.steps(), NOTHING);
    // What Slurm refuses of it goes, and what came from elsewhere goes on.
    world.daemon = Daemon::Answering;
    let world = world.settled_where(&objecting("BogusKey", false));
    assert_eq!(live(&world).get("BogusKey"), None);
    assert!(live(&world).partition("compute").is_some());
}

#[test]
fn a_line_behind_the_parameters_outlives_an_option_that_is_refused() {
    let mut world = World::serving().with_compute("compute", "");
    world.options.parameters = "KillWait=40".to_owned();
    let mut world = world.settled();
    world.live.slurm.as_mut().unwrap().push_str("BatchStartTimeout=76\n");
    assert_eq!(world.steps(), ["note what was set at runtime", "reconfigure slurmctld"]);
    world.options.parameters = "BogusKey=1".to_owned();
    let mut world = world.settled_where(&objecting("BogusKey", true));
    assert_eq!(live(&world).get("BatchStartTimeout"), Some("76"));
    assert_eq!(live(&world).get("KillWait"), Some("40"));
    world.options.parameters = "KillWait=50".to_owned();
    let world = world.settled();
    assert_eq!((live(&world).get("BatchStartTimeout"), live(&world).get("KillWait")), (Some("76"), Some("50")));
}

#[test]
fn a_hand_edited_file_that_leads_to_a_refusal_goes() {
    let mut world = World::serving();
    let accepted = world.accepted.slurm.clone();
    let text = accepted.clone().unwrap().replace("AuthType=auth/slurm", "AuthType=auth/munge") + "BogusKey=1\n";
    world.live.slurm = Some(text);
    let repaired = candidate(&world);
    let repaired = repaired.slurm.as_ref().unwrap();
    assert!(repaired.contains("AuthType=auth/slurm") && repaired.contains("BogusKey"));
    assert_eq!(world.settled_where(&objecting("BogusKey", true)).live.slurm, accepted);
}

#[test]
fn an_owned_key_that_was_changed_by_hand_is_put_right() {
    let mut world = World::serving();
    let text = world.live.slurm.clone().unwrap();
    let text =
        text.replace("AuthType=auth/slurm", "AuthType=auth/munge").replace("enable_configless", "idle_on_node_suspend");
    world.live.slurm = Some(text.replace("MaxNodeCount=65533\n", ""));
    let world = world.settled();
    assert_eq!(live(&world).get("AuthType"), Some("auth/slurm"));
    assert_eq!(live(&world).get("MaxNodeCount"), Some("65533"));
    assert_eq!(live(&world).get("SlurmctldParameters"), Some("idle_on_node_suspend,enable_configless"));
}

#[test]
fn a_file_nobody_can_read_is_replaced_by_the_accepted_one() {
    let mut world = World::serving();
    let accepted = world.accepted.clone();
    world.live.slurm = Some("this is no configuration\n".to_owned());
    assert_eq!(world.settled().live, accepted);
}

#[test]
fn lost_files_come_back_with_the_name_of_the_cluster() {
    let world = World::serving().with_compute("compute", "").settled();
    let accepted = world.accepted.clone();
    for lost in 0..2 {
        let mut world = world.clone();
        world.live = Files::default();
        if lost == 1 {
            world.accepted = Files::default();
        }
        world.suffix = "zzzz".to_owned();
        world.daemon = Daemon::Stopped;
        assert_eq!(world.settled().live, accepted, "{lost}");
    }
}
