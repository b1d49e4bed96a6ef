//! What a compute unit changes next. Pure: it reads nothing and changes nothing.
//!
//! No plan here stops slurmd. Data that is missing is a reason to wait: whatever runs goes on running.

mod hardware;
mod launch;
mod registration;
mod step;

use crate::change::{Change, open_conf};
use crate::names;
use crate::observe::{Controller, Daemon, Key, Launch, Observed, Offer, Refused, Registration};
use charm::{Databag, Next, Plan, Wake};
use slurm_interface::{ComputeData, ControllerData};
use slurm_ops::SlurmVersion;
use slurm_ops::journal::{self, Cause};
use slurm_ops::packages::Obstacle;

pub(crate) use hardware::lost;
pub(crate) use launch::described;
pub(crate) use registration::{Phase, depends_on_jobs, phase};
pub use step::Step;

/// Waiting for a controller may take long, and giving up would need somebody to start slurmd again. A slurmd that cannot start at all is
/// given up after seconds. The charm is told of every failure: also a slurmd that systemd starts again may then wait for ever, for a key or
/// a controller, and nobody would know.
const DROP_IN: &str = "\
# Written by the slurmd charm.
[Unit]
StartLimitIntervalSec=120
StartLimitBurst=4
OnFailure=slurmd-charm-failed.service

[Service]
KillMode=process
Restart=always
RestartSec=2
TimeoutStartSec=infinity
";

/// Decides what to change next.
pub fn plan(seen: &Observed) -> Plan<Step> {
    let (steps, next) = if seen.leaving {
        // A node on its way out is left as it is: draining and deleting it is not this plan's matter.
        (Vec::new(), Next::Settled)
    } else {
        match &seen.controller {
            // Never joined, or the relation has ended: whatever runs keeps running.
            None => (install(seen), awaited_packages(seen)),
            Some(controller) => join(seen, controller),
        }
    };
    // A hook that happens to come in between knows nothing of what the timer waits for. Only a unit that leaves takes it along.
    let stays = !seen.leaving && seen.machine.occupant.is_none();
    let next = if seen.waking && !seen.woken && stays { Next::LookAgain } else { next };
    Plan::keeping_timer(steps, next, seen.waking, Step::StartWaking, Step::StopWaking)
}

fn install(seen: &Observed) -> Vec<Step> {
    let machine = &seen.machine;
    let Some(version) = machine.version.map(|version| version.to_string()) else {
        let source = seen.options.source.as_ref().ok().filter(|_| seen.tried.install.is_none() && !is_in_use(seen));
        return source.map(|source| Step::InstallPackages(source.clone())).into_iter().collect();
    };
    let mut steps = Vec::new();
    if !machine.held && !seen.tried.hold {
        steps.push(Step::HoldPackages);
    }
    if !machine.left_alone {
        steps.push(Step::LeaveAlone);
    }
    if machine.reported_version.as_ref() != Some(&version) {
        steps.push(Step::ReportVersion(version));
    }
    steps
}

/// Says whether the Slurm on this machine runs, although it is too old. Somebody may have jobs on it.
pub(crate) fn is_in_use(seen: &Observed) -> bool {
    let runs = matches!(seen.machine.daemon, Daemon::Running { .. } | Daemon::Starting { with: Some(_) });
    runs && matches!(seen.machine.unfit, Some(Obstacle::TooOld { .. }))
}

/// An apt that is busy, or a source that does not answer, may do so later. An archive that does not have what is needed has to be replaced
/// by another one, and Juju tells when it was.
fn awaited_packages(seen: &Observed) -> Next {
    let later = seen.tried.install.as_ref().is_some_and(Obstacle::is_worth_another_look);
    let free = seen.machine.version.is_some() && !seen.machine.held;
    if later || free { Next::LookAgain } else { Next::Settled }
}

fn join(seen: &Observed, controller: &Controller) -> (Vec<Step>, Next) {
    let mut steps = install(seen);
    // The controllers publish nothing before they know the partition, so this waits for nothing.
    steps.extend(publish(seen, controller));
    if !steps.is_empty() {
        return (steps, Next::LookAgain);
    }
    if seen.machine.version.is_none() {
        return (Vec::new(), awaited_packages(seen));
    }
    // One slurmd for each machine: whoever has it keeps it, and its jobs.
    if seen.machine.occupant.is_some() {
        return (Vec::new(), Next::Settled);
    }
    let Offer::Data(data) = &controller.offer else { return (Vec::new(), awaited(seen, controller)) };
    for stage in [retreat, prepare, run, change, settle] {
        let steps = stage(seen, data);
        if !steps.is_empty() {
            return (steps, Next::LookAgain);
        }
    }
    (Vec::new(), awaited(seen, controller))
}

