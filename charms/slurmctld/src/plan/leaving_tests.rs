//! How the partition of an application goes whose relation has ended, and when the record of a node may go that has no
//! unit.

use super::*;
use crate::daemon::Daemon;
use crate::plan::situations::{World, node};
use crate::plan::tests::live;
use slurm_ops::scontrol::ReservationRecord;
use slurm_unit::note::Noted;

const NOTHING: [&str; 0] = [];
const REMOVAL: [&str; 9] = [
    "note the applications",
    "delete partition compute",
    "check the new /etc/slurm/slurm.conf",
    "write /etc/slurm/slurm.conf with partition compute",
    "note what was set at runtime",
    "reconfigure slurmctld",
    "forget what was set at runtime",
    "keep the accepted /etc/slurm/slurm.conf",
    "note the applications",
];

fn name(text: &str) -> PartitionName {
    text.parse().unwrap()
}

/// A controller that serves two applications, `gpu` with the default partition and `compute` with a unit and its node.
fn serving() -> World {
    let world = World::serving().with_compute("gpu", "").with_compute("compute", "");
    world.with_node("compute-0", "compute", &["IDLE"]).with_unit("compute/0").settled().and_dispatched()
}

/// The relation of `compute` has ended, and its unit has gone, node included.
fn emptied() -> World {
    let mut world = serving();
    world.nodes.clear();
    world.goal.as_mut().unwrap().clear();
    world.without("compute")
}

impl World {
    fn and_dispatched(mut self) -> Self {
        self.dispatch(&|_, _| None);
        self
    }

    fn without(mut self, app: &str) -> Self {
        self.computes.retain(|compute| compute.app.as_str() != app);
        self
    }

    fn again(mut self) -> Self {
        self = self.with_compute("compute", "");
        self.computes.last_mut().unwrap().relation = "slurmd:9".parse().unwrap();
        self
    }

    fn stage(&self, app: &str) -> Option<Stage> {
        self.applications.known().and_then(|noted| noted.0.get(&name(app)).copied())
    }

    fn state(&self, partition: &str) -> String {
        self.partitions[partition]["state"].clone()
    }

    #[track_caller]
    fn takes(&mut self, expected: &[&str]) {
        self.dispatch(&|_, _| None);
        assert_eq!(self.taken, expected, "{:?}", self.conditions);
    }

    /// Nothing is done and nothing forgotten, but looked at again.
    #[track_caller]
    fn waits(&mut self, remark: &str) {
        self.takes(&NOTHING);
        assert!(self.retry_timer);
        let remark = if remark.is_empty() { String::new() } else { format!("; {remark}") };
        assert_eq!(self.reported(), format!("active: primary - UP{remark}"));
    }
}

fn leaving(state: PartitionState) -> Option<Stage> {
    Some(Stage::Leaving { state })
}

fn reservation(nodes: &str) -> ReservationRecord {
    ReservationRecord { name: "maint".to_owned(), nodes: nodes.to_owned() }
}

#[test]
fn an_application_is_noted_once_its_partition_is_in_effect() {
    let world = serving();
    assert_eq!((world.stage("compute"), world.stage("gpu")), (Some(Stage::Related), Some(Stage::Related)));
    assert_eq!(world.taken, NOTHING);
    assert!(!world.retry_timer);
    let refused = World::serving().with_compute("bad", "QOS=bogus");
    let refused = refused.settled_where(&|text, _| text.contains("bogus").then_some("no"));
    assert_eq!(refused.stage("bad"), None);
}

#[test]
fn a_charm_that_was_refreshed_notes_what_it_finds_related() {
    let mut world = serving();
    world.applications = Noted::Absent;
    world.takes(&["note the applications"]);
    assert_eq!(world.stage("compute"), Some(Stage::Related));
}

