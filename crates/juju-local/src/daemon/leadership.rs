//! Leadership: a lease that the leader's agent keeps alive by being there, and that another unit takes when it runs
//! out.

use super::State;
use crate::clock::Moment;
use crate::model::Life;
use crate::names::UnitName;

const LEASE_MILLIS: u64 = 60_000;

/// Renews the leases of leaders whose agent is connected, and gives expired ones to a unit whose agent is.
pub(super) fn renew(state: &mut State) {
    let now = Moment::now();
    let names: Vec<String> = state.model.applications.keys().cloned().collect();
    for name in names {
        let connected = |state: &State, unit: &UnitName| {
            let record = state.model.units.get(unit);
            record.is_some_and(|record| state.is_present(&record.machine) && record.uniter.charm.is_some())
        };
        let Some(application) = state.model.applications.get(&name) else { continue };
        let leader = application.leader.clone();
        let held = leader.as_ref().is_some_and(|leader| state.model.units.contains_key(leader));
        // A lease counts from the last word of its holder, not from when the holder is taken for lost.
        let heard = leader
            .as_ref()
            .filter(|leader| connected(state, leader))
            .and_then(|leader| state.model.units.get(leader))
            .and_then(|unit| state.heard.get(&unit.machine).copied());
        let expired = application.lease_until <= now || !held;
        let heir = state
            .model
            .units_of(&name)
            .filter(|unit| unit.life == Life::Alive && connected(state, &unit.name))
            .map(|unit| unit.name.clone())
            .min_by_key(UnitName::number);
        let Some(application) = state.model.applications.get_mut(&name) else { continue };
        if let Some(heard) = heard {
            application.lease_until = heard.plus_millis(LEASE_MILLIS);
        } else if expired && let Some(heir) = heir {
            application.leader = Some(heir.clone());
            application.lease_until = now.plus_millis(LEASE_MILLIS);
            state.dirty = true;
        }
        forget_deposed(state, &name);
    }
}

/// A daemon that comes back gives leaders as much time as they had: nobody could keep a lease alive while there was
/// none.
pub(super) fn extend(state: &mut State) {
    let until = Moment::now().plus_millis(LEASE_MILLIS);
    state.model.applications.values_mut().for_each(|application| application.lease_until = until);
}

/// A unit that lost the leadership hears `leader-elected` again when it gets it back.
fn forget_deposed(state: &mut State, application: &str) {
    let leader = state.model.applications.get(application).and_then(|application| application.leader.clone());
    for unit in state.model.units.values_mut().filter(|unit| unit.name.application() == application) {
        if leader.as_ref() != Some(&unit.name) {
            unit.uniter.leader_seen = false;
        }
    }
}
