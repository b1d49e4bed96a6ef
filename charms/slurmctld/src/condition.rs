//! Every reason why a controller unit is not as it should be, and what an operator reads about it.

use crate::config::sources::ConfigSource;
use crate::controllers::Serving;
use crate::daemon::Daemon;
use crate::facts::{Facts, RejectedHost};
use crate::fence::Warning;
use crate::identity::{StateProblem, of_note};
use crate::metrics::NoMetrics;
use crate::names;
use crate::rotation::Phase;
use charm::{AppName, Status, UnitName};
use slurm_conf::{HostName, NodeName, PartitionName};
use slurm_ops::journal::Cause;
use slurm_ops::packages::Obstacle;
use slurm_unit::OptionProblem;
use slurm_unit::install::InstallCondition;
use std::fmt;

/// What is wrong with the accounting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accounting {
    /// Several applications of slurmdbd are related, and a cluster has one.
    Several(Vec<String>),
    /// This application has not said where its slurmdbd is.
    NotReady(AppName),
    /// slurmctld is not told of this slurmdbd before it answers.
    Silent(AppName, HostName),
    /// slurmdbd does not answer, and slurmctld keeps so many records for it.
    Away(AppName, Option<u64>),
    /// slurmdbd answers, and takes the records too slowly or not at all.
    Behind(AppName, u64),
}

/// A reason why this unit is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// This unit is being removed.
    Leaving,
    /// The cluster is on another unit.
    Second(UnitName),
    /// The leader has not made the cluster on the store yet.
    AwaitsCluster,
    /// slurm.conf does not list this host yet.
    AwaitsListing(HostName),
    /// The cluster was adopted, and one of its old controllers may still serve.
    OldControllers(Serving),
    /// This unit has not published its host. Until it has, no line of a controller is deleted.
    UnknownHost(UnitName),
    /// This host has no unit that stays, and still serves or has not stopped.
    ControllerDeparts(HostName),
    /// A backup serves: this one, if it is not said which.
    BackupServes(Option<HostName>),
    /// The list of controllers has changed, and the one that serves has given no sign of life since.
    ListUnsettled,
    /// Juju has not shown the peer relation, or not made a leader.
    Undecided,
    /// An option cannot be used.
    Option(OptionProblem),
    /// There is no Slurm to work with, or none that is safe from upgrades.
    Install(InstallCondition),
    /// Slurm did not take a change. `app` is the application that wants a partition.
    Rejected { source: ConfigSource, app: Option<AppName>, reason: String },
    /// A file that an administrator changed by hand was put back.
    TakenBack(String),
    /// A note of this charm cannot be read, and work on the configuration rests on it.
    NoteUnreadable(String),
    /// A reconfigure would end this partition and its jobs.
    PartitionAtRisk(String),
    /// An application says something that cannot be used.
    UnusableData { app: AppName, why: String },
    /// Two applications claim one partition.
    PartitionTaken { app: AppName, partition: String, owner: AppName },
    /// The partition that the operator chose is not there.
    AwaitsPartition { chosen: String, there: Vec<String> },
    /// Several applications claim the default partition.
    SeveralDefaults(Vec<String>),
    /// slurmctld is kept from its state.
    State { problem: StateProblem, mount_related: bool },
    /// The cluster is to move to a store, or back to the local disk, and has not.
    Moving(Moving),
    /// The fence does not run, so that slurmctld must not.
    FenceDown,
    /// The fence keeps slurmctld from serving.
    FenceClosed(String),
    /// What an operator should know about the store.
    Store(Warning),
    /// slurmctld cannot write its state.
    CannotSave(String),
    /// A key is neither on the disk nor to be had.
    AwaitsKey(&'static str),
    /// Only the leader changes what is shared.
    NotLeader,
    /// slurmctld does not answer.
    Daemon(Daemon),
    /// The files in place are not known to be in effect. Why slurmctld could not be asked, if so.
    Unproven(Option<String>),
    /// slurmctld refuses the messages of a machine.
    RejectedHost(RejectedHost),
    /// A secret was granted, or is to be granted, and whether that took shows in a later dispatch.
    GrantPending,
    /// No hook may tell of what this application says later.
    StaleRelation(AppName),
    /// slurmdbd on this host takes connections and answers nobody, so that a reconfigure would hang.
    SlurmdbdHangs(String),
    /// Something is wrong with the accounting. Jobs are not concerned.
    Accounting(Accounting),
    /// This application has said nothing yet, and Juju may lose the event when it does.
    SilentApplication(AppName),
    /// A takeover would restore older partitions.
    PartitionsUnsaved,
    /// The relation with this application has ended, and its partition cannot go yet.
    Leaves { app: PartitionName, held: PartitionHeld },
    /// A node has no unit any more, and its record cannot go yet.
    NodeWithoutUnit { node: NodeName, held: NodeHeld },
    /// Nodes are being rebooted, so many at a time.
    Reboots { away: usize, total: usize, waiting: usize },
    /// These were told to reboot, and are not back after a quarter of an hour.
    RebootLate(Vec<NodeName>),
    /// It is their turn, and they are not there to be rebooted.
    RebootsStalled(Vec<NodeName>),
    /// These are away for another reason, and no more may be.
    RebootsHeld(Vec<NodeName>),
    /// slurmctld did not do what the reboot of this node needs.
    RebootRefused { node: NodeName, why: String },
    /// The note of the nodes that are to be rebooted cannot be read.
    RebootsUnreadable(String),
    /// A key is being replaced, and these have not loaded what they have to.
    Rotating { phase: Phase, cancelled: bool, units: Vec<String> },
    /// The note of a key that is being replaced cannot be read.
    RotationUnreadable(String),
    /// An agent for metrics is there, and slurmctld has none for it.
    NoMetrics(NoMetrics),
    /// Several OCI runtimes are related, and a cluster has one.
    SeveralRuntimes(Vec<String>),
    /// The password for the relay of this mail integrator cannot be read yet.
    AwaitsMailPassword(AppName),
    /// The configuration of the mail program is somebody else's.
    MailConfTaken,
    /// The mail program could not be installed.
    MailInstall(Obstacle),
    /// What has to be known about this application, and whether it has left, could not be found out.
    Unaccounted(PartitionName),
}

