//! What Juju and other applications learn, last of all.

use super::{is_upkeep_due, rotation};
use crate::condition::Condition;
use crate::config::Situation;
use crate::config::managed_keys::accounting_host;
use crate::controllers::Started;
use crate::facts::{Ask, Attempts, Compute, Facts, Follower, Question};
use crate::identity::Identity;
use crate::keys::Key;
use crate::names;
use crate::neighbours::Neighbours;
use crate::step::Step;
use charm::tools::relation::missing;
use charm::tools::{SecretAnswer, SecretContent, SecretInfo, Unreadable};
use charm::{AppName, Databag, RelationId, SecretId};
use slurm_conf::ControllerAddress;
use slurm_interface::{
    AccountingKeys, ControllerData, KeyAcknowledgement, MountPoint, MountRequest, PeerApp, PeerUnit, RestData,
    SecretUri, digest,
};
use slurm_unit::note::Noted;
use slurm_unit::service::ServiceStep;

/// What has to be said before there is a store: the host of this unit, and which file system the cluster needs.
pub(super) fn announce(facts: &Facts) -> Result<Vec<Step>, Ask> {
    let hostname = facts.host()?.name.clone();
    // What is not known is not taken back.
    let before = facts.peer()?.as_ref().and_then(|peer| peer.own.clone());
    let started = facts.started()?.known().and_then(|started| Some((started.keys.as_ref()?, started.signal()?)));
    let (keys, started_with) = match started {
        Some((keys, signal)) => (Some(KeyAcknowledgement { ids: keys.auth.clone() }), Some(signal)),
        None => before.map(|own| (own.keys, own.started_with)).unwrap_or_default(),
    };
    let wanted = PeerUnit { hostname, left: false, keys, started_with };
    let unheard = facts.peer()?.as_ref().filter(|peer| peer.own.as_ref() != Some(&wanted));
    let publish = unheard.map(|peer| {
        let bag = wanted.encode();
        Step::PublishPeerUnit(peer.relation.clone(), bag)
    });
    Ok(publish.into_iter().chain(request_mount(facts)?).collect())
}

/// Asks for the file system that the operator wants the state on.
pub(super) fn request_mount(facts: &Facts) -> Result<Option<Step>, Ask> {
    if !*facts.leader()? || Identity::store_problem(facts.store()?).is_none() {
        return Ok(None);
    }
    let Some(endpoint) = facts.mount()? else { return Ok(None) };
    let path = MountPoint::new(names::CHECKPOINT_DIRECTORY).expect("invariant: our own path has no detours");
    let missing = missing(MountRequest::new(path).encode(), &endpoint.published);
    Ok((!missing.is_empty()).then(|| Step::RequestMount(endpoint.relation.clone(), missing)))
}

/// Takes the request back, of a cluster that has its state where no mount covers it.
pub(super) fn withdraw_mount(facts: &Facts) -> Result<Option<Step>, Ask> {
    let Some(endpoint) = facts.mount()? else { return Ok(None) };
    let asked = matches!(MountRequest::decode(&endpoint.published), Ok(Some(_)));
    Ok(asked.then(|| Step::RequestMount(endpoint.relation.clone(), MountRequest::withdrawn())))
}

