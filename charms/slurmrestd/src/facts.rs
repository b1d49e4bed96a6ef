//! What a unit of slurmrestd can ask, and what the answers look like. Facts only: no wishes, no steps.

use crate::names;
use charm::{Databag, UnitName};
use serde::{Deserialize, Serialize};
use slurm_interface::{RestData, is_conf_name};
use slurm_ops::files::{self, Access};
use slurm_ops::keys::AUTH_KEY_FILE;
use slurm_ops::packages;
use slurm_ops::source::Source;
use slurm_ops::{journal, sackd, slurmd, slurmrestd};
use slurm_unit::acknowledgement::{self, Acknowledged};
use slurm_unit::follower::{self, Related};
use slurm_unit::install::{self, Installation};
use slurm_unit::note::{self, Note, Noted};
use slurm_unit::service::{Daemon, ServiceFiles};
use slurm_unit::{Error, OptionProblem, Profile, Trigger, View};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

charm::facts! {
    look(view: &View, known) -> Error;

    // Looks begin in this order: what takes longest comes first.
    /// slurmrestd, as systemd sees it.
    daemon: Daemon(Daemon) = Daemon::look(view, &names::PROFILE)?,
    /// The relation to the controllers. None: there is none, or Juju does not know yet with whom.
    controller: Controller(Option<Related<RestData>>) =
        follower::related(view, follower::ENDPOINT, RestData::decode)?,
    /// Who this unit is, and why this dispatch runs. Costs no process.
    identity: Identity(Identity) = Identity::of(view)?,
    /// Where packages come from.
    source: Source(Result<Source, OptionProblem>) = install::source(view, &names::PROFILE)?,
    /// This unit, or its application, is being removed.
    leaving: Leaving(bool) = charm::is_leaving(&view.ctx, &view.juju)?,
    /// Juju is about to show a relation to controllers.
    relation_expected: RelationExpected(bool) = follower::relation_expected(view)?,
    /// The port is open in Juju's eyes.
    port_open: PortOpen(bool) = view.has_open_port(names::PORT)?,
    /// What of Slurm is installed.
    installation: Installation(Installation) = Installation::look(view, &names::PROFILE)?,
    /// The plugins of that Slurm.
    plugins: Plugins(BTreeSet<String>) = packages::plugins(&view.host),
    /// The user of slurmrestd is there.
    user: User(bool) = slurmrestd::has_user(&view.host, names::USER)?,
    /// Our files that systemd reads.
    service_files: ServiceFiles(ServiceFiles) = ServiceFiles::look(view, &names::PROFILE)?,
    /// The options with which slurmrestd will start.
    options: Options(Option<String>) = slurmrestd::read_options(&view.host)?,
    /// The configuration on the disk.
    files: Files(Files) = Files::look(view)?,
    /// When the newest of what slurmrestd reads at its start was written, since 1970.
    written: Written(Option<Duration>) = written(view)?,
    /// What this unit has said to the controllers.
    own_bag: OwnBag(Databag) = acknowledgement::own_bag(view)?,
    /// What slurmrestd was started with, since the last boot.
    loaded: Loaded(Loaded) = Loaded::look(view)?,
    /// Somebody listens on the port.
    listening: Listening(bool) = slurmrestd::is_listening(&view.host)?,
    /// What slurmrestd complained about when it failed, from its journal.
    complaint: Complaint(Option<String>) = journal::last_complaint(&view.host, names::SERVICE),
}

/// Who this unit is.
#[derive(Debug, Clone)]
pub struct Identity {
    pub unit: UnitName,
    pub trigger: Trigger,
    /// The event alone says that this unit leaves.
    pub departs: bool,
    /// The hook may be one of those that take a unit down.
    pub teardown: bool,
    /// Another daemon of Slurm has this machine, and with it `/etc/slurm`.
    pub neighbour: Option<&'static str>,
}

