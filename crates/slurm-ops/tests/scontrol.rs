//! What is made of the answers of real Slurm tools: recorded ones, and every way of not getting an answer.

mod support;

use slurm_conf::{HostList, Node, NodeName, Partition};
use slurm_ops::scontrol::{self, Candidate, NodeLookup, Reconfigure, Refusal, ScontrolError};
use support::Sandbox;

const CONNECT_FAILURE: &str = "slurm_load_node error: Unable to contact slurm controller (connect failure)\n";

const STATE: &str = "/etc";

fn compute_0() -> NodeName {
    NodeName::new("compute-0").expect("a node name")
}

fn answering(stdout: &str, stderr: &str, code: i32) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.answer("scontrol", stdout, stderr, code);
    sandbox
}

#[test]
fn a_node_that_takes_jobs_is_usable() {
    let sandbox = answering(include_str!("recorded/node-idle.json"), "", 0);
    let NodeLookup::Present(node) = scontrol::node(&sandbox.machine().host(), &compute_0()) else {
        panic!("not found")
    };
    assert!(node.is_usable() && node.has("dynamic_norm"));
    assert_eq!((node.state_text().as_str(), node.real_memory, node.cpus), ("IDLE+DYNAMIC_NORM", 900, 2));
    assert_eq!((node.hostname.as_str(), node.version.as_str()), ("ctl", "24.11.5"));
    assert_eq!((node.partitions, node.features), (vec!["compute".to_owned()], vec!["compute".to_owned()]));
    assert_eq!(sandbox.calls(), ["scontrol show node compute-0 --json=v0.0.42"]);
}

#[test]
fn clients_that_are_shut_out_are_told_from_a_controller_that_is_down() {
    let said = "scontrol: error: failed to connect to any sack sockets\nscontrol: error: create_external: failed to create token\n";
    assert!(scontrol::is_shut_out(&answering("Slurmctld(primary) at ctl is DOWN\n", said, 1).machine().host()));
    assert!(!scontrol::is_shut_out(&answering("Slurmctld(primary) at ctl is DOWN\n", "", 1).machine().host()));
    assert!(!scontrol::is_shut_out(&answering("Slurmctld(primary) at ctl is UP\n", "", 0).machine().host()));
}

#[test]
fn a_drained_node_says_why() {
    let sandbox = answering(include_str!("recorded/node-drained.json"), "", 0);
    let NodeLookup::Present(node) = scontrol::node(&sandbox.machine().host(), &compute_0()) else {
        panic!("not found")
    };
    assert!(!node.is_usable() && node.has("DRAIN"));
    assert_eq!(node.reason, "charm: a b");
}

#[test]
fn only_an_answer_makes_a_node_absent() {
    let absent = answering(include_str!("recorded/node-absent.json"), "", 0);
    assert_eq!(scontrol::node(&absent.machine().host(), &compute_0()), NodeLookup::Absent);
    let plain = answering("Node compute-0 not found\n", "", 1);
    assert_eq!(scontrol::node(&plain.machine().host(), &compute_0()), NodeLookup::Absent);
    for (stdout, stderr, code) in [
        ("", CONNECT_FAILURE, 1),
        ("", "slurm_load_node error: Socket timed out on send/recv operation\n", 1),
        ("", "scontrol: fatal: Could not establish a configuration source\n", 1),
        ("", "slurm_load_node error: Slurm backup controller in standby mode\n", 1),
        ("", "something never seen before\n", 1),
        ("", "", 0),
        ("{\"nodes\": [{}]}", "", 0),
    ] {
        let sandbox = answering(stdout, stderr, code);
        let found = scontrol::node(&sandbox.machine().host(), &compute_0());
        assert!(matches!(found, NodeLookup::Unreachable { .. }), "{stderr:?}: {found:?}");
    }
    let sandbox = Sandbox::new();
    let nothing = slurm_ops::Machine::at(sandbox.path("/")).with_search_path(sandbox.path("/nowhere"));
    assert!(
        matches!(scontrol::node(&nothing.host(), &compute_0()), NodeLookup::Unreachable { why } if why.contains("No such file"))
    );
}

