//! What a compute unit changes next, and why it is not as it should be. Pure: it reads nothing and changes nothing.
//!
//! No plan here stops slurmd. Data that is missing is a reason to wait: what runs goes on running.

mod situation;

use crate::Slurmd;
use crate::condition::{Condition, Waits};
use crate::facts::{Controller, Facts, KeySecret, Occupancy, Question, RemoteData};
use crate::names;
use crate::node::description;
use crate::node::lifecycle::{BootNote, Detection, Lifecycle, NodeNote, RejectedConfig};
use crate::node::reregistration::{Phase, comment_of};
use crate::node::state::{base, is_responding};
use crate::step::{NoteReason, Outcome, Step};
use charm::runtime::{Ask, Attempts, Condition as _, Plan, Planned};
use charm::{Databag, Status};
use slurm_conf::PartitionName;
use slurm_interface::{ComputeData, ControllerData};
use slurm_ops::SlurmVersion;
use slurm_ops::journal::{self, Cause};
use slurm_ops::scontrol::{Candidate, NodeLookup, NodeRecord};
use slurm_ops::slurmd::SlurmdOptions;
use slurm_unit::install::InstallStep;
use slurm_unit::service::{self, Running, ServiceFiles, ServiceStep};
use slurm_unit::{OptionProblem, Trigger, options};

pub(crate) use situation::Situation;

/// Waiting for a controller may take long, and giving up would need somebody to start slurmd again. A slurmd that cannot start
/// at all is given up after seconds. The charm is told of every failure: also a slurmd that systemd starts again may then wait
/// for ever, for a key or a controller, and nobody would know.
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

pub(crate) type Planning<T> = Result<T, Ask<Question>>;
type Tried = Attempts<Step, Outcome>;
type Decision = Plan<Step, Condition>;

/// What every plan needs.
const ALWAYS: [Question; 9] = [
    Question::Identity,
    Question::Options,
    Question::Controller,
    Question::Installation,
    Question::Daemon,
    Question::StartFile,
    Question::Note,
    Question::Boot,
    Question::KeyFile,
];

/// Decides what to do next.
pub fn plan(facts: &Facts, attempts: &Tried) -> Planned<Slurmd> {
    facts.need(&ALWAYS)?;
    if facts.identity()?.departs {
        return Ok(Plan::rest(vec![Condition::Leaving]));
    }
    let decision = decide(facts, attempts)?;
    let acts = !decision.steps.is_empty() || facts.identity()?.trigger != Trigger::Juju;
    let blocks = decision.conditions.iter().any(|condition| matches!(condition.status(), Status::Blocked(_)));
    // A node on its way out is left as it is: draining and deleting it is not this plan's matter. And Juju 4 drops a leaving
    // unit that is blocked.
    if (acts || blocks) && *facts.leaving()? {
        return Ok(Plan::rest(vec![Condition::Leaving]));
    }
    Ok(decision)
}

fn decide(facts: &Facts, attempts: &Tried) -> Planning<Decision> {
    let mut conditions = problems(facts)?;
    let (mut steps, installing) = install(facts, attempts)?;
    conditions.extend(installing);
    let Some(controller) = facts.controller()? else { return unrelated(facts, steps, conditions) };
    facts.need(&about_membership(facts, controller)?)?;
    if controller.stale {
        conditions.push(Condition::StaleRelation);
    }
    // The controllers publish nothing before they know the partition, so this waits for nothing.
    match publish(facts, controller)? {
        Some(Ok(step)) => steps.push(step),
        Some(Err(problem)) => conditions.push(Condition::Option(problem)),
        None => {}
    }
    if !steps.is_empty() {
        return Ok(Plan::steps(steps));
    }
    if facts.installation()?.version.is_none() {
        return Ok(Plan::rest(conditions));
    }
    // One slurmd for each machine: the unit that has it keeps it, and its jobs.
    if let Some(other) = &facts.start_file()?.neighbour {
        let unit = facts.identity()?.unit.clone();
        return Ok(Plan::rest(vec![Condition::MachineTaken { other: other.clone(), unit }]));
    }
    let app = controller.app.clone();
    let data = match &controller.data {
        RemoteData::Data(data) => data,
        RemoteData::Nothing => {
            conditions.push(Condition::NoData { app });
            return Ok(Plan::rest(conditions));
        }
        RemoteData::Unusable(why) => {
            conditions.push(Condition::UnusableData { app, why: why.clone() });
            return Ok(Plan::rest(conditions));
        }
    };
    let situation = Situation::of(facts)?;
    for stage in [take_over, retreat, prepare, run, change, settle] {
        let steps = stage(facts, attempts, &situation, data)?;
        if !steps.is_empty() {
            return Ok(Plan::steps(steps));
        }
    }
    conditions.extend(membership(facts, &situation, controller, data)?);
    Ok(Plan::rest(conditions))
}

