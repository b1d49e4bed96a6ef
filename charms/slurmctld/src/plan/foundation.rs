//! What has to be on the machine before slurmctld can be configured: packages, state, keys, and how systemd treats it.

use super::install_problem;
use crate::facts::{Ask, Attempts, Facts, StateDirectory};
use crate::fence;
use crate::identity::Identity;
use crate::keys::Key;
use crate::names;
use crate::place::Place;
use crate::step::Step;
use charm::tools::{SecretAnswer, Unreadable};
use slurm_ops::packages::Obstacle;
use slurm_unit::install::{InstallCondition, InstallStep};
use slurm_unit::key_secret;
use slurm_unit::service::{self, Running, ServiceFiles};

/// Packages, and what keeps upgrades from restarting a daemon that has jobs.
pub(super) fn install(facts: &Facts, attempts: &Attempts) -> Result<(Vec<Step>, Vec<InstallCondition>), Ask> {
    let installation = facts.installation()?;
    let failed = install_problem(attempts, |step| matches!(step, InstallStep::Install(_)));
    let hold_failed = install_problem(attempts, |step| *step == InstallStep::Hold).is_some();
    // A Slurm that is too old is replaced, unless it runs: there may be jobs in it.
    let old = matches!(installation.unfit, Some(Obstacle::TooOld { .. }));
    let in_use = old && matches!(service::running(facts.unit()?), Running::Up | Running::Starting);
    let (steps, conditions) = installation.plan(facts.options()?.source.as_ref(), in_use, failed, hold_failed);
    Ok((steps.into_iter().map(Step::Install).collect(), conditions))
}

/// Everything slurmctld needs beside its configuration.
pub(super) fn prepare(facts: &Facts, attempts: &Attempts, identity: &Identity) -> Result<Vec<Step>, Ask> {
    let (leader, keys) = (*facts.leader()?, facts.keys()?);
    let mut steps = Vec::new();
    // A cluster that was born keeps its state or none: an empty directory would kill every running job.
    let place = Place::find(facts)?;
    let on_store = place == Place::Store;
    let state_problem = identity.state_problem(facts)?;
    let vacant = matches!(place.state(facts)?, StateDirectory::Absent | StateDirectory::Empty);
    if leader && state_problem.is_none() && vacant {
        steps.push(Step::PrepareState(identity.note.clone()));
    }
    if !keys.private && (leader || !on_store) {
        steps.push(Step::SecureKeys);
    }
    if leader && !facts.configuration()?.world_readable {
        steps.push(Step::MakeWorldReadable);
    }
    for key in [Key::Auth, Key::Jwt] {
        if leader && keys.content(key).is_none() {
            steps.extend(missing_key(facts, key)?);
        }
    }
    let call = facts.call()?;
    let wanted = ServiceFiles::of(&call.unit, &names::PROFILE, drop_in(identity, place));
    steps.extend(facts.service_files()?.steps(&wanted).into_iter().map(Step::Service));
    if on_store {
        let accepted = &facts.configuration()?.accepted;
        let wanted = fence::settings(&call.unit, &facts.host()?.name, identity, accepted);
        let tried = attempts.made(|step| matches!(step, Step::EnsureFence(_)));
        if !tried && !facts.fence()?.is_as(&wanted) {
            steps.push(Step::EnsureFence(wanted));
        }
    }
    // It would end a slurmctld that has left the store.
    if place == Place::Aside && facts.fence()?.settings.is_some() {
        steps.push(Step::EndFence);
    }
    Ok(steps)
}

/// A key that is not on disk comes from the secret; a key that is nowhere any more is made anew. That Juju would not
/// say is no loss, or a new key would be made beside one that serves.
fn missing_key(facts: &Facts, key: Key) -> Result<Option<Step>, Ask> {
    Ok(match facts.content(key)? {
        SecretAnswer::Content(content) if content.get(key_secret::KEY).is_some() => {
            Some(Step::RestoreKey(key, content.clone()))
        }
        SecretAnswer::Content(_) | SecretAnswer::Unreadable(Unreadable::NotFound) => Some(Step::MakeKey(key)),
        SecretAnswer::Unreadable(Unreadable::NotAllowed | Unreadable::AgentGone) => None,
    })
}

/// How systemd treats slurmctld. Its state is checked before every start, also an automatic one: slurmctld would make
/// a directory that is missing and start without any job. A start that fails again and again ends within seconds, and
/// the charm is told; of a single death, after which systemd restarts it by itself, it is not (`RestartMode=direct`,
/// where systemd knows it).
///
/// On a store the guard checks. systemd itself must not look there, as the condition of the packaged unit would have
/// it do: a store that does not answer would hold it, and with it the whole machine. When the machine goes down
/// slurmctld saves its state, so the mount, and what serves it, goes after it (processes of FUSE belong to autofs).
pub(super) fn drop_in(identity: &Identity, place: Place) -> String {
    let (order, check) = if place == Place::Store {
        let (fence, mount) = (slurm_ops::fence::SERVICE, names::CHECKPOINT_UNIT);
        let order = format!("ConditionPathExists=\nWants={fence}\nAfter={fence} {mount} autofs.service\n");
        (order, format!("+{} {}", slurm_ops::fence::PROGRAM, slurm_ops::fence::GUARD_ARGUMENT))
    } else {
        (String::new(), format!("/usr/bin/grep -qxF \"{}\" {}/.cluster", identity.note, place.state_directory()))
    };
    format!(
        "# Written by the slurmctld charm.\n\
         [Unit]\n\
         {order}\
         StartLimitIntervalSec=30\n\
         StartLimitBurst=4\n\
         OnFailure={failure}\n\
         \n\
         [Service]\n\
         ExecStartPre={check}\n\
         Restart=on-failure\n\
         RestartMode=direct\n\
         RestartSec=2\n",
        failure = names::PROFILE.failure_service(),
    )
}