/// What a move waits for. slurmctld serves all the while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moving {
    /// Only a single controller moves.
    OtherUnits { to_store: bool, units: Vec<UnitName> },
    /// Nobody is there who could mount a store.
    NoClient,
    /// A disk of its own is mounted where the store would be.
    Occupied,
    /// The store is not mounted yet.
    AwaitsMount,
    /// The store cannot become this cluster's.
    Unusable(StateProblem),
    /// It was tried, and slurmctld is back where it was.
    Failed(String),
}

/// What holds the partition of an application that leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionHeld {
    /// These wait in it. They would wait for ever.
    Pending(Vec<String>),
    /// So many run in it.
    Running(usize),
    /// The records of so many that have ended.
    Ended(usize),
    /// Their records are left.
    Nodes(Vec<String>),
    /// The record of a node, which is held itself.
    Node(NodeName, NodeHeld),
    /// slurmctld did not do what it was asked to.
    Slurmctld(String),
}

/// What holds the record of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeHeld {
    /// This one is on it.
    Job(String),
    /// This one waits for it by name.
    Pending(String),
    Reservation(String),
    /// slurmctld did not do what it was asked to.
    Slurmctld(String),
}

impl fmt::Display for PartitionHeld {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending(jobs) if jobs.len() == 1 => write!(formatter, "pending job {}: cancel or move it", jobs[0]),
            Self::Pending(jobs) => write!(formatter, "pending jobs {}: cancel or move them", charm::text::some(jobs)),
            Self::Running(1) => write!(formatter, "1 job runs"),
            Self::Running(count) => write!(formatter, "{count} jobs run"),
            Self::Ended(1) => write!(formatter, "1 ended job ages out (MinJobAge)"),
            Self::Ended(count) => write!(formatter, "{count} ended jobs age out (MinJobAge)"),
            Self::Nodes(nodes) => write!(formatter, "waits for nodes {}", charm::text::some(nodes)),
            Self::Node(node, held) => write!(formatter, "node {node} is held by {held}"),
            Self::Slurmctld(why) => write!(formatter, "slurmctld: {why}"),
        }
    }
}

