//! Every reason why a compute unit is not as it should be, and its words. What an operator reads is decided here and nowhere
//! else.

use crate::facts::Facts;
use crate::names;
use crate::node::hardware::Loss;
use crate::node::lifecycle::RejectedConfig;
use crate::node::state::word;
use charm::text::some;
use charm::tools::Unreadable;
use charm::{AppName, Status, UnitName};
use slurm_conf::{Node, NodeName};
use slurm_ops::SlurmVersion;
use slurm_ops::journal::Cause;
use slurm_ops::scontrol::{NodeLookup, NodeRecord};
use slurm_unit::OptionProblem;
use slurm_unit::install::InstallCondition;

/// A reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// This unit is being removed. Never blocked: Juju 4 drops a leaving unit that is.
    Leaving,
    /// One slurmd for each machine, and it belongs to another unit.
    MachineTaken {
        other: NodeName,
        unit: UnitName,
    },
    ReservedName {
        app: AppName,
    },
    Option(OptionProblem),
    /// A note of this charm cannot be read. Nothing is done about the description of the node until it can.
    NoteUnreadable {
        why: String,
    },
    KillMode {
        mode: String,
    },
    Install(InstallCondition),
    NotRelated {
        app: AppName,
    },
    /// The relation has ended, and the node goes on taking jobs.
    StillInService {
        app: AppName,
    },
    /// Juju is about to show the relation.
    RelationExpected,
    /// No hook may come when something changes at the other end.
    StaleRelation,
    NoData {
        app: AppName,
    },
    UnusableData {
        app: AppName,
        why: String,
    },
    TooNew {
        own: SlurmVersion,
        controllers: SlurmVersion,
        app: AppName,
    },
    NoKey {
        app: AppName,
        malformed: bool,
        why: Option<Unreadable>,
    },
    Stopped,
    Failing {
        result: String,
        complaint: Option<String>,
    },
    /// No controller answers. `daemon`: it is slurmd that waits for one. `right_key`: the key is the one that they share.
    Silent {
        controllers: String,
        daemon: bool,
        cause: Option<Cause>,
        right_key: bool,
    },
    NotRegistered {
        node: NodeName,
    },
    HardwareLost(Vec<Loss>),
    NodeRejected {
        reason: String,
    },
    NotInPartition {
        node: NodeName,
        app: AppName,
    },
    Skew {
        seconds: i64,
    },
    NotResponding {
        record: Box<NodeRecord>,
        cause: Option<Cause>,
    },
    NodeDown {
        record: Box<NodeRecord>,
        app: AppName,
    },
    /// A change of the node's description is under way.
    Pending(Waits),
    /// A weight was set ahead of a new registration.
    WeightSetAhead,
    /// slurmd did not start with what the operator asked for, and the request was taken back.
    ConfigRejected {
        rejected: RejectedConfig,
        last_working: Node,
    },
    /// slurmctld could forget this node in a crash.
    NotSavedYet,
}

/// What a change of the node's description waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waits {
    /// It is being made.
    Nothing,
    /// `closed`: an administrator keeps new jobs away.
    Jobs {
        jobs: Vec<u64>,
        closed: bool,
    },
    /// Jobs in the queue that name this node, and would fail without it.
    PendingJobs(Vec<String>),
    Reservations(Vec<String>),
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

impl charm::runtime::Condition for Condition {
    fn status(&self) -> Status {
        self.told().unwrap_or_else(|| Status::active(self.detail().unwrap_or_default()))
    }

    fn needs_retry(&self) -> bool {
        match self {
            Self::Install(condition) => condition.needs_retry(),
            Self::StaleRelation
            | Self::NoData { .. }
            | Self::NoKey { .. }
            | Self::Stopped
            | Self::Failing { .. }
            | Self::Silent { .. }
            | Self::NotRegistered { .. }
            | Self::NotInPartition { .. }
            | Self::Skew { .. }
            | Self::NotResponding { .. }
            | Self::Pending(_)
            | Self::WeightSetAhead
            | Self::NotSavedYet => true,
            // Juju tells when it ends, or an operator has to act.
            Self::Leaving
            | Self::MachineTaken { .. }
            | Self::ReservedName { .. }
            | Self::Option(_)
            | Self::NoteUnreadable { .. }
            | Self::KillMode { .. }
            | Self::NotRelated { .. }
            | Self::StillInService { .. }
            | Self::RelationExpected
            | Self::UnusableData { .. }
            | Self::TooNew { .. }
            | Self::HardwareLost(_)
            | Self::NodeRejected { .. }
            | Self::NodeDown { .. }
            | Self::ConfigRejected { .. } => false,
        }
    }
}

