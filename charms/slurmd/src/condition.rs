//! Every reason why a compute unit is not as it should be, and its words. What an operator reads is decided here and
//! nowhere else.

use crate::facts::Facts;
use crate::names;
use crate::node::departure::Hold;
use crate::node::hardware::Loss;
use crate::node::lifecycle::RejectedConfig;
use crate::node::state::word;
use charm::text::some;
use charm::{AppName, Status, UnitName};
use slurm_conf::{Node, NodeName};
use slurm_ops::journal::Cause;
use slurm_ops::scontrol::{NodeLookup, NodeRecord};
use slurm_unit::OptionProblem;
use slurm_unit::actions::duration;
use slurm_unit::follower::FollowerCondition;
use slurm_unit::install::InstallCondition;

/// A reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// This unit is being removed. Never blocked: Juju 4 drops a leaving unit that is.
    Leaving,
    /// The node is on its way out. `leader`: nobody can write for the application until this unit has gone.
    Departing { hold: Hold, leader: bool },
    /// One slurmd for each machine, and it belongs to another unit.
    MachineTaken { other: NodeName, unit: UnitName },
    /// Slurm has its own use for the application's name.
    ReservedName(AppName),
    /// An option cannot be used.
    Option(OptionProblem),
    /// A note of this charm cannot be read. Nothing is done about the description of the node until it can.
    NoteUnreadable(String),
    /// A stop of slurmd would kill jobs: the `KillMode` that systemd has.
    KillMode(String),
    /// There is no Slurm to work with, or none that is safe from upgrades.
    Install(InstallCondition),
    /// slurmd does not follow its controllers.
    Follower(FollowerCondition),
    /// slurmd runs, and the controllers do not know the node.
    NotRegistered(NodeName),
    /// The machine has less than it had.
    HardwareLost(Vec<Loss>),
    /// slurmctld refuses the node: its reason.
    NodeRejected(String),
    /// The node is registered, and not in the partition of its application.
    NotInPartition { node: NodeName, app: AppName },
    /// By how many seconds this machine's clock is ahead of slurmctld's.
    Skew(i64),
    /// slurmctld does not reach the node.
    NotResponding { record: Box<NodeRecord>, cause: Option<Cause> },
    /// The node is out of service.
    NodeDown { record: Box<NodeRecord>, app: AppName },
    /// A change of the node's description is under way.
    Pending(Waits),
    /// A weight was set ahead of a new registration.
    WeightSetAhead,
    /// slurmd did not start with what the operator asked for, and the request was taken back.
    ConfigRejected { rejected: RejectedConfig, last_working: Node },
    /// slurmctld could forget this node in a crash.
    NotSavedYet,
}

/// What a change of the node's description waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waits {
    /// It is being made.
    Nothing,
    /// `closed`: an administrator keeps new jobs away.
    Jobs { jobs: Vec<u64>, closed: bool },
    /// Jobs in the queue that name this node, and would fail without it.
    PendingJobs(Vec<String>),
    /// Reservations that name this node, and would go with it.
    Reservations(Vec<String>),
    /// Nobody could be asked who is on the node.
    Slurmctld,
}

impl Waits {
    /// Says it.
    pub fn text(&self) -> String {
        match self {
            Self::Nothing => "node-config is being applied".to_owned(),
            Self::Jobs { jobs, closed } => {
                let noun = if jobs.len() == 1 { "job" } else { "jobs" };
                let hint = if *closed { "" } else { ", `drain` helps" };
                format!("node-config waits for {noun} {}{hint}", some(jobs))
            }
            Self::PendingJobs(jobs) => {
                let noun = if jobs.len() == 1 { "job" } else { "jobs" };
                format!("node-config waits for pending {noun} {}", some(jobs))
            }
            Self::Reservations(names) => format!("node-config waits for reservation {}", some(names)),
            Self::Slurmctld => "node-config waits for slurmctld to answer".to_owned(),
        }
    }
}

impl From<FollowerCondition> for Condition {
    fn from(condition: FollowerCondition) -> Self {
        Self::Follower(condition)
    }
}

impl charm::runtime::Condition for Condition {
    fn status(&self) -> Status {
        self.told().unwrap_or_else(|| Status::active(self.detail().unwrap_or_default()))
    }

