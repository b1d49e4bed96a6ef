//! What happens while a unit waits in a hook: everybody else goes on.

use super::{Agenda, Impossible, Model};
use crate::machine::FakeMachine;
use charm::UnitName;
use std::sync::{Arc, Mutex, PoisonError};

/// What a test wants to happen while a unit waits.
pub(in crate::model) type Meanwhile = dyn Fn(&Model, &UnitName, usize) + Send + Sync;

/// A unit that is in a hook, until this is dropped.
pub(super) struct InHook {
    agenda: Arc<Mutex<Agenda>>,
    unit: UnitName,
}

impl Drop for InHook {
    fn drop(&mut self) {
        self.agenda.lock().unwrap_or_else(PoisonError::into_inner).in_hook.remove(&self.unit);
    }
}

impl Model {
    /// Has this happen whenever a unit that has a machine pauses in a hook. It is told which unit, and how often that
    /// hook has paused before. No lock is held, so it may do what any test does: end a job, restart slurmctld, run the
    /// hooks and timers of the others ([`run_round`](Model::run_round), [`tick`](Model::tick)). If one of those pauses
    /// in turn, this is called for that one, and the first goes on after it.
    pub fn while_waiting(&self, act: impl Fn(&Model, &UnitName, usize) + Send + Sync + 'static) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(act));
    }

    /// A machine does not hold its model, which holds the machine.
    pub(super) fn hear_pauses(&self, unit: &UnitName, machine: &FakeMachine) {
        let (state, agenda, waiting) =
            (Arc::downgrade(&self.state), Arc::downgrade(&self.agenda), Arc::downgrade(&self.waiting));
        let (knife, unit) = (self.knife.clone(), unit.clone());
        machine.tell_model(move |count| {
            let (Some(state), Some(agenda), Some(waiting)) = (state.upgrade(), agenda.upgrade(), waiting.upgrade())
            else {
                return;
            };
            let act = waiting.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let model = Model { state, knife: knife.clone(), agenda, waiting };
            model.sweep();
            if let Some(act) = act {
                act(&model, &unit, count);
            }
        });
    }

    /// A unit runs one hook at a time.
    pub(super) fn enter(&self, unit: &UnitName) -> Result<InHook, Impossible> {
        if !self.agenda().in_hook.insert(unit.clone()) {
            return Err(Impossible::new(format!("{unit} is in a hook")));
        }
        Ok(InHook { agenda: Arc::clone(&self.agenda), unit: unit.clone() })
    }
}
