//! What a controller does with its configuration: what goes into it, who outweighs whom, and what becomes of what
//! Slurm refuses.

use super::Overrides;
use crate::condition::Condition;
use crate::config::files::{Config, Files, Included};
use crate::config::rejection_tests::objecting;
use crate::config::rejections::{RejectedConfig, Rejections};
use crate::daemon::Daemon;
use crate::plan::situations::{World, job, wants};
use crate::plan::tests::{check, live};
use crate::step::Step;
use slurm_conf::overrides::{PartitionSettings, RuntimeSettings};
use slurm_unit::note::{self, Noted};
use std::collections::BTreeSet;

const NOTHING: [&str; 0] = [];

/// The steps that put accepted files back.
const BACK: [&str; 2] = ["note what was refused", "put the accepted /etc/slurm/slurm.conf back"];

pub(crate) fn served(world: &World) -> BTreeSet<String> {
    Config::read(world.accepted.clone(), &Included::default()).partitions()
}

/// What was refused of what is wanted.
pub(crate) fn reasons(world: &World) -> Vec<String> {
    let rejected = world.conditions.iter().filter_map(|condition| match condition {
        Condition::Rejected { source, reason, .. } => Some(format!("{source}: {reason}")),
        _ => None,
    });
    rejected.collect()
}

#[test]
fn the_configuration_of_a_new_cluster_is_complete() {
    let files = World::serving().live;
    let expected = "\
# Made by the slurmctld charm, which edits single lines of it: keys it depends on, controllers, partitions of related
# applications. Everything else may be changed by hand.
ClusterName=charmed-hpc-aB3_
SlurmctldHost=juju-c9fc6f-0
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
AuthInfo=use_client_ids
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
StateSaveLocation=/var/lib/slurm/checkpoint/state
SlurmdSpoolDir=/var/lib/slurm/slurmd
SelectType=select/cons_tres
MaxNodeCount=65533
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SelectTypeParameters=CR_CPU_Memory
TreeWidth=65533
ReturnToService=1
ReconfigFlags=KeepPartState
MpiDefault=none
GresTypes=gpu
RebootProgram=/usr/sbin/reboot
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmctldParameters=enable_configless
";
    assert_eq!(files.slurm.as_deref(), Some(expected));
    assert!(files.cgroup.unwrap().ends_with("\nCgroupPlugin=disabled\n"));
    assert!(files.gres.unwrap().ends_with("\nAutoDetect=nvidia\n"));
}

#[test]
fn a_file_that_was_cut_short_is_put_back_and_one_that_lacks_a_line_is_put_right() {
    let whole = World::serving();
    let text = whole.live.slurm.clone().unwrap();
    let with = |text: &str| {
        let mut world = whole.clone();
        world.live.slurm = Some(text.to_owned());
        world
    };
    for cut in [
        "",
        "\n",
        &text[..300],
        &text[..400],
        &text[..text.len() - 5],
        &text.replace("ClusterName=", "#"),
        &text.replace("SlurmctldHost=", "#"),
    ] {
        let mut world = with(cut);
        world.dispatch(&|_, _| None);
        assert_eq!(world.taken[..2], BACK, "{cut}");
        assert_eq!(world.live, whole.accepted);
        assert_eq!(world.rejected().taken_back.unwrap().1, "it was cut short");
    }
    for (line, wrong) in
        [("SlurmdSpoolDir=/var/lib/slurm/slurmd", "SlurmdSpoolDir=/tmp"), ("CredType=cred/slurm\n", "")]
    {
        let world = with(&text.replace(line, wrong)).settled();
        assert!(world.live.slurm.as_ref().is_some_and(|text| text.contains(line)), "{line}");
    }
}

#[test]
fn what_was_refused_is_tried_again_by_whoever_took_it_back_and_asks_again() {
    let missing = |text: &str, parser: bool| (!parser && text.contains("sched/later")).then_some("no topology.conf");
    let mut world = World::serving().with_compute("compute", "").settled();
    world.options.parameters = "SchedulerType=sched/later".to_owned();
    let mut world = world.settled_where(&missing);
    assert_eq!(reasons(&world), ["option slurm-conf-parameters: no topology.conf"]);
    // The file is there now, but nobody has said so.
    assert_eq!(world.steps(), NOTHING);
    world.options.parameters = String::new();
    let mut world = world.settled();
    assert_eq!(world.rejections, Noted::Absent);
    world.options.parameters = "SchedulerType=sched/later".to_owned();
    let world = world.settled();
    assert_eq!(live(&world).get("SchedulerType"), Some("sched/later"));
    assert_eq!(reasons(&world), NOTHING);
}

