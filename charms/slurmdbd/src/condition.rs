//! Every reason why an accounting unit is not as it should be, and its words. What an operator reads is decided here
//! and nowhere else.

use crate::facts::Facts;
use crate::names;
use charm::{AppName, Status, UnitName};
use slurm_ops::SlurmVersion;
use slurm_ops::slurmdbd::Trouble;
use slurm_unit::OptionProblem;
use slurm_unit::follower::FollowerCondition;
use slurm_unit::install::InstallCondition;

/// A reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// This unit is being removed. Never blocked: Juju 4 drops a leaving unit that is.
    Leaving,
    /// Another unit runs slurmdbd.
    SeveralUnits { server: UnitName, unit: UnitName },
    /// slurmd has this machine, and the key there.
    MachineTaken(UnitName),
    /// An option cannot be used.
    Option(OptionProblem),
    /// There is no Slurm to work with, or none that is safe from upgrades.
    Install(InstallCondition),
    /// slurmdbd has no controllers, or does not run.
    Follower(FollowerCondition),
    /// The controllers have said nothing yet.
    NoKeys(AppName),
    /// There is no key of tokens on the disk, and none to be had.
    NoTokenKey(AppName),
    /// slurmdbd is of an earlier release than the controllers: Slurm does not work so.
    TooOld { own: SlurmVersion, controllers: SlurmVersion, app: AppName },
    /// There is no database for this application.
    NoDatabase(AppName),
    /// Juju is about to show the relation.
    DatabaseExpected,
    /// The database has said nothing yet.
    DatabaseNotReady(AppName),
    /// The database says something that cannot be used.
    DatabaseUnusable { app: AppName, why: String },
    /// User and password cannot be read. `malformed`: they are no use.
    NoCredentials { app: AppName, malformed: bool },
    /// slurmdbd and its database do not get on.
    Trouble { app: AppName, trouble: Trouble },
    /// slurmdbd runs and does not answer.
    Silent,
}

impl From<FollowerCondition> for Condition {
    fn from(condition: FollowerCondition) -> Self {
        Self::Follower(condition)
    }
}

impl charm::runtime::Condition for Condition {
    fn status(&self) -> Status {
        self.told().unwrap_or_else(|| Status::active(""))
    }

    fn needs_retry(&self) -> bool {
        match self {
            Self::Leaving | Self::MachineTaken(_) | Self::Option(_) | Self::TooOld { .. } => false,
            Self::NoDatabase(_) | Self::DatabaseUnusable { .. } => false,
            // Like a relation with the controllers that is expected.
            Self::DatabaseExpected => true,
            Self::Install(condition) => condition.needs_retry(),
            Self::Follower(condition) => condition.needs_retry(),
            // Units of an application are not told of each other's end on Juju 4.
            Self::SeveralUnits { .. } | Self::NoKeys(_) | Self::NoTokenKey(_) | Self::DatabaseNotReady(_) => true,
            Self::NoCredentials { .. } | Self::Trouble { .. } | Self::Silent => true,
        }
    }
}

impl Condition {
    /// Says what is wrong. None: nothing that an operator has to know.
    fn told(&self) -> Option<Status> {
        Some(match self {
            Self::Leaving => Status::maintenance("leaving"),
            Self::SeveralUnits { server, unit } => {
                Status::blocked(format!("only one unit can run slurmdbd, and {server} does: remove {unit}"))
            }
            Self::MachineTaken(unit) => Status::blocked(format!("slurmd is on this machine: remove {unit}")),
            Self::Option(problem) => Status::blocked(problem.to_string()),
            Self::Install(condition) => return condition.status(&names::PROFILE),
            Self::Follower(condition) => return condition.status(&names::PROFILE),
            Self::NoKeys(app) => Status::waiting(format!("for {app} to share its keys")),
            Self::NoTokenKey(app) => Status::waiting(format!("for {app} to share its token key")),
            Self::TooOld { own, controllers, app } => {
                Status::blocked(format!("slurmdbd {own} is older than slurmctld {controllers}: upgrade {app}"))
            }
            Self::NoDatabase(app) => Status::blocked(format!("no database: `juju integrate {app} mysql`")),
            Self::DatabaseExpected => Status::waiting("for the relation with the database"),
            Self::DatabaseNotReady(app) => Status::waiting(format!("for {app} to make the database")),
            Self::DatabaseUnusable { app, why } => Status::blocked(format!("{app}: {why}")),
            Self::NoCredentials { app, malformed: false } => {
                Status::waiting(format!("for {app} to share user and password"))
            }
            Self::NoCredentials { app, malformed: true } => {
                Status::waiting(format!("for {app} to share user and password that a file can hold"))
            }
            Self::Trouble { app, trouble } => Status::waiting(match trouble {
                Trouble::Credentials => format!("for {app}, which refuses the password of slurmdbd"),
                Trouble::Grant => format!("for {app} to let slurmdbd use its database"),
                Trouble::Silent => format!("for {app} to answer slurmdbd"),
                Trouble::Preparing => "for slurmdbd to prepare its tables, which may take minutes".to_owned(),
            }),
            Self::Silent => Status::waiting("for slurmdbd to answer"),
        })
    }
}

/// Says how this unit is: the worst condition, or whose jobs it accounts for.
pub fn status(facts: &Facts, conditions: &[Condition]) -> Status {
    let worst = Status::worst(conditions.iter().filter_map(Condition::told));
    worst.unwrap_or_else(|| Status::active(well(facts)))
}

fn well(facts: &Facts) -> String {
    let controller = facts.controller().ok().and_then(Option::as_ref);
    controller.map(|controller| format!("accounts for {}", controller.app)).unwrap_or_default()
}
