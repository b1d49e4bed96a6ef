//! Slurm on the machine: install it, hold it, keep needrestart from it, tell Juju its version.

use crate::{Error, Hands, OptionProblem, Profile, View};
use charm::Status;
use slurm_ops::SlurmVersion;
use slurm_ops::files::{self, Access};
use slurm_ops::needrestart;
use slurm_ops::packages::{self, Inventory, Obstacle};
use slurm_ops::source::{Source, SourceError};

/// In the charm's directory, which lives as long as the unit: the version that this unit has told Juju.
const REPORTED_VERSION: &str = ".workload-version";

/// Reads the option that says where packages come from.
pub fn source(view: &View, profile: &Profile) -> Result<Result<Source, OptionProblem>, Error> {
    let config = view.juju.config_get()?;
    let text = config.string(profile.source_option);
    let problem = |error: SourceError| OptionProblem::new(profile.source_option, text, error.to_string());
    Ok(text.parse().map_err(problem))
}

/// What of Slurm is on the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Installation {
    /// None unless there is a Slurm that can be used.
    pub version: Option<SlurmVersion>,
    /// Why the Slurm that is there cannot be used.
    pub unfit: Option<Obstacle>,
    /// Upgrades of the machine leave the packages alone.
    pub held: bool,
    /// needrestart leaves the daemon alone.
    pub exempt: bool,
    /// The version that this unit has told Juju.
    pub reported: Option<String>,
}

impl Installation {
    /// Looks what is there. Starts no process.
    pub fn look(view: &View, profile: &Profile) -> Result<Self, Error> {
        let Inventory { version, unfit, held } = packages::inventory(&view.host, &profile.packages)?;
        let exempt = needrestart::is_left_alone(&view.host, &profile.needrestart_file(), &[profile.service])?;
        let reported = files::read_text(&view.host, view.ctx.charm_dir.join(REPORTED_VERSION))?;
        Ok(Self { version, unfit, held, exempt, reported })
    }

    /// Decides what to do next. `in_use`: the Slurm that is there runs, so that nothing may replace it. `failed` is
    /// the outcome of an installation in this dispatch, `hold_failed` that of a hold.
    pub fn plan(
        &self,
        source: Result<&Source, &OptionProblem>,
        in_use: bool,
        failed: Option<&Obstacle>,
        hold_failed: bool,
    ) -> (Vec<InstallStep>, Vec<InstallCondition>) {
        let Some(version) = self.version.map(|version| version.to_string()) else {
            let in_use = in_use && matches!(self.unfit, Some(Obstacle::TooOld { .. }));
            // An option that cannot be used is a condition of its own.
            let Ok(source) = source else { return (Vec::new(), Vec::new()) };
            return match (failed, &self.unfit) {
                (Some(obstacle), _) => {
                    let archive = *source == Source::Archive;
                    (Vec::new(), vec![InstallCondition::Failed { obstacle: obstacle.clone(), archive }])
                }
                (None, Some(unfit)) if in_use => (Vec::new(), vec![InstallCondition::InUse(unfit.clone())]),
                (None, _) => (vec![InstallStep::Install(source.clone())], Vec::new()),
            };
        };
        let mut steps = Vec::new();
        if !self.held && !hold_failed {
            steps.push(InstallStep::Hold);
        }
        if !self.exempt {
            steps.push(InstallStep::ExemptFromNeedrestart);
        }
        if self.reported.as_ref() != Some(&version) {
            steps.push(InstallStep::ReportVersion(version));
        }
        let conditions = if self.held { Vec::new() } else { vec![InstallCondition::NotHeld] };
        (steps, conditions)
    }
}

/// A change of what of Slurm is on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallStep {
    Install(Source),
    Hold,
    ExemptFromNeedrestart,
    ReportVersion(String),
}

impl InstallStep {
    /// Names the step.
    pub fn name(&self, profile: &Profile) -> String {
        match self {
            Self::Install(_) => format!("install {}", profile.daemon),
            Self::Hold => "hold the packages of Slurm".to_owned(),
            Self::ExemptFromNeedrestart => format!("exempt {} from needrestart", profile.service),
            Self::ReportVersion(version) => format!("report version {version}"),
        }
    }

    /// Makes the change. Returns what stood in the way: apt failing is no failure of the hook.
    pub fn apply(&self, hands: &Hands, profile: &Profile) -> Result<Option<Obstacle>, Error> {
        match self {
            Self::Install(source) => {
                let mut shown = Ok(());
                let status = Status::maintenance(format!("installing {}", profile.daemon));
                let begin = || shown = hands.juju.status_set(&status);
                let installed = packages::ensure_installed(&hands.host, source, &profile.packages, begin);
                shown?;
                in_the_way(self, profile, installed)
            }
            Self::Hold => in_the_way(self, profile, packages::ensure_held(&hands.host, &profile.packages)),
            Self::ExemptFromNeedrestart => {
                needrestart::ensure_left_alone(&hands.host, &profile.needrestart_file(), &[profile.service])?;
                Ok(None)
            }
            Self::ReportVersion(version) => {
                hands.juju.application_version_set(version)?;
                let note = hands.ctx.charm_dir.join(REPORTED_VERSION);
                files::replace(&hands.host, note, version.as_bytes(), &Access::own(0o644))?;
                Ok(None)
            }
        }
    }
}

fn in_the_way<T>(
    step: &InstallStep,
    profile: &Profile,
    done: Result<T, packages::PackageError>,
) -> Result<Option<Obstacle>, Error> {
    let Err(error) = done else { return Ok(None) };
    tracing::warn!("could not {}: {error}", step.name(profile));
    Ok(Some(Obstacle::try_from(error)?))
}

/// Why there is no Slurm to work with, or none that is safe from upgrades.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallCondition {
    /// An installation did not work. `archive`: from the distribution's archive.
    Failed { obstacle: Obstacle, archive: bool },
    /// The Slurm that is there is too old, and it runs.
    InUse(Obstacle),
    /// An upgrade could restart the daemon.
    NotHeld,
}

impl InstallCondition {
    /// Says it to the operator. None: of no interest as long as the daemon works.
    pub fn status(&self, profile: &Profile) -> Option<Status> {
        let (daemon, option) = (profile.daemon, profile.source_option);
        Some(match self {
            Self::Failed { obstacle, .. } if obstacle.is_passing() => {
                Status::waiting(format!("for apt: {}", obstacle.told()))
            }
            Self::Failed { obstacle: Obstacle::Failed(why), archive: true } => {
                Status::blocked(format!("installing {daemon} failed: {why}"))
            }
            Self::Failed { obstacle: Obstacle::Failed(why), archive: false } => {
                Status::blocked(format!("option {option}: installing failed: {why}"))
            }
            Self::Failed { obstacle, .. } => Status::blocked(obstacle.advice(option)),
            Self::InUse(unfit) => {
                Status::blocked(format!("{}, and it runs: stop {daemon}, then set option {option}", unfit.told()))
            }
            Self::NotHeld => return None,
        })
    }

    /// Says whether trying again in a while may help. An archive without a usable Slurm has to be replaced by another
    /// one, and Juju tells when it was.
    pub fn needs_retry(&self) -> bool {
        match self {
            Self::Failed { obstacle, .. } => obstacle.is_worth_another_look(),
            Self::InUse(_) => false,
            Self::NotHeld => true,
        }
    }
}
