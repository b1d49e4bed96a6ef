//! What a login unit changes next, and why it is not as it should be. Pure: it reads nothing and changes nothing.
//!
//! Data that is missing is a reason to wait: what runs goes on running. Only a unit without controllers stops sackd.

use crate::Sackd;
use crate::condition::Condition;
use crate::facts::{Facts, Loaded, Question};
use crate::names;
use crate::step::{Outcome, Step};
use charm::runtime::{Ask, Attempts, Plan, Planned};
use slurm_interface::ControllerData;
use slurm_unit::Trigger;
use slurm_unit::acknowledgement;
use slurm_unit::follower::{self, Controller, FollowerCondition, KeyFile, KeySecret};
use slurm_unit::install::InstallStep;
use slurm_unit::service::{self, Running, ServiceFiles};

type Planning<T> = Result<T, Ask<Question>>;
type Tried = Attempts<Step, Outcome>;
type Decision = Plan<Step, Condition>;

/// What every plan needs.
const ALWAYS: [Question; 6] = [
    Question::Source,
    Question::Controller,
    Question::Installation,
    Question::Daemon,
    Question::StartFile,
    Question::KeyFile,
];
/// What is asked about a unit that has controllers.
const OF_A_MEMBER: [Question; 3] = [Question::KeySecret, Question::ServiceFiles, Question::PortOpen];
/// What is asked beside it where sackd can answer.
const OF_A_RUNNING_DAEMON: [Question; 3] = [Question::Answers, Question::Fetched, Question::Loaded];

/// Decides what to do next.
pub fn plan(facts: &Facts, attempts: &Tried) -> Planned<Sackd> {
    let identity = facts.identity()?;
    if identity.departs || (identity.teardown && *facts.leaving()?) {
        return Ok(Plan::steps_or(end(facts)?, Condition::Leaving));
    }
    let at_once = if identity.configured { [&OF_A_RUNNING_DAEMON[..], &OF_A_MEMBER].concat() } else { Vec::new() };
    facts.need(&[&ALWAYS[..], &at_once].concat())?;
    let decision = decide(facts, attempts)?;
    // A unit that is removed begins nothing, and is never blocked: Juju 4 drops a leaving unit that is.
    if (!decision.steps.is_empty() || !decision.is_well()) && *facts.leaving()? {
        return Ok(Plan::rest(vec![Condition::Leaving]));
    }
    Ok(decision)
}