/// What is wrong whatever else is.
fn problems(facts: &Facts) -> Planning<Vec<Condition>> {
    let app = facts.identity()?.unit.app();
    if app.as_str().parse::<PartitionName>().is_err() {
        return Ok(vec![Condition::ReservedName { app }]);
    }
    let mut conditions: Vec<Condition> = facts.options()?.bad().cloned().map(Condition::Option).collect();
    if let Err(why) = &facts.note()?.node {
        conditions.push(Condition::NoteUnreadable { why: why.clone() });
    }
    let daemon = facts.daemon()?;
    // Our own drop-in says otherwise; it comes once there is a Slurm to use.
    if facts.installation()?.version.is_some() && !daemon.spares_jobs() {
        conditions.push(Condition::KillMode { mode: daemon.kill_mode.clone() });
    }
    Ok(conditions)
}

fn install(facts: &Facts, attempts: &Tried) -> Planning<(Vec<Step>, Vec<Condition>)> {
    let daemon = facts.daemon()?;
    // Somebody may have jobs on it.
    let in_use = match daemon.running {
        Running::Up => true,
        Running::Starting => daemon.with.is_some(),
        Running::Stopped | Running::Failing => false,
    };
    let failed = match attempts.outcome(|step| matches!(step, Step::Install(InstallStep::Install(_)))) {
        Some(Outcome::InTheWay(obstacle)) => Some(obstacle),
        Some(Outcome::Done) | None => None,
    };
    let hold_failed = attempts.made(|step| *step == Step::Install(InstallStep::Hold));
    let source = facts.options()?.source.as_ref();
    let (steps, conditions) = facts.installation()?.plan(source, in_use, failed, hold_failed);
    Ok((steps.into_iter().map(Step::Install).collect(), conditions.into_iter().map(Condition::Install).collect()))
}

/// Never joined, or the relation has ended: what runs keeps running.
fn unrelated(facts: &Facts, steps: Vec<Step>, mut conditions: Vec<Condition>) -> Planning<Decision> {
    if !steps.is_empty() {
        return Ok(Plan::steps(steps));
    }
    if *facts.leaving()? {
        return Ok(Plan::rest(vec![Condition::Leaving]));
    }
    let app = facts.identity()?.unit.app();
    let up = facts.daemon()?.running == Running::Up && facts.start_file()?.neighbour.is_none();
    conditions.push(if up && matches!(facts.node()?, NodeLookup::Present(_)) {
        Condition::StillInService { app }
    } else if !up && *facts.relation_expected()? {
        Condition::RelationExpected
    } else {
        Condition::NotRelated { app }
    });
    Ok(Plan::rest(conditions))
}

/// What is asked side by side about a unit that has controllers.
fn about_membership(facts: &Facts, controller: &Controller) -> Planning<Vec<Question>> {
    let mut questions = vec![Question::Published];
    if facts.installation()?.version.is_some() && matches!(controller.data, RemoteData::Data(_)) {
        questions.extend([Question::KeySecret, Question::ServiceFiles, Question::RetryTimer]);
        if facts.daemon()?.running == Running::Up {
            questions.extend([Question::Node, Question::PortOpen]);
        }
    }
    Ok(questions)
}

