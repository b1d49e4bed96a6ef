//! What a unit of slurmrestd changes next, and why it is not as it should be. Pure: it reads nothing and changes nothing.
//!
//! Data that is missing is a reason to wait: what runs goes on running. Only a unit without controllers stops
//! slurmrestd.

use crate::Slurmrestd;
use crate::condition::Condition;
use crate::facts::{Facts, Loaded, Question};
use crate::names;
use crate::step::{Outcome, Step};
use charm::runtime::{Ask, Attempts, Plan, Planned};
use slurm_interface::{RestData, digest};
use slurm_ops::slurmrestd;
use slurm_unit::Trigger;
use slurm_unit::acknowledgement;
use slurm_unit::follower::{FollowerCondition, Related};
use slurm_unit::install::InstallStep;
use slurm_unit::service::{self, Running, ServiceFiles};
use std::collections::BTreeMap;

type Planning<T> = Result<T, Ask<Question>>;
type Tried = Attempts<Step, Outcome>;
type Decision = Plan<Step, Condition>;

/// What every plan needs.
const ALWAYS: [Question; 6] = [
    Question::Daemon,
    Question::Controller,
    Question::Source,
    Question::Installation,
    Question::Files,
    Question::Options,
];
/// What is asked about a unit that has controllers.
const OF_A_MEMBER: [Question; 7] = [
    Question::PortOpen,
    Question::Plugins,
    Question::User,
    Question::ServiceFiles,
    Question::Written,
    Question::Loaded,
    Question::Listening,
];

/// Decides what to do next.
pub fn plan(facts: &Facts, attempts: &Tried) -> Planned<Slurmrestd> {
    let identity = facts.identity()?;
    if identity.departs || (identity.teardown && *facts.leaving()?) {
        return Ok(Plan::steps_or(end(facts)?, Condition::Leaving));
    }
    facts.need(&ALWAYS)?;
    let decision = decide(facts, attempts)?;
    // A unit that is removed begins nothing, and is never blocked: Juju 4 drops a leaving unit that is.
    if (!decision.steps.is_empty() || !decision.is_well()) && *facts.leaving()? {
        return Ok(Plan::rest(vec![Condition::Leaving]));
    }
    Ok(decision)
}

fn decide(facts: &Facts, attempts: &Tried) -> Planning<Decision> {
    if let Some(daemon) = facts.identity()?.neighbour {
        let unit = facts.identity()?.unit.clone();
        return Ok(Plan::steps_or(end(facts)?, Condition::MachineTaken { daemon, unit }));
    }
    let mut conditions: Vec<Condition> =
        facts.source()?.as_ref().err().cloned().map(Condition::Option).into_iter().collect();
    let (steps, installing) = install(facts, attempts)?;
    conditions.extend(installing);
    if !steps.is_empty() {
        return Ok(Plan::steps(steps));
    }
    let Some(controller) = facts.controller()? else { return unrelated(facts, conditions) };
    if controller.stale {
        conditions.push(FollowerCondition::StaleRelation.into());
    }
    if facts.installation()?.version.is_none() {
        return Ok(Plan::rest(conditions));
    }
    match controller.usable() {
        Ok(data) => {
            facts.need(&OF_A_MEMBER)?;
            Member { facts, attempts, controller, data, conditions }.plan()
        }
        Err(why) => {
            conditions.push(why.into());
            acknowledge(facts, attempts, controller, conditions)
        }
    }
}

fn install(facts: &Facts, attempts: &Tried) -> Planning<(Vec<Step>, Vec<Condition>)> {
    let in_use = facts.daemon()?.running == Running::Up;
    let failed = match attempts.outcome(|step| matches!(step, Step::Install(InstallStep::Install(_)))) {
        Some(Outcome::InTheWay(obstacle)) => Some(obstacle),
        _ => None,
    };
    let hold_failed = attempts.made(|step| *step == Step::Install(InstallStep::Hold));
    let (steps, conditions) = facts.installation()?.plan(facts.source()?.as_ref(), in_use, failed, hold_failed);
    Ok((steps.into_iter().map(Step::Install).collect(), conditions.into_iter().map(Condition::Install).collect()))
}

