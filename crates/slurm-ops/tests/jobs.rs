//! Jobs, reservations and partitions: recorded answers of real Slurm tools, and every way of not getting an answer.

mod support;

use slurm_conf::{NodeName, PartitionName};
use slurm_ops::scontrol::{self, JobPhase, JobRecord, LocalJobs, PartitionState, Refusal, ScontrolError};
use support::Sandbox;

const CONNECT_FAILURE: &str = "error: Unable to contact slurm controller (connect failure)\n";

fn node(name: &str) -> NodeName {
    NodeName::new(name).expect("a node name")
}

fn compute() -> PartitionName {
    PartitionName::new("compute").expect("a partition name")
}

fn answering(program: &str, stdout: &str, stderr: &str, code: i32) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.answer(program, stdout, stderr, code);
    sandbox
}

#[test]
fn jobs_say_where_they_run_and_what_they_wait_for() {
    let sandbox = answering("squeue", include_str!("recorded/jobs.json"), "", 0);
    let jobs = scontrol::jobs(&sandbox.machine().host()).unwrap();
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    let running = &jobs[0];
    assert!(running.has("running") && !running.waits_for(&node("compute-0")));
    assert_eq!((running.nodes.as_str(), running.user.as_str()), ("compute-0", "root"));
    assert_eq!((jobs[1].partition.as_str(), jobs[1].reason.as_str()), ("compute", "Resources"));
    let waiting = |name: &str| {
        let jobs = scontrol::jobs_waiting_for(&sandbox.machine().host(), &node(name)).unwrap();
        jobs.iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(waiting("compute-0"), [2, 3]);
    assert_eq!(waiting("compute-1"), [3]);
    assert!(waiting("compute-2").is_empty());
    assert_eq!(sandbox.calls()[0], "squeue --json=v0.0.42");
    assert_eq!(sandbox.calls()[1], "squeue -t PENDING --json=v0.0.42");
}

#[test]
fn the_record_of_a_job_says_how_far_it_has_come() {
    let record = |state: &str, partition: &str| -> JobRecord {
        let record = serde_json::json!({
            "job_id": 7, "name": "test", "user_name": "ubuntu", "partition": partition, "nodes": "compute-[0-1]",
            "required_nodes": "", "job_state": state.split('+').collect::<Vec<_>>(),
        });
        serde_json::from_value(record).unwrap()
    };
    for (state, phase) in [
        ("PENDING", JobPhase::Waiting),
        ("PENDING+REQUEUED", JobPhase::Waiting),
        ("PENDING+COMPLETING", JobPhase::Active),
        ("RUNNING", JobPhase::Active),
        ("SUSPENDED", JobPhase::Active),
        ("COMPLETED+COMPLETING", JobPhase::Active),
        ("SOMETHING_NEW", JobPhase::Active),
        ("COMPLETED", JobPhase::Ended),
        ("CANCELLED", JobPhase::Ended),
        ("NODE_FAIL", JobPhase::Ended),
    ] {
        let job = record(state, "compute");
        assert_eq!(job.phase(), phase, "{state}");
        assert_eq!(job.is_on(&node("compute-1")), phase == JobPhase::Active, "{state}");
        assert!(!job.is_on(&node("compute-2")));
    }
    assert!(record("PENDING", "gpu,compute").names_partition(&compute()));
    assert!(!record("PENDING", "gpu,compute2").names_partition(&compute()));
}

#[test]
fn every_record_is_asked_for() {
    let sandbox = answering("squeue", include_str!("recorded/jobs.json"), "", 0);
    assert_eq!(scontrol::job_records(&sandbox.machine().host()).unwrap().len(), 5);
    assert_eq!(sandbox.calls(), ["squeue --all --states=all --json=v0.0.42"]);
}

#[test]
fn the_state_of_a_partition_is_read_in_slurms_words() {
    let read = |word| PartitionState::from_shown(word);
    assert_eq!(read("UP"), Some(PartitionState::Up));
    assert_eq!(read("inactive"), Some(PartitionState::Inactive));
    assert_eq!(read("ODD"), None);
}

#[test]
fn the_jobs_of_a_node_are_asked_for() {
    let sandbox = answering("squeue", include_str!("recorded/jobs-on-node.json"), "", 0);
    assert_eq!(scontrol::jobs_on(&sandbox.machine().host(), &node("compute-0")).unwrap().len(), 1);
    assert_eq!(sandbox.calls(), ["squeue -w compute-0 --json=v0.0.42"]);
}

#[test]
fn a_question_without_answer_is_never_no_jobs() {
    let unknown = answering("squeue", "", "squeue: error: Invalid node name nosuch\n", 1);
    let error = scontrol::jobs_on(&unknown.machine().host(), &node("nosuch")).unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::NoSuchNode));
    for (stdout, stderr, code) in [("", CONNECT_FAILURE, 1), ("", "", 0), ("{}", "", 0), ("{\"jobs\": [{}]}", "", 0)] {
        let sandbox = answering("squeue", stdout, stderr, code);
        let outcome = scontrol::jobs_on(&sandbox.machine().host(), &node("compute-0"));
        assert!(matches!(outcome, Err(ScontrolError::Unreachable { .. })), "{stdout} {stderr}: {outcome:?}");
    }
}