impl fmt::Display for NodeHeld {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(job) => write!(formatter, "job {job}"),
            Self::Pending(job) => write!(formatter, "pending job {job}"),
            Self::Reservation(name) => write!(formatter, "reservation {name}"),
            Self::Slurmctld(why) => write!(formatter, "slurmctld: {why}"),
        }
    }
}

impl charm::runtime::Condition for Condition {
    /// Says it to the operator. `active`: nothing that an operator has to know, or a remark beside the usual text.
    fn status(&self) -> Status {
        match self {
            // Never blocked: Juju 4 drops a leaving unit that is.
            Self::Leaving => Status::maintenance("leaving"),
            Self::Second(unit) => {
                let option = names::OPTION_NETWORK_STATE;
                Status::blocked(format!("one controller only without {option}: `juju remove-unit {unit}`"))
            }
            Self::AwaitsCluster => Status::waiting("for the leader to make the cluster"),
            Self::OldControllers(Serving::Host(host)) => {
                Status::waiting(format!("for slurmctld of {host} to end: the cluster was adopted"))
            }
            Self::OldControllers(Serving::Unknown) => {
                Status::waiting("for the last sign of life of an old controller to age: the cluster was adopted")
            }
            Self::OldControllers(Serving::Nobody) => Status::waiting("for Juju to name the units of this application"),
            Self::AwaitsListing(host) => Status::waiting(format!("for slurm.conf to list {host}")),
            Self::UnknownHost(unit) => Status::active(format!("waits for the host name of {unit}")),
            Self::BackupServes(None) => Status::active("serves"),
            Self::BackupServes(Some(host)) => Status::active(format!("{host} serves")),
            Self::ControllerDeparts(host) => Status::active(format!("controller {host} leaves")),
            Self::Undecided => Status::waiting("for Juju to choose a leader"),
            Self::Option(problem) => Status::blocked(problem.to_string()),
            Self::Install(condition) => condition.status(&names::PROFILE).unwrap_or_else(|| Status::active("")),
            Self::Rejected { app: Some(app), reason, .. } => {
                Status::blocked(format!("{app}: partition refused: {reason}"))
            }
            Self::Rejected { source, reason, .. } => Status::blocked(format!("{source} refused: {reason}")),
            Self::TakenBack(why) => Status::blocked(format!("{} was refused and put back: {why}", names::SLURM_CONF)),
            Self::NoteUnreadable(why) => {
                Status::blocked(format!("config changes on hold: repair or delete the note {why}"))
            }
            Self::PartitionAtRisk(name) => Status::blocked(format!(
                "config changes on hold: partition {name} exists only at runtime: add it to slurm.conf or delete it"
            )),
            Self::UnusableData { app, why } => Status::blocked(format!("{app}: {why}")),
            Self::PartitionTaken { app, partition, owner } => {
                Status::blocked(format!("{app}: partition {partition} belongs to {owner}"))
            }
            Self::AwaitsPartition { chosen, there } => {
                let there = if there.is_empty() { "none yet".to_owned() } else { there.join(", ") };
                let option = names::OPTION_DEFAULT_PARTITION;
                Status::waiting(format!("for partition {chosen} (option {option}); there: {there}"))
            }
            Self::SeveralDefaults(names) => {
                let option = names::OPTION_DEFAULT_PARTITION;
                Status::blocked(format!("{} all say Default=YES: choose with option {option}", names.join(", ")))
            }
            Self::State { problem, mount_related } => Status::blocked(state(problem, *mount_related)),
            Self::Moving(reason) => moving(reason),
            Self::FenceDown => Status::waiting("for the fence of slurmctld to start"),
            Self::FenceClosed(why) => Status::waiting(format!("for the store: {why}")),
            Self::Store(Warning::Slow { median, worst }) => {
                Status::active(format!("store is slow: a write takes {median} ms, at worst {worst} ms"))
            }
            Self::Store(Warning::NearlyFull { free, total }) => {
                let mib = |bytes: &u64| bytes / (1024 * 1024);
                Status::active(format!("store is nearly full: {} of {} MiB left", mib(free), mib(total)))
            }
            Self::CannotSave(why) => {
                Status::blocked(format!("{why}: slurmctld cannot save jobs, config changes on hold"))
            }
            Self::AwaitsKey(name) => Status::waiting(format!("for the {name}")),
            Self::NotLeader => Status::waiting("for Juju to make this unit the leader again"),
            Self::Daemon(daemon) => Status::waiting(in_words(daemon)),
            Self::Unproven(None) => Status::waiting("for slurmctld to load its configuration"),
            Self::Unproven(Some(why)) => Status::waiting(format!("for slurmctld to load its configuration: {why}")),
            Self::RejectedHost(RejectedHost { host, cause }) => {
                let why = match cause {
                    Cause::Clocks => "its clock differs",
                    Cause::Authentication => "its key or clock differs",
                    Cause::NameResolution => "a name does not resolve",
                };
                Status::active(format!("refuses {host}: {why}"))
            }
            Self::Leaves { app, held } => Status::active(format!("{app} leaves: {held}")),
            Self::NodeWithoutUnit { node, held } => Status::active(format!("node {node} has no unit: held by {held}")),
            Self::Reboots { away, total, waiting } => {
                Status::active(format!("reboots: {away} of {total} away, {waiting} to go"))
            }
            Self::Rotating { phase, cancelled, units } => {
                let whom = if units.is_empty() { "everybody".to_owned() } else { charm::text::some(units) };
                let key = if *cancelled { "to go back to the old key" } else { "to load the new key" };
                Status::waiting(format!("for {whom} {key} (phase {phase})"))
            }
            Self::RotationUnreadable(why) => {
                Status::blocked(format!("key rotation on hold: repair or delete the note {why}"))
            }
            Self::RebootLate(nodes) => Status::active(format!("not back from reboot: {}", charm::text::some(nodes))),
            Self::RebootsStalled(nodes) => {
                Status::active(format!("cannot be rebooted now: {}", charm::text::some(nodes)))
            }
            Self::RebootsHeld(nodes) => Status::active(format!("reboots wait for {}", charm::text::some(nodes))),
            Self::RebootRefused { node, why } => Status::active(format!("reboot of {node}: slurmctld: {why}")),
            Self::RebootsUnreadable(why) => {
                Status::blocked(format!("reboots on hold: repair or delete the note {why}"))
            }
            Self::NoMetrics(NoMetrics::NoPlugin(version)) => {
                Status::active(format!("no metrics: Slurm {version} has none, 25.11 and newer do"))
            }
            Self::NoMetrics(NoMetrics::SwitchedOff) => {
                Status::active(format!("no metrics: MetricsType in {} is another one", names::SLURM_CONF))
            }
            Self::NoMetrics(NoMetrics::Private) => {
                Status::active("no metrics: slurmctld refuses them while PrivateData is set")
            }
            Self::SeveralRuntimes(apps) => {
                Status::blocked(format!("one OCI runtime only: remove a relation of {}", apps.join(", ")))
            }
            Self::AwaitsMailPassword(app) => Status::waiting(format!("for {app} to share its password for mail")),
            Self::MailConfTaken => Status::blocked(format!(
                "{} is not the charm's: move it away, or remove the relation at `{}`",
                names::MAIL_CONF,
                names::ENDPOINT_MAIL
            )),
            Self::MailInstall(obstacle) if obstacle.is_passing() => {
                Status::waiting(format!("for apt: {}", obstacle.told()))
            }
            Self::MailInstall(obstacle) => {
                Status::blocked(format!("installing the mail program failed: {}", obstacle.told()))
            }
            Self::SlurmdbdHangs(host) => {
                Status::waiting(format!("for slurmdbd at {host}: config changes on hold, slurmctld would hang"))
            }
            Self::Accounting(problem) => accounting(problem),
            Self::GrantPending
            | Self::ListUnsettled
            | Self::StaleRelation(_)
            | Self::SilentApplication(_)
            | Self::PartitionsUnsaved
            | Self::Unaccounted(_) => Status::active(""),
        }
    }