/// Never integrated, or the relation has ended: then the configuration goes, and slurmrestd with it.
fn unrelated(facts: &Facts, mut conditions: Vec<Condition>) -> Planning<Decision> {
    let expected = *facts.relation_expected()?;
    let steps = if expected { Vec::new() } else { end(facts)? };
    if !steps.is_empty() {
        return Ok(Plan::steps(steps));
    }
    conditions.push(FollowerCondition::unrelated(facts.identity()?.unit.app(), expected).into());
    Ok(Plan::rest(conditions))
}

/// Ends a plan with telling the controllers that this unit keeps no key, and so that it is one of ours. That needs
/// nothing of what they say: they leave a copy of it for units that may be deaf to the relation, and for no others.
fn acknowledge(
    facts: &Facts,
    attempts: &Tried,
    controller: &Related<RestData>,
    conditions: Vec<Condition>,
) -> Planning<Decision> {
    let published = attempts.made(|step| matches!(step, Step::Acknowledge(..)));
    let loaded = facts.loaded()?.clone();
    let noted = loaded.acknowledged.as_ref();
    let next = acknowledgement::next(&controller.relation, None, noted, published, || facts.own_bag())?;
    let note = |acknowledged| Step::NoteLoaded(Loaded { acknowledged, ..loaded.clone() });
    Ok(next.plan(conditions, Step::Acknowledge, note))
}

/// Ends what this unit has begun, the options last: they say that it has. Another daemon's files stay.
fn end(facts: &Facts) -> Planning<Vec<Step>> {
    facts.need(&[Question::Options, Question::Files, Question::Daemon, Question::PortOpen])?;
    let alone = facts.identity()?.neighbour.is_none();
    let (begun, mut steps) = (facts.options()?.is_some(), Vec::new());
    if begun && facts.daemon()?.running != Running::Stopped {
        steps.push(Step::StopDaemon);
    }
    let files = facts.files()?;
    if alone && !files.texts.is_empty() {
        steps.push(Step::RemoveFiles(files.texts.keys().cloned().collect()));
    }
    if files.key {
        steps.push(Step::RemoveKey);
    }
    if begun {
        steps.push(Step::RemoveOptions);
    }
    if *facts.port_open()? {
        steps.push(Step::ClosePort);
    }
    Ok(steps)
}

/// A unit that knows the configuration of its controllers.
struct Member<'f> {
    facts: &'f Facts,
    attempts: &'f Tried,
    controller: &'f Related<RestData>,
    data: &'f RestData,
    conditions: Vec<Condition>,
}

