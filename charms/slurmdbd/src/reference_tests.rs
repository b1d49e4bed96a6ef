//! Every status of this charm is in docs/reference.md, with what it means and what to do.

use crate::condition::{Condition, status};
use crate::facts::Facts;
use charm::tools::Unreadable;
use charm::{AppName, Status, UnitName};
use charm_testing::status_differences;
use slurm_ops::SlurmVersion;
use slurm_ops::packages::Obstacle;
use slurm_ops::slurmdbd::Trouble;
use slurm_unit::OptionProblem;
use slurm_unit::follower::FollowerCondition;
use slurm_unit::install::InstallCondition;

const REFERENCE: &str = include_str!("../../../docs/reference.md");

fn conditions() -> Vec<Condition> {
    let app = || "mysql".parse::<AppName>().unwrap();
    let unit = |name: &str| name.parse::<UnitName>().unwrap();
    let text = |text: &str| text.to_owned();
    let version = |text: &str| text.parse::<SlurmVersion>().unwrap();
    let failed = |obstacle, archive| Condition::Install(InstallCondition::Failed { obstacle, archive });
    let old = || Obstacle::TooOld { package: text("slurmdbd"), found: text("23.11.4") };
    let no_key = |malformed, why| FollowerCondition::NoKey { app: app(), malformed, why }.into();
    let trouble = |trouble| Condition::Trouble { app: app(), trouble };
    vec![
        Condition::Leaving,
        Condition::SeveralUnits { server: unit("slurmdbd/0"), unit: unit("slurmdbd/1") },
        Condition::MachineTaken(unit("slurmdbd/0")),
        Condition::Option(OptionProblem::new("slurm-source", "x y", "expected a source")),
        Condition::Option(OptionProblem::new("slurmdbd-conf-parameters", "", "no such key")),
        failed(Obstacle::Passing(text("locked")), true),
        failed(Obstacle::Failed(text("no space")), true),
        failed(Obstacle::Failed(text("no space")), false),
        failed(old(), true),
        failed(Obstacle::Unknown { package: text("slurmdbd") }, true),
        failed(Obstacle::Lacking { plugin: "accounting_storage_mysql.so" }, true),
        Condition::Install(InstallCondition::InUse(old())),
        FollowerCondition::NotRelated("slurmdbd".parse().unwrap()).into(),
        FollowerCondition::RelationExpected.into(),
        FollowerCondition::UnusableData { app: app(), why: text("key auth_secret_id: no") }.into(),
        no_key(true, None),
        no_key(false, Some(Unreadable::NotFound)),
        no_key(false, Some(Unreadable::NotAllowed)),
        FollowerCondition::Stopped.into(),
        FollowerCondition::Failing { result: text("exit-code"), complaint: None }.into(),
        Condition::NoKeys(app()),
        Condition::NoTokenKey(app()),
        Condition::TooOld { own: version("24.11.5"), controllers: version("26.05.1"), app: app() },
        Condition::NoDatabase("slurmdbd".parse().unwrap()),
        Condition::DatabaseExpected,
        Condition::DatabaseNotReady(app()),
        Condition::DatabaseUnusable { app: app(), why: text("key endpoints: no") },
        Condition::NoCredentials { app: app(), malformed: false },
        Condition::NoCredentials { app: app(), malformed: true },
        trouble(Trouble::Credentials),
        trouble(Trouble::Grant),
        trouble(Trouble::Silent),
        trouble(Trouble::Preparing),
        Condition::Silent,
    ]
}

fn statuses() -> Vec<Status> {
    let mut all: Vec<Status> =
        conditions().iter().map(|one| status(&Facts::default(), std::slice::from_ref(one))).collect();
    // Said by the unit that is well, and by what all charms share.
    all.extend([Status::active("accounts for slurmctld"), Status::maintenance("installing slurmdbd")]);
    all.push(Status::waiting("retrying after error: no"));
    all
}

#[test]
fn every_status_is_documented() {
    assert_eq!(status_differences(REFERENCE, "## Statuses of slurmdbd", &statuses()), Vec::<String>::new());
}