    /// What an operator or another application has to change comes with an event of Juju, and so does a leader. All
    /// else comes and goes without: the state on a file system, slurmctld itself, a refused host that is refused no
    /// more.
    fn needs_retry(&self) -> bool {
        match self {
            Self::Install(condition) => condition.needs_retry(),
            Self::Leaving | Self::Second(_) | Self::Undecided | Self::NotLeader => false,
            Self::Option(_) | Self::Rejected { .. } | Self::TakenBack(_) | Self::UnusableData { .. } => false,
            Self::Accounting(Accounting::Several(_)) => false,
            Self::PartitionTaken { .. } | Self::AwaitsPartition { .. } | Self::SeveralDefaults(_) => false,
            Self::Moving(Moving::OtherUnits { .. } | Moving::NoClient) => false,
            Self::NoMetrics(_) | Self::SeveralRuntimes(_) => false,
            _ => true,
        }
    }
}

/// Says how this unit is: the worst condition, else its place among the controllers.
pub fn status(facts: &Facts, conditions: &[Condition]) -> Status {
    let statuses = || conditions.iter().map(charm::runtime::Condition::status);
    let bad = Status::worst(statuses().filter(|status| !matches!(status, Status::Active(_))));
    bad.unwrap_or_else(|| {
        let remarks: Vec<String> =
            statuses().map(|status| status.message().to_owned()).filter(|text| !text.is_empty()).collect();
        Status::active([vec![rank(facts)], remarks].concat().join("; "))
    })
}