impl Member<'_> {
    fn plan(mut self) -> Planning<Decision> {
        let mut steps = self.prepare()?;
        if steps.is_empty() {
            steps = self.run()?;
        }
        if !steps.is_empty() {
            return Ok(Plan::steps(steps));
        }
        self.judge()?;
        acknowledge(self.facts, self.attempts, self.controller, self.conditions)
    }

    fn options(&self) -> Planning<String> {
        let accounting = self.data.get("AccountingStorageType").is_some_and(|kind| kind.ends_with("/slurmdbd"));
        Ok(slurmrestd::options(self.facts.plugins()?, accounting))
    }

    fn drop_in() -> String {
        service::restarting_drop_in(&names::PROFILE) + &slurmrestd::service_lines()
    }

    /// Brings to the disk what slurmrestd needs at its start.
    fn prepare(&self) -> Planning<Vec<Step>> {
        let facts = self.facts;
        let wanted = ServiceFiles::of(&facts.identity()?.unit, &names::PROFILE, Self::drop_in());
        let files = facts.service_files()?.upkeep(&wanted, facts.daemon()?.needs_reload_of_units);
        let mut steps: Vec<Step> = Vec::new();
        if !*facts.user()? {
            steps.push(Step::AddUser);
        }
        steps.extend(files.into_iter().map(Step::Service));
        let options = self.options()?;
        if facts.options()?.as_ref() != Some(&options) {
            steps.push(Step::WriteOptions(options));
        }
        // A slurmrestd of a later release could not talk to the controllers, and may not know their options.
        if self.too_new()?.is_none() {
            steps.extend(self.files()?);
        }
        if !*facts.port_open()? {
            steps.push(Step::OpenPort);
        }
        Ok(steps)
    }

    fn files(&self) -> Planning<Vec<Step>> {
        let (files, wanted) = (self.facts.files()?, self.texts());
        let differs = |(name, text): &(&String, &String)| !files.open || files.texts.get(*name) != Some(text);
        let write: BTreeMap<String, String> =
            wanted.iter().filter(differs).map(|(name, text)| (name.clone(), text.clone())).collect();
        let gone: Vec<String> = files.texts.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        let mut steps = Vec::new();
        if !write.is_empty() {
            steps.push(Step::WriteFiles(write));
        }
        if !gone.is_empty() {
            steps.push(Step::RemoveFiles(gone));
        }
        if files.key {
            steps.push(Step::RemoveKey);
        }
        Ok(steps)
    }

    fn texts(&self) -> BTreeMap<String, String> {
        self.data.files.iter().map(|(name, conf)| (name.clone(), conf.render())).collect()
    }

    /// Returns what stands for all that slurmrestd reads at its start.
    fn digest(&self) -> Planning<Loaded> {
        let mut all = self.options()? + "\n" + &Self::drop_in();
        for (name, text) in self.texts() {
            all.push_str(&format!("[{name}]\n{text}"));
        }
        Ok(Loaded { digest: Some(digest(&all)), ..self.facts.loaded()?.clone() })
    }

    /// Brings slurmrestd up, and has it read what it was not started with.
    fn run(&self) -> Planning<Vec<Step>> {
        let facts = self.facts;
        if self.too_new()?.is_some() {
            return Ok(Vec::new());
        }
        let tried = |step: &Step| self.attempts.made(|made| made == step);
        // Do not start it from its own failure: another failure would call again, without end.
        let may_start = facts.identity()?.trigger != Trigger::DaemonFailure && !tried(&Step::StartDaemon);
        // Noted afterwards: what is repeated after a kill is only one too many.
        let noted = Step::NoteLoaded(self.digest()?);
        Ok(match facts.daemon()?.running {
            Running::Stopped | Running::Failing if may_start => vec![Step::StartDaemon, noted],
            Running::Up if self.is_outdated()? && !tried(&Step::RestartDaemon) => vec![Step::RestartDaemon, noted],
            Running::Stopped | Running::Failing | Running::Starting | Running::Up => Vec::new(),
        })
    }

    /// Says whether slurmrestd may have been started with something else than what is on the disk now. What was written
    /// before the second of its start it has read.
    fn is_outdated(&self) -> Planning<bool> {
        let (started, written) = (self.facts.daemon()?.started, *self.facts.written()?);
        let newer = started.zip(written).is_some_and(|(started, written)| written.as_secs() >= started);
        Ok(newer && *self.facts.loaded()? != self.digest()?)
    }

    fn too_new(&self) -> Planning<Option<FollowerCondition>> {
        let (own, data) = (self.facts.installation()?.version, self.data);
        Ok(FollowerCondition::too_new(own, data.slurm_version.as_deref(), &self.controller.app))
    }

    /// Why nobody is served, if so.
    fn judge(&mut self) -> Planning<()> {
        let facts = self.facts;
        if let Some(too_new) = self.too_new()? {
            self.conditions.push(too_new.into());
            return Ok(());
        }
        let daemon = facts.daemon()?;
        match daemon.running {
            Running::Failing => {
                let complaint = facts.complaint()?.clone();
                self.conditions.push(FollowerCondition::Failing { result: daemon.result.clone(), complaint }.into());
            }
            Running::Up if *facts.listening()? => {}
            Running::Stopped | Running::Starting | Running::Up => {
                self.conditions.push(FollowerCondition::Stopped.into());
            }
        }
        Ok(())
    }
}
