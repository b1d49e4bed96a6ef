//! What a controller does with its configuration: what goes into it, who outweighs whom, and what becomes of what Slurm refuses.

use super::tests::{check, live, steps};
use super::*;
use crate::configuration::{Refusals, Refused};
use crate::observe::Tried;
use ::slurm_conf::Partition;

#[test]
fn the_configuration_of_a_new_cluster_is_complete() {
    let files = Observed::serving().machine.live;
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
    let whole = Observed::serving();
    let text = whole.machine.live.slurm.clone().unwrap();
    let with = |text: &str| {
        let mut seen = whole.clone();
        seen.machine.live.slurm = Some(text.to_owned());
        seen
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
        let [Step::RestoreConfiguration { refused, back, .. }] = &plan(&with(cut)).steps[..1] else { panic!("{cut}") };
        assert_eq!((refused.reason.as_str(), back), ("it was cut short", &whole.machine.accepted));
    }
    for (line, wrong) in
        [("SlurmdSpoolDir=/var/lib/slurm/slurmd", "SlurmdSpoolDir=/tmp"), ("CredType=cred/slurm\n", "")]
    {
        let seen = with(&text.replace(line, wrong)).settled();
        assert!(seen.machine.live.slurm.as_ref().is_some_and(|text| text.contains(line)), "{line}");
    }
}

#[test]
fn what_was_refused_is_tried_again_by_whoever_took_it_back_and_asks_again() {
    let missing = |text: &str, parser: bool| (!parser && text.contains("sched/later")).then_some("no topology.conf");
    let mut seen = Observed::serving().with_compute("compute", "").settled();
    seen.options.parameters = "SchedulerType=sched/later".to_owned();
    let mut seen = seen.settled_where(missing);
    assert_eq!(refused(&seen), [(Change::Parameters, "no topology.conf".to_owned())]);
    // The file is there now, but nobody has said so.
    assert!(plan(&seen).steps.is_empty());
    seen.options.parameters = String::new();
    let mut seen = seen.settled();
    assert_eq!(seen.machine.refusals, Refusals::default());
    seen.options.parameters = "SchedulerType=sched/later".to_owned();
    let seen = seen.settled();
    assert_eq!(live(&seen).get("SchedulerType"), Some("sched/later"));
    assert!(refused(&seen).is_empty());
}

#[test]
fn a_new_cluster_that_this_slurm_does_not_take_is_told_and_not_tried_for_ever() {
    let seen = Observed::fresh().settled_where(|_, parser| parser.then_some("unrecognized key: TreeWidth"));
    assert_eq!(refused(&seen), [(Change::File, "unrecognized key: TreeWidth".to_owned())]);
    assert_eq!(seen.machine.live.slurm, None);
}

#[test]
fn a_file_that_silences_slurmctld_and_is_wanted_no_more_need_not_be_proven() {
    let whole = Observed::serving();
    let mut seen = whole.clone();
    seen.options.parameters = "PluginDir2=/nowhere".to_owned();
    let Some(Step::OfferConfiguration { files, .. }) = plan(&seen).steps.into_iter().next() else { panic!("no offer") };
    seen.machine.live = files;
    seen.machine.unresolved = true;
    seen.machine.daemon = Daemon::Silent { reason: None };
    assert!(matches!(plan(&seen).steps[..], [Step::Reconfigure { .. }, ..]), "as long as it is wanted");
    seen.options.parameters = String::new();
    let steps = plan(&seen).steps;
    let [Step::OfferConfiguration { files, .. }, ..] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(*files, whole.machine.accepted);
    seen.apply_in_memory(&steps[0]);
    // Nobody saw what slurmctld made of the other one, so it is told to read this one.
    seen.machine.daemon = whole.machine.daemon;
    assert!(matches!(plan(&seen).steps[..], [Step::Reconfigure { .. }, ..]));
    // What somebody wrote by hand is never thrown away unseen.
    seen.machine.live.slurm.as_mut().unwrap().push_str("KillWait=31\n");
    seen.machine.daemon = Daemon::Silent { reason: None };
    assert!(matches!(plan(&seen).steps[..], [Step::Reconfigure { .. }, ..]));
}