#[test]
fn a_new_cluster_that_this_slurm_does_not_take_is_told_and_not_tried_for_ever() {
    let world = World::fresh().settled_where(&|_, parser| parser.then_some("unrecognized key: TreeWidth"));
    assert_eq!(reasons(&world), ["slurm.conf: unrecognized key: TreeWidth"]);
    assert_eq!(world.live.slurm, None);
}

#[test]
fn a_file_that_silences_slurmctld_and_is_wanted_no_more_need_not_be_proven() {
    let whole = World::serving();
    let mut world = whole.clone();
    world.options.parameters = "PluginDir2=/nowhere".to_owned();
    world.live = candidate(&world);
    world.overrides = Noted::Known(Overrides(RuntimeSettings::default()));
    world.daemon = Daemon::Silent { reason: None };
    assert_eq!(world.steps(), NOTHING, "as long as it is wanted");
    world.options.parameters = String::new();
    world.dispatch(&|_, _| None);
    assert_eq!(world.live, whole.accepted);
    // Nobody saw what slurmctld made of the other one, so it is told to read this one.
    world.daemon = Daemon::Answering;
    assert_eq!(world.steps(), ["reconfigure slurmctld"]);
    // What somebody wrote by hand is never thrown away unseen.
    world.live.slurm.as_mut().unwrap().push_str("KillWait=31\n");
    world.daemon = Daemon::Silent { reason: None };
    assert_eq!(world.steps(), NOTHING);
}

#[test]
fn processes_are_tracked_as_the_machine_allows_or_the_operator_insists() {
    let mut world = World::fresh();
    world.host.container = false;
    let mut world = world.settled();
    let tracks = |world: &World, how: &str| {
        let disabled = world.live.cgroup.as_ref().unwrap().contains("CgroupPlugin=disabled");
        live(world).get("ProctrackType") == Some(how) && disabled == (how == "proctrack/linuxproc")
    };
    assert!(tracks(&world, "proctrack/cgroup"));
    world.options.process_tracking = "linuxproc".to_owned();
    let mut world = world.settled();
    assert!(tracks(&world, "proctrack/linuxproc"));
    world.options.process_tracking = "auto".to_owned();
    assert!(tracks(&world.settled(), "proctrack/cgroup"));
}

#[test]
fn what_an_administrator_chose_for_tracking_stays_unless_the_operator_insists() {
    let mut world = World::serving();
    let text = world.live.slurm.as_mut().unwrap();
    *text = text.replace("TaskPlugin=task/none", "TaskPlugin=task/affinity");
    let mut world = world.settled();
    assert_eq!(live(&world).get("TaskPlugin"), Some("task/affinity"));
    world.options.process_tracking = "linuxproc".to_owned();
    assert_eq!(live(&world.settled()).get("TaskPlugin"), Some("task/none"));
}

#[test]
fn cgroup_parameters_are_merged_and_a_bad_one_leaves_the_last_good_file() {
    let mut world = World::serving();
    world.options.process_tracking = "cgroup".to_owned();
    world.options.cgroup_parameters = "constraincores=no\nAllowedRAMSpace=90\n".to_owned();
    let mut world = world.settled();
    let good = world.live.cgroup.clone().unwrap();
    assert!(good.contains("ConstrainCores=no\n") && good.contains("AllowedRAMSpace=90\n"), "{good}");
    world.options.cgroup_parameters = "ConstrainCores=maybe".to_owned();
    check(world, &[]);
}

#[test]
fn parameters_outweigh_the_file_and_what_they_outweighed_comes_back() {
    let mut world = World::serving().with_compute("compute", "").settled();
    let before = world.live.slurm.clone();
    world.options.parameters = "returntoservice=2\nSlurmctldParameters=idle_on_node_suspend\nFutureKey=1".to_owned();
    let mut world = world.settled();
    let conf = live(&world);
    assert_eq!(conf.get("ReturnToService"), Some("2"));
    assert_eq!(conf.get("FutureKey"), Some("1"));
    assert_eq!(conf.get("SlurmctldParameters"), Some("idle_on_node_suspend,enable_configless"));
    assert!(conf.render().contains("ReturnToService=1"));
    // A new partition and a change by hand find their place beside them.
    world = world.with_compute("gpu", "");
    world.live.slurm.as_mut().unwrap().push_str("KillWait=60\n");
    let mut world = world.settled();
    assert!(live(&world).partition("gpu").is_some());
    world.computes.pop();
    world.options.parameters.clear();
    let world = world.settled();
    let text = world.live.slurm.unwrap();
    assert_eq!(text.replace("KillWait=60\n", ""), before.unwrap());
    assert!(text.contains("KillWait=60\n"));
}