#[test]
fn ping_is_read_whatever_the_exit_status() {
    let up = answering(include_str!("recorded/ping-up.json"), "", 0);
    let pings = scontrol::ping(&up.machine().host()).unwrap();
    assert_eq!((pings[0].hostname.as_str(), pings[0].responding), ("ctl", true));
    for code in [0, 1] {
        let down = answering(include_str!("recorded/ping-down.json"), "", code);
        assert!(!scontrol::ping(&down.machine().host()).unwrap()[0].responding);
    }
    let broken = answering("", "scontrol: fatal: Could not establish a configuration source\n", 1);
    assert!(
        matches!(scontrol::ping(&broken.machine().host()), Err(ScontrolError::Unreachable { why }) if why.contains("source"))
    );
}

#[test]
fn a_reason_is_one_argument_on_one_line() {
    let sandbox = Sandbox::new();
    sandbox.program("scontrol", "for word in \"$@\"; do echo \"<$word>\" >> $ROOT/words; done");
    scontrol::drain_nodes(&sandbox.machine().writer(), &compute_0(), "two words\nState=RESUME").unwrap();
    assert_eq!(
        sandbox.read("words"),
        "<update>\n<nodename=compute-0>\n<state=drain>\n<reason=two words State=RESUME>\n"
    );
}

#[test]
fn resuming_an_open_node_is_fine() {
    let open = answering("", "slurm_update error: Invalid node state specified\n", 1);
    assert_eq!(scontrol::resume_nodes(&open.machine().writer(), &compute_0()), Ok(false));
    let drained = answering("", "", 0);
    assert_eq!(scontrol::resume_nodes(&drained.machine().writer(), &compute_0()), Ok(true));
    let refused = answering("", "slurm_update error: Access/permission denied\n", 1);
    let error = scontrol::resume_nodes(&refused.machine().writer(), &compute_0()).unwrap_err();
    let expected =
        "`scontrol update nodename=compute-0 state=resume` was refused: slurm_update error: Access/permission denied";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn several_nodes_are_changed_with_one_command() {
    let several: HostList = "compute-[0-1],gpu-7".parse().unwrap();
    let sandbox = answering("", "", 0);
    scontrol::drain_nodes(&sandbox.machine().writer(), &several, "disk").unwrap();
    scontrol::drain_nodes(&sandbox.machine().writer(), &several, "").unwrap();
    assert_eq!(scontrol::resume_nodes(&sandbox.machine().writer(), &several), Ok(true));
    let expected = [
        "scontrol update nodename=compute-[0-1],gpu-7 state=drain reason=disk",
        "scontrol update nodename=compute-[0-1],gpu-7 state=drain reason=unspecified",
        "scontrol update nodename=compute-[0-1],gpu-7 state=resume",
    ];
    assert_eq!(sandbox.calls(), expected);
}

#[test]
fn refusals_are_told_apart() {
    for (stderr, expected) in [
        ("slurm_update error: Invalid node name specified\n", Some(Refusal::NoSuchNode)),
        ("slurm_update error: Invalid node state specified\n", Some(Refusal::NodeState)),
        ("slurm_update error: Invalid node state transition\n", Some(Refusal::NodeState)),
        ("You must specify a reason when DOWNING or DRAINING a node. Request denied\n", Some(Refusal::ReasonMissing)),
        (
            "scontrol: error: failed to delete nodes n1\ndelete_node nodename=n1: Requested nodes are busy\n",
            Some(Refusal::NodesBusy),
        ),
        ("slurm_update error: Access/permission denied\n", Some(Refusal::NotAllowed)),
        ("slurm_update error: Something else\n", Some(Refusal::Other)),
        ("slurm_update error: Unable to contact slurm controller (connect failure)\n", None),
    ] {
        let error = scontrol::drain_nodes(&answering("", stderr, 1).machine().writer(), &compute_0(), "r").unwrap_err();
        assert_eq!(error.refusal(), expected, "{stderr}");
    }
}

#[test]
fn a_slurm_that_lost_the_pinned_dialect_is_asked_in_its_own() {
    let sandbox = Sandbox::new();
    sandbox.file("/node.json", include_str!("recorded/node-idle.json"));
    let script = "case \"$*\" in *--json) cat $ROOT/node.json ;; *) echo 'scontrol: error: load_plugins: unable to find plugin: data_parser/v0.0.42' >&2; exit 1 ;; esac";
    sandbox.program("scontrol", script);
    assert!(matches!(scontrol::node(&sandbox.machine().host(), &compute_0()), NodeLookup::Present(_)));
    assert_eq!(sandbox.calls(), ["scontrol show node compute-0 --json=v0.0.42", "scontrol show node compute-0 --json"]);
    let newer = r#"{"pings":[{"hostname":"d1","responding":true,"latency":2701,"primary":true,"status":"No error"},
        {"hostname":"d2","responding":false,"latency":0,"primary":false,"status":"x"}]}"#;
    let pings = scontrol::ping(&answering(newer, "", 0).machine().host()).unwrap();
    assert_eq!(
        pings.iter().map(|ping| (&*ping.hostname, ping.responding)).collect::<Vec<_>>(),
        [("d1", true), ("d2", false)]
    );
}

