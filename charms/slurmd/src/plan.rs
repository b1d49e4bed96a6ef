//! What a compute unit changes next, and why it is not as it should be. Pure: it reads nothing and changes nothing.
//!
//! Only a node that has left stops slurmd. Data that is missing is a reason to wait: what runs goes on running.

mod daemon;
mod leaving;
mod membership;
mod registration;
mod situation;

use crate::Slurmd;
use crate::condition::Condition;
use crate::facts::{Facts, Question};
use crate::names;
use crate::node::lifecycle::{BootNote, Lifecycle};
use crate::step::{Outcome, Step};
use charm::runtime::{Ask, Attempts, Plan, Planned};
use charm::tools::relation::missing;
use slurm_conf::PartitionName;
use slurm_interface::{ComputeData, ControllerData};
use slurm_ops::SlurmVersion;
use slurm_ops::journal::Cause;
use slurm_ops::scontrol::{Candidate, NodeLookup};
use slurm_unit::follower::{self, Controller, FollowerCondition, RemoteData};
use slurm_unit::install::InstallStep;
use slurm_unit::service::Running;
use slurm_unit::{OptionProblem, options};

use leaving::{Why, is_part, is_same_cluster, leave, stay};

pub(crate) use membership::waits;
pub(crate) use situation::Situation;

pub(crate) type Planning<T> = Result<T, Ask<Question>>;
type Tried = Attempts<Step, Outcome>;
type Decision = Plan<Step, Condition>;

/// What every plan needs.
const ALWAYS: [Question; 9] = [
    Question::Options,
    Question::Controller,
    Question::Installation,
    Question::Daemon,
    Question::StartFile,
    Question::Note,
    Question::Boot,
    Question::KeyFile,
    Question::KeyWritten,
];

/// What takes longest, and is asked at once where slurmd can answer.
const OF_A_RUNNING_NODE: [Question; 2] = [Question::Glance, Question::PortOpen];

/// What is asked about a unit that has controllers.
const OF_A_MEMBER: [Question; 4] =
    [Question::Published, Question::KeySecret, Question::ServiceFiles, Question::RetryTimer];

/// Decides what to do next.
pub fn plan(facts: &Facts, attempts: &Tried) -> Planned<Slurmd> {
    let identity = facts.identity()?;
    if identity.departs || (identity.teardown && *facts.leaving()?) {
        return leave(facts, attempts, Why::Unit);
    }
    let at_once = if identity.configured { [&OF_A_RUNNING_NODE[..], &OF_A_MEMBER].concat() } else { Vec::new() };
    facts.need(&[&ALWAYS[..], &at_once].concat())?;
    let decision = decide(facts, attempts)?;
    // A unit that is removed does all of it in its first teardown hook, which is near. And Juju 4 drops a leaving unit
    // that is blocked.
    if (!decision.steps.is_empty() || !decision.is_well()) && *facts.leaving()? {
        return Ok(Plan::rest(vec![Condition::Leaving]));
    }
    Ok(decision)
}

