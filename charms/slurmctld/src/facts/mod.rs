//! Everything a controller unit can find out before it decides anything: the questions of its plan, and the answers.
//!
//! A fact is what is, never a wish. How it is found out is in the files below.

mod juju;
pub mod machine;

/// Looks that actions take as well.
pub mod look {
    pub use super::juju::members;
    pub use super::machine::heartbeat;
}

use crate::Slurmctld;
use crate::applications::Applications;
use crate::config::files::Configuration;
use crate::config::rejections::Rejections;
use crate::config::rollout::Overrides;
use crate::controllers::{Beat, Member, Started};
use crate::extras::{Extras, Said};
use crate::fence::Fence;
use crate::keys::{Key, Keys};
use crate::names;
use crate::neighbours::Neighbours;
use crate::options::Options;
use crate::reboots::Reboots;
use crate::rotation::{Acknowledgements, Rotation};
use charm::tools::{GoalState, SecretAnswer, SecretInfo};
use charm::{AppName, Databag, RelationId, UnitName};
use slurm_conf::overrides::{NodeSettings, PartitionSettings};
use slurm_conf::{ClusterName, HostName, NodeSet, Partition};
use slurm_interface::PeerUnit;
pub use slurm_ops::journal::Stranger as RejectedHost;
use slurm_ops::scontrol::{ControllerPing, JobRecord, NodeRecord, ReservationRecord};
use slurm_ops::slurmdbd::Reach;
pub use slurm_ops::systemd::{self, UnitState};
use slurm_ops::{files, journal, scontrol};
use slurm_unit::install::Installation;
use slurm_unit::note::{self, Noted};
use slurm_unit::service::ServiceFiles;
use slurm_unit::{Error, Trigger, View, key_secret, retry};
use std::collections::BTreeSet;
use std::time::Duration;

/// A slurmd that is refused tries again every ten seconds.
const LATELY: Duration = Duration::from_secs(60);