    /// What is waited for may come without an event of Juju. What an operator has to mend comes with one.
    fn needs_retry(&self) -> bool {
        match self {
            Self::Install(condition) => condition.needs_retry(),
            Self::Follower(condition) => condition.needs_retry(),
            Self::Departing { .. } | Self::Skew(_) | Self::Pending(_) | Self::WeightSetAhead | Self::NotSavedYet => {
                true
            }
            // The controllers give the state back that the node had.
            Self::NodeDown { record, .. } if is_of_a_reboot(record) => true,
            other => matches!(other.told(), Some(Status::Waiting(_))),
        }
    }
}

/// Says whether a node is out of service because Slurm reboots it, or did and gave up to wait.
fn is_of_a_reboot(record: &NodeRecord) -> bool {
    record.is_rebooting() || record.reason.contains("reboot timed out")
}

impl Condition {
    /// Says what is wrong. None: nothing that an operator has to know by itself.
    fn told(&self) -> Option<Status> {
        Some(match self {
            Self::Leaving => Status::maintenance("leaving"),
            Self::Departing { hold, leader } => departing(hold, *leader),
            Self::MachineTaken { other, unit } => {
                Status::blocked(format!("this machine is node {other} already: put {unit} on another one"))
            }
            Self::ReservedName(app) => Status::blocked(format!(
                "Slurm reserves the name {app}, so no partition can have it: deploy under another"
            )),
            Self::Option(problem) => Status::blocked(problem.to_string()),
            Self::NoteUnreadable(why) => Status::blocked(format!("{why}; mend it, or run node-config reset=true")),
            Self::KillMode(mode) => {
                let directory = "/etc/systemd/system/slurmd.service.d";
                Status::blocked(format!("KillMode={mode} of slurmd kills jobs: see {directory}"))
            }
            Self::Install(condition) => return condition.status(&names::PROFILE),
            Self::Follower(condition) => return condition.status(&names::PROFILE),
            Self::NotRegistered(node) => Status::waiting(format!("for {node} to register")),
            Self::HardwareLost(losses) => {
                let losses = losses.iter().map(Loss::text).collect::<Vec<_>>().join(", ");
                Status::blocked(format!("{losses}: repair the machine, or run node-config reset=true"))
            }
            Self::NodeRejected(reason) => Status::blocked(with_reason("slurmctld refuses this node", reason)),
            Self::NotInPartition { node, app } => Status::waiting(format!("for {node} to be in partition {app}")),
            Self::Skew(seconds) => {
                let side = if *seconds > 0 { "ahead of" } else { "behind" };
                let seconds = seconds.unsigned_abs();
                Status::blocked(format!(
                    "this clock is {seconds} s {side} slurmctld's: jobs fail here until they agree"
                ))
            }
            Self::NotResponding { record, cause } => {
                let why = match cause {
                    Some(Cause::Clocks) => ": its clock is behind this one",
                    Some(Cause::Authentication) => ": its key or clock is not this one's",
                    Some(Cause::NameResolution) => ": a name does not resolve",
                    None => "",
                };
                Status::waiting(format!("for slurmctld to reach this node, {}{why}", word(record)))
            }
            Self::NodeDown { record, .. } if record.is_rebooting() => {
                Status::waiting("for Slurm to reboot this machine")
            }
            Self::NodeDown { record, app } => {
                let state = with_reason(&format!("{}, partition {app}", word(record)), &record.reason);
                Status::blocked(format!("{state}: run action resume"))
            }
            Self::Pending(_) | Self::WeightSetAhead | Self::ConfigRejected { .. } | Self::NotSavedYet => return None,
        })
    }

    /// Says what is to be added to the state of the node.
    fn detail(&self) -> Option<String> {
        match self {
            Self::Pending(waits) => Some(waits.text()),
            Self::ConfigRejected { rejected, last_working } => {
                Some(format!("node-config: {}", rejection(rejected, last_working)))
            }
            _ => None,
        }
    }

    fn is_state_of_the_node(&self) -> bool {
        matches!(self, Self::NodeRejected(_) | Self::NodeDown { .. })
    }
}