#[test]
fn processes_are_tracked_as_the_machine_allows_or_the_operator_insists() {
    let mut seen = Observed::fresh();
    seen.machine.container = false;
    let mut seen = seen.settled();
    let tracks = |seen: &Observed, how: &str| {
        let disabled = seen.machine.live.cgroup.as_ref().unwrap().contains("CgroupPlugin=disabled");
        live(seen).get("ProctrackType") == Some(how) && disabled == (how == "proctrack/linuxproc")
    };
    assert!(tracks(&seen, "proctrack/cgroup"));
    seen.options.process_tracking = "linuxproc".to_owned();
    let mut seen = seen.settled();
    assert!(tracks(&seen, "proctrack/linuxproc"));
    seen.options.process_tracking = "auto".to_owned();
    assert!(tracks(&seen.settled(), "proctrack/cgroup"));
}

#[test]
fn what_an_administrator_chose_for_tracking_stays_unless_the_operator_insists() {
    let mut seen = Observed::serving();
    let text = seen.machine.live.slurm.as_mut().unwrap();
    *text = text.replace("TaskPlugin=task/none", "TaskPlugin=task/affinity");
    let mut seen = seen.settled();
    assert_eq!(live(&seen).get("TaskPlugin"), Some("task/affinity"));
    seen.options.process_tracking = "linuxproc".to_owned();
    assert_eq!(live(&seen.settled()).get("TaskPlugin"), Some("task/none"));
}

#[test]
fn cgroup_parameters_are_merged_and_a_bad_one_leaves_the_last_good_file() {
    let mut seen = Observed::serving();
    seen.options.process_tracking = "cgroup".to_owned();
    seen.options.cgroup_parameters = "constraincores=no\nAllowedRAMSpace=90\n".to_owned();
    let mut seen = seen.settled();
    let good = seen.machine.live.cgroup.clone().unwrap();
    assert!(good.contains("ConstrainCores=no\n") && good.contains("AllowedRAMSpace=90\n"), "{good}");
    seen.options.cgroup_parameters = "ConstrainCores=maybe".to_owned();
    check(seen, &[]);
}

#[test]
fn parameters_outweigh_the_file_and_what_they_outweighed_comes_back() {
    let mut seen = Observed::serving().with_compute("compute", "").settled();
    let before = seen.machine.live.slurm.clone();
    seen.options.parameters = "returntoservice=2\nSlurmctldParameters=idle_on_node_suspend\nFutureKey=1".to_owned();
    let mut seen = seen.settled();
    let conf = live(&seen);
    assert_eq!(conf.get("ReturnToService"), Some("2"));
    assert_eq!(conf.get("FutureKey"), Some("1"));
    assert_eq!(conf.get("SlurmctldParameters"), Some("idle_on_node_suspend,enable_configless"));
    assert!(conf.render().contains("ReturnToService=1"));
    // A new partition and a change by hand find their place beside them.
    seen = seen.with_compute("gpu", "");
    seen.machine.live.slurm.as_mut().unwrap().push_str("KillWait=60\n");
    let mut seen = seen.settled();
    assert!(live(&seen).partition("gpu").is_some());
    seen.computes.pop();
    seen.options.parameters.clear();
    let seen = seen.settled();
    let expected = before.unwrap() + "NodeSet=gpu Feature=gpu\nPartitionName=gpu Nodes=gpu\n";
    let text = seen.machine.live.slurm.unwrap();
    assert_eq!(text.replace("KillWait=60\n", ""), expected);
    assert!(text.contains("KillWait=60\n"));
}

#[test]
fn an_owned_or_broken_parameter_leaves_the_last_good_ones() {
    let mut seen = Observed::serving();
    seen.options.parameters = "KillWait=60".to_owned();
    let mut seen = seen.settled();
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
        seen.options.parameters = bad.to_owned();
        assert_eq!(steps(&seen), [""; 0], "{bad}");
        assert_eq!(bad_options(&seen).len(), 1, "{bad}");
    }
}