#[test]
fn the_jobs_a_node_knows_itself_are_asked_for_by_its_name() {
    let sandbox = answering("scontrol", include_str!("recorded/local-jobs.json"), "", 0);
    assert_eq!(scontrol::local_jobs(&sandbox.machine().host(), &node("compute-0")), LocalJobs::Known(vec![1]));
    assert_eq!(sandbox.calls(), ["scontrol listjobs compute-0 --json=v0.0.42"]);
    let none = include_str!("recorded/local-jobs-none.json");
    let sandbox = answering("scontrol", none, "", 0);
    assert_eq!(scontrol::local_jobs(&sandbox.machine().host(), &node("compute-0")), LocalJobs::Known(vec![]));
    let elsewhere = "scontrol: error: Domain socket directory /var/lib/slurm/slurmd: No such file or directory\n";
    for (stdout, stderr, code) in
        [(none, elsewhere, 0), ("", "scontrol: fatal: Could not establish a configuration source\n", 1), ("", "", 0)]
    {
        let sandbox = answering("scontrol", stdout, stderr, code);
        let found = scontrol::local_jobs(&sandbox.machine().host(), &node("compute-0"));
        assert!(matches!(found, LocalJobs::Unknown { .. }), "{stderr}: {found:?}");
    }
}

#[test]
fn reservations_that_name_a_node_are_found() {
    let sandbox = answering("scontrol", include_str!("recorded/reservations.json"), "", 0);
    let naming = |name: &str| scontrol::reservations_naming(&sandbox.machine().host(), &node(name)).unwrap();
    assert_eq!(naming("compute-1")[0].name, "maint");
    assert!(naming("compute-0").is_empty());
    let none = answering("scontrol", include_str!("recorded/reservations-none.json"), "", 0);
    assert!(scontrol::reservations(&none.machine().host()).unwrap().is_empty());
    let silent = answering("scontrol", "", CONNECT_FAILURE, 1);
    assert!(matches!(scontrol::reservations(&silent.machine().host()), Err(ScontrolError::Unreachable { .. })));
}

#[test]
fn partitions_are_listed() {
    let up = answering("scontrol", include_str!("recorded/partition.json"), "", 0);
    let found = &scontrol::partitions(&up.machine().host()).unwrap()[0];
    assert_eq!((found.state.as_str(), found.nodes.as_str()), ("UP", "compute-[0-1]"));
    let drained = answering("scontrol", include_str!("recorded/partition-drained.json"), "", 0);
    assert_eq!(scontrol::partitions(&drained.machine().host()).unwrap()[0].state, "DRAIN");
    for (stdout, stderr, code) in [("", CONNECT_FAILURE, 1), ("", "", 0), ("", "never seen before\n", 1)] {
        let found = scontrol::partitions(&answering("scontrol", stdout, stderr, code).machine().host());
        assert!(found.is_err(), "{found:?}");
    }
}

