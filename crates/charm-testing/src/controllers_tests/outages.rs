//! Controllers on a store that fails, on a network that is cut, and behind a fence.

use super::{Lab, run};
use crate::slurm_tests::SLURMCTLD;
use crate::{FakeJob, Fault};
use std::fs;

#[test]
fn a_reconfigure_on_a_store_that_is_read_only_kills_whoever_serves() {
    let lab = Lab::new(2);
    lab.store.fails(Some(Fault::ReadOnly));
    assert!(lab.slurm.sbatch(FakeJob::waiting("a", "Resources")).unwrap_err().contains("I/O error"));
    lab.node.scontrol(&["update", "nodename=n-0", "state=drain", "reason=disk"]);
    assert!(lab.node.ask_scontrol(&["reconfigure"]).is_err());
    assert!(lab.unit(0).contains("ActiveState=failed"));
    lab.store.fails(None);
    lab.start(0);
    assert!(!lab.slurm.nodes()["n-0"].contains("DRAIN"), "it was taken, and not saved");
}

#[test]
fn a_store_that_does_not_answer_causes_no_takeover() {
    let lab = Lab::new(2);
    lab.store.fails(Some(Fault::Silent));
    assert!(lab.node.ask_scontrol(&["show", "node"]).unwrap_err().contains("Socket timed out"));
    assert!(lab.node.ask_scontrol(&["ping"]).unwrap().contains("\"responding\":true"));
    assert!(lab.slurm.sbatch(FakeJob::waiting("a", "Resources")).unwrap_err().contains("Socket timed out"));
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c1"));
    lab.store.fails(None);
    assert!(lab.node.ask_scontrol(&["show", "node"]).is_ok());
    assert_eq!(lab.slurm.jobs(), [1], "it was taken although it failed");
}

#[test]
fn a_store_without_room_leaves_a_heartbeat_that_keeps_every_backup_away() {
    let lab = Lab::new(2);
    let job = lab.slurm.submit(FakeJob::running("a", "n-0"));
    lab.store.fails(Some(Fault::Full));
    lab.slurm.submit(FakeJob::waiting("a", "Resources"));
    lab.slurm.pass(std::time::Duration::from_secs(5));
    assert!(lab.heartbeat().is_empty());
    lab.crash(0);
    lab.store.fails(None);
    assert_eq!(lab.slurm.fail_over(), None);
    assert!(lab.controllers[1].is_running(SLURMCTLD));
    lab.start(0);
    assert_eq!(lab.slurm.jobs(), [job], "what was saved before is still there");
}

#[test]
fn a_reconfigure_without_room_begins_with_what_was_saved_long_ago() {
    let lab = Lab::new(2);
    lab.store.fails(Some(Fault::Full));
    lab.slurm.submit(FakeJob::running("a", "n-0"));
    lab.node.scontrol(&["reconfigure"]);
    assert_eq!((lab.slurm.jobs(), lab.slurm.losses().len()), (vec![], 1));
}

#[test]
fn a_primary_that_was_cut_off_overwrites_what_the_backup_did() {
    let lab = Lab::new(2);
    let old = lab.slurm.submit(FakeJob::running("a", "n-0"));
    lab.controllers[0].cut_network();
    assert!(lab.node.ask_scontrol(&["show", "node"]).is_err());
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c2"));
    assert_eq!(lab.roles(), ["c1 stale", "c2 active"]);
    let new = lab.slurm.sbatch(FakeJob::waiting("a", "Resources")).unwrap();
    assert_eq!(run(&lab.node, "scancel", &[&old.to_string()]), Ok(String::new()));
    lab.node.scontrol(&["update", "nodename=n-0", "state=drain", "reason=disk"]);
    lab.controllers[0].heal_network();
    assert_eq!(lab.roles(), ["c1 active"]);
    assert!(lab.unit(1).contains("ActiveState=failed"));
    assert_eq!(lab.slurm.jobs(), [old], "{new} is gone");
    assert_eq!(lab.slurm.losses().len(), 2, "{:?}", lab.slurm.losses());
    assert!(!lab.slurm.nodes()["n-0"].contains("DRAIN"));
}

#[test]
fn a_primary_that_was_killed_in_the_cut_overwrites_nothing() {
    let lab = Lab::new(2);
    let old = lab.slurm.submit(FakeJob::running("a", "n-0"));
    lab.controllers[0].cut_network();
    lab.crash(0);
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c2"));
    let new = lab.slurm.sbatch(FakeJob::waiting("a", "Resources")).unwrap();
    lab.controllers[0].heal_network();
    assert_eq!(lab.roles(), ["c2 active"]);
    lab.start(0);
    assert_eq!((lab.roles(), lab.slurm.jobs()), (vec!["c1 active".into(), "c2 standby".into()], vec![old, new]));
    assert_eq!(lab.slurm.losses(), Vec::<String>::new());
}

