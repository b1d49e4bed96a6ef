//! What an accounting unit can ask, and what the answers look like. Facts only: no wishes, no steps.

use crate::conf::{Login, Tried, Wanted};
use crate::names;
use charm::tools::{Remote, SecretAnswer, Unreadable};
use charm::{Databag, RelationId, UnitName};
use serde::{Deserialize, Serialize};
use slurm_conf::HostName;
use slurm_interface::{AccountingHost, AccountingKeys, CredentialSource, DatabaseAnswer};
use slurm_ops::keys::{self, JWT_KEY_FILE, JwtKey};
use slurm_ops::slurmdbd::{self, ConfText, Said};
use slurm_ops::source::Source;
use slurm_ops::{FileError, files, hostname, packages, sackd, slurmd};
use slurm_unit::acknowledgement::{self, Acknowledged};
use slurm_unit::follower::{self, ENDPOINT, KeyFile, KeySecret, Related, RemoteData};
use slurm_unit::install::{self, Installation};
use slurm_unit::note::{self, Note};
use slurm_unit::service::{Daemon, ServiceFiles};
use slurm_unit::{Error, OptionProblem, Trigger, View, key_secret};
use std::time::Duration;

charm::facts! {
    look(view: &View, known) -> Error;

    // Looks begin in this order: what takes longest comes first.
    /// slurmdbd serves, and its database too.
    answers: Answers(bool) = slurmdbd::answers(&view.host, names::CLIENT_CONF),
    /// slurmdbd, as systemd sees it.
    daemon: Daemon(Daemon) = Daemon::look(view, &names::PROFILE)?,
    /// The relation to the controllers. None: there is none, or Juju does not know yet with whom.
    controller: Controller(Option<Related<AccountingKeys>>) = controller(view)?,
    /// The relation to the database, likewise.
    database: Database(Option<Related<DatabaseAnswer>>) = database(view)?,
    /// The authentication key that the controllers share.
    key_secret: KeySecret(KeySecret) = key_secret(view)?,
    /// The key of tokens that the controllers share. None: they have none.
    jwt_secret: JwtSecret(Option<JwtSecret>) = jwt_secret(view)?,
    /// User and password of the database.
    credentials: Credentials(Credentials) = credentials(view)?,
    /// Who this unit is, and why this dispatch runs. Costs no process.
    identity: Identity(Identity) = Identity::of(view)?,
    /// The unit that runs slurmdbd: the lowest of the units that there are, those included that are being removed.
    server: Server(UnitName) = server(view)?,
    /// This unit leads, and writes for all.
    leader: Leader(bool) = view.juju.is_leader()?,
    /// Where packages come from.
    source: Source(Result<Source, OptionProblem>) = install::source(view, &names::PROFILE)?,
    /// What the operator adds to slurmdbd.conf.
    wanted: Wanted(Wanted) = Wanted::read(view.juju.config_get()?.string(names::OPTION_PARAMETERS)),
    /// This unit, or its application, is being removed.
    leaving: Leaving(bool) = charm::is_leaving(&view.ctx, &view.juju)?,
    /// Juju is about to show a relation to controllers.
    controller_expected: ControllerExpected(bool) = follower::relation_expected(view)?,
    /// Juju is about to show a relation to a database.
    database_expected: DatabaseExpected(bool) = follower::expected_at(view, names::ENDPOINT_DATABASE)?,
    /// What this application has asked the database for. None: only the leader may read it.
    requested: Requested(Option<Databag>) = own_bag(view, names::ENDPOINT_DATABASE)?,
    /// What this application has published for the controllers. None: only the leader may read it.
    published: Published(Option<Databag>) = own_bag(view, ENDPOINT)?,
    /// What the units tell each other.
    peer: Peer(Option<Peer>) = Peer::look(view)?,
    /// slurmdbd's port is open in Juju's eyes.
    port_open: PortOpen(bool) = view.has_open_port(names::PORT)?,
    /// What of Slurm is installed.
    installation: Installation(Installation) = Installation::look(view, &names::PROFILE)?,
    /// Slurm can check tokens of users.
    takes_tokens: TakesTokens(bool) = packages::has_plugin(&view.host, names::JWT_PLUGIN),
    /// Our files that systemd reads.
    service_files: ServiceFiles(ServiceFiles) = ServiceFiles::look(view, &names::PROFILE)?,
    /// The authentication key on the disk.
    key_file: KeyFile(KeyFile) = KeyFile::look(view, names::SLURM_USER)?,
    /// The key of tokens on the disk.
    jwt_file: JwtFile(Option<JwtKey>) = jwt_file(view)?,
    /// slurmdbd.conf.
    conf: Conf(ConfFile) = ConfFile::look(view)?,
    /// The socket at which slurmdbd looks for the database.
    socket: Socket(Option<String>) = slurmdbd::read_socket(&view.host)?,
    /// The slurm.conf with which this charm asks slurmdbd.
    client_conf: ClientConf(Option<String>) = files::read_text(&view.host, names::CLIENT_CONF)?,
    /// When the newest of the files was written that slurmdbd reads, since 1970.
    newest: Newest(Option<Duration>) = newest(view)?,
    /// What became of the operator's parameters.
    tried: Tried(Tried) = tried(view)?,
    /// What this unit has said to the controllers.
    own_bag: OwnBag(Databag) = acknowledgement::own_bag(view)?,
    /// What slurmdbd was made to load since the last boot.
    loaded: Loaded(Loaded) = Loaded::look(view)?,
    /// Why slurmdbd does not serve, from its journal.
    said: Said(Said) = slurmdbd::said(&view.host, names::SERVICE),
    /// The clusters that slurmdbd knows, each with the host of its controller. None: it did not say.
    clusters: Clusters(Option<Vec<(String, String)>>) = slurmdbd::clusters(&view.host, names::CLIENT_CONF),
}