/// The leader tells the controllers about the partition. One that cannot be used changes nothing out there.
fn publish(facts: &Facts, controller: &Controller) -> Planning<Option<Result<Step, OptionProblem>>> {
    let given = facts.options()?;
    // Without a Slurm of its own the leader cannot tell whether it makes sense.
    let (Ok(partition), true) = (&given.partition, facts.installation()?.version.is_some()) else { return Ok(None) };
    let Some(published) = facts.published()? else { return Ok(None) };
    let wanted = ComputeData::new(partition.clone()).encode();
    let missing: Databag = wanted.into_iter().filter(|(key, value)| published.get(key) != Some(value)).collect();
    if missing.is_empty() || !*facts.leader()? {
        return Ok(None);
    }
    Ok(Some(match facts.verdict()? {
        Candidate::Refused { reason } => {
            let problem = options::objection(reason, partition.unknown());
            Err(OptionProblem::new(names::OPTION_PARTITION_CONFIG, &given.partition_text, problem))
        }
        Candidate::Readable | Candidate::Unknown { .. } => {
            Ok(Step::PublishPartition(controller.relation.clone(), missing))
        }
    }))
}

/// What earlier versions of this charm noted is kept in one note now.
fn take_over(facts: &Facts, _: &Tried, situation: &Situation<'_>, _: &ControllerData) -> Planning<Vec<Step>> {
    Ok(match situation.note.filter(|_| facts.note().is_ok_and(|notes| notes.old)) {
        Some(note) => vec![write_note(note.clone(), NoteReason::TakeOver), Step::RemoveOldNotes],
        None => Vec::new(),
    })
}

fn write_note(note: NodeNote, reason: NoteReason) -> Step {
    Step::WriteNote(Box::new(note), reason)
}

/// A description that slurmd does not start with must not keep the node away. What the operator asked for before comes back.
fn retreat(facts: &Facts, _: &Tried, situation: &Situation<'_>, _: &ControllerData) -> Planning<Vec<Step>> {
    let (Running::Failing, Some(note)) = (situation.daemon.running, situation.note) else { return Ok(Vec::new()) };
    let Some(complaint) = facts.complaint()? else { return Ok(Vec::new()) };
    // A request that is still to be applied has no part in it, and one that worked before neither.
    let suspect = note.requested != note.last_working && situation.is_on_disk(&note.requested);
    if !suspect || !journal::may_blame_description(complaint) {
        return Ok(Vec::new());
    }
    let rejected = RejectedConfig { requested: note.requested.clone(), reason: complaint.clone() };
    let note = NodeNote { requested: note.last_working.clone(), rejected: Some(rejected), ..note.clone() };
    Ok(vec![write_note(note, NoteReason::TakeBack)])
}

/// Every file slurmd reads.
fn prepare(facts: &Facts, _: &Tried, situation: &Situation<'_>, data: &ControllerData) -> Planning<Vec<Step>> {
    let wanted = ServiceFiles {
        drop_in: Some(DROP_IN.to_owned()),
        failure_service: Some(service::failure_service(&situation.identity.unit, &names::PROFILE)),
    };
    let files = facts.service_files()?.steps(&wanted);
    let unread = files.is_empty() && situation.daemon.needs_reload_of_units;
    let reload = unread.then_some(ServiceStep::ReloadUnits);
    let mut steps: Vec<Step> = files.into_iter().chain(reload).map(Step::Service).collect();
    let key = facts.key_file()?;
    if let KeySecret::Offered(offered) = facts.key_secret()?
        && (key.keys.as_ref() != Some(offered) || !key.private)
    {
        let owner = if key.shared { names::SLURM_USER } else { names::KEY_OWNER };
        steps.push(Step::WriteKey { keys: offered.clone(), owner });
    }
    // A changed list of controllers is for the next start: the running daemon gets it from the controllers themselves.
    if let Some(conf) = situation.start_conf(facts)? {
        let options =
            SlurmdOptions { name: situation.identity.node.clone(), conf, controllers: data.controllers.clone() };
        if facts.start_file()?.options.as_ref() != Some(&options) {
            steps.push(Step::WriteOptions(options));
        }
    }
    Ok(steps)
}