impl Identity {
    fn of(view: &View) -> Result<Self, Error> {
        let (ctx, host) = (&view.ctx, &view.host);
        let neighbour = if slurmd::read_options(host)?.is_some() {
            Some("slurmd")
        } else if sackd::read_controllers(host)?.is_some() {
            Some("sackd")
        } else if packages::installed(host, &["slurmctld"])?.contains_key("slurmctld") || has_foreign_conf(view)? {
            Some("slurmctld")
        } else {
            None
        };
        Ok(Self {
            unit: ctx.unit.clone(),
            trigger: view.trigger(),
            departs: view.departs(),
            teardown: view.departs() || ctx.event.broken_relation().is_some(),
            neighbour,
        })
    }
}

/// Says whether somebody else wrote a slurm.conf before this unit had begun.
fn has_foreign_conf(view: &View) -> Result<bool, Error> {
    let (host, conf) = (&view.host, conf_path("slurm.conf"));
    if slurmrestd::read_options(host)?.is_some() || !files::exists(host, &conf) {
        return Ok(false);
    }
    Ok(!slurmrestd::has_user(host, names::USER)? || !files::has_access(host, conf, &open())?)
}

/// Who may do what with the files of the configuration.
pub fn open() -> Access {
    Access { mode: 0o644, owner: Some(names::USER.to_owned()) }
}

/// Returns where a file of the configuration is.
pub fn conf_path(name: &str) -> String {
    format!("{}/{name}", names::CONF_DIRECTORY)
}

/// The configuration on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Files {
    /// By name: `slurm.conf`, and those beside it whose names begin so.
    pub texts: BTreeMap<String, String>,
    /// Each belongs to the user of slurmrestd, and everybody can read it.
    pub open: bool,
    /// A key that an earlier charm has left to that user, and that nobody needs.
    pub key: bool,
}

impl Files {
    fn look(view: &View) -> Result<Self, Error> {
        let host = &view.host;
        let names = files::list(host, names::CONF_DIRECTORY)?.unwrap_or_default();
        let user = slurmrestd::has_user(host, names::USER)?;
        let (mut texts, mut all_open) = (BTreeMap::new(), true);
        for name in names.into_iter().filter(|name| is_conf_name(name)) {
            let path = conf_path(&name);
            all_open &= user && files::has_access(host, &path, &open())?;
            if let Some(text) = files::read_text(host, &path)? {
                texts.insert(name, text);
            }
        }
        let private = Access { mode: 0o600, owner: Some(names::USER.to_owned()) };
        let key = user && files::exists(host, AUTH_KEY_FILE) && files::has_access(host, AUTH_KEY_FILE, &private)?;
        Ok(Self { texts, open: all_open, key })
    }
}

fn written(view: &View) -> Result<Option<Duration>, Error> {
    let entries = files::entries(&view.host, names::CONF_DIRECTORY)?.unwrap_or_default();
    let conf = entries.into_iter().filter(|entry| is_conf_name(&entry.name)).map(|entry| entry.modified);
    let drop_in = format!("/etc/systemd/system/{}.d/{}.conf", names::SERVICE, Profile::DROP_IN);
    let others = [files::modified(&view.host, names::OPTIONS_FILE)?, files::modified(&view.host, drop_in)?];
    Ok(conf.chain(others.into_iter().flatten()).max())
}

/// What slurmrestd was started with. Files are dated in seconds, and two changes may come within one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Loaded {
    /// The digest of configuration, options and drop-in.
    pub digest: Option<String>,
    /// What the controllers know about the keys of this unit, which keeps none.
    pub acknowledged: Option<Acknowledged>,
}

impl Note for Loaded {
    const PATH: &'static str = names::LOADED_NOTE;
    const VERSION: u64 = 1;
}

impl Loaded {
    /// A note that cannot be read is as good as none: all that it spares is a restart.
    fn look(view: &View) -> Result<Self, Error> {
        Ok(match note::read(&view.host)? {
            Noted::Known(loaded) => loaded,
            Noted::Absent | Noted::Unreadable { .. } => Self::default(),
        })
    }
}
