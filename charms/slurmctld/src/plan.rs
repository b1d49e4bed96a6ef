//! What a controller unit does next. Pure: it asks for facts, and decides.
//!
//! Order is the design: packages, files, daemon, configuration, and only then what other applications see. Each stage
//! that the next one builds on ends its round, so that the next decision rests on what has really come of it.

mod accounting;
mod complaints;
mod extras;
mod foundation;
mod handover;
mod leaving;
mod moving;
mod on_store;
pub(crate) mod reboots;
mod records;
mod rotation;
mod share;

use crate::Slurmctld;
use crate::applications::Applications;
use crate::condition::Condition;
use crate::config::Situation;
use crate::config::managed_keys;
use crate::config::rejections::Rejections;
use crate::config::rollout::Rollout;
use crate::controllers::{Controllers, Started};
use crate::daemon::Daemon;
use crate::facts::{Ask, Attempts, CONFIGURED, Facts, Question};
use crate::identity::{self, Identity, Role};
use crate::names;
use crate::place::Place;
use crate::step::{Outcome, Step};
use charm::runtime::Planned;
use leaving::Departures;
use reboots::Rebooting;
use slurm_ops::packages::Obstacle as InstallProblem;
use slurm_unit::install::InstallStep;
use slurm_unit::{OptionProblem, Trigger};

/// What slurmctld says before it ends because slurmdbd takes its cluster for another one.
const CLUSTER_ID_MISMATCH: &str = "CLUSTER ID MISMATCH";

/// What says where the state is.
const PLACE: [Question; 5] =
    [Question::Call, Question::Store, Question::Aside, Question::ConfigurationLink, Question::Options];

type Plan = charm::runtime::Plan<Step, Condition>;

/// Decides what to do next.
pub fn plan(facts: &Facts, attempts: &Attempts) -> Planned<Slurmctld> {
    facts.need(&PLACE)?;
    let call = facts.call()?;
    // Where others take over, that begins in the first hook that shows it: the store is taken away early.
    if call.last || (call.teardown && identity::is_on_store(facts)? && *facts.leaving()?) {
        return handover::leave(facts, attempts);
    }
    let plan = decide(facts, attempts)?;
    // Asked only where it matters, because it costs a process: a leaving unit begins nothing, waits for nothing, and
    // is never blocked.
    let removes =
        || facts.applications().is_ok_and(|noted| noted.known().is_some_and(|all| all.removing().count() > 0));
    let begins = plan.steps.iter().any(|step| step.is_for_a_unit_that_stays() || removes());
    if (begins || (plan.steps.is_empty() && !plan.is_well())) && *facts.leaving()? {
        return handover::leave(facts, attempts);
    }
    Ok(plan)
}

fn decide(facts: &Facts, attempts: &Attempts) -> Planned<Slurmctld> {
    let elsewhere = [
        Question::Leader,
        Question::Computes,
        Question::Host,
        Question::Installation,
        Question::ServiceFiles,
        Question::RetryTimer,
    ];
    let steps = moving::arrive(facts)?;
    if !steps.is_empty() {
        return Ok(Plan::steps(steps));
    }
    // What is on a store that is away cannot be read.
    let store_problem = Identity::store_problem(facts.store()?).filter(|_| identity::is_linked(facts).unwrap_or(false));
    let there: &[Question] = if store_problem.is_none() { &CONFIGURED } else { &[] };
    let at_once = at_once(facts)?;
    facts.need(&[&elsewhere, there, at_once].concat())?;
    let role = identity::role(facts)?;
    let mut conditions = Vec::new();
    if role == Role::Second {
        conditions.push(Condition::Second(facts.call()?.unit.clone()));
    }
    let problems = facts.options()?.problems();
    conditions.extend(problems.into_iter().filter(|problem| is_told(problem, role)).cloned().map(Condition::Option));
    // Every unit has Slurm, also one that may not be a controller: the version of the application is what each of its
    // units says, and a unit that says nothing blanks it.
    let (steps, install) = foundation::install(facts, attempts)?;
    conditions.extend(install.into_iter().map(Condition::Install));
    if !steps.is_empty() {
        return Ok(Plan::steps(steps));
    }
    match role {
        Role::Second => Ok(Plan::rest(conditions)),
        Role::Undecided => {
            conditions.push(Condition::Undecided);
            Ok(Plan::rest(conditions))
        }
        Role::Controller => Controller { facts, attempts, conditions }.plan(),
    }
}

