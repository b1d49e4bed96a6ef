//! Jobs, their records and their processes, reservations, and machines that fall silent: the habits of Slurm that cost
//! something when a node or a partition leaves.

use crate::slurm_tests::{Lab, SLURMCTLD, SLURMD, conf, run};
use crate::{FakeJob, FakeMachine};
use serde_json::Value;
use slurm_ops::scontrol::{self, LocalJobs};
use std::time::Duration;

fn queue(machine: &FakeMachine, words: &[&str]) -> Vec<Value> {
    let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
    let answer: Value = serde_json::from_str(&run(machine, "squeue", &words).unwrap()).unwrap();
    answer["jobs"].as_array().unwrap().clone()
}

fn ids(machine: &FakeMachine, words: &[&str]) -> Vec<u64> {
    queue(machine, words).iter().map(|job| job["job_id"].as_u64().unwrap()).collect()
}

impl Lab {
    /// The partition is gone at run time and from the file.
    fn drop_partition(&self) -> Result<String, String> {
        self.controller.scontrol(&["delete", "partitionname=b"]);
        self.controller.write("/etc/slurm/slurm.conf", &conf(&["a"]));
        self.controller.ask_scontrol(&["reconfigure"])
    }

    fn with_two_partitions() -> Self {
        let lab = Self::new();
        lab.controller.write("/etc/slurm/slurm.conf", &conf(&["a", "b"]));
        lab.controller.scontrol(&["reconfigure"]);
        lab
    }

    fn steps(&self) -> LocalJobs {
        scontrol::local_jobs(&self.node.machine().host(), &"n-0".parse().unwrap())
    }
}

#[test]
fn of_an_ended_job_a_record_stays_until_it_ages_out() {
    let lab = Lab::new();
    let (ended, waits) =
        (lab.slurm.submit(FakeJob::running("a", "n-0")), lab.slurm.submit(FakeJob::waiting("a", "Resources")));
    lab.slurm.end_job(ended);
    assert_eq!(lab.slurm.jobs(), [waits]);
    assert_eq!(ids(&lab.controller, &[]), [waits]);
    for all in [&["-t", "all"][..], &["--states=all"]] {
        assert_eq!(ids(&lab.controller, all), [ended, waits]);
    }
    assert_eq!(ids(&lab.controller, &["-t", "PENDING"]), [waits]);
    assert_eq!(queue(&lab.controller, &["--states=COMPLETED"])[0]["job_state"][0], "COMPLETED");
    assert_eq!(lab.nodes(), ["n-0 IDLE+DYNAMIC_NORM"]);
    lab.crash();
    assert_eq!(lab.slurm.job_records(), [ended, waits]);
    lab.slurm.age_out();
    assert_eq!(lab.slurm.job_records(), [waits]);
}

#[test]
fn a_record_says_whose_it_is_and_how_long_it_may_take() {
    let lab = Lab::new();
    let job = FakeJob {
        user: "alice".to_owned(),
        limit: Some(90),
        array: Some((7, 2)),
        required: "n-0".to_owned(),
        ..FakeJob::running("a", "n-0")
    };
    lab.slurm.submit(job);
    lab.slurm.submit(FakeJob::waiting("a", "Resources"));
    let shown = queue(&lab.controller, &[]);
    assert_eq!((&shown[0]["user_name"], &shown[0]["required_nodes"]), (&"alice".into(), &"n-0".into()));
    assert_eq!(shown[0]["time_limit"], serde_json::json!({"set": true, "infinite": false, "number": 90}));
    let number = |job: usize, key: &str| shown[job][key]["number"].as_u64().unwrap();
    assert_eq!(number(0, "end_time"), number(0, "start_time") + 90 * 60);
    assert_eq!((number(0, "array_job_id"), number(0, "array_task_id")), (7, 2));
    assert_eq!((number(1, "end_time"), &shown[1]["time_limit"]["infinite"]), (0, &true.into()));
    let record = &scontrol::jobs(&lab.controller.machine().host()).unwrap()[0];
    assert_eq!(record.handle(), "7_2");
    scontrol::cancel_jobs(&lab.controller.machine().writer(), [record.handle()]).unwrap();
    assert_eq!(lab.slurm.jobs(), [2]);
}