#[test]
fn the_default_partition_is_the_one_the_operator_named() {
    let mut seen = Observed::serving().with_compute("compute", "Default=YES").with_compute("gpu", "").settled();
    let default = |seen: &Observed, name: &str| live(seen).partition(name).unwrap().get("Default").is_some();
    assert!(default(&seen, "compute"));
    seen.options.default_partition = "gpu".to_owned();
    let mut seen = seen.settled();
    assert!(!default(&seen, "compute") && default(&seen, "gpu"));
    // A name that is not there yet changes nothing.
    seen.options.default_partition = "other".to_owned();
    let mut seen = seen.settled();
    assert!(!default(&seen, "compute") && default(&seen, "gpu"));
    seen.options.default_partition = String::new();
    let mut seen = seen.settled();
    assert!(default(&seen, "compute") && !default(&seen, "gpu"));
    // Also a partition whose application is gone gives way.
    seen.options.default_partition = "gpu".to_owned();
    let mut seen = seen.settled();
    seen.computes.remove(1);
    seen.options.default_partition = "compute".to_owned();
    let seen = seen.settled();
    assert!(!default(&seen, "gpu"));
}

#[test]
fn of_two_that_say_default_the_first_is() {
    let seen = Observed::serving().with_compute("b", "Default=YES").with_compute("a", "Default=YES").settled();
    assert!(live(&seen).partition("b").unwrap().get("Default").is_some());
    assert!(live(&seen).partition("a").unwrap().get("Default").is_none());
}