#[test]
fn a_fence_kills_before_the_takeover_and_starts_again_after_the_heal() {
    let lab = Lab::new(2);
    lab.fence(0);
    lab.fence(1);
    lab.controllers[0].cut_network();
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c2"));
    assert_eq!(lab.roles(), ["c2 active"]);
    assert!(lab.controllers[0].is_fenced() && !lab.controllers[1].is_fenced());
    let new = lab.slurm.sbatch(FakeJob::waiting("a", "Resources")).unwrap();
    assert!(lab.unit(0).contains("ActiveState=active"), "the store holds what is dead");
    lab.controllers[0].heal_network();
    assert!(lab.unit(0).contains("ActiveState=failed"));
    lab.controllers[0].revive(SLURMCTLD);
    assert!(!lab.controllers[0].is_running(SLURMCTLD), "the guard lets none start");
    lab.controllers[0].fence_looks();
    assert_eq!((lab.roles(), lab.slurm.jobs()), (vec!["c1 active".into(), "c2 standby".into()], vec![new]));
}

#[test]
fn a_store_that_answers_nobody_closes_no_fence() {
    let lab = Lab::new(2);
    lab.fence(0);
    lab.fence(1);
    lab.store.fails(Some(Fault::Silent));
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c1"));
    assert!(!lab.controllers[0].is_fenced() && !lab.controllers[1].is_fenced());
    lab.store.fails(None);
    // The same for one of them alone: the other one takes over.
    lab.controllers[0].store_fails(Some(Fault::Silent));
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c2"));
    assert!(lab.controllers[0].is_fenced() && !lab.controllers[1].is_fenced());
}

#[test]
fn a_fence_that_opens_starts_only_what_it_killed() {
    let lab = Lab::new(2);
    lab.fence(1);
    run(&lab.controllers[1], "systemctl", &["stop", "--", SLURMCTLD]).unwrap();
    lab.controllers[1].fence_closes();
    lab.controllers[1].fence_opens();
    assert!(!lab.controllers[1].is_running(SLURMCTLD));
    // One that was stopped looks at nothing.
    run(&lab.controllers[1], "systemctl", &["stop", "--", "slurmctld-fence.service"]).unwrap();
    lab.store.fails(Some(Fault::Silent));
    lab.controllers[1].fence_looks();
    assert!(!lab.controllers[1].is_fenced());
}

#[test]
fn the_guard_lets_none_start_where_the_marker_cannot_be_read() {
    let lab = Lab::new(2);
    lab.fence(0);
    lab.crash(0);
    fs::rename(lab.store.path("state/.cluster"), lab.store.path("state/away")).unwrap();
    lab.controllers[0].revive(SLURMCTLD);
    assert!(!lab.controllers[0].is_running(SLURMCTLD));
    fs::rename(lab.store.path("state/away"), lab.store.path("state/.cluster")).unwrap();
    lab.controllers[0].store_fails(Some(Fault::Silent));
    lab.controllers[0].revive(SLURMCTLD);
    assert!(lab.unit(0).contains("ActiveState=failed"));
    lab.controllers[0].store_fails(None);
    lab.controllers[0].revive(SLURMCTLD);
    assert!(lab.controllers[0].is_running(SLURMCTLD));
}

#[test]
fn a_start_with_the_store_gone_is_skipped_without_a_fault() {
    let lab = Lab::new(2);
    lab.crash(0);
    lab.controllers[0].store_fails(Some(Fault::Gone));
    run(&lab.controllers[0], "systemctl", &["reset-failed", "--", SLURMCTLD]).unwrap();
    lab.start(0);
    assert!(lab.unit(0).contains("ActiveState=inactive"));
    assert_eq!(lab.slurm.fail_over().as_deref(), Some("c2"));
}

#[test]
fn a_machine_that_boots_joins_as_what_the_file_says() {
    let lab = Lab::new(2);
    lab.fence(0);
    run(&lab.controllers[0], "systemctl", &["enable", "--", SLURMCTLD]).unwrap();
    lab.controllers[0].cut_network();
    lab.slurm.fail_over();
    lab.controllers[0].heal_network();
    lab.controllers[0].reboot();
    assert_eq!(lab.roles(), ["c1 active", "c2 standby"]);
    assert!(!lab.controllers[0].is_fenced() && lab.controllers[0].is_running("slurmctld-fence.service"));
}
