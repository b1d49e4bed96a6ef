//! Every reason why a login unit is not as it should be, and its words. What an operator reads is decided here and
//! nowhere else.

use crate::facts::Facts;
use crate::names;
use charm::{Status, UnitName};
use slurm_unit::OptionProblem;
use slurm_unit::follower::{FollowerCondition, RemoteData};
use slurm_unit::install::InstallCondition;

/// A reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// This unit is being removed. Never blocked: Juju 4 drops a leaving unit that is.
    Leaving,
    /// Another daemon of Slurm has this machine, where its clients work already.
    MachineTaken { daemon: &'static str, unit: UnitName },
    /// An option cannot be used.
    Option(OptionProblem),
    /// There is no Slurm to work with, or none that is safe from upgrades.
    Install(InstallCondition),
    /// sackd does not follow its controllers.
    Follower(FollowerCondition),
    /// sackd has another configuration than the controllers. Jobs can be submitted all the same.
    OldConfiguration,
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
            Self::OldConfiguration => true,
        }
    }
}

impl Condition {
    /// Says what is wrong. None: nothing that an operator has to know.
    fn told(&self) -> Option<Status> {
        match self {
            Self::Leaving => Some(Status::maintenance("leaving")),
            Self::MachineTaken { daemon, unit } => Some(Status::blocked(format!(
                "{daemon} is on this machine, so jobs can be submitted here: remove {unit}"
            ))),
            Self::Option(problem) => Some(Status::blocked(problem.to_string())),
            Self::Install(condition) => condition.status(&names::PROFILE),
            Self::Follower(condition) => condition.status(&names::PROFILE),
            Self::OldConfiguration => None,
        }
    }
}

/// Says how this unit is: the worst condition, or whose users it serves.
pub fn status(facts: &Facts, conditions: &[Condition]) -> Status {
    let worst = Status::worst(conditions.iter().filter_map(Condition::told));
    worst.unwrap_or_else(|| Status::active(well(facts)))
}

fn well(facts: &Facts) -> String {
    let controller = facts.controller().ok().and_then(Option::as_ref);
    match controller.map(|controller| (&controller.app, &controller.data)) {
        Some((app, RemoteData::Data(_))) => format!("login node of {app}"),
        _ => String::new(),
    }
}