/// What takes longest, and is asked beside all that does not depend on it, where slurmctld may answer: everybody needs
/// that answer. On the disk of this machine only; what is on a store takes time to read, and may be silent.
fn at_once(facts: &Facts) -> Result<&'static [Question], Ask> {
    const OF_ALL: &[Question] = &[Question::PartitionSettings];
    const OF_A_QUIET_HOOK: &[Question] =
        &[Question::PartitionSettings, Question::Unit, Question::RejectedHost, Question::Peer, Question::PortOpen];
    if identity::is_linked(facts)? || !facts.store()?.local {
        return Ok(&[]);
    }
    let configuration = facts.configuration()?;
    let may_answer = configuration.accepted.exists() && configuration.missing_include().is_none();
    Ok(match (may_answer, facts.call()?.quiet) {
        (false, _) => &[],
        (true, false) => OF_ALL,
        (true, true) => OF_A_QUIET_HOOK,
    })
}

/// The name of the cluster is a matter of its controller, who knows the name that the cluster has.
fn is_told(problem: &OptionProblem, role: Role) -> bool {
    problem.option != names::OPTION_CLUSTER_NAME || role != Role::Controller
}

struct Controller<'f> {
    facts: &'f Facts,
    attempts: &'f Attempts,
    conditions: Vec<Condition>,
}