/// Slurm that objects to a word, either its parser or slurmctld.
fn objecting(word: &'static str, by_parser: bool) -> impl Fn(&str, bool) -> Option<&'static str> {
    move |text, parser| (parser == by_parser && text.contains(word)).then_some("no such thing")
}

fn reasons(seen: &Observed) -> Vec<String> {
    refused(seen).into_iter().map(|(change, reason)| format!("{change}: {reason}")).collect()
}

#[test]
fn a_wrong_partition_costs_its_own_application_only() {
    for by_parser in [true, false] {
        let seen = Observed::serving().with_compute("a", "").with_compute("bad", "QOS=bogus").with_compute("c", "");
        let seen = seen.settled_where(objecting("bogus", by_parser));
        assert_eq!(reasons(&seen), ["partition bad: no such thing"]);
        let served = served_partitions(&seen);
        assert_eq!(served, ["a".to_owned(), "c".to_owned()].into());
        assert!(!seen.computes[0].published.is_empty() && seen.computes[1].published.is_empty());
        assert_eq!(seen.machine.live, seen.machine.accepted);
        assert!(!seen.waking);
    }
}

#[test]
fn a_partition_that_becomes_wrong_goes_on_as_it_was() {
    let mut seen = Observed::serving().with_compute("a", "MaxTime=60").settled();
    let wrong = Partition::from_config("a", "QOS=bogus").unwrap();
    seen.computes[0].offer = Offer::Partition(wrong.clone(), wrong.nodeset());
    let seen = seen.settled_where(objecting("bogus", false));
    assert_eq!(live(&seen).partition("a").unwrap().get("MaxTime"), Some("60"));
    assert_eq!(reasons(&seen), ["partition a: no such thing"]);
    // And is tried again when it, or what it depends on, is another.
    let mut again = seen.clone();
    again.options.parameters = "KillWait=60".to_owned();
    let again = again.settled();
    assert_eq!(live(&again).partition("a").unwrap().get("QOS"), Some("bogus"));
    let mut mended = seen;
    let right = Partition::from_config("a", "MaxTime=30").unwrap();
    mended.computes[0].offer = Offer::Partition(right.clone(), right.nodeset());
    assert_eq!(live(&mended.settled()).partition("a").unwrap().get("MaxTime"), Some("30"));
}

#[test]
fn wrong_parameters_cost_nothing_but_themselves() {
    for by_parser in [true, false] {
        // Already when the cluster is made.
        let mut seen = Observed::fresh().with_compute("a", "");
        seen.options.parameters = "SchedulerType=sched/bogus".to_owned();
        let seen = seen.settled_where(objecting("bogus", by_parser));
        assert_eq!(reasons(&seen), ["option slurm-conf-parameters: no such thing"]);
        assert_eq!(served_partitions(&seen), ["a".to_owned()].into());
        // And later, with another change beside them and one wrong partition.
        let mut seen = seen.with_compute("b", "").with_compute("worse", "QOS=bogus");
        seen.options.parameters = "SchedulerType=sched/bogus2".to_owned();
        let seen = seen.settled_where(objecting("bogus", by_parser));
        assert_eq!(reasons(&seen), ["option slurm-conf-parameters: no such thing", "partition worse: no such thing"],);
        assert_eq!(served_partitions(&seen), ["a".to_owned(), "b".to_owned()].into());
    }
}

#[test]
fn parameters_that_slurmctld_does_not_start_with_are_left_out_of_a_new_cluster() {
    let mut seen = Observed::fresh();
    seen.options.parameters = "SchedulerType=sched/bogus".to_owned();
    let mut seen = seen.settled();
    seen.machine.accepted = Default::default();
    (seen.machine.live, seen.peer.as_mut().unwrap().cluster_name) = (seen.machine.live.clone(), None);
    seen.machine.daemon = Daemon::Failing { reason: "fatal: cannot create context".to_owned() };
    seen = seen.in_the_next_hook();
    check(seen.clone(), &["put the accepted /etc/slurm/slurm.conf back"]);
    let seen = seen.settled();
    assert_eq!(reasons(&seen), ["option slurm-conf-parameters: fatal: cannot create context"]);
    assert_eq!(live(&seen).get("SchedulerType"), None);
}

#[test]
fn several_wrong_partitions_are_all_found() {
    let mut seen = Observed::serving();
    for name in ["a", "b", "c", "d", "e"] {
        seen = seen.with_compute(name, if matches!(name, "b" | "d") { "QOS=bogus" } else { "" });
    }
    let seen = seen.settled_where(objecting("bogus", false));
    assert_eq!(reasons(&seen).len(), 2);
    assert_eq!(served_partitions(&seen).len(), 3);
}

#[test]
fn another_slurm_gets_another_try() {
    let seen = Observed::serving().with_compute("a", "QOS=bogus").settled_where(objecting("bogus", true));
    assert!(served_partitions(&seen).is_empty());
    let mut seen = seen;
    seen.machine.version = Some("26.05.5".to_owned());
    assert!(served_partitions(&seen.settled()).contains("a"));
}

/// The files that the plan would offer now.
#[track_caller]
fn candidate(seen: &Observed) -> Files {
    match plan(seen).steps.as_slice() {
        [Step::OfferConfiguration { files, .. }] => files.clone(),
        other => panic!("{other:?}"),
    }
}

fn refusal(files: &Files) -> Refused {
    Refused {
        files: files.clone(),
        version: "24.11.5".to_owned(),
        reason: "Invalid node names in partition compute".to_owned(),
    }
}

#[test]
fn a_hook_that_died_before_the_reconfigure_is_made_up_for() {
    let mut seen = Observed::serving().with_compute("compute", "");
    seen.machine.live = candidate(&seen);
    check(seen, &["reconfigure slurmctld"]);
}

#[test]
fn a_hook_that_died_while_taking_a_refused_file_back_is_made_up_for() {
    let mut seen = Observed::serving().with_compute("compute", "");
    let files = candidate(&seen);
    seen.machine.live = files.clone();
    seen.machine.refusals.last = Some(refusal(&files));
    check(seen, &["put the accepted /etc/slurm/slurm.conf back"]);
}

#[test]
fn a_hook_that_died_before_partitions_were_saved_is_made_up_for() {
    let mut seen = Observed::serving().with_compute("compute", "").settled();
    seen.machine.partitions_saved = false;
    seen.tried.save = false;
    check(seen, &["save partitions"]);
}

#[test]
fn a_daemon_that_fails_on_a_new_configuration_gets_the_accepted_one_back() {
    let mut seen = Observed::serving().with_compute("compute", "");
    seen.machine.live = candidate(&seen);
    seen.machine.daemon = Daemon::Failing { reason: "fatal: no".to_owned() };
    seen.tried = Tried::default();
    check(seen, &["put the accepted /etc/slurm/slurm.conf back"]);
}

#[test]
fn an_unanswered_reconfigure_is_not_repeated_in_the_same_dispatch() {
    let mut seen = Observed::serving().with_compute("compute", "");
    seen.machine.live = candidate(&seen);
    seen.tried.reconfigure = Some("Socket timed out".to_owned());
    assert_eq!(steps(&seen), ["look again soon"]);
    check(seen.in_the_next_hook(), &["reconfigure slurmctld"]);
}

#[test]
fn a_hand_edited_file_is_loaded_and_kept() {
    let mut seen = Observed::serving();
    let mut text = seen.machine.live.slurm.clone().unwrap();
    text.push_str("# ours\nSlurmdTimeout=60\n");
    seen.machine.live.slurm = Some(text.clone());
    seen.machine.live.gres = Some("Name=gpu File=/dev/null\n".to_owned());
    assert_eq!(steps(&seen), ["reconfigure slurmctld"]);
    let seen = seen.with_compute("compute", "").settled();
    assert!(seen.machine.accepted.slurm.unwrap().starts_with(&text));
    assert_eq!(seen.machine.accepted.gres.as_deref(), Some("Name=gpu File=/dev/null\n"));
}

#[test]
fn a_hand_edited_file_is_proven_before_anything_is_built_on_it() {
    let mut seen = Observed::serving().with_compute("compute", "");
    seen.machine.live.slurm.as_mut().unwrap().push_str("BogusKey=1\n");
    assert_eq!(steps(&seen), ["reconfigure slurmctld"]);
    // Beside a file that the parser cannot read, the daemon looks as if it did not answer.
    seen.machine.daemon = Daemon::Silent { reason: None };
    assert_eq!(steps(&seen), ["reconfigure slurmctld"]);
    let mut unanswered = seen.clone();
    unanswered.tried.reconfigure = Some("Unable to contact slurm controller".to_owned());
    assert_eq!(steps(&unanswered), ["look again soon"]);
    // What Slurm refuses of it goes, and what came from elsewhere goes on.
    seen.machine.daemon = Daemon::Answering { mode: "primary".to_owned() };
    let seen = seen.settled_where(objecting("BogusKey", false));
    assert_eq!(live(&seen).get("BogusKey"), None);
    assert!(live(&seen).partition("compute").is_some());
}

#[test]
fn a_hand_edited_file_that_leads_to_a_refusal_goes() {
    let mut seen = Observed::serving();
    let accepted = seen.machine.accepted.slurm.clone();
    let text = accepted.clone().unwrap().replace("AuthType=auth/slurm", "AuthType=auth/munge") + "BogusKey=1\n";
    seen.machine.live.slurm = Some(text);
    let repaired = candidate(&seen);
    let repaired = repaired.slurm.as_ref().unwrap();
    assert!(repaired.contains("AuthType=auth/slurm") && repaired.contains("BogusKey"));
    assert_eq!(seen.settled_where(objecting("BogusKey", true)).machine.live.slurm, accepted);
}

#[test]
fn an_owned_key_that_was_changed_by_hand_is_put_right() {
    let mut seen = Observed::serving();
    let text = seen.machine.live.slurm.clone().unwrap();
    let text =
        text.replace("AuthType=auth/slurm", "AuthType=auth/munge").replace("enable_configless", "idle_on_node_suspend");
    seen.machine.live.slurm = Some(text.replace("MaxNodeCount=65533\n", ""));
    let seen = seen.settled();
    assert_eq!(live(&seen).get("AuthType"), Some("auth/slurm"));
    assert_eq!(live(&seen).get("MaxNodeCount"), Some("65533"));
    assert_eq!(live(&seen).get("SlurmctldParameters"), Some("idle_on_node_suspend,enable_configless"));
}

#[test]
fn a_file_nobody_can_read_is_replaced_by_the_accepted_one() {
    let mut seen = Observed::serving();
    let accepted = seen.machine.accepted.clone();
    seen.machine.live.slurm = Some("this is no configuration\n".to_owned());
    assert_eq!(seen.settled().machine.live, accepted);
}

#[test]
fn lost_files_come_back_with_the_name_of_the_cluster() {
    let seen = Observed::serving().with_compute("compute", "").settled();
    let accepted = seen.machine.accepted.clone();
    for lost in 0..2 {
        let mut seen = seen.clone();
        seen.machine.live = Files::default();
        if lost == 1 {
            seen.machine.accepted = Files::default();
        }
        seen.machine.suffix = "zzzz".to_owned();
        seen.machine.daemon = Daemon::Stopped;
        assert_eq!(seen.in_the_next_hook().settled().machine.live, accepted, "{lost}");
    }
}