impl Condition {
    /// Says what is wrong. None: nothing that an operator has to know by itself.
    fn told(&self) -> Option<Status> {
        Some(match self {
            Self::Leaving => Status::maintenance("leaving"),
            Self::MachineTaken { other, unit } => {
                Status::blocked(format!("this machine is node {other} already: put {unit} on another one"))
            }
            Self::ReservedName { app } => Status::blocked(format!(
                "Slurm reserves the name {app}, so no partition can have it: deploy under another"
            )),
            Self::Option(problem) => Status::blocked(problem.to_string()),
            Self::NoteUnreadable { why } => Status::blocked(format!("{why}; mend it, or run node-config reset=true")),
            Self::KillMode { mode } => {
                let directory = "/etc/systemd/system/slurmd.service.d";
                Status::blocked(format!("KillMode={mode} of slurmd kills jobs: see {directory}"))
            }
            Self::Install(condition) => return condition.status(&names::PROFILE),
            Self::NotRelated { app } => Status::blocked(format!("no controller: `juju integrate {app} slurmctld`")),
            Self::StillInService { app } => Status::blocked(format!(
                "not related, still in service: `juju integrate {app} slurmctld`, or run action drain"
            )),
            Self::RelationExpected => Status::waiting("for the relation with the controllers"),
            Self::NoData { app } => Status::waiting(format!("for {app} to publish its address")),
            Self::UnusableData { app, why } => Status::blocked(format!("{app}: {why}")),
            Self::TooNew { own, controllers, app } => {
                Status::blocked(format!("slurmd {own} is newer than slurmctld {controllers}: upgrade {app} first"))
            }
            Self::NoKey { app, malformed: true, .. } => {
                Status::waiting(format!("for {app} to put a key into its secret"))
            }
            Self::NoKey { app, why: Some(Unreadable::NotFound), .. } => {
                Status::waiting(format!("for {app} to renew its key secret"))
            }
            Self::NoKey { app, .. } => Status::waiting(format!("for {app} to share its key")),
            Self::Stopped => Status::waiting("for slurmd to start"),
            Self::Failing { result, complaint } => {
                let reason = complaint.as_deref().unwrap_or("see `journalctl -u slurmd`");
                Status::blocked(format!("slurmd fails ({result}): {reason}"))
            }
            Self::Silent { controllers, daemon, cause, right_key } => {
                Status::waiting(silent(controllers, *daemon, *cause, *right_key))
            }
            Self::NotRegistered { node } => Status::waiting(format!("for {node} to register")),
            Self::HardwareLost(losses) => {
                let losses = losses.iter().map(Loss::text).collect::<Vec<_>>().join(", ");
                Status::blocked(format!("{losses}: repair the machine, or run node-config reset=true"))
            }
            Self::NodeRejected { reason } => Status::blocked(with_reason("slurmctld refuses this node", reason)),
            Self::NotInPartition { node, app } => Status::waiting(format!("for {node} to be in partition {app}")),
            Self::Skew { seconds } => {
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
            Self::NodeDown { record, app } => {
                let state = with_reason(&format!("{}, partition {app}", word(record)), &record.reason);
                Status::blocked(format!("{state}: run action resume"))
            }
            Self::StaleRelation
            | Self::Pending(_)
            | Self::WeightSetAhead
            | Self::ConfigRejected { .. }
            | Self::NotSavedYet => return None,
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
        matches!(self, Self::NodeRejected { .. } | Self::NodeDown { .. })
    }
}

/// Slurm's own words for these would mislead.
fn silent(controllers: &str, daemon: bool, cause: Option<Cause>, right_key: bool) -> String {
    let whom = if daemon { " slurmd" } else { "" };
    match cause {
        Some(Cause::NameResolution) => format!("for a name of {controllers} to resolve on this machine"),
        Some(Cause::Authentication) if right_key => {
            format!("for {controllers}, which refuses this node: right key, so do clocks differ?")
        }
        Some(Cause::Clocks) => format!("for the clocks of {controllers} and this machine to agree"),
        Some(Cause::Authentication) => {
            format!("for the key of {controllers}: the one on this machine is refused")
        }
        None => format!("for {controllers} to answer{whom}"),
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
    let (Ok(NodeLookup::Present(record)), Ok(identity)) = (facts.node(), facts.identity()) else {
        return String::new();
    };
    let (state, app) = (word(record), identity.unit.app());
    // What an administrator wants is no fault; an old reason of a node that is back says nothing.
    let reason = if record.has("DRAIN") || record.has("FAIL") { record.reason.as_str() } else { "" };
    match facts.partition_state().ok().and_then(Option::as_deref) {
        Some(partition) if !partition.eq_ignore_ascii_case("UP") => {
            let by_option = facts.options().is_ok_and(|options| {
                options.partition.as_ref().is_ok_and(|partition| partition.get("State").is_some())
            });
            let way_out = match by_option {
                true => format!("see option {}", names::OPTION_PARTITION_CONFIG),
                false => format!("scontrol update partitionname={app} state=up"),
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
mod tests {
    use super::*;
    use crate::facts::{KeySecret, RemoteData};
    use crate::options::Given;
    use crate::world::{World, idle, set_aside, unreachable};
    use charm::runtime::Condition as _;
    use slurm_ops::packages::Obstacle;
    use slurm_unit::service::Running;

    fn record(states: &[&str], reason: &str) -> NodeRecord {
        let state = states.iter().map(|state| (*state).to_owned()).collect();
        NodeRecord { state, reason: reason.to_owned(), comment: "joined".to_owned(), ..idle() }
    }

    fn with_record(states: &[&str], reason: &str) -> World {
        World::joined().with_node(NodeLookup::Present(record(states, reason)))
    }

    #[test]
    fn a_usable_node_says_its_state_and_partition() {
        assert_eq!(World::joined().shown(), "active: idle, partition compute");
        assert_eq!(with_record(&["MIXED", "DYNAMIC_NORM"], "").shown(), "active: mixed, partition compute");
        assert_eq!(with_record(&["ALLOCATED"], "old story").shown(), "active: allocated, partition compute");
    }

    #[test]
    fn what_an_administrator_drained_is_active_and_says_why() {
        let shown = |states: &[&str]| with_record(states, "disk").shown();
        assert_eq!(shown(&["IDLE", "DRAIN"]), "active: drained, partition compute: disk");
        assert_eq!(shown(&["ALLOCATED", "DRAIN"]), "active: draining, partition compute: disk");
        assert_eq!(shown(&["IDLE", "FAIL"]), "active: fail, partition compute: disk");
        assert_eq!(shown(&["MIXED", "FAIL"]), "active: failing, partition compute: disk");
    }

    #[test]
    fn a_node_whose_partition_starts_no_jobs_says_so() {
        let mut world = World::joined();
        for state in ["DOWN", "DRAIN", "INACTIVE"] {
            world.partition_state = Some(state.to_owned());
            let way_out = "scontrol update partitionname=compute state=up";
            assert_eq!(world.shown(), format!("active: idle, partition compute is {state}: {way_out}"));
        }
        let mut world = World::joined().with_partition_config("State=DOWN");
        world.partition_state = Some("DOWN".to_owned());
        assert_eq!(world.shown(), "active: idle, partition compute is DOWN: see option partition-config");
    }

    #[test]
    fn a_node_that_is_down_needs_the_operator() {
        let world = with_record(&["DOWN", "DYNAMIC_NORM"], "Node unexpectedly rebooted");
        let expected = "blocked: down, partition compute: Node unexpectedly rebooted: run action resume";
        assert_eq!(world.shown(), expected);
        let world = with_record(&["IDLE", "DRAIN", "INVALID_REG"], "Low RealMemory");
        assert_eq!(world.shown(), "blocked: slurmctld refuses this node: Low RealMemory");
    }

    #[test]
    fn a_node_that_is_not_heard_is_awaited() {
        let mut world = with_record(&["DOWN", "NOT_RESPONDING"], "Not responding");
        assert_eq!(world.shown(), "waiting: for slurmctld to reach this node, down");
        world.cause = Some(Cause::Clocks);
        let expected = "waiting: for slurmctld to reach this node, down: its clock is behind this one";
        assert_eq!(world.shown(), expected);
    }

    #[test]
    fn a_clock_that_differs_is_named_before_it_costs_a_job() {
        let mut world = World::joined();
        world.timer = true;
        world.skew = Some(600);
        let expected = "blocked: this clock is 600 s ahead of slurmctld's: jobs fail here until they agree";
        assert_eq!(world.shown(), expected);
        assert!(world.dispatch().conditions.iter().any(charm::runtime::Condition::needs_retry));
        world.skew = Some(-90);
        assert!(world.shown().contains("90 s behind slurmctld's"));
    }

    #[test]
    fn registered_is_not_usable() {
        let record = NodeRecord { partitions: Vec::new(), ..idle() };
        let world = World::joined().with_node(NodeLookup::Present(record));
        assert_eq!(world.shown(), "waiting: for compute-0 to be in partition compute");
    }

    #[test]
    fn running_is_not_registered() {
        let mut world = World::joined().with_node(NodeLookup::Absent);
        world.daemon.with.as_mut().unwrap().controllers.clear();
        world.vain = vec![crate::step::Step::ReloadDaemon];
        assert_eq!(world.shown(), "waiting: for compute-0 to register");
        let mut world = World::joined().with_node(unreachable());
        assert_eq!(world.shown(), "waiting: for c1:6817 to answer");
        world.daemon.running = Running::Starting;
        world.key.modified = None;
        assert_eq!(world.shown(), "waiting: for c1:6817 to answer slurmd");
    }

    #[test]
    fn each_missing_thing_has_its_own_words() {
        assert_eq!(World::fresh().shown(), "blocked: no controller: `juju integrate compute slurmctld`");
        let world = World::fresh().related();
        assert_eq!(world.shown(), "waiting: for slurmctld to publish its address");
        let secret = |why| World::fresh().offered().with_secret(KeySecret::Unreadable(why)).shown();
        assert_eq!(secret(Unreadable::NotAllowed), "waiting: for slurmctld to share its key");
        assert_eq!(secret(Unreadable::NotFound), "waiting: for slurmctld to renew its key secret");
    }

    #[test]
    fn a_relation_that_juju_does_not_show_yet_is_awaited() {
        let mut world = World::fresh();
        world.relation_expected = true;
        assert_eq!(world.shown(), "waiting: for the relation with the controllers");
    }

    #[test]
    fn a_node_that_lost_its_relation_and_takes_jobs_says_so() {
        let mut world = World::joined();
        world.controller = None;
        assert!(world.shown().starts_with("blocked: not related, still in service: `juju integrate compute"));
        world.node = unreachable();
        assert_eq!(world.shown(), "blocked: no controller: `juju integrate compute slurmctld`");
    }

    #[test]
    fn a_bad_option_is_named_with_value_and_key_whatever_else_is() {
        let world = World::joined().with_partition_config("Hidden=2");
        let expected = "blocked: option partition-config `Hidden=2`: value `2` of Hidden: expected YES or NO";
        assert_eq!(world.shown(), expected);
        let world = World::joined().with_options(&Given { default_node_state: "up", ..Given::default() });
        assert_eq!(world.shown(), "blocked: option default-node-state `up`: expected `idle` or `down`");
    }

    #[test]
    fn unusable_data_names_its_application() {
        let mut world = World::joined();
        world.controller.as_mut().unwrap().data = RemoteData::Unusable("key controllers: not a list".to_owned());
        assert_eq!(world.shown(), "blocked: slurmctld: key controllers: not a list");
    }

    #[test]
    fn a_change_that_waits_says_for_what() {
        let world = World::joined().with_request("RealMemory=900").with_jobs(&[7]);
        assert_eq!(world.shown(), "active: idle, partition compute; node-config waits for job 7, `drain` helps");
        let mut world = world.with_jobs(&[7, 8, 9, 10]);
        set_aside(world.record_mut(), "DRAIN", "disk");
        assert_eq!(world.shown(), "active: drained, partition compute: disk; node-config waits for jobs 7,8,9,…");
    }

    #[test]
    fn reasons_from_the_journal_are_named_in_our_words() {
        let silent = |why: &str| World::joined().with_node(NodeLookup::Unreachable { why: why.to_owned() });
        let mut world = silent("getaddrinfo() failed");
        assert_eq!(world.shown(), "waiting: for a name of c1:6817 to resolve on this machine");
        world = silent("Protocol authentication error");
        world.key.modified = None;
        assert_eq!(world.shown(), "waiting: for c1:6817, which refuses this node: right key, so do clocks differ?");
        let world = world.with_secret(KeySecret::Unreadable(Unreadable::NotAllowed));
        assert_eq!(world.shown(), "waiting: for the key of c1:6817: the one on this machine is refused");
        let mut world = World::joined().failing(Some("fatal: failed to bind"));
        world.vain = vec![crate::step::Step::StartDaemon];
        assert_eq!(world.shown(), "blocked: slurmd fails (exit-code): fatal: failed to bind");
    }

    #[test]
    fn what_the_operator_has_to_mend_is_said() {
        let mut world = World::joined();
        world.installation.version = Some("26.05.1".parse().unwrap());
        let expected = "blocked: slurmd 26.05.1 is newer than slurmctld 24.11.5: upgrade slurmctld first";
        assert_eq!(world.shown(), expected);
        let mut world = World::joined();
        world.daemon.kill_mode = "control-group".to_owned();
        assert!(world.shown().starts_with("blocked: KillMode=control-group of slurmd kills jobs"));
    }

    #[test]
    fn what_keeps_slurm_from_being_installed_is_told_with_the_way_out() {
        let mut world = World::fresh().related();
        let way_out = "set option slurm-source, e.g. ppa:ubuntu-hpc/slurm-wlm-25.11";
        let old = Obstacle::TooOld { package: "slurmd".to_owned(), found: "23.11.4".to_owned() };
        world.apt = Some(old.clone());
        assert_eq!(world.shown(), format!("blocked: slurmd 23.11.4 is too old, 24.11 is needed: {way_out}"));
        world.apt = Some(Obstacle::Failed("no space left".to_owned()));
        assert_eq!(world.shown(), "blocked: installing slurmd failed: no space left");
        world = world.with_options(&Given { slurm_source: "ppa:a/b", ..Given::default() });
        assert_eq!(world.shown(), "blocked: option slurm-source: installing failed: no space left");
        world.apt = Some(Obstacle::Passing("Could not get lock".to_owned()));
        assert_eq!(world.shown(), "waiting: for apt: Could not get lock");
        world.installation.unfit = Some(old);
        world.daemon.running = Running::Up;
        let expected = "blocked: slurmd 23.11.4 is too old, 24.11 is needed, and it runs: stop slurmd, then set option slurm-source";
        assert_eq!(world.shown(), expected);
    }

    #[test]
    fn an_application_whose_name_slurm_keeps_for_itself_is_told_so() {
        let mut world = World::fresh();
        world.identity.unit = "all/0".parse().unwrap();
        let expected = "blocked: Slurm reserves the name all, so no partition can have it: deploy under another";
        assert_eq!(world.shown(), expected);
    }

    #[test]
    fn a_leaving_unit_is_never_blocked() {
        let mut world = World::fresh();
        world.identity.departs = true;
        assert_eq!(world.shown(), "maintenance: leaving");
    }

    #[test]
    fn what_an_operator_has_to_do_is_not_waited_for_by_the_timer() {
        let retries = |condition: &Condition| condition.needs_retry();
        assert!(!retries(&Condition::NotRelated { app: "compute".parse().unwrap() }));
        assert!(retries(&Condition::Stopped));
    }
}
