//! Every reason why a unit of slurmrestd is not as it should be, and its words. What an operator reads is decided here
//! and nowhere else.

use crate::facts::Facts;
use crate::names;
use charm::{Status, UnitName};
use slurm_ops::slurmrestd;
use slurm_unit::OptionProblem;
use slurm_unit::follower::FollowerCondition;
use slurm_unit::install::InstallCondition;

/// A reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// This unit is being removed. Never blocked: Juju 4 drops a leaving unit that is.
    Leaving,
    /// Another daemon of Slurm has this machine, and its files are where ours would be.
    MachineTaken { daemon: &'static str, unit: UnitName },
    /// An option cannot be used.
    Option(OptionProblem),
    /// There is no Slurm to work with, or none that is safe from upgrades.
    Install(InstallCondition),
    /// slurmrestd does not follow its controllers.
    Follower(FollowerCondition),
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
            Self::Leaving | Self::MachineTaken { .. } | Self::Option(_) => false,
            Self::Install(condition) => condition.needs_retry(),
            Self::Follower(condition) => condition.needs_retry(),
        }
    }
}

impl Condition {
    /// Says what is wrong. None: nothing that an operator has to know.
    fn told(&self) -> Option<Status> {
        match self {
            Self::Leaving => Some(Status::maintenance("leaving")),
            Self::MachineTaken { daemon, unit } => Some(Status::blocked(format!(
                "{daemon} has /etc/slurm on this machine: remove {unit}, add one elsewhere"
            ))),
            Self::Option(problem) => Some(Status::blocked(problem.to_string())),
            Self::Install(condition) => condition.status(&names::PROFILE),
            Self::Follower(condition) => condition.status(&names::PROFILE),
        }
    }
}

/// Says how this unit is: the worst condition, or whose API it serves.
pub fn status(facts: &Facts, conditions: &[Condition]) -> Status {
    let worst = Status::worst(conditions.iter().filter_map(Condition::told));
    worst.unwrap_or_else(|| Status::active(well(facts)))
}

fn well(facts: &Facts) -> String {
    let Ok(Some(controller)) = facts.controller() else { return String::new() };
    let versions = facts.plugins().map(slurmrestd::api_versions).unwrap_or_default();
    match versions.last() {
        Some(newest) => format!("REST API of {}, {newest}", controller.app),
        None => format!("REST API of {}", controller.app),
    }
}