/// The leader tells the controllers about the partition. One that cannot be used changes nothing out there.
fn publish(seen: &Observed, controller: &Controller) -> Option<Step> {
    missing(seen, controller).map(|missing| Step::PublishPartition(controller.relation.clone(), missing))
}

/// Returns what the controllers have not been told yet.
fn missing(seen: &Observed, controller: &Controller) -> Option<Databag> {
    // Without a Slurm of its own the leader cannot tell whether it makes sense.
    let able = seen.leader && seen.machine.version.is_some();
    let partition = seen.options.partition.as_ref().ok().filter(|_| able)?;
    let wanted = ComputeData::new(partition.clone()).encode();
    let missing: Databag =
        wanted.into_iter().filter(|(key, value)| controller.published.get(key) != Some(value)).collect();
    (!missing.is_empty()).then_some(missing)
}

/// Says whether the Slurm on this machine should be asked about the partition: before it is published, and wherever our own tables
/// do not know a key of it.
pub(crate) fn depends_on_verdict(seen: &Observed) -> bool {
    let Ok(partition) = &seen.options.partition else { return false };
    let news = seen.controller.as_ref().is_some_and(|controller| missing(seen, controller).is_some());
    news || (seen.machine.version.is_some() && partition.unknown().next().is_some())
}

/// A description that slurmd does not start with must not keep the node away. What the operator asked for before comes back.
fn retreat(seen: &Observed, _: &ControllerData) -> Vec<Step> {
    let machine = &seen.machine;
    let (Daemon::Failing { .. }, Some(complaint), Ok(wish)) = (&machine.daemon, &machine.complaint, &machine.wish)
    else {
        return Vec::new();
    };
    // One that is still to be applied has no part in it, and one that worked before neither.
    let suspect = *wish != machine.proven && launch::is_written(seen, wish);
    if !suspect || !journal::may_blame_description(complaint) {
        return Vec::new();
    }
    let refused = Refused { wish: wish.clone(), reason: complaint.clone() };
    vec![Step::TakeBackWish { refused, proven: machine.proven.clone() }]
}

/// Every file slurmd reads.
fn prepare(seen: &Observed, data: &ControllerData) -> Vec<Step> {
    let mut steps = Vec::new();
    let alarm = alarm(seen);
    if seen.machine.alarm.as_ref() != Some(&alarm) {
        steps.push(Step::WriteAlarm(alarm));
    }
    if seen.machine.drop_in.as_deref() != Some(DROP_IN) {
        steps.push(Step::WriteDropIn(DROP_IN));
    }
    if seen.key == (Key::Offered { same_as_on_disk: false }) {
        steps.push(Step::WriteAuthKey);
    }
    // A changed list of controllers is for the next start: the running daemon gets it from the controllers themselves.
    if let Some(launch) = launch::wanted(seen, data)
        && seen.machine.written.as_ref() != Some(&launch)
    {
        steps.push(Step::WriteOptions(launch));
    }
    steps
}

