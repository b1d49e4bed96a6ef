//! What an operator reads about a compute unit. Pure, and about what is: the worst condition wins.

use crate::change;
use crate::names;
use crate::observe::{Controller, Daemon, Key, Observed, Occupancy, Offer, Record, Refused, Registration};
use crate::plan::{self, Phase};
use charm::Status;
use charm::tools::Unreadable;
use slurm_conf::{Node, PartitionName};
use slurm_interface::ControllerData;
use slurm_ops::journal::Cause;
use slurm_ops::packages::Obstacle;
use slurm_ops::source::Source;

/// Says how this unit is.
pub fn status(seen: &Observed) -> Status {
    if let Some(other) = seen.machine.occupant.as_ref().filter(|_| !seen.leaving) {
        return Status::blocked(format!("this machine is node {other} already: put {} on another one", seen.unit));
    }
    if seen.leaving {
        // Never blocked: Juju 4 drops a leaving unit that is.
        return Status::maintenance("leaving");
    }
    let app = seen.unit.app();
    if app.as_str().parse::<PartitionName>().is_err() {
        return Status::blocked(format!(
            "Slurm reserves the name {app}, so no partition can have it: deploy under another"
        ));
    }
    let mut conditions: Vec<Status> = seen
        .options
        .bad()
        .map(|bad| Status::blocked(format!("option {} `{}`: {}", bad.option, bad.value, bad.problem)))
        .collect();
    if let Err(problem) = &seen.machine.wish {
        conditions.push(Status::blocked(format!("{}: {problem}; mend it with node-config", names::NODE_CONFIG_FILE)));
    }
    // Our own drop-in says otherwise; it comes once there is a Slurm to use.
    if seen.machine.version.is_some() && !plan::spares_jobs(seen) {
        let mode = &seen.machine.kill_mode;
        let file = "/etc/systemd/system/slurmd.service.d";
        conditions.push(Status::blocked(format!("KillMode={mode} of slurmd kills jobs: see {file}")));
    }
    if seen.machine.version.is_none() {
        conditions.push(installation(seen));
    }
    conditions.push(match &seen.controller {
        None => {
            let app = seen.unit.app();
            Status::blocked(format!("no controller: `juju integrate {app} slurmctld`"))
        }
        Some(controller) => membership(seen, controller),
    });
    Status::worst(conditions).unwrap_or_else(|| Status::active(""))
}

/// Why there is no Slurm to work with.
fn installation(seen: &Observed) -> Status {
    let option = names::OPTION_SLURM_SOURCE;
    match (&seen.tried.install, &seen.machine.unfit) {
        (Some(obstacle), _) if obstacle.is_passing() => Status::waiting(format!("for apt: {}", obstacle.told())),
        (Some(Obstacle::Failed(why)), _) => match &seen.options.source {
            Ok(Source::Archive) => Status::blocked(format!("installing slurmd failed: {why}")),
            _ => Status::blocked(format!("option {option}: {why}")),
        },
        (Some(obstacle), _) => Status::blocked(obstacle.advice(option)),
        (None, Some(unfit)) if plan::is_in_use(seen) => {
            Status::blocked(format!("{}, and it runs: stop slurmd, then set option {option}", unfit.told()))
        }
        (None, Some(unfit)) => Status::blocked(unfit.advice(option)),
        (None, None) => Status::maintenance("installing slurmd"),
    }
}

/// How far the node has come on its way into the cluster.
fn membership(seen: &Observed, controller: &Controller) -> Status {
    let app = &controller.app;
    let data = match &controller.offer {
        Offer::Nothing => return Status::waiting(format!("for {app} to publish its address")),
        Offer::Unusable(why) => return Status::blocked(format!("{app}: {why}")),
        Offer::Data(data) => data,
    };
    if let Some((own, controllers)) = plan::too_new(seen) {
        return Status::blocked(format!("slurmd {own} is newer than slurmctld {controllers}: upgrade {app} first"));
    }
    if !seen.machine.key_on_disk {
        return no_key(seen, controller);
    }
    match &seen.machine.daemon {
        Daemon::Stopped => Status::waiting("for slurmd to start"),
        Daemon::Failing { result } => failing(seen, result),
        Daemon::Starting { .. } => silent(seen, data, " slurmd"),
        Daemon::Running { .. } => match &seen.machine.registration {
            Registration::Unreachable => silent(seen, data, ""),
            Registration::Absent => Status::waiting(format!("for {} to register", seen.node_name)),
            Registration::Present(record) => node(seen, record),
        },
    }
}