#[test]
fn an_owned_or_broken_parameter_leaves_the_last_good_ones() {
    let mut world = World::serving();
    world.options.parameters = "KillWait=60".to_owned();
    let mut world = world.settled();
    for bad in [
        "ClusterName=x",
        "authtype=auth/munge",
        "SLURMCTLDHOST=x",
        "Include /etc/passwd",
        "include=x",
        "PartitionName=x Nodes=ALL",
        "NodeName=x",
        "StateSaveLocation=/tmp",
        "KillWait=soon",
        "nonsense",
        "KillWait=1\nkillwait=2",
        "SlurmdSpoolDir=/tmp",
        "SlurmctldPort=1",
    ] {
        world.options.parameters = bad.to_owned();
        world.dispatch(&|_, _| None);
        assert_eq!(world.taken, NOTHING, "{bad}");
        assert!(matches!(world.conditions.as_slice(), [Condition::Option(_)]), "{bad}: {:?}", world.conditions);
    }
}

#[test]
fn the_default_partition_is_the_one_the_operator_named() {
    let mut world = World::serving().with_compute("compute", "Default=YES").with_compute("gpu", "").settled();
    let default = |world: &World, name: &str| live(world).partition(name).unwrap().get("Default").is_some();
    assert!(default(&world, "compute"));
    world.options.default_partition = "gpu".to_owned();
    let mut world = world.settled();
    assert!(!default(&world, "compute") && default(&world, "gpu"));
    // A name that is not there yet changes nothing.
    world.options.default_partition = "other".to_owned();
    let mut world = world.settled();
    assert!(!default(&world, "compute") && default(&world, "gpu"));
    world.options.default_partition = String::new();
    let mut world = world.settled();
    assert!(default(&world, "compute") && !default(&world, "gpu"));
    // Also a partition whose application leaves gives way.
    world.options.default_partition = "gpu".to_owned();
    let mut world = world.settled();
    world.computes.remove(1);
    world.jobs.push(job(7, "gpu", "RUNNING", "x", ""));
    world.options.default_partition = "compute".to_owned();
    let world = world.settled();
    assert!(default(&world, "compute") && !default(&world, "gpu"));
}

#[test]
fn of_two_that_say_default_the_first_is() {
    let world = World::serving().with_compute("b", "Default=YES").with_compute("a", "Default=YES").settled();
    assert!(live(&world).partition("b").unwrap().get("Default").is_some());
    assert!(live(&world).partition("a").unwrap().get("Default").is_none());
}

/// The files that would be tried now.
#[track_caller]
pub(crate) fn candidate(world: &World) -> Files {
    match world.first_plan().as_slice() {
        [Step::CheckCandidate { files, .. }] => files.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_dispatch_that_died_before_the_reconfigure_is_made_up_for() {
    let mut world = World::serving().with_compute("compute", "");
    world.live = candidate(&world);
    assert_eq!(world.steps(), ["note what was set at runtime", "reconfigure slurmctld"]);
    assert_eq!(served(&world.settled()), ["compute".to_owned()].into());
}

#[test]
fn a_dispatch_that_died_while_taking_refused_files_back_is_made_up_for() {
    let mut world = World::serving().with_compute("compute", "");
    let files = candidate(&world);
    world.live = files.clone();
    let reason = "Invalid node names in partition compute".to_owned();
    let last = RejectedConfig { files, version: "24.11.5".to_owned(), reason };
    world.rejections = Noted::Known(Rejections { last: Some(last), ..Rejections::default() });
    assert_eq!(world.steps(), BACK);
    let world = world.settled();
    assert_eq!(reasons(&world), ["partition compute: Invalid node names in partition compute"]);
}

#[test]
fn a_dispatch_that_died_before_partitions_were_saved_is_made_up_for() {
    let mut world = World::serving().with_compute("compute", "").settled();
    world.partitions_saved = false;
    check(world, &["save partitions"]);
}

#[test]
fn a_daemon_that_fails_on_new_files_gets_the_accepted_ones_back() {
    let mut world = World::serving().with_compute("compute", "");
    world.live = candidate(&world);
    world.daemon = Daemon::Failing { reason: "fatal: no".to_owned() };
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken[..2], BACK);
    assert_eq!(world.daemon, Daemon::Answering);
}

#[test]
fn an_unanswered_reconfigure_is_not_repeated_in_the_same_dispatch() {
    let mut world = World::serving().with_compute("compute", "");
    world.unanswered = Some("Socket timed out");
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken.iter().filter(|step| *step == "reconfigure slurmctld").count(), 1);
    assert_eq!(world.conditions.last(), Some(&Condition::Unproven(Some("Socket timed out".to_owned()))));
    assert!(world.retry_timer);
    world.unanswered = None;
    let done = ["reconfigure slurmctld", "forget what was set at runtime", "keep the accepted /etc/slurm/slurm.conf"];
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken[..3], done);
}

