//! Everything a controller unit can find out before it decides anything: the questions of its plan, and the answers.
//!
//! A fact is what is, never a wish. How it is found out is in the files below.

mod juju;
pub mod machine;

use crate::Slurmctld;
use crate::applications::Applications;
use crate::config::files::Configuration;
use crate::config::rejections::Rejections;
use crate::config::rollout::Overrides;
use crate::keys::Keys;
use crate::options::Options;
use charm::tools::{GoalState, SecretAnswer, SecretInfo};
use charm::{AppName, Databag, RelationId, UnitName};
use slurm_conf::overrides::{NodeSettings, PartitionSettings};
use slurm_conf::{ClusterName, HostName, NodeSet, Partition};
pub use slurm_ops::journal::Stranger as RejectedHost;
use slurm_ops::scontrol::{JobRecord, NodeRecord, ReservationRecord};
use slurm_ops::systemd::UnitState;
use slurm_unit::install::Installation;
use slurm_unit::note::Noted;
use slurm_unit::service::ServiceFiles;
use slurm_unit::{Error, Trigger, View};
use std::collections::BTreeSet;
use std::time::Duration;

charm::facts! {
    /// Who this unit is, and why it was called.
    call: Call(Call),
    /// This unit leads its application.
    leader: Leader(bool),
    options: Options(Options),
    /// This unit, or its application, is being removed.
    leaving: Leaving(bool),
    /// Other units of this application that are to stay.
    siblings: Siblings(Vec<UnitName>),
    /// The relation between the units. None in the `install` hook, where Juju does not show it yet.
    peer: Peer(Option<Peer>),
    /// The relation to a file system client.
    mount: Mount(Option<MountEndpoint>),
    /// The compute applications, the one related first comes first.
    computes: Computes(Vec<Compute>),
    /// What Juju says about the secret that compute units read. None: there is none.
    auth_info: AuthInfo(Option<SecretInfo>),
    auth_content: AuthContent(SecretAnswer),
    jwt_info: JwtInfo(Option<SecretInfo>),
    jwt_content: JwtContent(SecretAnswer),
    port_open: PortOpen(bool),
    /// The retry timer is set.
    retry_timer: RetryTimer(bool),
    /// The time, in seconds since 1970.
    now: Now(u64),
    /// Four random characters for the name of a new cluster.
    fresh_suffix: FreshSuffix(String),
    host: Host(Host),
    installation: Installation(Installation),
    service_files: ServiceFiles(ServiceFiles),
    keys: Keys(Keys),
    store: Store(Store),
    /// Why slurmctld cannot save its state now, if so.
    state_problem: StateProblem(Option<String>),
    /// The saved partitions are at least as new as the accepted configuration: a takeover restores what was saved.
    partitions_saved: PartitionsSaved(bool),
    configuration: Configuration(Configuration),
    rejections: Rejections(Noted<Rejections>),
    /// What was set at runtime before a reconfigure whose end nobody has seen.
    overrides: Overrides(Noted<Overrides>),
    /// The applications that this cluster has served.
    applications: Applications(Noted<Applications>),
    /// Who exists, as Juju's controller has it. None: it could not be asked.
    goal_state: GoalState(Option<GoalState>),
    /// What systemd says about slurmctld.
    unit: Unit(UnitState),
    /// What slurmctld complained about last.
    complaint: Complaint(Option<String>),
    /// slurmctld serves no client on this machine although it runs.
    shut_out: ShutOut(bool),
    /// The settings of partitions in slurmctld's memory. Whoever gets an answer knows that slurmctld serves.
    partition_settings: PartitionSettings(Asked<PartitionSettings>),
    node_settings: NodeSettings(Asked<NodeSettings>),
    /// How many nodes and jobs slurmctld has.
    load: Load(Asked<Load>),
    /// Every job that slurmctld has a record of, those that have ended included.
    job_records: JobRecords(Asked<Vec<JobRecord>>),
    nodes: Nodes(Asked<Vec<NodeRecord>>),
    reservations: Reservations(Asked<Vec<ReservationRecord>>),
    /// A machine whose messages slurmctld refuses.
    rejected_host: RejectedHost(Option<RejectedHost>),
}