#[test]
fn deleting_what_is_not_there_is_done_and_what_is_busy_is_refused() {
    let gone = answering("", "delete_node nodename=compute-0: Invalid node name specified\n", 1);
    assert_eq!(scontrol::delete_node(&gone.machine().writer(), &compute_0()), Ok(()));
    let busy = answering(
        "",
        "scontrol: error: failed to delete nodes compute-0\ndelete_node nodename=compute-0: Requested nodes are busy\n",
        1,
    );
    assert!(matches!(
        scontrol::delete_node(&busy.machine().writer(), &compute_0()),
        Err(ScontrolError::Refused { .. })
    ));
    let silent =
        answering("", "delete_node nodename=compute-0: Unable to contact slurm controller (connect failure)\n", 1);
    assert!(matches!(
        scontrol::delete_node(&silent.machine().writer(), &compute_0()),
        Err(ScontrolError::Unreachable { .. })
    ));
}

#[test]
fn a_candidate_is_read_by_slurms_own_parser() {
    const CANDIDATE: &str = "/etc/slurm/candidate.conf";
    let check = |sandbox: &Sandbox| {
        let machine = sandbox.file("/etc/slurm/slurm.conf", "").machine();
        scontrol::check(&machine.writer(), CANDIDATE, "ClusterName=lab\n").unwrap()
    };
    let sandbox = Sandbox::new();
    sandbox.program("scontrol", "(echo \"$SLURM_CONF\"; cat \"$SLURM_CONF\") > $ROOT/conf; echo slurm-wlm 24.11.5");
    assert_eq!(check(&sandbox), Candidate::Readable);
    assert_eq!(sandbox.read("conf"), format!("{}\nClusterName=lab\n", sandbox.path(CANDIDATE).display()));
    assert!(!sandbox.path(CANDIDATE).exists(), "it is gone afterwards");
    assert_eq!(sandbox.calls(), ["scontrol version"]);
    let stderr = "scontrol: error: _parse_next_key: Parsing error at unrecognized key: BogusKey\nscontrol: fatal: Unable to process configuration file\n";
    let expected =
        Candidate::Refused { reason: "_parse_next_key: Parsing error at unrecognized key: BogusKey".to_owned() };
    assert_eq!(check(&answering("", stderr, 1)), expected);
    assert!(matches!(check(&answering("", "scontrol: fatal: something else\n", 1)), Candidate::Unknown { .. }));
}

#[test]
fn a_candidate_is_read_and_nodes_are_asked_for_by_one_process() {
    const CANDIDATE: &str = "/etc/slurm/candidate.conf";
    let ask = |sandbox: &Sandbox| {
        let machine = sandbox.file("/etc/slurm/slurm.conf", "").machine();
        let found = scontrol::check_and_ask(&machine.writer(), CANDIDATE, "ClusterName=lab\n").unwrap();
        (found.0, found.1, sandbox.calls())
    };
    let sandbox = Sandbox::new();
    sandbox
        .program("scontrol", "echo \"$SLURM_CONF\" > $ROOT/conf; echo NodeName=compute-0 TmpDisk=0 Weight=7 Owner=N/A");
    let (candidate, nodes, calls) = ask(&sandbox);
    assert_eq!(candidate, Candidate::Readable);
    assert_eq!(nodes, Some(scontrol::node_settings(&sandbox.machine().host()).unwrap()));
    assert_eq!(calls, ["scontrol --oneliner show node"]);
    let stderr = "scontrol: error: _parse_next_key: Parsing error at unrecognized key: BogusKey\nscontrol: fatal: Unable to process configuration file\n";
    let (candidate, nodes, _) = ask(&answering("", stderr, 1));
    assert!(matches!(candidate, Candidate::Refused { reason } if reason.ends_with("BogusKey")));
    assert_eq!(nodes, None);
    // A slurmctld that does not answer leaves it to the parser alone.
    let silent = Sandbox::new();
    silent.program(
        "scontrol",
        &format!(
            "case $1 in version) exit 0 ;; esac; echo '{}' >&2; exit 1",
            "slurm_load_node error: Unable to contact slurm controller (connect failure)"
        ),
    );
    let (candidate, nodes, calls) = ask(&silent);
    assert_eq!((candidate, nodes), (Candidate::Readable, None));
    let show = "scontrol --oneliner show node";
    assert_eq!(calls, [show, show, "scontrol version"]);
    // One that answers everybody but those who read the candidate shows what is wrong with it.
    let choosy = Sandbox::new();
    let script = "test -z \"$SLURM_CONF\" && exit 0; echo 'scontrol: error: cannot find auth plugin for auth/slurm' >&2; \
                  echo 'scontrol: fatal: failed to initialize auth plugin' >&2; exit 1";
    choosy.program("scontrol", script);
    let (candidate, weights, calls) = ask(&choosy);
    let reason = "cannot find auth plugin for auth/slurm / fatal: failed to initialize auth plugin".to_owned();
    assert_eq!((candidate, weights), (Candidate::Refused { reason }, None));
    assert_eq!(calls, [show; 3]);
}

