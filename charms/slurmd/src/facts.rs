//! What a compute unit can ask, and what the answers look like. Facts only: no wishes, no steps.
//!
//! How Juju is asked is in `juju`; how the machine and Slurm are asked is in `machine`.

mod juju;
mod machine;

use crate::names;
use crate::node::lifecycle::{BootNote, NodeNote};
use crate::options::Options;
use charm::{Databag, UnitName};
use slurm_conf::{Node, NodeName};
use slurm_ops::files;
use slurm_ops::journal::{self, Cause};
use slurm_ops::keys::{AUTH_KEY_FILE, KeySet};
use slurm_ops::scontrol::{self, Candidate, Glance, NodeLookup};
use slurm_ops::slurmd::SlurmdOptions;
use slurm_unit::acknowledgement;
use slurm_unit::follower::{self, Controller, KeySecret};
use slurm_unit::install::Installation;
use slurm_unit::service::{Running, ServiceFiles};
use slurm_unit::{Error, Trigger, View, retry};
use std::time::Duration;

pub(crate) use machine::neighbour;

charm::facts! {
    look(view: &View, known) -> Error;

    // Looks begin in this order: what takes longest comes first.
    /// What a glance tells about a node that is well. None: it takes a look at the whole record.
    glance: Glance(Option<Glance>) = scontrol::glance(&view.host, &node_name(&view.ctx.unit)),
    /// What slurmctld knows about this node. Asked only while slurmd runs: without it no command of Slurm works here.
    node: Node(NodeLookup) = scontrol::node(&view.host, &node_name(&view.ctx.unit)),
    /// slurmd, as systemd sees it.
    daemon: Daemon(Daemon) = machine::daemon(view)?,
    /// The state of this application's partition. None: nobody could be asked, or there is no such partition.
    partition_state: PartitionState(Option<String>) = machine::partition_state(view),
    /// The relation to the controllers. None: there is none, or Juju does not know yet with whom.
    controller: Controller(Option<Controller>) = follower::controller(view)?,
    /// Who this unit is, and why this dispatch runs. Costs no process.
    identity: Identity(Identity) = Identity::of(view),
    /// The operator's options.
    options: Options(Options) =
        Options::read(view.ctx.unit.app().as_str(), &view.juju.config_get()?),
    /// This unit, or its application, is being removed.
    leaving: Leaving(bool) = charm::is_leaving(&view.ctx, &view.juju)?,
    /// Juju is about to show a relation to controllers.
    relation_expected: RelationExpected(bool) = follower::relation_expected(view)?,
    /// What this application has published for the controllers. None: only the leader may read it.
    published: Published(Option<Databag>) = juju::published(view)?,
    /// This unit leads its application.
    leader: Leader(bool) = view.juju.is_leader()?,
    /// The authentication key that the controllers share.
    key_secret: KeySecret(KeySecret) = follower::key_secret(view)?,
    /// What this unit has said to the controllers.
    own_bag: OwnBag(Databag) = acknowledgement::own_bag(view)?,
    /// slurmd's port is open in Juju's eyes.
    port_open: PortOpen(bool) = view.has_open_port(names::PORT)?,
    /// The retry timer is set.
    retry_timer: RetryTimer(bool) = retry::is_set(view),
    /// What of Slurm is installed.
    installation: Installation(Installation) = Installation::look(view, &names::PROFILE)?,
    /// Our files that systemd reads.
    service_files: ServiceFiles(ServiceFiles) = ServiceFiles::look(view, &names::PROFILE)?,
    /// What the next start of slurmd will use.
    start_file: StartFile(StartFile) = machine::start_file(view)?,
    /// The authentication key on the disk.
    key_file: KeyFile(KeyFile) = machine::key_file(view)?,
    /// When that key was written, since 1970.
    key_written: KeyWritten(Option<Duration>) = files::modified(&view.host, AUTH_KEY_FILE)?,
    /// What this charm has noted about its node.
    note: Note(Notes) = Notes::look(view)?,
    /// What this charm has noted since the last boot.
    boot: Boot(Boot) = Boot::look(view)?,
    /// What slurmd finds in this machine now. None: it does not say.
    detected: Detected(Option<Node>) = machine::detected(view)?,
    /// The address at which slurmctld looks for this node, if it is none of this machine's.
    moved_from: MovedFrom(Option<String>) = machine::moved_from(known),
    /// A slurmd of ours is stuck beside its successor, or in the middle of making one.
    stale_processes: StaleProcesses(bool) = machine::stale_processes(view, known),
    /// Who would be hurt if the record of this node were deleted.
    occupancy: Occupancy(Occupancy) = machine::occupancy(view),
    /// What the Slurm on this machine thinks of the partition.
    verdict: Verdict(Candidate) = machine::verdict(view, known),
    /// Why slurmd cannot talk to the controllers, from its journal.
    cause: Cause(Option<Cause>) = journal::cause(&view.host, names::SERVICE),
    /// What slurmd complained about when it failed, from its journal.
    complaint: Complaint(Option<String>) = journal::last_complaint(&view.host, names::SERVICE),
    /// The time, in seconds since 1970.
    now: Now(u64) = view.host.now(),
    /// A controller is to stay. None: nobody could be asked.
    controllers_stay: ControllersStay(Option<bool>) = juju::controllers_stay(view),
    /// The charm of the controllers deletes records of nodes by itself.
    controller_deletes: ControllerDeletes(bool) = juju::controller_deletes(view),
    /// Jobs that run something on this machine. None: it cannot be told.
    local_jobs: LocalJobs(Option<usize>) = scontrol::jobs_at_work(&view.host).map(|jobs| jobs.len()),
    /// By how many seconds this machine's clock is ahead of slurmctld's, if by too many.
    skew: Skew(Option<i64>) = machine::skew(view),
}