fn no_key(seen: &Observed, controller: &Controller) -> Status {
    let app = &controller.app;
    match seen.key {
        Key::Unreadable(Unreadable::NotFound) => Status::waiting(format!("for {app} to renew its key secret")),
        Key::Malformed => Status::waiting(format!("for {app} to put a key into its secret")),
        _ => Status::waiting(format!("for {app} to share its key")),
    }
}

/// A slurmd that fails again and again needs somebody; one that failed once is on its way back.
fn failing(seen: &Observed, result: &str) -> Status {
    let reason = seen.machine.complaint.as_deref().unwrap_or("see `journalctl -u slurmd`");
    Status::blocked(format!("slurmd fails ({result}): {reason}"))
}

/// Slurm's own words for these would mislead.
fn silent(seen: &Observed, data: &ControllerData, whom: &str) -> Status {
    let controllers = data.controllers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    match (seen.machine.cause, seen.key) {
        (Some(Cause::NameResolution), _) => {
            Status::waiting(format!("for a name of {controllers} to resolve on this machine"))
        }
        (Some(Cause::Authentication), Key::Offered { same_as_on_disk: true }) => {
            Status::waiting(format!("for {controllers}, which refuses this node: right key, so do clocks differ?"))
        }
        (Some(Cause::Clocks), _) => {
            Status::waiting(format!("for the clocks of {controllers} and this machine to agree"))
        }
        (Some(Cause::Authentication), _) => {
            Status::waiting(format!("for the key of {controllers}: the one on this machine is refused"))
        }
        (None, _) => Status::waiting(format!("for {controllers} to answer{whom}")),
    }
}

/// Running is not registered, and registered is not usable.
fn node(seen: &Observed, record: &Record) -> Status {
    let app = seen.unit.app();
    let state = record.state();
    let reason = match record.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    let refused = seen.machine.refused.as_ref();
    let refused = refused.map(|refused| format!("node-config: {}", refusal(refused, &seen.machine.proven)));
    let pending = pending(seen).or(refused).map(|what| format!("; {what}")).unwrap_or_default();
    if record.has("INVALID_REG")
        && let Some(lost) = plan::lost(seen)
    {
        return Status::blocked(format!(
            "this machine has only {lost}: mend it, or accept it with node-config reset=true"
        ));
    }
    if record.has("INVALID_REG") {
        return Status::blocked(format!("slurmctld refuses this node{reason}{pending}"));
    }
    if !record.partitions.iter().any(|partition| partition == app.as_str()) {
        return Status::waiting(format!("for {} to be in partition {app}", seen.node_name));
    }
    if let Some(skew) = seen.machine.skew {
        let (seconds, side) = (skew.unsigned_abs(), if skew > 0 { "ahead of" } else { "behind" });
        return Status::blocked(format!(
            "this clock is {seconds} s {side} slurmctld's: jobs fail here until they agree"
        ));
    }
    if !record.is_responding() {
        let why = match seen.machine.cause {
            Some(Cause::Clocks) => ": its clock is behind this one",
            Some(Cause::Authentication) => ": its key or clock is not this one's",
            Some(Cause::NameResolution) => ": a name does not resolve",
            None => "",
        };
        return Status::waiting(format!("for slurmctld to reach this node, {state}{why}"));
    }
    match record.base() {
        "DOWN" | "ERROR" | "UNKNOWN" | "FAIL" => {
            Status::blocked(format!("{state}, partition {app}{reason} (`resume` opens it){pending}"))
        }
        // What an administrator wants is no fault; an old reason of a node that is back says nothing.
        _ if record.has("DRAIN") || record.has("FAIL") => {
            Status::active(format!("{state}, partition {app}{reason}{pending}"))
        }
        _ => Status::active(format!("{state}, partition {app}{pending}")),
    }
}