impl Controller<'_> {
    fn plan(mut self) -> Planned<Slurmctld> {
        let facts = self.facts;
        let (options, store, leader) = (facts.options()?, facts.store()?, *facts.leader()?);
        let place = Place::find(facts)?;
        let on_store = place == Place::Store;
        if on_store {
            let steps = share::announce(facts)?;
            if !steps.is_empty() {
                return Ok(Plan::steps(steps));
            }
            if let Some(problem) = Identity::store_problem(store) {
                return self.without_store(problem);
            }
        }
        let identity = Identity::find(facts)?;
        self.conditions.extend(cluster_name_problem(facts, &identity)?.map(Condition::Option));
        let Some(version) = facts.installation()?.version.map(|version| version.to_string()) else {
            return Ok(Plan::rest(self.conditions));
        };
        // A cluster that is still to be made, under a name that cannot be one, is not made.
        let held_back = identity.given.is_none() && matches!(options.cluster_name, Some(Err(_)));
        if on_store && let Some(plan) = self.settle_on_store(&identity, held_back)? {
            return Ok(plan);
        }
        let (no_rejections, no_applications) = (Rejections::default(), Applications::default());
        let controllers = Controllers::find(facts)?;
        let situation = Situation {
            options,
            host: facts.host()?,
            version: &version,
            configuration: facts.configuration()?,
            rejections: facts.rejections()?.known().unwrap_or(&no_rejections),
            computes: facts.computes()?,
            applications: facts.applications()?.known().unwrap_or(&no_applications),
            identity: &identity,
            place,
            controllers: &controllers.wanted,
            accounting: accounting::wish(facts, self.attempts)?,
            noted_accounting: facts.neighbours().ok().and_then(|noted| noted.known()?.accounting.as_deref()),
            extras: facts.extras().ok(),
        };
        if (leader || !on_store)
            && let Some(step) = moving::agree(&situation)
        {
            return Ok(Plan::steps(vec![step]));
        }
        if !held_back {
            let steps = foundation::prepare(facts, self.attempts, &identity)?;
            if !steps.is_empty() {
                return Ok(Plan::steps(steps));
            }
        }
        if leader && !held_back {
            let mut steps = rotation::begin(facts, &mut self.conditions)?;
            if steps.is_empty() {
                steps = rotation::obsolete(facts, self.attempts)?;
            }
            if !steps.is_empty() {
                return Ok(Plan::steps(steps));
            }
        } else if facts.call()?.secrets_changed || rotation::is_under_way(facts)? {
            // A unit that once led tracks the revision that it has read, and nobody would call that obsolete.
            facts.auth_content()?;
        }
        self.notes()?;
        self.rejections(&situation)?;
        self.partitions(&situation);
        let problem = identity.state_problem(facts)?;
        let keys = facts.keys()?;
        let ready = keys.auth.is_some() && keys.jwt.is_some() && problem.is_none();
        let ready = ready && identity.is_marked(place.state(facts)?);
        if let Some(problem) = problem {
            self.conditions.push(Condition::State { problem, mount_related: false });
        }
        for key in [crate::keys::Key::Auth, crate::keys::Key::Jwt] {
            if keys.content(key).is_none() {
                self.conditions.push(Condition::AwaitsKey(key.name()));
            }
        }
        if !leader && !on_store {
            self.conditions.push(Condition::NotLeader);
        }
        if on_store && !self.is_fence_open()? {
            return Ok(Plan::rest(self.conditions));
        }
        if controllers.held {
            self.conditions.push(Condition::OldControllers(controllers.serving.clone()));
            return Ok(Plan::rest(self.conditions));
        }
        if ready && !held_back {
            self.look_ahead(&situation, leader)?;
            let steps = self.serve(&situation, &controllers, leader)?;
            if !steps.is_empty() {
                return Ok(Plan::steps(steps));
            }
        }
        // Others are told of a cluster that serves.
        if controllers.adopted {
            return Ok(Plan::rest(self.conditions));
        }
        // What these want of the configuration is brought into effect in the next round, once it is known.
        // Who has been asked in this dispatch is served in it, also after a reconfigure on their behalf.
        let upkeep = is_upkeep_due(facts, self.attempts)?;
        if leader && situation.accepted().exists() && (facts.followers().is_ok() || upkeep) {
            let steps = accounting::plan(&situation, facts, self.attempts, &mut self.conditions)?;
            if !steps.is_empty() {
                return Ok(Plan::steps(steps));
            }
        }
        if situation.accepted().exists() && (situation.extras.is_some() || upkeep) {
            let steps = extras::plan(&situation, facts.extras()?, self.attempts, &mut self.conditions);
            if !steps.is_empty() {
                return Ok(Plan::steps(steps));
            }
        }
        let steps = share::share(&situation, facts, self.attempts, on_store, &mut self.conditions)?;
        if !steps.is_empty() {
            return Ok(Plan::steps(steps));
        }
        if leader && ready && !held_back && situation.accepted().exists() {
            let steps = rotation::advance(&situation, &controllers, facts, self.attempts, &mut self.conditions)?;
            if !steps.is_empty() {
                return Ok(Plan::steps(steps));
            }
        }
        if ready && !held_back {
            let steps = self.relocate(&situation, &identity, &controllers)?;
            if !steps.is_empty() {
                return Ok(Plan::steps(steps));
            }
        }
        Ok(Plan::rest(self.conditions))
    }

    /// Where the files are as they should be, all that is left are looks: they are asked for together.
    fn look_ahead(&self, situation: &Situation<'_>, leader: bool) -> Result<(), Ask> {
        let answers = situation.configuration.missing_include().is_none();
        if !answers || !self.attempts.is_empty() || !situation.is_at_rest() {
            return Ok(());
        }
        let mut questions = vec![Question::PartitionSettings];
        if situation.place.is_local(self.facts)? {
            questions.extend([Question::StateProblem, Question::PartitionsSaved]);
        }
        if leader && !situation.applications.is_empty() {
            questions.push(Question::GoalState);
        }
        questions.push(Question::Extras);
        // Only where there is a slurmdbd that slurmctld knows, which costs processes.
        if leader && managed_keys::accounting_host(situation.accepted()).is_some() {
            questions.push(Question::Recording);
        }
        questions.extend(share::of_upkeep(leader));
        self.facts.need(&questions)
    }

    /// The daemon and its configuration. What other units may share is the leader's to change, and is changed here
    /// alone: files, notes, partitions, and through them the running configuration.
    fn serve(&mut self, situation: &Situation<'_>, controllers: &Controllers, leader: bool) -> Result<Vec<Step>, Ask> {
        let facts = self.facts;
        let listed = situation.live().rank_of(&situation.host.name).is_some();
        if !listed && !leader {
            self.conditions.push(Condition::AwaitsListing(situation.host.name.clone()));
            return Ok(Vec::new());
        }
        let state_problem = if situation.place.is_local(facts)? { facts.state_problem()?.as_ref() } else { None };
        self.conditions.extend(state_problem.cloned().map(Condition::CannotSave));
        let daemon = Daemon::find(facts, &controllers.serving)?;
        if daemon != Daemon::Answering {
            self.conditions.push(Condition::Daemon(daemon.clone()));
        }
        let notes = [facts.rejections()?.problem(), facts.overrides()?.problem(), facts.applications()?.problem()];
        let readable = notes == [None; 3];
        let mut steady = true;
        if leader && readable && daemon == Daemon::Answering {
            let mut departures = Departures::new(situation, facts, self.attempts)?;
            let steps = departures.plan()?;
            if !steps.is_empty() {
                return Ok(steps);
            }
            self.conditions.append(&mut departures.conditions);
            steady = !departures.is_stuck;
        }
        if leader && readable && steady {
            let noted = facts.overrides()?.known();
            let mut rollout = Rollout {
                situation: *situation,
                facts,
                attempts: self.attempts,
                daemon: &daemon,
                noted,
                keys: rotation::to_load(situation, controllers, facts)?,
                serves: situation.place != Place::Store || controllers.serving.is(&situation.host.name),
                conditions: Vec::new(),
            };
            let steps = rollout.plan()?;
            if !steps.is_empty() {
                return Ok(steps);
            }
            self.conditions.append(&mut rollout.conditions);
            let unproven = situation.live() != situation.accepted() || noted.is_some();
            if unproven && !self.conditions.iter().any(|condition| matches!(condition, Condition::Unproven(_))) {
                self.conditions.push(Condition::Unproven(None));
            }
        }
        // slurmdbd has another identity for this cluster than the state has. The directory is marked as ours, and a
        // database has one cluster of a name, so its word counts.
        let alien = |reason: &String| reason.contains(CLUSTER_ID_MISMATCH);
        let forget = Step::ForgetClusterId(situation.place);
        if let Daemon::Failing { reason } = &daemon
            && alien(reason)
            && !self.attempts.made(|step| *step == forget)
        {
            return Ok(vec![forget]);
        }
        match daemon {
            Daemon::ShutOut if !self.attempts.made(|step| *step == Step::RestartDaemon) => {
                Ok(vec![Step::RestartDaemon])
            }
            Daemon::Stopped | Daemon::Failing { .. } if self.may_start()? && situation.live().exists() => {
                let mut steps = vec![Step::StartDaemon];
                if identity::is_on_store(facts)? {
                    let accounting = managed_keys::accounting_host(situation.live());
                    let keys = Some(facts.keys()?.loaded());
                    steps.push(Step::NoteStarted(Started::with(&situation.live().controllers(), accounting, keys)));
                }
                Ok(steps)
            }
            Daemon::Answering => {
                let steps = self.stand_by(situation, controllers)?;
                if !leader || !steps.is_empty() {
                    return Ok(steps);
                }
                let steps = if state_problem.is_none() { self.save(situation)? } else { Vec::new() };
                if steps.is_empty() { self.reboots() } else { Ok(steps) }
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Last, so that no reboot holds a change up.
    fn reboots(&mut self) -> Result<Vec<Step>, Ask> {
        let mut rebooting = Rebooting::new(self.facts, self.attempts);
        let steps = rebooting.plan()?;
        self.conditions.append(&mut rebooting.conditions);
        Ok(steps)
    }

    /// Says whether a start is worth a try. Not from the call that a failure made: another failure would call again,
    /// without end. Files that were put back make a difference.
    fn may_start(&self) -> Result<bool, Ask> {
        let restored =
            |step: &Step| matches!(step, Step::RestoreFiles(_) | Step::ForgetClusterId(_)) || step.stops_for_a_move();
        let started = self.attempts.made_since(|step| *step == Step::StartDaemon, restored);
        let by_failure = self.facts.call()?.trigger == Trigger::DaemonFailure;
        Ok(!started && (!by_failure || self.attempts.made(restored)))
    }

    /// A reconfigure leaves the partitions of before in the state directory, and a takeover restores those.
    fn save(&mut self, situation: &Situation<'_>) -> Result<Vec<Step>, Ask> {
        let (accepted, place) = (situation.accepted(), situation.place);
        let Some(partition) = accepted.first_partition() else { return Ok(Vec::new()) };
        if *self.facts.partitions_saved()? {
            return Ok(Vec::new());
        }
        let saved = |step: &Step| matches!(step, Step::SavePartitions { .. });
        let again = |step: &Step| matches!(step, Step::MarkAccepted(_)) || step.stops_for_a_move();
        let tried = self.attempts.made_since(saved, again);
        match self.facts.partition_settings()?.answer() {
            Some(settings) if !tried => Ok(vec![Step::SavePartitions { partition, settings: settings.clone(), place }]),
            _ => {
                self.conditions.push(Condition::PartitionsUnsaved);
                Ok(Vec::new())
            }
        }
    }
}

/// The name of a cluster never changes: its saved state belongs to the name.
fn cluster_name_problem(facts: &Facts, identity: &Identity) -> Result<Option<OptionProblem>, Ask> {
    let options = facts.options()?;
    let Some(chosen) = &options.cluster_name else { return Ok(None) };
    Ok(match &identity.given {
        Some(name) if name.as_str() == options.texts.cluster_name => None,
        Some(name) => {
            let problem = format!("the cluster is {name} for good, reset the option");
            Some(OptionProblem::new(names::OPTION_CLUSTER_NAME, &options.texts.cluster_name, problem))
        }
        None => chosen.as_ref().err().cloned(),
    })
}

/// Says whether things are looked at that nothing suggests to have changed. Not after a change of the configuration,
/// which is frequent; but always while the retry timer calls, when slurmctld has just come up, or while a key is being
/// replaced.
fn is_upkeep_due(facts: &Facts, attempts: &Attempts) -> Result<bool, Ask> {
    let reconfigured = attempts.made(|step| matches!(step, Step::Reconfigure(_)));
    let started = attempts.made(|step| matches!(step, Step::StartDaemon));
    Ok(*facts.retry_timer()? || !reconfigured || started || rotation::is_under_way(facts)?)
}

/// Returns what stood in the way of an installation step in this dispatch.
fn install_problem(attempts: &Attempts, like: impl Fn(&InstallStep) -> bool) -> Option<&InstallProblem> {
    match attempts.outcome(|step| matches!(step, Step::Install(step) if like(step))) {
        Some(Outcome::Install(problem)) => problem.as_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod accounting_tests;
#[cfg(test)]
mod install_tests;
#[cfg(test)]
mod moving_tests;
#[cfg(test)]
mod rotation_tests;
#[cfg(test)]
pub mod situations;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
pub mod tests;