fn made(attempts: &Tried, step: &Step) -> bool {
    attempts.made(|made| made == step)
}

/// Says whether slurmd was started or made to register again in this dispatch.
fn stirred(step: &Step) -> bool {
    matches!(step, Step::StartDaemon | Step::RestartDaemon | Step::ReloadDaemon)
}

/// Brings slurmd up, and back if what runs is of no use.
fn run(facts: &Facts, attempts: &Tried, situation: &Situation<'_>, data: &ControllerData) -> Planning<Vec<Step>> {
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
    if can_restart && is_lost(facts, situation, data)? {
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
        // Slurm saves a new node only after minutes: a controller that crashed before has forgotten it, and slurmd does not
        // notice. A daemon that this very dispatch started is given time.
        NodeLookup::Absent if stirred_now => Ok(Vec::new()),
        NodeLookup::Absent => {
            // A reload registers with what the daemon was started with; only a start takes up what is on the disk. And only
            // the process that systemd watches is told to reload.
            let same = daemon.with.as_ref().is_some_and(|with| with.conf == on_disk.conf);
            let enough = same && !*facts.stale_processes()?;
            Ok(vec![if enough || !daemon.spares_jobs() { Step::ReloadDaemon } else { Step::RestartDaemon }])
        }
        NodeLookup::Present(_) if reloaded => Ok(Vec::new()),
        NodeLookup::Present(_) => Ok(match reload_reason(facts, attempts, situation)? {
            Some(boot) => vec![Step::ReloadDaemon, Step::NoteForBoot(boot)],
            None => Vec::new(),
        }),
    }
}

/// Returns what is to be noted about a reload that is due: slurmctld looks for this node where it is no more, or the key on the
/// disk is newer than what slurmd has loaded. Each address and each key counts once.
fn reload_reason(facts: &Facts, attempts: &Tried, situation: &Situation<'_>) -> Planning<Option<BootNote>> {
    let boot = &facts.boot()?.note;
    let address = facts.moved_from()?.as_ref().filter(|address| boot.address.as_ref() != Some(address));
    let key = situation.new_key(facts.key_file()?, boot, attempts).filter(|_| situation.daemon.spares_jobs());
    Ok((address.is_some() || key.is_some()).then(|| BootNote {
        address: address.or(boot.address.as_ref()).cloned(),
        key: key.or(boot.key),
        ..boot.clone()
    }))
}

/// Says whether the running daemon can never be what it should be: it is no dynamic node of this name, every controller it was
/// told of has been replaced and none of them answers, or it has another key than they.
fn is_lost(facts: &Facts, situation: &Situation<'_>, data: &ControllerData) -> Planning<bool> {
    let Some(with) = &situation.daemon.with else { return Ok(true) };
    let unknown = !with.controllers.iter().any(|controller| data.controllers.contains(controller));
    // One that has not found its way in yet may have read anything, and nothing at all.
    let starting = situation.daemon.running == Running::Starting;
    let silent = matches!(situation.lookup, NodeLookup::Unreachable { .. });
    let refused = || matches!(silence(situation.lookup), Some(Cause::Authentication));
    let outdated = situation.has_newer_key(facts.key_file()?) && (starting || refused());
    Ok(with.name != situation.identity.node || (silent && (unknown || outdated)))
}

/// Why nobody answered, as far as Slurm's words tell.
fn silence(lookup: &NodeLookup) -> Option<Cause> {
    match lookup {
        NodeLookup::Unreachable { why } => Cause::find(why),
        NodeLookup::Present(_) | NodeLookup::Absent => None,
    }
}