impl Facts {
    /// The node, as far as a glance shows it, or else its whole record.
    pub fn seen(&self) -> Result<&NodeLookup, charm::runtime::Ask<Question>> {
        match self.glance()? {
            Some(glance) => Ok(&glance.lookup),
            None => self.node(),
        }
    }
}

/// Who this unit is.
#[derive(Debug, Clone)]
pub struct Identity {
    pub unit: UnitName,
    pub node: NodeName,
    pub trigger: Trigger,
    /// The event alone says that this unit leaves.
    pub departs: bool,
    /// A unit that leaves may wait in this hook.
    pub teardown: bool,
    /// slurmd has fetched its configuration. systemd takes it away when slurmd stops, so that slurmd runs and clients
    /// of Slurm work: they may be asked at once.
    pub configured: bool,
}

impl Identity {
    fn of(view: &View) -> Self {
        let ctx = &view.ctx;
        Self {
            unit: ctx.unit.clone(),
            node: node_name(&ctx.unit),
            trigger: view.trigger(),
            departs: view.departs(),
            teardown: view.departs() || ctx.event.broken_relation().is_some(),
            configured: files::exists(&view.host, names::FETCHED_CONF),
        }
    }
}

/// Returns the name of a unit's node.
pub fn node_name(unit: &UnitName) -> NodeName {
    NodeName::from_unit(unit.as_str()).expect("invariant: a unit's name makes a node's name")
}

/// The authentication key on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyFile {
    /// None: no file, or one without keys, which is as good as none.
    pub keys: Option<KeySet>,
    /// Only its owner can read it.
    pub private: bool,
    /// A controller runs on this machine, too, so that the key has to be readable for Slurm's user.
    pub shared: bool,
}

/// slurmd, as systemd sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemon {
    pub running: Running,
    /// What it runs with. None: it does not run, or not as a dynamic node.
    pub with: Option<SlurmdOptions>,
    /// How its last run ended.
    pub result: String,
    /// Who dies with slurmd when it is stopped. Empty if it is not known.
    pub kill_mode: String,
    /// Another start of the daemon has another one.
    pub invocation: String,
    /// When it was started, in seconds since 1970. A reload does not count.
    pub started: Option<u64>,
    pub main_pid: Option<u32>,
    /// systemd has not read its files since they changed.
    pub needs_reload_of_units: bool,
}

impl Daemon {
    /// Says whether jobs survive a restart. If it is not known they do, as the packaged unit has it.
    pub fn spares_jobs(&self) -> bool {
        matches!(self.kill_mode.as_str(), "process" | "")
    }
}

/// What the next start of slurmd will use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartFile {
    pub options: Option<SlurmdOptions>,
    /// The node of another unit on this machine, whose slurmd it is.
    pub neighbour: Option<NodeName>,
}

/// What this charm has noted about its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notes {
    /// Err: there is a note, and it cannot be read. Nothing may be taken for granted then.
    pub node: Result<NodeNote, String>,
    /// Notes in the form of earlier versions of this charm are still there.
    pub old: bool,
}

/// What this charm has noted since the last boot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Boot {
    pub note: BootNote,
    /// slurmctld was asked to save this node so short a time ago that it may not have done so yet.
    pub marked_recently: bool,
}

/// A job on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobHere {
    pub id: u64,
    /// What stands for it in `scancel`. None: only this machine knows the job.
    pub handle: Option<String>,
    /// When it ends at the latest, in seconds since 1970. None: it has no time limit, or none that is known.
    pub ends: Option<u64>,
    /// It has ended or was cancelled, and its processes are going.
    pub ending: bool,
}

/// What is in the way of deleting this node's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Occupancy {
    Empty,
    /// Jobs are on it, by the controllers' count or the machine's own.
    Jobs(Vec<JobHere>),
    /// Jobs wait for this very node: without its record they would fail. As `squeue` names them.
    Awaited(Vec<String>),
    /// Reservations name it, and would go with it.
    Reserved(Vec<String>),
    /// It could not be found out.
    Unknown,
}