/// Brings slurmd up, and back if what runs is of no use.
fn run(seen: &Observed, data: &ControllerData) -> Vec<Step> {
    // Without its key slurmd would turn to munge, and without options to a configuration that is not there.
    let Some(written) = seen.machine.written.as_ref().filter(|_| seen.machine.key_on_disk) else { return Vec::new() };
    if too_new(seen).is_some() {
        return Vec::new();
    }
    let moved = seen.machine.moved_from.as_ref();
    match &seen.machine.daemon {
        // Whoever calls because slurmd fails would else be called by its next failure.
        Daemon::Stopped | Daemon::Failing { .. } if !seen.tried.start && (!seen.alarmed || seen.tried.taken_back) => {
            vec![Step::StartDaemon]
        }
        Daemon::Starting { with } | Daemon::Running { with }
            if !seen.tried.restart && spares_jobs(seen) && is_lost(seen, with.as_ref(), data) =>
        {
            vec![Step::RestartDaemon]
        }
        // It answers nobody, and asks nobody: in the middle of a reconfigure it got stuck.
        Daemon::Running { .. }
            if seen.machine.registration == Registration::Unreachable
                && seen.machine.stuck
                && !(seen.tried.start || seen.tried.restart)
                && spares_jobs(seen) =>
        {
            vec![Step::RestartDaemon]
        }
        // slurmctld looks for this node where it is no more, and would give it up with its jobs.
        Daemon::Running { .. } if !seen.tried.reload && moved.is_some() => {
            moved.cloned().map(Step::NoteAddress).into_iter().chain([Step::ReloadDaemon]).collect()
        }
        // Slurm saves a new node only after minutes: a controller that crashed before has forgotten it, and slurmd does not
        // notice. A daemon that this very dispatch started is given time.
        Daemon::Running { with }
            if seen.machine.registration == Registration::Absent
                && !(seen.tried.start || seen.tried.restart || seen.tried.reload) =>
        {
            // A reload registers with what the daemon was started with; only a start takes up what is written. And only the process
            // that systemd watches is told to reload.
            let same = with.as_ref().is_some_and(|with| with.conf == written.conf);
            let enough = same && !seen.machine.stuck;
            vec![if enough || !spares_jobs(seen) { Step::ReloadDaemon } else { Step::RestartDaemon }]
        }
        _ => Vec::new(),
    }
}

/// Says whether the running daemon can never be what it should be: it is no dynamic node of this name, every controller it was told of has
/// been replaced and none of them answers, or it has another key than they.
fn is_lost(seen: &Observed, with: Option<&Launch>, data: &ControllerData) -> bool {
    let Some(with) = with else { return true };
    let unknown = !with.controllers.iter().any(|controller| data.controllers.contains(controller));
    // One that has not found its way in yet may have read anything, and nothing at all.
    let starting = matches!(seen.machine.daemon, Daemon::Starting { .. });
    let outdated = seen.machine.key_is_news && (starting || seen.machine.cause == Some(Cause::Authentication));
    let silent = seen.machine.registration == Registration::Unreachable;
    with.node_name != seen.node_name || (silent && (unknown || outdated))
}

/// Says whether jobs survive a restart of slurmd. If it is not known they do, as the packaged unit has it.
pub(crate) fn spares_jobs(seen: &Observed) -> bool {
    matches!(seen.machine.kill_mode.as_str(), "process" | "")
}

/// Returns the version of this slurmd and that of the controllers if the first is of a later release: Slurm does not work so.
pub(crate) fn too_new(seen: &Observed) -> Option<(SlurmVersion, SlurmVersion)> {
    let Some(Controller { offer: Offer::Data(data), .. }) = &seen.controller else { return None };
    let controllers: SlurmVersion = data.slurm_version.as_deref()?.parse().ok()?;
    seen.machine.version.filter(|own| own.is_too_new_for(controllers)).map(|own| (own, controllers))
}

/// Brings a registered node to another description.
fn change(seen: &Observed, _: &ControllerData) -> Vec<Step> {
    let tried = &seen.tried;
    if let Some(step) = weight(seen) {
        return if tried.in_place && step != Step::ForgetWeight { Vec::new() } else { vec![step] };
    }
    let step = match registration::phase(seen) {
        Phase::Features(features) => (!tried.in_place).then_some(Step::SetFeatures(features)),
        Phase::Pending { weight: Some(weight) } => (!tried.in_place).then_some(Step::SetWeight(weight)),
        Phase::Begin(change) => ready(seen, &change).then_some(Step::BeginChange(change)),
        Phase::Close { drain: true } => (!tried.drain).then_some(Step::CloseNode { drain: true }),
        Phase::Close { drain: false } => (!tried.mark_old).then_some(Step::CloseNode { drain: false }),
        Phase::Delete => (!tried.delete).then_some(Step::DeleteNode),
        Phase::Restore => restore(seen),
        Phase::Abort { reopen: true, ours } => reopen(seen, ours),
        Phase::Forget | Phase::Abort { reopen: false, .. } => Some(Step::ForgetChange),
        // What is next there is done by the stages before, or by somebody else.
        Phase::Settled | Phase::Pending { weight: None } | Phase::Describe | Phase::Register | Phase::Hold => None,
    };
    step.into_iter().collect()
}