fn controller(view: &View) -> Result<Option<Related<AccountingKeys>>, Error> {
    follower::related(view, ENDPOINT, AccountingKeys::decode)
}

fn database(view: &View) -> Result<Option<Related<DatabaseAnswer>>, Error> {
    follower::related(view, names::ENDPOINT_DATABASE, DatabaseAnswer::decode)
}

fn key_secret(view: &View) -> Result<KeySecret, Error> {
    match controller(view)? {
        Some(Related { data: RemoteData::Data(data), .. }) => follower::read_key_secret(view, &data.auth_secret),
        _ => Ok(KeySecret::Malformed),
    }
}

/// The secret with the key of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwtSecret {
    Unreadable,
    Malformed,
    Offered(JwtKey),
}

fn jwt_secret(view: &View) -> Result<Option<JwtSecret>, Error> {
    let Some(Related { data: RemoteData::Data(data), .. }) = controller(view)? else { return Ok(None) };
    let Some(uri) = data.jwt_secret else { return Ok(None) };
    let content = match view.juju.secret_get(uri.as_str(), key_secret::JWT_LABEL)? {
        SecretAnswer::Content(content) => content,
        SecretAnswer::Unreadable(_) => return Ok(Some(JwtSecret::Unreadable)),
    };
    Ok(Some(key_secret::token_key(&content).map_or(JwtSecret::Malformed, JwtSecret::Offered)))
}

/// User and password of the database, as far as they are to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Not granted yet, or no longer. What is on the disk goes on serving.
    Unreadable(Unreadable),
    /// There are none, or such that no file can hold.
    Malformed,
    Known(Login),
}

fn credentials(view: &View) -> Result<Credentials, Error> {
    let Some(Related { relation, app, stale, data: RemoteData::Data(data) }) = database(view)? else {
        return Ok(Credentials::Malformed);
    };
    let login = match data.credentials {
        CredentialSource::Bag => {
            let bag = view.juju.relation_get_remote(&relation, &Remote { app, stale })?;
            bag.get("username").zip(bag.get("password")).and_then(|(user, password)| Login::new(user, password))
        }
        CredentialSource::Secret(uri) => {
            // A label stands for one secret: another relation has another one.
            let label = format!("{}.{}.user.secret", names::ENDPOINT_DATABASE, relation.number());
            match view.juju.secret_get(uri.as_str(), &label)? {
                SecretAnswer::Unreadable(why) => return Ok(Credentials::Unreadable(why)),
                SecretAnswer::Content(content) => {
                    let both = content.get("username").zip(content.get("password"));
                    both.and_then(|(user, password)| Login::new(user, password))
                }
            }
        }
    };
    Ok(login.map_or(Credentials::Malformed, Credentials::Known))
}

