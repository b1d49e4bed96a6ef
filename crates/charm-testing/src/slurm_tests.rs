//! The habits of the made-up Slurm, each of which a real one showed on a real cluster.

use crate::{FakeJob, FakeMachine, FakeSlurm};
use std::fs;
use std::os::unix::fs::PermissionsExt;

pub(crate) const SLURMCTLD: &str = "slurmctld.service";
pub(crate) const SLURMD: &str = "slurmd.service";
pub(crate) const STATE: &str = "/var/lib/slurm/checkpoint/state";

/// A controller and a node, both running.
pub(crate) struct Lab {
    pub(crate) slurm: FakeSlurm,
    pub(crate) controller: FakeMachine,
    pub(crate) node: FakeMachine,
}

fn keys(id: &str) -> String {
    format!(r#"{{"keys":[{{"alg":"HS256","kty":"oct","kid":"{id}","k":"key-{id}","use":"default"}}]}}"#)
}

fn options(conf: &str) -> String {
    format!("SLURMD_OPTIONS=\"-Z -N n-0 --conf '{conf}' --conf-server c1:6817\"\n")
}

pub(crate) fn conf(partitions: &[&str]) -> String {
    let line = |name: &&str| format!("NodeSet={name} Feature={name}\nPartitionName={name} Nodes={name}\n");
    let lines: String = partitions.iter().map(line).collect();
    format!("ClusterName=lab\nSlurmctldHost=c1\nStateSaveLocation={STATE}\n{lines}")
}

fn machine(slurm: &FakeSlurm, package: &str) -> FakeMachine {
    let machine = FakeMachine::of(&"n/0".parse().unwrap()).called("c1").in_cluster(slurm);
    run(&machine, "apt-get", &["install", package, "slurm-client"]).unwrap();
    machine.write("/etc/slurm/slurm.jwks", &keys("k1"));
    machine
}

/// Makes a machine the node `n-0` of a cluster that has no controller yet, which gets one.
pub(crate) fn join(slurm: &FakeSlurm, node: &FakeMachine) -> FakeMachine {
    let controller = machine(slurm, "slurmctld");
    controller.write("/etc/slurm/slurm.conf", &conf(&["a"]));
    run(node, "apt-get", &["install", "slurmd", "slurm-client"]).unwrap();
    node.write("/etc/slurm/slurm.jwks", &keys("k1"));
    node.write("/etc/default/slurmd", &options("Feature=a RealMemory=900"));
    run(&controller, "systemctl", &["start", "--", SLURMCTLD]).unwrap();
    run(node, "systemctl", &["start", "--", SLURMD]).unwrap();
    assert!(node.is_running(SLURMD));
    controller
}

pub(crate) fn run(machine: &FakeMachine, program: &str, words: &[&str]) -> Result<String, String> {
    let ended = machine.run(program, words).ok_or_else(|| format!("there is no {program}"))?;
    if ended.code == 0 { Ok(String::from_utf8_lossy(&ended.stdout).into_owned()) } else { Err(ended.stderr) }
}

impl Lab {
    pub(crate) fn new() -> Self {
        let slurm = FakeSlurm::new();
        let node = FakeMachine::of(&"n/0".parse().unwrap()).in_cluster(&slurm);
        let controller = join(&slurm, &node);
        let lab = Self { slurm, controller, node };
        assert_eq!(lab.nodes(), ["n-0 IDLE+DYNAMIC_NORM"]);
        lab
    }

    pub(crate) fn systemctl(&self, machine: &FakeMachine, verb: &str, unit: &str) {
        run(machine, "systemctl", &[verb, "--", unit]).unwrap();
    }

    pub(crate) fn nodes(&self) -> Vec<String> {
        self.slurm.nodes().iter().map(|(name, state)| format!("{name} {state}")).collect()
    }

    /// The controller dies without a word, and systemd starts it again.
    pub(crate) fn crash(&self) {
        self.controller.crash(SLURMCTLD);
        self.controller.revive(SLURMCTLD);
        assert!(self.controller.is_running(SLURMCTLD));
    }

    pub(crate) fn told(&self, words: &[&str]) -> String {
        self.node.ask_scontrol(words).unwrap()
    }

    pub(crate) fn refused(&self, words: &[&str]) -> String {
        self.node.ask_scontrol(words).unwrap_err()
    }
}

#[test]
fn a_node_that_is_known_keeps_its_first_description() {
    let lab = Lab::new();
    lab.node.write("/etc/default/slurmd", &options("Feature=a RealMemory=500"));
    lab.systemctl(&lab.node, "restart", SLURMD);
    assert!(lab.told(&["show", "node", "n-0"]).contains("\"real_memory\":900"));
    lab.node.scontrol(&["delete", "nodename=n-0"]);
    lab.systemctl(&lab.node, "restart", SLURMD);
    assert!(lab.told(&["show", "node", "n-0"]).contains("\"real_memory\":500"));
}

#[test]
fn a_partition_that_goes_takes_its_jobs_along() {
    let lab = Lab::new();
    lab.controller.write("/etc/slurm/slurm.conf", &conf(&["a", "b"]));
    lab.controller.scontrol(&["reconfigure"]);
    let kept = lab.controller.submit(FakeJob::running("a", "n-0"));
    lab.controller.submit(FakeJob::running("b", "n-0"));
    lab.controller.submit(FakeJob::waiting("b", "Resources"));
    assert!(lab.refused(&["delete", "partitionname=b"]).contains("Partition is in use"));
    lab.controller.write("/etc/slurm/slurm.conf", &conf(&["a"]));
    lab.controller.scontrol(&["reconfigure"]);
    assert_eq!(lab.slurm.jobs(), [kept]);
    assert_eq!(lab.slurm.losses().len(), 2, "{:?}", lab.slurm.losses());
}

#[test]
fn a_drain_needs_a_reason_which_outlives_the_drain() {
    let lab = Lab::new();
    assert!(lab.refused(&["update", "nodename=n-0", "state=drain"]).contains("You must specify a reason"));
    lab.node.scontrol(&["update", "nodename=n-0", "state=drain", "reason=disk"]);
    assert_eq!(lab.nodes(), ["n-0 IDLE+DRAIN+DYNAMIC_NORM"]);
    lab.node.scontrol(&["update", "nodename=n-0", "state=resume"]);
    assert_eq!(lab.nodes(), ["n-0 IDLE+DYNAMIC_NORM"]);
    assert!(lab.told(&["show", "node", "n-0"]).contains("\"reason\":\"disk\""));
}

#[test]
fn without_a_daemon_beside_it_no_client_works() {
    let lab = Lab::new();
    lab.systemctl(&lab.node, "stop", SLURMD);
    assert!(lab.refused(&["show", "node"]).contains("Could not establish a configuration source"));
    assert_eq!(lab.nodes(), ["n-0 IDLE+DYNAMIC_NORM+NOT_RESPONDING"]);
    // The controller can still be asked for the same.
    assert!(lab.controller.ask_scontrol(&["show", "node"]).is_ok());
    lab.systemctl(&lab.controller, "stop", SLURMCTLD);
    lab.systemctl(&lab.node, "start", SLURMD);
    assert!(!lab.node.is_running(SLURMD), "it waits for a controller");
    assert!(lab.controller.ask_scontrol(&["show", "node"]).is_err());
    lab.systemctl(&lab.controller, "start", SLURMCTLD);
    assert!(lab.node.is_running(SLURMD) && lab.told(&["show", "node"]).contains("n-0"));
}

#[test]
fn a_state_directory_that_is_missing_is_made_and_all_jobs_die() {
    let lab = Lab::new();
    lab.controller.submit(FakeJob::running("a", "n-0"));
    lab.systemctl(&lab.controller, "stop", SLURMCTLD);
    let state = lab.controller.machine().path(STATE);
    fs::remove_dir_all(&state).unwrap();
    lab.systemctl(&lab.controller, "start", SLURMCTLD);
    assert!(state.is_dir() && lab.controller.is_running(SLURMCTLD));
    assert!(lab.nodes().is_empty() && lab.slurm.jobs().is_empty());
    assert_eq!(lab.slurm.losses().len(), 1);
}

#[test]
fn what_systemd_was_told_to_check_keeps_slurmctld_from_that() {
    let lab = Lab::new();
    let guard = format!("[Service]\nExecStartPre=/usr/bin/grep -qxF \"lab here\" {STATE}/.cluster\n");
    lab.controller.write("/etc/systemd/system/slurmctld.service.d/10.conf", &guard);
    lab.controller.crash(SLURMCTLD);
    lab.controller.revive(SLURMCTLD);
    assert!(!lab.controller.is_running(SLURMCTLD));
    lab.controller.write(&format!("{STATE}/.cluster"), "lab here\n");
    lab.controller.revive(SLURMCTLD);
    assert!(lab.controller.is_running(SLURMCTLD));
}

#[test]
fn a_node_that_has_just_come_is_forgotten_in_a_crash_and_does_not_come_back_by_itself() {
    let lab = Lab::new();
    lab.crash();
    assert!(lab.nodes().is_empty());
    lab.controller.scontrol(&["reconfigure"]);
    assert!(lab.nodes().is_empty() && lab.node.is_running(SLURMD));
    lab.systemctl(&lab.node, "reload", SLURMD);
    assert_eq!(lab.nodes().len(), 1);
    // A word about it saves it. So do a reconfigure, a clean stop, and a job.
    lab.node.scontrol(&["update", "nodename=n-0", "comment=joined"]);
    lab.crash();
    assert_eq!(lab.nodes().len(), 1);
    let ways: [&dyn Fn(); 3] = [
        &|| lab.controller.scontrol(&["reconfigure"]),
        &|| lab.systemctl(&lab.controller, "restart", SLURMCTLD),
        &|| assert_eq!(lab.node.submit(FakeJob::waiting("a", "Resources")), 1),
    ];
    for save in ways {
        lab.node.scontrol(&["delete", "nodename=n-0"]);
        lab.systemctl(&lab.node, "restart", SLURMD);
        save();
        lab.crash();
        assert_eq!(lab.nodes().len(), 1);
    }
}

#[test]
fn a_deleted_node_comes_back_only_with_a_reload_or_a_restart() {
    let lab = Lab::new();
    for verb in ["reload", "restart"] {
        lab.node.scontrol(&["delete", "nodename=n-0"]);
        lab.controller.scontrol(&["reconfigure"]);
        lab.systemctl(&lab.controller, "restart", SLURMCTLD);
        assert!(lab.nodes().is_empty());
        lab.systemctl(&lab.node, verb, SLURMD);
        assert_eq!(lab.nodes().len(), 1, "{verb}");
    }
}

#[test]
fn a_takeover_believes_the_saved_partitions_and_a_start_the_file() {
    let lab = Lab::new();
    lab.controller.write("/etc/slurm/slurm.conf", &conf(&["a"]).replace("Nodes=a", "Nodes=a MaxTime=60"));
    lab.controller.scontrol(&["reconfigure"]);
    assert!(lab.controller.partitions()[0].contains("maxtime=60"));
    // The old process saved what it had, and the new one has saved nothing.
    lab.controller.crash(SLURMCTLD);
    assert!(lab.controller.take_over());
    assert!(lab.controller.partitions()[0].contains("maxtime=UNLIMITED"), "{:?}", lab.controller.partitions());
    lab.controller.crash(SLURMCTLD);
    lab.controller.revive(SLURMCTLD);
    assert!(lab.controller.partitions()[0].contains("maxtime=60"));
    // Any word about a partition saves all of them.
    lab.controller.scontrol(&["update", "partitionname=a", "LLN=NO"]);
    lab.controller.crash(SLURMCTLD);
    assert!(lab.controller.take_over());
    assert!(lab.controller.partitions()[0].contains("maxtime=60"));
}

#[test]
fn a_partition_that_went_in_one_reconfigure_kills_whoever_takes_over() {
    let lab = Lab::new();
    lab.controller.write("/etc/slurm/slurm.conf", &conf(&[]));
    lab.controller.scontrol(&["reconfigure"]);
    lab.controller.crash(SLURMCTLD);
    assert!(!lab.controller.take_over());
    lab.controller.revive(SLURMCTLD);
    assert!(lab.controller.is_running(SLURMCTLD), "the primary itself can start");
}

#[test]
fn a_job_that_insists_on_a_deleted_node_fails_when_the_files_are_read() {
    for restart in [false, true] {
        let lab = Lab::new();
        lab.controller.submit(FakeJob::insisting("a", "n-0"));
        lab.controller.scontrol(&["reconfigure"]);
        lab.node.scontrol(&["delete", "nodename=n-0"]);
        assert_eq!(lab.slurm.jobs().len(), 1);
        match restart {
            true => lab.systemctl(&lab.controller, "restart", SLURMCTLD),
            false => lab.controller.scontrol(&["reconfigure"]),
        }
        assert!(lab.slurm.jobs().is_empty());
        assert_eq!(lab.slurm.losses(), ["job 1: NODE_FAIL, Invalid req_nodes (n-0)"]);
    }
}

#[test]
fn a_node_with_a_job_is_not_deleted() {
    let lab = Lab::new();
    let job = lab.controller.submit(FakeJob::running("a", "n-0"));
    assert!(lab.refused(&["delete", "nodename=n-0"]).contains("Requested nodes are busy"));
    lab.controller.end_job(job);
    lab.node.scontrol(&["delete", "nodename=n-0"]);
    assert!(lab.refused(&["delete", "nodename=n-0"]).contains("Invalid node name specified"));
}

#[test]
fn a_reconfigure_on_a_state_that_cannot_be_written_kills_slurmctld() {
    let lab = Lab::new();
    lab.node.scontrol(&["update", "nodename=n-0", "comment=joined"]);
    let state = lab.controller.machine().path(STATE);
    fs::set_permissions(&state, fs::Permissions::from_mode(0o500)).unwrap();
    // A drain is taken, and not saved.
    lab.node.scontrol(&["update", "nodename=n-0", "state=drain", "reason=disk"]);
    assert!(lab.refused(&["reconfigure"]).contains("slurm_reconfigure error"));
    assert!(!lab.controller.is_running(SLURMCTLD));
    assert!(lab.refused(&["show", "node"]).contains("Unable to contact slurm controller"));
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    lab.controller.revive(SLURMCTLD);
    assert_eq!(lab.nodes(), ["n-0 IDLE+DYNAMIC_NORM"]);
}

#[test]
fn a_node_with_another_key_is_refused() {
    let lab = Lab::new();
    lab.node.write("/etc/slurm/slurm.jwks", &keys("k2"));
    assert!(lab.node.ask_scontrol(&["show", "node"]).is_ok(), "slurmd has not read it yet");
    lab.systemctl(&lab.node, "restart", SLURMD);
    assert!(!lab.node.is_running(SLURMD));
    let journal = |machine: &FakeMachine| run(machine, "journalctl", &["--lines=100"]).unwrap();
    assert!(journal(&lab.node).contains("Protocol authentication error"));
    assert!(journal(&lab.controller).contains("[[n-0]:"));
    // A controller that changes its key loses whoever has the old one.
    lab.node.write("/etc/slurm/slurm.jwks", &keys("k1"));
    lab.systemctl(&lab.node, "restart", SLURMD);
    lab.controller.write("/etc/slurm/slurm.jwks", &keys("k2"));
    lab.controller.scontrol(&["reconfigure"]);
    assert!(lab.refused(&["show", "node"]).contains("Protocol authentication error"));
}

#[test]
fn what_was_set_by_hand_is_lost_when_the_files_are_read() {
    let lab = Lab::new();
    lab.controller.scontrol(&["update", "partitionname=a", "maxtime=33"]);
    lab.controller.scontrol(&["update", "nodename=n-0", "weight=7"]);
    lab.controller.scontrol(&["create", "partitionname=byhand"]);
    lab.controller.scontrol(&["reconfigure"]);
    assert_eq!(lab.controller.partitions().len(), 1);
    assert!(lab.controller.partitions()[0].contains("maxtime=UNLIMITED"));
    assert!(lab.told(&["--oneliner", "show", "node"]).contains("Weight=1 "));
}

#[test]
fn nodes_have_the_configuration_of_their_controller_while_they_run() {
    const FETCHED: &str = "/run/slurm/conf/slurm.conf";
    let lab = Lab::new();
    assert_eq!(lab.node.read(FETCHED), Some(conf(&["a"])));
    lab.controller.write("/etc/slurm/slurm.conf", &conf(&["a", "b"]));
    lab.controller.scontrol(&["reconfigure"]);
    assert_eq!(lab.node.read(FETCHED), Some(conf(&["a", "b"])));
    lab.systemctl(&lab.node, "stop", SLURMD);
    assert_eq!(lab.node.read(FETCHED), None);
}

#[test]
fn a_reboot_starts_what_is_enabled_and_forgets_what_was_in_memory() {
    let lab = Lab::new();
    lab.systemctl(&lab.controller, "enable", SLURMCTLD);
    run(&lab.controller, "systemd-run", &["--unit=x", "--", "true"]).unwrap();
    lab.controller.reboot();
    assert!(lab.controller.is_running(SLURMCTLD) && lab.nodes().is_empty());
    assert!(lab.controller.read("/run/systemd/transient/x.timer").is_none());
    lab.node.reboot();
    assert!(!lab.node.is_running(SLURMD), "it was not enabled");
}

#[test]
fn every_question_to_the_journal_gets_it_once_in_whatever_order() {
    let lab = Lab::new();
    lab.controller.journal("error: one\n");
    let ask = |words: &[&str]| run(&lab.controller, "journalctl", words).unwrap();
    for _ in 0..2 {
        let fresh = ask(&["--unit=a", "--since=@17"]);
        assert_eq!(fresh, ask(&["--unit=a", "--lines=100"]));
        assert_eq!(ask(&["--unit=a", "--since=@18"]), "");
    }
}