/// Tells Juju and other applications what they have to know. Before there is a cluster there is nothing to tell.
pub(super) fn share(
    situation: &Situation<'_>,
    facts: &Facts,
    attempts: &Attempts,
    on_store: bool,
    conditions: &mut Vec<Condition>,
) -> Result<Vec<Step>, Ask> {
    let (leader, upkeep) = (*facts.leader()?, is_upkeep_due(facts, attempts)?);
    if !situation.accepted().exists() {
        return Ok(Vec::new());
    }
    let mut steps = Vec::new();
    if upkeep {
        facts.need(&of_upkeep(leader).collect::<Vec<_>>())?;
        // A drop-in that systemd has not read does not count.
        if facts.unit()?.needs_daemon_reload && !attempts.made(|step| *step == RELOAD) {
            steps.push(RELOAD);
        }
        if !*facts.port_open()? {
            steps.push(Step::OpenPort);
        }
        conditions.extend(facts.rejected_host()?.clone().map(Condition::RejectedHost));
    }
    if upkeep || on_store {
        steps.extend(peer(situation, facts, on_store)?);
    }
    if leader {
        let followers = followers(facts, upkeep)?;
        if upkeep {
            steps.extend(note_neighbours(situation, facts, followers)?);
            let stale = followers.iter().filter(|follower| follower.stale);
            conditions.extend(stale.map(|follower| Condition::StaleRelation(follower.app.clone())));
        }
        let readers = readers(situation, followers);
        let told = |reader: &Reader<'_>| reader.is_told(situation);
        // Whether a grant took shows in a later dispatch, which somebody has to call for.
        let granted = attempts.made(|step| matches!(step, Step::GrantSecret(..) | Step::AddSecret(..)));
        if upkeep || granted || !readers.iter().all(told) {
            steps.extend(auth_secret(situation, facts, attempts, upkeep, &readers, conditions)?);
        }
        if upkeep {
            steps.extend(jwt_secret(facts, attempts, &readers, conditions)?);
        }
    }
    Ok(steps)
}

/// What is looked at although nothing suggests that it has changed.
pub(super) fn of_upkeep(leader: bool) -> impl Iterator<Item = Question> {
    let own = [Question::Unit, Question::PortOpen, Question::Peer, Question::RejectedHost];
    let of_a_leader =
        [Question::AuthInfo, Question::AuthContent, Question::JwtContent, Question::Followers, Question::Neighbours];
    own.into_iter().chain(of_a_leader.into_iter().filter(move |_| leader))
}

/// An application that reads the authentication key, and is told where the controllers are.
struct Reader<'f> {
    endpoint: &'static str,
    relation: &'f RelationId,
    app: &'f AppName,
    published: &'f Databag,
    reads: Reads,
    /// It may be deaf to the relation, and then reads a copy.
    copy: bool,
    /// The copy is there.
    copied: bool,
}

/// What an application is told.
enum Reads {
    /// Where the controllers are. The digest of the configuration is for who compares it.
    Controllers { digest: Option<String> },
    /// Where the keys are, and nothing else.
    Keys,
    /// The configuration. None: there is none to be told of.
    Configuration(Option<RestData>),
}

impl Reader<'_> {
    /// Says whether nothing has changed that this application is told. Where the secrets are stays as it is.
    fn is_told(&self, situation: &Situation<'_>) -> bool {
        if self.lacks_copy() {
            return false;
        }
        match &self.reads {
            Reads::Controllers { digest } => {
                let told = ControllerData::decode(self.published);
                let addresses = addresses(situation);
                matches!(told, Ok(Some(data)) if data.controllers == addresses && data.conf_digest == *digest)
            }
            Reads::Configuration(data) => data.as_ref().is_none_or(|data| {
                let told = |bag: &Databag| bag.get(RestData::CONFIGURATION).cloned();
                told(&data.encode()) == told(self.published)
            }),
            Reads::Keys => {
                matches!(AccountingKeys::decode(self.published), Ok(Some(data)) if data.jwt_secret.is_some())
            }
        }
    }

    /// Says whether it was told before it was known that it reads copies.
    fn lacks_copy(&self) -> bool {
        self.copy && !self.copied
    }

    fn reads_tokens(&self) -> bool {
        matches!(self.reads, Reads::Keys)
    }
}

