//! Several slurmctld on one store: the habits that cost a cluster its controllers, its jobs or its nodes.

mod outages;

use crate::slurm_tests::{SLURMCTLD, SLURMD, STATE, run};
use crate::{FakeJob, FakeMachine, FakeSlurm, FakeStore};
use slurm_ops::fence::{self, Settings};
use std::fs;

const CONF: &str = "etc-slurm/slurm.conf";

/// Controllers that run, c1 before the others, and a node that has joined and was saved.
struct Lab {
    slurm: FakeSlurm,
    store: FakeStore,
    controllers: Vec<FakeMachine>,
    node: FakeMachine,
}

fn keys(id: &str) -> String {
    format!(r#"{{"keys":[{{"alg":"HS256","kty":"oct","kid":"{id}","k":"key-{id}","use":"default"}}]}}"#)
}

fn conf(hosts: &[&str], partitions: &[&str]) -> String {
    let hosts: String = hosts.iter().map(|host| format!("SlurmctldHost={host}(10.0.0.1)\n")).collect();
    let line = |name: &&str| format!("NodeSet={name} Feature={name}\nPartitionName={name} Nodes={name}\n");
    let lines: String = partitions.iter().map(line).collect();
    format!("ClusterName=lab\n{hosts}SlurmctldTimeout=10\nStateSaveLocation={STATE}\n{lines}")
}

const HOSTS: [&str; 3] = ["c1", "c2", "c3"];

impl Lab {
    fn new(count: usize) -> Self {
        let (slurm, store) = (FakeSlurm::new(), FakeStore::new());
        store.write(CONF, &conf(&HOSTS[..count], &["a"]));
        store.write("etc-slurm/slurm.jwks", &keys("k1"));
        store.write("state/.cluster", "lab here\n");
        let node = FakeMachine::of(&"n/0".parse().unwrap()).in_cluster(&slurm);
        run(&node, "apt-get", &["install", "slurmd", "slurm-client"]).unwrap();
        node.write("/etc/slurm/slurm.jwks", &keys("k1"));
        let servers: Vec<String> = HOSTS.iter().map(|host| format!("{host}:6817")).collect();
        let options = format!("-Z -N n-0 --conf 'Feature=a RealMemory=900' --conf-server {}", servers.join(","));
        node.write("/etc/default/slurmd", &format!("SLURMD_OPTIONS=\"{options}\"\n"));
        let mut lab = Self { slurm, store, controllers: Vec::new(), node };
        for number in 0..count {
            lab.add(number);
        }
        run(&lab.node, "systemctl", &["start", "--", SLURMD]).unwrap();
        lab.node.scontrol(&["update", "nodename=n-0", "comment=joined"]);
        lab.assert_roles("c1 active", count);
        lab
    }

    /// Another machine, with slurmctld running if the file names it.
    fn add(&mut self, number: usize) {
        let unit = format!("slurmctld/{number}").parse().unwrap();
        let machine = FakeMachine::of(&unit).called(HOSTS[number]).in_cluster(&self.slurm);
        run(&machine, "apt-get", &["install", "slurmctld", "slurm-client"]).unwrap();
        machine.mount(&self.store);
        machine.link("/etc/slurm", "/var/lib/slurm/checkpoint/etc-slurm");
        self.controllers.push(machine);
        self.start(number);
    }

    fn start(&self, number: usize) {
        run(&self.controllers[number], "systemctl", &["start", "--", SLURMCTLD]).unwrap();
    }

    fn crash(&self, number: usize) {
        self.controllers[number].crash(SLURMCTLD);
    }

    fn roles(&self) -> Vec<String> {
        self.slurm.controllers().iter().map(|(host, role)| format!("{host} {role}")).collect()
    }

    #[track_caller]
    fn assert_roles(&self, one: &str, count: usize) {
        let roles = self.roles();
        assert!(roles.iter().any(|role| role == one) && roles.len() == count, "{roles:?}");
    }

    fn configure(&self, hosts: &[&str], partitions: &[&str]) {
        self.store.write(CONF, &conf(hosts, partitions));
        let serving = self.slurm.serving().unwrap();
        let machine = self.controllers.iter().find(|machine| machine.host_name() == serving).unwrap();
        machine.scontrol(&["reconfigure"]);
    }

    fn partition(&self) -> String {
        self.node.partitions()[0].clone()
    }

    fn unit(&self, number: usize) -> String {
        let words = ["show", "--property=ActiveState", "--", SLURMCTLD];
        run(&self.controllers[number], "systemctl", &words).unwrap()
    }

    fn heartbeat(&self) -> Vec<u8> {
        fs::read(self.store.path("state/heartbeat")).unwrap()
    }

    fn has_node(&self) -> bool {
        self.slurm.nodes().contains_key("n-0")
    }

    fn fence(&self, number: usize) {
        let machine = &self.controllers[number];
        let settings = Settings {
            directory: "/var/lib/slurm/checkpoint".to_owned(),
            state_directory: STATE.to_owned(),
            marker: "lab here".to_owned(),
            patience: std::time::Duration::from_secs(5),
            service: SLURMCTLD.to_owned(),
            reserve: 0,
            others: self
                .controllers
                .iter()
                .map(|own| own.host_name())
                .filter(|own| *own != machine.host_name())
                .collect(),
            rank: None,
            call: Vec::new(),
        };
        fence::ensure_settings(&machine.machine().writer(), &settings).unwrap();
        fence::ensure_running(&machine.machine().writer()).unwrap();
        let order = format!("[Unit]\nConditionPathExists=\nWants={0}\nAfter={0}\n", fence::SERVICE);
        let drop_in = format!("{order}[Service]\nExecStartPre=+{} guard\n", fence::PROGRAM);
        machine.write("/etc/systemd/system/slurmctld.service.d/10.conf", &drop_in);
    }
}

#[test]
fn a_host_that_the_file_does_not_name_does_not_start() {
    let mut lab = Lab::new(2);
    lab.add(2);
    assert!(!lab.controllers[2].is_running(SLURMCTLD));
    let journal = run(&lab.controllers[2], "journalctl", &["--lines=100"]).unwrap();
    assert!(journal.contains("This host (c3/c3) not a valid controller"), "{journal}");
    lab.configure(&HOSTS, &["a"]);
    lab.start(2);
    lab.assert_roles("c3 standby", 3);
}

#[test]
fn the_first_one_serves_at_once_and_the_others_stand_by() {
    let lab = Lab::new(3);
    assert_eq!(lab.roles(), ["c1 active", "c2 standby", "c3 standby"]);
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c1"), "nobody takes over from one that answers");
    for machine in &lab.controllers {
        assert!(machine.is_running(SLURMCTLD));
        assert!(machine.ask_scontrol(&["show", "node"]).unwrap().contains("n-0"));
    }
}

#[test]
fn a_backup_that_is_alone_serves_only_after_its_time() {
    let lab = Lab::new(2);
    lab.crash(0);
    run(&lab.controllers[1], "systemctl", &["restart", "--", SLURMCTLD]).unwrap();
    assert_eq!(lab.slurm.serving(), None);
    assert!(lab.node.ask_scontrol(&["show", "node"]).unwrap_err().contains("standby mode"));
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c2"));
}

#[test]
fn one_after_the_other_takes_over_with_jobs_and_nodes() {
    let lab = Lab::new(3);
    let job = lab.slurm.submit(FakeJob::running("a", "n-0"));
    for (number, next) in [(0, "c2"), (1, "c3")] {
        lab.crash(number);
        assert_eq!(lab.slurm.fail_over().as_deref(), Some(next));
        assert!(lab.has_node() && lab.slurm.jobs() == [job]);
        assert!(lab.node.ask_scontrol(&["show", "node"]).is_ok());
    }
    assert_eq!(lab.slurm.losses(), Vec::<String>::new());
}

#[test]
fn the_heartbeat_says_when_and_who() {
    let lab = Lab::new(3);
    let beat = lab.heartbeat();
    assert_eq!((beat.len(), beat[15]), (16, 0));
    lab.crash(0);
    lab.slurm.fail_over();
    let next = lab.heartbeat();
    let at = |beat: &[u8]| u64::from_be_bytes(beat[..8].try_into().unwrap());
    assert!(next[15] == 1 && at(&next) >= at(&beat) + 10, "{beat:?} {next:?}");
    // The place in the list that it runs with.
    lab.configure(&["c2", "c3"], &["a"]);
    assert_eq!(lab.heartbeat()[15], 0);
}

#[test]
fn a_partition_that_was_edited_with_one_reconfigure_reverts_in_a_takeover() {
    let lab = Lab::new(2);
    let edited = conf(&HOSTS[..2], &["a"]).replace("Nodes=a", "Nodes=a MaxTime=60");
    lab.store.write(CONF, &edited);
    lab.controllers[0].scontrol(&["reconfigure"]);
    assert!(lab.partition().contains("maxtime=60"));
    lab.crash(0);
    lab.slurm.fail_over();
    assert!(lab.partition().contains("maxtime=UNLIMITED"));
    // The file counts again when the first one is back.
    lab.start(0);
    assert!(lab.partition().contains("maxtime=60"));
    lab.controllers[0].scontrol(&["update", "partitionname=a", "lln=NO"]);
    lab.crash(0);
    lab.slurm.fail_over();
    assert!(lab.partition().contains("maxtime=60"), "a word about any partition saved all");
}

#[test]
fn a_partition_that_went_with_one_reconfigure_kills_one_backup_after_the_other() {
    let lab = Lab::new(3);
    lab.configure(&HOSTS, &[]);
    lab.crash(0);
    for number in [1, 2] {
        assert_eq!(lab.slurm.fail_over(), None);
        assert!(lab.unit(number).contains("ActiveState=failed"));
    }
    lab.start(0);
    assert_eq!(lab.roles(), ["c1 active"]);
}

#[test]
fn a_node_that_was_not_saved_is_forgotten_in_a_takeover() {
    let lab = Lab::new(2);
    lab.node.scontrol(&["delete", "nodename=n-0"]);
    run(&lab.node, "systemctl", &["restart", "--", SLURMD]).unwrap();
    assert!(lab.has_node());
    lab.crash(0);
    lab.slurm.fail_over();
    assert!(!lab.has_node() && lab.node.is_running(SLURMD));
}

#[test]
fn a_job_that_was_not_saved_is_lost_in_a_takeover() {
    let lab = Lab::new(2);
    let saved = lab.slurm.submit(FakeJob::running("a", "n-0"));
    lab.slurm.save_late(true);
    let lost = lab.slurm.submit(FakeJob::running("a", "n-0"));
    lab.crash(0);
    lab.slurm.fail_over();
    assert_eq!(lab.slurm.jobs(), [saved]);
    assert_eq!(lab.slurm.losses(), [format!("job {lost}: killed, slurmctld had forgotten it (a)")]);
}

#[test]
fn a_clean_stop_saves_all_and_hands_over_nothing() {
    let lab = Lab::new(2);
    lab.slurm.save_late(true);
    let job = lab.slurm.submit(FakeJob::running("a", "n-0"));
    run(&lab.controllers[0], "systemctl", &["stop", "--", SLURMCTLD]).unwrap();
    assert_eq!(lab.slurm.serving(), None);
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c2"));
    assert_eq!((lab.slurm.jobs(), lab.slurm.losses()), (vec![job], vec![]));
}

#[test]
fn a_standby_with_another_place_in_its_list_ends_itself_when_it_takes_over() {
    let lab = Lab::new(3);
    run(&lab.controllers[1], "systemctl", &["stop", "--", SLURMCTLD]).unwrap();
    lab.configure(&["c1", "c3"], &["a"]);
    assert_eq!(lab.slurm.list_of("c1").unwrap(), ["c1", "c3"], "whoever serves takes it from the reconfigure");
    assert_eq!(lab.slurm.list_of("c3").unwrap(), HOSTS);
    lab.crash(0);
    assert_eq!(lab.slurm.fail_over(), None);
    assert!(lab.roles().is_empty());
    let unit = lab.unit(2);
    assert!(unit.contains("ActiveState=inactive") && unit.contains("Result=success"), "{unit}");
}

#[test]
fn a_standby_that_was_restarted_with_the_new_list_takes_over() {
    let lab = Lab::new(3);
    run(&lab.controllers[1], "systemctl", &["stop", "--", SLURMCTLD]).unwrap();
    lab.configure(&["c1", "c3"], &["a"]);
    run(&lab.controllers[2], "systemctl", &["restart", "--", SLURMCTLD]).unwrap();
    assert_eq!(lab.slurm.list_of("c3").unwrap(), ["c1", "c3"]);
    lab.crash(0);
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c3"));
    assert_eq!(lab.heartbeat()[15], 1);
}

#[test]
fn a_host_that_was_appended_costs_those_before_it_nothing() {
    let mut lab = Lab::new(2);
    lab.configure(&HOSTS, &["a"]);
    lab.add(2);
    lab.crash(0);
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c2"));
}

#[test]
fn a_standby_loads_keys_only_when_it_starts() {
    let lab = Lab::new(2);
    lab.store.write("etc-slurm/slurm.jwks", &keys("k2"));
    lab.node.write("/etc/slurm/slurm.jwks", &keys("k2"));
    lab.controllers[0].scontrol(&["reconfigure"]);
    run(&lab.node, "systemctl", &["restart", "--", SLURMD]).unwrap();
    run(&lab.controllers[1], "systemctl", &["reload", "--", SLURMCTLD]).unwrap();
    assert!(lab.controllers[1].ask_scontrol(&["show", "node"]).unwrap_err().contains("authentication"));
    let pings = lab.controllers[0].ask_scontrol(&["ping"]).unwrap();
    assert!(pings.contains(r#""hostname":"c2","pinged":"DOWN""#), "{pings}");
    lab.crash(0);
    lab.slurm.fail_over();
    assert!(lab.node.ask_scontrol(&["show", "node"]).unwrap_err().contains("authentication"));
    lab.start(0);
    run(&lab.controllers[1], "systemctl", &["restart", "--", SLURMCTLD]).unwrap();
    lab.crash(0);
    lab.slurm.fail_over();
    assert!(lab.node.ask_scontrol(&["show", "node"]).is_ok());
}

#[test]
fn a_takeover_by_hand_ends_whoever_served_without_a_fault() {
    let lab = Lab::new(3);
    let job = lab.slurm.submit(FakeJob::running("a", "n-0"));
    lab.controllers[2].scontrol(&["takeover"]);
    assert_eq!(lab.roles(), ["c2 active", "c3 standby"]);
    let unit = lab.unit(0);
    assert!(unit.contains("ActiveState=inactive") && unit.contains("Result=success"), "{unit}");
    assert!(lab.has_node() && lab.slurm.jobs() == [job]);
    // It serves already.
    lab.controllers[2].scontrol(&["takeover"]);
    lab.controllers[2].scontrol(&["takeover", "2"]);
    assert_eq!(lab.roles(), ["c3 active"]);
    assert!(lab.controllers[2].ask_scontrol(&["takeover", "1"]).unwrap_err().contains("Unable to contact"));
    assert_eq!(lab.slurm.losses(), Vec::<String>::new());
}

#[test]
fn a_primary_that_returns_takes_control_back_with_the_state_of_the_backup() {
    let lab = Lab::new(2);
    lab.crash(0);
    lab.slurm.fail_over();
    lab.slurm.save_late(true);
    let job = lab.slurm.submit(FakeJob::running("a", "n-0"));
    lab.node.scontrol(&["update", "nodename=n-0", "state=drain", "reason=disk"]);
    lab.start(0);
    assert_eq!(lab.roles(), ["c1 active", "c2 standby"]);
    assert_eq!((lab.slurm.jobs(), lab.slurm.losses()), (vec![job], vec![]));
    assert!(lab.slurm.nodes()["n-0"].contains("DRAIN"));
    assert!(lab.controllers[1].is_running(SLURMCTLD));
}

#[test]
fn a_backup_of_a_better_place_takes_over_from_a_later_one_in_its_time() {
    let lab = Lab::new(3);
    lab.crash(0);
    lab.crash(1);
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c3"));
    lab.start(1);
    assert_eq!(lab.roles(), ["c2 standby", "c3 active"]);
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c2"));
    lab.assert_roles("c3 standby", 2);
}

#[test]
fn beside_a_slurmctld_that_is_stopped_no_client_reaches_anybody() {
    let lab = Lab::new(2);
    run(&lab.controllers[1], "systemctl", &["stop", "--", SLURMCTLD]).unwrap();
    assert!(lab.controllers[1].ask_scontrol(&["show", "node"]).is_err());
    let pings = lab.controllers[1].ask_scontrol(&["ping", "--json=v0.0.42"]).unwrap();
    assert_eq!(pings.matches(r#""responding":false"#).count(), 2, "{pings}");
    let pings = lab.controllers[0].ask_scontrol(&["ping", "--json=v0.0.42"]).unwrap();
    assert_eq!(pings.matches(r#""responding":false"#).count(), 1, "{pings}");
}

#[test]
fn a_ping_tells_places_and_never_who_serves() {
    let modes = |lab: &Lab, machine: &FakeMachine| -> Vec<(String, bool)> {
        let text = machine.ask_scontrol(&["ping", "--json=v0.0.42"]).unwrap();
        let pings: serde_json::Value = serde_json::from_str(&text).unwrap();
        let pings = pings["pings"].as_array().unwrap();
        assert_eq!(pings.len(), lab.controllers.len());
        let shown = pings.iter().map(|ping| (ping["mode"].as_str().unwrap().to_owned(), ping["responding"] == true));
        shown.collect()
    };
    let two = Lab::new(2);
    two.crash(0);
    two.slurm.fail_over();
    assert_eq!(modes(&two, &two.node), [("primary".to_owned(), false), ("backup".to_owned(), true)]);
    let three = Lab::new(3);
    let expected = ["primary", "backup1", "backup2"].map(|mode| (mode.to_owned(), true));
    assert_eq!(modes(&three, &three.controllers[2]), expected);
}

#[test]
fn a_node_that_was_not_told_of_a_controller_does_not_find_it() {
    let mut lab = Lab::new(2);
    lab.store.write(CONF, &conf(&HOSTS, &["a"]));
    lab.add(2);
    lab.crash(0);
    lab.crash(1);
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c3"));
    assert!(lab.node.ask_scontrol(&["show", "node"]).unwrap_err().contains("Unable to contact"));
    assert!(lab.controllers[2].ask_scontrol(&["show", "node"]).is_ok());
    lab.configure(&HOSTS, &["a"]);
    assert!(lab.node.ask_scontrol(&["show", "node"]).is_ok(), "a reconfigure pushes the list");
}

#[test]
fn while_a_primary_takes_control_back_nobody_serves() {
    let lab = Lab::new(2);
    lab.slurm.return_slowly();
    lab.crash(0);
    lab.slurm.fail_over();
    lab.start(0);
    assert!(lab.controllers[0].is_running(SLURMCTLD) && lab.slurm.serving().is_none());
    assert!(lab.node.ask_scontrol(&["show", "node"]).is_err());
    assert_eq!(lab.slurm.fail_over(), None, "after ten seconds");
    lab.slurm.pass(std::time::Duration::from_secs(20));
    assert_eq!(lab.roles(), ["c1 active", "c2 standby"]);
}

#[test]
fn a_job_whose_end_was_not_saved_runs_twice() {
    let lab = Lab::new(2);
    let job = lab.slurm.submit(FakeJob::waiting("a", "Resources"));
    lab.slurm.save_late(true);
    assert_eq!(lab.slurm.schedule(), [job]);
    lab.slurm.end_job(job);
    lab.crash(0);
    lab.slurm.fail_over();
    assert_eq!(lab.slurm.schedule(), [job]);
    assert_eq!(lab.slurm.losses(), [format!("job {job}: ran twice, slurmctld had forgotten its end")]);
}
