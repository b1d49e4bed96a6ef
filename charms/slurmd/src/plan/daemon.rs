//! slurmd itself: the files that it reads, and that it runs, with the right key and for the right controllers.

use super::{Planning, Situation, Tried, made, silence, too_new};
use crate::names;
use crate::node::lifecycle::BootNote;
use crate::step::{NoteReason, Step};
use charm::RelationId;
use slurm_interface::ControllerData;
use slurm_ops::journal::Cause;
use slurm_ops::scontrol::NodeLookup;
use slurm_ops::slurmd::SlurmdOptions;
use slurm_unit::Trigger;
use slurm_unit::acknowledgement::{self, Next};
use slurm_unit::follower::KeySecret;
use slurm_unit::service::{self, Running, ServiceFiles};

/// Every file slurmd reads.
pub(super) fn prepare(situation: &Situation<'_>, _: &Tried, data: &ControllerData) -> Planning<Vec<Step>> {
    let facts = situation.facts;
    let drop_in = service::patient_drop_in(&names::PROFILE);
    let wanted = ServiceFiles::of(&situation.identity.unit, &names::PROFILE, drop_in);
    let files = facts.service_files()?.upkeep(&wanted, situation.daemon.needs_reload_of_units);
    let mut steps: Vec<Step> = files.into_iter().map(Step::Service).collect();
    let key = facts.key_file()?;
    if let KeySecret::Offered(offered) = facts.key_secret()?
        && (key.keys.as_ref() != Some(offered) || !key.private)
    {
        // Noted first: systemd tells the start of slurmd in whole seconds, and this dispatch may be killed.
        let boot = &facts.boot()?.note;
        if !boot.key_is_due && situation.daemon.running != Running::Stopped {
            steps.push(Step::NoteForBoot(BootNote { key_is_due: true, ..boot.clone() }));
        }
        let owner = if key.shared { names::SLURM_USER } else { names::KEY_OWNER };
        steps.push(Step::WriteKey { keys: offered.clone(), owner });
    }
    // A changed list of controllers is for the next start: the running daemon gets it from the controllers themselves.
    if let Some(conf) = situation.start_conf()? {
        let options =
            SlurmdOptions { name: situation.identity.node.clone(), conf, controllers: data.controllers.clone() };
        if facts.start_file()?.options.as_ref() != Some(&options) {
            steps.push(Step::WriteOptions(options));
        }
    }
    Ok(steps)
}

/// Says whether slurmd was started or made to register again in this dispatch.
pub(super) fn stirred(step: &Step) -> bool {
    matches!(step, Step::StartDaemon | Step::RestartDaemon | Step::ReloadDaemon)
}