/// Names the place of this machine among the controllers of slurm.conf, as Slurm does.
fn rank(facts: &Facts) -> String {
    let (Ok(host), Ok(configuration)) = (facts.host(), facts.configuration()) else { return "primary - UP".to_owned() };
    let rank = configuration.live.rank_of(&host.name).unwrap_or(0);
    let name = match (rank, configuration.live.controllers().len()) {
        (0, _) => "primary".to_owned(),
        (1, 2) => "backup".to_owned(),
        (rank, _) => format!("backup{rank}"),
    };
    format!("{name} - UP")
}

/// Jobs run with and without.
fn accounting(problem: &Accounting) -> Status {
    match problem {
        Accounting::Several(apps) => {
            Status::blocked(format!("one slurmdbd only: remove a relation of {}", apps.join(", ")))
        }
        Accounting::NotReady(app) => Status::active(format!("no accounting yet: {app} is not ready")),
        Accounting::Silent(app, host) => Status::active(format!("no accounting yet: {app} does not answer at {host}")),
        Accounting::Away(app, None) => Status::active(format!("accounting: {app} does not answer")),
        Accounting::Away(app, Some(kept)) => {
            Status::active(format!("accounting: {app} does not answer, {kept} records are kept for it"))
        }
        Accounting::Behind(app, kept) => Status::active(format!("accounting: {kept} records wait for {app}")),
    }
}