#[test]
fn what_was_set_at_runtime_outlives_a_reconfigure() {
    let mut world = World::serving().with_compute("compute", "").settled();
    world.partitions.get_mut("compute").unwrap().insert("prioritytier".to_owned(), "7".to_owned());
    world.computes[0].data = wants("compute", "MaxTime=60");
    let world = world.settled();
    let own = &world.partitions["compute"];
    assert_eq!((own["prioritytier"].as_str(), own["maxtime"].as_str()), ("7", "60"));
    assert_eq!(world.overrides, Noted::Absent);
}

#[test]
fn what_was_set_at_runtime_survives_a_dispatch_killed_anywhere() {
    for steps in 0.. {
        let mut world = World::serving().with_compute("compute", "").settled();
        world.partitions.get_mut("compute").unwrap().insert("prioritytier".to_owned(), "7".to_owned());
        world.computes[0].data = wants("compute", "MaxTime=60");
        let killed = world.dispatch_until(&|_, _| None, steps);
        let world = world.settled();
        let own = &world.partitions["compute"];
        let (tier, limit) = (own["prioritytier"].as_str(), own["maxtime"].as_str());
        assert_eq!((tier, limit), ("7", "60"), "killed after {steps}");
        if !killed {
            assert!(steps > 6, "only {steps} steps");
            return;
        }
    }
}

/// The charm of before this one noted without a version, and could be refreshed in the middle of a change.
#[test]
fn notes_of_the_version_before_are_read() {
    let shown = "PartitionName=compute PriorityTier=7 MaxTime=UNLIMITED LLN=NO\n";
    let settings = RuntimeSettings { partitions: PartitionSettings::from_shown(shown), ..Default::default() };
    let text = serde_json::to_string(&settings).unwrap();
    assert_eq!(note::parse::<Overrides>(&text), Noted::Known(Overrides(settings)));
    let text = r#"{"last":{"files":{"slurm":"a","cgroup":null,"gres":null},"version":"24.11.5","reason":"no"},
        "changes":{"partition p":[{"change":{"Partition":"p"},"wish":"{}","basis":"24.11.5 "},"no QOS"]},
        "taken_back":[7,"why"]}"#;
    let Noted::Known(rejections) = note::parse::<Rejections>(text) else { panic!() };
    assert_eq!(rejections.last.as_ref().unwrap().reason, "no");
    assert_eq!(rejections.taken_back, Some((7, "why".to_owned())));
    let (change, reason) = &rejections.changes["partition p"];
    assert_eq!((change.requested.as_str(), change.context.as_str(), reason.as_str()), ("{}", "24.11.5 ", "no QOS"));
    // What is written from now on has a version, and says the same.
    assert_eq!(note::parse::<Rejections>(&note::render(&rejections)), Noted::Known(rejections));
}

#[test]
fn a_refresh_in_the_middle_of_a_reconfigure_puts_back_what_was_set_at_runtime() {
    let mut world = World::serving().with_compute("compute", "").settled();
    world.partitions.get_mut("compute").unwrap().insert("prioritytier".to_owned(), "7".to_owned());
    world.computes[0].data = wants("compute", "MaxTime=60");
    // Killed after the reconfigure: slurmctld has forgotten, and only the note of the earlier charm knows.
    assert!(world.dispatch_until(&|_, _| None, 4));
    let Noted::Known(Overrides(settings)) = &world.overrides else { panic!("{:?}", world.taken) };
    world.overrides = note::parse(&serde_json::to_string(settings).unwrap());
    assert_eq!(world.settled().partitions["compute"]["prioritytier"], "7");
}

