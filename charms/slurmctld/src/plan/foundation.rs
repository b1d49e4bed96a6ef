//! What has to be on the machine before slurmctld can be configured: packages, state, keys, and how systemd treats it.

use super::{Step, identity, options};
use crate::names;
use crate::observe::{Daemon, Observed, Secret, Shared, StateDirectory};
use charm::Wake;
use slurm_ops::packages::Obstacle;
use slurm_ops::systemd;

/// Packages, and what keeps upgrades from restarting a daemon that has jobs.
pub(super) fn install(seen: &Observed) -> Vec<Step> {
    let machine = &seen.machine;
    let Some(version) = &machine.version else {
        // A source that cannot be used, or did not work a moment ago, is for the operator to mend.
        let source = options::source(seen).ok().filter(|_| seen.tried.install.is_none() && !is_in_use(seen));
        return source.map(Step::InstallPackages).into_iter().collect();
    };
    let mut steps = Vec::new();
    if !machine.packages_held && !seen.tried.hold {
        steps.push(Step::HoldPackages);
    }
    if !machine.left_alone {
        steps.push(Step::LeaveAlone);
    }
    if machine.reported_version.as_ref() != Some(version) {
        steps.push(Step::ReportVersion(version.clone()));
    }
    steps
}

/// Says whether the Slurm on this machine runs, although it is too old. Somebody may have jobs in it.
pub fn is_in_use(seen: &Observed) -> bool {
    let runs = matches!(seen.machine.daemon, Daemon::Answering { .. } | Daemon::Silent { .. });
    runs && matches!(seen.machine.unfit, Some(Obstacle::TooOld { .. }))
}

/// Says whether apt may give later what it does not give now. An archive without a usable Slurm has to be replaced by another one, and Juju
/// tells when it was.
pub(super) fn awaits_packages(seen: &Observed) -> bool {
    let later = seen.tried.install.as_ref().is_some_and(Obstacle::is_worth_another_look);
    later || (seen.machine.version.is_some() && !seen.machine.packages_held)
}

/// Everything slurmctld needs beside its configuration.
pub(super) fn prepare(seen: &Observed) -> Vec<Step> {
    let machine = &seen.machine;
    if machine.version.is_none() || options::holds_back(seen) {
        return Vec::new();
    }
    let mut steps = Vec::new();
    // A cluster that was born keeps its state or none: an empty directory would kill every running job.
    if identity::obstacle(seen).is_none() && matches!(machine.state, StateDirectory::Absent | StateDirectory::Empty) {
        steps.push(Step::PrepareState(identity::note(seen)));
    }
    if !machine.keys_private {
        steps.push(Step::SecureKeys);
    }
    if !machine.configuration_open {
        steps.push(Step::OpenConfiguration);
    }
    if !machine.auth_key {
        steps.extend(key(&seen.auth_secret, Step::MakeAuthKey, Step::RestoreAuthKey));
    }
    if !machine.jwt_key {
        steps.extend(key(&seen.jwt_secret, Step::MakeJwtKey, Step::RestoreJwtKey));
    }
    let drop_in = drop_in(seen);
    if machine.drop_in.as_ref() != Some(&drop_in) {
        steps.push(Step::WriteDropIn(drop_in));
    }
    let failure_service = failure_service(seen);
    if machine.failure_service.as_ref() != Some(&failure_service) {
        steps.push(Step::WriteFailureService(failure_service));
    }
    steps
}

/// A key that is not on disk comes from the secret; one that is nowhere any more is made anew.
fn key(secret: &Secret, make: Step, restore: Step) -> Option<Step> {
    match secret {
        Secret::Absent => Some(make),
        Secret::Shared(Shared { holds_key: true, .. }) | Secret::Kept { holds_key: true } => Some(restore),
        Secret::Shared(_) | Secret::Kept { .. } => Some(make),
        Secret::JustMade | Secret::Unknown => None,
    }
}

/// How systemd treats slurmctld. Its state is checked before every start, also an automatic one: slurmctld would make a directory
/// that is missing and start without any job. A start that fails again and again ends within seconds, and the charm is told; of a
/// single death, after which systemd restarts it by itself, it is not (`RestartMode=direct`, where systemd knows it).
fn drop_in(seen: &Observed) -> String {
    let mount = match seen.options.network_state && !identity::is_local(seen) {
        true => format!("ExecStartPre=/usr/bin/mountpoint -q {}\n", names::CHECKPOINT_DIRECTORY),
        false => String::new(),
    };
    format!(
        "# Written by the slurmctld charm.\n\
         [Unit]\n\
         StartLimitIntervalSec=30\n\
         StartLimitBurst=4\n\
         OnFailure={failure}\n\
         \n\
         [Service]\n\
         {mount}\
         ExecStartPre=/usr/bin/grep -qxF \"{note}\" {directory}/.cluster\n\
         Restart=on-failure\n\
         RestartMode=direct\n\
         RestartSec=2\n",
        failure = names::FAILURE_SERVICE,
        note = identity::note(seen),
        directory = names::STATE_DIRECTORY,
    )
}

/// The service that systemd starts when slurmctld has failed: it calls this charm as the timer does.
fn failure_service(seen: &Observed) -> String {
    let wake = Wake::new(&seen.unit, names::EVENT_DAEMON_FAILED);
    systemd::one_shot_service("Tells the slurmctld charm that slurmctld failed", &wake.command, Wake::PATIENCE)
}