#[test]
fn a_job_ends_by_itself_when_its_time_has_passed() {
    let lab = Lab::new();
    lab.slurm.submit(FakeJob::running("a", "n-0").lasting(2));
    lab.slurm.submit(FakeJob { limit: Some(3), ..FakeJob::running("a", "n-0") });
    let pause = |seconds| lab.node.machine().writer().pause(Duration::from_secs(seconds));
    let began = lab.controller.machine().host().now();
    pause(60);
    assert!(lab.controller.machine().host().now() >= began + 60, "the clocks of a cluster agree");
    assert_eq!(lab.slurm.jobs(), [1, 2]);
    pause(60);
    assert_eq!(lab.slurm.jobs(), [2]);
    pause(60);
    let states: Vec<Value> =
        queue(&lab.controller, &["-t", "all"]).iter().map(|job| job["job_state"][0].clone()).collect();
    assert_eq!(states, ["COMPLETED", "TIMEOUT"]);
    assert!(lab.slurm.losses().is_empty());
}

#[test]
fn a_job_that_completes_slowly_keeps_its_node() {
    let lab = Lab::new();
    let job = lab.slurm.submit(FakeJob::running("a", "n-0"));
    lab.slurm.complete_slowly(job);
    assert_eq!(lab.nodes(), ["n-0 IDLE+COMPLETING+DYNAMIC_NORM"]);
    assert_eq!(queue(&lab.controller, &[])[0]["job_state"][1], "COMPLETING");
    assert!(lab.refused(&["delete", "nodename=n-0"]).contains("busy"));
    assert_eq!(lab.steps(), LocalJobs::Known(vec![job]));
    lab.slurm.end_job(job);
    lab.controller.scontrol(&["delete", "nodename=n-0"]);
}

#[test]
fn slurmctld_does_not_survive_the_record_of_an_ended_job_whose_partition_is_gone() {
    let lab = Lab::with_two_partitions();
    let job = lab.slurm.submit(FakeJob::running("b", "n-0"));
    lab.slurm.end_job(job);
    // Nobody is warned: the job has ended.
    assert!(lab.drop_partition().is_ok());
    lab.controller.crash(SLURMCTLD);
    lab.controller.revive(SLURMCTLD);
    assert!(!lab.controller.is_running(SLURMCTLD) && !lab.controller.take_over());
    assert!(run(&lab.controller, "journalctl", &["-u"]).unwrap().contains("Invalid partition (b) for JobId=1"));
}

#[test]
fn a_partition_whose_records_have_aged_out_goes_without_a_trace() {
    let lab = Lab::with_two_partitions();
    let job = lab.slurm.submit(FakeJob::running("b", "n-0"));
    lab.slurm.end_job(job);
    lab.slurm.age_out();
    assert!(lab.drop_partition().is_ok());
    lab.crash();
    lab.controller.crash(SLURMCTLD);
    assert!(lab.controller.take_over());
    assert_eq!((lab.slurm.partitions().len(), lab.slurm.node_sets()), (1, vec!["a".to_owned()]));
    assert!(lab.slurm.losses().is_empty());
}

#[test]
fn processes_of_a_job_are_seen_on_its_machine_while_slurmctld_is_gone() {
    let lab = Lab::new();
    let job = lab.slurm.submit(FakeJob::running("a", "n-0"));
    lab.slurm.submit(FakeJob::waiting("a", "Resources"));
    let process = format!("/proc/{}/cmdline", 20_000 + job);
    assert_eq!(lab.node.read(&process).unwrap(), format!("slurmstepd: [{job}.batch]\0"));
    assert!(lab.controller.read(&process).is_none() && lab.node.read("/proc/1/cmdline").is_some());
    lab.controller.crash(SLURMCTLD);
    assert_eq!(slurm_ops::scontrol::jobs_at_work(&lab.node.machine().host()).unwrap(), [job].into());
    assert_eq!(lab.steps(), LocalJobs::Known(vec![job]));
    lab.systemctl(&lab.node, "stop", SLURMD);
    assert!(matches!(lab.steps(), LocalJobs::Unknown { .. }) && lab.node.read(&process).is_some());
    // It ends while nobody listens, and slurmctld hears of it when it is back.
    lab.slurm.end_job(job);
    let at_work = || slurm_ops::scontrol::jobs_at_work(&lab.node.machine().host()).unwrap();
    assert!(lab.node.read(&process).is_some() && at_work().is_empty());
    lab.controller.revive(SLURMCTLD);
    assert!(lab.node.read(&process).is_none());
    assert_eq!((lab.slurm.jobs(), lab.slurm.losses()), (vec![2], vec![]));
}