/// Never blocked: Juju 4 drops a leaving unit that is.
fn departing(hold: &Hold, leader: bool) -> Status {
    let jobs = |count: usize| if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") };
    let noun = |items: &[String]| if items.len() == 1 { "" } else { "s" };
    let text = match hold {
        Hold::Jobs { count, left, overdue } => {
            let longest = if *count == 1 { "" } else { "longest " };
            let end = match left {
                Some(seconds) => format!("{longest}ends in {}", duration(*seconds)),
                None => format!("{longest}has no time limit"),
            };
            let overdue = if *overdue { "; drain-timeout is over" } else { "" };
            format!("draining: {}, {end}{overdue}", jobs(*count))
        }
        Hold::Cancelled(count) => format!("draining: {} cancelled, drain-timeout is over", jobs(*count)),
        Hold::LocalJobs(Some(count)) => format!("leaving: {} left on this machine", jobs(*count)),
        Hold::LocalJobs(None) => "leaving: the processes of jobs cannot be listed".to_owned(),
        Hold::PendingJobs(names) => {
            let (job, asks) = if names.len() == 1 { ("job", "asks") } else { ("jobs", "ask") };
            format!("leaving: pending {job} {} {asks} for this node: change or run destroy-jobs", some(names))
        }
        Hold::Reservations(names) => {
            format!("leaving: reservation{} {} over this node: change or delete it", noun(names), some(names))
        }
        Hold::Slurmctld => "leaving: slurmctld does not answer".to_owned(),
        Hold::Registration => "leaving: slurmctld was just started".to_owned(),
        Hold::Refused => "leaving: slurmctld refuses to drain or delete this node".to_owned(),
    };
    let leader = if leader { "; this is the leader, so options wait" } else { "" };
    match hold {
        Hold::Jobs { .. } | Hold::Cancelled(_) | Hold::LocalJobs(_) => Status::maintenance(format!("{text}{leader}")),
        _ => Status::waiting(format!("{text}{leader}")),
    }
}

/// Says which keys slurmd did not start with: those that were asked for beyond what had worked before.
pub fn rejection(rejected: &RejectedConfig, last_working: &Node) -> String {
    let mut news = Node::new();
    let asked = rejected.requested.options();
    for (key, value) in asked.filter(|(key, value)| last_working.get(key) != Some(*value)) {
        news.set(key, value).expect("invariant: it was a value before");
    }
    format!("slurmd does not start with {news}: {}", rejected.reason)
}

/// Says how this unit is: the worst condition, or the state of its node.
pub fn status(facts: &Facts, conditions: &[Condition]) -> Status {
    let told = |condition: &Condition| condition.told().map(|status| (status, condition.is_state_of_the_node()));
    let statuses: Vec<(Status, bool)> = conditions.iter().filter_map(told).collect();
    let worst = Status::worst(statuses.iter().map(|(status, _)| status.clone()));
    let (status, takes_details) = match worst {
        Some(worst) => {
            let of_the_node = statuses.iter().any(|(status, of_the_node)| *of_the_node && *status == worst);
            (worst, of_the_node)
        }
        None => (Status::active(well(facts)), true),
    };
    // What is under way comes before what was taken back.
    let detail = conditions.iter().find_map(Condition::detail).filter(|_| takes_details);
    let text = |text: &str| detail.as_ref().map_or_else(|| text.to_owned(), |detail| format!("{text}; {detail}"));
    match status {
        Status::Active(state) => Status::active(text(&state)),
        Status::Blocked(state) => Status::blocked(text(&state)),
        other => other,
    }
}

/// The state of a node that is well, or that an administrator wants as it is.
fn well(facts: &Facts) -> String {
    let (Ok(NodeLookup::Present(record)), Ok(identity)) = (facts.seen(), facts.identity()) else {
        return String::new();
    };
    let (state, app) = (word(record), identity.unit.app());
    // What an administrator wants is no fault; an old reason of a node that is back says nothing.
    let reason = if record.has("DRAIN") || record.has("FAIL") { record.reason.as_str() } else { "" };
    let glance = facts.glance().ok().and_then(Option::as_ref);
    let partition_state = match glance {
        Some(glance) => glance.partition_state.as_ref(),
        None => facts.partition_state().ok().and_then(Option::as_ref),
    };
    match partition_state.map(String::as_str) {
        Some(partition) if !partition.eq_ignore_ascii_case("UP") => {
            let by_option = facts.options().is_ok_and(|options| {
                options.partition.as_ref().is_ok_and(|partition| partition.get("State").is_some())
            });
            let way_out = match (reason, by_option) {
                ("", true) => format!("see option {}", names::OPTION_PARTITION_CONFIG),
                ("", false) => format!("scontrol update partitionname={app} state=up"),
                (reason, _) => reason.to_owned(),
            };
            format!("{state}, partition {app} is {partition}: {way_out}")
        }
        _ => with_reason(&format!("{state}, partition {app}"), reason),
    }
}

fn with_reason(text: &str, reason: &str) -> String {
    if reason.is_empty() { text.to_owned() } else { format!("{text}: {reason}") }
}

#[cfg(test)]
mod tests;