#[test]
fn a_note_that_cannot_be_read_stops_work_on_the_configuration() {
    let unreadable = "/etc/slurm/by-hand.json: version 9 is unknown to this charm";
    for overrides in [true, false] {
        let mut world = World::serving().with_compute("compute", "");
        if overrides {
            world.overrides = Noted::Unreadable { why: unreadable.to_owned() };
        } else {
            world.rejections = Noted::Unreadable { why: unreadable.to_owned() };
        }
        let before = world.live.clone();
        world.dispatch(&|_, _| None);
        assert_eq!((&world.taken[..], &world.live), (&[][..] as &[String], &before));
        assert!(world.retry_timer);
        let told = format!("blocked: config changes on hold: repair or delete the note {unreadable}");
        assert_eq!(world.reported(), told);
        // A daemon is started all the same.
        world.daemon = Daemon::Stopped;
        assert_eq!(world.steps(), ["start slurmctld"]);
    }
}

#[test]
fn a_slurmctld_that_serves_nobody_is_restarted() {
    let mut world = World::serving();
    world.daemon = Daemon::ShutOut;
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, ["restart slurmctld"]);
    assert_eq!(world.daemon, Daemon::Answering);
}

/// An administrator has asked slurmctld to take a file that it refused.
#[test]
fn a_slurmctld_that_serves_nobody_is_not_restarted_with_a_file_that_it_refused() {
    let mut world = World::serving();
    let accepted = world.accepted.clone();
    world.live.slurm.as_mut().unwrap().push_str("SchedulerType=sched/bogus\n");
    world.daemon = Daemon::ShutOut;
    world.dispatch(&objecting("bogus", false));
    assert_eq!(world.taken[..2], BACK);
    assert_eq!(world.taken.last().unwrap(), "restart slurmctld");
    assert_eq!((world.live.clone(), world.daemon.clone()), (accepted, Daemon::Answering));
    assert!(world.reported().starts_with("blocked: "), "{}", world.reported());
}

#[test]
fn a_partition_that_only_slurmctld_has_holds_changes_back() {
    let mut world = World::serving().with_compute("compute", "");
    world.partitions.insert("byhand".to_owned(), Default::default());
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, NOTHING);
    assert!(world.conditions.contains(&Condition::PartitionAtRisk("byhand".to_owned())));
    assert!(world.retry_timer);
}

#[test]
fn a_partition_that_was_taken_out_of_the_file_goes_when_it_has_no_jobs() {
    let mut world = World::serving();
    let before = world.live.slurm.clone();
    world.live.slurm.as_mut().unwrap().push_str("PartitionName=own Nodes=ALL\n");
    let mut world = world.settled();
    world.live.slurm = before;
    // slurmctld does not survive a record whose partition is gone, also if the job has ended.
    for state in ["RUNNING", "PENDING", "COMPLETED"] {
        world.jobs = vec![job(7, "other,own", state, "", "")];
        world.dispatch(&|_, _| None);
        assert_eq!(world.taken, NOTHING);
    }
    world.jobs.clear();
    assert_eq!(served(&world.settled()), BTreeSet::new());
}

#[test]
fn tables_without_room_for_what_is_there_are_refused_by_name() {
    let mut world = World::serving();
    (world.load.nodes, world.load.jobs) = (2, 5);
    for (line, reason) in [
        ("MaxNodeCount=1", "MaxNodeCount=1: at least 2, or slurmctld forgets nodes and their jobs"),
        ("MaxJobCount=1", "MaxJobCount=1: at least 15, or slurmctld forgets jobs (it has 5)"),
        ("MpiDefault=bogus", "MpiDefault: there is no plugin mpi/bogus on this machine"),
    ] {
        world.options.parameters = line.to_owned();
        world.dispatch(&|_, _| None);
        assert_eq!(reasons(&world), [format!("option slurm-conf-parameters: {reason}")]);
        assert_eq!(world.live, world.accepted);
    }
    world.options.parameters = "MaxNodeCount=2\nMaxJobCount=15".to_owned();
    let world = world.settled();
    assert_eq!(live(&world).get("MaxNodeCount"), Some("2"));
}

#[test]
fn a_state_that_cannot_be_saved_holds_changes_back() {
    let mut world = World::serving().with_compute("compute", "");
    world.state_problem = Some("/var/lib/slurm/checkpoint/state is full".to_owned());
    for local in [true, false] {
        world.store.local = local;
        world.dispatch(&|_, _| None);
        assert_eq!(world.taken, NOTHING);
        assert!(world.retry_timer && world.reported().starts_with("blocked: "), "{}", world.reported());
    }
}