/// Returns the version of this slurmd and that of the controllers if the first is of a later release: Slurm does not work so.
fn too_new(facts: &Facts, data: &ControllerData) -> Planning<Option<(SlurmVersion, SlurmVersion)>> {
    let controllers = data.slurm_version.as_deref().and_then(|text| text.parse::<SlurmVersion>().ok());
    let own = facts.installation()?.version;
    Ok(own.zip(controllers).filter(|(own, controllers)| own.is_too_new_for(*controllers)))
}

/// Brings a registered node to another description.
fn change(facts: &Facts, attempts: &Tried, situation: &Situation<'_>, data: &ControllerData) -> Planning<Vec<Step>> {
    let Some(note) = situation.note else { return Ok(Vec::new()) };
    let in_place = attempts.made(|step| matches!(step, Step::SetFeatures(_) | Step::SetWeight(_)));
    if let Some(step) = weight(situation, note) {
        return Ok(if in_place && matches!(step, Step::SetWeight(_)) { Vec::new() } else { vec![step] });
    }
    let closed = attempts.made(|step| matches!(step, Step::CloseNode { .. }));
    let reopened = attempts.made(|step| matches!(step, Step::ReopenNode { .. }));
    let phase = situation.phase(facts)?;
    Ok(match phase {
        Phase::Features(features) if !in_place => vec![Step::SetFeatures(features)],
        Phase::Pending { weight: Some(weight) } if !in_place => {
            let note = NodeNote { set_weight: Some(weight), ..note.clone() };
            vec![write_note(note, NoteReason::SetWeight), Step::SetWeight(weight)]
        }
        Phase::Begin(change) => {
            let renewed = note.reregistration().is_some();
            // A change that ended in this dispatch does not begin again in it, and one that would cost jobs never does.
            let ready = !closed && !reopened && situation.daemon.spares_jobs() && too_new(facts, data)?.is_none();
            let note = NodeNote { lifecycle: Lifecycle::Reregistering(Box::new(change)), ..note.clone() };
            if renewed || ready { vec![write_note(note, NoteReason::BeginChange)] } else { Vec::new() }
        }
        Phase::Close { drain: true } if !made(attempts, &Step::CloseNode { drain: true }) => {
            vec![Step::CloseNode { drain: true }]
        }
        Phase::Close { drain: false } if !closed => vec![Step::CloseNode { drain: false }],
        Phase::Delete if !made(attempts, &Step::DeleteNode) => vec![Step::DeleteNode],
        Phase::Restore => restore(facts, attempts, situation, note)?,
        Phase::Orphaned if !reopened => vec![reopen(situation, None, true)],
        Phase::Abort { reopen: true, ours } if !reopened => vec![reopen(situation, Some(note), ours)],
        Phase::Forget | Phase::Abort { reopen: false, .. } => {
            let note = NodeNote { lifecycle: Lifecycle::Member, ..note.clone() };
            vec![write_note(note, NoteReason::EndChange)]
        }
        // What is next there is done by the stages before, by somebody else, or was attempted in this dispatch.
        _ => Vec::new(),
    })
}

/// Says what becomes of a weight that was set ahead of a new registration which is not to come, or has come.
fn weight(situation: &Situation<'_>, note: &NodeNote) -> Option<Step> {
    let set = note.set_weight?;
    let (NodeLookup::Present(record), None) = (situation.lookup, note.reregistration()) else { return None };
    let (desired, on_disk) = (situation.desired.as_ref()?, situation.conf_on_disk?);
    if on_disk.get("Weight") != desired.get("Weight") {
        return None;
    }
    let own = description::weight(desired);
    Some(if record.weight == set && set != own {
        Step::SetWeight(own)
    } else {
        write_note(NodeNote { set_weight: None, ..note.clone() }, NoteReason::ForgetWeight)
    })
}

fn restore(facts: &Facts, attempts: &Tried, situation: &Situation<'_>, note: &NodeNote) -> Planning<Vec<Step>> {
    let tried = attempts.made(|step| matches!(step, Step::RestoreNode { .. }));
    let (NodeLookup::Present(record), Some(change), false) = (situation.lookup, note.reregistration(), tried) else {
        return Ok(Vec::new());
    };
    let mut features = record.features.clone();
    features.extend(change.features.iter().filter(|feature| !record.features.contains(feature)).cloned());
    let boot = facts.boot()?.note.clone();
    Ok(vec![Step::RestoreNode { change: Box::new(change.clone()), features, boot }])
}