#[test]
fn a_reconfigure_is_accepted_refused_or_not_known() {
    assert_eq!(scontrol::reconfigure(&answering("", "", 0).machine().writer(), STATE), Reconfigure::Accepted);
    let bad_value = answering(
        "",
        "scontrol: error: Bad value \"zzz\" for MaxTime\nscontrol: fatal: Unable to process configuration file\n",
        1,
    );
    let expected = Reconfigure::Refused { reason: "Bad value \"zzz\" for MaxTime".to_owned() };
    assert_eq!(scontrol::reconfigure(&bad_value.machine().writer(), STATE), expected);
    for stderr in [
        "slurm_reconfigure error: Unable to contact slurm controller (connect failure)\n",
        "slurm_reconfigure error: Socket timed out on send/recv operation\n",
        "slurm_reconfigure error: Slurm backup controller in standby mode\n",
        "slurm_reconfigure error: Protocol authentication error\n",
    ] {
        let outcome = scontrol::reconfigure(&answering("", stderr, 1).machine().writer(), STATE);
        assert_eq!(outcome, Reconfigure::Unknown { why: stderr.trim_end().to_owned() });
    }
}

#[test]
fn a_client_that_gave_up_is_not_the_last_word() {
    let asked = "echo slurmctld: Processing Reconfiguration Request";
    let late = |end: &str| {
        let sandbox = answering("", "slurm_reconfigure error: Socket timed out on send/recv operation\n", 1);
        // Not over at the first look, and over at the second.
        sandbox.program("journalctl", &format!("{asked}; test -e $ROOT/seen && echo '{end}'; touch $ROOT/seen"));
        scontrol::reconfigure(&sandbox.machine().writer(), STATE)
    };
    assert_eq!(late("slurmctld: Relinquishing control to new slurmctld process"), Reconfigure::Accepted);
    let reason = "fatal: something wrong with topology.conf".to_owned();
    assert_eq!(late(&format!("slurmctld: {reason}")), Reconfigure::Refused { reason });
}

#[test]
fn a_client_that_broke_refuses_nothing() {
    for script in ["kill -9 $$", "echo 'scontrol: symbol lookup error: undefined symbol' >&2; exit 127", "exit 1"] {
        let sandbox = Sandbox::new();
        sandbox.program("scontrol", script);
        let outcome = scontrol::reconfigure(&sandbox.machine().writer(), STATE);
        assert!(matches!(outcome, Reconfigure::Unknown { .. }), "{script}: {outcome:?}");
    }
}

#[test]
fn slurmctld_is_left_alone_while_its_store_cannot_be_written() {
    let sandbox = answering("", "", 0);
    let outcome = scontrol::reconfigure(&sandbox.machine().writer(), "/etc/passwd");
    assert_eq!(outcome, Reconfigure::Unknown { why: "/etc/passwd cannot be written by slurm".to_owned() });
    assert!(!sandbox.calls().iter().any(|call| call.starts_with("scontrol")));
}

