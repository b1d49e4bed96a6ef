//! Every status of this charm is in the reference, and the reference has no other.

use crate::condition::{self, Condition};
use crate::config::sources::ConfigSource;
use crate::daemon::Daemon;
use crate::facts::{Facts, RejectedHost};
use crate::identity::StateProblem;
use crate::names;
use crate::step::Step;
use charm::{AppName, Status};
use charm_testing::status_differences;
use slurm_ops::journal::Cause;
use slurm_ops::packages::Obstacle;
use slurm_unit::OptionProblem;
use slurm_unit::install::InstallCondition;

const REFERENCE: &str = include_str!("../../../docs/reference.md");

fn conditions() -> Vec<Condition> {
    let app = |name: &str| -> AppName { name.parse().unwrap() };
    let text = |text: &str| text.to_owned();
    let host = |cause| Condition::RejectedHost(RejectedHost { host: text("10.0.0.5"), cause });
    let state = |problem| Condition::State { problem, mount_related: false };
    let failed = |obstacle, archive| Condition::Install(InstallCondition::Failed { obstacle, archive });
    let old = || Obstacle::TooOld { package: text("slurmctld"), found: text("23.11.4") };
    let second = |network_state| Condition::Second { unit: "slurmctld/1".parse().unwrap(), network_state };
    vec![
        host(Cause::Clocks),
        host(Cause::Authentication),
        host(Cause::NameResolution),
        Condition::Leaving,
        second(true),
        second(false),
        Condition::Undecided,
        Condition::NotLeader,
        Condition::Option(OptionProblem::new(names::OPTION_PROCESS_TRACKING, "docker", "use auto")),
        Condition::Option(OptionProblem::new(names::OPTION_PROCESS_TRACKING, "", "use auto")),
        failed(Obstacle::Passing(text("locked")), true),
        failed(Obstacle::Failed(text("no space")), true),
        failed(Obstacle::Failed(text("no space")), false),
        failed(old(), true),
        failed(Obstacle::Unknown { package: text("slurmctld") }, true),
        failed(Obstacle::Lacking { plugin: "auth_slurm.so" }, true),
        Condition::Install(InstallCondition::InUse(old())),
        Condition::Rejected { source: ConfigSource::Parameters, app: None, reason: text("no") },
        Condition::Rejected { source: ConfigSource::File, app: Some(app("gpu")), reason: text("no") },
        Condition::TakenBack(text("no")),
        Condition::NoteUnreadable(text("/etc/slurm/note.json: no")),
        Condition::PartitionAtRisk(text("night")),
        Condition::UnusableData { app: app("gpu"), why: text("no") },
        Condition::PartitionTaken { app: app("b"), partition: text("a"), owner: app("a") },
        Condition::AwaitsPartition { chosen: text("gpu"), there: vec![text("compute")] },
        Condition::SeveralDefaults(vec![text("a"), text("b")]),
        state(StateProblem::NotMounted),
        Condition::State { problem: StateProblem::NotMounted, mount_related: true },
        state(StateProblem::ReadOnly),
        state(StateProblem::Lost),
        state(StateProblem::Foreign(text("lab"))),
        state(StateProblem::Unmarked),
        state(StateProblem::Unreadable(text("no answer"))),
        Condition::CannotSave(text("/var/lib/slurm/checkpoint/state is full")),
        Condition::AwaitsKey("authentication key"),
        Condition::AwaitsKey("token key"),
        Condition::Daemon(Daemon::Stopped),
        Condition::Daemon(Daemon::Failing { reason: text("no") }),
        Condition::Daemon(Daemon::Silent { reason: None }),
        Condition::Daemon(Daemon::Silent { reason: Some(text("no")) }),
        Condition::Daemon(Daemon::ShutOut),
        Condition::Unproven(None),
        Condition::Unproven(Some(text("no"))),
    ]
}

#[test]
fn every_status_is_documented() {
    let facts = Facts::default();
    let mut statuses: Vec<Status> =
        conditions().iter().map(|one| condition::status(&facts, std::slice::from_ref(one))).collect();
    statuses.push(condition::status(&facts, &[]));
    let steps = [Step::StartDaemon, Step::RestartDaemon];
    statuses.extend(steps.iter().filter_map(crate::apply::announce));
    // Said by what all charms share.
    statuses.extend([Status::maintenance("installing slurmctld"), Status::waiting("retrying after error: no")]);
    assert_eq!(status_differences(REFERENCE, "## Statuses of slurmctld", &statuses), Vec::<String>::new());
}

/// A status is read in a table: what is fixed of its text leaves room for the details.
#[test]
fn the_fixed_words_of_a_status_are_few() {
    for condition in conditions() {
        let status = condition::status(&Facts::default(), &[condition]);
        assert!(status.message().chars().count() <= 120, "{status:?}");
    }
}
