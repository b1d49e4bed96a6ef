//! What an accounting unit changes next, and why it is not as it should be. Pure: it reads nothing and changes nothing.
//!
//! Data that is missing is a reason to wait: what runs goes on running. Only a unit that has lost its controllers or
//! its database stops slurmdbd.

use crate::Slurmdbd;
use crate::condition::Condition;
use crate::conf::{self, Rejected, Tried, Wanted};
use crate::facts::{Credentials, Facts, JwtSecret, Loaded, Question};
use crate::names;
use crate::step::{Outcome, Step};
use charm::runtime::{Ask, Attempts, Plan, Planned};
use charm::tools::relation::missing;
use slurm_conf::Parameters;
use slurm_interface::{AccountingHost, AccountingKeys, DatabaseAnswer, DatabaseRequest};
use slurm_ops::SlurmVersion;
use slurm_ops::slurmdbd::ConfText;
use slurm_unit::acknowledgement::{self, Next};
use slurm_unit::follower::{FollowerCondition, KeySecret, Related, RemoteData};
use slurm_unit::install::InstallStep;
use slurm_unit::service::{self, Running, ServiceFiles};
use slurm_unit::{OptionProblem, Trigger};

type Planning<T> = Result<T, Ask<Question>>;
type Made = Attempts<Step, Outcome>;
type Decision = Plan<Step, Condition>;

/// What every plan needs.
const ALWAYS: [Question; 10] = [
    Question::Source,
    Question::Wanted,
    Question::Controller,
    Question::Database,
    Question::Installation,
    Question::Daemon,
    Question::KeyFile,
    Question::Conf,
    Question::Server,
    Question::Leader,
];
/// What is asked about a unit that has controllers and a database.
const OF_A_SERVER: [Question; 12] = [
    Question::KeySecret,
    Question::JwtSecret,
    Question::Credentials,
    Question::ServiceFiles,
    Question::JwtFile,
    Question::Socket,
    Question::ClientConf,
    Question::Newest,
    Question::Tried,
    Question::Loaded,
    Question::TakesTokens,
    Question::PortOpen,
];

/// Decides what to do next.
pub fn plan(facts: &Facts, attempts: &Made) -> Planned<Slurmdbd> {
    let identity = facts.identity()?;
    if identity.departs || (identity.teardown && *facts.leaving()?) {
        return Ok(Plan::steps_or(end(facts, true, true)?, Condition::Leaving));
    }
    facts.need(&ALWAYS)?;
    let decision = decide(facts, attempts)?;
    // A unit that is removed begins nothing, and is never blocked: Juju 4 drops a leaving unit that is.
    if (!decision.steps.is_empty() || !decision.is_well()) && *facts.leaving()? {
        return Ok(Plan::rest(vec![Condition::Leaving]));
    }
    Ok(decision)
}

fn decide(facts: &Facts, attempts: &Made) -> Planning<Decision> {
    let identity = facts.identity()?;
    if identity.beside_slurmd {
        // It has its key for root alone.
        return Ok(Plan::steps_or(end(facts, true, true)?, Condition::MachineTaken(identity.unit.clone())));
    }
    let option = facts.source()?.as_ref().err().or(facts.wanted()?.parameters.as_ref().err());
    let mut conditions: Vec<Condition> = option.cloned().map(Condition::Option).into_iter().collect();
    let (steps, installing) = install(facts, attempts)?;
    conditions.extend(installing);
    if !steps.is_empty() {
        return Ok(Plan::steps(steps));
    }
    let requests = request(facts)?;
    if !requests.is_empty() {
        return Ok(Plan::steps(requests));
    }
    let server = facts.server()?;
    if *server != identity.unit {
        let mut steps = end(facts, true, true)?;
        steps.extend(speak_for(facts)?);
        let condition = Condition::SeveralUnits { server: server.clone(), unit: identity.unit.clone() };
        return Ok(Plan::steps_or(steps, condition));
    }
    let steps = part(facts)?;
    if !steps.is_empty() {
        return Ok(Plan::steps(steps));
    }
    let keys = keys(facts, &mut conditions)?;
    let answer = answer(facts, &mut conditions)?;
    let (Some((controller, keys)), Some((database, answer))) = (keys, answer) else {
        return Ok(Plan::rest(conditions));
    };
    if facts.installation()?.version.is_none() {
        return Ok(Plan::rest(conditions));
    }
    Server { facts, attempts, controller, keys, database, answer, conditions }.plan()
}