/// Compute applications whose nodes have a place to go, and all that follow the controllers beside them.
fn readers<'f>(situation: &Situation<'f>, followers: &'f [Follower]) -> Vec<Reader<'f>> {
    let served = situation.computes.iter().filter(|compute| is_served(situation, compute));
    let computes = served.map(|Compute { relation, app, published, .. }| Reader {
        endpoint: names::ENDPOINT_SLURMD,
        relation,
        app,
        published,
        reads: Reads::Controllers { digest: None },
        copy: true,
        copied: true,
    });
    let digest = situation.accepted().files.slurm.as_deref().map(digest);
    let followers =
        followers.iter().map(|Follower { endpoint, relation, app, published, acknowledges, copied, .. }| Reader {
            endpoint,
            relation,
            app,
            published,
            reads: match *endpoint {
                names::ENDPOINT_SLURMDBD => Reads::Keys,
                names::ENDPOINT_SLURMRESTD => Reads::Configuration(rest_data(situation)),
                // The Python charm restarts sackd whenever something changes here, and knows no digest.
                _ => Reads::Controllers { digest: digest.clone().filter(|_| *acknowledges) },
            },
            // The Python charm starts slurmrestd anew with every event, and a copy is another one.
            copy: *endpoint != names::ENDPOINT_SLURMRESTD || *acknowledges,
            copied: *copied,
        });
    computes.chain(followers).collect()
}

/// Looks for who follows the controllers, unless nothing but the configuration has changed and the note says that
/// nobody hears of that.
fn followers(facts: &Facts, upkeep: bool) -> Result<&[Follower], Ask> {
    let hear = |noted: &Neighbours| noted.are_at(names::ENDPOINT_SACKD) || noted.are_at(names::ENDPOINT_SLURMRESTD);
    let none = match facts.neighbours()? {
        Noted::Absent => true,
        Noted::Known(noted) => !hear(noted),
        Noted::Unreadable { .. } => false,
    };
    // Who has been asked in this dispatch is told in it.
    Ok(if none && !upkeep && facts.followers().is_err() { &[] } else { facts.followers()? })
}

fn note_neighbours(situation: &Situation<'_>, facts: &Facts, followers: &[Follower]) -> Result<Option<Step>, Ask> {
    // Whose the lines about accounting are is forgotten only when they are gone.
    let wrote = facts.neighbours()?.known().and_then(|noted| noted.accounting.clone());
    let wrote = wrote.filter(|host| {
        let stays = followers.iter().any(|one| one.endpoint == names::ENDPOINT_SLURMDBD);
        stays || accounting_host(situation.accepted()) == Some(host.as_str())
    });
    let found = Neighbours::at(followers.iter().map(|follower| follower.endpoint), wrote);
    let noted = match facts.neighbours()? {
        Noted::Absent => found.is_empty(),
        Noted::Known(known) => *known == found,
        Noted::Unreadable { .. } => false,
    };
    Ok((!noted).then_some(Step::NoteNeighbours(found)))
}

const RELOAD: Step = Step::Service(ServiceStep::ReloadUnits);

fn peer(situation: &Situation<'_>, facts: &Facts, on_store: bool) -> Result<Vec<Step>, Ask> {
    let Some(peer) = facts.peer()? else { return Ok(Vec::new()) };
    let host = &situation.host.name;
    let mut steps = Vec::new();
    if peer.own.as_ref().is_none_or(|own| own.hostname != *host) {
        let bag = PeerUnit { hostname: host.clone(), left: false, keys: None, started_with: None }.encode();
        steps.push(Step::PublishPeerUnit(peer.relation.clone(), bag));
    }
    // A list that slurmctld has accepted: the other controllers start with it.
    let signal = match on_store {
        true => Started::now(situation.accepted(), facts.keys()?).signal().unwrap_or_default(),
        false => String::new(),
    };
    if let Some(cluster_name) = situation.identity.given.clone()
        && *facts.leader()?
        && (peer.cluster_name.is_none() || peer.restart_signal != signal)
    {
        let bag = PeerApp { cluster_name, restart_signal: signal }.encode();
        steps.push(Step::PublishPeerApp(peer.relation.clone(), bag));
    }
    Ok(steps)
}