#[test]
fn a_partition_is_closed_opened_and_deleted() {
    let sandbox = answering("scontrol", "", "", 0);
    scontrol::set_partition_state(&sandbox.machine().writer(), &compute(), PartitionState::Drain).unwrap();
    scontrol::set_partition_state(&sandbox.machine().writer(), &compute(), PartitionState::Up).unwrap();
    scontrol::delete_partition(&sandbox.machine().writer(), &compute()).unwrap();
    let expected = [
        "scontrol update partitionname=compute state=drain",
        "scontrol update partitionname=compute state=up",
        "scontrol delete partitionname=compute",
    ];
    assert_eq!(sandbox.calls(), expected);
    let gone =
        answering("scontrol", "", "delete_partition partitionname=compute: Invalid partition name specified\n", 1);
    assert_eq!(scontrol::delete_partition(&gone.machine().writer(), &compute()), Ok(()));
    let busy = answering("scontrol", "", "delete_partition partitionname=compute: Partition is in use\n", 1);
    let error = scontrol::delete_partition(&busy.machine().writer(), &compute()).unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::PartitionBusy));
    let absent = answering("scontrol", "", "slurm_update error: Invalid partition name specified\n", 1);
    let error = scontrol::set_partition_state(&absent.machine().writer(), &compute(), PartitionState::Up).unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::NoSuchPartition));
}

#[test]
fn partitions_are_saved_without_changing_any() {
    const SAVED: &str = "/state/part_state";
    let sandbox = Sandbox::new();
    sandbox.file("/state/other", "");
    let shown = "PartitionName=compute AllowGroups=ALL LLN=NO MaxTime=UNLIMITED State=UP";
    let script = format!("case $1 in --oneliner) echo {shown} ;; update) echo saved > $ROOT/state/part_state ;; esac");
    sandbox.program("scontrol", &script);
    let known = scontrol::partition_settings(&sandbox.machine().host()).unwrap();
    assert_eq!(scontrol::save_partitions(&sandbox.machine().writer(), &compute(), &known, SAVED), Ok(true));
    let expected = ["scontrol --oneliner show partition", "scontrol update partitionname=compute LLN=NO"];
    assert_eq!(sandbox.calls(), expected);
    let absent = "absent".parse().unwrap();
    let error = scontrol::save_partitions(&sandbox.machine().writer(), &absent, &known, SAVED).unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::NoSuchPartition));
}

/// What slurmctld says of jobs that run: number, array, task.
fn running(jobs: &[(u64, u64, Option<u64>)]) -> Vec<JobRecord> {
    let record = |&(id, array, task): &(u64, u64, Option<u64>)| {
        serde_json::json!({
            "job_id": id, "name": "j", "user_name": "u", "partition": "p", "job_state": ["RUNNING"], "nodes": "n", "required_nodes": "",
            "array_job_id": {"set": true, "infinite": false, "number": array},
            "array_task_id": {"set": task.is_some(), "infinite": false, "number": task.unwrap_or_default()},
        })
    };
    jobs.iter().map(|job| serde_json::from_value(record(job)).expect("a record")).collect()
}

fn handles(jobs: &[JobRecord]) -> Vec<String> {
    jobs.iter().map(JobRecord::handle).collect()
}