#[test]
fn a_partition_without_jobs_and_nodes_goes_in_one_dispatch() {
    let mut world = emptied();
    let mut expected = vec!["note the applications", "close partition compute"];
    expected.extend(REMOVAL);
    // Another partition stays, through which all are saved.
    expected.insert(expected.len() - 1, "save partitions");
    world.takes(&expected);
    assert_eq!(world.stage("compute"), None);
    assert!(live(&world).partition("compute").is_none() && live(&world).nodeset("compute").is_none());
    assert!(live(&world).partition("gpu").is_some() && !world.partitions.contains_key("compute"));
    world.takes(&NOTHING);
    assert!(!world.retry_timer);
}

#[test]
fn the_last_partition_goes_too_and_so_does_the_note() {
    let world = World::serving().with_compute("compute", "").settled().without("compute").and_dispatched();
    assert_eq!(world.applications, Noted::Absent);
    assert!(world.partitions.is_empty() && live(&world).partition("compute").is_none());
    assert_eq!(world.and_dispatched().taken, NOTHING);
}

#[test]
fn a_hook_that_ends_the_relation_counts_while_juju_still_names_the_application() {
    let mut world = serving().without("compute").with_unit("compute");
    world.waits("");
    assert_eq!(world.stage("compute"), Some(Stage::Related));
    world.broken = Some("gpu".parse().unwrap());
    world.waits("");
    world.broken = Some("compute".parse().unwrap());
    world.takes(&["note the applications", "close partition compute", "drain compute-0"]);
    assert_eq!(world.stage("compute"), leaving(PartitionState::Up));
    assert_eq!(world.state("compute"), "INACTIVE");
    // Its unit still does it by itself.
    world.broken = None;
    world.waits("compute leaves: waits for nodes compute-0");
}

#[test]
fn an_application_that_juju_names_by_a_unit_alone_has_not_left() {
    let mut world = serving().without("compute");
    world.waits("");
    world.goal = Some(BTreeSet::new());
    world.dispatch(&|_, _| None);
    assert_eq!(world.stage("compute"), None);
}

#[test]
fn a_look_that_fails_is_never_an_end() {
    let mut world = emptied();
    world.goal = None;
    world.waits("");
    assert_eq!((world.stage("compute"), world.state("compute").as_str()), (Some(Stage::Related), "UP"));
    world.goal = Some(BTreeSet::new());
    // slurmctld says what partitions it has, and no more.
    world.mute = true;
    world.takes(&["note the applications", "close partition compute"]);
    world.waits("");
    assert_eq!(world.stage("compute"), leaving(PartitionState::Up));
    world.daemon = Daemon::Silent { reason: None };
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, NOTHING);
    assert!(world.partitions.contains_key("compute"));
}

#[test]
fn a_partition_stays_closed_whatever_opens_it() {
    let mut world = emptied().with_job(7, "compute", "RUNNING", "compute-0", "");
    world.takes(&["note the applications", "close partition compute"]);
    for state in ["UP", "DRAIN", "DOWN"] {
        world.partitions.get_mut("compute").unwrap().insert("state".to_owned(), state.to_owned());
        world.takes(&["close partition compute"]);
        assert_eq!(world.stage("compute"), leaving(PartitionState::Up));
    }
    world.waits("compute leaves: 1 job runs");
}

#[test]
fn every_job_record_that_names_the_partition_holds_it() {
    let mut world = emptied()
        .with_job(12, "compute", "RUNNING", "x", "")
        .with_job(13, "compute", "COMPLETED+COMPLETING", "x", "")
        .with_job(17, "gpu,compute", "PENDING", "", "")
        .with_job(18, "compute", "PENDING", "", "")
        .with_job(20, "compute", "COMPLETED", "x", "")
        .with_job(21, "compute", "NODE_FAIL", "x", "")
        .with_job(22, "gpu", "RUNNING", "y", "");
    world.takes(&["note the applications", "close partition compute"]);
    world.waits("compute leaves: pending jobs 17,18: cancel or move them; compute leaves: 2 jobs run");
    world.jobs.retain(|job| !job.has("PENDING"));
    world.waits("compute leaves: 2 jobs run");
    world.jobs.retain(|job| job.id >= 20);
    world.waits("compute leaves: 2 ended jobs age out (MinJobAge)");
    world.jobs.retain(|job| job.id > 20);
    world.waits("compute leaves: 1 ended job ages out (MinJobAge)");
    world.jobs.retain(|job| job.id == 22);
    world.dispatch(&|_, _| None);
    assert_eq!(world.stage("compute"), None);
}

