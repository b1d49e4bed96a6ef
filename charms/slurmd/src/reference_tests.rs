//! Every status of this charm is in the reference, and the reference has no other.

use crate::condition::{Condition, Waits, status};
use crate::facts::{Facts, Question};
use crate::names;
use crate::node::departure::Hold;
use crate::node::hardware::Hardware;
use crate::node::lifecycle::RejectedConfig;
use crate::world::{World, idle};
use charm::tools::Unreadable;
use charm::{AppName, Status};
use charm_testing::status_differences;
use slurm_conf::{Node, NodeName};
use slurm_ops::SlurmVersion;
use slurm_ops::journal::Cause;
use slurm_ops::packages::Obstacle;
use slurm_ops::scontrol::{NodeLookup, NodeRecord};
use slurm_unit::OptionProblem;
use slurm_unit::follower::FollowerCondition;
use slurm_unit::install::InstallCondition;
use std::collections::BTreeSet;

const REFERENCE: &str = include_str!("../../../docs/reference.md");

fn record(states: &[&str], reason: &str) -> NodeRecord {
    let state = states.iter().map(|state| (*state).to_owned()).collect();
    NodeRecord { state, reason: reason.to_owned(), comment: "joined".to_owned(), ..idle() }
}

/// What is said about units that do not work.
fn troubles() -> Vec<Condition> {
    let app = || "slurmctld".parse::<AppName>().unwrap();
    let node = || "compute-0".parse::<NodeName>().unwrap();
    let version = |text: &str| text.parse::<SlurmVersion>().unwrap();
    let text = |text: &str| text.to_owned();
    let down = || Box::new(record(&["DOWN"], "disk"));
    let mut rebooting = down();
    rebooting.state.push("REBOOT_ISSUED".to_owned());
    let failed = |obstacle, archive| Condition::Install(InstallCondition::Failed { obstacle, archive });
    let old = || Obstacle::TooOld { package: text("slurmd"), found: text("23.11.4") };
    let no_key = |malformed, why| Condition::Follower(FollowerCondition::NoKey { app: app(), malformed, why });
    let silent = |daemon, cause, right_key| {
        Condition::Follower(FollowerCondition::Silent { controllers: text("c1:6817"), daemon, cause, right_key })
    };
    let hardware = Hardware {
        found: Node::from_config("RealMemory=1000").unwrap(),
        baseline: Some(Node::from_config("RealMemory=1000 Gres=gpu:2").unwrap()),
    };
    let causes = [None, Some(Cause::Clocks), Some(Cause::Authentication), Some(Cause::NameResolution)];
    let job = |count, left, overdue| Hold::Jobs { count, left, overdue };
    let holds = [
        job(2, Some(4320), false),
        job(1, Some(600), false),
        job(2, Some(600), true),
        job(2, None, false),
        job(1, None, false),
        Hold::Cancelled(2),
        Hold::PendingJobs(vec![text("17")]),
        Hold::PendingJobs(vec![text("17"), text("18_1")]),
        Hold::Reservations(vec![text("maint")]),
        Hold::Slurmctld,
        Hold::Registration,
        Hold::Refused,
        Hold::LocalJobs(Some(2)),
        Hold::LocalJobs(None),
    ];
    let mut troubles: Vec<Condition> =
        holds.iter().map(|hold| Condition::Departing { hold: hold.clone(), leader: false }).collect();
    troubles.push(Condition::Departing { hold: job(2, Some(4320), false), leader: true });
    troubles.extend([
        Condition::Leaving,
        Condition::MachineTaken { other: node(), unit: "gpu/0".parse().unwrap() },
        Condition::ReservedName("all".parse().unwrap()),
        Condition::Option(OptionProblem::new("partition-config", "MaxTime=x", "expected a time")),
        Condition::Option(OptionProblem::new("partition-config", "", "expected a time")),
        Condition::NoteUnreadable(format!("{}: EOF", names::NODE_NOTE)),
        Condition::KillMode(text("mixed")),
        failed(Obstacle::Passing(text("locked")), true),
        failed(Obstacle::Failed(text("no space")), true),
        failed(Obstacle::Failed(text("no space")), false),
        failed(old(), true),
        failed(Obstacle::Unknown { package: text("slurmd") }, true),
        failed(Obstacle::Lacking { plugin: "auth_slurm.so" }, true),
        Condition::Install(InstallCondition::InUse(old())),
        Condition::Follower(FollowerCondition::NotRelated(app())),
        Condition::Follower(FollowerCondition::RelationExpected),
        Condition::Follower(FollowerCondition::NoData(app())),
        Condition::Follower(FollowerCondition::UnusableData { app: app(), why: text("key controllers: not a list") }),
        Condition::Follower(FollowerCondition::TooNew {
            own: version("26.05.1"),
            controllers: version("24.11.5"),
            app: app(),
        }),
        no_key(false, Some(Unreadable::NotAllowed)),
        no_key(false, Some(Unreadable::NotFound)),
        no_key(true, None),
        Condition::Follower(FollowerCondition::Stopped),
        Condition::Follower(FollowerCondition::Failing { result: text("exit-code"), complaint: None }),
        silent(true, None, true),
        silent(false, Some(Cause::Authentication), false),
        Condition::NotRegistered(node()),
        Condition::HardwareLost(hardware.losses()),
        Condition::NodeRejected(text("Low RealMemory")),
        Condition::NotInPartition { node: node(), app: app() },
        Condition::Skew(600),
        Condition::Skew(-600),
        Condition::NodeDown { record: down(), app: app() },
        Condition::NodeDown { record: rebooting, app: app() },
    ]);
    troubles.extend(causes.into_iter().map(|cause| silent(false, cause, true)));
    troubles.extend(causes.into_iter().map(|cause| Condition::NotResponding { record: down(), cause }));
    troubles
}

