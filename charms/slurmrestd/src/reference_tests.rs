//! Every status of this charm is in docs/reference.md, with what it means and what to do.

use crate::condition::{Condition, status};
use crate::facts::Facts;
use charm::{AppName, Status};
use charm_testing::status_differences;
use slurm_ops::SlurmVersion;
use slurm_ops::packages::Obstacle;
use slurm_unit::OptionProblem;
use slurm_unit::follower::FollowerCondition;
use slurm_unit::install::InstallCondition;

const REFERENCE: &str = include_str!("../../../docs/reference.md");

fn conditions() -> Vec<Condition> {
    let app = || "slurmctld".parse::<AppName>().unwrap();
    let text = |text: &str| text.to_owned();
    let version = |text: &str| text.parse::<SlurmVersion>().unwrap();
    let failed = |obstacle, archive| Condition::Install(InstallCondition::Failed { obstacle, archive });
    let old = || Obstacle::TooOld { package: text("slurmrestd"), found: text("23.11.4") };
    vec![
        Condition::Leaving,
        Condition::MachineTaken { daemon: "slurmd", unit: "rest/0".parse().unwrap() },
        Condition::Option(OptionProblem::new("slurm-source", "x y", "expected a source")),
        Condition::Option(OptionProblem::new("slurm-source", "", "expected a source")),
        failed(Obstacle::Passing(text("locked")), true),
        failed(Obstacle::Failed(text("no space")), true),
        failed(Obstacle::Failed(text("no space")), false),
        failed(old(), true),
        failed(Obstacle::Unknown { package: text("slurmrestd") }, true),
        failed(Obstacle::Lacking { plugin: "auth_jwt.so" }, true),
        Condition::Install(InstallCondition::InUse(old())),
        FollowerCondition::NotRelated("rest".parse().unwrap()).into(),
        FollowerCondition::RelationExpected.into(),
        FollowerCondition::NoData(app()).into(),
        FollowerCondition::UnusableData { app: app(), why: text("databag key `slurmconfig`: not an object") }.into(),
        FollowerCondition::TooNew { own: version("26.05.1"), controllers: version("24.11.5"), app: app() }.into(),
        FollowerCondition::Stopped.into(),
        FollowerCondition::Failing { result: text("exit-code"), complaint: None }.into(),
    ]
}

fn statuses() -> Vec<Status> {
    let mut all: Vec<Status> =
        conditions().iter().map(|one| status(&Facts::default(), std::slice::from_ref(one))).collect();
    // Said by the unit that is well, and by what all charms share.
    all.extend([Status::active("REST API of slurmctld, v0.0.42"), Status::maintenance("installing slurmrestd")]);
    all.push(Status::waiting("retrying after error: no"));
    all
}

#[test]
fn every_status_is_documented() {
    assert_eq!(status_differences(REFERENCE, "## Statuses of slurmrestd", &statuses()), Vec::<String>::new());
}

#[test]
fn what_is_no_obstacle_for_users_is_not_said() {
    assert_eq!(status(&Facts::default(), &[FollowerCondition::StaleRelation.into()]), Status::active(""));
}