#[test]
fn nodes_that_are_left_are_drained_and_deleted_once_nothing_is_on_them() {
    let mut world = serving().without("compute").with_job(7, "compute", "RUNNING", "compute-0", "");
    world.goal = Some(BTreeSet::new());
    world.takes(&["note the applications", "close partition compute", "drain compute-0"]);
    world.waits("compute leaves: 1 job runs");
    world.jobs[0].state = vec!["COMPLETED".to_owned()];
    world.takes(&["delete node compute-0"]);
    world.waits("compute leaves: 1 ended job ages out (MinJobAge)");
}

#[test]
fn a_node_of_another_origin_holds_the_partition_and_is_left_alone() {
    let mut world = emptied().with_node("compute-gpu-1", "compute", &["IDLE"]).with_node("big", "compute", &["DOWN"]);
    world.nodes.push(node("compute-1", "compute", &["IDLE"]));
    world.takes(&["note the applications", "close partition compute"]);
    world.waits("compute leaves: waits for nodes compute-gpu-1,big,compute-1");
}

#[test]
fn a_node_of_one_that_leaves_is_held_by_what_names_it() {
    let mut world = emptied().with_node("compute-0", "compute", &["IDLE", "DRAIN"]);
    world.reservations.push(reservation("compute-[0-3]"));
    world.takes(&["note the applications", "close partition compute"]);
    world.waits("compute leaves: node compute-0 is held by reservation maint");
    world.reservations.clear();
    world.dispatch(&|_, _| None);
    assert_eq!(world.stage("compute"), None);
}

#[test]
fn an_application_that_is_related_again_gets_its_partition_back_as_it_was() {
    for (before, restored) in [("UP", true), ("DOWN", true), ("DRAIN", true), ("INACTIVE", false)] {
        let mut world = emptied().with_job(7, "compute", "RUNNING", "x", "");
        world.partitions.get_mut("compute").unwrap().insert("state".to_owned(), before.to_owned());
        world.dispatch(&|_, _| None);
        assert_eq!(world.state("compute"), "INACTIVE");
        let mut world = world.again();
        world.dispatch(&|_, _| None);
        assert_eq!(world.taken.contains(&"reopen partition compute".to_owned()), restored, "{:?}", world.taken);
        assert_eq!((world.state("compute").as_str(), world.stage("compute")), (before, Some(Stage::Related)));
    }
}

#[test]
fn a_state_that_somebody_set_meanwhile_is_not_restored() {
    let mut world = emptied().with_job(7, "compute", "RUNNING", "x", "").and_dispatched().again();
    world.partitions.get_mut("compute").unwrap().insert("state".to_owned(), "DRAIN".to_owned());
    world.dispatch(&|_, _| None);
    assert_eq!((world.state("compute").as_str(), world.stage("compute")), ("DRAIN", Some(Stage::Related)));
}

#[test]
fn a_removal_that_has_begun_ends_before_the_application_comes_again() {
    // Killed after each step of it, with the application related again.
    for steps in 3..12 {
        let mut world = emptied();
        assert!(world.dispatch_until(&|_, _| None, steps), "{steps}");
        assert_eq!(world.stage("compute"), Some(Stage::Removing), "{steps}");
        let mut world = world.again();
        world.dispatch(&|_, _| None);
        let deleted = world.taken.iter().any(|step| step == "delete partition compute");
        assert_eq!(deleted, steps == 3, "{steps}: {:?}", world.taken);
        let world = world.settled().and_dispatched();
        assert_eq!((world.stage("compute"), world.state("compute").as_str()), (Some(Stage::Related), "UP"));
        assert!(live(&world).partition("compute").is_some());
        assert_eq!(world.taken, NOTHING);
    }
}

