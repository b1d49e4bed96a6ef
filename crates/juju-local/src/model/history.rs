//! Earlier statuses of units, applications and machines, as `juju show-status-log` lists them. A bounded number of
//! each.

use serde::{Deserialize, Serialize};

use super::{Model, Status, StatusInfo};
use crate::clock::Moment;

const MOST: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PastKind {
    Workload,
    UnitAgent,
    Application,
    Machine,
    MachineAgent,
}

impl PastKind {
    pub fn name(self) -> &'static str {
        match self {
            PastKind::Workload => "workload",
            PastKind::UnitAgent => "juju-unit",
            PastKind::Application => "application",
            PastKind::Machine => "machine",
            PastKind::MachineAgent => "juju-machine",
        }
    }
}

/// One status that something had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    pub kind: PastKind,
    pub status: Status,
    pub message: String,
    pub since: Moment,
}

impl Model {
    /// Writes down every status that is new since the last time.
    pub fn note_statuses(&mut self) {
        let mut seen: Vec<(String, PastKind, StatusInfo)> = Vec::new();
        for unit in self.units.values() {
            seen.push((unit.name.to_string(), PastKind::UnitAgent, unit.agent.clone()));
            seen.push((unit.name.to_string(), PastKind::Workload, unit.workload.clone()));
        }
        for application in self.applications.values() {
            let status = application.status.clone();
            seen.extend(status.map(|status| (application.name.clone(), PastKind::Application, status)));
        }
        for machine in self.machines.values() {
            seen.push((machine.id.clone(), PastKind::MachineAgent, machine.agent.clone()));
            seen.push((machine.id.clone(), PastKind::Machine, machine.instance.clone()));
        }
        let known = |entity: &str| {
            self.applications.contains_key(entity)
                || self.machines.contains_key(entity)
                || self.units.contains_key(entity)
        };
        let gone: Vec<String> = self.history.keys().filter(|entity| !known(entity)).cloned().collect();
        for entity in gone {
            self.history.remove(&entity);
        }
        for (entity, kind, info) in seen {
            note(self.history.entry(entity).or_default(), kind, info);
        }
    }
}

fn note(entries: &mut Vec<Past>, kind: PastKind, info: StatusInfo) {
    let last = entries.iter().rev().find(|past| past.kind == kind);
    let same = last.is_some_and(|past| past.status == info.current && past.message == info.message);
    if same {
        return;
    }
    entries.push(Past { kind, status: info.current, message: info.message, since: info.since });
    if entries.len() > MOST {
        entries.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_is_noted() {
        let mut entries = Vec::new();
        note(&mut entries, PastKind::Workload, StatusInfo::new(Status::Active, "ready"));
        note(&mut entries, PastKind::UnitAgent, StatusInfo::new(Status::Idle, ""));
        note(&mut entries, PastKind::Workload, StatusInfo::new(Status::Active, "ready"));
        assert_eq!(entries.len(), 2);
    }

    #[test]
    fn the_oldest_goes() {
        let mut entries = Vec::new();
        note(&mut entries, PastKind::Workload, StatusInfo::new(Status::Active, "ready"));
        for number in 0..MOST {
            note(&mut entries, PastKind::Workload, StatusInfo::new(Status::Active, number.to_string()));
        }
        assert_eq!(entries.len(), MOST);
        assert_eq!(entries[0].message, "0");
    }
}