/// `note` has the comment of before. Without one the comment on the record counts, unless it is our own mark.
fn reopen(situation: &Situation<'_>, note: Option<&NodeNote>, resume: bool) -> Step {
    let noted = note.and_then(NodeNote::reregistration).map(|change| change.comment.as_str());
    let shown = match situation.lookup {
        NodeLookup::Present(record) => record.comment.as_str(),
        NodeLookup::Absent | NodeLookup::Unreachable { .. } => "",
    };
    Step::ReopenNode { resume, comment: comment_of(noted.unwrap_or(shown)).to_owned() }
}

/// What follows once the controllers know the node.
fn settle(facts: &Facts, attempts: &Tried, situation: &Situation<'_>, _: &ControllerData) -> Planning<Vec<Step>> {
    let mut steps = Vec::new();
    if let Some(note) = situation.note {
        let settled = settled_note(facts, situation, note)?;
        if settled != *note {
            steps.push(write_note(settled, NoteReason::Settle));
        }
    }
    if let NodeLookup::Present(record) = situation.lookup {
        // A comment of the administrator stays, and shows that the node has been saved.
        if record.comment.is_empty() && !attempts.made(|step| matches!(step, Step::MarkJoined(_))) {
            steps.push(Step::MarkJoined(facts.boot()?.note.clone()));
        }
        if !*facts.port_open()? {
            steps.push(Step::OpenPort);
        }
    }
    Ok(steps)
}

/// Returns the note as it should be: what the machine has, that the node is a member, and which request works.
fn settled_note(facts: &Facts, situation: &Situation<'_>, note: &NodeNote) -> Planning<NodeNote> {
    let mut settled = note.clone();
    if situation.daemon.running != Running::Up {
        return Ok(settled);
    }
    if let (Some(hardware), true) = (&situation.hardware, situation.detected_now) {
        let (baseline, found) = (hardware.expected(), hardware.found.clone());
        settled.detection = Some(Detection { invocation: situation.daemon.invocation.clone(), baseline, found });
    }
    if let NodeLookup::Present(record) = situation.lookup {
        if note.lifecycle == Lifecycle::Joining {
            settled.lifecycle = Lifecycle::Member;
        }
        // What Slurm took in place is not known to work before slurmd has been started with it.
        let running = situation.daemon.with.as_ref().map(|with| description::open(&with.conf));
        let works = !record.has("INVALID_REG") && running.is_some() && running == situation.desired;
        if note.requested != note.last_working && works && situation.phase(facts)? == Phase::Settled {
            settled.last_working = note.requested.clone();
        }
    }
    Ok(settled)
}

/// How far the node has come on its way into the cluster.
fn membership(
    facts: &Facts,
    situation: &Situation<'_>,
    controller: &Controller,
    data: &ControllerData,
) -> Planning<Vec<Condition>> {
    let app = controller.app.clone();
    let daemon = situation.daemon;
    let mut conditions = Vec::new();
    if let Some((own, controllers)) = too_new(facts, data)? {
        conditions.push(Condition::TooNew { own, controllers, app: app.clone() });
        if daemon.running != Running::Up {
            // The controllers say when they have been upgraded.
            return Ok(conditions);
        }
    }
    let secret = facts.key_secret()?;
    if facts.key_file()?.keys.is_none() {
        let why = match secret {
            KeySecret::Unreadable(why) => Some(*why),
            KeySecret::Malformed | KeySecret::Offered(_) => None,
        };
        conditions.push(Condition::NoKey { app, malformed: *secret == KeySecret::Malformed, why });
        return Ok(conditions);
    }
    let right_key = matches!(secret, KeySecret::Offered(_));
    let controllers = data.controllers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let silent = |daemon, cause| Condition::Silent { controllers, daemon, cause, right_key };
    match (daemon.running, situation.lookup) {
        (Running::Stopped, _) => conditions.push(Condition::Stopped),
        (Running::Failing, _) => {
            let complaint = facts.complaint()?.clone();
            conditions.push(Condition::Failing { result: daemon.result.clone(), complaint });
        }
        (Running::Starting, _) => conditions.push(silent(true, *facts.cause()?)),
        (Running::Up, lookup @ NodeLookup::Unreachable { .. }) => conditions.push(silent(false, silence(lookup))),
        (Running::Up, NodeLookup::Absent) => {
            conditions.push(Condition::NotRegistered { node: situation.identity.node.clone() });
        }
        (Running::Up, NodeLookup::Present(record)) => conditions.extend(registered(facts, situation, record)?),
    }
    Ok(conditions)
}