charm::facts! {
    look(view: &View, known) -> Error;

    // Looks begin in this order: what takes longest comes first.
    /// What systemd says about slurmctld.
    unit: Unit(UnitState) = systemd::state(&view.host, names::SERVICE)?,
    /// The settings of partitions in slurmctld's memory. Whoever gets an answer knows that slurmctld serves.
    partition_settings: PartitionSettings(Asked<PartitionSettings>) = machine::partition_settings(view),
    /// A machine whose messages slurmctld refuses.
    rejected_host: RejectedHost(Option<RejectedHost>) = journal::refused_lately(&view.host, LATELY),
    /// The relation between the units. None in the `install` hook, where Juju does not show it yet.
    peer: Peer(Option<Peer>) = juju::peer(view)?,
    /// The compute applications, the one related first comes first.
    computes: Computes(Vec<Compute>) = juju::computes(view)?,
    /// The applications that follow the controllers and are no compute nodes.
    followers: Followers(Vec<Follower>) = juju::followers(view)?,
    /// Who this unit is, and why it was called.
    call: Call(Call) = juju::call(view),
    /// This unit leads its application.
    leader: Leader(bool) = view.juju.is_leader()?,
    options: Options(Options) = Options::read(&view.juju.config_get()?),
    /// This unit, or its application, is being removed.
    leaving: Leaving(bool) = charm::is_leaving(&view.ctx, &view.juju)?,
    /// Other units of this application that are to stay.
    siblings: Siblings(Vec<UnitName>) = juju::siblings(view)?,
    /// The units of this application, with what each has published. None: Juju could not be asked.
    members: Members(Option<Vec<Member>>) = juju::members(view)?,
    /// The relation to a file system client.
    mount: Mount(Option<MountEndpoint>) = juju::mount(view)?,
    /// What Juju says about the secret that compute units read. None: there is none.
    auth_info: AuthInfo(Option<SecretInfo>) = view.juju.secret_info_get(key_secret::AUTH_LABEL)?,
    auth_content: AuthContent(SecretAnswer) = view.juju.secret_get_label(key_secret::AUTH_LABEL)?,
    jwt_info: JwtInfo(Option<SecretInfo>) = view.juju.secret_info_get(key_secret::JWT_LABEL)?,
    jwt_content: JwtContent(SecretAnswer) = view.juju.secret_get_label(key_secret::JWT_LABEL)?,
    port_open: PortOpen(bool) = view.has_open_port(names::PORT)?,
    /// The retry timer is set.
    retry_timer: RetryTimer(bool) = retry::is_set(view),
    /// The time, in seconds since 1970.
    now: Now(u64) = view.host.now(),
    /// Four random characters for the name of a new cluster.
    fresh_suffix: FreshSuffix(String) = machine::fresh_suffix()?,
    host: Host(Host) = machine::host(view)?,
    installation: Installation(Installation) = Installation::look(view, &names::PROFILE)?,
    service_files: ServiceFiles(ServiceFiles) = ServiceFiles::look(view, &names::PROFILE)?,
    keys: Keys(Keys) = Keys::look(&view.host)?,
    store: Store(Store) = machine::store(view)?,
    /// What is on the local disk of a cluster that has made way for a mount.
    aside: Aside(Aside) = machine::aside(view)?,
    /// What `/etc/slurm` is a link to. None: it is a directory, or not there.
    configuration_link: ConfigurationLink(Option<String>) =
        files::link_target(&view.host, names::CONFIGURATION_DIRECTORY),
    /// The fence of this machine.
    fence: Fence(Fence) = Fence::look(&view.host)?,
    /// The last sign of life of the controller that serves.
    heartbeat: Heartbeat(Option<Beat>) = machine::heartbeat(view)?,
    /// The list of controllers that slurmctld of this machine was started with.
    started: Started(Noted<Started>) = note::read(&view.host)?,
    /// Who answers, of the controllers in slurm.conf.
    answers: Answers(Asked<Vec<ControllerPing>>) = machine::asked(scontrol::ping(&view.host)),
    /// Why slurmctld cannot save its state now, if so.
    state_problem: StateProblem(Option<String>) =
        scontrol::can_reconfigure(&view.host, machine::state_directory(known)).err(),
    /// The saved partitions are at least as new as the accepted configuration: a takeover restores what was saved.
    partitions_saved: PartitionsSaved(bool) = machine::partitions_saved(view, known)?,
    configuration: Configuration(Configuration) = Configuration::look(&view.host)?,
    rejections: Rejections(Noted<Rejections>) = note::read(&view.host)?,
    /// What was set at runtime before a reconfigure whose end nobody has seen.
    overrides: Overrides(Noted<Overrides>) = note::read(&view.host)?,
    /// The applications that this cluster has served.
    applications: Applications(Noted<Applications>) = note::read(&view.host)?,
    /// The endpoints with applications that hear of every change of the configuration.
    neighbours: Neighbours(Noted<Neighbours>) = note::read(&view.host)?,
    /// Who sees to something beside the cluster: metrics, containers, mail.
    extras: Extras(Extras) = Extras::look(view)?,
    /// How slurmdbd and the records for it are.
    recording: Recording(Recording) = machine::recording(view),
    /// The nodes that are to be rebooted.
    reboots: Reboots(Noted<Reboots>) = note::read(&view.host)?,
    /// How far a key that is being replaced has come. Absent: none is.
    rotation: Rotation(Noted<Rotation>) = note::read(&view.host)?,
    /// The units of other applications that have not acknowledged the keys, as far as the note knows, and what they
    /// say.
    acknowledgements: Acknowledgements(Acknowledgements) = juju::acknowledgements(view, known)?,
    /// Who exists, as Juju's controller has it. None: it could not be asked.
    goal_state: GoalState(Option<GoalState>) = juju::goal_state(view),
    /// What slurmctld complained about last.
    complaint: Complaint(Option<String>) = journal::last_complaint(&view.host, names::SERVICE),
    /// slurmctld serves no client on this machine although it runs.
    shut_out: ShutOut(bool) = scontrol::is_shut_out(&view.host),
    node_settings: NodeSettings(Asked<NodeSettings>) = machine::asked(scontrol::node_settings(&view.host)),
    /// How many nodes and jobs slurmctld has.
    load: Load(Asked<Load>) = machine::load(view),
    /// Every job that slurmctld has a record of, those that have ended included.
    job_records: JobRecords(Asked<Vec<JobRecord>>) = machine::asked(scontrol::job_records(&view.host)),
    nodes: Nodes(Asked<Vec<NodeRecord>>) = machine::asked(scontrol::nodes(&view.host)),
    reservations: Reservations(Asked<Vec<ReservationRecord>>) = machine::asked(scontrol::reservations(&view.host)),
}

/// What is read below the configuration directory.
pub const CONFIGURED: [Question; 7] = [
    Question::Configuration,
    Question::Keys,
    Question::Rejections,
    Question::Overrides,
    Question::Applications,
    Question::Reboots,
    Question::Rotation,
];

impl Facts {
    /// What is in the secret of a key.
    pub fn content(&self, key: Key) -> Result<&SecretAnswer, Ask> {
        match key {
            Key::Auth => self.auth_content(),
            Key::Jwt => self.jwt_content(),
        }
    }
}

/// Who this unit is, and why it was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub unit: UnitName,
    /// The model and the application, which no other cluster shares.
    pub home: String,
    pub model_uuid: String,
    pub trigger: Trigger,
    /// Nothing suggests that something has changed: all there is to do is to look.
    pub quiet: bool,
    /// Juju itself says that this unit goes: no question is needed.
    pub last: bool,
    /// This hook may be one of those that take a unit down.
    pub teardown: bool,
    /// The compute application whose relation this hook ends.
    pub broken: Option<AppName>,
    /// The secret, by its label, of which nobody tracks this revision any more.
    pub obsolete: Option<(String, u64)>,
    /// A secret that this unit has read has another revision.
    pub secrets_changed: bool,
}