/// What is said beside the state of a node.
fn details() -> Vec<Condition> {
    let names = || vec!["7".to_owned()];
    let rejected = RejectedConfig { requested: Node::from_config("CPUs=99").unwrap(), reason: "no".to_owned() };
    let waits = [
        Waits::Nothing,
        Waits::Jobs { jobs: vec![7], closed: true },
        Waits::Jobs { jobs: vec![7, 8], closed: false },
        Waits::PendingJobs(names()),
        Waits::Reservations(names()),
        Waits::Slurmctld,
    ];
    let rejected = Condition::ConfigRejected { rejected, last_working: Node::new() };
    waits.into_iter().map(Condition::Pending).chain([rejected]).collect()
}

/// The status of a unit in a world, as Juju would show it.
fn shown(world: &World) -> Status {
    let text = world.shown();
    let (word, message) = text.split_once(": ").unwrap();
    Status::from_words(word, message).unwrap()
}

fn statuses() -> Vec<Status> {
    let mut statuses: Vec<Status> =
        troubles().iter().map(|one| status(&Facts::default(), std::slice::from_ref(one))).collect();
    let facts = World::joined().find_out(|facts| {
        facts.need(&[Question::Glance, Question::Identity])?;
        Ok(facts.clone())
    });
    statuses.extend(details().iter().map(|one| status(&facts, std::slice::from_ref(one))));
    let drained = World::joined().with_node(NodeLookup::Present(record(&["IDLE", "DRAIN"], "disk")));
    let mut closed = World::joined();
    closed.partition_state = Some("DOWN".to_owned());
    let mut closed_by_option = World::joined().with_partition_config("State=DOWN");
    closed_by_option.partition_state = Some("DOWN".to_owned());
    statuses.extend([World::joined(), drained, closed, closed_by_option].iter().map(shown));
    // Said by what all charms share.
    statuses.extend([Status::maintenance("installing slurmd"), Status::waiting("retrying after error: no")]);
    statuses
}

#[test]
fn every_status_is_documented() {
    assert_eq!(status_differences(REFERENCE, "## Statuses of slurmd", &statuses()), Vec::<String>::new());
}

/// Names a condition. The compiler asks for an arm for a new one.
fn name(condition: &Condition) -> &'static str {
    match condition {
        Condition::Leaving => "leaving",
        Condition::MachineTaken { .. } => "machine taken",
        Condition::ReservedName(_) => "reserved name",
        Condition::Option(_) => "option",
        Condition::NoteUnreadable(_) => "note",
        Condition::KillMode(_) => "kill mode",
        Condition::Install(_) => "install",
        Condition::Follower(FollowerCondition::NotRelated(_)) => "not related",
        Condition::Departing { .. } => "departing",
        Condition::Follower(FollowerCondition::RelationExpected) => "relation expected",
        Condition::Follower(FollowerCondition::StaleRelation) => "stale relation",
        Condition::Follower(FollowerCondition::Acknowledging) => "acknowledging",
        Condition::Follower(FollowerCondition::NoData(_)) => "no data",
        Condition::Follower(FollowerCondition::UnusableData { .. }) => "unusable data",
        Condition::Follower(FollowerCondition::TooNew { .. }) => "too new",
        Condition::Follower(FollowerCondition::NoKey { .. }) => "no key",
        Condition::Follower(FollowerCondition::Stopped) => "stopped",
        Condition::Follower(FollowerCondition::Failing { .. }) => "failing",
        Condition::Follower(FollowerCondition::Silent { .. }) => "silent",
        Condition::NotRegistered(_) => "not registered",
        Condition::HardwareLost(_) => "hardware lost",
        Condition::NodeRejected(_) => "node rejected",
        Condition::NotInPartition { .. } => "not in partition",
        Condition::Skew(_) => "skew",
        Condition::NotResponding { .. } => "not responding",
        Condition::NodeDown { .. } => "node down",
        Condition::Pending(_) => "pending",
        Condition::WeightSetAhead => "weight",
        Condition::ConfigRejected { .. } => "config rejected",
        Condition::NotSavedYet => "not saved",
    }
}

#[test]
fn each_condition_has_an_example() {
    let unsaid =
        [Condition::Follower(FollowerCondition::StaleRelation), Condition::WeightSetAhead, Condition::NotSavedYet];
    let names: BTreeSet<&str> = troubles().iter().chain(&details()).chain(&unsaid).map(name).collect();
    assert_eq!(names.len(), 29, "{names:?}");
}