/// Running is not registered, and registered is not usable.
fn registered(facts: &Facts, situation: &Situation<'_>, record: &NodeRecord) -> Planning<Vec<Condition>> {
    let mut conditions = Vec::new();
    if let Some(note) = situation.note {
        conditions.extend(waits(facts, situation, record)?.map(Condition::Pending));
        if note.set_weight.is_some() {
            conditions.push(Condition::WeightSetAhead);
        }
        if let Some(rejected) = &note.rejected {
            let (rejected, last_working) = (rejected.clone(), note.last_working.clone());
            conditions.push(Condition::ConfigRejected { rejected, last_working });
        }
    }
    // slurmctld takes seconds until it has saved the node. One that crashes before then forgets it, and a later look
    // finds out.
    if record.comment.is_empty() || facts.boot()?.marked_recently {
        conditions.push(Condition::NotSavedYet);
    }
    let app = situation.identity.unit.app();
    let skew = if *facts.retry_timer()? { *facts.skew()? } else { None };
    let losses = situation.hardware.as_ref().map(|hardware| hardware.losses()).unwrap_or_default();
    conditions.extend(if record.has("INVALID_REG") && !losses.is_empty() {
        Some(Condition::HardwareLost(losses))
    } else if record.has("INVALID_REG") {
        Some(Condition::NodeRejected { reason: record.reason.clone() })
    } else if !record.partitions.iter().any(|partition| partition == app.as_str()) {
        Some(Condition::NotInPartition { node: situation.identity.node.clone(), app })
    } else if let Some(seconds) = skew {
        Some(Condition::Skew { seconds })
    } else if !is_responding(record) {
        Some(Condition::NotResponding { record: Box::new(record.clone()), cause: *facts.cause()? })
    } else if matches!(base(record), "DOWN" | "ERROR" | "UNKNOWN" | "FAIL") {
        Some(Condition::NodeDown { record: Box::new(record.clone()), app })
    } else {
        // Asked for the text of a unit that is well.
        facts.partition_state()?;
        None
    });
    Ok(conditions)
}

/// Says what a change of the node's description waits for.
pub(crate) fn waits(facts: &Facts, situation: &Situation<'_>, record: &NodeRecord) -> Planning<Option<Waits>> {
    let phase = situation.phase(facts)?;
    if matches!(phase, Phase::Settled | Phase::Forget) {
        return Ok(None);
    }
    Ok(Some(match facts.occupancy() {
        Ok(Occupancy::Jobs(jobs)) => {
            let closed = crate::node::state::is_closed(record) && !crate::node::reregistration::is_ours(record);
            Waits::Jobs { jobs: jobs.clone(), closed }
        }
        Ok(Occupancy::Awaited(jobs)) => Waits::PendingJobs(jobs.clone()),
        Ok(Occupancy::Reserved(names)) => Waits::Reservations(names.clone()),
        Ok(Occupancy::Unknown) => Waits::Slurmctld,
        Ok(Occupancy::Empty) | Err(_) => Waits::Nothing,
    }))
}

#[cfg(test)]
mod registration_tests;
#[cfg(test)]
mod tests;