/// The relation between the units of this application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub relation: RelationId,
    pub cluster_name: Option<ClusterName>,
    pub restart_signal: String,
    /// What this unit's own bag says.
    pub own: Option<PeerUnit>,
}

/// The relation to a file system client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEndpoint {
    pub relation: RelationId,
    /// What this application has asked for there; empty on a unit that does not lead.
    pub published: Databag,
}

/// A related compute application.
#[derive(Debug, Clone, PartialEq)]
pub struct Compute {
    pub relation: RelationId,
    pub app: AppName,
    pub data: RemoteData,
    /// No hook may come when something changes at the other end.
    pub stale: bool,
    /// What this application has published there; empty on a unit that does not lead.
    pub published: Databag,
}

/// A related application that follows the controllers: login nodes, slurmdbd, slurmrestd.
#[derive(Debug, Clone, PartialEq)]
pub struct Follower {
    pub endpoint: &'static str,
    pub relation: RelationId,
    pub app: AppName,
    /// No hook may come when something changes at the other end.
    pub stale: bool,
    /// What this application has published there; empty on a unit that does not lead.
    pub published: Databag,
    /// Where slurmdbd is. The others say nothing.
    pub host: Said<HostName>,
    /// A unit of it says which keys it has, as our charms do. Asked of login nodes and slurmrestd only.
    pub acknowledges: bool,
    /// What is published is in the bag of this unit as well. Asked of a slurmrestd that acknowledges only.
    pub copied: bool,
}

/// What a compute application says about its partition.
#[derive(Debug, Clone, PartialEq)]
pub enum RemoteData {
    Nothing,
    Partition(Partition, NodeSet),
    /// Something that cannot be used, and why.
    Unusable(String),
}

impl Compute {
    /// Returns the partition that the application wants.
    pub fn partition(&self) -> Option<(&Partition, &NodeSet)> {
        match &self.data {
            RemoteData::Partition(partition, nodeset) => Some((partition, nodeset)),
            RemoteData::Nothing | RemoteData::Unusable(_) => None,
        }
    }
}

/// The machine, as far as no daemon can change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub name: HostName,
    /// In a container Slurm cannot use control groups.
    pub container: bool,
    /// The files of Slurm's plugins.
    pub plugins: BTreeSet<String>,
}

/// Where slurmctld keeps its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    pub mount: StoreMount,
    pub state: StateDirectory,
    /// A file system that needs no other machine. Looking at another one costs processes.
    pub local: bool,
    /// When slurmctld last saved its partitions, counted from 1970.
    pub partitions_saved_at: Option<Duration>,
    /// The times at which a state that was here moved elsewhere. Looked for only where there is none now.
    pub moved: Vec<String>,
}

/// What is on the local disk where no mount covers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside {
    pub state: StateDirectory,
    /// When slurmctld last saved its partitions, counted from 1970.
    pub partitions_saved_at: Option<Duration>,
    /// The notes in those that were here and have moved to a store.
    pub moved: Vec<String>,
    /// The time in the name of the newest copy from a store that has its note, and so is whole.
    pub incoming: Option<String>,
}

/// What is mounted where a shared file system is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreMount {
    /// Nothing, or only a trigger of autofs.
    Nothing,
    /// A file system.
    Mounted { read_only: bool },
}

/// The directory that slurmctld keeps its state in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateDirectory {
    Absent,
    /// There, and nothing in it.
    Empty,
    /// There, with something in it but no note of whose it is.
    Unmarked,
    /// There, with a note.
    Of(String),
    /// It could not be looked into.
    Unreadable(String),
}

/// An answer of slurmctld.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked<T> {
    Answer(T),
    /// No client of Slurm works beside the slurm.conf in place: its parser cannot read it.
    Unparsable,
    /// Nobody could be asked.
    Unreachable(String),
}

impl<T> Asked<T> {
    /// Returns the answer, if there is one.
    pub fn answer(&self) -> Option<&T> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Unparsable | Self::Unreachable(_) => None,
        }
    }
}

/// Whether slurmctld gets rid of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recording {
    pub reach: Reach,
    /// Somebody on this machine is connected to a slurmdbd.
    pub connected: bool,
    /// How many records wait for it. None: slurmctld could not be asked.
    pub queued: Option<u64>,
}

/// How much slurmctld has in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub nodes: u64,
    pub jobs: u64,
}

/// What a plan asks.
pub type Ask = charm::runtime::Ask<Question>;
/// The steps of this dispatch with their outcomes.
pub type Attempts = charm::runtime::AttemptsOf<Slurmctld>;