fn decide(facts: &Facts, attempts: &Tried) -> Planning<Decision> {
    if let Some(daemon) = facts.identity()?.neighbour {
        // Both would want the same port and the same directory below /run.
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
        Ok(data) => Member { facts, attempts, controller, data, conditions }.plan(),
        Err(why) => {
            conditions.push(why.into());
            Ok(Plan::rest(conditions))
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

/// Never integrated, or the relation has ended: then key and options go, and sackd with them.
fn unrelated(facts: &Facts, mut conditions: Vec<Condition>) -> Planning<Decision> {
    let expected = *facts.relation_expected()?;
    let steps = if expected { Vec::new() } else { end(facts)? };
    if !steps.is_empty() {
        return Ok(Plan::steps(steps));
    }
    conditions.push(FollowerCondition::unrelated(facts.identity()?.unit.app(), expected).into());
    Ok(Plan::rest(conditions))
}

/// Ends what this unit has begun. Another daemon's key and options stay.
fn end(facts: &Facts) -> Planning<Vec<Step>> {
    facts.need(&[Question::StartFile, Question::KeyFile, Question::Daemon, Question::PortOpen])?;
    let alone = facts.identity()?.neighbour.is_none();
    let (begun, mut steps) = (facts.start_file()?.is_some(), Vec::new());
    if begun && facts.daemon()?.running != Running::Stopped {
        steps.push(Step::StopDaemon);
    }
    if begun || (alone && facts.key_file()?.keys.is_some()) {
        steps.push(Step::RemoveTraces { key: alone });
    }
    if *facts.port_open()? {
        steps.push(Step::ClosePort);
    }
    Ok(steps)
}

/// A unit that knows its controllers.
struct Member<'f> {
    facts: &'f Facts,
    attempts: &'f Tried,
    controller: &'f Controller,
    data: &'f ControllerData,
    conditions: Vec<Condition>,
}

impl Member<'_> {
    fn plan(mut self) -> Planning<Decision> {
        let facts = self.facts;
        facts.need(&OF_A_MEMBER)?;
        if facts.daemon()?.running == Running::Up {
            facts.need(&OF_A_RUNNING_DAEMON)?;
        }
        for stage in [Self::prepare, Self::run] {
            let steps = stage(&self)?;
            if !steps.is_empty() {
                return Ok(Plan::steps(steps));
            }
        }
        self.judge()?;
        let (next, loaded) = (self.acknowledge()?, facts.loaded()?.clone());
        let note = |acknowledged| Step::NoteLoaded(Loaded { acknowledged, ..loaded });
        Ok(next.plan(self.conditions, Step::Acknowledge, note))
    }

    /// Every file sackd reads, and the port at which slurmctld reaches it.
    fn prepare(&self) -> Planning<Vec<Step>> {
        let facts = self.facts;
        let drop_in = service::patient_drop_in(&names::PROFILE);
        let wanted = ServiceFiles::of(&facts.identity()?.unit, &names::PROFILE, drop_in);
        let files = facts.service_files()?.upkeep(&wanted, facts.daemon()?.needs_reload_of_units);
        let mut steps: Vec<Step> = files.into_iter().map(Step::Service).collect();
        let key = facts.key_file()?;
        if let KeySecret::Offered(offered) = facts.key_secret()?
            && (key.keys.as_ref() != Some(offered) || !key.private)
        {
            // Noted first: systemd tells the start of sackd in whole seconds, and this dispatch may be killed.
            let loaded = facts.loaded()?;
            if !loaded.key_is_due && facts.daemon()?.running != Running::Stopped {
                steps.push(Step::NoteLoaded(Loaded { key_is_due: true, ..loaded.clone() }));
            }
            steps.push(Step::WriteKey(offered.clone()));
        }
        // A changed list is for the next start: the running sackd gets it from the controllers themselves.
        if facts.start_file()?.as_ref() != Some(&self.data.controllers) {
            steps.push(Step::WriteOptions(self.data.controllers.clone()));
        }
        if !*facts.port_open()? {
            steps.push(Step::OpenPort);
        }
        Ok(steps)
    }

    /// Brings sackd up, and has it load what is newer than what it has.
    fn run(&self) -> Planning<Vec<Step>> {
        let facts = self.facts;
        let (daemon, key) = (facts.daemon()?, facts.key_file()?);
        // Without its key sackd would turn to munge.
        if key.keys.is_none() || self.too_new()?.is_some() {
            return Ok(Vec::new());
        }
        let tried = |step: &Step| self.attempts.made(|made| made == step);
        // Do not start sackd from its own failure: another failure would call again, without end.
        let may_start = facts.identity()?.trigger != Trigger::DaemonFailure && !tried(&Step::StartDaemon);
        match daemon.running {
            Running::Stopped | Running::Failing if may_start => return Ok(vec![Step::StartDaemon]),
            // It waits for controllers that are not there any more, or with a key of before.
            Running::Starting if self.is_outdated()? && !tried(&Step::RestartDaemon) && !tried(&Step::StartDaemon) => {
                return Ok(vec![Step::RestartDaemon]);
            }
            Running::Up => {}
            Running::Stopped | Running::Failing | Running::Starting => return Ok(Vec::new()),
        }
        if !self.is_answered()? {
            let lost = self.is_outdated()? && !tried(&Step::RestartDaemon) && !tried(&Step::StartDaemon);
            return Ok(if lost { vec![Step::RestartDaemon] } else { Vec::new() });
        }
        let (loaded, new_key, new_conf) = (facts.loaded()?, self.new_key(key)?, self.new_conf()?);
        // A reload reads the key alone; only a start fetches the configuration, and reads the key as well.
        let step = if new_conf.is_some() { Step::RestartDaemon } else { Step::ReloadDaemon };
        if (new_key.is_none() && new_conf.is_none()) || tried(&step) {
            return Ok(Vec::new());
        }
        let acknowledged = loaded.acknowledged.clone();
        let due = Loaded {
            key: new_key.or(loaded.key),
            key_is_due: false,
            conf: new_conf.or(loaded.conf.clone()),
            acknowledged,
        };
        // Noted afterwards: what is repeated after a kill is only one too many.
        Ok(vec![step, Step::NoteLoaded(due)])
    }

    /// Returns when the key on the disk was written, if sackd has not loaded it.
    fn new_key(&self, key: &KeyFile) -> Planning<Option<std::time::Duration>> {
        let started = self.facts.daemon()?.started;
        let loaded = self.facts.loaded()?;
        let later = |written: &std::time::Duration| started.is_some_and(|started| written.as_secs() > started);
        let newer =
            |written: &std::time::Duration| loaded.key_is_due || (later(written) && Some(*written) != loaded.key);
        Ok(key.written.filter(newer))
    }

    /// Tells the controllers which keys sackd has loaded. What does not run has none but those of its next start.
    fn acknowledge(&self) -> Planning<acknowledgement::Next> {
        let facts = self.facts;
        let key = facts.key_file()?;
        let loaded = match facts.daemon()?.running {
            Running::Up => self.new_key(key)?.is_none(),
            Running::Starting => !self.is_outdated()?,
            Running::Stopped | Running::Failing => true,
        };
        let Some(keys) = key.keys.as_ref().filter(|_| loaded) else { return Ok(acknowledgement::Next::Nothing) };
        let published = self.attempts.made(|step| matches!(step, Step::Acknowledge(..)));
        let noted = facts.loaded()?.acknowledged.as_ref();
        acknowledgement::next(&self.controller.relation, Some(keys), noted, published, || facts.own_bag())
    }

    /// Returns the digest of the configuration that the controllers have, if sackd has another one. slurmctld sends it
    /// to every sackd that it knows, and may have forgotten this one: a backup that took over, or a crash.
    fn new_conf(&self) -> Planning<Option<String>> {
        let (theirs, fetched) = (self.data.conf_digest.as_ref(), self.facts.fetched()?.as_ref());
        let loaded = self.facts.loaded()?.conf.as_ref();
        Ok(theirs.filter(|theirs| fetched != Some(theirs) && loaded != Some(theirs)).cloned())
    }

    /// Says whether sackd was started with what nobody needs any more: another key, or controllers that are gone.
    fn is_outdated(&self) -> Planning<bool> {
        let Some(started) = self.facts.daemon()?.started else { return Ok(false) };
        let files = [self.facts.key_file()?.written, *self.facts.start_file_written()?];
        Ok(files.into_iter().flatten().any(|written| written.as_secs() > started))
    }

    fn is_answered(&self) -> Planning<bool> {
        Ok(self.facts.answers()?.as_ref().is_ok_and(|pings| pings.iter().any(|ping| ping.responding)))
    }

    fn too_new(&self) -> Planning<Option<FollowerCondition>> {
        let (own, data) = (self.facts.installation()?.version, self.data);
        Ok(FollowerCondition::too_new(own, data.slurm_version.as_deref(), &self.controller.app))
    }

    /// Why users cannot submit here, if so.
    fn judge(&mut self) -> Planning<()> {
        let facts = self.facts;
        if let Some(too_new) = self.too_new()? {
            self.conditions.push(too_new.into());
            return Ok(());
        }
        let (secret, daemon) = (facts.key_secret()?, facts.daemon()?);
        if facts.key_file()?.keys.is_none() {
            self.conditions.push(FollowerCondition::no_key(&self.controller.app, secret).into());
            return Ok(());
        }
        let right_key = matches!(secret, KeySecret::Offered(_));
        let controllers = follower::listed(self.data);
        match daemon.running {
            Running::Stopped => self.conditions.push(FollowerCondition::Stopped.into()),
            Running::Failing => {
                let complaint = facts.complaint()?.clone();
                self.conditions.push(FollowerCondition::Failing { result: daemon.result.clone(), complaint }.into());
            }
            Running::Starting => {
                let cause = *facts.cause()?;
                self.conditions.push(FollowerCondition::Silent { controllers, daemon: true, cause, right_key }.into());
            }
            Running::Up if !self.is_answered()? => {
                let cause = *facts.cause()?;
                self.conditions.push(FollowerCondition::Silent { controllers, daemon: false, cause, right_key }.into());
            }
            Running::Up => {
                let theirs = self.data.conf_digest.as_ref();
                if theirs.is_some() && theirs != facts.fetched()?.as_ref() {
                    self.conditions.push(Condition::OldConfiguration);
                }
            }
        }
        Ok(())
    }
}