/// Says what becomes of a weight that was set ahead of a new registration which is not to come, or has come.
fn weight(seen: &Observed) -> Option<Step> {
    let machine = &seen.machine;
    let set = machine.set_weight?;
    let (Registration::Present(record), None) = (&machine.registration, &machine.change) else { return None };
    let (wanted, written) = (described(seen)?, machine.written.as_ref()?);
    if written.conf.get("Weight") != wanted.get("Weight") {
        return None;
    }
    let own = crate::change::weight(&wanted);
    Some(if record.weight == set && set != own { Step::ResetWeight(own) } else { Step::ForgetWeight })
}

/// A change that ended in this dispatch does not begin again in it, and one that would cost jobs does not begin at all.
fn ready(seen: &Observed, change: &Change) -> bool {
    let renewed = seen.machine.change.as_ref().is_some_and(|known| known != change);
    let tried = seen.tried.mark_old || seen.tried.reopen;
    renewed || (!tried && spares_jobs(seen) && too_new(seen).is_none())
}

fn restore(seen: &Observed) -> Option<Step> {
    let change = seen.machine.change.clone().filter(|_| !seen.tried.restore)?;
    Some(Step::RestoreNode(change))
}

fn reopen(seen: &Observed, resume: bool) -> Option<Step> {
    let change = seen.machine.change.as_ref().filter(|_| !seen.tried.reopen)?;
    Some(Step::ReopenNode { resume, comment: change.comment().to_owned() })
}

/// What follows once the controllers know the node.
fn settle(seen: &Observed, _: &ControllerData) -> Vec<Step> {
    let mut steps = Vec::new();
    let machine = &seen.machine;
    if let (Daemon::Running { .. }, false) = (&machine.daemon, machine.detection_saved)
        && let Some((known, found)) = hardware::known(seen).zip(machine.detected.clone())
    {
        steps.push(Step::RememberDetection { invocation: machine.invocation.clone(), known, found });
    }
    if let Registration::Present(record) = &machine.registration {
        // What Slurm took in place is not proven before slurmd has been started with it.
        if let (Ok(wish), Daemon::Running { with: Some(with) }) = (&machine.wish, &machine.daemon)
            && *wish != machine.proven
            && !record.has("INVALID_REG")
            && registration::phase(seen) == Phase::Settled
            && described(seen).is_some_and(|described| described == open_conf(&with.conf))
        {
            steps.push(Step::RememberWish(wish.clone()));
        }
        // A comment of the administrator stays, and shows that the node has been saved.
        if record.comment.is_empty() && !seen.tried.mark {
            steps.push(Step::MarkJoined);
        }
        if !seen.port_open {
            steps.push(Step::OpenPort);
        }
    }
    steps
}

/// Says whether something may come without an event of Juju.
fn awaited(seen: &Observed, controller: &Controller) -> Next {
    if too_new(seen).is_some() && !matches!(seen.machine.daemon, Daemon::Running { .. }) {
        // The controllers say when they have been upgraded.
        return Next::Settled;
    }
    if seen.machine.marked_recently || seen.machine.skew.is_some() {
        // slurmctld takes seconds until it has saved the node. One that crashes before then forgets it, and a later look finds out. And
        // nobody tells when a clock has been set right.
        return Next::LookAgain;
    }
    if awaited_packages(seen) == Next::LookAgain {
        return Next::LookAgain;
    }
    let joined = match &seen.machine.registration {
        Registration::Present(record) => {
            let placed = record.partitions.iter().any(|partition| partition == seen.unit.app().as_str());
            placed && record.is_responding() && !record.comment.is_empty()
        }
        Registration::Absent | Registration::Unreachable => false,
    };
    match &controller.offer {
        // The other side has to change first, and Juju tells when it does.
        Offer::Unusable(_) => Next::Settled,
        Offer::Data(_)
            if joined && seen.machine.set_weight.is_none() && registration::phase(seen) == Phase::Settled =>
        {
            Next::Settled
        }
        Offer::Data(_) | Offer::Nothing => Next::LookAgain,
    }
}

/// The unit that calls the charm whenever slurmd fails.
fn alarm(seen: &Observed) -> String {
    let wake = Wake::new(&seen.unit, names::EVENT_DAEMON_FAILED);
    let description = "Tells the slurmd charm that slurmd has failed";
    slurm_ops::systemd::one_shot_service(description, &wake.command, Wake::PATIENCE)
}

#[cfg(test)]
mod registration_tests;
#[cfg(test)]
pub(crate) mod situations;
#[cfg(test)]
mod tests;