/// The secret that compute units read, and who is told of it. Its content is looked at in upkeep only.
fn auth_secret(
    situation: &Situation<'_>,
    facts: &Facts,
    attempts: &Attempts,
    upkeep: bool,
    readers: &[Reader<'_>],
    conditions: &mut Vec<Condition>,
) -> Result<Vec<Step>, Ask> {
    let Some(key) = &facts.keys()?.content(Key::Auth) else { return Ok(Vec::new()) };
    // A secret must not be granted before the next dispatch: Juju 4.0.13 loses such a grant.
    if attempts.made(|step| matches!(step, Step::AddSecret(Key::Auth, _))) {
        if !situation.computes.is_empty() || !readers.is_empty() {
            conditions.push(Condition::GrantPending);
        }
        return Ok(Vec::new());
    }
    let Some(info) = facts.auth_info()? else { return Ok(add(facts, Key::Auth, key)?.into_iter().collect()) };
    let mut steps = Vec::new();
    if upkeep && let Some(refill) = refill(Key::Auth, &info.id, facts.auth_content()?, key) {
        steps.extend(rotation::before_refill(facts, info.revision)?);
        steps.push(refill);
    }
    let uuid = &facts.call()?.model_uuid;
    let Some(own) = uri(&info.id, uuid) else { return Ok(steps) };
    for reader in readers {
        steps.extend(grant(facts, attempts, (Key::Auth, info), reader, conditions)?);
        let bag = match &reader.reads {
            Reads::Controllers { digest } => controller_data(situation, &own, digest.clone()).encode(),
            Reads::Configuration(data) => {
                let data = data.clone().map(|data| RestData { auth_secret: Some(own.clone()), ..data });
                data.map(|data| data.encode()).unwrap_or_default()
            }
            Reads::Keys => {
                let jwt_secret = facts.jwt_info()?.as_ref().and_then(|info| uri(&info.id, uuid));
                let slurm_version = slurm_version(situation);
                AccountingKeys { auth_secret: own.clone(), jwt_secret, slurm_version }.encode()
            }
        };
        let missing = if reader.lacks_copy() { bag } else { missing(bag, reader.published) };
        if !missing.is_empty() {
            let (relation, copy) = (reader.relation.clone(), reader.copy);
            steps.push(Step::PublishController { relation, bag: missing, copy });
        }
    }
    Ok(steps)
}

/// Lets an application read a secret. Whether it took shows in a later dispatch.
fn grant(
    facts: &Facts,
    attempts: &Attempts,
    (key, info): (Key, &SecretInfo),
    reader: &Reader<'_>,
    conditions: &mut Vec<Condition>,
) -> Result<Option<Step>, Ask> {
    let step = Step::GrantSecret(key, info.id.clone(), reader.relation.clone());
    if attempts.made(|made| *made == step) {
        conditions.push(Condition::GrantPending);
        return Ok(None);
    }
    Ok((!is_granted(info, reader, &facts.call()?.unit.app())).then_some(step))
}

/// The secret that slurmdbd alone reads beside this application. Its content tells whether it is there.
fn jwt_secret(
    facts: &Facts,
    attempts: &Attempts,
    readers: &[Reader<'_>],
    conditions: &mut Vec<Condition>,
) -> Result<Vec<Step>, Ask> {
    let Some(key) = &facts.keys()?.content(Key::Jwt) else { return Ok(Vec::new()) };
    let content = facts.jwt_content()?;
    let made = attempts.made(|step| matches!(step, Step::AddSecret(Key::Jwt, _)));
    if made {
        return Ok(Vec::new());
    }
    let mut readers = readers.iter().filter(|reader| reader.reads_tokens()).peekable();
    if readers.peek().is_none() && matches!(content, SecretAnswer::Content(content) if content == key) {
        return Ok(Vec::new());
    }
    let Some(info) = facts.jwt_info()? else { return Ok(add(facts, Key::Jwt, key)?.into_iter().collect()) };
    let mut steps: Vec<Step> = refill(Key::Jwt, &info.id, content, key).into_iter().collect();
    for reader in readers {
        steps.extend(grant(facts, attempts, (Key::Jwt, info), reader, conditions)?);
    }
    Ok(steps)
}

/// Makes a secret, unless Juju would not say whether there is one.
fn add(facts: &Facts, key: Key, content: &SecretContent) -> Result<Option<Step>, Ask> {
    let absent = matches!(facts.content(key)?, SecretAnswer::Unreadable(Unreadable::NotFound));
    Ok(absent.then(|| Step::AddSecret(key, content.clone())))
}

/// slurmctld runs with the key on disk. Nodes that took another one would be lost at their next restart.
fn refill(key: Key, id: &SecretId, found: &SecretAnswer, wanted: &SecretContent) -> Option<Step> {
    let differs = match found {
        SecretAnswer::Content(content) => content != wanted,
        SecretAnswer::Unreadable(Unreadable::NotFound) => true,
        SecretAnswer::Unreadable(Unreadable::NotAllowed | Unreadable::AgentGone) => false,
    };
    differs.then(|| Step::RefillSecret(key, id.clone(), wanted.clone()))
}

fn uri(id: &SecretId, model_uuid: &str) -> Option<SecretUri> {
    SecretUri::new(&id.uri_in(model_uuid)).or_else(|| SecretUri::new(id.as_str()))
}

/// Juju names a grant by the application and by the two ends of the relation, `compute.slurmctld#slurmctld.slurmd`.
fn is_granted(info: &SecretInfo, reader: &Reader<'_>, own: &AppName) -> bool {
    let target = format!("application-{}", reader.app);
    let end = format!("{own}.{}", reader.endpoint);
    info.access.iter().any(|access| access.target == target && access.scope.contains(&end))
}

/// Returns where the controllers are: the primary first, as slurmctld has accepted them.
fn addresses(situation: &Situation<'_>) -> Vec<ControllerAddress> {
    situation.accepted().controllers().into_iter().map(ControllerAddress::new).collect()
}

fn controller_data(situation: &Situation<'_>, uri: &SecretUri, conf_digest: Option<String>) -> ControllerData {
    ControllerData {
        auth_secret: uri.clone(),
        controllers: addresses(situation),
        slurm_version: slurm_version(situation),
        conf_digest,
    }
}

/// What slurmrestd reads: the file that slurmctld has accepted, and those that it includes.
fn rest_data(situation: &Situation<'_>) -> Option<RestData> {
    let conf = situation.accepted().conf.clone()?;
    let included = situation.configuration.included.parsed();
    let files = included.chain([("slurm.conf".to_owned(), conf)]).collect();
    RestData::new(None, files, slurm_version(situation))
}

fn slurm_version(situation: &Situation<'_>) -> Option<String> {
    Some(release(situation.version)).filter(|version| version.contains('.'))
}

/// Returns the numbers of a package's version, without what a distribution adds to them.
fn release(version: &str) -> String {
    let numbers = version.split(|character: char| !character.is_ascii_digit() && character != '.').next();
    numbers.unwrap_or_default().split('.').take(3).collect::<Vec<_>>().join(".")
}

/// Says whether a compute application's nodes have a place to go: its partition is in effect, and is its own.
fn is_served(situation: &Situation<'_>, compute: &Compute) -> bool {
    let Some((partition, _)) = compute.partition() else { return false };
    let own = |owner: &Compute| owner.relation == compute.relation;
    !situation.applications.is_removing(partition.name().as_str())
        && situation.accepted().conf.as_ref().is_some_and(|conf| conf.partition(partition.name().as_str()).is_some())
        && situation.owner(partition.name()).is_some_and(own)
}