#[test]
fn a_removal_that_was_killed_anywhere_is_continued() {
    for steps in 0..13 {
        let mut world = emptied();
        world.dispatch_until(&|_, _| None, steps);
        let world = world.and_dispatched().and_dispatched();
        assert_eq!(world.taken, NOTHING, "{steps}");
        assert_eq!(world.stage("compute"), None);
        assert!(live(&world).partition("compute").is_none() && !world.partitions.contains_key("compute"));
    }
}

#[test]
fn a_partition_that_came_back_with_a_restart_and_took_a_job_is_closed_again() {
    let mut world = emptied();
    world.dispatch_until(&|_, _| None, 4);
    assert!(!world.partitions.contains_key("compute"));
    world.take(&Step::RestartDaemon, &|_, _| None);
    assert_eq!(world.state("compute"), "UP");
    let mut world = world.with_job(7, "compute", "RUNNING", "x", "");
    world.takes(&["note the applications", "close partition compute"]);
    assert_eq!(world.stage("compute"), leaving(PartitionState::Up));
    world.jobs.clear();
    world.dispatch(&|_, _| None);
    assert_eq!(world.stage("compute"), None);
}

#[test]
fn a_partition_whose_removal_slurm_refuses_stays_and_is_named() {
    let opinion = |text: &str, _: bool| (!text.contains("NodeSet=compute")).then_some("no");
    let mut world = emptied();
    world.dispatch(&opinion);
    assert_eq!(world.reported(), "blocked: partition compute refused: no");
    assert!(live(&world).partition("compute").is_some());
    assert_eq!(world.stage("compute"), Some(Stage::Removing));
}

#[test]
fn a_leaving_partition_is_the_default_only_while_no_other_can_be() {
    let default = |world: &World| -> Option<String> {
        let conf = live(world);
        conf.partitions().find(|one| one.get("Default") == Some("YES")).map(|one| one.name().to_owned())
    };
    let world = World::serving().with_compute("compute", "").with_compute("gpu", "").with_unit("compute/0").settled();
    assert_eq!(default(&world).as_deref(), Some("compute"));
    let world = world.without("compute").with_job(7, "compute", "RUNNING", "x", "").settled();
    assert_eq!(default(&world).as_deref(), Some("compute"), "it has not left yet");
    let mut gone = world.clone();
    gone.goal = Some(BTreeSet::new());
    let gone = gone.settled();
    assert_eq!((default(&gone).as_deref(), gone.state("compute").as_str()), (Some("gpu"), "INACTIVE"));
    let mut alone = world.without("gpu");
    alone.goal = Some(BTreeSet::new());
    alone.jobs.push(crate::plan::situations::job(8, "gpu", "RUNNING", "x", ""));
    assert_eq!(default(&alone.settled()).as_deref(), Some("compute"));
}

#[test]
fn a_unit_that_does_not_lead_or_leaves_itself_does_none_of_it() {
    let mut world = emptied().not_leading();
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, NOTHING);
    for steps in 0..12 {
        let mut world = emptied();
        world.dispatch_until(&|_, _| None, steps);
        world.leaving = true;
        world.broken = Some("compute".parse().unwrap());
        let before = (world.live.clone(), world.partitions.clone());
        world.dispatch(&|_, _| None);
        assert_eq!((world.taken.as_slice(), world.reported().as_str()), (&[] as &[String], "maintenance: leaving"));
        assert_eq!((world.live, world.partitions), before, "{steps}");
    }
}

#[test]
fn a_note_that_cannot_be_read_stops_all_of_it() {
    let mut world = emptied();
    world.applications = Noted::Unreadable { why: "/etc/slurm/applications.json: no".to_owned() };
    world.options.parameters = "KillWait=60".to_owned();
    world.dispatch(&|_, _| None);
    assert_eq!(world.taken, NOTHING);
    let expected = "blocked: config changes on hold: repair or delete the note /etc/slurm/applications.json: no";
    assert_eq!(world.reported(), expected);
    assert!(world.retry_timer);
}

#[test]
fn an_administrators_partition_is_none_of_these() {
    let mut world = World::serving();
    world.live.slurm.as_mut().unwrap().push_str("PartitionName=own Nodes=ALL\n");
    let world = world.settled().and_dispatched();
    assert_eq!((world.taken.as_slice(), world.stage("own")), (&[] as &[String], None));
    assert!(live(&world).partition("own").is_some());
}