fn install(facts: &Facts, attempts: &Made) -> Planning<(Vec<Step>, Vec<Condition>)> {
    let in_use = facts.daemon()?.running == Running::Up;
    let failed = match attempts.outcome(|step| matches!(step, Step::Install(InstallStep::Install(_)))) {
        Some(Outcome::InTheWay(obstacle)) => Some(obstacle),
        _ => None,
    };
    let hold_failed = attempts.made(|step| *step == Step::Install(InstallStep::Hold));
    let (steps, conditions) = facts.installation()?.plan(facts.source()?.as_ref(), in_use, failed, hold_failed);
    Ok((steps.into_iter().map(Step::Install).collect(), conditions.into_iter().map(Condition::Install).collect()))
}

/// Asks the database for what slurmdbd needs, whoever runs it.
fn request(facts: &Facts) -> Planning<Vec<Step>> {
    let (true, Some(database)) = (*facts.leader()?, facts.database()?) else { return Ok(Vec::new()) };
    let Some(requested) = facts.requested()? else { return Ok(Vec::new()) };
    let bag = missing(DatabaseRequest { database: names::DATABASE }.encode(), requested);
    Ok(if bag.is_empty() { Vec::new() } else { vec![Step::RequestDatabase(database.relation.clone(), bag)] })
}

/// Publishes for a unit that runs slurmdbd and does not lead.
fn speak_for(facts: &Facts) -> Planning<Vec<Step>> {
    if !*facts.leader()? || facts.controller()?.is_none() {
        return Ok(Vec::new());
    }
    let told = facts.peer()?.as_ref().and_then(|peer| peer.server.clone());
    told.map_or(Ok(Vec::new()), |host| publish(facts, &host))
}

fn publish(facts: &Facts, host: &AccountingHost) -> Planning<Vec<Step>> {
    let (Some(controller), Some(published)) = (facts.controller()?, facts.published()?) else { return Ok(Vec::new()) };
    let bag = missing(host.encode(), published);
    Ok(if bag.is_empty() { Vec::new() } else { vec![Step::PublishHost(controller.relation.clone(), bag)] })
}

/// Gives back what belongs to a relation that has ended.
fn part(facts: &Facts) -> Planning<Vec<Step>> {
    let no_controller = facts.controller()?.is_none() && !*facts.controller_expected()?;
    let no_database = facts.database()?.is_none() && !*facts.database_expected()?;
    if no_controller || no_database { end(facts, no_controller, no_database) } else { Ok(Vec::new()) }
}

/// Ends what this unit has begun: slurmdbd first, so that it never runs without what it was started with.
fn end(facts: &Facts, keys: bool, conf: bool) -> Planning<Vec<Step>> {
    facts.need(&[Question::KeyFile, Question::Conf, Question::Daemon, Question::PortOpen])?;
    let has_keys = facts.key_file()?.keys.is_some() && !facts.identity()?.keys_are_shared;
    let (has_conf, mut steps) = (facts.conf()?.text.is_some(), Vec::new());
    if facts.daemon()?.running != Running::Stopped {
        steps.push(Step::StopDaemon);
    }
    if keys && has_keys {
        steps.push(Step::RemoveKeys);
    }
    if conf && has_conf {
        steps.push(Step::RemoveConf);
    }
    if *facts.port_open()? {
        steps.push(Step::ClosePort);
    }
    Ok(steps)
}

type Told<'f, T> = Option<(&'f Related<T>, &'f T)>;

/// Returns what the controllers say, or says why that is of no use.
fn keys<'f>(facts: &'f Facts, conditions: &mut Vec<Condition>) -> Planning<Told<'f, AccountingKeys>> {
    let Some(controller) = facts.controller()? else {
        let app = facts.identity()?.unit.app();
        conditions.push(FollowerCondition::unrelated(app, *facts.controller_expected()?).into());
        return Ok(None);
    };
    if controller.stale {
        conditions.push(FollowerCondition::StaleRelation.into());
    }
    let app = controller.app.clone();
    match &controller.data {
        RemoteData::Data(data) => return Ok(Some((controller, data))),
        RemoteData::Nothing => conditions.push(Condition::NoKeys(app)),
        RemoteData::Unusable(why) => {
            conditions.push(FollowerCondition::UnusableData { app, why: why.clone() }.into());
        }
    }
    Ok(None)
}