/// Says which keys slurmd did not start with: those that were asked for beyond what had worked before.
pub fn refusal(refused: &Refused, proven: &Node) -> String {
    let mut news = Node::new();
    for (key, value) in refused.wish.options().filter(|(key, value)| proven.get(key) != Some(*value)) {
        news.set(key, value).expect("invariant: it was a value before");
    }
    format!("slurmd does not start with {news}: {}", refused.reason)
}

/// Says what a change of the node's description waits for.
pub fn pending(seen: &Observed) -> Option<String> {
    match plan::phase(seen) {
        Phase::Settled | Phase::Forget => return None,
        _ => {}
    }
    Some(match &seen.machine.occupancy {
        Some(Occupancy::Jobs(jobs)) => {
            let hint = match &seen.machine.registration {
                Registration::Present(record) if record.is_closed() && !change::is_ours(record) => "",
                _ => ", `drain` helps",
            };
            let noun = if jobs.len() == 1 { "job" } else { "jobs" };
            format!("node-config waits for {noun} {}{hint}", some(jobs))
        }
        Some(Occupancy::Reserved(reservations)) => {
            format!("node-config waits for reservation {}", some(reservations))
        }
        Some(Occupancy::Empty) | None => "node-config is being applied".to_owned(),
        Some(Occupancy::Unknown) => "node-config waits for slurmctld to answer".to_owned(),
    })
}

/// The first of several, and that there are more.
fn some<T: ToString>(items: &[T]) -> String {
    const SHOWN: usize = 3;
    let shown = items.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join(",");
    if items.len() > SHOWN { format!("{shown},…") } else { shown }
}

impl Record {
    fn base(&self) -> &str {
        self.states.first().map_or("UNKNOWN", String::as_str)
    }