fn state(problem: &StateProblem, mount_related: bool) -> String {
    let (mount, state) = (names::CHECKPOINT_DIRECTORY, names::STATE_DIRECTORY);
    let endpoint = names::ENDPOINT_MOUNT;
    match problem {
        StateProblem::NotMounted if !mount_related => {
            format!("nothing is mounted at {mount}: integrate a file system client with `{endpoint}`")
        }
        StateProblem::NotMounted => format!("nothing is mounted at {mount}: see the unit on `{endpoint}`"),
        StateProblem::ReadOnly => format!("{mount} is read-only: slurmctld has to write there"),
        StateProblem::Lost => format!("{state} is not this cluster's any more: restore it, or jobs are lost"),
        StateProblem::Foreign(whose) => match of_note(whose).filter(|_| mount_related) {
            // A status is short, and the identifier of a model long.
            Some((name, home)) => {
                let action = names::ACTION_ADOPT;
                format!(
                    "the store is cluster {name}'s: check the mount, or run `{action} cluster={name}`; it is of {home}"
                )
            }
            None => format!("{state} belongs to {whose}: check the mount"),
        },
        StateProblem::Unmarked => format!("{state} has data but no cluster marker: check the mount"),
        StateProblem::Unreadable(why) => format!("{state} cannot be read: {why}"),
    }
}

/// Says what a move waits for.
fn moving(reason: &Moving) -> Status {
    let (option, mount, endpoint) = (names::OPTION_NETWORK_STATE, names::CHECKPOINT_DIRECTORY, names::ENDPOINT_MOUNT);
    match reason {
        Moving::OtherUnits { to_store, units } => {
            let way = if *to_store { "to the store" } else { "to the local disk" };
            Status::blocked(format!(
                "option {option} `{to_store}`: only a single controller moves {way}: remove {} first",
                charm::text::some(units)
            ))
        }
        Moving::NoClient => Status::blocked(format!(
            "option {option} `true`: integrate a file system client with `{endpoint}` to move to a store"
        )),
        Moving::Occupied => Status::blocked(format!(
            "option {option} `true`: {mount} is a disk of its own, which cannot move: reset the option"
        )),
        Moving::AwaitsMount => Status::waiting(format!("to move to the store: nothing is mounted at {mount} yet")),
        Moving::Unusable(problem) => Status::blocked(format!("cannot move to the store: {}", state(problem, true))),
        Moving::Failed(why) => Status::waiting(format!("to try the move again: {why}")),
    }
}

fn in_words(daemon: &Daemon) -> String {
    match daemon {
        Daemon::Stopped => "for slurmctld to start".to_owned(),
        Daemon::SteppedAside => "for another controller to take over".to_owned(),
        Daemon::Failing { reason } => format!("for slurmctld, which fails: {}", plain(reason)),
        Daemon::Silent { reason: Some(reason) } => format!("for slurmctld to answer: {}", plain(reason)),
        Daemon::ShutOut => "for slurmctld, which serves nobody since it refused a configuration".to_owned(),
        Daemon::Silent { reason: None } | Daemon::Answering => "for slurmctld to answer".to_owned(),
    }
}

/// Says in other words what Slurm's own would hide.
fn plain(reason: &str) -> String {
    let known = [
        ("authentication error", "keys or clocks of the machines differ"),
        ("not a valid controller", "this host's name is not in slurm.conf"),
        ("Address already in use", "another program listens on port 6817"),
        ("Unable to resolve", "a host name does not resolve"),
        ("getaddrinfo() failed", "a host name does not resolve"),
    ];
    match known.iter().find(|(words, _)| reason.contains(words)) {
        Some((_, plain)) => format!("{plain} ({reason})"),
        None => reason.to_owned(),
    }
}

#[cfg(test)]
#[path = "condition_tests.rs"]
mod tests;