mod lost_units {
    use super::*;

    /// A node whose unit was removed with force.
    fn lost(state: &[&str]) -> World {
        serving().with_node("compute-1", "compute", state)
    }

    #[test]
    fn a_record_that_nothing_holds_is_deleted() {
        for state in [&["IDLE", "DRAIN"][..], &["DOWN"], &["DOWN", "NOT_RESPONDING"], &["IDLE", "NOT_RESPONDING"]] {
            let mut world = lost(state);
            world.takes(&["delete node compute-1"]);
            assert_eq!(world.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["compute-0"]);
            world.takes(&NOTHING);
            assert!(!world.retry_timer);
        }
    }

    #[test]
    fn a_node_in_service_is_drained_first() {
        lost(&["IDLE"]).takes(&["drain compute-1", "delete node compute-1"]);
        let mut world = lost(&["MIXED"]).with_job(12, "gpu", "RUNNING", "compute-1", "");
        world.takes(&["drain compute-1"]);
        world.waits("node compute-1 has no unit: held by job 12");
    }

    #[test]
    fn a_node_that_is_only_down_keeps_its_record() {
        let mut world = serving();
        world.nodes[0].state = vec!["DOWN".to_owned(), "DYNAMIC_NORM".to_owned(), "NOT_RESPONDING".to_owned()];
        world.takes(&NOTHING);
        assert!(!world.retry_timer);
    }

    #[test]
    fn a_node_that_somebody_else_made_is_left_alone() {
        let mut world = serving()
            .with_node("compute-gpu-1", "compute", &["DOWN"])
            .with_node("compute-01", "compute", &["DOWN"])
            .with_node("big", "compute", &["DOWN"])
            .with_node("compute-2", "other", &["DOWN"])
            .with_node("gpu-1", "compute", &["DOWN"]);
        // In a file, and not registered by itself.
        world.nodes.push(node("compute-3", "compute", &["DOWN"]));
        world.takes(&NOTHING);
        assert_eq!(world.nodes.len(), 7);
    }

    #[test]
    fn whatever_names_it_holds_the_record() {
        let mut world = lost(&["DOWN"]).with_job(17, "gpu", "PENDING", "", "compute-[1-2]");
        world.waits("node compute-1 has no unit: held by pending job 17");
        world.jobs = vec![crate::plan::situations::job(18, "compute", "COMPLETED", "compute-1", "compute-1")];
        world.reservations.push(reservation("compute-1"));
        world.waits("node compute-1 has no unit: held by reservation maint");
        world.reservations[0].nodes = "compute-0".to_owned();
        world.jobs.push(crate::plan::situations::job(19, "gpu", "COMPLETED+COMPLETING", "compute-1", ""));
        world.waits("node compute-1 has no unit: held by job 19");
        world.jobs.pop();
        world.takes(&["delete node compute-1"]);
    }

    #[test]
    fn a_list_that_cannot_be_read_may_name_it() {
        let mut world = lost(&["DOWN"]);
        world.reservations.push(reservation("compute-[1"));
        world.waits("node compute-1 has no unit: held by reservation maint");
    }

    #[test]
    fn a_look_that_fails_does_nothing() {
        let mut world = lost(&["DOWN"]);
        world.goal = None;
        world.waits("");
        world.goal = Some(BTreeSet::from(["compute/0".to_owned()]));
        world.mute = true;
        world.waits("");
        world.mute = false;
        world.daemon = Daemon::Silent { reason: None };
        world.dispatch(&|_, _| None);
        assert_eq!((world.taken.as_slice(), world.nodes.len()), (&[] as &[String], 2));
    }

    #[test]
    fn an_application_that_was_never_noted_loses_no_record() {
        let mut world = World::serving().with_node("other-1", "other", &["DOWN"]);
        world.partitions.insert("other".to_owned(), Default::default());
        world.takes(&NOTHING);
        assert_eq!(world.nodes.len(), 1);
    }
}