#[test]
fn the_reason_of_a_refused_reconfigure_comes_from_the_journal() {
    for (journal, expected) in [
        (
            "slurmctld: error: Configured MailProg is invalid\nslurmctld: fatal: _build_single_partitionline_info: duplicate entry for partition compute\nslurmctld: error: Resuming operation, reconfigure failed.\n",
            "fatal: _build_single_partitionline_info: duplicate entry for partition compute",
        ),
        (
            "slurmctld: fatal: an older one\nslurmctld: Processing Reconfiguration Request\nslurmctld: error: _find_node_record: lookup failure for node \"nosuch\"\nslurmctld: fatal: Invalid node names in partition p2\nslurmctld: error: Resuming operation, reconfigure failed.\n",
            "_find_node_record: lookup failure for node \"nosuch\" / fatal: Invalid node names in partition p2",
        ),
        (
            "[2025-11-16T10:00:00.000] error: Couldn't find the specified plugin name for sched/nosuch looking at all files\n[2025-11-16T10:00:00.000] error: failed to initialize sched plugin\n[2025-11-16T10:00:00.000] fatal: Failed to initialize the various schedulers\n[2025-11-16T10:00:00.000] error: Resuming operation, reconfigure failed.\n",
            "Couldn't find the specified plugin name for sched/nosuch looking at all files / fatal: Failed to initialize the various schedulers",
        ),
        ("", "slurm_reconfigure error: Unspecified error"),
    ] {
        let sandbox = answering("", "slurm_reconfigure error: Unspecified error\n", 1);
        sandbox.answer("journalctl", journal, "", 0);
        let outcome = scontrol::reconfigure(&sandbox.machine().writer(), STATE);
        assert_eq!(outcome, Reconfigure::Refused { reason: expected.to_owned() });
        assert!(
            sandbox.calls()[1]
                .starts_with("journalctl --unit=slurmctld.service --output=cat --no-pager --quiet --since=@")
        );
    }
}

#[test]
fn a_journal_that_lags_behind_is_read_again() {
    let sandbox = answering("", "slurm_reconfigure error: Unspecified error\n", 1);
    let whole = "slurmctld: Processing Reconfiguration Request\nslurmctld: error: Configured MailProg is invalid\n\
                 slurmctld: error: Couldn't find the specified plugin name for sched/nosuch\n\
                 slurmctld: fatal: failed to initialize sched plugin\n\
                 slurmctld: error: Resuming operation, reconfigure failed.\n";
    sandbox.file("/journal", whole);
    // One more line each time.
    sandbox.program("journalctl", "echo >> $ROOT/seen; head -n $(wc -l < $ROOT/seen) $ROOT/journal");
    let reason = "Couldn't find the specified plugin name for sched/nosuch / fatal: failed to initialize sched plugin";
    let outcome = scontrol::reconfigure(&sandbox.machine().writer(), STATE);
    assert_eq!(outcome, Reconfigure::Refused { reason: reason.to_owned() });
}

#[test]
fn a_node_and_a_partition_are_judged_without_a_cluster_and_leave_nothing() {
    let sandbox = Sandbox::new();
    sandbox.file("/run/keep", "").program("scontrol", "cp $SLURM_CONF $ROOT/seen; echo slurm-wlm 24.11.5");
    let machine = sandbox.machine();
    let seen = || std::fs::read_to_string(sandbox.path("seen")).unwrap();
    let node = Node::from_config("CPUs=2 NewKey=1").unwrap();
    assert_eq!(scontrol::judge_node(&machine.host(), &node), Candidate::Readable);
    assert!(seen().ends_with("\nNodeName=candidate CPUs=2 newkey=1\n"), "{}", seen());
    let partition = Partition::from_config("compute", "MaxTime=60").unwrap();
    assert_eq!(scontrol::judge_partition(&machine.host(), &partition), Candidate::Readable);
    assert!(seen().ends_with("\nPartitionName=compute Nodes=compute MaxTime=60\n"), "{}", seen());
    assert_eq!(std::fs::read_dir(sandbox.path("run")).unwrap().count(), 1, "nothing is left");
}

#[test]
fn a_verdict_names_the_key_and_not_the_place_of_the_candidate() {
    let said = "echo \"scontrol: error: Parsing error at unrecognized key: MaxTim\" >&2
        echo \"scontrol: error: Parse error in file $SLURM_CONF line 4: MaxTim=60\" >&2
        echo \"scontrol: fatal: Unable to process configuration file\" >&2; exit 1";
    let sandbox = Sandbox::new();
    sandbox.program("scontrol", said);
    let partition = Partition::from_config("compute", "MaxTim=60").unwrap();
    let reason = "Parsing error at unrecognized key: MaxTim".to_owned();
    let judged = scontrol::judge_partition(&sandbox.machine().host(), &partition);
    assert_eq!(judged, Candidate::Refused { reason });
}