fn decide(facts: &Facts, attempts: &Tried) -> Planning<Decision> {
    let mut conditions = problems(facts)?;
    let (mut steps, installing) = install(facts, attempts)?;
    conditions.extend(installing);
    let Some(controller) = facts.controller()? else {
        return unrelated(facts, attempts, steps, conditions);
    };
    facts.need(&about_membership(facts, controller)?)?;
    if controller.stale {
        conditions.push(FollowerCondition::StaleRelation.into());
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
    let data = match controller.usable() {
        Ok(data) => data,
        Err(why) => {
            conditions.push(why.into());
            return Ok(Plan::rest(conditions));
        }
    };
    if let Ok(note) = &facts.note()?.node
        && let Some(departure) = note.departure()
    {
        // A node that leaves another cluster leaves it first.
        return if is_same_cluster(facts, data)? {
            Ok(Plan::steps(vec![stay(note, departure)]))
        } else {
            leave(facts, attempts, Why::Relation)
        };
    }
    let situation = Situation::of(facts)?;
    let stages = [
        registration::take_over,
        registration::retreat,
        daemon::prepare,
        daemon::run,
        registration::change,
        registration::settle,
    ];
    for stage in stages {
        let steps = stage(&situation, attempts, data)?;
        if !steps.is_empty() {
            return Ok(Plan::steps(steps));
        }
    }
    let next = daemon::acknowledge(&situation, attempts, &controller.relation)?;
    conditions.extend(membership::membership(&situation, controller, data)?);
    let boot = facts.boot()?.note.clone();
    let note = |acknowledged| Step::NoteForBoot(BootNote { acknowledged, ..boot });
    Ok(next.plan(conditions, Step::Acknowledge, note))
}

/// What is wrong whatever else is.
fn problems(facts: &Facts) -> Planning<Vec<Condition>> {
    let app = facts.identity()?.unit.app();
    if app.as_str().parse::<PartitionName>().is_err() {
        return Ok(vec![Condition::ReservedName(app)]);
    }
    let mut conditions: Vec<Condition> = facts.options()?.bad().cloned().map(Condition::Option).collect();
    if let Err(why) = &facts.note()?.node {
        conditions.push(Condition::NoteUnreadable(why.clone()));
    }
    let daemon = facts.daemon()?;
    // Our own drop-in says otherwise; it comes once there is a Slurm to use.
    if facts.installation()?.version.is_some() && !daemon.spares_jobs() {
        conditions.push(Condition::KillMode(daemon.kill_mode.clone()));
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
        _ => None,
    };
    let hold_failed = attempts.made(|step| *step == Step::Install(InstallStep::Hold));
    let source = facts.options()?.source.as_ref();
    let (steps, conditions) = facts.installation()?.plan(source, in_use, failed, hold_failed);
    Ok((steps.into_iter().map(Step::Install).collect(), conditions.into_iter().map(Condition::Install).collect()))
}

/// Never joined, or the relation has ended: then the node leaves.
fn unrelated(facts: &Facts, attempts: &Tried, steps: Vec<Step>, mut conditions: Vec<Condition>) -> Planning<Decision> {
    if !steps.is_empty() {
        return Ok(Plan::steps(steps));
    }
    if *facts.leaving()? {
        return Ok(Plan::rest(vec![Condition::Leaving]));
    }
    // Juju goes on naming a relation that ends, as long as another unit has not left it.
    let under_way = facts.note()?.node.as_ref().is_ok_and(|note| note.departure().is_some());
    let expected = !under_way && *facts.relation_expected()?;
    if !expected && is_part(facts)? {
        return leave(facts, attempts, Why::Relation);
    }
    // A hook that was killed after the note has closed nothing, so this is looked at as long as the node is away.
    let gone = facts.note()?.node.as_ref().is_ok_and(|note| note.lifecycle == Lifecycle::Gone);
    if gone && *facts.port_open()? {
        return Ok(Plan::steps(vec![Step::ClosePort]));
    }
    conditions.push(FollowerCondition::unrelated(facts.identity()?.unit.app(), expected).into());
    Ok(Plan::rest(conditions))
}

/// What is asked side by side about a unit that has controllers.
fn about_membership(facts: &Facts, controller: &Controller) -> Planning<Vec<Question>> {
    let mut questions = vec![Question::Published];
    if facts.installation()?.version.is_some() && matches!(controller.data, RemoteData::Data(_)) {
        questions.extend(OF_A_MEMBER);
        if facts.daemon()?.running == Running::Up {
            questions.extend(OF_A_RUNNING_NODE);
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
    let missing = missing(wanted, published);
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

fn made(attempts: &Tried, step: &Step) -> bool {
    attempts.made(|made| made == step)
}

/// Why nobody answered, as far as Slurm's words tell.
fn silence(lookup: &NodeLookup) -> Option<Cause> {
    match lookup {
        NodeLookup::Unreachable { why } => Cause::find(why),
        NodeLookup::Present(_) | NodeLookup::Absent => None,
    }
}

fn too_new(facts: &Facts, data: &ControllerData) -> Planning<Option<(SlurmVersion, SlurmVersion)>> {
    Ok(follower::newer_than(facts.installation()?.version, data.slurm_version.as_deref()))
}

#[cfg(test)]
mod daemon_tests;
#[cfg(test)]
mod leaving_tests;
#[cfg(test)]
mod registration_tests;
#[cfg(test)]
mod tests;