/// Returns what the database says, or says why that is of no use.
fn answer<'f>(facts: &'f Facts, conditions: &mut Vec<Condition>) -> Planning<Told<'f, DatabaseAnswer>> {
    let Some(database) = facts.database()? else {
        conditions.push(match *facts.database_expected()? {
            true => Condition::DatabaseExpected,
            false => Condition::NoDatabase(facts.identity()?.unit.app()),
        });
        return Ok(None);
    };
    if database.stale {
        conditions.push(FollowerCondition::StaleRelation.into());
    }
    let app = database.app.clone();
    match &database.data {
        RemoteData::Data(data) => return Ok(Some((database, data))),
        RemoteData::Nothing => conditions.push(Condition::DatabaseNotReady(app)),
        RemoteData::Unusable(why) => conditions.push(Condition::DatabaseUnusable { app, why: why.clone() }),
    }
    Ok(None)
}

/// The unit that runs slurmdbd, with controllers and a database.
struct Server<'f> {
    facts: &'f Facts,
    attempts: &'f Made,
    controller: &'f Related<AccountingKeys>,
    keys: &'f AccountingKeys,
    database: &'f Related<DatabaseAnswer>,
    answer: &'f DatabaseAnswer,
    conditions: Vec<Condition>,
}

impl Server<'_> {
    fn plan(mut self) -> Planning<Decision> {
        let facts = self.facts;
        facts.need(&OF_A_SERVER)?;
        for stage in [Self::prepare, Self::configure, Self::run, Self::tell] {
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

    /// Every file that slurmdbd and its clients read, but its own.
    fn prepare(&self) -> Planning<Vec<Step>> {
        let facts = self.facts;
        let drop_in = service::restarting_drop_in(&names::PROFILE);
        let wanted = ServiceFiles::of(&facts.identity()?.unit, &names::PROFILE, drop_in);
        let files = facts.service_files()?.upkeep(&wanted, facts.daemon()?.needs_reload_of_units);
        let mut steps: Vec<Step> = files.into_iter().map(Step::Service).collect();
        let key = facts.key_file()?;
        if let KeySecret::Offered(offered) = facts.key_secret()?
            && (key.keys.as_ref() != Some(offered) || !key.private)
        {
            steps.push(Step::WriteKey(offered.clone()));
        }
        if let Some(JwtSecret::Offered(offered)) = facts.jwt_secret()?
            && (facts.jwt_file()?.as_ref() != Some(offered) || !key.private)
        {
            steps.push(Step::WriteJwtKey(offered.clone()));
        }
        let socket = conf::socket(self.answer);
        if facts.socket()?.as_deref() != socket {
            steps.push(Step::WriteSocket(socket.map(str::to_owned)));
        }
        if facts.client_conf()?.as_deref() != Some(conf::CLIENT_CONF) {
            steps.push(Step::WriteClientConf);
        }
        Ok(steps)
    }

    /// slurmdbd.conf. New parameters are tried out first: a file that slurmdbd does not understand ends it.
    fn configure(&self) -> Planning<Vec<Step>> {
        let (facts, tried) = (self.facts, self.facts.tried()?);
        let Some((text, parameters)) = self.conf()? else { return Ok(Vec::new()) };
        let file = facts.conf()?;
        if file.text.as_ref() == Some(&text) && file.private {
            return Ok(Vec::new());
        }
        if parameters != tried.accepted && file.text.as_ref() != Some(&text) {
            match self.attempts.outcome(|step| *step == Step::TryConf(text.clone())) {
                None => return Ok(vec![Step::TryConf(text)]),
                Some(Outcome::Refused(reason)) => return Ok(vec![self.reject(parameters, reason)?]),
                Some(_) => {}
            }
        }
        let soft = file.text.as_ref().is_some_and(|before| conf::needs_reload_only(before, &text));
        Ok(vec![Step::WriteConf { text, soft }])
    }

    fn reject(&self, text: String, reason: &str) -> Planning<Step> {
        let (reason, version) = (reason.to_owned(), self.version()?);
        let rejected = Some(Rejected { text, reason, version });
        Ok(Step::NoteParameters(Tried { rejected, ..self.facts.tried()?.clone() }))
    }

    fn version(&self) -> Planning<String> {
        Ok(self.facts.installation()?.version.map(|version| version.to_string()).unwrap_or_default())
    }

    /// Returns the file as it should be, and the parameters in it. None: user and password are not to be had.
    fn conf(&self) -> Planning<Option<(ConfText, String)>> {
        let Credentials::Known(login) = self.facts.credentials()? else { return Ok(None) };
        let (text, parameters) = self.parameters()?;
        let host = &self.facts.identity()?.host;
        Ok(Some((conf::render(host, self.answer, login, self.tokens()?, &parameters), text)))
    }

    /// Returns the parameters to use: the operator's, or the last that slurmdbd took.
    fn parameters(&self) -> Planning<(String, Parameters)> {
        let (wanted, tried) = (self.facts.wanted()?, self.facts.tried()?);
        let refused = tried.reason(&wanted.text, &self.version()?).is_some();
        if let (Ok(parameters), false) = (&wanted.parameters, refused) {
            return Ok((wanted.text.clone(), parameters.clone()));
        }
        let accepted = Wanted::read(&tried.accepted).parameters;
        let none = || Wanted::read("").parameters.expect("invariant: no parameters are fine");
        Ok(accepted.map_or_else(|_| (String::new(), none()), |parameters| (tried.accepted.clone(), parameters)))
    }

    /// Says whether slurmdbd is to check tokens of users.
    fn tokens(&self) -> Planning<bool> {
        Ok(self.keys.jwt_secret.is_some() && *self.facts.takes_tokens()?)
    }

    /// Says whether all is there that slurmdbd would not start without.
    fn is_ready(&self) -> Planning<bool> {
        let facts = self.facts;
        let token_key = !self.tokens()? || facts.jwt_file()?.is_some();
        let key = facts.key_file()?.keys.is_some();
        Ok(key && token_key && facts.conf()?.text.is_some() && self.too_old()?.is_none())
    }

    /// Brings slurmdbd up, and has it load what is newer than what it has.
    fn run(&self) -> Planning<Vec<Step>> {
        let facts = self.facts;
        if !self.is_ready()? {
            return Ok(Vec::new());
        }
        let tried = |step: &Step| self.attempts.made(|made| made == step);
        let loaded = || Ok(Step::NoteLoaded(Loaded { newest: *facts.newest()?, ..facts.loaded()?.clone() }));
        match facts.daemon()?.running {
            Running::Failing if self.is_suspect()? => {
                let reason = facts.said()?.complaint.clone().unwrap_or_default();
                return Ok(vec![self.reject(self.parameters()?.0, &reason)?]);
            }
            // Do not start slurmdbd from its own failure: another failure would call again, without end.
            Running::Stopped | Running::Failing
                if facts.identity()?.trigger != Trigger::DaemonFailure && !tried(&Step::StartDaemon) =>
            {
                return Ok(vec![Step::StartDaemon, loaded()?]);
            }
            Running::Up if self.is_outdated()? => {}
            _ => return Ok(Vec::new()),
        }
        let written = |step: &Step| matches!(step, Step::WriteKey(_) | Step::WriteJwtKey(_) | Step::WriteSocket(_));
        let soft = self.attempts.made(|step| matches!(step, Step::WriteConf { soft: true, .. }));
        let hard = self.attempts.made(|step| written(step) || matches!(step, Step::WriteConf { soft: false, .. }));
        let step = if soft && !hard { Step::ReloadDaemon } else { Step::RestartDaemon };
        // Noted afterwards: what is repeated after a kill is only one too many.
        Ok(if tried(&step) { Vec::new() } else { vec![step, loaded()?] })
    }

    /// Says whether slurmdbd may have failed because of parameters with which it has never answered.
    fn is_suspect(&self) -> Planning<bool> {
        let facts = self.facts;
        let Some((text, parameters)) = self.conf()? else { return Ok(false) };
        let new = parameters != facts.tried()?.accepted && facts.conf()?.text.as_ref() == Some(&text);
        Ok(new && facts.said()?.trouble.is_none() && facts.said()?.complaint.is_some())
    }

    /// Says whether a file is newer than what slurmdbd has loaded.
    fn is_outdated(&self) -> Planning<bool> {
        let (Some(newest), Some(started)) = (*self.facts.newest()?, self.facts.daemon()?.started) else {
            return Ok(false);
        };
        Ok(newest.as_secs() >= started && self.facts.loaded()?.newest != Some(newest))
    }

    /// Tells the controllers which keys slurmdbd has loaded. What does not run has none but those of its next start.
    fn acknowledge(&self) -> Planning<Next> {
        let facts = self.facts;
        let loaded = facts.daemon()?.running == Running::Stopped || !self.is_outdated()?;
        let Some(keys) = facts.key_file()?.keys.as_ref().filter(|_| loaded) else { return Ok(Next::Nothing) };
        let published = self.attempts.made(|step| matches!(step, Step::Acknowledge(..)));
        let noted = facts.loaded()?.acknowledged.as_ref();
        acknowledgement::next(&self.controller.relation, Some(keys), noted, published, || facts.own_bag())
    }

    fn answers(&self) -> Planning<bool> {
        Ok(self.facts.daemon()?.running == Running::Up && *self.facts.answers()?)
    }

    /// What follows once slurmdbd serves. While it does not, nothing that was told is taken back: controllers keep
    /// their records.
    fn tell(&self) -> Planning<Vec<Step>> {
        let (facts, mut steps) = (self.facts, Vec::new());
        if !self.answers()? {
            return Ok(steps);
        }
        let (wanted, tried) = (facts.wanted()?, facts.tried()?);
        if let Some((text, parameters)) = self.conf()?
            && facts.conf()?.text.as_ref() == Some(&text)
        {
            let rejected = tried.rejected.clone().filter(|rejected| rejected.text == wanted.text);
            let settled = Tried { accepted: parameters, rejected };
            if settled != *tried {
                steps.push(Step::NoteParameters(settled));
            }
        }
        if !*facts.port_open()? {
            steps.push(Step::OpenPort);
        }
        let host = AccountingHost { hostname: facts.identity()?.host.clone() };
        if *facts.leader()? {
            steps.extend(publish(facts, &host)?);
        } else if let Some(peer) = facts.peer()? {
            let bag = missing(host.encode(), &peer.own);
            steps.extend((!bag.is_empty()).then(|| Step::PublishToPeers(peer.relation.clone(), bag)));
        }
        Ok(steps)
    }

    fn too_old(&self) -> Planning<Option<Condition>> {
        let controllers = self.keys.slurm_version.as_deref().and_then(|text| text.parse::<SlurmVersion>().ok());
        let both = self.facts.installation()?.version.zip(controllers);
        let app = self.facts.identity()?.unit.app();
        let older = both.filter(|(own, controllers)| controllers.is_too_new_for(*own));
        Ok(older.map(|(own, controllers)| Condition::TooOld { own, controllers, app }))
    }

    /// Why jobs are not accounted for, if so.
    fn judge(&mut self) -> Planning<()> {
        let facts = self.facts;
        let (wanted, tried) = (facts.wanted()?, facts.tried()?);
        if let Some(reason) = tried.reason(&wanted.text, &self.version()?) {
            let problem = OptionProblem::new(names::OPTION_PARAMETERS, "", reason);
            self.conditions.push(Condition::Option(problem));
        }
        if let Some(too_old) = self.too_old()? {
            self.conditions.push(too_old);
            return Ok(());
        }
        let app = self.database.app.clone();
        if facts.key_file()?.keys.is_none() {
            self.conditions.push(FollowerCondition::no_key(&self.controller.app, facts.key_secret()?).into());
        } else if self.tokens()? && facts.jwt_file()?.is_none() {
            self.conditions.push(Condition::NoTokenKey(self.controller.app.clone()));
        } else if facts.conf()?.text.is_none() {
            let malformed = *facts.credentials()? == Credentials::Malformed;
            self.conditions.push(Condition::NoCredentials { app, malformed });
        } else {
            match facts.daemon()?.running {
                Running::Stopped | Running::Starting => self.conditions.push(FollowerCondition::Stopped.into()),
                Running::Failing => {
                    let (result, complaint) = (facts.daemon()?.result.clone(), facts.said()?.complaint.clone());
                    self.conditions.push(FollowerCondition::Failing { result, complaint }.into());
                }
                Running::Up if !self.answers()? => self.conditions.push(match facts.said()?.trouble {
                    Some(trouble) => Condition::Trouble { app, trouble },
                    None => Condition::Silent,
                }),
                Running::Up => {}
            }
        }
        Ok(())
    }
}
