//! What an operator reads about a compute unit. Pure, and about what is: the worst condition wins.

use crate::observe::{Controller, Daemon, Key, Observed, Offer, Record, Registration};
use crate::plan::Step;
use charm::Status;
use charm::tools::Unreadable;

/// Says how this unit is.
pub fn status(seen: &Observed) -> Status {
    if seen.leaving {
        // Never blocked: Juju 4 drops a leaving unit that is.
        return Status::maintenance("leaving");
    }
    let mut conditions = Vec::new();
    if let Err(bad) = &seen.partition {
        conditions.push(Status::blocked(format!("option {} `{}`: {}", bad.option, bad.value, bad.problem)));
    }
    if seen.machine.version.is_none() {
        conditions.push(Status::maintenance("installing slurmd"));
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

/// Says what a slow step is doing.
pub fn announce(step: &Step) -> Option<Status> {
    match step {
        Step::InstallPackages => Some(Status::maintenance("installing slurmd")),
        _ => None,
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
    if !seen.machine.key_on_disk {
        return match seen.key {
            Key::Unreadable(Unreadable::NotFound) => Status::waiting(format!("for {app} to renew its key secret")),
            Key::Malformed => Status::waiting(format!("for {app} to put a key into its secret")),
            _ => Status::waiting(format!("for {app} to share its key")),
        };
    }
    let controllers = data.controllers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    match &seen.machine.daemon {
        Daemon::Stopped => Status::waiting("for slurmd to start"),
        Daemon::Failing { result } => {
            Status::waiting(format!("for slurmd, which fails ({result}): see `journalctl -u slurmd`"))
        }
        Daemon::Starting => Status::waiting(format!("for {controllers} to answer slurmd")),
        Daemon::Running { .. } => match &seen.machine.registration {
            Registration::Unreachable => Status::waiting(format!("for {controllers} to answer")),
            Registration::Absent => Status::waiting(format!("for {} to register", seen.node_name)),
            Registration::Present(record) => node(seen, record),
        },
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
    if record.has("INVALID_REG") {
        return Status::blocked(format!("slurmctld refuses this node{reason}"));
    }
    if !record.partitions.iter().any(|partition| partition == app.as_str()) {
        return Status::waiting(format!("for {} to be in partition {app}", seen.node_name));
    }
    if !record.is_responding() {
        return Status::waiting(format!("for slurmctld to reach this node, {state}"));
    }
    match record.base() {
        "DOWN" | "ERROR" | "UNKNOWN" | "FAIL" => Status::blocked(format!("{state}, partition {app}{reason}")),
        // What an administrator wants is no fault; an old reason of a node that is back says nothing.
        _ if record.has("DRAIN") || record.has("FAIL") => Status::active(format!("{state}, partition {app}{reason}")),
        _ => Status::active(format!("{state}, partition {app}")),
    }
}

impl Record {
    fn has(&self, state: &str) -> bool {
        self.states.iter().any(|known| known == state)
    }

    fn base(&self) -> &str {
        self.states.first().map_or("UNKNOWN", String::as_str)
    }

    /// Says whether the controllers hear from the node.
    pub fn is_responding(&self) -> bool {
        !self.has("NOT_RESPONDING")
    }

    /// The state in the words of `sinfo`.
    fn state(&self) -> String {
        match (self.base(), self.has("DRAIN")) {
            ("IDLE" | "DOWN", true) => "drained".to_owned(),
            (_, true) => "draining".to_owned(),
            (base, false) => base.to_ascii_lowercase(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    }

    #[test]
    fn a_node_that_is_down_needs_the_operator() {
        let seen = with_record(&["DOWN", "DYNAMIC_NORM"], "Node unexpectedly rebooted");
        assert_eq!(shown(&seen), "blocked: down, partition compute: Node unexpectedly rebooted");
        let seen = with_record(&["IDLE", "DRAIN", "INVALID_REG"], "Low RealMemory");
        assert_eq!(shown(&seen), "blocked: slurmctld refuses this node: Low RealMemory");
    }

    #[test]
    fn a_node_that_is_not_heard_is_awaited() {
        let seen = with_record(&["DOWN", "NOT_RESPONDING"], "Not responding");
        assert_eq!(shown(&seen), "waiting: for slurmctld to reach this node, down");
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
        seen.machine.daemon = Daemon::Starting;
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
        assert_eq!(shown(&seen), "blocked: option partition-config `Hidden=2`: value `2` of Hidden: expected YES or NO");
    }

    #[test]
    fn unusable_data_names_its_application() {
        let mut seen = Observed::joined();
        seen.controller.as_mut().unwrap().offer = Offer::Unusable("key controllers: not a list".to_owned());
        assert_eq!(shown(&seen), "blocked: slurmctld: key controllers: not a list");
    }

    #[test]
    fn a_leaving_unit_is_never_blocked() {
        let mut seen = Observed::fresh();
        seen.leaving = true;
        assert_eq!(shown(&seen), "maintenance: leaving");
    }
}