#[test]
fn a_reservation_goes_with_its_last_node_and_keeps_the_name_of_any_other() {
    let lab = Lab::new();
    lab.controller.add_node("n-1", "a");
    lab.slurm.reserve("alone", "n-0");
    lab.slurm.reserve("both", "n-[0-1]");
    let host = lab.node.machine().host();
    let naming = |node: &str| scontrol::reservations_naming(&host, &node.parse().unwrap()).unwrap();
    assert_eq!(naming("n-0").iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["alone", "both"]);
    lab.crash();
    lab.controller.scontrol(&["delete", "nodename=n-0"]);
    assert_eq!(lab.slurm.reservations(), ["both"]);
    assert_eq!(lab.slurm.losses(), ["reservation alone: destroyed with n-0"]);
    lab.controller.scontrol(&["delete", "reservationname=both"]);
    assert!(lab.slurm.reservations().is_empty());
}

#[test]
fn a_partition_takes_and_starts_jobs_according_to_its_state() {
    for (state, takes, starts) in
        [("UP", true, true), ("DOWN", true, false), ("DRAIN", false, true), ("INACTIVE", false, false)]
    {
        let lab = Lab::new();
        let waits = lab.slurm.sbatch(FakeJob::waiting("a", "Priority")).unwrap();
        lab.controller.scontrol(&["update", "partitionname=a", &format!("state={state}")]);
        assert_eq!(lab.slurm.sbatch(FakeJob::waiting("a", "Priority")).is_ok(), takes, "{state}");
        let words = ["--nodelist=n-0", "--partition=a", "--mem=1"];
        assert_eq!(run(&lab.node, "srun", &words).is_ok(), state == "UP");
        let started = lab.slurm.schedule();
        assert_eq!(started, if starts { vec![waits] } else { vec![] }, "{state}");
        assert_eq!(lab.slurm.partitions()["a"], state);
    }
}

#[test]
fn a_drained_node_is_given_no_job() {
    let lab = Lab::new();
    lab.slurm.submit(FakeJob::insisting("a", "n-0"));
    lab.node.scontrol(&["update", "nodename=n-0", "state=drain", "reason=leaving"]);
    assert!(lab.slurm.schedule().is_empty());
    lab.node.scontrol(&["update", "nodename=n-0", "state=resume"]);
    assert_eq!(lab.slurm.schedule(), [1]);
    assert_eq!(lab.steps(), LocalJobs::Known(vec![1]));
}

#[test]
fn a_drained_node_that_falls_silent_keeps_its_reason() {
    let lab = Lab::new();
    lab.node.scontrol(&["update", "nodename=n-0", "state=drain", "reason=leaving"]);
    lab.node.crash(SLURMD);
    lab.slurm.time_out();
    assert_eq!(lab.nodes(), ["n-0 DOWN+DRAIN+DYNAMIC_NORM+NOT_RESPONDING"]);
    lab.node.revive(SLURMD);
    assert_eq!(lab.nodes(), ["n-0 IDLE+DRAIN+DYNAMIC_NORM"]);
    assert_eq!(lab.slurm.reason("n-0"), "leaving");
}

#[test]
fn a_node_that_stays_silent_is_down_and_its_jobs_are_lost_by_its_machine() {
    let lab = Lab::new();
    lab.slurm.submit(FakeJob::running("a", "n-0"));
    lab.node.crash(SLURMD);
    assert_eq!(lab.nodes(), ["n-0 MIXED+DYNAMIC_NORM+NOT_RESPONDING"]);
    lab.slurm.time_out();
    assert_eq!(lab.nodes(), ["n-0 DOWN+DYNAMIC_NORM+NOT_RESPONDING"]);
    assert_eq!(lab.slurm.losses(), ["job 1: machine of n-0 is silent"]);
    assert!(lab.slurm.jobs().is_empty());
    lab.node.revive(SLURMD);
    assert_eq!(lab.nodes(), ["n-0 IDLE+DYNAMIC_NORM"]);
}

#[test]
fn a_node_that_is_set_down_loses_its_jobs() {
    let lab = Lab::new();
    lab.slurm.submit(FakeJob::running("a", "n-0"));
    lab.node.scontrol(&["update", "nodename=n-0", "state=down", "reason=force"]);
    assert_eq!(lab.slurm.losses(), ["job 1: NODE_FAIL, n-0 was set down"]);
    lab.node.scontrol(&["delete", "nodename=n-0"]);
}