#[test]
fn single_settings_of_a_node_are_changed_in_place() {
    let sandbox = answering("", "", 0);
    let machine = sandbox.machine();
    scontrol::set_node_weight(&machine.writer(), &compute_0(), 7).unwrap();
    scontrol::set_node_features(&machine.writer(), &compute_0(), &["compute", "fast"]).unwrap();
    scontrol::set_node_comment(&machine.writer(), &compute_0(), "a\nb").unwrap();
    scontrol::set_node_reason(&machine.writer(), &compute_0(), "disk").unwrap();
    scontrol::fail_node(&machine.writer(), &compute_0(), "disk").unwrap();
    let expected = [
        "scontrol update nodename=compute-0 weight=7",
        "scontrol update nodename=compute-0 availablefeatures=compute,fast activefeatures=compute,fast",
        "scontrol update nodename=compute-0 comment=a b",
        "scontrol update nodename=compute-0 reason=disk",
        "scontrol update nodename=compute-0 state=fail reason=disk",
    ];
    assert_eq!(sandbox.calls(), expected);
}

#[test]
fn a_reboot_that_slurm_skips_with_success_is_refused() {
    use slurm_ops::scontrol::AfterReboot;
    let sandbox = answering("", "", 0);
    let writer = sandbox.machine().writer();
    scontrol::reboot_node(&writer, &compute_0(), true, AfterReboot::Resume, Some("new kernel")).unwrap();
    scontrol::reboot_node(&writer, &compute_0(), false, AfterReboot::Nothing, None).unwrap();
    scontrol::cancel_reboot(&writer, &compute_0()).unwrap();
    let expected = [
        "scontrol reboot ASAP nextstate=RESUME reason=new kernel compute-0",
        "scontrol reboot compute-0",
        "scontrol cancel_reboot compute-0",
    ];
    assert_eq!(sandbox.calls(), expected);
    let skips = "scontrol: error: Skipping reboot of nodes compute-0 due to current node state.\n";
    let skipped = answering("", skips, 0);
    let told = scontrol::reboot_node(&skipped.machine().writer(), &compute_0(), true, AfterReboot::Down, None);
    assert!(matches!(told, Err(ScontrolError::Refused { reason, .. }) if reason.contains("Skipping reboot")));
}

/// As 24.11 answers: with success, whatever happened.
#[test]
fn a_job_has_no_process_only_if_its_nodes_say_so() {
    use slurm_ops::scontrol::{JobProcesses, JobRecord};
    // Slurm names such a host for every job, also for one that has no script.
    let job = |nodes: &str, script: bool| -> JobRecord {
        serde_json::from_value(serde_json::json!({
            "job_id": 2, "name": "test", "user_name": "ubuntu", "partition": "compute", "job_state": ["RUNNING"],
            "nodes": nodes, "required_nodes": "", "start_time": {"set": true, "infinite": false, "number": 7},
            "batch_flag": script, "batch_host": "compute-0",
        }))
        .unwrap()
    };
    let single = job("compute-0", true);
    assert_eq!(single.began(), Some(7));
    let answered = |job: &JobRecord, stdout: &str, stderr: &str, code: i32| {
        let sandbox = Sandbox::new();
        sandbox.answer("sstat", stdout, stderr, code);
        scontrol::job_processes(&sandbox.machine().host(), job)
    };
    let asked = |stdout: &str, stderr: &str, code: i32| answered(&single, stdout, stderr, code);
    assert_eq!(asked("2.batch|205,204\n", "", 0), JobProcesses::Present);
    let absent = JobProcesses::Absent { node: "compute-0".to_owned() };
    // The script of a job is on one node, and so is everything of a job that has no other.
    for (nodes, script) in [("compute-0", true), ("compute-[0-1]", true), ("compute-0", false)] {
        assert_eq!(answered(&job(nodes, script), "", "", 0), absent, "{nodes}");
    }
    // Nothing is said about a step of which one node has nothing left, although the others have.
    let unknown = answered(&job("compute-[0-1]", false), "", "", 0);
    assert!(matches!(unknown, JobProcesses::Unknown { .. }), "{unknown:?}");
    for (stdout, stderr, code) in [
        ("", "sstat: error: problem getting step_layout for StepId=2.batch: Communication connection failure\n", 0),
        ("", "sstat: error: couldn't get steps for job 2\n", 0),
        ("", "sstat: error: No steps running for job 2\n", 0),
        ("", "", 1),
        ("2.batch|\n", "", 0),
    ] {
        let found = asked(stdout, stderr, code);
        assert!(matches!(found, JobProcesses::Unknown { .. }), "{stdout:?} {stderr:?}: {found:?}");
    }
}