/// Brings slurmd up, and back if what runs is of no use.
pub(super) fn run(situation: &Situation<'_>, attempts: &Tried, data: &ControllerData) -> Planning<Vec<Step>> {
    let facts = situation.facts;
    // Without its key slurmd would turn to munge, and without options to a configuration that is not there.
    let key_is_there = facts.key_file()?.keys.is_some();
    let Some(on_disk) = facts.start_file()?.options.as_ref().filter(|_| key_is_there) else { return Ok(Vec::new()) };
    let daemon = situation.daemon;
    if too_new(facts, data)?.is_some() {
        return Ok(Vec::new());
    }
    let restarted = made(attempts, &Step::RestartDaemon);
    let can_restart = !restarted && daemon.spares_jobs();
    let taken_back = |step: &Step| matches!(step, Step::WriteNote(_, NoteReason::TakeBack));
    if matches!(daemon.running, Running::Stopped | Running::Failing) {
        let started = attempts.made_since(|step| *step == Step::StartDaemon, taken_back);
        // Do not start slurmd from its own failure: another failure would call again, without end.
        let may_start = situation.identity.trigger != Trigger::DaemonFailure || attempts.made(taken_back);
        return Ok(if !started && may_start { vec![Step::StartDaemon] } else { Vec::new() });
    }
    if can_restart && is_lost(situation, data)? {
        return Ok(vec![Step::RestartDaemon]);
    }
    if daemon.running != Running::Up {
        return Ok(Vec::new());
    }
    let stirred_now = attempts.made(stirred);
    let reloaded = made(attempts, &Step::ReloadDaemon);
    match situation.lookup {
        // It answers nobody, and asks nobody: in the middle of a reconfigure it got stuck.
        NodeLookup::Unreachable { .. } => {
            let started = made(attempts, &Step::StartDaemon);
            let stuck = !started && can_restart && *facts.stale_processes()?;
            Ok(if stuck { vec![Step::RestartDaemon] } else { Vec::new() })
        }
        // Slurm saves a new node only after minutes: a controller that crashed before has forgotten it, and slurmd
        // does not notice. A daemon that this very dispatch started is given time.
        NodeLookup::Absent if stirred_now => Ok(Vec::new()),
        NodeLookup::Absent => {
            // A reload registers with what the daemon was started with; only a start takes up what is on the disk. And
            // only the process that systemd watches is told to reload.
            let same = daemon.with.as_ref().is_some_and(|with| with.conf == on_disk.conf);
            let enough = same && !*facts.stale_processes()?;
            Ok(vec![if enough || !daemon.spares_jobs() { Step::ReloadDaemon } else { Step::RestartDaemon }])
        }
        NodeLookup::Present(_) if reloaded => Ok(Vec::new()),
        NodeLookup::Present(_) => Ok(match reload_reason(situation, attempts)? {
            // Only the process that systemd watches is told to reload, and it may be stuck.
            Some(boot) if situation.daemon.spares_jobs() && *facts.stale_processes()? && !restarted => {
                vec![Step::RestartDaemon, Step::NoteForBoot(boot)]
            }
            Some(boot) => vec![Step::ReloadDaemon, Step::NoteForBoot(boot)],
            None => Vec::new(),
        }),
    }
}

/// Returns what is to be noted about a reload that is due: slurmctld looks for this node where it is no more, or the
/// key on the disk is newer than what slurmd has loaded. Each address and each key counts once.
fn reload_reason(situation: &Situation<'_>, attempts: &Tried) -> Planning<Option<BootNote>> {
    let facts = situation.facts;
    let boot = &facts.boot()?.note;
    let address = facts.moved_from()?.as_ref().filter(|address| boot.address.as_ref() != Some(address));
    let key = situation.new_key(boot, attempts)?.filter(|_| situation.daemon.spares_jobs());
    Ok((address.is_some() || key.is_some()).then(|| BootNote {
        address: address.or(boot.address.as_ref()).cloned(),
        key: key.or(boot.key),
        key_is_due: boot.key_is_due && key.is_none(),
        ..boot.clone()
    }))
}

/// Tells the controllers which keys slurmd has loaded. What does not run has none but those of its next start.
pub(super) fn acknowledge(situation: &Situation<'_>, attempts: &Tried, relation: &RelationId) -> Planning<Next> {
    let facts = situation.facts;
    let boot = &facts.boot()?.note;
    let loaded = match situation.daemon.running {
        Running::Up => situation.new_key(boot, attempts)?.is_none(),
        Running::Starting => !situation.has_newer_key()?,
        Running::Stopped | Running::Failing => true,
    };
    let Some(keys) = facts.key_file()?.keys.as_ref().filter(|_| loaded) else { return Ok(Next::Nothing) };
    let published = attempts.made(|step| matches!(step, Step::Acknowledge(..)));
    acknowledgement::next(relation, Some(keys), boot.acknowledged.as_ref(), published, || facts.own_bag())
}

/// Says whether the running daemon can never be what it should be: it is no dynamic node of this name, every
/// controller it was told of has been replaced and none of them answers, or it has another key than they.
fn is_lost(situation: &Situation<'_>, data: &ControllerData) -> Planning<bool> {
    let Some(with) = &situation.daemon.with else { return Ok(true) };
    let unknown = !with.controllers.iter().any(|controller| data.controllers.contains(controller));
    // One that has not found its way in yet may have read anything, and nothing at all.
    let starting = situation.daemon.running == Running::Starting;
    let silent = matches!(situation.lookup, NodeLookup::Unreachable { .. });
    let refused = || matches!(silence(situation.lookup), Some(Cause::Authentication));
    let outdated = situation.has_newer_key()? && (starting || refused());
    Ok(with.name != situation.identity.node || (silent && (unknown || outdated)))
}