#[test]
fn a_job_without_a_time_limit_has_no_end() {
    let record = |limit: &str| {
        let number = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let mut job = serde_json::to_value(serde_json::json!({
            "job_id": 7, "name": "j", "user_name": "u", "partition": "p", "job_state": ["RUNNING"], "nodes": "n",
            "required_nodes": "", "end_time": {"set": true, "infinite": false, "number": 1_794_850_942_u64},
        }))
        .unwrap();
        job["time_limit"] = number(limit);
        serde_json::from_value::<JobRecord>(job).unwrap().ends()
    };
    assert_eq!(record(r#"{"set": true, "infinite": false, "number": 60}"#), Some(1_794_850_942));
    assert_eq!(record(r#"{"set": true, "infinite": true, "number": 0}"#), None);
}

#[test]
fn a_task_of_an_array_is_cancelled_alone() {
    // The last task that was started has the array's own number.
    let jobs = running(&[(5, 5, Some(1)), (6, 5, Some(0)), (7, 0, None), (8, 8, None)]);
    assert_eq!(jobs.iter().map(JobRecord::handle).collect::<Vec<_>>(), ["5_1", "5_0", "7", "8"]);
    let sandbox = answering("scancel", "", "", 0);
    scontrol::cancel_jobs(&sandbox.machine().writer(), handles(&jobs[..1])).unwrap();
    assert_eq!(sandbox.calls(), ["scancel 5_1"]);
}

#[test]
fn jobs_are_cancelled_and_those_that_ended_meanwhile_are_no_obstacle() {
    let ended = "scancel: error: Kill job error on job id 7: Invalid job id specified\n\
                 scancel: error: Kill job error on job id 8: Job/step already completing or completed\n";
    for (stderr, code) in [("", 0), (ended, 1)] {
        let sandbox = answering("scancel", "", stderr, code);
        scontrol::cancel_jobs(&sandbox.machine().writer(), handles(&running(&[(7, 0, None), (8, 0, None)]))).unwrap();
        assert_eq!(sandbox.calls(), ["scancel 7 8"]);
    }
    let sandbox = answering("scancel", "", CONNECT_FAILURE, 1);
    let error = scontrol::cancel_jobs(&sandbox.machine().writer(), handles(&running(&[(7, 0, None)]))).unwrap_err();
    assert!(matches!(error, ScontrolError::Unreachable { .. }), "{error:?}");
    scontrol::cancel_jobs(&sandbox.machine().writer(), Vec::new()).unwrap();
    assert_eq!(sandbox.calls().len(), 1, "nobody is asked to cancel nothing");
}

#[test]
fn a_small_job_passes_or_says_why_not() {
    use slurm_ops::scontrol::{Smoke, smoke};
    let (node, partition) = ("compute-0".parse().unwrap(), "compute".parse().unwrap());
    let patience = std::time::Duration::from_secs(61);
    let good = answering("srun", "juju-1\n", "", 0);
    assert_eq!(
        smoke(&good.machine().writer(), &node, &partition, patience),
        Smoke::Passed { said: "juju-1".to_owned() }
    );
    let call = &good.calls()[0];
    for word in ["--nodelist=compute-0", "--partition=compute", "--immediate=61", "--time=1", "--mem=16"] {
        assert!(call.contains(word), "{call}");
    }
    let busy = answering("srun", "", "srun: error: Unable to allocate resources: Requested nodes are busy\n", 1);
    let why = "srun: error: Unable to allocate resources: Requested nodes are busy".to_owned();
    assert_eq!(smoke(&busy.machine().writer(), &node, &partition, patience), Smoke::Busy { why });
    let mute = answering("srun", "", "", 0);
    assert!(matches!(smoke(&mute.machine().writer(), &node, &partition, patience), Smoke::Failed { .. }));
}

#[test]
fn nodes_are_set_to_a_state_with_and_without_a_reason() {
    use slurm_ops::scontrol::{NodeWord, set_nodes_state};
    let sandbox = answering("scontrol", "", "", 0);
    let nodes = "compute-[0-1]".parse().unwrap();
    set_nodes_state(&sandbox.machine().writer(), &nodes, NodeWord::Failing, Some("disk\nstate=idle")).unwrap();
    set_nodes_state(&sandbox.machine().writer(), &nodes, NodeWord::Idle, None).unwrap();
    assert_eq!(
        sandbox.calls(),
        [
            "scontrol update nodename=compute-[0-1] state=failing reason=disk state=idle",
            "scontrol update nodename=compute-[0-1] state=idle"
        ]
    );
}

#[test]
fn a_job_whose_socket_outlived_its_process_is_not_here() {
    let sandbox = Sandbox::new();
    sandbox.answer("scontrol", r#"{"jobs": [{"job_id": 39}, {"job_id": 40}]}"#, "", 0);
    let listed = || scontrol::local_jobs(&sandbox.machine().host(), &node("compute-0"));
    assert_eq!(listed(), LocalJobs::Known(vec![39, 40]), "without a table of processes there is no telling");
    sandbox.file("/proc/1/cmdline", "/sbin/init\0");
    assert_eq!(listed(), LocalJobs::Known(vec![]));
    sandbox.file("/proc/50/cmdline", "slurmstepd: [40.batch]\0\0");
    assert_eq!(listed(), LocalJobs::Known(vec![40]));
    // One that has just been started does not say yet whose it is.
    sandbox.file("/proc/51/cmdline", "/usr/sbin/slurmstepd\0");
    assert_eq!(listed(), LocalJobs::Known(vec![39, 40]));
}
