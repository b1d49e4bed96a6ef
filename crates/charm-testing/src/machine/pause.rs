//! What happens while a hook of a machine pauses. No time really passes.

use super::{FakeMachine, Programs};
use crate::knife::Killed;
use std::panic::resume_unwind;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

/// What happens while a hook of this machine pauses.
#[derive(Clone, Default)]
pub(super) struct Meanwhile {
    waited: Duration,
    /// The machine is not there any more for whoever pauses once more.
    given_back: bool,
    /// It lost its power while a hook paused.
    pub(super) cut: bool,
    /// What a test wants to happen, and what its model does.
    test: Option<Arc<dyn Fn(usize) + Send + Sync>>,
    model: Option<Arc<dyn Fn(usize) + Send + Sync>>,
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Meanwhile({:?})", self.waited)
    }
}

impl FakeMachine {
    /// Gives the machine back: nobody runs there any more, and jobs that did are lost. A hook that pauses goes on until
    /// it pauses again.
    pub(crate) fn give_back(&self) {
        self.programs.meanwhile().given_back = true;
        self.programs.slurm().lock().give_back(self.programs.root.path());
    }

    /// Has this happen whenever a hook of this machine pauses. It is told how often that hook has paused before, and
    /// may do whatever a test may: no lock is held. [`Model::while_waiting`](crate::Model::while_waiting) is for all
    /// machines at once.
    pub fn while_waiting(&self, act: impl Fn(usize) + Send + Sync + 'static) {
        self.programs.meanwhile().test = Some(Arc::new(act));
    }

    pub(crate) fn tell_model(&self, act: impl Fn(usize) + Send + Sync + 'static) {
        self.programs.meanwhile().model = Some(Arc::new(act));
    }

    /// Returns how long all hooks of this machine have paused, in made-up time.
    pub fn waited(&self) -> Duration {
        self.programs.meanwhile().waited
    }
}

impl Programs {
    pub(super) fn meanwhile(&self) -> MutexGuard<'_, Meanwhile> {
        self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn let_pass(&self, length: Duration) {
        if self.meanwhile().given_back {
            resume_unwind(Box::new(Killed));
        }
        let count = self.knife().pause(&self.unit, format!("pause {} s", length.as_secs()));
        let meanwhile = {
            let mut meanwhile = self.meanwhile();
            meanwhile.waited += length;
            meanwhile.cut = false;
            meanwhile.clone()
        };
        self.slurm().lock().pass(length);
        for act in [meanwhile.test, meanwhile.model].into_iter().flatten() {
            act(count);
        }
        if self.meanwhile().cut {
            resume_unwind(Box::new(Killed));
        }
    }
}