/// Who this unit is, and why it was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub unit: UnitName,
    /// The model and the application, which no other cluster shares.
    pub home: String,
    pub model_uuid: String,
    pub trigger: Trigger,
    /// Juju itself says that this unit goes: no question is needed.
    pub last: bool,
    /// The compute application whose relation this hook ends.
    pub broken: Option<AppName>,
}

/// The relation between the units of this application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub relation: RelationId,
    pub cluster_name: Option<ClusterName>,
    /// What this unit's own bag says.
    pub host: Option<String>,
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
}

/// What is mounted where a shared file system is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreMount {
    /// Nothing, or only a trigger of autofs.
    Nothing,
    Mounted {
        read_only: bool,
    },
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

/// How much slurmctld has in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub nodes: u64,
    pub jobs: u64,
}

/// Answers one question.
pub fn look(view: &View, question: Question, known: &Facts) -> Result<Fact, Error> {
    Ok(match question {
        Question::Call => Fact::Call(juju::call(view)),
        Question::Leader => Fact::Leader(view.juju.is_leader()?),
        Question::Options => Fact::Options(Options::read(&view.juju.config_get()?)),
        Question::Leaving => Fact::Leaving(charm::is_leaving(&view.ctx, &view.juju)?),
        Question::Siblings => Fact::Siblings(juju::siblings(view)?),
        Question::Peer => Fact::Peer(juju::peer(view)?),
        Question::Mount => Fact::Mount(juju::mount(view)?),
        Question::Computes => Fact::Computes(juju::computes(view)?),
        Question::AuthInfo => Fact::AuthInfo(view.juju.secret_info_get(crate::names::AUTH_SECRET)?),
        Question::AuthContent => Fact::AuthContent(view.juju.secret_get_label(crate::names::AUTH_SECRET)?),
        Question::JwtInfo => Fact::JwtInfo(view.juju.secret_info_get(crate::names::JWT_SECRET)?),
        Question::JwtContent => Fact::JwtContent(view.juju.secret_get_label(crate::names::JWT_SECRET)?),
        Question::PortOpen => Fact::PortOpen(juju::port_open(view)?),
        Question::RetryTimer => Fact::RetryTimer(slurm_unit::retry::is_set(view)),
        Question::Now => Fact::Now(slurm_ops::clock::now()),
        Question::FreshSuffix => Fact::FreshSuffix(machine::fresh_suffix()?),
        Question::Host => Fact::Host(machine::host(view)?),
        Question::Installation => Fact::Installation(Installation::look(view, &crate::names::PROFILE)?),
        Question::ServiceFiles => Fact::ServiceFiles(ServiceFiles::look(view, &crate::names::PROFILE)?),
        Question::Keys => Fact::Keys(Keys::look(&view.host)?),
        Question::Store => Fact::Store(machine::store(view)?),
        Question::StateProblem => Fact::StateProblem(machine::state_problem(view)),
        Question::PartitionsSaved => Fact::PartitionsSaved(machine::partitions_saved(view, known)?),
        Question::Configuration => Fact::Configuration(Configuration::look(&view.host)?),
        Question::Rejections => Fact::Rejections(slurm_unit::note::read(&view.host)?),
        Question::Overrides => Fact::Overrides(slurm_unit::note::read(&view.host)?),
        Question::Applications => Fact::Applications(slurm_unit::note::read(&view.host)?),
        Question::GoalState => Fact::GoalState(juju::goal_state(view)),
        Question::Unit => Fact::Unit(machine::unit(view)?),
        Question::Complaint => Fact::Complaint(machine::complaint(view)),
        Question::ShutOut => Fact::ShutOut(slurm_ops::scontrol::is_shut_out(&view.host)),
        Question::PartitionSettings => Fact::PartitionSettings(machine::partition_settings(view)),
        Question::NodeSettings => Fact::NodeSettings(machine::node_settings(view)),
        Question::Load => Fact::Load(machine::load(view)),
        Question::JobRecords => Fact::JobRecords(machine::job_records(view)),
        Question::Nodes => Fact::Nodes(machine::nodes(view)),
        Question::Reservations => Fact::Reservations(machine::reservations(view)),
        Question::RejectedHost => Fact::RejectedHost(machine::rejected_host(view)),
    })
}

/// What a plan asks.
pub type Ask = charm::runtime::Ask<Question>;
/// The steps of this dispatch with their outcomes.
pub type Attempts = charm::runtime::AttemptsOf<Slurmctld>;