fn server(view: &View) -> Result<UnitName, Error> {
    let units = view.juju.goal_state()?.own_units();
    Ok(units.into_iter().min_by_key(UnitName::number).unwrap_or_else(|| view.ctx.unit.clone()))
}

fn own_bag(view: &View, endpoint: &str) -> Result<Option<Databag>, Error> {
    match view.juju.relations(&view.ctx, endpoint)?.pop() {
        Some(relation) => Ok(view.juju.relation_get_own_app(&relation)?),
        None => Ok(None),
    }
}

fn jwt_file(view: &View) -> Result<Option<JwtKey>, Error> {
    match keys::read_jwt_key(&view.host) {
        Err(FileError::Content { .. }) => Ok(None),
        other => Ok(other?),
    }
}

fn newest(view: &View) -> Result<Option<Duration>, Error> {
    let mut newest = None;
    for path in [keys::AUTH_KEY_FILE, JWT_KEY_FILE, slurmdbd::CONF_FILE, slurmdbd::DEFAULTS_FILE] {
        newest = newest.max(files::modified(&view.host, path)?);
    }
    Ok(newest)
}

/// A note that cannot be read is as good as none: it has nothing but what to fall back to.
fn tried(view: &View) -> Result<Tried, Error> {
    Ok(note::read(&view.host)?.known().cloned().unwrap_or_default())
}

/// Who this unit is.
#[derive(Debug, Clone)]
pub struct Identity {
    pub unit: UnitName,
    pub host: HostName,
    pub trigger: Trigger,
    /// The event alone says that this unit leaves.
    pub departs: bool,
    /// The hook may be one of those that take a unit down.
    pub teardown: bool,
    /// slurmd is on this machine, and has the key for itself.
    pub beside_slurmd: bool,
    /// Another daemon of Slurm needs the keys on this machine.
    pub keys_are_shared: bool,
}

impl Identity {
    fn of(view: &View) -> Result<Self, Error> {
        let (ctx, host) = (&view.ctx, &view.host);
        let beside_slurmd = slurmd::read_options(host)?.is_some();
        let controller = files::exists(host, "/etc/slurm/slurm.conf");
        Ok(Self {
            unit: ctx.unit.clone(),
            host: hostname::short(host)?,
            trigger: view.trigger(),
            departs: view.departs(),
            teardown: view.departs() || ctx.event.broken_relation().is_some(),
            beside_slurmd,
            keys_are_shared: beside_slurmd || controller || sackd::read_controllers(host)?.is_some(),
        })
    }
}

/// What the units tell each other.
#[derive(Debug, Clone)]
pub struct Peer {
    pub relation: RelationId,
    /// What this unit says.
    pub own: Databag,
    /// Where slurmdbd serves, as the unit says that runs it.
    pub server: Option<AccountingHost>,
}

impl Peer {
    fn look(view: &View) -> Result<Option<Self>, Error> {
        let Some(relation) = view.juju.relations(&view.ctx, names::ENDPOINT_PEER)?.pop() else { return Ok(None) };
        let own = view.juju.relation_get_unit(&relation, &view.ctx.unit)?;
        let theirs = view.juju.relation_get_remote_unit(&relation, &server(view)?)?.unwrap_or_default();
        Ok(Some(Self { relation, own, server: AccountingHost::decode(&theirs).ok().flatten() }))
    }
}

/// slurmdbd.conf on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfFile {
    pub text: Option<ConfText>,
    /// Only its owner can read it.
    pub private: bool,
}

impl ConfFile {
    fn look(view: &View) -> Result<Self, Error> {
        let text = slurmdbd::read_conf(&view.host)?;
        // Before the package there is no user who could own it.
        let private = text.is_none() || slurmdbd::conf_is_private(&view.host)?;
        Ok(Self { text, private })
    }
}

/// What slurmdbd was made to load, so that each change is loaded once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Loaded {
    /// When the newest of its files was written.
    pub newest: Option<Duration>,
    /// The keys that the controllers know this unit to have.
    pub acknowledged: Option<Acknowledged>,
}

impl Note for Loaded {
    const PATH: &'static str = names::LOADED_NOTE;
    const VERSION: u64 = 1;
}

impl Loaded {
    /// A note that cannot be read is as good as none: all that it spares is a repetition.
    fn look(view: &View) -> Result<Self, Error> {
        Ok(note::read(&view.host)?.known().cloned().unwrap_or_default())
    }
}