    /// The state in the words of `sinfo`.
    pub fn state(&self) -> String {
        let resting = matches!(self.base(), "IDLE" | "DOWN");
        match (self.has("DRAIN"), self.has("FAIL")) {
            (true, _) if resting => "drained".to_owned(),
            (true, _) => "draining".to_owned(),
            (false, true) if self.base() == "IDLE" => "fail".to_owned(),
            (false, true) if !resting => "failing".to_owned(),
            _ => self.base().to_ascii_lowercase(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Given;
    use crate::plan::situations::idle;

    /// The text a unit shows, with Juju's word in front.
    fn shown(seen: &Observed) -> String {
        let status = status(seen);
        format!("{}: {}", status.word(), status.message())
    }

    fn with_record(states: &[&str], reason: &str) -> Observed {
        let states = states.iter().map(|state| (*state).to_owned()).collect();
        let record = Record { states, reason: reason.to_owned(), ..idle() };
        Observed::joined().with_registration(Registration::Present(record))
    }

    #[test]
    fn a_usable_node_says_its_state_and_partition() {
        assert_eq!(shown(&Observed::joined()), "active: idle, partition compute");
        assert_eq!(shown(&with_record(&["MIXED", "DYNAMIC_NORM"], "")), "active: mixed, partition compute");
        assert_eq!(shown(&with_record(&["ALLOCATED"], "old story")), "active: allocated, partition compute");
    }

    #[test]
    fn what_an_administrator_drained_is_active_and_says_why() {
        assert_eq!(shown(&with_record(&["IDLE", "DRAIN"], "disk")), "active: drained, partition compute: disk");
        assert_eq!(shown(&with_record(&["ALLOCATED", "DRAIN"], "disk")), "active: draining, partition compute: disk");
        assert_eq!(shown(&with_record(&["IDLE", "FAIL"], "disk")), "active: fail, partition compute: disk");
        assert_eq!(shown(&with_record(&["MIXED", "FAIL"], "disk")), "active: failing, partition compute: disk");
    }

    #[test]
    fn a_node_that_is_down_needs_the_operator() {
        let seen = with_record(&["DOWN", "DYNAMIC_NORM"], "Node unexpectedly rebooted");
        let expected = "blocked: down, partition compute: Node unexpectedly rebooted (`resume` opens it)";
        assert_eq!(shown(&seen), expected);
        let seen = with_record(&["IDLE", "DRAIN", "INVALID_REG"], "Low RealMemory");
        assert_eq!(shown(&seen), "blocked: slurmctld refuses this node: Low RealMemory");
    }

    #[test]
    fn a_node_that_is_not_heard_is_awaited() {
        let seen = with_record(&["DOWN", "NOT_RESPONDING"], "Not responding");
        assert_eq!(shown(&seen), "waiting: for slurmctld to reach this node, down");
        let mut seen = seen;
        seen.machine.cause = Some(Cause::Clocks);
        let expected = "waiting: for slurmctld to reach this node, down: its clock is behind this one";
        assert_eq!(shown(&seen), expected);
    }

    #[test]
    fn a_clock_that_differs_is_named_before_it_costs_a_job() {
        let mut seen = Observed::joined();
        seen.machine.skew = Some(600);
        let expected = "blocked: this clock is 600 s ahead of slurmctld's: jobs fail here until they agree";
        assert_eq!(shown(&seen), expected);
        assert_eq!(plan::plan(&seen).next, charm::Next::LookAgain);
        seen.machine.skew = Some(-90);
        assert!(shown(&seen).contains("90 s behind slurmctld's"));
    }

    #[test]
    fn registered_is_not_usable() {
        let record = Record { partitions: Vec::new(), ..idle() };
        let seen = Observed::joined().with_registration(Registration::Present(record));
        assert_eq!(shown(&seen), "waiting: for compute-0 to be in partition compute");
    }

    #[test]
    fn running_is_not_registered() {
        let seen = Observed::joined().with_registration(Registration::Absent);
        assert_eq!(shown(&seen), "waiting: for compute-0 to register");
        let seen = Observed::joined().with_registration(Registration::Unreachable);
        assert_eq!(shown(&seen), "waiting: for c1:6817 to answer");
        let mut seen = seen;
        seen.machine.daemon = Daemon::Starting { with: None };
        assert_eq!(shown(&seen), "waiting: for c1:6817 to answer slurmd");
    }

    #[test]
    fn each_missing_thing_has_its_own_words() {
        assert_eq!(shown(&Observed::fresh().settled()), "blocked: no controller: `juju integrate compute slurmctld`");
        let seen = Observed::fresh().related().settled();
        assert_eq!(shown(&seen), "waiting: for slurmctld to publish its address");
        let seen = Observed::fresh().offered().with_key(Key::Unreadable(Unreadable::NotAllowed)).settled();
        assert_eq!(shown(&seen), "waiting: for slurmctld to share its key");
        let seen = Observed::fresh().offered().with_key(Key::Unreadable(Unreadable::NotFound)).settled();
        assert_eq!(shown(&seen), "waiting: for slurmctld to renew its key secret");
    }

    #[test]
    fn a_bad_option_is_named_with_value_and_key_whatever_else_is() {
        let seen = Observed::joined().with_partition_config("Hidden=2");
        assert_eq!(
            shown(&seen),
            "blocked: option partition-config `Hidden=2`: value `2` of Hidden: expected YES or NO"
        );
        let seen = Observed::joined().with_options(&Given { default_node_state: "up", ..Given::default() });
        assert_eq!(shown(&seen), "blocked: option default-node-state `up`: expected `idle` or `down`");
    }

    #[test]
    fn unusable_data_names_its_application() {
        let mut seen = Observed::joined();
        seen.controller.as_mut().unwrap().offer = Offer::Unusable("key controllers: not a list".to_owned());
        assert_eq!(shown(&seen), "blocked: slurmctld: key controllers: not a list");
    }

    #[test]
    fn a_change_that_waits_says_for_what() {
        let seen = Observed::joined().with_wish("RealMemory=900").with_jobs(&[7]);
        assert_eq!(shown(&seen), "active: idle, partition compute; node-config waits for job 7, `drain` helps");
        let mut seen = seen.with_jobs(&[7, 8, 9, 10]);
        seen.record_mut().set_aside("DRAIN", "disk");
        assert_eq!(shown(&seen), "active: drained, partition compute: disk; node-config waits for jobs 7,8,9,…");
        seen.machine.occupancy = Some(Occupancy::Reserved(vec!["r1".to_owned()]));
        assert!(shown(&seen).ends_with("; node-config waits for reservation r1"));
    }

    #[test]
    fn reasons_from_the_journal_are_named_in_our_words() {
        let mut seen = Observed::joined().with_registration(Registration::Unreachable);
        seen.machine.cause = Some(Cause::NameResolution);
        assert_eq!(shown(&seen), "waiting: for a name of c1:6817 to resolve on this machine");
        seen.machine.cause = Some(Cause::Authentication);
        assert_eq!(shown(&seen), "waiting: for c1:6817, which refuses this node: right key, so do clocks differ?");
        seen.key = Key::Unreadable(Unreadable::NotAllowed);
        assert_eq!(shown(&seen), "waiting: for the key of c1:6817: the one on this machine is refused");
        seen.machine.daemon = Daemon::Failing { result: "exit-code".to_owned() };
        seen.machine.complaint = Some("fatal: failed to create dynamic node".to_owned());
        assert_eq!(shown(&seen), "blocked: slurmd fails (exit-code): fatal: failed to create dynamic node");
    }

    #[test]
    fn what_the_operator_has_to_mend_is_said() {
        let mut seen = Observed::joined();
        seen.machine.version = Some("26.05.1".parse().unwrap());
        let expected = "blocked: slurmd 26.05.1 is newer than slurmctld 24.11.5: upgrade slurmctld first";
        assert_eq!(shown(&seen), expected);
        let mut seen = Observed::joined();
        seen.machine.kill_mode = "control-group".to_owned();
        assert!(shown(&seen).starts_with("blocked: KillMode=control-group of slurmd kills jobs"));
        let mut seen = Observed::joined();
        seen.machine.wish = Err("expected `Key=Value`".to_owned());
        assert!(shown(&seen).starts_with("blocked: /var/lib/slurmd-charm/node-config: expected `Key=Value`"));
    }

    #[test]
    fn what_keeps_slurm_from_being_installed_is_told_with_the_way_out() {
        let mut seen = Observed::fresh().related();
        let way_out = "set option slurm-source, e.g. ppa:ubuntu-hpc/slurm-wlm-25.11";
        let old = Obstacle::TooOld { package: "slurmd".to_owned(), found: "23.11.4".to_owned() };
        seen.tried.install = Some(old.clone());
        assert_eq!(shown(&seen), format!("blocked: slurmd 23.11.4 is too old, 24.11 is needed: {way_out}"));
        seen.tried.install = Some(Obstacle::Unknown { package: "slurmd".to_owned() });
        assert_eq!(shown(&seen), format!("blocked: apt knows no package slurmd: {way_out}"));
        seen.tried.install = Some(Obstacle::Failed("no space left".to_owned()));
        assert_eq!(shown(&seen), "blocked: installing slurmd failed: no space left");
        seen = seen.with_options(&Given { slurm_source: "ppa:a/b", ..Given::default() });
        assert_eq!(shown(&seen), "blocked: option slurm-source: no space left");
        seen.tried.install = Some(Obstacle::Passing("Could not get lock".to_owned()));
        assert_eq!(shown(&seen), "waiting: for apt: Could not get lock");
        seen.tried.install = None;
        seen.machine.unfit = Some(old);
        seen.machine.daemon = Daemon::Running { with: None };
        let expected = "blocked: slurmd 23.11.4 is too old, 24.11 is needed, and it runs: stop slurmd, then set option slurm-source";
        assert_eq!(shown(&seen), expected);
    }

    #[test]
    fn an_application_whose_name_slurm_keeps_for_itself_is_told_so() {
        let mut seen = Observed::fresh();
        seen.unit = "all/0".parse().unwrap();
        let expected = "blocked: Slurm reserves the name all, so no partition can have it: deploy under another";
        assert_eq!(shown(&seen), expected);
    }

    #[test]
    fn a_leaving_unit_is_never_blocked() {
        let mut seen = Observed::fresh();
        seen.leaving = true;
        assert_eq!(shown(&seen), "maintenance: leaving");
    }
}
