//! What a login unit can ask, and what the answers look like. Facts only: no wishes, no steps.

use crate::names;
use charm::{Databag, UnitName};
use serde::{Deserialize, Serialize};
use slurm_conf::ControllerAddress;
use slurm_interface::digest;
use slurm_ops::files;
use slurm_ops::journal::{self, Cause};
use slurm_ops::scontrol::{self, ControllerPing};
use slurm_ops::source::Source;
use slurm_ops::{sackd, slurmd};
use slurm_unit::acknowledgement::{self, Acknowledged};
use slurm_unit::follower::{self, Controller, KeyFile, KeySecret};
use slurm_unit::install::{self, Installation};
use slurm_unit::note::{self, Note, Noted};
use slurm_unit::service::{Daemon, ServiceFiles};
use slurm_unit::{Error, OptionProblem, Trigger, View};
use std::time::Duration;

charm::facts! {
    look(view: &View, known) -> Error;

    // Looks begin in this order: what takes longest comes first.
    /// The controllers of the fetched configuration, and which of them answer. Err: nobody could be asked.
    answers: Answers(Result<Vec<ControllerPing>, String>) =
        scontrol::ping(&view.host).map_err(|error| error.to_string()),
    /// sackd, as systemd sees it.
    daemon: Daemon(Daemon) = Daemon::look(view, &names::PROFILE)?,
    /// The relation to the controllers. None: there is none, or Juju does not know yet with whom.
    controller: Controller(Option<Controller>) = follower::controller(view)?,
    /// The authentication key that the controllers share.
    key_secret: KeySecret(KeySecret) = follower::key_secret(view)?,
    /// Who this unit is, and why this dispatch runs. Costs no process.
    identity: Identity(Identity) = Identity::of(view)?,
    /// Where packages come from.
    source: Source(Result<Source, OptionProblem>) = install::source(view, &names::PROFILE)?,
    /// This unit, or its application, is being removed.
    leaving: Leaving(bool) = charm::is_leaving(&view.ctx, &view.juju)?,
    /// Juju is about to show a relation to controllers.
    relation_expected: RelationExpected(bool) = follower::relation_expected(view)?,
    /// sackd's port is open in Juju's eyes.
    port_open: PortOpen(bool) = view.has_open_port(names::PORT)?,
    /// What of Slurm is installed.
    installation: Installation(Installation) = Installation::look(view, &names::PROFILE)?,
    /// Our files that systemd reads.
    service_files: ServiceFiles(ServiceFiles) = ServiceFiles::look(view, &names::PROFILE)?,
    /// The controllers that the next start of sackd will ask.
    start_file: StartFile(Option<Vec<ControllerAddress>>) = sackd::read_controllers(&view.host)?,
    /// When they were written, since 1970.
    start_file_written: StartFileWritten(Option<Duration>) = files::modified(&view.host, names::OPTIONS_FILE)?,
    /// The authentication key on the disk.
    key_file: KeyFile(KeyFile) = KeyFile::look(view, names::SLURM_USER)?,
    /// The digest of the configuration that sackd has fetched. None: it has fetched none.
    fetched: Fetched(Option<String>) =
        files::read_text(&view.host, names::FETCHED_CONF)?.as_deref().map(digest),
    /// What this unit has said to the controllers.
    own_bag: OwnBag(Databag) = acknowledgement::own_bag(view)?,
    /// What sackd was made to load since the last boot.
    loaded: Loaded(Loaded) = Loaded::look(view)?,
    /// Why sackd cannot talk to the controllers, from its journal.
    cause: Cause(Option<Cause>) = journal::cause(&view.host, names::SERVICE),
    /// What sackd complained about when it failed, from its journal.
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
    /// sackd has fetched its configuration, so that clients of Slurm work: they may be asked at once.
    pub configured: bool,
    /// Another daemon of Slurm has this machine. Its clients work beside that one already.
    pub neighbour: Option<&'static str>,
}

impl Identity {
    fn of(view: &View) -> Result<Self, Error> {
        let (ctx, host) = (&view.ctx, &view.host);
        let neighbour = if files::exists(host, names::SLURM_CONF) {
            Some("slurmctld")
        } else {
            slurmd::read_options(host)?.map(|_| "slurmd")
        };
        Ok(Self {
            unit: ctx.unit.clone(),
            trigger: view.trigger(),
            departs: view.departs(),
            teardown: view.departs() || ctx.event.broken_relation().is_some(),
            configured: files::exists(host, names::FETCHED_CONF),
            neighbour,
        })
    }
}

/// What sackd was made to load by a reload or a restart, so that each thing is loaded once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Loaded {
    /// When the key was written that is loaded.
    pub key: Option<Duration>,
    /// A key was about to be written that sackd has not loaded.
    pub key_is_due: bool,
    /// The digest of the configuration that was fetched, or should have been.
    pub conf: Option<String>,
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
        Ok(match note::read(&view.host)? {
            Noted::Known(loaded) => loaded,
            Noted::Absent | Noted::Unreadable { .. } => Self::default(),
        })
    }
}
